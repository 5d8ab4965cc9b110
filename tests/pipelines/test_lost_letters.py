"""Dead letters of a batch that ended behind its commit, where the checkpoint is lost."""

import shutil

import pytest

from rivermouth.domain.query.query_entry import QueryEntry
from rivermouth.ports.internals import sessions
from rivermouth.ports.lake.lake_files import files_for
from rivermouth.side_tables.held_letters import HeldLetters

PYTHON = """
from pyspark import pipelines as dp

def rows(place):
    return spark.readStream.schema("id bigint").json(place)

@dp.table
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def one():
    return rows("a")

@dp.table
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def two():
    return rows("a").unionByName(rows("b"))

@dp.temporary_view
def changes():
    return rows("b")

dp.create_streaming_table("keyed", expect_all_or_dead_letter={"good": "id % 2 = 0"})
dp.create_streaming_table("filled", expect_all_or_dead_letter={"good": "id % 2 = 0"})

@dp.append_flow(target="filled", once=True)
def fill():
    return spark.range(21, 24)

dp.create_auto_cdc_flow(target="keyed", source="changes", keys=["id"], sequence_by="id")
"""
TABLES = ("one", "two", "keyed", "filled")


def letters(folder, table):
    return folder.rows(f"default.{table}__dead_letters", "\"row\"['id']")


def ended(folder, done=()):
    def end(step):
        if step == "dead_letters":
            raise RuntimeError(step)

    found = folder.run(step=end)
    assert [name for name, each in found.items() if each.result != "failed"] == [*done]
    shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")


@pytest.mark.long
def test_dead_letters_come_though_their_batch_is_in_the_table_and_the_checkpoint_is_gone(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("a/1.json", {"id": 1}, {"id": 2})
    folder.feed("b/1.json", {"id": 11}, {"id": 12})
    ended(folder)
    folder.feed("a/2.json", {"id": 3}, {"id": 4})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(TABLES)
    assert letters(folder, "one") == [(1,), (3,)]
    assert letters(folder, "two") == [(1,), (11,), (3,)]
    assert letters(folder, "keyed") == [(11,)]
    assert letters(folder, "filled") == [(21,), (23,)]
    # Behind a batch with files of one source alone, and of the other.
    folder.feed("a/3.json", {"id": 5}, {"id": 6})
    folder.run(refresh=("one", "two"))
    folder.feed("a/4.json", {"id": 7})
    folder.feed("b/4.json", {"id": 13}, {"id": 14})
    ended(folder, done=["filled"])
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(TABLES)
    assert folder.rows("default.one") == [(2,), (4,), (6,)]
    assert folder.rows("default.two") == [(12,), (14,), (2,), (4,), (6,)]
    assert folder.rows("default.keyed") == [(12,), (14,)]
    assert letters(folder, "one") == [(1,), (3,), (5,), (7,)]
    assert letters(folder, "two") == [(1,), (11,), (13,), (3,), (5,), (7,)]
    assert letters(folder, "keyed") == [(11,), (13,)]
    assert folder.rows("default.filled") == [(22,)]
    assert not any(each.counts.read for each in folder.run().values())


SNAPSHOTS = """
import json, pathlib
from pyspark import pipelines as dp

HERE = pathlib.Path("{folder}")
GOOD = dict(expect_all_or_dead_letter={{"good": "id % 2 = 0"}})

for name in ("now", "versions", "streamed"):
    dp.create_streaming_table(name, **GOOD)

@dp.temporary_view
def source():
    return spark.read.schema("id bigint").json(f"{{HERE}}/now")

def versioned(latest):
    number = 1 if latest is None else latest + 1
    path = HERE / f"versions/{{number}}.json"
    return (spark.read.schema("id bigint").json(str(path)), number) if path.exists() else None

dp.create_auto_cdc_from_snapshot_flow("now", "source", keys=["id"])
dp.create_auto_cdc_from_snapshot_flow("versions", versioned, keys=["id"])

@dp.append_flow(target="streamed", once=True)
def streamed():
    return spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(f"{{HERE}}/more")
"""


@pytest.mark.long
def test_dead_letters_of_batches_that_cannot_come_again(folder):
    """The source of a snapshot is another one at the next run; what runs once reads all that there was."""
    folder.write("src/a.py", SNAPSHOTS.format(folder=folder.folder))
    for place in ("now", "versions", "more"):
        folder.feed(f"{place}/1.json", {"id": 1}, {"id": 2})
    for place in ("now", "more"):
        folder.feed(f"{place}/2.json", {"id": 3}, {"id": 4})

    def end(step):
        if step == "dead_letters":
            raise RuntimeError(step)

    assert {each.result for each in folder.run(step=end).values()} == {"failed"}
    assert folder.rows("default.now") == [(2,), (4,)]
    folder.feed("now/1.json", {"id": 5}, {"id": 6})
    folder.feed("versions/1.json", {"id": 9})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert folder.rows("default.now") == [(4,), (6,)]
    assert folder.rows("default.versions") == [(2,)]
    assert folder.rows("default.streamed") == [(2,), (4,)]
    assert letters(folder, "now") == [(1,), (3,), (3,), (5,)]
    assert letters(folder, "versions") == [(1,)]
    assert letters(folder, "streamed") == [(1,), (3,)]
    assert found["now"].counts.read == 4
    assert found["now"].counts.written == found["now"].counts.dead_lettered == 2
    folder.feed("more/3.json", {"id": 7}, {"id": 8})
    assert folder.plan()["streamed"].flows[0].action == "nothing"
    assert folder.run(refresh=("streamed",))["streamed"].reason == "it has run"
    assert folder.rows("default.streamed") == [(2,), (4,)]


def test_held_letters_are_whole_though_hadoop_writes_no_mark(spark, tmp_path):
    mark, conf = "mapreduce.fileoutputcommitter.marksuccessfuljobs", sessions.context_hadoop_conf(spark)
    held, entry = HeldLetters(files_for(str(tmp_path), spark), str(tmp_path)), QueryEntry("f", attempt="one")
    conf.set(mark, "false")
    try:
        held.hold(spark.range(3), entry)
    finally:
        conf.unset(mark)
    assert not [*tmp_path.rglob("_SUCCESS")]
    found = held.held(spark, entry)
    assert found is not None
    assert sorted(row.id for row in found.collect()) == [0, 1, 2]
    assert held.held(spark, QueryEntry("f", attempt="two")) is None
    # Stopped half-way.
    next(iter(tmp_path.rglob("_HELD"))).unlink()
    assert held.held(spark, entry) is None


VIEWS = """
from pyspark import pipelines as dp

@dp.table
def source():
    return spark.readStream.schema("id bigint").json("in")

@dp.materialized_view
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def copied():
    return spark.read.table("source")

@dp.materialized_view
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def counted():
    return spark.read.table("source").groupBy("id").count()
"""


@pytest.mark.long
def test_dead_letters_of_views_come_though_the_refresh_ended_behind_its_commit(folder):
    folder.write("src/a.py", VIEWS)
    views = ("copied", "counted")

    def ended():
        def end(step):
            if step == "dead_letters":
                raise RuntimeError(step)

        found = folder.run(step=end)
        assert {name: each.result for name, each in found.items()} == {
            "source": "completed",
            **dict.fromkeys(views, "failed"),
        }
        return found

    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    ended()
    found = folder.run()
    assert {name: found[name].reason for name in views} == dict.fromkeys(
        views, "dead letters of its newest refresh are missing"
    )
    assert [letters(folder, name) for name in views] == [[(1,)], [(1,)]]
    # Behind an increment, with more rows before the next refresh.
    folder.feed("in/2.json", {"id": 3}, {"id": 4})
    assert [each.refresh for each in folder.events if hasattr(each, "refresh")] == ["full", "full"]
    ended()
    assert [each.refresh for each in folder.events if hasattr(each, "refresh")].count("append") == 1
    folder.feed("in/3.json", {"id": 5}, {"id": 6})
    folder.run()
    assert [letters(folder, name) for name in views] == [[(1,), (3,), (5,)]] * 2
    assert [folder.rows(f"default.{name}", "id") for name in views] == [[(2,), (4,), (6,)]] * 2
    assert {name: each.refresh for name, each in folder.run().items()} == {
        "source": "",
        **dict.fromkeys(views, "nothing"),
    }


MERGES = """
import pathlib
from pyspark import pipelines as dp

for name in ("newest", "versions", "filled"):
    dp.create_streaming_table(name)

@dp.temporary_view
def source():
    return spark.read.schema("id bigint, name string").json("{folder}/now")

dp.create_auto_cdc_from_snapshot_flow("newest", "source", keys=["id"])
dp.create_auto_cdc_from_snapshot_flow("versions", "source", keys=["id"], stored_as_scd_type=2)
dp.create_auto_cdc_flow("filled", "source", keys=["id"], sequence_by="id", once=True)
"""


@pytest.mark.long
def test_changes_that_cannot_come_again_end_right_between_their_two_merges(folder):
    """The table behind the target has the first try, whose source is another one at the next run."""
    folder.write("src/a.py", MERGES.format(folder=folder.folder))
    folder.feed("now/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})

    def end(step):
        if step == "write":
            raise RuntimeError(step)

    assert {each.result for each in folder.run(step=end).values()} == {"failed"}
    folder.feed("now/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "z"}, {"id": 4, "name": "d"})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    rows = [(1, "a"), (2, "z"), (4, "d")]
    assert folder.rows("default.newest") == rows
    versions = folder.rows("default.versions", 'id, name, "__END_AT" IS NULL')
    assert versions == [(1, "a", True), (2, "b", False), (2, "z", True), (3, "c", False), (4, "d", True)]
    filled = folder.rows("default.filled")
    assert [row for row in filled if row[0] in (1, 4)] == [(1, "a"), (4, "d")]
    assert filled == folder.rows("default.filled._auto_cdc", "id, name")
    assert {each.counts.read for each in found.values()} == {3}
    # As if nothing had been: the next snapshot takes what is gone out.
    folder.feed("now/1.json", {"id": 2, "name": "z"})
    folder.run()
    assert folder.rows("default.newest") == [(2, "z")]
    assert folder.rows("default.versions", 'id, name, "__END_AT" IS NULL') == [
        (1, "a", False),
        (2, "b", False),
        (2, "z", True),
        (3, "c", False),
        (4, "d", False),
    ]
    assert folder.rows("default.filled") == filled
