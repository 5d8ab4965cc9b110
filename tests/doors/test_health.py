"""What does not work is said: by the run, by ``status`` long after it, and by ``status --check`` to a scheduler."""

from __future__ import annotations

import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient
from tests.crashes.oracle import rows_of

from rivermouth.cli.audit import audit_text
from rivermouth.cli.status import check_text
from rivermouth.domain.ledger.audit_window import Tally
from rivermouth.domain.ledger.dropping import dropped_by
from rivermouth.domain.ledger.failures import Failure, failure_of
from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.domain.ledger.lost_state import LostState
from rivermouth.domain.project.locations import resolve
from rivermouth.domain.project.table_per_topic import child_of
from rivermouth.engine.audit.audit import FlowAudit, _with_unlisted
from rivermouth.engine.flow.failures import FailureNotes, file_of, keep_unstarted, read_failure
from rivermouth.engine.flow.jobs import FamilyJob, FlowJob
from rivermouth.engine.flow.lost_state import lost_at
from rivermouth.engine.flow.table_per_topic import foreseen, look
from rivermouth.engine.report.flow_status import FlowStatus
from rivermouth.errors import ArgumentInvalid, BatchFailed, FlowBroken, LakeNotWritable, TableBusy, TopicMissing
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.lake_writer import LakeWriter
from rivermouth.project.api import Project
from rivermouth.project.commands.checks.health import BrokenRule, HealthRules, broken_rules
from rivermouth.spec import Flow, ProjectSpec

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:
    topics: [{topic}]
    format: {{type: json, schema: "amount double"}}
    expectations:
      - {{name: positive, condition: amount > 0, action: {action}}}
      - {{name: small, condition: amount < 100, action: drop}}
    table: silver.orders
    sink: append
"""


@pytest.fixture
def send(broker, orders):
    def send(*values):
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for value in values:
            producer.produce(orders, value)
        assert producer.flush(10) == 0

    return send


def test_a_failure_is_shown_and_breaks_the_check(echo_over, send, orders, tmp_path):
    send('{"amount": 1}', '{"amount": -1}')
    assert echo_over(PROJECT, "run", action="fail")[0] == 1
    kept = json.loads((tmp_path / "lake/_rivermouth/failures/orders.json").read_text())
    assert (kept["flow"], kept["code"]) == ("orders", "EXPECTATION_FAILED")
    code, out, err = echo_over(PROJECT, "status", action="fail")
    assert (code, err) == (0, "")
    first, _, third, *_ = out.splitlines()
    assert re.fullmatch(r"orders: its last run failed at [\d-]{10} [\d:]{8} UTC: .*; the batch was not written", first)
    assert f"[EXPECTATION_FAILED] flow orders: expectation 'positive' failed at {orders}-0 offset 1; " in first
    assert third == "  hint: rivermouth run orders, once the record is explained; or action: dead_letter"
    code, out, _ = echo_over(PROJECT, "status", "--check", "--output", "json", action="fail")
    broken = json.loads(out)["check"]["broken"]
    assert (code, [(each["flow"], each["rule"]) for each in broken]) == (1, [("orders", "last_run")])


@pytest.mark.long
def test_a_failure_is_shown_until_the_flow_works_again(echo_over, send, orders, tmp_path):
    send('{"amount": 1}', '{"amount": -1}')
    code, _, _ = echo_over(PROJECT, "run", action="fail")
    assert code == 1
    kept = json.loads((tmp_path / "lake/_rivermouth/failures/orders.json").read_text())
    assert (kept["flow"], kept["code"]) == ("orders", "EXPECTATION_FAILED")

    code, out, err = echo_over(PROJECT, "status", action="fail")
    assert (code, err) == (0, "")
    message = f"[EXPECTATION_FAILED] flow orders: expectation 'positive' failed at {orders}-0 offset 1; "
    first, _, third, *_ = out.splitlines()
    assert re.fullmatch(r"orders: its last run failed at [\d-]{10} [\d:]{8} UTC: .*", first)
    assert first.endswith(f"{message}the batch was not written")
    assert third == "  hint: rivermouth run orders, once the record is explained; or action: dead_letter"
    code, out, _ = echo_over(PROJECT, "status", "--check", "--output", "json", action="fail")
    body = json.loads(out)
    assert (code, body["check"]["passed"]) == (1, False)
    assert [(each["flow"], each["rule"]) for each in body["check"]["broken"]] == [("orders", "last_run")]
    (flow,) = body["flows"]
    assert (flow["code"], flow["failure"]["code"], flow["lag"]) == (None, "EXPECTATION_FAILED", 2)

    assert echo_over(PROJECT, "run", action="dead_letter")[0] == 0
    code, out, _ = echo_over(PROJECT, "status", "--check", action="dead_letter")
    assert (code, out.splitlines()[0]) == (0, "orders: up to date")
    assert out.endswith("\n\ncheck: passed\n")
    assert not (tmp_path / "lake/_rivermouth/failures/orders.json").exists()
    code, out, _ = echo_over(PROJECT, "status", "--max-dead-letters", "10%", action="dead_letter")
    assert (code, out.splitlines()[-2:]) == (
        1,
        [
            "check: failed",
            "  orders: max_dead_letters: 1 of 2 records are dead letters, and at most 10 % are allowed",
        ],
    )


def test_many_dead_letters_are_told_loudly_by_the_run_and_by_status(echo_over, send):
    send("{", "{", '{"amount": "x"}', '{"amount": -1}', '{"amount": 1000}')
    code, out, err = echo_over(PROJECT, "run", action="dead_letter")
    assert code == 0
    (warning,) = [line for line in err.splitlines() if "WARNING" in line]
    assert warning.startswith("orders: WARNING: 4 of 5 records went to the dead letters: 2 ")
    assert warning.endswith("; to see them: rivermouth dead-letters show orders")
    assert out.splitlines()[-1] == "orders: 1 dropped (expectation small 1)"
    code, out, _ = echo_over(PROJECT, "status", action="dead_letter")
    assert "  so far: 5 consumed, 0 written, 1 dropped (expectation small 1), 4 dead-lettered\n" in out
    assert "  warning: 4 of 5 records are dead letters; to see them: rivermouth dead-letters show orders\n" in out


@pytest.mark.long
def test_many_dead_letters_are_told_loudly_and_drops_with_their_reason(echo_over, send):
    send("{", "{", '{"amount": "x"}', '{"amount": -1}', '{"amount": 1000}')
    code, out, err = echo_over(PROJECT, "run", action="dead_letter")
    assert code == 0
    (warning,) = [line for line in err.splitlines() if "WARNING" in line]
    assert warning.startswith("orders: WARNING: 4 of 5 records went to the dead letters: 2 ")
    assert "1 EXPECTATION_FAILED positive" in warning or "positive" in warning
    assert warning.endswith("; to see them: rivermouth dead-letters show orders")
    assert out.splitlines()[-1] == "orders: 1 dropped (expectation small 1)"
    assert "1 dropped (expectation small 1)" in err
    code, out, _ = echo_over(PROJECT, "status", action="dead_letter")
    assert "  so far: 5 consumed, 0 written, 1 dropped (expectation small 1), 4 dead-lettered\n" in out
    assert "  warning: 4 of 5 records are dead letters; to see them: rivermouth dead-letters show orders\n" in out
    send(*['{"amount": 1}'] * 10, "{")
    _, _, err = echo_over(PROJECT, "run", action="dead_letter")
    assert "WARNING" not in err
    send("{")
    _, out, _ = echo_over(PROJECT, "run", "--output", "json", action="dead_letter")
    (event,) = [each for each in map(json.loads, out.splitlines()) if each["event"] == "dead_letters_many"]
    assert (event["flow"], event["dead_lettered"], event["consumed"]) == ("orders", 1, 1)
    assert [each["letters"] for each in event["reasons"]] == [1]


def test_what_is_wrong_now_ends_with_1(echo_over, orders):
    code, out, _ = echo_over(PROJECT.replace("[{topic}]", "[{topic}-x]"), "status", action="drop")
    assert code == 1
    assert out.startswith("orders: [TOPIC_MISSING] ")
    code, out, _ = echo_over(PROJECT.replace("{servers}", "127.0.0.1:1"), "status", action="drop")
    assert code == 1
    assert out.startswith("orders: [BROKER_UNREACHABLE] ")
    code, out, _ = echo_over(PROJECT, "status", action="drop")
    assert code == 0
    assert out.startswith("orders: never ran")


NOW_S = 1_700_000_600.0
WELL = FlowStatus("orders", "/lake/t", lag=5, finished_at=1_700_000_000.0, totals=Counts(consumed=100), dead_letters=10)
FAILURE = Failure("orders", "X", "2026-11-26T01:02:03+00:00", "it broke")


@pytest.mark.parametrize(
    ("status", "rules", "told"),
    [
        (WELL, {}, None),
        (WELL, {"max_lag": 5, "max_dead_letters": 10, "max_age": "10 minutes"}, None),
        (WELL, {"max_dead_letters": "10%"}, None),
        (WELL, {"max_lag": 4}, "max_lag: its lag is 5, and at most 4 is allowed"),
        (WELL, {"max_dead_letters": "9"}, "max_dead_letters: it has 10 dead letters, and at most 9 are allowed"),
        (
            WELL,
            {"max_dead_letters": "9.5%"},
            "max_dead_letters: 10 of 100 records are dead letters, and at most 9.5 % are allowed",
        ),
        (
            WELL,
            {"max_age": "9m"},
            "max_age: its last batch was done 600 seconds ago, and at most 540 seconds is allowed while records wait",
        ),
        (replace(WELL, lag=0), {"max_age": "9m"}, None),
        (
            replace(WELL, finished_at=None),
            {"max_age": "9m"},
            "max_age: no batch is known to be done, and at most 540 seconds is allowed while records wait",
        ),
        (replace(WELL, lag=None), {"max_lag": 4}, "max_lag: its lag is not known, and at most 4 is allowed"),
        (replace(WELL, code="C", message="it is gone"), {}, "error: [C] it is gone"),
        (
            replace(WELL, failure=FAILURE),
            {},
            "last_run: its last run failed at 2026-11-26 01:02:03 UTC: [X] it broke",
        ),
    ],
)
def test_the_rules(status, rules, told):
    found = broken_rules([status], HealthRules.of(**rules), now_s=NOW_S)
    assert check_text(found) == ("check: passed" if told is None else f"check: failed\n  orders: {told}")


@pytest.mark.parametrize(
    ("rules", "detail", "fix"),
    [
        ({"max_dead_letters": "few"}, "'few' is neither a number nor a percentage", "--max-dead-letters 100, or 5%"),
        ({"max_dead_letters": "101%"}, "'101%' is neither a number nor a percentage", "--max-dead-letters 100, or 5%"),
        (
            {"max_age": "soon"},
            "'soon' is no duration: write a number and a unit, for example '30 seconds' (ms, s, m, h, d, w)",
            "--max-age '10 minutes'",
        ),
    ],
)
def test_rules_that_cannot_be_read(rules, detail, fix):
    with pytest.raises(ArgumentInvalid) as error:
        HealthRules.of(**rules)
    assert (error.value.facts["detail"], error.value.next_step) == (detail, fix)


def test_the_rules_in_python(tmp_path):
    flow = {"topics": "t", "format": "text", "table": "bronze.t"}
    kafka = {"bootstrap_servers": "127.0.0.1:1"}
    project = Project.from_spec({"lake": str(tmp_path), "kafka": kafka, "flows": {"a": flow}})
    found = project.broken_rules("a", max_lag=4, max_dead_letters="5%")
    assert [type(each) for each in found] == [BrokenRule, BrokenRule]
    assert [(each.flow, each.rule) for each in found] == [("a", "error"), ("a", "max_lag")]
    assert found[0].detail.startswith("[BROKER_UNREACHABLE] no Kafka broker answered at 127.0.0.1:1")
    with pytest.raises(ArgumentInvalid) as error:
        project.broken_rules(max_age="soon")
    assert error.value.facts["argument"] == "max_age"


def test_several_broken_rules_are_listed():
    assert check_text([BrokenRule("a", "error", "x"), BrokenRule("b", "max_lag", "y")]) == (
        "check: failed\n  a: error: x\n  b: max_lag: y"
    )


@pytest.mark.parametrize(
    ("error", "code", "message"),
    [
        (
            TopicMissing(flow="f", topic="t", fix="x"),
            "TOPIC_MISSING",
            "flow f: topic 't' does not exist on the broker; nothing was read",
        ),
        (
            FlowBroken(flow="f", detail="[CAST_INVALID_INPUT] The value 's3cret' cannot be cast"),
            "FLOW_BROKEN",
            (
                "flow f: [CAST_INVALID_INPUT] see what the run itself said; the current batch was not written, or will "
                "be found at the next start"
            ),
        ),
        (
            BatchFailed(flow="f", ranges="t-0:1..2", attempts=3, detail="java.lang.Error: 's3cret'"),
            "BATCH_FAILED",
            "flow f: offsets t-0:1..2 failed 3 times: see what the run itself said; they were not written",
        ),
        (ValueError("s3cret"), "UNEXPECTED", "ValueError: see what the run itself said"),
    ],
)
def test_no_row_contents_are_kept(error, code, message):
    found = failure_of("f", error)
    assert (found.code, found.message) == (code, message)
    assert "s3cret" not in found.to_json()
    assert Failure.from_json(found.to_json()) == found


@pytest.mark.parametrize("text", ["", "{", "[]", "null", '{"format": 2}', '{"format": 1, "flow": 3}'])
def test_a_note_that_is_none_is_no_failure(text):
    assert Failure.from_json(text) is None


def test_notes_are_kept_and_removed_without_spark(tmp_path):
    lake = LakeWriter({}, timeout_s=1)
    notes = FailureNotes(lambda: lake, pytest.fail)
    notes.failed("a", ValueError())  # no run has begun: nothing is kept
    notes.folder = f"{tmp_path}/_rivermouth/failures"
    notes.works("a")
    assert list(tmp_path.iterdir()) == []
    notes.failed("a", ValueError())
    assert read_failure(LakeReader({}, timeout_s=1), notes.folder, "a").code == "UNEXPECTED"
    notes.works("a")
    assert read_failure(LakeReader({}, timeout_s=1), notes.folder, "a") is None
    # Another process has the flow, and that one says how it is doing.
    notes.failed("a", TableBusy(flow="a", table="/lake/s/a", holder="process 7 on here", fix="x"))
    assert read_failure(LakeReader({}, timeout_s=1), notes.folder, "a") is None


def test_a_lake_that_cannot_be_written_hides_no_failure(tmp_path):
    class Full(LocalFiles):
        def write(self, path, _text):
            raise LakeNotWritable(lake=path, detail="No space left on device")

    told = []
    notes = FailureNotes(Full, lambda flow, words: told.append((flow, words)))
    notes.folder = str(tmp_path)
    notes.failed("a", ValueError())
    assert told == [
        (
            "a",
            (
                f"status may not show how this run ended: cannot write into the lake {file_of(str(tmp_path), 'a')}: "
                "No space left on device; nothing was written"
            ),
        )
    ]
    (tmp_path / "_rivermouth").mkdir()
    (tmp_path / "_rivermouth" / "ledger").mkdir()
    keep_unstarted(Full(), f"{tmp_path}/_rivermouth/failures", ["a"], TopicMissing(flow="f", topic="t", fix="x"))


CHANGES = {
    "name": "f",
    "topics": ["t"],
    "format": {"type": "maxwell", "schema": "a int"},
    "table": "s.t",
    "sink": {"type": "upsert", "keys": ["a"]},
}


def test_why_records_were_dropped():
    flow = Flow.model_validate(
        {
            "name": "f",
            "topics": ["t"],
            "format": {"type": "json", "schema": "a int"},
            "table": "s.t",
            "expectations": [
                {"name": "d", "condition": "a > 0", "action": "drop"},
                {"name": "w", "condition": "a > 1", "action": "warn"},
            ],
        }
    )
    counts = Counts(consumed=9, written=2, dropped=7, null_values=2, expectations={"d": 3, "w": 5})
    assert dropped_by(flow, counts) == {"expectation d": 3, "null value": 2, "left out by the format": 2}
    assert dropped_by(flow, Counts()) == {}
    changes = flow.model_copy(update={"format": Flow.model_validate(CHANGES).format})
    assert dropped_by(changes, Counts(consumed=1, dropped=1)) == {"not a change to this table": 1}
    # Of three that failed two went to the dead letters, for what is wrong with them besides.
    assert dropped_by(flow, Counts(consumed=3, dropped=1, dead_lettered=2, expectations={"d": 3})) == {
        "expectation d": 1
    }


def test_time_passes():
    assert broken_rules([replace(WELL, finished_at=time.time())], HealthRules.of(max_age="1 minute")) == []


# --- a lake whose own folder was deleted ----------------------------------------------------------

STATE = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  kept: {{topics: [{topic}], format: raw, table: bronze.kept}}
  found:
    topics: [{topic}]
    format: {{type: json, schema: infer}}
    table: silver.found
    sink: append
    evolution: {{on_new_column: evolve}}
  refused:
    topics: [{topic}]
    format: {{type: json, schema: "id int, v int"}}
    expectations:
      - {{name: small, condition: v < 9, action: dead_letter}}
      - {{name: first, condition: id > 0, action: drop}}
    table: silver.refused
    sink: append
  newest:
    topics: [{topic}]
    format: {{type: json, schema: "id int, v int, s int"}}
    table: silver.newest
    sink: {{type: upsert, keys: [id], sequence_by: s, apply_as_deletes: v = 4}}
"""
HEAD = "was deleted or emptied: it holds nothing of this flow; rebuilt from the table, at ledger entry"
COUNTED = (
    "the copy of the newest ledger entry; the counts of its batch, by reading the batch's records again without "
    "writing them"
)
KEYS = "which keys were deleted (an older change of such a key that comes again brings its row back)"


def told_lost(err):
    return {line.partition(":")[0]: line for line in err.splitlines() if "was deleted or emptied" in line}


def sums_of(status):
    """How many records went where; of fields there are only samples."""
    return {name: n for name, n in status["totals"].items() if isinstance(n, int) and name != "undeclared_fields"}


def carried(out):
    names = ("consumed", "written", "merged", "dropped", "dead_lettered")
    flows = json.loads(out.splitlines()[-1])["flows"]
    return {each["flow"]: tuple(each["counts"][name] for name in names) for each in flows}


@pytest.mark.long
def test_a_deleted_folder_of_state_is_noticed_and_rebuilt_from_the_tables(echo_over, send, broker, orders, tmp_path):
    state = tmp_path / "lake/_rivermouth"
    send('{"id": 1, "v": 1, "s": 1}', '{"id": 1, "v": 4, "s": 5}', '{"id": 2, "v": 2, "s": 1, "w": {"x": 1}}')
    assert echo_over(STATE, "run")[0] == 0
    # The newest batch has a change that came too late for its key, a dead letter, and a record that is dropped.
    send('{"id": 1, "v": 7, "s": 3}', '{"id": 3, "v": 9, "s": 1}', '{"id": 0, "v": 3, "s": 1}')
    assert echo_over(STATE, "run")[0] == 0
    before = json.loads(echo_over(STATE, "status", "--output", "json")[1])["flows"]
    schema = json.loads((state / "schemas/found/00001.json").read_text())["schema"]
    shutil.rmtree(state)

    _, out, _ = echo_over(STATE, "status")
    assert out.count(f"  warning: {state} was deleted or emptied: the next run rebuilds what the table tells\n") == 4
    _, out, err = echo_over(STATE, "plan", "found")
    assert f"  warning: {state} was deleted or emptied: the next run rebuilds what the table tells\n" in out, err
    assert "inferred" not in out
    send('{"id": 4, "v": 1, "s": 1, "w": {"x": 2}, "y": true}')
    code, out, err = echo_over(STATE, "run")
    assert code == 0
    lost = {"kept": "nothing", "found": "nothing", "refused": "nothing", "newest": KEYS}
    rebuilt = {**dict.fromkeys(lost, COUNTED), "found": f"{COUNTED}; the schema, from the table's columns"}
    assert told_lost(err) == {
        name: f"{name}: WARNING: {state} {HEAD} 2: {rebuilt[name]}; lost: {lost[name]}" for name in lost
    }
    # Only what this run newly carried.
    assert [line.split()[:5] for line in out.splitlines()[1:5]] == [
        [name, "1", "1", "0", "0"] for name in ("kept", "found", "refused", "newest")
    ]
    assert "inferred from" not in err
    assert "batch 2" not in err
    again = json.loads((state / "schemas/found/00001.json").read_text())["schema"]
    assert [(each["name"], each["type"]) for each in again["fields"]] == [
        (each["name"], each["type"]) for each in schema["fields"]
    ]
    statuses = json.loads(echo_over(STATE, "status", "--output", "json")[1])["flows"]
    for one, two in zip(before, statuses, strict=True):
        sums = sums_of(two)
        more = {"consumed": 1, "written": one["flow"] != "newest", "merged": one["flow"] == "newest"}
        assert sums == {name: one["totals"][name] + more.get(name, 0) for name in sums}, one["flow"]
        assert two["totals"]["expectations"] == one["totals"]["expectations"]
        assert (two["state_lost"] or {}).get("lost") == (["deleted_keys"] if two["flow"] == "newest" else None)
    letters = json.loads(echo_over(STATE, "dead-letters", "list", "--output", "json")[1])["dead_letters"]
    assert [(each["flow"], each["letters"]) for each in letters] == [("refused", 1)]
    rows = {each["id"]: each for each in rows_of(tmp_path / "lake/silver/newest")}
    assert {key: row["v"] for key, row in rows.items()} == {0: 3, 2: 2, 3: 9, 4: 1}
    (grown,) = [each for each in rows_of(tmp_path / "lake/silver/found") if each["id"] == 4]
    assert (grown["w"], grown["y"]) == ({"x": 2}, True)
    code, out, _ = echo_over(STATE, "audit")
    assert code == 0, out

    # Kafka has no record of the newest batch any more: what the tables have of it counts, and no flow stops.
    place = TopicPartition(orders, 0, 7)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([place])[place].result(30)
    shutil.rmtree(state)
    code, out, err = echo_over(STATE, "run", "--output", "json")
    assert (code, carried(out)) == (0, dict.fromkeys(lost, (0, 0, 0, 0, 0))), err
    said = [each for each in map(json.loads, out.splitlines()) if each["event"] == "state_lost"]
    assert {each["flow"]: (each["entry"], each["lost"]) for each in said} == {
        **dict.fromkeys(("kept", "found", "refused"), (3, [])),
        "newest": (3, ["deleted_keys"]),
    }
    totals = {each["flow"]: sums_of(each) for each in statuses}
    for each in json.loads(echo_over(STATE, "status", "--output", "json")[1])["flows"]:
        assert (sums_of(each), each["warnings"], each["lag"]) == (totals[each["flow"]], [], 0)
    _, out, _ = echo_over(STATE, "status", "newest")
    assert re.search(rf"  lost with deleted state at [\d-]+ [\d:]+ UTC, ledger entry 3: {re.escape(KEYS)}\n", out)


def commit(places, number, entry):
    """A commit of Delta's that has no more than a ledger entry."""
    log = Path(places.table) / "_delta_log"
    log.mkdir(parents=True, exist_ok=True)
    info = {"commitInfo": {"timestamp": 1, "operation": "WRITE", "userMetadata": entry.to_json()}}
    (log / f"{number:020}.json").write_text(json.dumps(info))


def test_only_a_table_with_batches_lost_its_state(tmp_path):
    flow = Flow.model_validate({"name": "f", "topics": ["t"], "format": "text", "table": "s.t"})
    places = resolve(ProjectSpec(lake=str(tmp_path)), flow, base=tmp_path, environ={})
    files = LocalFiles()
    entry = first_entry("f", {"t": {0: 0}}, {"t": None}, starting_offsets="earliest")

    assert lost_at(flow, files, places) is None
    commit(places, 0, entry)
    assert lost_at(flow, files, places) is None
    batch = entry.after_batch({"t": {0: (0, 5)}}, Counts(), {"t": None})
    commit(places, 1, batch)
    assert lost_at(flow, files, places) == batch
    assert lost_at(flow.model_copy(update={"name": "g"}), files, places) is None
    assert lost_at(flow, files, replace(places, state=f"{places.state}_debug")) is None
    files.write(places.ledger_file, "{}")
    assert lost_at(flow, files, places) is None


class Topics:
    """The topics that a family finds."""

    def __init__(self, *names):
        self._names = names

    def topics(self, _flow):
        return self._names


def test_the_first_topics_of_a_family_are_known_by_their_tables(tmp_path):
    settings = {"topic_pattern": ".*", "format": "text", "table": "s.{topic}", "starting_offsets": "latest"}
    family = Flow.model_validate({"name": "f", **settings})
    project = ProjectSpec(lake=str(tmp_path))

    def child(flow):
        return FlowJob(flow, resolve(project, flow, base=tmp_path, environ={}), "s", {})

    eu = child(child_of(family, "eu"))
    order = FamilyJob(family, eu.places, "s", {}, child=child)

    def starts(read):
        return {
            each.flow.name: each.flow.starting_offsets.kind
            for each in read(order, LocalFiles(), Topics("eu", "us")).orders
        }

    assert starts(foreseen) == {"f.eu": "latest", "f.us": "latest"}
    entry = first_entry("f.eu", {"eu": {0: 0}}, {"eu": None}, starting_offsets="latest")
    commit(eu.places, 0, entry)
    commit(eu.places, 1, entry.after_batch({"eu": {0: (0, 5)}}, Counts(), {"eu": None}))
    # The other one has no table, so it came when the folder was gone, and none of its records is passed over.
    for _ in range(2):
        assert starts(foreseen) == starts(look) == {"f.eu": "latest", "f.us": "earliest"}


def test_an_audit_says_what_is_not_known_any_more():
    window = {"entry": 4, "until": 4, "ranges": {"t": {0: (0, 9)}}, "counted": Counts(consumed=9, written=9, erased=6)}
    found = _with_unlisted(Tally(visible=9, in_table=3, in_neither=6), window["counted"])
    assert found == Tally(visible=9, in_table=3, erased=6)
    assert _with_unlisted(Tally(in_neither=9), Counts(dropped=1, erased=6)) == Tally(in_neither=3, erased=6)
    assert _with_unlisted(Tally(in_neither=1, erased=6), Counts(dropped=1, erased=6)) == Tally(in_neither=1, erased=6)
    lost = LostState(3, "2026-11-26T01:02:03+00:00", ("erased_records",))
    said = audit_text(FlowAudit("f", "/lake/t", found=found, state_lost=lost, **window))
    assert said.splitlines()[0] == "f: every record is in exactly one place"
    assert said.endswith(
        "  the flow's state was deleted, as found at ledger entry 3; not known any more: which records were erased "
        "(a rewind brings them back)"
    )


@pytest.mark.parametrize("text", [None, "", "{", "[]", '{"entry": "x", "at": "", "lost": []}', '{"entry": 1}'])
def test_a_damaged_note_of_lost_state_says_nothing(text):
    assert LostState.from_text(text) is None
    assert LostState.from_text(LostState(3, "2026", ("x",)).to_text()) == LostState(3, "2026", ("x",))
