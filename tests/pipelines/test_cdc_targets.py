"""AUTO CDC targets whose settings change, whose state is gone, and whose snapshots are not in order."""

import datetime as dt
import json
import shutil

import pytest
from pyspark.sql import types as T
from tests.crashes.test_ledger import clean_log
from tests.pipelines.conftest import refusal

from rivermouth.engine.query import auto_cdc
from rivermouth.engine.query.cdc_settings import change_of_target, target_properties
from rivermouth.pipelines.session.snapshot_functions import follows
from rivermouth.pipelines.spec import AutoCdc
from rivermouth.pipelines.status import status
from rivermouth.ports.delta.query_ledger import QueryLedger
from rivermouth.rows.keyed.changes import faults_of_sequences

TIME = dt.datetime
CHANGES = """
from pyspark import pipelines as dp

@dp.temporary_view
def changes():
    return spark.readStream.schema("id bigint, region string, name string, ts bigint").json("in")

dp.create_streaming_table("t")
dp.create_auto_cdc_flow("t", "changes", ["id"], "ts", except_column_list=["ts"])
"""
BY_TWO_KEYS = ('["id"], "ts"', '["id", "region"], "ts"')
DECLARED = (
    '("t")',
    '("t", schema="id bigint, region varchar(9), name string, ts bigint, __START_AT bigint, __END_AT bigint")',
)
IN_VERSIONS = ('["ts"])', '["ts"], stored_as_scd_type=2)')
CHANGED = (
    "[CDC_TARGET_CHANGED] dataset t: its table was written as SCD type {found}, and its flows say SCD type {wanted}; "
    "nothing was written to it\n"
    "  at: src/a.py:8\n"
    "  hint: rivermouth run --full-refresh t, or write the settings of the table"
)


def define(folder, *changes):
    text = CHANGES
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    folder.write("src/a.py", text)


def order_lost(behind):
    return (
        f"[CDC_ORDER_LOST] flow t: the table {behind.parent} has rows, and {behind}, which has the order of their "
        "changes, is missing, or older than these rows; the flow was not started\n"
        "  at: src/a.py:9\n"
        "  hint: rivermouth run --full-refresh t, or restore the folder"
    )


def test_a_target_that_was_written_with_other_settings_or_has_lost_its_order_is_refused(folder):
    define(folder)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
    assert folder.run()["t"].error is None
    define(folder, IN_VERSIONS)
    assert refusal(folder.plan) == CHANGED.format(found="1 with key id", wanted="2 with key id")
    define(folder)
    behind = folder.folder / "lake/default/t/_auto_cdc"
    shutil.rmtree(behind)
    folder.feed("in/2.json", {"id": 1, "region": "b", "name": "y", "ts": 2})
    assert str(folder.run()["t"].error) == order_lost(behind)
    assert folder.rows("default.t") == [(1, "a", "x")]


@pytest.mark.long
def test_other_settings_want_a_full_refresh(folder, monkeypatch):
    define(folder)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
    with monkeypatch.context() as earlier:  # a version in which no target could have a column kafka_epoch
        earlier.setattr(auto_cdc, "_epoch_column", lambda *_: "kafka_epoch")
        assert folder.run()["t"].error is None
    assert json.loads(folder.table("t").metadata().configuration["rivermouth.autoCdc.keys"]) == ["id"]
    version = folder.table("t").version()
    folder.feed("in/2.json", {"id": 1, "region": "b", "name": "y", "ts": 2})
    for change, found, wanted in (
        (IN_VERSIONS, "1 with key id", "2 with key id"),
        (BY_TWO_KEYS, "1 with key id", "1 with keys id, region"),
    ):
        define(folder, change)
        for refused in (folder.run, folder.plan):
            assert refusal(refused) == CHANGED.format(found=found, wanted=wanted)
    assert folder.table("t").version() == version
    define(folder, ('["id"], "ts"', '["ID"], "ts"'))
    assert folder.run()["t"].error is None
    assert folder.rows("default.t", "id, region, name") == [(1, "b", "y")]
    define(folder, ("ts bigint", "ts bigint, kafka_epoch int"))
    found, wanted = (f"1 {how} a column kafka_epoch of its changes" for how in ("without", "with"))
    assert str(folder.run()["t"].error) == CHANGED.format(found=found, wanted=wanted).replace("py:8", "py:9")

    define(folder, IN_VERSIONS, BY_TWO_KEYS)
    assert folder.run(full_refresh=("t",))["t"].error is None
    versions = [(1, "a", "x", 1, None), (1, "b", "y", 2, None)]
    assert folder.rows("default.t") == versions
    define(folder)
    found = "2 with keys id, region"
    assert refusal(folder.plan) == CHANGED.format(found=found, wanted="1 with key id")
    in_versions = '["ts"], stored_as_scd_type=2, track_history_except_column_list=["name"])'
    define(folder, (IN_VERSIONS[0], in_versions), BY_TWO_KEYS)
    found, wanted = "2 with versions by all columns", "2 with versions by all columns but name"
    assert refusal(folder.plan) == CHANGED.format(found=found, wanted=wanted)
    by_name = (BY_TWO_KEYS[0], '["id", "region"], "length(name)"')
    define(folder, IN_VERSIONS, by_name)
    order = "2 with the changes of flow t in the order of"
    assert refusal(folder.plan) == CHANGED.format(found=f"{order} ts", wanted=f"{order} length(name)")


COLUMNS = T.StructType([T.StructField(name, T.LongType()) for name in ("id", "a", "b", "__START_AT", "__END_AT")])
FIRST = {"f": "to_date(ts, 'mm')"}


@pytest.mark.parametrize(
    ("settings", "sequences", "fits"),
    [
        ({"scd_type": 1}, FIRST, False),
        ({}, {"F": "to_date( `TS`,'mm')", "g": "b"}, True),
        ({}, {"f": "to_date(ts, 'MM')"}, False),
        ({}, {"g": "b"}, True),
        ({"track_history_columns": ("B", "a")}, FIRST, True),
        ({"track_history_columns": ("a",)}, FIRST, False),
        ({"track_history_except_columns": ("id",)}, FIRST, False),
    ],
)
def test_a_target_takes_over_the_settings_of_its_first_definition(settings, sequences, fits):
    def cdc(**others):
        return AutoCdc(**{"keys": ("id",), "sequence_by": "ts", "scd_type": 2, **others})

    told = target_properties(cdc(track_history_columns=("a", "b")), FIRST)
    if "scd_type" not in settings and not settings:
        settings = {"track_history_columns": ("a", "b")}
    assert (change_of_target(COLUMNS, told, cdc(**settings), sequences) is None) == fits
    # Of a table of an earlier version its columns alone say something.
    assert (change_of_target(COLUMNS, {}, cdc(**settings), sequences) is None) == (settings.get("scd_type") != 1)
    # A flow that is gone may come back.
    later = target_properties(cdc(**settings), {"g": "b"}, told)
    assert json.loads(later["rivermouth.autoCdc.sequenceBy"]) == {**FIRST, "g": "b"}


GROWING = """
from pyspark import pipelines as dp

SCHEMA = "id bigint, m map<string, string>, amount int, addr string, kafka_epoch int, op string, ts bigint, n bigint"

@dp.temporary_view
def changes():
    return spark.readStream.schema(SCHEMA).json("in")

@dp.temporary_view
def versions():
    return spark.readStream.schema(SCHEMA).json("in").selectExpr("id", "ts __START_AT", "n __END_AT", "kafka_epoch")

dp.create_streaming_table("t")
dp.create_auto_cdc_flow("t", "changes", ["id"], "ts", apply_as_deletes="op = 'D'", stored_as_scd_type=2,
                        except_column_list=["op", "ts", "n"])
dp.create_streaming_table("newest")
dp.create_auto_cdc_flow("newest", "versions", ["id"], "struct(__START_AT, __END_AT)")
"""
SEQUENCE_NULL = (
    "[CDC_VALUE_NULL] flow newest: a part of sequence_by is null in 1 of the changes for newest; the batch was not "
    "written\n"
    "  at: src/a.py:18\n"
    "  hint: leave such changes out in the source, or drop them by an expectation on newest"
)


@pytest.mark.long
def test_versions_keep_maps_wider_types_and_columns_that_no_change_brings_any_more(folder, spark):
    folder.write("src/a.py", GROWING)
    row = {"m": {"a": "1", "b": "2"}, "amount": 1, "addr": "x", "kafka_epoch": 7, "n": 1}
    moved = {**row, "addr": "y"}
    gone = {"id": 3, "op": "D", "ts": 2, "n": 1}
    folder.feed("in/1.json", *({**row, "id": key, "ts": 1} for key in (1, 2, 3)), {**moved, "id": 2, "ts": 2}, gone)
    assert [str(each.error) for each in folder.run().values()] == ["None", "None"]
    newest = [(1, 1, 1, 7), (2, 2, 1, 7), (3, 2, 1, None)]
    assert folder.rows("default.newest") == newest
    # The address is no column of the target any more, and amounts are doubles.
    folder.write("src/a.py", GROWING.replace("amount int", "amount double").replace('["op",', '["op", "addr",'))
    same = {**row, "m": {"b": "2", "a": "1"}}
    other = {**row, "m": {"a": "1"}, "amount": 2.5}
    folder.feed("in/2.json", *({**same, "id": key, "ts": 3} for key in (2, 3)), {**other, "id": 3, "ts": 4})
    folder.feed("in/3.json", {**same, "id": 3, "ts": 5}, {**same, "id": 3, "ts": 6})
    assert [str(each.error) for each in folder.run().values()] == ["None", "None"]
    assert folder.rows("default.newest") == [newest[0], (2, 3, 1, 7), (3, 6, 1, 7)]
    both, one = {"a": "1", "b": "2"}, {"a": "1"}
    found = spark.read.format("delta").load(str(folder.folder / "lake/default/t")).orderBy("id", "__START_AT")
    found = found.select("id", "m", "amount", "addr", "kafka_epoch", "__START_AT", "__END_AT").collect()
    assert [tuple(each) for each in found] == [
        (1, both, 1.0, "x", 7, 1, None),
        (2, both, 1.0, "x", 7, 1, 2),
        (2, both, 1.0, "y", 7, 2, 3),
        (2, both, 1.0, None, 7, 3, None),
        (3, both, 1.0, "x", 7, 1, 2),
        (3, both, 1.0, None, 7, 3, 4),
        (3, one, 2.5, None, 7, 4, 5),
        (3, both, 1.0, None, 7, 5, None),
    ]
    folder.feed("in/4.json", {**row, "id": 1, "ts": 9, "n": None})
    assert str(folder.run(refresh=("newest",))["newest"].error) == SEQUENCE_NULL


def test_what_is_wrong_with_a_sequence_is_said_by_its_type():
    inner = T.StructType([T.StructField("c", T.FloatType()), T.StructField("d", T.LongType())])
    nested = T.StructType([T.StructField("a", T.TimestampType()), T.StructField("b", inner)])
    found = [faults_of_sequences(kind) for kind in (T.LongType(), T.DoubleType(), nested)]
    assert found == ["null", "null or not a number", "null, not a number or not in the years 1 to 9999"]


@pytest.mark.long
def test_rows_without_the_order_of_their_changes_are_not_changed(folder):
    define(folder, IN_VERSIONS, DECLARED)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
    assert folder.run()["t"].error is None
    behind = folder.folder / "lake/default/t/_auto_cdc"
    folder.feed("in/2.json", {"id": 1, "region": "a", "name": "y", "ts": 2})
    assert folder.run()["t"].error is None
    folder.feed("in/3.json", {"id": 1, "region": "a", "name": "z", "ts": 3})
    lost = order_lost(behind)
    # A deletion of it that ended half-way; then what is left of it goes, too.
    max((behind / "_delta_log").glob("*.json")).unlink()
    for _ in range(2):
        assert str(folder.run()["t"].error) == lost
        assert refusal(folder.plan) == lost
        shutil.rmtree(behind, ignore_errors=True)
    # The column ts is declared, and the flow leaves it out.
    first = [(1, "a", "x", None, 1, 2), (1, "a", "y", None, 2, None)]
    assert folder.rows("default.t") == first
    assert [each.action for each in folder.plan(full_refresh=("t",))["t"].flows] == ["clear"]
    assert folder.run(full_refresh=("t",))["t"].error is None
    assert folder.rows("default.t") == [first[0], (1, "a", "y", None, 2, 3), (1, "a", "z", None, 3, None)]


def test_a_flow_that_runs_once_may_have_nothing_to_read(folder):
    define(folder, ('"ts", except', '"ts", once=True, except'))
    (folder.folder / "in").mkdir()
    assert folder.run()["t"].error is None
    assert [each.action for each in folder.plan()["t"].flows] == ["nothing"]
    assert folder.run()["t"].error is None
    define(folder)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(1, "a", "x")]
    # Its status is that of the batch before its end.
    (before,) = status(folder.pipeline()).datasets
    define(folder, ('"ts", except', '"ts", once=True, except'))
    assert folder.run()["t"].error is None
    (after,) = status(folder.pipeline()).datasets
    assert (after.message, after.last_batch) == (before.message, before.last_batch)
    assert (after.message, after.last_batch.written) == ("its last batch is ledger entry 1", 1)


TRUNCATED = """
from pyspark import pipelines as dp

dp.create_streaming_table("t")
for name in ("live", "more"):
    @dp.temporary_view(name=f"of_{name}")
    def changes(name=name):
        return spark.readStream.schema("id bigint, op string, ts bigint").json(f"in/{name}")

dp.create_auto_cdc_flow("t", "of_live", ["id"], "ts", apply_as_deletes="op = 'D'", apply_as_truncates="op = 'T'",
                        column_list=["id"], name="live")
dp.create_auto_cdc_flow("t", "of_more", ["id"], "ts", column_list=["id"], name="more")
"""


@pytest.mark.long
def test_a_truncation_by_one_flow_holds_for_the_changes_of_others(folder, monkeypatch):
    folder.write("src/a.py", TRUNCATED)
    folder.feed("in/live/1.json", {"id": 1, "ts": 1}, {"id": 1, "op": "T", "ts": 10}, {"id": 2, "ts": 11})
    (folder.folder / "in/more").mkdir()
    assert folder.run()["t"].error is None
    folder.feed("in/more/1.json", {"id": 3, "ts": 5}, {"id": 4, "ts": 12})
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(2,), (4,)]
    # Nor does a truncation end with the setting.
    folder.write("src/a.py", TRUNCATED.replace(" apply_as_truncates=\"op = 'T'\",", ""))
    folder.feed("in/more/2.json", {"id": 5, "ts": 6}, {"id": 6, "ts": 13})
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(2,), (4,), (6,)]

    # A full refresh that ends behind the commit that empties the table: all flows read again.
    def stopped(*_arguments, **_given):
        raise OSError("the process ended")

    with monkeypatch.context() as ended:
        ended.setattr(QueryLedger, "write", stopped)
        with pytest.raises(OSError, match="the process ended"):
            folder.run(full_refresh=("t",))
    assert folder.rows("default.t") == []
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(1,), (2,), (3,), (4,), (5,), (6,)]


SNAPSHOTS = """
import datetime as dt
from pyspark import pipelines as dp

dp.create_streaming_table("t")

def snapshots(newest):
    return {FOUND}

dp.create_auto_cdc_from_snapshot_flow("t", snapshots, keys=["id"], stored_as_scd_type=2)
"""
REPEATED = (
    "[SNAPSHOT_KEYS_REPEATED] flow t: 2 keys have several rows for t in one snapshot; the snapshot was not written\n"
    "  at: src/a.py:10\n"
    "  hint: leave all but one of them out in the source, or add columns that tell them apart to the keys id"
)
NOT_NEWER = (
    "[SNAPSHOT_VERSION_INVALID] flow t: its function returned version {version} after version {newest}; "
    "the snapshot was not written\n"
    "  at: src/a.py:10\n"
    "  hint: return versions of one type that grow, and None where there is no newer one"
)


@pytest.mark.long
def test_a_snapshot_has_one_row_for_a_key_and_a_version_that_follows(folder):
    def returns(found):
        folder.write("src/a.py", SNAPSHOTS.replace("{FOUND}", found))

    def frame(*ids):
        return f"spark.createDataFrame({[(each,) for each in ids]}, 'id bigint')"

    returns(f"({frame(1, 2, 1, 2, 3)}, '8')")
    assert str(folder.run()["t"].error) == REPEATED
    assert folder.rows("default.t") == []
    returns(f"({frame(1, 2)}, '8') if newest is None else ({frame(1)}, '9') if newest == '8' else ({frame(3)}, '10')")
    assert str(folder.run()["t"].error) == NOT_NEWER.format(version="10 (str)", newest="9 (str)")
    rows = [(1, "8", None), (2, "8", "9")]
    assert folder.rows("default.t") == rows
    returns(f"None if newest == '91' else ({frame(1, 3)}, '91')")
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(1, "8", None), (2, "8", "9"), (3, "91", None)]


@pytest.mark.parametrize(
    ("version", "newest", "is_later"),
    [
        (TIME.fromisoformat("2026-01-31T10:00:00+02:00"), TIME.fromisoformat("2026-01-31T08:00:00"), False),
        (TIME.fromisoformat("2026-01-31T10:00:00"), TIME.fromisoformat("2026-01-31T11:00:00+02:00"), True),
        (10, 9, True),
        (10, "9", False),
        (TIME(2026, 1, 31), dt.date(2026, 1, 30), False),
    ],
)
def test_a_version_follows_one_of_its_own_type_and_times_are_compared_in_utc(version, newest, is_later):
    assert follows(version, newest) == is_later


PARTS = """
from pyspark import pipelines as dp

@dp.temporary_view
def changes():
    return spark.readStream.schema("id bigint, a bigint, b bigint, op string, `at-ms` bigint").json("in")

dp.create_streaming_table("t")
dp.create_auto_cdc_flow("t", "changes", ["id"], "at-ms", apply_as_deletes="op = 'D'", column_list=["id", "a", "b"],
                        {MORE})
"""


@pytest.mark.long
def test_changes_of_a_table_behind_whose_log_was_cleaned_are_merged_and_settings_of_nulls_may_come_back(folder, spark):
    def run(number, more, *rows):
        folder.write("src/a.py", PARTS.replace("{MORE}", more))
        folder.feed(f"in/{number}.json", *rows)
        found = folder.run()
        assert {each.error and str(each.error) for each in found.values()} == {None}

    on = "ignore_null_updates=True"
    run(1, on, {"id": 1, "a": 1, "at-ms": 1}, {"id": 1, "b": 2, "at-ms": 2}, {"id": 2, "op": "D", "at-ms": 20})
    assert folder.rows("default.t") == [(1, 1, 2)]
    run(2, "", {"id": 1, "a": 9, "b": 5, "at-ms": 10})
    clean_log(spark, folder.folder / "lake/default/t/_auto_cdc")
    run(3, on, {"id": 1, "a": 7, "at-ms": 5}, {"id": 2, "a": 7, "at-ms": 15})
    assert folder.rows("default.t") == [(1, 9, 5)]
