"""Flows over one raw table that carry their batches together: each table is as if it had been carried alone.

Whatever ends the process before, in or after their common job, or makes the job fail, a later run leaves the tables,
the dead letters and the counts of a run that nothing disturbed.
"""

import json
import os
import shutil
import subprocess
import sys
import uuid
from collections import Counter
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from tests.crashes.oracle import ledger_of, rows_of

from rivermouth import Project
from rivermouth.engine.events import StepReached
from rivermouth.errors import ArgumentInvalid
from rivermouth.project.commands import managed_session, run_flows

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
spark: {{driver_memory: 1g}}
flows:
  raw:
    topics: [{topic}]
    format: raw
    table: {{name: bronze.all, partition_by: [{{kind: "get_json_object(CAST(value AS STRING), '$.kind')"}}]}}
  by:
    source: {{table: bronze.all}}
    format: {{type: json, schema: "kind string, id bigint, at timestamp, day date, note string, items array<int>"}}
    explode: items AS item
    expectations:
      - {{name: small, condition: "item < 30", action: warn}}
      - {{name: known, condition: "note <> 'nobody'", action: dead_letter}}
      - {{name: wanted, condition: "id % 11 <> 5", action: drop}}
      {more}
    table: {{name: "kinds.{{kind}}"{table}}}
    trigger: {{max_offsets: {max_offsets}}}
"""
KINDS, RECORDS = ("_rest", "a", "b", "c"), 400
# Such a property may be about the files: a table with it is written alone.
ALONE = ", properties: {some.option: 'true'}"
SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-Xss16m -XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.sql.codegen.wholeStage": "false",
}
KILLED = """
import glob, os, signal, sys, threading, time
from pyspark import SparkContext
from rivermouth import Project
from rivermouth.engine.events import StepReached

on, nth, who, how = sys.argv[1], int(sys.argv[2]), sys.argv[3], sys.argv[4]
writes, seen = [], []

def kill():
    os.kill(SparkContext._gateway.proc.pid, signal.SIGKILL)
    if who == "both":
        os.kill(os.getpid(), signal.SIGKILL)

def kill_once_writing():
    while len({os.path.dirname(each) for each in glob.glob("lake/kinds/*/*.parquet")}) < 2:
        time.sleep(0.001)
    kill()

def wait_for_those_before():
    # Events are told one at a time: who comes next waits until the commits of those before it are there.
    while sum("letters" not in each for each in glob.glob("lake/kinds/*/_delta_log/*[1-9].json")) < len(writes):
        time.sleep(0.001)
    writes.append(1)

def hear(event):
    name = event.step if isinstance(event, StepReached) else type(event).__name__
    if not getattr(event, "flow", "").startswith("by."):
        return
    if name == "write" and how == "in turns":
        wait_for_those_before()
    if name == on:
        seen.append(event.flow)
        if len(seen) == nth and how == "once writing":
            threading.Thread(target=kill_once_writing, daemon=True).start()
        elif len(seen) == nth:
            kill()

Project.load("rivermouth.yml").run(listener=hear)
"""


def value_of(number):
    """A record; some of these are refused, some dropped, and most are several rows."""
    if number % 41 == 7:
        return b"no document"
    body = {
        "kind": KINDS[number % 4],
        "id": "x" if number % 29 == 3 else number,
        "day": f"2026-01-{1 + number % 28:02}",
    }
    body["at"] = f"2026-02-01T00:{number % 60:02}:00.{number % 1000:03}Z"
    body["note"] = [None, "nobody", "grüße", "x" * 40][number % 4 if number % 5 else 1]
    body["items"] = None if number % 31 == 4 else list(range(number % 4, number % 40, 9))
    if number % 4 == 0:
        del body["kind"]
    return json.dumps(body).encode()


@pytest.fixture(scope="module")
def sent(broker):
    """A topic with all records, some without a value."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_topics([NewTopic(name, 2, 1)])[name].result(30)
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})
    for number in range(RECORDS):
        value = None if number % 37 == 9 else value_of(number)
        producer.produce(name, value=value, key=f"k{number % 9}", partition=number % 2)
    assert producer.flush(30) == 0
    return name


@pytest.fixture(scope="module")
def write(broker, sent, spark, tmp_path_factory):
    """Writes the project into a folder, with the raw table of all records."""

    def write(folder, *, table="", more="", max_offsets=RECORDS):
        text = PROJECT.format(
            servers=broker.bootstrap_servers, topic=sent, table=table, more=more, max_offsets=max_offsets
        )
        shutil.copytree(filled, folder, dirs_exist_ok=True)
        (folder / "rivermouth.yml").write_text(text)

    filled, made, before = tmp_path_factory.mktemp("filled"), tmp_path_factory.mktemp("made"), Path.cwd()
    write(made)
    assert run(made, "raw") == {"raw": None}
    os.chdir(before)
    shutil.copytree(made, filled, dirs_exist_ok=True)
    return write


def run(folder, *names, hear=None):
    """The errors of a run, by flow."""
    os.chdir(folder)
    hooks = managed_session.NO_HOOKS if hear is None else managed_session.RunHooks(listener=hear)
    return {each.flow: each.error for each in run_flows.run(Project.load("rivermouth.yml"), names, hooks=hooks)}


@pytest.fixture(scope="module")
def together(spark, write, tmp_path_factory):
    """A run that nothing disturbed, with batches of ``max_offsets``: its folder, what it left, its steps."""
    known = {}

    def together(max_offsets=RECORDS):
        if max_offsets not in known:
            folder, before = tmp_path_factory.mktemp("together"), Path.cwd()
            write(folder, max_offsets=max_offsets)
            steps = steps_of(folder)
            known[max_offsets] = folder, left_by(folder), steps
            os.chdir(before)
        return known[max_offsets]

    return together


@pytest.fixture
def undisturbed(together):
    """What a run is to leave that reads with batches of ``max_offsets``."""
    return lambda max_offsets=RECORDS: together(max_offsets)[1]


def steps_of(folder):
    """How often a run of the flows that carry their batches together came to each step."""
    steps = Counter()

    def hear(event):
        if isinstance(event, StepReached) and event.flow.startswith("by."):
            steps[event.step] += 1

    assert set(run(folder, hear=hear).values()) == {None}
    return steps


def without(rows, *names):
    bare = ({name: value for name, value in row.items() if name not in names} for row in rows)
    return sorted((tuple(sorted(row.items(), key=lambda item: item[0])) for row in bare), key=repr)


def left_by(folder):
    """By table: rows, dead letters, and what is counted. Each file is named by one version alone."""
    os.chdir(folder)
    statuses = {each.flow: each for each in Project.load("rivermouth.yml").status("by")}
    found = {}
    for kind in KINDS:
        table = folder / "lake" / "kinds" / kind
        added = [action["add"]["path"] for _version, actions in log_of(table) for action in actions if "add" in action]
        assert len(added) == len(set(added))
        assert [each["entry"] for each in ledger_of(table)] == list(range(len(ledger_of(table))))
        found[kind] = (
            without(rows_of(table), "ingested_at"),
            without(rows_of(f"{table}__dead_letters"), "dead_lettered_at"),
            statuses[f"by.{kind}"].totals,
            [each["topics"] for each in ledger_of(table)],
        )
    return found


def in_whatever_batches(left):
    """What was left, but for how it came: with a new JVM batches are smaller."""
    return {
        kind: (
            rows,
            sorted((tuple(each for each in letter if each[0] != "batch") for letter in letters), key=repr),
            totals,
            {topic: said["next"] for topic, said in topics[-1].items()},
        )
        for kind, (rows, letters, totals, topics) in left.items()
    }


def log_of(table):
    """The actions of each version."""
    return [
        (int(file.stem), [json.loads(line) for line in file.read_text("utf-8").split("\n") if line])
        for file in sorted(table.glob("_delta_log/*.json"))
        if file.stem.isdecimal()
    ]


def is_clean():
    """Whether each record of the source is in one place, as the project's own audit finds."""
    return [each.problems for each in Project.load("rivermouth.yml").audit("by")] == [()] * len(KINDS)


def killed(folder, on, nth, who, how):
    """A run of a process of its own, killed; its Spark, which does not live long, compiles little."""
    project = folder / "rivermouth.yml"
    text = project.read_text()
    project.write_text(text.replace("driver_memory: 1g", f"driver_memory: 1g, conf: {json.dumps(SHORT_LIVED)}"))
    done = subprocess.run(
        [sys.executable, "-c", KILLED, on, str(nth), who, how],
        cwd=folder,
        env=os.environ,
        capture_output=True,
        timeout=180,
        check=False,
    )
    assert done.returncode == (-9 if who == "both" else 0), done.stderr.decode()[-2000:]
    project.write_text(text)


def filled(folder):
    """The tables that have got a batch."""
    return {kind for kind in KINDS if len(log_of(folder / "lake" / "kinds" / kind)) > 1}


KILLS = [
    # Of the steps of the way to the files the first flow of all tells, and each its own after it.
    ("decode", 1, "both", "at once"),
    ("write", 1, "both", "at once"),
    ("written", 2, "both", "at once"),
    ("complete", 2, "both", "at once"),
    ("BatchDone", 4, "both", "at once"),
    ("write_dead_letters", 2, "both", "at once"),
    ("decode", 1, "jvm", "once writing"),
    ("written", 2, "jvm", "at once"),
    ("dead_letters_written", 3, "both", "at once"),
    ("dead_letters", 2, "both", "at once"),
    ("create", 2, "both", "at once"),
]


@pytest.mark.long
@pytest.mark.parametrize(("on", "nth", "who", "how"), KILLS)
def test_whatever_was_killed_goes_on(spark, write, undisturbed, tmp_path, monkeypatch, on, nth, who, how):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path)
    killed(tmp_path, on, nth, who, how)
    assert set(run(tmp_path).values()) == {None}
    found = left_by(tmp_path)
    assert in_whatever_batches(found) == in_whatever_batches(wanted)
    assert who == "jvm" or found == wanted


@pytest.mark.long
def test_killed_in_the_common_job_there_are_files_and_no_row(spark, write, undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path)
    killed(tmp_path, "decode", 1, "both", "once writing")
    assert len({each.parent for each in tmp_path.glob("lake/kinds/*/*.parquet")}) > 1
    assert filled(tmp_path) == set()
    assert set(run(tmp_path).values()) == {None}
    assert left_by(tmp_path) == wanted


@pytest.mark.long
def test_ended_between_two_commits_one_table_is_ahead(spark, write, undisturbed, tmp_path, monkeypatch):
    """In this process: an error ends those flows that have not committed yet, as a kill does."""
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path)
    writes = []

    def hear(event):
        if isinstance(event, StepReached) and event.step == "write" and event.flow.startswith("by."):
            writes.append(event.flow)
            if len(writes) > len(KINDS) // 2:
                raise ArgumentInvalid(argument="test", detail="the process ends here", fix="")

    errors = run(tmp_path, hear=hear)
    assert sorted(str(error and error.code) for error in errors.values()) == ["ARGUMENT_INVALID"] * 2 + ["None"] * 3
    assert sorted(len(log_of(tmp_path / "lake" / "kinds" / kind)) for kind in KINDS) == [1, 1, 2, 2]
    assert set(run(tmp_path).values()) == {None}
    # The long one has it audited as well.
    assert left_by(tmp_path) == wanted


@pytest.mark.long
@pytest.mark.parametrize(("batch", "max_offsets"), [(0, RECORDS), (1, 160)])
def test_killed_between_two_commits_one_table_is_ahead(
    spark, write, undisturbed, tmp_path, monkeypatch, batch, max_offsets
):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed(max_offsets)
    write(tmp_path, max_offsets=max_offsets)
    killed(tmp_path, "write", len(KINDS) * batch + 3, "both", "in turns")
    assert sorted(len(log_of(tmp_path / "lake" / "kinds" / kind)) for kind in KINDS) == [
        each + batch for each in (1, 1, 2, 2)
    ]
    assert set(run(tmp_path).values()) == {None}
    assert is_clean()
    assert left_by(tmp_path) == wanted


@pytest.mark.long
def test_killed_while_it_recovers_from_having_been_killed(spark, write, undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed(160)
    write(tmp_path, max_offsets=160)
    killed(tmp_path, "written", 3, "both", "at once")
    killed(tmp_path, "recover", 2, "both", "at once")
    killed(tmp_path, "written", 3, "both", "at once")
    assert set(run(tmp_path).values()) == {None}
    assert left_by(tmp_path) == wanted


# --- the common job fails, or a table has moved: each goes alone ---


def at(step, flow, do):
    """Hears of the first time that a flow comes to a step, and does something then."""

    def hear(event):
        if not done and isinstance(event, StepReached) and (event.step, event.flow) == (step, flow):
            done.append(event)
            do()

    done = []
    return hear


@pytest.mark.long
def test_a_record_that_ends_the_job_stops_its_own_flow(spark, write, undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path, more="- {name: not_this, condition: \"kind <> 'b' OR id <> 210\", action: fail}")
    errors = run(tmp_path)
    assert {flow: error and error.code for flow, error in errors.items()} == {
        "raw": None,
        "by._rest": None,
        "by.a": None,
        "by.b": "EXPECTATION_FAILED",
        "by.c": None,
    }
    write(tmp_path)
    assert set(run(tmp_path).values()) == {None}
    assert is_clean()
    found = left_by(tmp_path)
    for kind, (rows, letters, totals, topics) in wanted.items():
        assert found[kind][:2] == (rows, letters)
        assert found[kind][2].consumed == totals.consumed
        assert found[kind][3] == topics


@pytest.mark.long
def test_a_table_that_somebody_changes_meanwhile_is_written_alone(spark, write, undisturbed, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path)
    table = tmp_path / "lake" / "kinds" / "b"
    change = f"ALTER TABLE delta.`{table}` SET TBLPROPERTIES (note = 'mine')"
    assert set(run(tmp_path, hear=at("write", "by.b", lambda: spark.sql(change))).values()) == {None}
    assert len(log_of(table)) == len(log_of(table.with_name("a"))) + 1
    assert left_by(tmp_path) == wanted


@pytest.mark.long
def test_a_writer_that_was_thought_dead_adds_nothing(spark, write, undisturbed, tmp_path, monkeypatch):
    """Another has its table by now, and has carried the same batch."""
    monkeypatch.chdir(tmp_path)
    wanted = undisturbed()
    write(tmp_path)

    def overtake():
        for lease in (tmp_path / "lake" / "_rivermouth").glob("**/kinds*b*"):
            if "lease" in str(lease):
                lease.unlink()
        assert run(tmp_path, "by.b") == {"by.b": None}

    errors = run(tmp_path, hear=at("write", "by.b", overtake))
    assert {flow: error and error.code for flow, error in errors.items() if error} == {"by.b": "LEASE_FILE_LOST"}
    assert set(run(tmp_path).values()) == {None}
    assert left_by(tmp_path) == wanted


# --- together or alone, it is the same ---


@pytest.mark.long
@pytest.mark.parametrize("max_offsets", [RECORDS, pytest.param(160, marks=pytest.mark.long)])
def test_what_is_written_together_is_what_each_writes_alone(max_offsets, spark, write, together, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder, left, steps_together = together(max_offsets)
    write(tmp_path, table=ALONE, max_offsets=max_offsets)
    carried = {}
    for way, steps in (("together", steps_together), ("alone", steps_of(tmp_path))):
        # The first flow tells of the common way, and each of its part; dead letters are judged once more.
        carried[way] = (steps["decode"] - steps["write_dead_letters"], steps["written"], steps["recover"])
    written = carried["alone"][1]
    # Where no table is one for that, it is tried once.
    assert carried == {"together": (written + written // len(KINDS), written, 0), "alone": (written + 1, written, 0)}
    assert left == left_by(tmp_path)
    for kind in KINDS:
        ours, theirs = (each / "lake" / "kinds" / kind for each in (folder, tmp_path))
        assert [told_by(actions) for _, actions in log_of(ours)] == [told_by(actions) for _, actions in log_of(theirs)]


def told_by(actions):
    """What a commit says, but for names, times, and into how many files its rows went."""
    (commit,) = [each["commitInfo"] for each in actions if "commitInfo" in each]
    kept = ("operation", "operationParameters", "isBlindAppend", "isolationLevel", "readVersion")
    said = {name: commit.get(name) for name in kept}
    if commit["operation"] != "WRITE":
        return commit["operation"]
    said["metrics"] = set(commit["operationMetrics"])
    said["rows"] = commit["operationMetrics"]["numOutputRows"]
    said["transactions"] = [each["txn"]["version"] for each in actions if "txn" in each]
    said["keys"] = {key for each in actions for key in each}
    files = [each["add"] for each in actions if "add" in each]
    # Delta's own writer leaves out what is empty.
    said["fields"] = {name for each in files for name, value in each.items() if value != {}}
    said["partitions"] = [each["partitionValues"] for each in files if each["partitionValues"]]
    said["changes"] = {each["dataChange"] for each in files}
    statistics = [json.loads(each["stats"]) for each in files]
    said["names"] = {name for each in statistics for name in each}
    said["tight"] = {each.get("tightBounds") for each in statistics}
    said["records"] = sum(each["numRecords"] for each in statistics)
    for name, best in (("minValues", min), ("maxValues", max), ("nullCount", lambda *them: sum(them))):
        columns = {column for each in statistics for column in each[name]}
        of = {column: [each[name][column] for each in statistics if column in each[name]] for column in columns}
        said[name] = {column: values[0] if len(values) == 1 else best(*values) for column, values in of.items()}
    return said
