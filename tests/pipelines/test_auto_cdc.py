"""AUTO CDC: targets that hold what a plain reading of all changes comes to, in whichever order they come."""

import random
import threading
import time

import pytest
from deltalake import DeltaTable

from rivermouth.errors import RivermouthError
from rivermouth.pipelines import commands
from rivermouth.project.commands.managed_session import RunHooks

CDC = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, expr

@dp.temporary_view
def changes():
    return spark.readStream.schema("id bigint, name string, city string, op string, ts bigint").json("in")

dp.create_streaming_table("newest", expect_all_or_drop={"has_id": "id IS NOT NULL"})
dp.create_auto_cdc_flow(
    target="newest", source="changes", keys=["id"], sequence_by=col("ts"),
    apply_as_deletes=expr("op = 'D'"), apply_as_truncates="op = 'T'", except_column_list=["op", "ts"],
)

dp.create_target_table(name="versions")
dp.apply_changes(
    target="versions", source="changes", keys=[col("id")], sequence_by="ts", where="op <> 'T'",
    apply_as_deletes="op = 'D'", except_column_list=["op", "ts"], stored_as_scd_type="2", name="of_versions",
)

dp.create_streaming_table("filled")
dp.create_auto_cdc_flow(
    "filled", "changes", ["id"], "ts", where="op <> 'T'", apply_as_deletes="op = 'D'",
    ignore_null_updates=True, column_list=["id", "name", "city"], name="of_filled",
)
"""
KEY_NULL = (
    "[CDC_VALUE_NULL] flow {flow}: key id is null in 1 of the changes for {table}; the batch was not written\n"
    "  at: src/a.py:{line}\n"
    "  hint: leave such changes out in the source, or drop them by an expectation on {table}"
)


def _changes(seed, count=60):
    chance = random.Random(seed)
    rows = []
    for ts in range(1, count + 1):
        op = chance.choices("UDT", (30, 6, 1))[0]
        row = {"id": chance.randint(1, 6), "op": op, "ts": ts}
        if op == "U":
            row |= {name: chance.choice(values) for name, values in (("name", "abc"), ("city", ("x", "y", None)))}
        rows.append(row)
    return rows


def _newest(rows):
    table = {}
    for row in sorted(rows, key=lambda each: each["ts"]):
        if row["op"] == "T":
            table = {}
        elif row["op"] == "D":
            table.pop(row["id"], None)
        else:
            table[row["id"]] = (row["id"], row.get("name"), row.get("city"))
    return sorted(table.values(), key=repr)


def _versions(rows):
    found = []
    for key in {row["id"] for row in rows}:
        current = None
        for row in sorted((row for row in rows if row["id"] == key and row["op"] != "T"), key=lambda each: each["ts"]):
            values = None if row["op"] == "D" else (row.get("name"), row.get("city"))
            if current is not None and current[0] == values:
                continue
            if current is not None:
                found.append((key, *current[0], current[1], row["ts"]))
            current = None if values is None else (values, row["ts"])
        if current is not None:
            found.append((key, *current[0], current[1], None))
    return sorted(found, key=repr)


def _filled(rows):
    table = {}
    for row in sorted(rows, key=lambda each: each["ts"]):
        if row["op"] == "T":
            table = {}
        elif row["op"] == "D":
            table.pop(row["id"], None)
        else:
            before = table.get(row["id"], (None, None, None))
            name, city = row.get("name"), row.get("city")
            table[row["id"]] = (
                row["id"],
                name if name is not None else before[1],
                city if city is not None else before[2],
            )
    return sorted(table.values(), key=repr)


NULL = {"name": "nobody", "op": "U", "ts": 99}


def test_rows_and_versions_are_what_changes_in_any_order_come_to_and_a_null_key_stops_versions(folder):
    rows = _changes(seed=1)
    mixed = rows.copy()
    random.Random(1).shuffle(mixed)
    text = CDC.partition('dp.create_streaming_table("filled")')[0]
    truncates = "apply_as_truncates=\"op = 'T'\","
    assert truncates in text
    folder.write("src/a.py", text.replace(truncates, f"{truncates} ignore_null_updates=True,"))
    for number, part in enumerate((mixed[:25], mixed[25:])):
        folder.feed(f"in/{number}.json", *part)
        assert folder.run(refresh=("versions",))["versions"].error is None
    assert folder.rows("default.versions") == _versions(rows)
    folder.feed("in/null.json", NULL)
    found = folder.run()
    assert (found["newest"].error, found["newest"].counts.dropped) == (None, 1)
    assert folder.rows("default.newest") == _filled(rows)
    assert str(found["versions"].error) == KEY_NULL.format(flow="of_versions", table="versions", line=16)
    assert folder.rows("default.versions") == _versions(rows)


@pytest.mark.long
@pytest.mark.parametrize("seed", [1, 2])
def test_targets_hold_what_all_changes_come_to_in_whichever_order_and_cut_they_come(folder, seed):
    rows = _changes(seed)
    mixed = rows.copy()
    random.Random(seed).shuffle(mixed)
    folder.write("src/a.py", CDC)
    for number, part in enumerate((mixed[:25], mixed[25:])):
        folder.feed(f"in/{number}.json", *part)
        assert {each.result for each in folder.run().values()} == {"completed"}
    assert folder.rows("default.newest") == _newest(rows)
    assert folder.rows("default.versions") == _versions(rows)
    assert folder.rows("default.filled") == _filled([row for row in rows if row["op"] != "T"])
    # What is remembered of deleted keys is compacted once an hour, and not with each batch.
    for name in ("newest", "versions", "filled"):
        history = DeltaTable(folder.folder / f"lake/default/{name}/_auto_cdc_deleted").history()
        assert {each["operation"] for each in history} - {"DELETE"} == {"CREATE TABLE", "WRITE"}


SEVERAL = """
from pyspark import pipelines as dp

dp.create_streaming_table("newest", spark_conf={"pipelines.trigger.interval": "200 milliseconds"})
for name in ("east", "west", "north"):
    @dp.temporary_view(name=f"of_{name}")
    def changes(name=name):
        return (spark.readStream.schema("id bigint, name string, city string, op string, ts bigint")
            .option("maxFilesPerTrigger", 1).json(f"in/{name}"))
    dp.create_auto_cdc_flow("newest", f"of_{name}", ["id"], "ts", apply_as_deletes="op = 'D'",
                            except_column_list=["op", "ts"], name=name)
"""


@pytest.mark.parametrize("follow", [False, pytest.param(True, marks=pytest.mark.long)])
def test_several_flows_into_one_target_come_to_what_all_of_their_changes_come_to(folder, follow):
    rows = [each for each in _changes(seed=3, count=90) if each["op"] != "T"]
    mixed = rows.copy()
    random.Random(3).shuffle(mixed)
    folder.write("src/a.py", SEVERAL)
    for number, name in enumerate(["east", "west", "north"] * (3 if follow else 1)):
        folder.feed(f"in/{name}/{number}.json", *mixed[number :: 9 if follow else 3])
    if follow:
        hooks, outcomes = RunHooks(), []
        options = commands.UpdateOptions(follow=True)
        work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))
        work.start()
        deadline = time.monotonic() + 240
        while time.monotonic() < deadline and work.is_alive() and not _has_all(folder, len(rows)):
            time.sleep(0.5)
        hooks.stop.ask()
        work.join(60)
        assert [(each.error, each.counts.read) for each in outcomes] == [(None, len(rows))]
    else:
        assert folder.run()["newest"].counts.read == len(rows)
    assert folder.rows("default.newest") == _newest(rows)


def _has_all(folder, count):
    """Whether the ledger entries of the target's flows have read so many rows in all."""
    if not folder.has("default.newest"):
        return False
    history = DeltaTable(folder.folder / "lake/default/newest").history()
    return sum(int(each.get("operation") == "MERGE") for each in history) >= 9  # a commit for each file


@pytest.mark.long
def test_a_null_key_stops_the_flow_unless_an_expectation_takes_it(folder):
    folder.write("src/a.py", CDC)
    folder.feed("in/0.json", {"name": "nobody", "op": "U", "ts": 1}, {"id": 1, "name": "a", "op": "U", "ts": 2})
    found = folder.run()
    assert folder.rows("default.newest") == [(1, "a", None)]
    assert found["newest"].counts.dropped == 1
    assert str(found["filled"].error) == KEY_NULL.format(flow="of_filled", table="filled", line=22)


SNAPSHOTS = """
import pathlib
from pyspark import pipelines as dp

def next_snapshot(latest):
    there = sorted(int(file.stem) for file in pathlib.Path(FOLDER).glob("*.json"))
    new = [version for version in there if latest is None or version > latest]
    return (spark.read.json(f"{FOLDER}/{new[0]}.json"), new[0]) if new else None

dp.create_streaming_table("versions", schema="id bigint, name string, __START_AT bigint, __END_AT bigint")
dp.create_auto_cdc_from_snapshot_flow("versions", next_snapshot, keys=["id"], stored_as_scd_type=2)
"""
NEWEST = """
dp.create_streaming_table("newest")
dp.create_auto_cdc_from_snapshot_flow("newest", next_snapshot, keys=["id"])
"""


@pytest.mark.long
def test_snapshots_may_be_gone_or_not_there_yet_and_have_other_columns(folder):
    text = SNAPSHOTS.replace("FOLDER", repr(str(folder.folder / "snapshots")), 1).replace(
        "{FOLDER}", str(folder.folder / "snapshots")
    )

    def run():
        assert {each.error and str(each.error) for each in folder.run().values()} == {None}

    folder.write("src/a.py", text)
    run()
    assert folder.rows("default.versions") == []
    folder.feed("snapshots/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "b"})
    folder.feed("snapshots/2.json", {"id": 1, "name": "z"})
    run()
    rows = [(1, "a", 1, 2), (1, "z", 2, None), (2, "b", 1, 2)]
    assert folder.rows("default.versions") == rows
    # The function gives all snapshots again, so nothing is lost.
    assert folder.run(full_refresh=("versions",))["versions"].error is None
    assert folder.rows("default.versions") == rows
    for version in (1, 2):
        (folder.folder / f"snapshots/{version}.json").unlink()
    with pytest.raises(RivermouthError) as refused:
        folder.run(full_refresh=("versions",))
    assert str(refused.value) == (
        "[REFRESH_WOULD_LOSE] dataset versions: a full refresh would lose data: it has versions of rows since snapshot "
        "1, and its function does not begin with that one any more; it was not cleared\n"
        "  at: src/a.py:10\n"
        "  hint: rivermouth run --full-refresh versions --accept-data-loss"
    )
    assert folder.rows("default.versions") == rows
    run()
    folder.write("src/a.py", text.partition("dp.create_streaming")[0] + NEWEST)
    folder.feed("snapshots/3.json", {"id": 1, "name": "y"})
    folder.feed("snapshots/4.json", {"id": 1, "name": "y", "city": "B"})
    run()
    assert folder.rows("default.newest") == [(1, "y", "B")]
    folder.write("src/a.py", text)
    (folder.folder / "snapshots/4.json").unlink()
    run()
    assert folder.rows("default.versions") == [(1, "a", 1, 2), (1, "y", 3, None), (1, "z", 2, 3), (2, "b", 1, 2)]


@pytest.mark.long
def test_snapshots_are_compared_and_become_rows_or_versions(folder):
    folder.write(
        "src/a.py",
        """
from pyspark import pipelines as dp

SNAPSHOTS = {1: [(1, "a"), (2, "b"), (4, "d")], 2: [(1, "z"), (3, "c"), (4, "d")]}

def next_snapshot(latest):
    version = 1 if latest is None else latest + 1
    if version not in SNAPSHOTS:
        return None
    return spark.createDataFrame(SNAPSHOTS[version], "id bigint, name string"), version

dp.create_streaming_table("newest")
dp.create_auto_cdc_from_snapshot_flow(target="newest", source=next_snapshot, keys=["id"])
dp.create_streaming_table("versions", table_properties={"delta.enabledeletionvectors": "false"})
snapshots = {"snapshot_and_version": next_snapshot, "keys": ["id"], "stored_as_scd_type": 2}
dp.apply_changes_from_snapshot("versions", **snapshots, name="v")
""",
    )
    found = folder.run()
    assert {each.error and str(each.error) for each in found.values()} == {None}
    assert folder.rows("default.newest") == [(1, "z"), (3, "c"), (4, "d")]
    assert folder.rows("default.versions") == [
        (1, "a", 1, 2),
        (1, "z", 2, None),
        (2, "b", 1, 2),
        (3, "c", 2, None),
        (4, "d", 1, None),
    ]
    assert folder.run()["newest"].counts.read == 0
    lake = folder.folder / "lake/default"
    properties = {name: DeltaTable(lake / name).metadata().configuration for name in ("newest", "versions")}
    marked = {name: found.get("delta.enableDeletionVectors", "false") for name, found in properties.items()}
    assert marked == {"newest": "true", "versions": "false"}
