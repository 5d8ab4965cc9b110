"""A table for each topic: what runs make of a pattern, what doors say of it, and what keeps the tables apart."""

import faulthandler
import json
import sys
import threading
import time
import uuid

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from tests.crashes.oracle import rows_of

from rivermouth import LossDecision, Project
from rivermouth.engine.events import FlowOpened, StepReached, Warned
from rivermouth.errors import ArgumentInvalid, FlowUnknown, RebuildRefused
from rivermouth.project.commands import managed_session, run_flows
from rivermouth.project.resolved.known_tables import with_children

PROJECT = """\
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  shop:
    topic_pattern: '{prefix}[.-].*'
    format: {{type: json, schema: {schema}}}
    table: {{name: "bronze.{{topic}}", max_tables: {max_tables}}}
    starting_offsets: {start}
    trigger: {{every: 500 ms}}
"""


@pytest.fixture
def prefix():
    return f"m{uuid.uuid4().hex[:10]}"


@pytest.fixture
def shop(tmp_path, monkeypatch, broker, prefix, spark):
    """Writes the project file, and gives what it holds."""
    monkeypatch.chdir(tmp_path)

    def shop(*, max_tables=10, start="earliest", edit=lambda text: text):
        text = PROJECT.format(
            servers=broker.bootstrap_servers, prefix=prefix, max_tables=max_tables, start=start, schema="id bigint"
        )
        (tmp_path / "rivermouth.yml").write_text(edit(text))
        return Project.load("rivermouth.yml")

    return shop


@pytest.fixture
def send(broker):
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "log_level": 0})

    def send(topic, *values):
        for value in values:
            producer.produce(topic, value=value if isinstance(value, str) else json.dumps({"id": value}))
        assert producer.flush(30) == 0

    return send


@pytest.fixture
def ids(tmp_path):
    def ids(topic):
        table = tmp_path / "lake" / "bronze" / topic.replace(".", "_").replace("-", "_")
        return sorted(row["id"] for row in rows_of(str(table)))

    return ids


@pytest.fixture
def delete(broker):
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    return lambda topic: admin.delete_topics([topic])[topic].result(30)


def until(condition, heard, timeout_s=60.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > deadline:
            # Which thread waits for what, where nothing was heard of it.
            faulthandler.dump_traceback(sys.__stderr__)
            told = [each for each in heard if type(each) is not StepReached]
            pytest.fail(f"it did not happen in time; heard: {told}")
        time.sleep(0.1)


def drained(project, *names):
    return {outcome.flow: outcome for outcome in run_flows.run(project, names)}


@pytest.fixture
def say(echo_over, prefix):
    """Runs a command over the project, whose schemas are inferred; gives its exit code and what it prints."""

    def say(*arguments):
        named = {"prefix": prefix, "max_tables": 10, "start": "earliest", "schema": "infer"}
        code, out, err = echo_over(PROJECT, *arguments, **named)
        assert code == 0, err
        return out

    return say


def ended(out):
    """Records by flow, as the last line of a run with --output json tells them."""
    flows = json.loads(out.splitlines()[-1])["flows"]
    return {each["flow"]: each["counts"]["consumed"] for each in flows}


@pytest.mark.long
def test_each_topic_has_its_table(say, topic, prefix, tmp_path, send, delete, ids):
    eu, us, more = topic(name=f"{prefix}.eu"), topic(name=f"{prefix}-us", partitions=2), f"{prefix}.more"
    send(eu, 1, 2, "broken")
    send(us, *range(10, 20))
    tables = {each: f"bronze.{each.replace('-', '_').replace('.', '_')}" for each in (us, eu)}
    assert [line for line in say("plan").splitlines() if line.startswith("shop.")] == [
        f"shop.{each}: new table {table} at {tmp_path}/lake/{table.replace('.', '/')}" for each, table in tables.items()
    ]
    assert not (tmp_path / "lake").exists()
    assert [line.split()[:5] for line in say("run").splitlines()[1:]] == [
        [f"shop.{us}", "10", "10", "0", "0"],
        [f"shop.{eu}", "3", "2", "0", "1"],
    ]
    assert (ids(eu), ids(us)) == ([1, 2], list(range(10, 20)))

    # A later run finds a topic that is new; one flow alone can be named.
    topic(name=more)
    send(more, 7)
    send(eu, 3)
    statuses = json.loads(say("status", "--output", "json"))["flows"]
    assert [(each["flow"], each["message"]) for each in statuses] == [
        (f"shop.{us}", "up to date"),
        (f"shop.{eu}", "1 offsets behind, and no process writes the table"),
        (
            f"shop.{more}",
            "no table yet: the schema is inferred from the first values; would start at earliest",
        ),
    ]
    assert ended(say("run", f"shop.{more}", "--output", "json")) == {f"shop.{more}": 1}
    assert (ids(more), ids(eu)) == ([7], [1, 2])
    assert ended(say("run", "shop", "--output", "json")) == {f"shop.{us}": 0, f"shop.{eu}": 1, f"shop.{more}": 0}
    assert ids(eu) == [1, 2, 3]

    # A topic that was deleted takes nothing along.
    delete(eu)
    told = say("status", f"shop.{eu}").splitlines()[0]
    assert told == f"shop.{eu}: topic {eu} is not there any more; its table stays as it is"
    assert ended(say("run", "--output", "json")) == {f"shop.{us}": 0, f"shop.{more}": 0}
    assert ids(eu) == [1, 2, 3]


@pytest.mark.long
def test_all_doors_take_the_tables_together_and_alone(say, echo_over, topic, prefix, send, delete):
    eu, us = topic(name=f"{prefix}.eu"), topic(name=f"{prefix}-us", partitions=2)
    both = [f"shop.{us}", f"shop.{eu}"]
    send(eu, 1, 2, "broken")
    send(us, *range(10, 20))
    assert [line for line in say("schema", "infer", "shop").splitlines() if line.startswith("shop.")] == [
        f"{each}:" for each in both
    ]
    say("validate")
    assert "2 of the flows' topics are there" in say("doctor")
    say("run")
    letters = json.loads(say("dead-letters", "list", "shop", "--output", "json"))["dead_letters"]
    assert [(each["flow"], each["letters"]) for each in letters] == [(f"shop.{eu}", 1)]
    assert say("dead-letters", "replay", "shop", "--output", "json").count('"tried"') == 2
    say("dead-letters", "discard", f"shop.{eu}")
    tables = json.loads(say("tables", "describe", "shop", "--output", "json"))["tables"]
    assert [each["flow"] for each in tables] == both
    assert say("checkpoint", "show", "shop").count("a restart: ") == 2
    assert json.loads(say("checkpoint", "show", f"shop.{eu}", "--output", "json"))["flow"] == f"shop.{eu}"
    shown = say("schema", "show", "shop").splitlines()
    assert [line for line in shown if line.startswith(("shop.", "    "))] == [
        line for each in both for line in (f"{each}:", "    id bigint")
    ]
    versions = json.loads(say("schema", "show", f"shop.{eu}", "--history", "--output", "json"))["versions"]
    assert [each["corrupt"] for each in versions] == [1]
    updated = json.loads(say("schema", "infer", "shop", "--update", "--output", "json"))["flows"]
    assert {name: each["is_new"] for name, each in updated.items()} == dict.fromkeys(both, False)
    assert say("audit", "shop").count("every record is in exactly one place") == 2

    named = {"prefix": prefix, "max_tables": 10, "start": "earliest", "schema": "infer"}
    _, _, err = echo_over(PROJECT, "schema", "infer", "shop", "--save", "schema.json", **named)
    assert err == (
        "[ARGUMENT_INVALID] --save: one file has one schema, and shop is 2 flows; nothing was run\n"
        f"  hint: rivermouth schema infer shop.{us} --save schema.json\n"
    )
    delete(eu)
    assert say("audit", "shop").count("every record is in exactly one place") == 1
    assert say("dead-letters", "replay", "shop", "--output", "json").count('"tried"') == 1
    _, _, err = echo_over(PROJECT, "audit", f"shop.{eu}", **named)
    assert err.startswith(
        f"[TOPIC_MISSING] flow shop.{eu}: topic '{eu}' does not exist on the broker; nothing was read"
    )


def test_a_flow_of_one_topic_goes_on_when_it_gets_another(shop, topic, prefix, send, ids):
    one, two = topic(name=f"{prefix}.one"), topic(name=f"{prefix}.two")
    send(one, 1)
    pattern = f"topic_pattern: '{prefix}[.-].*'"
    drained(shop(edit=lambda text: text.replace(pattern, f"topics: [{one}]").replace(", max_tables: 10", "")))
    send(one, 2)
    send(two, 3)
    project = shop(edit=lambda text: text.replace(pattern, f"topics: [{one}, {two}, {one}x]"))
    found = drained(project)
    missing = found.pop(f"shop.{one}x").error
    assert str(missing).startswith(f"[TOPIC_MISSING] flow shop.{one}x: topic '{one}x' does not exist on the broker")
    assert with_children(project).kept["shop"].topics == (one, two)
    assert {name: (outcome.error, outcome.counts.written) for name, outcome in found.items()} == {
        f"shop.{one}": (None, 1),
        f"shop.{two}": (None, 1),
    }
    assert (ids(one), ids(two)) == ([1, 2], [3])


@pytest.mark.long
def test_a_topic_that_appears_while_the_flow_follows_is_read_from_its_beginning(shop, topic, prefix, send, delete, ids):
    first, later = f"{prefix}.first", f"{prefix}.later"
    heard, outcomes, stop = [], [], managed_session.Stop()
    hooks = managed_session.RunHooks(listener=heard.append, stop=stop)
    # A flow of its own would wait for a topic that is gone.
    project = shop(start="latest", edit=lambda text: text + "    on_data_loss: record\n")
    run = threading.Thread(
        target=lambda: outcomes.extend(run_flows.run(project, follow=True, hooks=hooks)), daemon=True
    )
    run.start()

    def opened(name):
        return any(isinstance(each, FlowOpened) and each.flow == f"shop.{name}" for each in heard)

    gone = f"topic {first} is not there any more; its table stays as it is"
    try:
        none = f"flow shop: no topic matches '{prefix}[.-].*'; it looks again"
        until(lambda: Warned("shop", none) in heard, heard)
        topic(name=first)
        send(first, 1, 2, 3)
        until(lambda: opened(first), heard)
        topic(name=later)
        send(later, 4, 5)
        until(lambda: opened(later) and ids(later) == [4, 5] and ids(first) == [1, 2, 3], heard)
        delete(first)
        # Seconds, as a rule; what Kafka's admin client asks at that very moment it asks again for 60 s.
        until(lambda: Warned(f"shop.{first}", gone) in heard, heard, timeout_s=150)
        send(later, 6)
        until(lambda: ids(later) == [4, 5, 6], heard)
    finally:
        stop.ask()
        run.join(90)
    assert [(each.flow, each.error) for each in outcomes] == [(f"shop.{later}", None)]
    assert ids(first) == [1, 2, 3]


def test_too_many_topics_and_topics_of_one_name_are_told(shop, topic, prefix, send, ids):
    one, two, same = (topic(name=f"{prefix}{end}") for end in ("-1", "-2", ".1"))
    for number, name in enumerate((one, two, same)):
        send(name, number)
    (only,) = drained(shop(max_tables=2)).values()
    assert str(only.error) == (
        f"[TABLES_TOO_MANY] flow shop: it has 0 tables and finds 3 topics that have none ({one}, {two}, {same}), and "
        "max_tables is 2; none of these was read\n"
        "  at: rivermouth.yml:5\n"
        '  hint: table: {name: "bronze.{topic}", max_tables: 3}, or a narrower topic_pattern'
    )
    (planned,) = run_flows.plan(shop(max_tables=2))
    assert str(planned.problem) == str(only.error)
    found = drained(shop(max_tables=3))
    table = f"bronze.{prefix}_1"
    assert {name: outcome.error and str(outcome.error) for name, outcome in found.items()} == {
        f"shop.{one}": None,
        f"shop.{two}": None,
        f"shop.{same}": f"[TABLE_SHARED] flows 'shop.{one}' and 'shop.{same}' share the table {table}; neither was "
        "run\n"
        "  at: rivermouth.yml:5\n"
        "  hint: give each flow its own table",
    }
    assert (ids(one), ids(two)) == ([0], [1])


def test_what_is_wanted_of_one_flow_is_refused_for_a_family(shop, topic, prefix):
    one = topic(name=f"{prefix}.one")
    project = shop()
    with pytest.raises(FlowUnknown) as told:
        run_flows.run(project, ["shop.else"])
    assert str(told.value) == (
        "[FLOW_UNKNOWN] no flow named 'shop.else' in this project; nothing was run\n"
        f"  hint: write it as shop.TOPIC, with a topic that matches {prefix}[.-].*"
    )
    with pytest.raises(ArgumentInvalid) as told:
        project.rebuild("shop")
    assert str(told.value) == (
        "[ARGUMENT_INVALID] FLOW: shop is a flow for each of its topics, and one is meant; nothing was run\n"
        "  at: rivermouth.yml:5\n"
        "  hint: shop.TOPIC"
    )
    with pytest.raises(RebuildRefused):
        project.rebuild(f"shop.{one}")
    with pytest.raises(ArgumentInvalid) as told:
        project.read_table("shop")
    assert "TABLE: shop is a flow for each of its topics" in str(told.value)
    with pytest.raises(ArgumentInvalid) as told:
        project.run("shop", decision=LossDecision(epochs=(one,)))
    assert str(told.value) == (
        "[ARGUMENT_INVALID] decision: it is about one flow, and several would run; nothing was run\n"
        "  hint: rivermouth run shop.TOPIC ..."
    )
    (missing,) = drained(project, "shop." + one + "x").values()
    assert str(missing.error).splitlines()[0] == (
        f"[TOPIC_MISSING] flow shop.{one}x: topic '{one}x' does not exist on the broker; nothing was read"
    )
    assert [flow.name for flow in with_children(project).flows()] == []
    project = shop(edit=lambda text: text.replace(prefix, f"{prefix}-none"))
    assert [(each.flow, each.message) for each in project.status()] == [("shop", "no topic has a table yet")]
    no_topic = drained(project)
    assert [str(each.error).splitlines()[0] for each in no_topic.values()] == [
        f"[TOPIC_PATTERN_EMPTY] flow shop: no topic matches '{prefix}-none[.-].*'; nothing was read"
    ]
