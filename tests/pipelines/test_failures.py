"""What ends a flow of a pipeline: a typed error with the user's line; what was committed stays, and others go on."""

import os
import threading
import time

import pytest

from rivermouth.cli.main import invoke
from rivermouth.engine.flow import query_end
from rivermouth.engine.query.query_events import Note
from rivermouth.errors import LakeNotReadable, RivermouthError
from rivermouth.pipelines import commands
from rivermouth.pipelines.running import update
from rivermouth.pipelines.running.flow_retries import wait_s
from rivermouth.pipelines.running.flows import refresh_node
from rivermouth.pipelines.selection import Selection
from rivermouth.project.commands.managed_session import RunHooks

BAD = """
from pyspark import pipelines as dp
from pyspark.sql.functions import expr, udf

@udf("bigint")
def halved(id):
    raise ValueError("odd")

@dp.table
def good():
    return spark.readStream.schema("id bigint").json("in")

@dp.table
def bad():
    return spark.readStream.schema("id bigint").json("in").select(halved("id").alias("id"))

@dp.table
def behind():
    return spark.readStream.table("bad")
"""
SNAPSHOTS = """
dp.create_streaming_table("snapshots")
def snapshot(latest):
    return (spark.range(3), 1) if latest is None else 7

dp.create_auto_cdc_from_snapshot_flow("snapshots", snapshot, keys=["id"])
"""
ODD = (
    "[QUERY_FAILED] flow bad failed with ValueError: odd; the batch was not written\n"
    "  at: src/a.py:13\n"
    "  hint: rivermouth run, after the cause is corrected; batches before it are in the table"
)


def test_a_query_fails_with_the_users_line_and_others_go_on(folder):
    folder.write("src/a.py", BAD)
    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    found = folder.run()
    results = {name: each.result for name, each in found.items()}
    assert results == {"good": "completed", "bad": "failed", "behind": "skipped"}
    assert str(found["bad"].error) == ODD
    assert found["behind"].reason == "bad, which it reads, was not refreshed"
    assert_refused(folder)


def test_a_file_that_cannot_be_read_is_named_at_the_users_line(folder):
    folder.write(
        "src/a.sql",
        "CREATE STREAMING TABLE t AS\n"
        "SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id INT', mode => 'FAILFAST');\n",
    )
    folder.write("in/1.json", '{"id": 1\n')
    assert str(folder.run()["t"].error) == (
        f"[FILE_RECORD_MALFORMED] file:{folder.folder}/in/1.json has a record that is not json, and mode is "
        "FAILFAST; its batch was not written\n"
        "  at: src/a.sql:1\n"
        "  hint: set the option mode to PERMISSIVE: such records are kept in the rescued data column"
    )


@pytest.mark.long
def test_queries_fail_with_the_users_line_and_others_go_on(folder):
    folder.write("src/a.py", BAD + SNAPSHOTS)
    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    found = folder.run()
    assert {name: each.result for name, each in found.items()} == {
        "good": "completed",
        "bad": "failed",
        "behind": "skipped",
        "snapshots": "failed",
    }
    assert str(found["bad"].error) == ODD
    assert str(found["snapshots"].error) == (
        "[SNAPSHOT_INVALID] flow snapshots: its function returned no frame with a version; nothing was written\n"
        "  at: src/a.py:25\n"
        "  hint: return (frame, version) with a version that is a number, a text, a date or a time; or None"
    )
    assert found["behind"].reason == "bad, which it reads, was not refreshed"
    assert folder.rows("default.snapshots") == [(0,), (1,), (2,)]
    assert_refused(folder)


def assert_refused(folder):
    """A type that Delta cannot widen, and a checkpoint that another pipeline has left."""
    source = (folder.folder / "src/a.py").read_text()
    folder.write(
        "src/a.py",
        source.replace(
            '"id bigint").json("in")\n\n@dp.table\ndef bad', '"id string").json("in")\n\n@dp.table\ndef bad'
        ),
    )
    with pytest.raises(RivermouthError) as refused:
        folder.run()
    assert str(refused.value) == (
        "[TABLE_SCHEMA_CHANGED] dataset good: column id is bigint in the table, and its query brings string; "
        "nothing was written\n"
        "  at: src/a.py:9\n"
        "  hint: rivermouth run --full-refresh good, or cast the column in the query"
    )
    folder.write("src/a.py", source)
    mark = folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints/default.good/good/rivermouth.json"
    mark.write_text('{"flow": "other/good"}')
    assert str(folder.run(refresh=("good",))["good"].error) == (
        f"[CHECKPOINT_OF_ANOTHER_FLOW] flow good: checkpoint {mark.parent} belongs to other/good; "
        "the flow was not started\n"
        "  at: src/a.py:9\n"
        "  hint: give the pipeline another name, or remove the folder"
    )


@pytest.mark.long
def test_a_stream_over_a_table_with_updates_is_refused_with_the_remedy(folder):
    folder.write(
        "src/a.py",
        """
from pyspark import pipelines as dp

@dp.temporary_view
def changes():
    return spark.readStream.schema("id bigint, name string, ts bigint").json("in")

dp.create_streaming_table("customers")
dp.create_auto_cdc_flow(target="customers", source="changes", keys=["id"], sequence_by="ts")

@dp.table
def copies():
    return spark.readStream.table("customers")

@dp.table
def first_seen():
    return spark.readStream.option("skipChangeCommits", "true").table("customers")
""",
    )
    folder.feed("in/1.json", {"id": 1, "name": "a", "ts": 1})
    assert folder.run()["copies"].counts.written == 1
    folder.feed("in/2.json", {"id": 1, "name": "b", "ts": 2})
    found = folder.run()
    assert found["first_seen"].result == "completed"
    text = str(found["copies"].error)
    assert text.startswith(
        "[SOURCE_CHANGED_ROWS] flow copies streams from a table in which rows were updated or deleted: "
    )
    assert text.endswith(
        "; nothing more was written\n"
        "  at: src/a.py:11\n"
        '  hint: .option("skipChangeCommits", "true") on the read, or read its change data feed'
    )


def test_the_shell_says_what_was_done_and_what_was_not(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.folder)
    folder.feed("in/1.json", {"id": 1}, {"id": -1})
    folder.write(
        "src/a.sql",
        "CREATE STREAMING TABLE good (CONSTRAINT whole EXPECT (id > 0) ON VIOLATION DROP ROW) AS\n"
        "SELECT id FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT');\n"
        "CREATE STREAMING TABLE bad (CONSTRAINT whole EXPECT (id > 0) ON VIOLATION FAIL UPDATE) AS\n"
        "SELECT id FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT');\n",
    )
    assert invoke(["run"]) == 1
    out, err = capsys.readouterr()
    lines = [line.split() for line in out.splitlines()]
    assert lines[0] == ["dataset", "result", "read", "written", "dropped", "dead", "letters", "seconds"]
    assert [line[:6] for line in lines[1:]] == [
        ["good", "completed", "2", "1", "1", "0"],
        ["bad", "failed", "0", "0", "0", "0"],
    ]
    assert "good: 1 row written, 1 dropped" in err
    failed = "[ROW_EXPECTATION_FAILED] flow bad: expectation 'whole' failed for at least one row; "
    assert f"{failed}the batch was not written\n  at: src/a.sql:3\n" in err
    assert folder.rows("default.bad") == []
    assert err.endswith("[PIPELINE_FAILED] 1 of 2 datasets failed: bad\n  hint: rivermouth status\n")

    assert invoke(["plan", "--graph", "mermaid", "--full-refresh", "good"]) == 0
    out, err = capsys.readouterr()
    assert out == ('flowchart LR\n  n0[("good")]\n  n1[("bad")]\n  n2{{"read_files in"}}\n  n2 --> n0\n  n2 --> n1\n')
    assert invoke(["validate", "src/a.sql", "--param", "x=1"]) == 0
    out, err = capsys.readouterr()
    assert out == "pipeline a: 2 datasets, nothing wrong\n"

    folder.write("src/b.sql", "CREATE MATERIALIZED VIEW log AS\nSELECT * FROM event_log('x');\n")
    assert invoke(["validate"]) == 1
    out, err = capsys.readouterr()
    assert err.endswith(
        "[DATASET_UNKNOWN] event_log reads x, which is neither in the pipeline, nor a table of the lake or the "
        "catalog; nothing was run\n"
        "  at: src/b.sql:2:15\n"
        "  hint: write event_log('shop')\n"
    )


def test_a_pipeline_that_fails_keeps_no_other_from_running(tmp_path, spark, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    pipelines = "pipelines: {a: {files: [a.sql]}, b: {files: [b.sql]}, c: {files: [c.sql], continuous: true}}\n"
    (tmp_path / "rivermouth.yml").write_text(f"lake: lake\n{pipelines}")
    (tmp_path / "a.sql").write_text("SELECT 1;\n")
    for name in "bc":
        (tmp_path / f"{name}.sql").write_text(f"CREATE MATERIALIZED VIEW {name} AS SELECT 1 AS id;\n")
    assert invoke(["run", "a", "c"]) == 2
    _, err = capsys.readouterr()
    said = "Error: Pipeline c is continuous: it goes on, and the others would not run. Name it, or add --once.\n"
    assert err.endswith(said)
    assert invoke(["run", "a", "b", "--once"]) == 1
    out, err = capsys.readouterr()
    assert [line.split()[:2] for line in out.splitlines()] == [["dataset", "result"], ["b", "completed"]]
    assert err.endswith(
        "[NOTHING_DEFINED] pipeline a: its files define no table and no view: a.sql; nothing was run\n"
        "  hint: rivermouth init --pipeline, for a pipeline to start from\n"
    )


FAILING = """
import pathlib
from pyspark import pipelines as dp
from pyspark.sql.functions import udf

@udf("bigint")
def checked(id):
    if pathlib.Path("{folder}/bad").exists() and id > 1:
        raise ValueError("bad")
    return id

@dp.table(spark_conf={{"pipelines.trigger.interval": "1 second"}})
def numbers():
    files = spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json("in")
    return files.select(checked("id").alias("id"))

@dp.foreach_batch_sink
def copies(frame, number):
    frame.collect()

@dp.append_flow(target="copies", name="copy")
def copy():
    return numbers()
"""


def until(work, condition):
    """Waits until something holds while a pipeline is at work."""
    deadline = time.monotonic() + 120
    while not condition():
        assert work.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.1)


@pytest.mark.long
def test_batches_before_a_failure_count_in_the_outcome(folder):
    folder.write("src/a.py", FAILING.format(folder=folder.folder))

    def feed(number, *rows):
        """Spark takes the oldest file first."""
        folder.feed(f"in/{number}.json", *rows)
        at = time.time() - 100 + number
        os.utime(folder.folder / f"in/{number}.json", (at, at))

    feed(1, {"id": 1}, {"id": 1})
    feed(2, {"id": 2})
    folder.write("bad", "")
    found = folder.run()
    assert {name: (each.result, each.counts.read, each.counts.written) for name, each in found.items()} == {
        "numbers": ("failed", 2, 2),
        "copies": ("failed", 2, 2),
    }
    # A flow that goes on is tried again.
    (folder.folder / "bad").unlink()
    events, hooks, outcomes = [], RunHooks(), []
    options = commands.UpdateOptions(Selection(refresh=("numbers",)), follow=True, listener=events.append)
    work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))
    work.start()

    until(work, lambda: len(folder.rows("default.numbers")) == 3)
    folder.write("bad", "")
    feed(3, {"id": 3}, {"id": 3})
    until(work, lambda: any(hasattr(each, "wait_s") for each in events))
    (folder.folder / "bad").unlink()
    until(work, lambda: len(folder.rows("default.numbers")) == 5)
    hooks.stop.ask()
    work.join(60)
    assert [(each.result, each.counts.read) for each in outcomes] == [("completed", 3)]


TWO = """
from pyspark import pipelines as dp

@dp.table(spark_conf={"pipelines.trigger.interval": "100 milliseconds"})
def first():
    return spark.readStream.schema("id bigint").json("in")

@dp.table(spark_conf={"pipelines.trigger.interval": "100 milliseconds"})
def second():
    return spark.readStream.schema("id bigint").json("in")

@dp.table(spark_conf={"pipelines.trigger.interval": "100 milliseconds"})
def third():
    return spark.readStream.table("second")

@dp.foreach_batch_sink
def copies(frame, number):
    frame.collect()

@dp.append_flow(target="copies", name="copy", spark_conf={"pipelines.trigger.interval": "100 milliseconds"})
def copy():
    return spark.readStream.schema("id bigint").json("in")
"""
BROKEN = (
    "[FLOW_BROKEN] flow first: OSError: no disk; the current batch was not written, or will be found at the next start"
    "\n  at: src/a.py:4\n  hint: rivermouth run"
)


def test_a_disk_that_fails_for_a_while_ends_no_flow(folder, monkeypatch):
    folder.write("src/a.py", TWO)
    (folder.folder / "in").mkdir()
    failures, opened = [OSError("no disk")], refresh_node.opened

    def breaks(loaded, flow, context, frame):
        if context.flow == "first" and failures:
            raise failures.pop()
        return opened(loaded, flow, context, frame)

    monkeypatch.setattr(refresh_node, "opened", breaks)
    found = folder.run()
    assert {name: each.result for name, each in found.items()} == {
        "first": "failed",
        "second": "completed",
        "third": "completed",
        "copies": "completed",
    }
    assert str(found["first"].error) == BROKEN
    # With --follow for as long as it lasts, with pauses that grow until a batch was written.
    waits, late, hooks, outcomes = [], {}, RunHooks(), []

    def step(name):
        if late.pop(name, None):
            raise OSError("no disk")

    kept = folder.folder / "lake/_rivermouth/pipelines/shop/failures"
    options = commands.UpdateOptions(follow=True, step=step)
    monkeypatch.setattr(update, "wait_s", lambda number: waits.append(number) or 0.0)
    failures += [OSError("no disk"), LakeNotReadable(place="lake", detail="no disk")] * 5
    work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))
    work.start()
    # A flow that works again is no failure in its status, though it has no rows.
    until(work, lambda: len(waits) == 10 and not list(kept.iterdir()))
    late["sink"] = True
    folder.feed("in/1.json", {"id": 1})
    until(work, lambda: len(waits) == 11 and not list(kept.iterdir()) and len(folder.rows("default.third")) == 1)
    late["files"] = True
    folder.feed("in/2.json", {"id": 2})
    until(work, lambda: len(folder.rows("default.third")) == 2 and len(folder.rows("default.first")) == 2)
    hooks.stop.ask()
    work.join(60)
    assert waits == [*range(1, 11), 1, 1]
    assert [(each.dataset, each.result) for each in outcomes] == [(name, "completed") for name in found]
    assert [wait_s(number) for number in (1, 2, 5, 6, 10_000)] == [2.0, 4.0, 32.0, 60.0, 60.0]


STOPPED = """
import time
from pyspark import pipelines as dp
from pyspark.sql.functions import udf

@udf("bigint")
def slow(id):
    time.sleep(1)
    return id

def rows():
    return spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json("in")

@dp.table
def numbers():
    return rows()

@dp.foreach_batch_sink
def copies(frame, number):
    found = frame.select(slow("id")).collect()
    with open("{folder}/copies", "a") as file:
        file.writelines(f"{{row[0]}}\\n" for row in found)

@dp.append_flow(target="copies", name="copy")
def copy():
    return rows()
"""


def test_a_stop_waits_for_the_batch_in_hand_and_is_no_failure(folder, monkeypatch):
    folder.write("src/a.py", STOPPED.format(folder=folder.folder))
    folder.feed("in/1.json", {"id": 1})
    folder.feed("in/2.json", {"id": 2})
    stopping, both = threading.Event(), threading.Barrier(2)

    def step(name):
        if name in ("write", "sink"):
            both.wait(60)
            stopping.set()
            time.sleep(1)

    def run():
        options = commands.UpdateOptions(listener=folder.events.append, step=step)
        with commands.opened(folder.pipeline(), writes=True, selection=Selection()) as loaded:
            outcomes = commands.updated(loaded, options, stopping)
        assert not [each for each in folder.events if hasattr(each, "error")]
        return [(each.dataset, each.result, each.counts.read) for each in outcomes]

    assert run() == [("numbers", "completed", 1), ("copies", "completed", 1)]
    assert (len(folder.rows("default.numbers")), len((folder.folder / "copies").read_text().split())) == (1, 1)
    assert {each.counts.read for each in folder.run().values()} == {1}
    assert folder.rows("default.numbers") == [(1,), (2,)]
    assert sorted((folder.folder / "copies").read_text().split()) == ["1", "2"]
    # A batch that takes too long is given up, and is no failure either.
    monkeypatch.setattr(query_end, "STOP_TIMEOUT_S", 0.0)
    stopping.clear()
    folder.feed("in/3.json", {"id": 3})
    assert run() == [("numbers", "completed", 0), ("copies", "completed", 0)]
    said = "the current batch did not end in 60 s and was given up; the next run writes it"
    assert sorted(each.flow for each in folder.events if isinstance(each, Note) and each.message == said) == [
        "copy",
        "numbers",
    ]
    monkeypatch.undo()
    folder.run()
    assert folder.rows("default.numbers") == [(1,), (2,), (3,)]
