"""The column ``error`` of the event log: what failed, the errors behind it, and the lines that raised them."""

from __future__ import annotations

import pytest

from rivermouth.engine.query.query_events import Note
from rivermouth.errors import LakeNotWritable
from rivermouth.pipelines.running import event_log, reset

LOG = "_rivermouth/pipelines/shop/event_log"
FAILING = """
from pyspark import pipelines as dp

def helper():
    raise ValueError("no such thing")

@dp.table
def numbers():
    return spark.readStream.schema("id bigint").json("in")

@dp.foreach_batch_sink
def copies(frame, number):
    helper()

@dp.append_flow(target="copies", name="copy")
def copy():
    return spark.readStream.table("numbers")
"""


def older_columns():
    """The columns of the table of events before errors had exceptions."""
    columns = event_log.T.StructType.fromJson(event_log.COLUMNS.jsonValue())
    columns["error"].dataType = event_log.T.StructType(columns["error"].dataType.fields[:2])
    return columns


def test_an_error_has_its_causes_with_their_stacks_also_in_an_older_table(folder, monkeypatch):
    folder.write("src/a.py", FAILING.partition("@dp.foreach_batch_sink")[0])
    (folder.folder / "in").mkdir()
    with monkeypatch.context() as before:
        before.setattr(event_log, "COLUMNS", older_columns())
        before.setattr(event_log.EventLog, "_add_columns", lambda *_: None)
        assert folder.run()["numbers"].result == "completed"
    folder.write("src/a.py", FAILING)
    folder.feed("in/1.json", {"id": 1})
    outcome = folder.run()["copies"]
    assert outcome.result == "failed"
    failed = [row for (row,) in folder.rows(LOG, "error") if row is not None]
    assert [(each["fatal"], each["message"]) for each in failed] == [(True, str(outcome.error))] * 2
    exceptions = failed[0]["exceptions"]
    assert exceptions[0]["class_name"] == "rivermouth.errors.pipelines.QueryFailed"
    assert exceptions[0]["message"] == str(outcome.error)
    raised = exceptions[-1]
    assert raised["class_name"] == "builtins.ValueError"
    assert raised["message"] == "no such thing"
    assert [
        (each["method_name"], each["line_number"])
        for each in raised["stack"]
        if each["file_name"] == str(folder.folder / "src/a.py")
    ] == [("copies", 13), ("helper", 5)]


def test_an_event_log_that_cannot_be_written_ends_nothing(folder, monkeypatch):
    folder.write("src/a.py", FAILING.partition("@dp.foreach_batch_sink")[0])
    folder.feed("in/1.json", {"id": 1})

    def fails(*_):
        raise LakeNotWritable(lake="lake", detail="no disk")

    with monkeypatch.context() as without_disk:
        without_disk.setattr(event_log, "_MANY", 2)
        without_disk.setattr(event_log, "_MOST", 3)
        without_disk.setattr(event_log.EventLog, "_append", fails)
        found = folder.run()["numbers"]
        assert (found.error, found.counts.written) == (None, 1)
        said = {each.message for each in folder.events if isinstance(each, Note)}
        assert said == {
            "the event log was not written: cannot write into the lake lake: no disk; nothing was written",
            "the event log lacks 1 events, which waited for too long",
        }
    # What ends an update is in the log and in its state, whatever it is.
    monkeypatch.setattr(reset, "prepare_selection", lambda *_: fail_with(OSError("no disk")))
    with pytest.raises(OSError, match="no disk"):
        folder.run()
    assert ("Update is FAILED.",) in {(text[:7] + text[14:],) for (text,) in folder.rows(LOG, "message")}
    (kept,) = (folder.folder / "lake/_rivermouth/pipelines/shop/failures").iterdir()
    assert "OSError" in kept.read_text()


def fail_with(error):
    raise error
