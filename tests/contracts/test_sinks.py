"""What every sink promises: rows and ledger entry in one commit, once."""

import pytest

from rivermouth.errors import CommitLost
from rivermouth.extend import find_kind, kind_names
from rivermouth.ports import delta
from rivermouth.ports.storage import LocalFiles
from rivermouth.ports.table_ledger import TableLedger
from rivermouth.rows.ledger import Counts, first_entry

EXAMPLES = {"append": {}}


def test_every_sink_has_an_example():
    assert sorted(EXAMPLES) == [name for name in kind_names("sinks") if name != "dead_letters"]


@pytest.fixture(params=sorted(EXAMPLES))
def table(request, spark, tmp_path):
    """A sink, an empty table with entry 0, and its ledger."""
    sink = find_kind("sinks", request.param).model_validate({"type": request.param, **EXAMPLES[request.param]})
    location = str(tmp_path / "silver" / "t")
    entry = first_entry("f", {"t": {0: 0}}, {"t": "id"})
    columns = spark.range(0).selectExpr("id", "cast(id AS string) AS name").schema
    delta.create(spark, location, delta.TableLayout(columns), metadata=entry.to_json())
    ledger = TableLedger(LocalFiles(), location, str(tmp_path / "ledger.json"), flow="f")
    return sink, ledger, entry, delta.table_state(spark, location)


def rows_of(spark, ledger):
    return spark.read.format("delta").load(ledger.location).count()


def frame(spark, count):
    return spark.range(count).selectExpr("id", "cast(id AS string) AS name")


def test_rows_and_entry_arrive_in_one_commit(spark, table):
    sink, ledger, entry, state = table
    following = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    commit = sink.write(frame(spark, 5), ledger, following, table_id=state.table_id, after_version=0)
    assert (commit.version, commit.rows_written) == (1, 5)
    standing = ledger.standing()
    assert standing.entry == following
    assert standing.version == 1
    assert rows_of(spark, ledger) == 5


def test_no_rows_move_the_ledger_too(spark, table):
    sink, ledger, entry, state = table
    following = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    commit = sink.write(frame(spark, 0), ledger, following, table_id=state.table_id, after_version=0)
    assert commit.version == 1
    assert ledger.standing().entry.next_offsets == {"t": {0: 5}}
    assert rows_of(spark, ledger) == 0


def test_an_entry_that_another_writer_committed_is_not_written_again(spark, table):
    sink, ledger, entry, state = table
    mine = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {})
    theirs = entry.after_batch({"t": {0: (0, 7)}}, Counts(), {})
    sink.write(frame(spark, 7), ledger, theirs, table_id=state.table_id, after_version=0)
    with pytest.raises(CommitLost) as caught:
        sink.write(frame(spark, 5), ledger, mine, table_id=state.table_id, after_version=0)
    assert str(caught.value) == (
        f"[COMMIT_LOST] flow f: ledger entry 1 of table {ledger.location} was committed by another process; "
        "this batch was not written\n"
        "  hint: stop the other run, then: rivermouth run f"
    )
    assert rows_of(spark, ledger) == 7
