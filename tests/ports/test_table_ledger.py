"""Which entry counts, judged over logs written by hand; the same with real tables is in tests/crashes."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rivermouth.domain.ledger.ledger import EARLIEST, Counts, first_entry
from rivermouth.errors import CommitLost, LedgerLost, LedgerUnreadable, LedgerVoid, TableForeign
from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger, app_id, narrowed
from rivermouth.ports.lake.lake_files import LocalFiles

FILES = LocalFiles()
FIRST = first_entry("f", {"t": {0: 0}}, {"t": "id"})
SECOND = FIRST.after_batch({"t": {0: (0, 5)}}, Counts(), {"t": "id"})
THIRD = SECOND.after_batch({"t": {0: (5, 9)}}, Counts(consumed=5, written=5), {"t": "id"})


class Log:
    """A table's log that holds only what the ledger looks at."""

    def __init__(self, folder) -> None:
        self.folder = folder / "t" / "_delta_log"
        self.folder.mkdir(parents=True)
        self.version = -1

    def add(self, entry=None, *, operation="WRITE", changes_data=True, **parameters):
        self.version += 1
        info = {"operation": operation, "operationParameters": parameters, "operationMetrics": {"numOutputRows": "3"}}
        if entry is not None:
            info["userMetadata"] = entry if isinstance(entry, str) else entry.to_json()
        lines = [{"commitInfo": info}, {"add": {"path": "x", "dataChange": changes_data}}]
        (self.folder / f"{self.version:020d}.json").write_text("\n".join(map(json.dumps, lines)))
        return self

    def cut(self, version):
        (self.folder / f"{version:020d}.json").unlink()


@pytest.fixture
def log(tmp_path):
    return Log(tmp_path).add(FIRST, operation="CREATE TABLE", changes_data=False).add(SECOND).add(THIRD)


@pytest.fixture
def ledger(tmp_path):
    return TableLedger(FILES, str(tmp_path / "t"), str(tmp_path / "side.json"), flow="f")


def test_the_newest_entry_counts(log, ledger):
    assert ledger.position() == LedgerPosition(THIRD, 2)


def test_the_side_file_adds_the_counts_if_it_is_of_the_same_entry(log, ledger):
    counts = Counts(consumed=4, written=3, dead_lettered=1)
    ledger.keep(LedgerPosition(THIRD, 2, counts, {"rows_per_s": 1.5}))
    assert ledger.position() == LedgerPosition(THIRD, 2, counts, {"rows_per_s": 1.5})
    ledger.keep(LedgerPosition(SECOND, 1, counts))
    assert ledger.position() == LedgerPosition(THIRD, 2)


def test_the_log_is_right_about_the_version(log, ledger):
    ledger.keep(LedgerPosition(THIRD, 99, Counts()))
    assert ledger.position().version == 2


def test_harmless_commits_of_others_are_passed_by(log, ledger):
    log.add(operation="OPTIMIZE", changes_data=False).add(
        '{"job": 1}', operation="SET TBLPROPERTIES", changes_data=False
    )
    assert ledger.position() == LedgerPosition(THIRD, 2)
    ledger.check_undisturbed(LedgerPosition(THIRD, 2))


def test_a_change_of_data_makes_it_void_until_the_table_is_restored(log, ledger):
    log.add(operation="DELETE")
    for look in (ledger.position, lambda: ledger.check_undisturbed(LedgerPosition(THIRD, 2))):
        with pytest.raises(LedgerVoid, match=r"version 3 \(DELETE\) changed its data after ledger entry 2"):
            look()
    log.add(operation="RESTORE", version="1")
    with pytest.raises(LedgerVoid):
        ledger.position()
    log.add(operation="RESTORE", version="2")
    assert ledger.position() == LedgerPosition(THIRD, 2)
    ledger.check_undisturbed(LedgerPosition(THIRD, 2))
    log.add(operation="UPDATE")
    with pytest.raises(LedgerVoid, match=r"version 6 \(UPDATE\)"):
        ledger.position()


def void(look):
    with pytest.raises(LedgerVoid) as caught:
        look()
    return caught.value


@pytest.mark.parametrize("parameters", [{"version": None, "timestamp": "2026-01-31 12:00:00"}, {"version": "1"}])
def test_a_restore_of_which_nobody_knows_what_it_left_goes_on_at_the_earliest(parameters, log, ledger):
    """To a point in time, or to a version whose entry is no longer in the log: what is there still is told then."""
    for version in (0, 1):
        log.cut(version)
    log.add(operation="RESTORE", **parameters)
    error = void(ledger.position)
    assert error.facts["moved"] == {"t": {0: EARLIEST}}
    assert error.next_step.endswith('rivermouth run f --rewind t-0:earliest --why "REASON"')


def test_after_a_restore_each_partition_is_named_whose_rows_went(log, ledger):
    """Also those that the restored version did not know yet, and those with a new epoch since."""
    grown = THIRD.after_batch({"t": {1: (0, 4)}, "u": {0: (3, 8)}}, Counts(), {"t": "id", "u": "id-u"})
    anew = replace(
        grown, number=4, kind="decision", next_offsets={"t": {0: 9, 1: 0}, "u": {0: 8}}, epochs={"t": {1: (4,)}}
    )
    log.add(grown).add(anew).add(operation="RESTORE", version="2")
    error = void(ledger.position)
    assert error.facts["moved"] == {"t": {1: EARLIEST}, "u": {0: EARLIEST}}
    assert error.facts["options"] == "--rewind t-1:earliest --rewind u-0:earliest"
    log.add(operation="RESTORE", version="3")
    assert void(ledger.position).facts["moved"] == {"t": {1: EARLIEST}}


def test_a_restore_of_a_restore_is_followed_to_its_rows(log, ledger):
    log.add(operation="RESTORE", version="1").add(operation="DELETE").add(operation="RESTORE", version="3")
    assert void(ledger.position).facts["moved"] == {"t": {0: 5}}


def test_a_delete_moves_nothing(log, ledger):
    log.add(operation="DELETE")
    error = void(ledger.position)
    assert (error.facts["moved"], error.facts["options"]) == ({}, "--rewind t-0:9")


def test_of_what_a_flow_reads_no_more_nothing_has_to_be_decided(log, ledger):
    fourth = THIRD.after_batch({"u": {0: (0, 4), 1: (0, 4)}}, Counts(), {"u": "id-u"})
    log.add(fourth).add(operation="RESTORE", version="1")
    error = void(ledger.position)
    assert error.facts["options"] == "--rewind t-0:5 --rewind u-0:earliest --rewind u-1:earliest"
    assert narrowed(error, {"u": [1], "v": [0]}).facts["options"] == "--rewind u-1:earliest"
    assert narrowed(error, {"t": [0]}).next_step.endswith('rivermouth run f --rewind t-0:5 --why "REASON"')


def test_a_void_table_without_a_log_can_be_decided_about(log, ledger):
    for version in (0, 1, 2):
        log.cut(version)
    known = {app_id("f", "table-id"): 2}
    ledger.keep(LedgerPosition(THIRD, 2, Counts()))
    log.add(operation="UPDATE")
    assert ledger.position(known, even_void=True) == LedgerPosition(THIRD, 3, Counts())


def test_an_entry_of_our_own_that_we_do_not_know_is_told_apart_from_a_change_by_others(log, ledger):
    with pytest.raises(CommitLost) as caught:
        ledger.check_undisturbed(LedgerPosition(SECOND, 1))
    assert str(caught.value) == (
        f"[COMMIT_LOST] flow f: ledger entry 2 of table {ledger.location} was committed by another process; "
        "this batch was not written\n"
        "  hint: stop the other run, then: rivermouth run"
    )


def test_a_commit_is_found_by_the_mark_of_its_writer(log, ledger):
    assert ledger.commit_of(THIRD, 1).version == 2
    same_number = SECOND.after_batch({"t": {0: (5, 9)}}, Counts(), {})
    assert ledger.commit_of(same_number, 1) is None


def test_a_change_between_two_entries_is_noticed_by_the_second(log, ledger):
    fourth = THIRD.after_batch({"t": {0: (9, 10)}}, Counts(), {})
    log.add(operation="DELETE").add(fourth)
    with pytest.raises(LedgerVoid, match=r"version 3 \(DELETE\) changed its data after ledger entry 2"):
        ledger.commit_of(fourth, 2)


def test_a_change_while_a_batch_was_written_is_noticed_until_it_is_decided(log, ledger):
    fourth = THIRD.after_batch({"t": {0: (9, 12)}}, Counts(), {})
    ledger.keep(LedgerPosition(THIRD, 2, Counts()))
    log.add(operation="OPTIMIZE", changes_data=False).add(operation="DELETE").add(fourth)
    error = void(ledger.position)
    assert str(error) == (
        f"[LEDGER_VOID] table {ledger.location}: version 4 (DELETE) changed its data after ledger entry 2; "
        "the rows of ledger entry 3 were added to it, and nothing was written after that\n"
        f"  hint: RESTORE TABLE delta.`{ledger.location}` TO VERSION AS OF 2, then "
        'rivermouth run f --rewind t-0:9 --why "REASON"; or keep the table as it is: '
        'rivermouth run f --rewind t-0:12 --why "REASON"'
    )
    assert str(void(lambda: ledger.commit_of(fourth, 2))) == str(error)
    assert narrowed(error, {"u": [0]}).facts["undone"] == {}
    assert str(narrowed(error, {"t": [0]})) == str(error)
    assert ledger.position(even_void=True) == LedgerPosition(fourth, 5)
    decision = replace(fourth, number=4, kind="decision", attempt="d")
    log.add(decision)
    assert ledger.position() == LedgerPosition(decision, 6)
    # What the run itself has completed was looked at.
    fifth = decision.after_batch({"t": {0: (12, 13)}}, Counts(), {})
    log.add(fifth).add(operation="DELETE").add(operation="RESTORE", version="7")
    sixth = fifth.after_batch({"t": {0: (13, 14)}}, Counts(), {})
    log.add(sixth)
    assert ledger.position() == LedgerPosition(sixth, 10)


def test_what_a_cleaned_log_no_longer_shows_is_not_asked_about(log, ledger):
    fourth = THIRD.after_batch({"t": {0: (9, 12)}}, Counts(), {})
    log.add(operation="OPTIMIZE", changes_data=False).add(fourth)
    for version in range(3):
        log.cut(version)
    assert ledger.position() == LedgerPosition(fourth, 4)


def test_without_the_log_the_side_file_must_be_of_the_number_that_the_snapshot_knows(log, ledger):
    for version in (0, 1, 2):
        log.cut(version)
    known = {app_id("f", "table-id"): 2, "someone else's": 77}
    with pytest.raises(LedgerLost):
        ledger.position(known)
    ledger.keep(LedgerPosition(SECOND, 1, Counts()))
    with pytest.raises(LedgerLost):
        ledger.position(known)
    ledger.keep(LedgerPosition(THIRD, 2, Counts()))
    assert ledger.position(known) == LedgerPosition(THIRD, 2, Counts())
    log.add(operation="UPDATE")
    with pytest.raises(LedgerVoid):
        ledger.position(known)


def test_a_table_that_nobody_of_this_name_wrote_is_foreign(log, ledger, tmp_path):
    other = TableLedger(FILES, ledger.location, ledger.side_file, flow="g")
    with pytest.raises(TableForeign, match="its ledger is that of flow 'f'"):
        other.position()
    renamed = TableLedger(FILES, ledger.location, ledger.side_file, flow="g", previously="f")
    assert renamed.position() == LedgerPosition(THIRD, 2)
    for version in (0, 1, 2):
        log.cut(version)
    with pytest.raises(TableForeign, match="no entry in its log"):
        ledger.position({app_id("g", "table-id"): 2})


def test_a_damaged_entry_is_never_passed_by_for_an_older_one(log, ledger):
    log.add('{"rivermouth": 1, "flow": "f"}')
    with pytest.raises(LedgerUnreadable):
        ledger.position()


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"entry": "{}"}', '{"entry": "{\\"rivermouth\\": 1}", "version": 1}']
)
def test_a_damaged_side_file_is_none(text, log, ledger):
    FILES.write(ledger.side_file, text)
    assert ledger.read_side_file() is None
    assert ledger.position() == LedgerPosition(THIRD, 2)
