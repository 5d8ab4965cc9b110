"""AUTO CDC from snapshots: the same version again, columns of later ones, clocks, and flows of another kind."""

import datetime as dt

import pytest
from tests.pipelines.conftest import refusal

from rivermouth.pipelines.running.workspace import Workspace

SNAPSHOTS = """
import pathlib
from pyspark import pipelines as dp

def next_snapshot(latest):
    there = sorted(int(file.stem) for file in pathlib.Path("{folder}").glob("*.json"))
    new = [version for version in there if latest is None or version > latest]
    return (spark.read.json(f"{folder}/{new[0]}.json"), new[0]) if new else None

@dp.temporary_view
def source():
    return spark.read.json("{folder}/" + max(file.name for file in pathlib.Path("{folder}").glob("*.json")))

dp.create_streaming_table("versions")
dp.create_auto_cdc_from_snapshot_flow(
    "versions", next_snapshot, keys=["id"], stored_as_scd_type=2, track_history_column_list=["email"], once=False
)
dp.create_streaming_table("once")
dp.create_auto_cdc_from_snapshot_flow("once", next_snapshot, keys=["id"], once=True)
dp.create_streaming_table("newest")
dp.create_auto_cdc_from_snapshot_flow("newest", "source", keys=["id"])
"""
NOW = dt.datetime(2030, 1, 31, tzinfo=dt.UTC)


@pytest.mark.long
def test_a_version_comes_again_after_a_reset_and_the_first_one_may_lack_columns(folder, monkeypatch):
    def run(**selection):
        found = folder.run(**selection)
        assert {each.error and str(each.error) for each in found.values()} == {None}
        return found

    monkeypatch.setattr(Workspace, "now", lambda _: NOW)
    folder.write("src/a.py", SNAPSHOTS.replace("{folder}", str(folder.folder / "snapshots")))
    folder.feed("snapshots/7.json", {"id": 1, "email": "x", "name": "a"}, {"id": 2, "email": "y", "name": "b"})
    run()
    # The version that the target has, with other rows.
    folder.feed("snapshots/7.json", {"id": 1, "email": "x", "name": "A"}, {"id": 3, "email": "z", "name": "c"})
    run(reset_checkpoint=("versions",))
    columns = "id, email, name, __START_AT, __END_AT"
    assert folder.rows("default.versions", columns) == [(1, "x", "A", 7, None), (3, "z", "c", 7, None)]

    # Snapshots that lack a column, a clock that was put back, and a flow that has run.
    monkeypatch.setattr(Workspace, "now", lambda _: NOW - dt.timedelta(days=1))
    folder.feed("snapshots/6.json", {"id": 4, "name": "d"})
    folder.feed("snapshots/8.json", {"id": 1, "name": "B"})
    found = run()
    versions = [(1, "x", "A", 7, 8), (1, None, "B", 8, None), (3, "z", "c", 7, 8)]
    assert folder.rows("default.versions", columns) == sorted(versions, key=repr)
    assert folder.rows("default.newest", "id, name") == [(1, "B")]
    assert (found["once"].counts.read, found["once"].reason) == (0, "it has run")
    assert folder.rows("default.once", "id, name") == [(1, "a"), (2, "b")]
    plan = folder.plan()
    assert [plan[name].flows[0].action for name in ("versions", "once", "newest")] == ["run", "nothing", "run"]
    # A full refresh leaves the column in the table.
    assert folder.plan(full_refresh=("versions",), accepts_loss=True)["versions"].new_columns == ()


KINDS = """
from pyspark import pipelines as dp

SCHEMA = "id bigint, name string, ts bigint"

@dp.temporary_view
def changes():
    return spark.readStream.schema(SCHEMA).json("in")

def snapshots(latest):
    return (spark.createDataFrame([(1, "a")], "id bigint, name string"), 1) if latest is None else None

def rows():
    return spark.read{STREAM}.schema(SCHEMA).json("in").select("id", "name")

def of_changes(target):
    dp.create_auto_cdc_flow(target, "changes", ["id"], "ts", column_list=["id", "name"])

def of_snapshots(target):
    dp.create_auto_cdc_from_snapshot_flow(target, snapshots, keys=["id"])

for name in ("one", "other", "plain"):
    dp.create_streaming_table(name)
{ONE}("one")
{OTHER}("other")
dp.append_flow("plain", name="plain", once={ONCE})(rows)
"""
KIND = (
    "[FLOW_KIND_CHANGED] flow {name}: its ledger entries are of {before}, and it reads {now}; the flow was not "
    "started\n"
    "  at: src/a.py:{line}\n"
    "  hint: rivermouth run --full-refresh {name}, or give the flow another name"
)


def define(folder, **texts):
    text = KINDS
    for name, value in texts.items():
        text = text.replace(f"{{{name}}}", value)
    folder.write("src/a.py", text)


def test_a_stream_that_becomes_one_batch_is_not_started_under_the_same_name(folder):
    for stream, once in (("Stream", "False"), ("", "True")):
        define(folder, ONE="of_snapshots", OTHER="of_changes", STREAM=stream, ONCE=once)
        folder.feed("in/1.json", {"id": 1, "name": "a", "ts": 1})
        found = folder.run(refresh=("plain",))["plain"]
    assert str(found.error) == KIND.format(name="plain", before="a stream", now="one batch", line=26)
    assert folder.rows("default.plain") == [(1, "a")]


@pytest.mark.long
def test_a_flow_of_another_kind_is_not_started_under_the_same_name(folder):
    define(folder, ONE="of_snapshots", OTHER="of_changes", STREAM="Stream", ONCE="False")
    folder.feed("in/1.json", {"id": 1, "name": "a", "ts": 1})
    assert {each.error and str(each.error) for each in folder.run().values()} == {None}
    define(folder, ONE="of_changes", OTHER="of_snapshots", STREAM="", ONCE="True")
    texts = {
        "one": KIND.format(name="one", before="snapshots", now="a stream", line=17),
        "other": KIND.format(name="other", before="a stream", now="snapshots", line=20),
        "plain": KIND.format(name="plain", before="a stream", now="one batch", line=26),
    }
    assert {name: str(each.error) for name, each in folder.run().items()} == texts
    for name in ("one", "other"):
        assert refusal(lambda name=name: folder.plan(refresh=(name,))) == texts[name]
    assert folder.run(full_refresh=("one",))["one"].error is None
    assert folder.rows("default.one") == [(1, "a")]
