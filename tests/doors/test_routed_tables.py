"""One topic, many tables: a flow over a raw table with a table for each value of a column."""

import json
import re
import threading
import time

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.engine.events import FlowOpened
from rivermouth.project.commands import managed_session, run_flows

PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  raw:
    topics: [{topic}]
    format: raw
    table:
      name: bronze.events
      partition_by: [{{event: "nullif(get_json_object(CAST(value AS STRING), '$.event'), '')"}}]
    trigger: {{every: 500 ms}}
  events:
    source: {{table: bronze.events{where}}}
    format: {{type: json, schema: {schema}}}
    table: {{name: "events.{{event}}", max_tables: {max_tables}}}
    starting_offsets: {start}
    trigger: {{every: 500 ms}}
"""
NAMED = {"where": "", "schema": "'event string, id bigint'", "max_tables": 10, "start": "earliest"}


@pytest.fixture
def say(echo_over):
    def say(*arguments, **named):
        return echo_over(PROJECT, *arguments, **{**NAMED, **named})

    return say


@pytest.fixture
def send(broker, orders):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    def send(*values, key=None):
        for value in values:
            produced = value if isinstance(value, str | None) else json.dumps(value)
            producer.produce(orders, value=produced, key=key)
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def ids(tmp_path):
    return lambda table: sorted(row["id"] for row in rows_of(tmp_path / "lake/events" / table))


def consumed(out):
    """Records by flow, as the last line of a run with --output json tells them."""
    return {each["flow"]: each["counts"]["consumed"] for each in json.loads(out.splitlines()[-1])["flows"]}


@pytest.mark.long
def test_each_value_has_its_table_and_what_names_none_has_one_more(say, send, ids, tmp_path):
    for command in ("plan", "run"):
        code, _, err = say(command, "events")
        assert code == 1
        assert err.removeprefix("events: failed: ").splitlines()[:3] == [
            "[SOURCE_NOT_MADE] flow events: its source, table bronze.events, is not made yet; nothing was read",
            "  at: rivermouth.yml:11",
            "  hint: rivermouth run raw",
        ]
    code, out, _ = say("status", "events")
    assert (code, out.startswith("events: its last run failed at ")) == (0, True), out
    assert "[SOURCE_NOT_MADE] flow events: its source, table bronze.events, is not made yet; nothing was read" in out
    key = (5).to_bytes(8, "big")
    send({"event": "conn", "id": 1}, {"event": "dns", "id": 2}, {"event": "conn", "id": 3}, key=key)
    send({"id": 4}, {"event": "a/b", "id": 5}, {"event": "", "id": 6}, {"event": "conn", "id": "x"}, "not JSON")
    code, out, err = say("run", "--output", "json")
    assert code == 1 or not err, err
    said = [each for each in map(json.loads, out.splitlines()) if each["event"] == "warned"]
    assert {each["flow"] for each in said if each["message"].startswith("all keys have 8 bytes and look like")} == {
        "events.conn",
        "events.dns",
    }
    assert consumed(out) == {"raw": 8, "events._rest": 4, "events.conn": 3, "events.dns": 1}
    assert (ids("conn"), ids("dns"), ids("_rest")) == ([1, 3], [2], [4, 5, 6])
    letters = json.loads(say("dead-letters", "list", "events", "--output", "json")[1])["dead_letters"]
    assert {each["flow"]: each["letters"] for each in letters} == {"events._rest": 1, "events.conn": 1}

    # A later run finds a value that is new; one flow alone can be named, and no broker is asked for it.
    send({"event": "http", "id": 7}, {"event": "dns", "id": 8})
    assert consumed(say("run", "raw", "--output", "json")[1]) == {"raw": 2}
    planned = json.loads(say("plan", "events", "--output", "json")[1])["flows"]
    assert [(each["flow"], each["creates_table"], each["offsets"]) for each in planned] == [
        ("events._rest", False, 2),
        ("events.conn", False, 2),
        ("events.dns", False, 2),
        ("events.http", True, 10),
    ]
    assert consumed(say("run", "events.dns", "--output", "json")[1]) == {"events.dns": 1}
    statuses = json.loads(say("status", "events", "--output", "json")[1])["flows"]
    assert [(each["flow"], each["message"]) for each in statuses] == [
        ("events._rest", "2 offsets behind, and no process writes the table"),
        ("events.conn", "2 offsets behind, and no process writes the table"),
        ("events.dns", "up to date"),
        ("events.http", "never ran; would start at earliest"),
    ]
    assert consumed(say("run", "events", "--output", "json")[1]) == {
        "events._rest": 0,
        "events.conn": 0,
        "events.dns": 0,
        "events.http": 1,
    }
    assert (ids("dns"), ids("http")) == ([2, 8], [7])
    code, out, err = say("audit", "events")
    assert (code, err) == (0, "")
    assert out.count("every record is in exactly one place") == 4
    for whole in ("bronze/events/_delta_log", "events/_rest/_delta_log"):
        assert (tmp_path / "lake" / whole).is_dir()


def test_values_that_a_condition_picks_have_their_tables_and_what_names_none_has_one_more(say, send, ids):
    some = {"where": ", where: kafka_offset > 0"}
    code, _, err = say("run", "events", **some)
    assert code == 1
    assert err.removeprefix("events: failed: ").splitlines()[:3] == [
        "[SOURCE_NOT_MADE] flow events: its source, table bronze.events, is not made yet; nothing was read",
        "  at: rivermouth.yml:11",
        "  hint: rivermouth run raw",
    ]
    send({"event": "conn", "id": 0}, {"event": "conn", "id": 1}, {"event": "dns", "id": 2}, {"id": 4}, "not JSON")
    code, out, err = say("run", "--output", "json", **some)
    assert code == 0, err
    assert consumed(out) == {"raw": 5, "events._rest": 2, "events.conn": 1, "events.dns": 1}
    assert (ids("conn"), ids("dns"), ids("_rest")) == ([1], [2], [4])
    letters = json.loads(say("dead-letters", "list", "events", "--output", "json", **some)[1])["dead_letters"]
    assert {each["flow"]: each["letters"] for each in letters} == {"events._rest": 1}


@pytest.mark.long
def test_a_rest_of_nothing_but_tombstones_waits_for_its_first_value(say, send, ids, tmp_path):
    inferred = {"schema": "infer"}
    waits = "no schema can be inferred yet: no record has a value; it waits for its first value\n"
    no_table = "events._rest: no table yet: the schema is inferred from the first values; would start at earliest\n"
    send(None, {"event": "conn", "id": 1}, None)
    code, out, err = say("run", **inferred)
    assert (code, ids("conn")) == (0, [1]), err
    assert re.search(rf"^events\._rest: warning: table bronze\.events: {waits}", err, re.MULTILINE), err
    assert not (tmp_path / "lake/events/_rest").exists()
    for command in ("plan", "status"):
        code, out, err = say(command, "events", **inferred)
        assert (code, err) == (0, "")
        assert (waits if command == "plan" else no_table) in out
    send({"id": 4}, {"event": "dns", "id": 5}, {"event": "conn", "id": 6})
    code, out, err = say("run", "--output", "json", **inferred)
    assert (code, consumed(out)) == (0, {"raw": 3, "events._rest": 3, "events.conn": 1, "events.dns": 1}), err
    assert (ids("_rest"), ids("conn"), ids("dns")) == ([4], [1, 6], [5])
    code, out, err = say("audit", **inferred)
    assert (code, out.count("every record is in exactly one place")) == (0, 4), err


@pytest.mark.long
def test_one_job_writes_the_rows_of_all_values(say, send, ids, spark):
    """Of a batch that is carried to the end: however many tables there are, it is as many jobs."""
    tracker = spark.sparkContext._jsc.sc().dagScheduler()
    send({"event": "a", "id": 1}, {"event": "b", "id": 2})
    assert say("run")[0] == 0

    def jobs(number):
        send({"event": "a", "id": number}, {"event": "b", "id": number + 1})
        before = tracker.nextJobId()
        assert say("run")[0] == 0
        return tracker.nextJobId() - before

    few = jobs(10)
    send(*({"event": f"c{each}", "id": each} for each in range(4)))
    assert say("run")[0] == 0  # makes tables
    assert jobs(20) == few
    assert (ids("a"), ids("b")) == ([1, 10, 20], [2, 11, 21])


@pytest.mark.long
def test_a_value_whose_table_wants_more_is_carried_alone(say, send, ids, spark, tmp_path):
    send({"event": "a", "id": 1}, {"event": "b", "id": 2}, {"event": "c", "id": 3})
    assert say("run")[0] == 0
    spark.sql(
        f"ALTER TABLE delta.`{tmp_path}/lake/events/b` SET TBLPROPERTIES ('delta.autoOptimize.optimizeWrite' = 'true')"
    )
    send({"event": "a", "id": 4}, {"event": "b", "id": 5}, {"event": "c", "id": "x"})
    code, out, _ = say("run", "--output", "json")
    assert code == 0
    assert consumed(out) == {"raw": 3, "events.a": 1, "events.b": 1, "events.c": 1}
    assert (ids("a"), ids("b"), ids("c")) == ([1, 4], [2, 5], [3])
    assert say("audit", "events")[1].count("every record is in exactly one place") == 3


@pytest.mark.long
def test_a_value_that_appears_while_the_flow_follows_is_read_from_its_beginning(say, send, ids, tmp_path):
    code, _, err = say("validate", start="latest", max_tables=2)
    assert code == 0, err
    heard, outcomes, stop = [], [], managed_session.Stop()
    hooks = managed_session.RunHooks(listener=heard.append, stop=stop)
    project = Project.load("rivermouth.yml")
    run = threading.Thread(
        target=lambda: outcomes.extend(run_flows.run(project, follow=True, hooks=hooks)), daemon=True
    )
    run.start()

    def until(condition):
        deadline = time.monotonic() + 90
        while not condition():
            assert time.monotonic() < deadline, heard
            time.sleep(0.1)

    def opened(name):
        return any(isinstance(each, FlowOpened) and each.flow == name for each in heard)

    try:
        until(lambda: opened("raw"))
        send({"event": "conn", "id": 1})
        until(lambda: opened("events.conn") and ids("conn") == [1])
        send({"event": "dns", "id": 2}, {"event": "conn", "id": 3})
        until(lambda: opened("events.dns") and ids("dns") == [2] and ids("conn") == [1, 3])
        send({"event": "http", "id": 4}, {"event": "conn", "id": 5})
        until(lambda: ids("conn") == [1, 3, 5] and any("TABLES_TOO_MANY" in str(each) for each in heard))
    finally:
        stop.ask()
        run.join(90)
    assert {each.flow: None if each.error is None else each.error.code for each in outcomes} == {
        "raw": None,
        "events": "TABLES_TOO_MANY",
        "events.conn": None,
        "events.dns": None,
    }
    (problem,) = [str(each.error) for each in outcomes if each.error is not None]
    assert problem == (
        "[TABLES_TOO_MANY] flow events: it has 2 tables and finds 1 values of event that have none (http), and "
        "max_tables is 2; none of these was read\n"
        "  at: rivermouth.yml:11\n"
        '  hint: table: {name: "events.{event}", max_tables: 3}'
    )


@pytest.mark.long
def test_a_condition_picks_rows_of_the_source(say, send, ids):
    send({"event": "conn", "id": 1}, {"event": "dns", "id": 2}, {"event": "conn", "id": 3})
    some = {"where": ", where: kafka_offset > 0 AND event <> 'dns'"}
    assert consumed(say("run", "--output", "json", **some)[1]) == {"raw": 3, "events.conn": 1, "events.dns": 0}
    assert ids("conn") == [3]
    code, out, _ = say("audit", "events.conn", **some)
    assert code == 0
    assert "1 records in table bronze.events" in out or "every record is in exactly one place" in out


COLUMNS = "value, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, ingested_at, event"


REFUSED = [
    ("id > 1", "[UNRESOLVED_COLUMN.WITH_SUGGESTION]"),
    ("rand() > 0.5", "it may say something else of a row that is read again"),
    ("kafka_timestamp > now()", "it may say something else of a row that is read again"),
    ("kafka_timestamp > DATE 'yesterday'", "it may say something else of a row that is read again"),
    ("reflect('a.B', 'c') = ''", "it calls reflect(), which could run any code"),
    ("kafka_offset IN (SELECT 1)", "it holds a subquery, which Spark would run again with every batch"),
    ("kafka_offset", "[DATATYPE_MISMATCH.BINARY_OP_DIFF_TYPES]"),
]


def test_conditions_that_are_refused(say, send, tmp_path):
    send({"event": "conn", "id": 1})
    code, _, err = say("run", "raw")
    assert code == 0, err
    for where, detail in REFUSED:
        code, _, err = say("run", "events.conn", where=f', where: "{where}"')
        assert code != 0, where
        whole = f"({where}) AND CAST(`event` AS STRING) = 'conn'"
        first, _at, hint = err.splitlines()[:3]
        assert first.removeprefix("events.conn: failed: ").startswith(
            f"[SOURCE_WHERE_INVALID] flow events.conn: source where {whole!r} cannot be used over table bronze.events: "
            f"{detail}"
        )
        assert hint == f"  hint: write a condition over {COLUMNS}"
        assert not (tmp_path / "lake/events").exists()
