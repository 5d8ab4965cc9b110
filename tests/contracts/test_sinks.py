"""What every sink promises: rows and ledger entry in one commit, once."""

import pytest
from pyspark.sql.types import StructType

from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.errors import CommitLost
from rivermouth.extend import find_kind, kind_names
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.sinks._target import Target

EXAMPLES = {
    "append": {},
    "files": {"format": "parquet", "path": "archive"},
    "history": {"keys": ["id"], "sequence_by": "id"},
    "kafka": {"topic": "t"},
    "upsert": {"keys": ["id"]},
}
_APPENDS = ("append", "files", "kafka")
COLUMNS = {
    "id": "id",
    "name": "cast(id AS string)",
    "kafka_topic": "'t'",
    "kafka_partition": "0",
    "kafka_offset": "id",
    "kafka_timestamp": "timestamp'2026-01-01'",
}
DDL = "id bigint, name string, kafka_topic string, kafka_partition int, kafka_offset bigint, kafka_timestamp timestamp"
PLACE = ("kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp")
# What a sink's table has besides, and by what its rows are ordered.
BESIDE = {"history": {"__START_AT": "id", "__END_AT": "CAST(NULL AS bigint)"}}
SEQUENCES = {"history": "__START_AT"}


def test_every_sink_has_an_example():
    assert sorted(EXAMPLES) == kind_names("sinks")


@pytest.fixture(
    params=[name if name != "history" else pytest.param(name, marks=pytest.mark.long) for name in sorted(EXAMPLES)]
)
def table(request, spark, tmp_path):
    """A sink, an empty table with entry 0, and how to name it to the sink at a version."""
    sink = find_kind("sinks", request.param).model_validate({"type": request.param, **EXAMPLES[request.param]})
    location = str(tmp_path / "silver" / "t")
    entry = first_entry("f", {"t": {0: 0}}, {"t": "id"})
    ddl = ", ".join([DDL, *(f"{name} bigint" for name in BESIDE.get(sink.type, ()))])
    delta_table.create(spark, location, delta_table.TableLayout(StructType.fromDDL(ddl)), metadata=entry.to_json())
    ledger = TableLedger(LocalFiles(), location, str(tmp_path / "ledger.json"), flow="f")
    table_id = delta_snapshot.table_state(spark, location).table_id
    tombstones = Tombstones(LocalFiles(), str(tmp_path / "tombstones"), 3600.0)

    def target(version=0):
        order = ChangeOrder(("id",), SEQUENCES.get(sink.type), *PLACE)
        return Target(ledger, table_id, version, order, tombstones)

    return sink, entry, target


def rows_of(spark, target):
    return spark.read.format("delta").load(target().ledger.location).count()


def frame(spark, sink, count):
    sequence = "id" if sink.type in SEQUENCES else "CAST(NULL AS bigint)"
    way = ("false AS __delete", "false AS __truncate", f"{sequence} AS __sequence")
    columns = [f"{sql} AS {name}" for name, sql in {**COLUMNS, **BESIDE.get(sink.type, {})}.items()]
    return spark.range(count).selectExpr(*columns, *way)


def written(spark, sink, target, entry, count):
    rows = frame(spark, sink, count)
    return sink.write(rows.select(*COLUMNS) if sink.type in _APPENDS else rows, target, entry)


def test_rows_and_entry_arrive_in_one_commit_and_once(spark, table):
    sink, entry, target = table
    nothing = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    commit = written(spark, sink, target(), nothing, 0)
    assert (commit.version, commit.rows_written, rows_of(spark, target)) == (1, 0, 0)
    assert target().ledger.position().entry == nothing
    following = nothing.after_batch({"t": {0: (5, 10)}}, Counts(), {})
    commit = written(spark, sink, target(1), following, 5)
    assert (commit.version, commit.rows_written) == (2, 5)
    # Also where nothing is joined: the newest change of each key is found by sorting.
    assert commit.merge is None or commit.merge.task_peak_bytes > 0
    assert (target().ledger.position().entry, target().ledger.position().version) == (following, 2)
    mine = nothing.after_batch({"t": {0: (5, 12)}}, Counts(), {})
    with pytest.raises(CommitLost, match=r"flow f: ledger entry 2 of table .* was committed by another process"):
        written(spark, sink, target(1), mine, 7)
    assert rows_of(spark, target) == 5


@pytest.mark.long
def test_rows_and_entry_arrive_in_one_commit(spark, table):
    sink, entry, target = table
    following = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    commit = written(spark, sink, target(), following, 5)
    assert (commit.version, commit.rows_written) == (1, 5)
    # Also where nothing is joined: the newest change of each key is found by sorting.
    assert commit.merge is None or commit.merge.task_peak_bytes > 0
    standing = target().ledger.position()
    assert standing.entry == following
    assert standing.version == 1
    assert rows_of(spark, target) == 5


@pytest.mark.long
def test_no_rows_move_the_ledger_too(spark, table):
    sink, entry, target = table
    following = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    commit = written(spark, sink, target(), following, 0)
    assert (commit.version, commit.rows_written) == (1, 0)
    assert target().ledger.position().entry.next_offsets == {"t": {0: 5}}
    assert rows_of(spark, target) == 0


@pytest.mark.long
def test_an_entry_that_another_writer_committed_is_not_written_again(spark, table):
    sink, entry, target = table
    mine = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    theirs = entry.after_batch({"t": {0: (0, 7)}}, Counts(), {})
    written(spark, sink, target(), theirs, 7)
    with pytest.raises(CommitLost) as caught:
        written(spark, sink, target(), mine, 5)
    assert str(caught.value) == (
        f"[COMMIT_LOST] flow f: ledger entry 1 of table {target().ledger.location} was committed by another process; "
        "this batch was not written\n"
        "  hint: stop the other run, then: rivermouth run"
    )
    assert rows_of(spark, target) == 7
