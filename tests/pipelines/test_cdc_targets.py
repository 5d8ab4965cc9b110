"""AUTO CDC targets whose settings change, whose state is gone, and whose snapshots are not in order."""

import datetime as dt
import json
import shutil

import pytest
from tests.pipelines.conftest import refusal

from rivermouth.pipelines.session.snapshot_functions import follows
from rivermouth.pipelines.status import status
from rivermouth.ports.delta.query_ledger import QueryLedger

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
    "  hint: rivermouth run --full-refresh t, or write the keys and the SCD type of the table"
)


def define(folder, *changes):
    text = CHANGES
    for before, after in changes:
        assert before in text
        text = text.replace(before, after)
    folder.write("src/a.py", text)


def test_other_keys_and_another_scd_type_want_a_full_refresh(folder):
    define(folder)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
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

    define(folder, IN_VERSIONS, BY_TWO_KEYS)
    assert folder.run(full_refresh=("t",))["t"].error is None
    versions = [(1, "a", "x", 1, None), (1, "b", "y", 2, None)]
    assert folder.rows("default.t") == versions
    define(folder)
    found = "2 with keys id, region"
    assert refusal(folder.plan) == CHANGED.format(found=found, wanted="1 with key id")


def test_rows_without_the_order_of_their_changes_are_not_changed(folder):
    define(folder, IN_VERSIONS, DECLARED)
    folder.feed("in/1.json", {"id": 1, "region": "a", "name": "x", "ts": 1})
    assert folder.run()["t"].error is None
    behind = folder.folder / "lake/default/t/_auto_cdc"
    folder.feed("in/2.json", {"id": 1, "region": "a", "name": "y", "ts": 2})
    assert folder.run()["t"].error is None
    folder.feed("in/3.json", {"id": 1, "region": "a", "name": "z", "ts": 3})
    lost = (
        f"[CDC_ORDER_LOST] flow t: the table {behind.parent} has rows, and {behind}, which has the order of their "
        "changes, is missing, or older than these rows; the flow was not started\n"
        "  at: src/a.py:9\n"
        "  hint: rivermouth run --full-refresh t, or restore the folder"
    )
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


def clean_log(spark, location):
    """What Delta does to a log that is older than its retention; others have committed since."""
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('team' = 'sales')")
    log = spark._jvm.org.apache.spark.sql.delta.DeltaLog
    log.forTable(spark._jsparkSession, str(location)).checkpoint()
    commits = sorted((location / "_delta_log").glob("*.json"))
    for path in commits[:-1]:
        path.unlink()
    log.clearCache()


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
