"""The command line over real topics and tables, in this process and its Spark session."""

from __future__ import annotations

import base64
import contextlib
import io
import json
import re
import socket
import threading
import time
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from deltalake import DeltaTable, QueryBuilder
from tests.crashes.oracle import rows_of

import rivermouth
from rivermouth.cli.main import invoke
from rivermouth.engine.events import BatchDone
from rivermouth.errors import FlowsFailed, TopicMissing
from rivermouth.project.api import Project
from rivermouth.project.commands import managed_session, run_flows
from rivermouth.project.resolved.jobs import DEBUG_OFFSETS

PROJECT = """\
name: shop
lake: ./lake
kafka:
  bootstrap_servers: {servers}
flows:
  orders_raw:
    topics: [{topic}]
    format: raw
    table: bronze.orders
  orders:
    topics: [{topic}]
    starting_offsets: earliest
    format: {{type: json, schema: "id bigint, amount int"}}
    expectations:
      - {{name: positive, condition: amount > 0, action: dead_letter}}
      - {{name: small, condition: amount < 100, action: drop}}
    table: silver.orders
"""
VALUES = [
    b'{"id": 1, "amount": 5}',
    b'{"id": 2, "amount": -5}',
    b'{"id": 3, "amount": 500}',
    b"\xff\x1b[31m",
    b'{"id": null}',
]
WHY = "EXPECTATION 1, INVALID_UTF8 1"


class Shop:
    """A project over a topic of its own, and what the command line says of it."""

    def __init__(self, folder, servers, topic, capsys) -> None:
        self.folder = folder
        self.servers = servers
        self.topic = topic
        self._capsys = capsys
        self.file = folder / "rivermouth.yml"
        self.file.write_text(PROJECT.format(servers=servers, topic=topic))

    def send(self, *values):
        producer = Producer({"bootstrap.servers": self.servers})
        for value in values:
            producer.produce(self.topic, value, key=b"k")
        assert producer.flush(10) == 0

    def edit(self, old, new):
        text = self.file.read_text()
        assert old in text
        self.file.write_text(text.replace(old, new))

    def say(self, *arguments):
        """(exit code, standard output, standard error)."""
        self._capsys.readouterr()
        code = invoke(arguments)
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments, code=0):
        """The JSON lines on standard output."""
        found, out, err = self.say(*arguments, "--output", "json")
        assert found == code, err
        return [json.loads(line) for line in out.splitlines()]

    def rows(self, table, sql="SELECT * FROM t"):
        found = DeltaTable(str(self.folder / "lake" / table))
        return pa.table(QueryBuilder().register("t", found).execute(sql).read_all()).to_pylist()

    def files(self):
        return sorted(str(path.relative_to(self.folder)) for path in self.folder.rglob("*"))


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, broker.bootstrap_servers, topic(), capsys)


@pytest.fixture(scope="module")
def carried(spark, broker, topic, tmp_path_factory):
    """Both flows have run over the values once, and two more wait; and what the run said."""
    out, err = io.StringIO(), io.StringIO()
    made = Shop(tmp_path_factory.mktemp("shop"), broker.bootstrap_servers, topic(), None)
    made.send(*VALUES)
    with (
        contextlib.chdir(made.folder),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
    ):
        code = invoke(["run"])
    made.send(*VALUES[:2])
    return made, (code, out.getvalue(), err.getvalue())


def after_its_run(folder, carried, capsys):
    made = Shop(folder, carried[0].servers, carried[0].topic, capsys)
    made.run = carried[1]
    return made


@pytest.fixture
def ran(carried, monkeypatch, capsys):
    """That shop itself, to be read only."""
    monkeypatch.chdir(carried[0].folder)
    return after_its_run(carried[0].folder, carried, capsys)


@pytest.fixture
def goes_on(carried, copied, capsys):
    """A copy of it."""
    return after_its_run(copied(carried[0].folder), carried, capsys)


def line_of(shop, text):
    return next(number for number, line in enumerate(shop.file.read_text().splitlines(), 1) if text in line)


def test_a_plan_tells_everything_and_makes_nothing(shop, broker):
    shop.send(*VALUES)
    topics = set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics)
    lake = shop.folder / "lake"
    code, out, err = shop.say("plan", "orders")
    assert (code, err) == (0, "")
    width = max(len("topic"), len(shop.topic))
    assert out == (
        f"orders: new table silver.orders at {lake}/silver/orders\n"
        "  starts at starting_offsets: earliest\n"
        "  would read 5 offsets in 1 batch\n"
        f"    {'topic':<{width}}  partition  from  to (exclusive)  offsets\n"
        f"    {shop.topic:<{width}}  0             0               5        5\n"
        f"  dead letters: {lake}/silver/orders__dead_letters, made with the first one\n"
        f"  checkpoint: {lake}/_rivermouth/checkpoints/silver.orders, with --follow only\n"
        "  columns:\n"
        "    name             type\n"
        "    id               bigint\n"
        "    amount           int\n"
        "    kafka_topic      string\n"
        "    kafka_partition  int\n"
        "    kafka_offset     bigint\n"
        "    kafka_timestamp  timestamp\n"
        "    kafka_key        string\n"
        "    ingested_at      timestamp\n"
    )
    assert shop.files() == ["rivermouth.yml"]
    (told,) = shop.json("plan")
    assert [(each["flow"], each["start"], each["offsets"]) for each in told["flows"]] == [
        ("orders_raw", "starting_offsets: earliest, the default", 5),
        ("orders", "starting_offsets: earliest", 5),
    ]
    assert shop.files() == ["rivermouth.yml"]
    assert set(AdminClient({"bootstrap.servers": broker.bootstrap_servers}).list_topics(timeout=10).topics) == topics


def test_a_plan_of_a_flow_that_ran_goes_on_at_its_ledger(goes_on):
    shop = goes_on
    before = shop.files()
    shop.edit("starting_offsets: earliest", "starting_offsets: latest")
    (told,) = shop.json("plan", "orders")
    (plan,) = told["flows"]
    assert (plan["creates_table"], plan["entry"], plan["start"]) == (False, 1, "ledger entry 1 of the table")
    assert (plan["ranges"], plan["offsets"], plan["batches"]) == ({shop.topic: {"0": [5, 7]}}, 2, 1)
    unheeded = "starting_offsets: latest has no effect: the table was begun with earliest and goes on at its ledger"
    assert plan["warnings"] == [unheeded]
    assert shop.files() == before
    assert f"  warning: {unheeded}\n" in shop.say("plan", "orders")[1]
    events = shop.json("run", "orders")
    assert [each["message"] for each in events if each["event"] == "warned"] == [unheeded]


def test_a_plan_names_what_would_stop_a_flow_and_plans_the_others(shop):
    shop.edit(f"topics: [{shop.topic}]\n    starting_offsets", "topics: [t-nothing-like-it]\n    starting_offsets")
    code, out, err = shop.say("plan")
    assert code == 1
    assert out.startswith("orders_raw: new table")
    assert re.fullmatch(
        r"\[TOPIC_MISSING\] flow orders: topic 't-nothing-like-it' does not exist on the broker; nothing was read\n"
        rf"  at: rivermouth\.yml:{line_of(shop, '  orders:')}\n"
        r"  hint: .+\n"
        r"\[FLOWS_FAILED\] 1 of 2 flows failed: orders\n"
        r"  hint: rivermouth status\n",
        err,
    )


def test_validate_asks_spark_and_no_broker(shop):
    assert shop.say("validate") == (0, "rivermouth.yml: 2 flows, nothing wrong\n", "")
    shop.edit(shop.servers, "127.0.0.1:1")
    assert shop.json("validate", "orders") == [{"file": "rivermouth.yml", "flows": ["orders"]}]
    shop.edit("amount > 0", "amont > 0")
    code, out, err = shop.say("validate")
    assert (code, out) == (1, "")
    assert err.startswith("[EXPECTATION_INVALID] flow orders: expectation 'positive' cannot be used: ")
    assert err.endswith(f"  at: rivermouth.yml:{line_of(shop, 'amont > 0')}\n  hint: did you mean 'amount'?\n")


def test_validate_tells_all_that_spark_finds(shop):
    shop.edit("amount < 100", "amount")
    shop.edit("format: raw\n", "format: raw\n    expectations: [{name: x, condition: nothing = 1}]\n")
    code, _out, err = shop.say("validate", "--output", "json")
    told = json.loads(err)
    assert (code, told["code"], told["message"]) == (
        1,
        "PROJECT_INVALID",
        "2 problems in rivermouth.yml; nothing was run",
    )
    assert [each["code"] for each in told["problems"]] == ["EXPECTATION_INVALID"] * 2
    assert told["problems"][1]["message"] == (
        "flow orders: expectation 'small' cannot be used: its condition is int, not boolean; nothing was run"
    )


@pytest.mark.parametrize(
    ("condition", "refused"),
    [
        ("reflect('java.lang.System', 'exit', 1) = ''", "it calls reflect(), which could run any code"),
        ("amount > length(JAVA_METHOD('a.B', 'c'))", "it calls java_method(), which could run any code"),
        ("try_reflect('a.B', 'c') IS NULL", "it calls try_reflect(), which could run any code"),
        (
            "system.builtin.reflect('java.util.UUID', 'randomUUID') <> ''",
            "it calls reflect(), which could run any code",
        ),
        (
            "IDENTIFIER('ref' || 'lect')('java.lang.System', 'exit', 1) = ''",
            "it makes up a name with IDENTIFIER(), which could be that of any function",
        ),
        ("amount IN (SELECT 1)", "it holds a subquery, which Spark would run again with every batch"),
        ("EXISTS (SELECT 1)", "it holds a subquery, which Spark would run again with every batch"),
        ("amount > 0 AND (SELECT true)", "it holds a subquery, which Spark would run again with every batch"),
    ],
)
def test_a_condition_that_is_more_than_a_condition_is_refused(shop, condition, refused):
    shop.edit("condition: amount < 100", f'condition: "{condition}"')
    code, out, err = shop.say("validate", "orders")
    assert (code, out) == (1, "")
    assert err == (
        f"[EXPECTATION_INVALID] flow orders: expectation 'small' cannot be used: {refused}; nothing was run\n"
        f"  at: rivermouth.yml:{line_of(shop, 'name: small')}\n"
        "  hint: write it with the record's own columns\n"
    )


def test_a_derived_column_that_calls_java_is_refused(shop):
    derived = "reflect('a.B', 'c')"
    shop.edit("table: silver.orders", f'table: {{name: silver.orders, partition_by: [{{day: "{derived}"}}]}}')
    code, out, err = shop.say("validate", "orders")
    assert (code, out) == (1, "")
    assert re.fullmatch(
        r"\[LAYOUT_INVALID\] flow orders: the table's layout cannot be used: .*reflect\('a\.B', 'c'\).*: "
        r"it calls reflect\(\), which could run any code; nothing was run\n"
        rf"  at: rivermouth\.yml:{line_of(shop, 'partition_by')}\n"
        r"  hint: write it with the record's own columns\n",
        err,
    )


def test_words_in_a_text_are_no_calls(shop):
    shop.edit("condition: amount < 100", "condition: \"'reflect(1) (SELECT 1)' <> '' AND amount < 100\"")
    assert shop.say("validate", "orders") == (0, "rivermouth.yml: 1 flow, nothing wrong\n", "")


def test_a_condition_with_a_name_of_its_own_is_none(shop):
    shop.edit("amount < 100", "amount < 100 AS few")
    code, _out, err = shop.say("validate")
    assert code == 1
    assert re.fullmatch(
        r"\[EXPECTATION_INVALID\] flow orders: expectation 'small' cannot be used: "
        r"it cannot be used in brackets: \[PARSE_SYNTAX_ERROR\] .+; nothing was run\n"
        rf"  at: rivermouth\.yml:{line_of(shop, 'AS few')}\n"
        r"  hint: condition: id IS NOT NULL\n",
        err,
    )


def test_a_run_says_what_became_of_every_record(ran):
    shop, (code, out, err) = ran, ran.run
    assert code == 0
    head, *flows, why = out.splitlines()
    assert why == "orders: 1 dropped (expectation small 1)"
    assert head.split() == ["flow", "consumed", "written", "dropped", "dead-lettered", "batches", "seconds", "rows/s"]
    assert [line.split()[:6] for line in flows] == [
        ["orders_raw", "5", "5", "0", "0", "1"],
        ["orders", "5", "1", "1", "3", "1"],
    ]
    told = sorted(re.sub(r"[\d.,]+ rows/s|in [\d.]+ s", "~", line) for line in err.splitlines())
    assert told == sorted(
        [
            f"orders_raw: new table {shop.folder}/lake/bronze/orders, starts at starting_offsets: earliest",
            "orders_raw: batch 1: 5 consumed, 5 written, ~",
            "orders_raw: done, 1 batch ~",
            f"orders: new table {shop.folder}/lake/silver/orders, starts at starting_offsets: earliest",
            "orders: batch 1: 5 consumed, 1 written, 1 dropped (expectation small 1), 3 dead-lettered, ~",
            (
                "orders: WARNING: 3 of 5 records went to the dead letters: 1 EXPECTATION positive, 1 EXPECTATION "
                "positive, small, 1 INVALID_UTF8; to see them: rivermouth dead-letters show orders"
            ),
            "orders: done, 1 batch ~",
        ]
    )
    assert [row["id"] for row in shop.rows("silver/orders")] == [1]
    assert [row["value"] for row in shop.rows("bronze/orders", "SELECT * FROM t ORDER BY kafka_offset")] == VALUES


def test_a_run_in_json_is_a_line_an_event(shop):
    shop.send(*VALUES)
    events = shop.json("run", "orders")
    assert [event["event"] for event in events] == [
        "flow_opened",
        "batch_done",
        "dead_letters_many",
        "flow_finished",
        "run_finished",
    ]
    batch, end = events[1], events[-1]
    assert (batch["flow"], batch["entry"], batch["ranges"]) == ("orders", 1, {shop.topic: {"0": [0, 5]}})
    counts = {"consumed": 5, "written": 1, "dropped": 1, "dead_lettered": 3}
    assert {name: batch["counts"][name] for name in counts} == counts
    assert batch["counts"]["expectations"] == {"positive": 2, "small": 2}
    assert (end["stopped"], end["flows"][0]["error"], end["flows"][0]["counts"]) == (False, None, batch["counts"])
    assert [event["event"] for event in shop.json("run", "orders")] == ["flow_opened", "flow_finished", "run_finished"]
    (told,) = shop.json("status", "orders")
    (status,) = told["flows"]
    assert (status["message"], status["lag"], status["entry"], status["dead_letters"]) == ("up to date", 0, 1, 3)
    assert status["partitions"] == [{"topic": shop.topic, "partition": 0, "next_offset": 5, "end_offset": 5, "lag": 0}]


def test_a_flow_that_fails_is_named_and_the_others_are_done(shop):
    shop.send(*VALUES)
    shop.edit("condition: amount > 0, action: dead_letter", "condition: amount > 0, action: fail")
    code, out, err = shop.say("run")
    assert code == 1
    assert [line.split()[:3] for line in out.splitlines()[1:]] == [["orders_raw", "5", "5"], ["orders", "0", "0"]]
    failure = (
        f"[EXPECTATION_FAILED] flow orders: expectation 'positive' failed at {shop.topic}-0 offset 1; "
        "the batch was not written\n"
        f"  at: rivermouth.yml:{line_of(shop, '  orders:')}\n"
        "  hint: rivermouth run orders, once the record is explained; or action: dead_letter\n"
    )
    assert f"orders: failed: {failure}" in err
    assert err.endswith("[FLOWS_FAILED] 1 of 2 flows failed: orders\n  hint: rivermouth status\n")
    (*_, end) = shop.json("run", "orders", code=1)
    assert (end["event"], end["flows"][0]["error"]["code"]) == ("run_finished", "EXPECTATION_FAILED")


def test_without_a_broker_nothing_is_begun(shop):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        shop.edit(shop.servers, nobody)
        code, out, err = shop.say("run")
    assert (code, out) == (1, "")
    assert err == (
        f"[BROKER_UNREACHABLE] no Kafka broker answered at {nobody} within 10 s: nothing listens there; "
        "nothing was read\n"
        f"  at: rivermouth.yml:{line_of(shop, 'bootstrap_servers')}\n"
        f"  hint: rivermouth dev kafka --port {nobody.partition(':')[2]}\n"
    )
    assert shop.files() == ["rivermouth.yml"]


def test_status_of_a_flow_before_its_first_run(shop):
    shop.send(*VALUES)
    code, out, err = shop.say("status", "orders")
    assert (code, err) == (0, "")
    assert out.startswith("orders: never ran; would start at earliest\n")
    assert shop.say("dead-letters", "list") == (0, "no dead letters\n", "")


def test_status_of_a_flow_that_ran_and_has_more_to_read(ran):
    shop = ran
    code, out, err = shop.say("status", "orders")
    assert (code, err) == (0, "")
    rates = r"[\d.,]+ rows/s"
    width = max(len("topic"), len(shop.topic))
    assert re.fullmatch(
        "orders: 2 offsets behind, and no process writes the table\n"
        rf"  table: {shop.folder}/lake/silver/orders\n"
        r"  last batch: entry 1, took [\d.]+ s, done at [\d-]+ [\d:]+ UTC \(trigger: every 10 s\)\n"
        "    5 consumed, 1 written, 1 dropped, 3 dead-lettered\n"
        r"  so far: 5 consumed, 1 written, 1 dropped \(expectation small 1\), 3 dead-lettered\n"
        "  warning: 3 of 5 records are dead letters; to see them: rivermouth dead-letters show orders\n"
        rf"  lag: 2 offsets, furthest behind is {shop.topic} partition 0\n"
        rf"  rates: {rates} come in, {rates} in the last batch\n"
        rf"    {'topic':<{width}}  partition  next offset  end offset  lag\n"
        rf"    {shop.topic:<{width}}  0                    5           7    2\n",
        out,
    ), out


def test_status_without_a_broker_tells_the_rest(goes_on):
    shop = goes_on
    shop.edit(shop.servers, "127.0.0.1:1")
    code, out, err = shop.say("status", "orders")
    assert (code, err) == (1, "")
    assert out.startswith(
        "orders: [BROKER_UNREACHABLE] no Kafka broker answered at 127.0.0.1:1 within 1 s: nothing listens there; "
        "nothing was read\n"
        f"  table: {shop.folder}/lake/silver/orders\n"
        "  hint: rivermouth dev kafka --port 1\n"
    )
    assert "  so far: 5 consumed, 1 written, 1 dropped (expectation small 1), 3 dead-lettered\n" in out


def test_dead_letters_are_counted_by_kind(ran):
    shop = ran
    code, out, err = shop.say("dead-letters", "list")
    assert (code, err) == (0, "")
    where = f"{shop.topic} partition 0 offset"
    assert [re.split(r"\s{2,}", line) for line in out.splitlines()] == [
        ["flow", "status", "stage", "reason", "field or expectations", "count", "for example"],
        ["orders", "open", "decode", "INVALID_UTF8", "-", "1", f"{where} 3"],
        ["orders", "open", "expectation", "EXPECTATION", "positive", "1", f"{where} 1"],
        ["orders", "open", "expectation", "EXPECTATION", "positive, small", "1", f"{where} 4"],
    ]
    (told,) = shop.json("dead-letters", "list", "--expectation", "small")
    assert [(each["letters"], each["failed_expectations"]) for each in told["dead_letters"]] == [
        (1, ["positive", "small"])
    ]


def test_dead_letters_are_shown_whole_and_harmless(ran):
    shop = ran
    code, out, err = shop.say("dead-letters", "show", "orders", "--first-offset", "3", "--last-offset", "3")
    assert (code, err) == (0, "")
    time_pattern = r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d+\+00:00"
    assert re.fullmatch(
        rf"orders: {shop.topic} partition 0 offset 3, open, tried 1 time\n"
        r"  decode: INVALID_UTF8: .+\n"
        rf"  produced {time_pattern}, dead-lettered {time_pattern}\n"
        r"  key:   k\n"
        r"  value: 0xff1b5b33316d\n",
        out,
    ), out
    (told,) = shop.json("dead-letters", "show", "orders")
    assert [(each["offset"], each["value"]) for each in told["dead_letters"]] == [
        (1, VALUES[1].decode()),
        (3, None),
        (4, '{"id": null}'),
    ]
    assert [base64.b64decode(each["value_base64"]) for each in told["dead_letters"]] == [VALUES[i] for i in (1, 3, 4)]
    assert len(shop.json("dead-letters", "show", "--limit", "1")[0]["dead_letters"]) == 1


@pytest.mark.long
def test_a_replay_after_a_fix_moves_what_passes_now(goes_on):
    shop = goes_on
    shop.edit("condition: amount > 0", "condition: amount IS NOT NULL")
    tried = "orders: 3 dead letters tried"
    assert shop.say("dead-letters", "replay", "orders", "--dry-run")[:2] == (
        0,
        f"{tried}, 1 would be moved into the table, 2 still fail: {WHY}\n",
    )
    assert [row["id"] for row in shop.rows("silver/orders")] == [1]
    assert shop.say("dead-letters", "replay", "orders")[:2] == (
        0,
        f"{tried}, 1 moved into the table, 2 still fail: {WHY}\n",
    )
    assert [row["id"] for row in shop.rows("silver/orders", "SELECT * FROM t ORDER BY id")] == [1, 2]
    (told,) = shop.json("dead-letters", "list", "--status", "replayed")
    assert [(each["offset"], each["letters"]) for each in told["dead_letters"]] == [(1, 1)]


def test_dead_letters_of_one_reason_are_given_up(goes_on):
    shop = goes_on
    asked = ("dead-letters", "discard", "orders", "--reason", "INVALID_UTF8")
    assert shop.say(*asked)[:2] == (0, "orders: 1 dead letter discarded\n")
    (told,) = shop.json("dead-letters", "list", "--status", "discarded")
    assert [(each["reason"], each["letters"]) for each in told["dead_letters"]] == [("INVALID_UTF8", 1)]


@pytest.mark.long
def test_dead_letters_that_are_given_up(goes_on):
    shop = goes_on
    asked = ("dead-letters", "discard", "orders", "--reason", "INVALID_UTF8")
    assert shop.say(*asked, "--dry-run")[:2] == (0, "orders: 1 dead letter would be discarded\n")
    assert shop.say(*asked)[:2] == (0, "orders: 1 dead letter discarded\n")
    assert shop.json(*asked) == [{"discarded": {"orders": 0}, "dry_run": False}]
    (told,) = shop.json("dead-letters", "list", "--status", "discarded")
    assert [(each["reason"], each["letters"]) for each in told["dead_letters"]] == [("INVALID_UTF8", 1)]


def test_a_replay_of_a_flow_that_never_ran_makes_nothing(shop):
    (told,) = shop.json("dead-letters", "replay", "orders")
    assert [(each["flow"], each["tried"]) for each in told["replayed"]] == [("orders", 0)]
    assert shop.say("dead-letters", "discard")[:2] == (
        0,
        "orders_raw: 0 dead letters discarded\norders: 0 dead letters discarded\n",
    )
    assert shop.files() == ["rivermouth.yml"]


@pytest.mark.long
def test_a_replay_while_the_flow_follows_is_done_by_its_writer(shop):
    shop.send(*VALUES)
    shop.edit("topics", "trigger: {every: 1 seconds}\n    topics")
    shop.json("run", "orders")
    shop.edit("condition: amount > 0", "condition: amount IS NOT NULL")
    stop, seen = managed_session.Stop(), []
    following = threading.Thread(
        target=run_flows.run,
        args=(Project.load("rivermouth.yml"), ["orders"]),
        kwargs={"follow": True, "hooks": managed_session.RunHooks(listener=seen.append, stop=stop)},
    )
    following.start()
    try:
        wait_until(lambda: any(type(event).__name__ == "FlowOpened" for event in seen))
        code, out, err = shop.say("dead-letters", "replay", "orders")
    finally:
        stop.ask()
        following.join(60)
    assert (code, out) == (0, f"orders: 3 dead letters tried, 1 moved into the table, 2 still fail: {WHY}\n")
    assert re.search(r"orders: waiting for its writer, process \d+ on \S+ …\n", err)
    assert [row["id"] for row in shop.rows("silver/orders", "SELECT * FROM t ORDER BY id")] == [1, 2]


def topics_of(admin):
    """The topics but for Kafka's own."""
    return {name for name in admin.list_topics(timeout=10).topics if not name.startswith("__")}


def test_a_trial_reads_little_and_writes_elsewhere(shop):
    """Its archive has another name, and no topic of a sink and no consumer group hears of it."""
    out, group = f"{shop.topic}-out", f"{shop.topic}-group"
    kafka = f"{{type: kafka, topic: {out}, key: kafka_key, create_topic: {{partitions: 1}}}}"
    shop.edit("    table: bronze.orders", f"    table: bronze.orders\n    sink: {kafka}\n    group_id: {group}")
    files = "{type: files, format: json, path: archive/orders}"
    shop.edit("    table: silver.orders", f"    table: silver.orders\n    sink: {files}")
    shop.send(*[b'{"id": 1, "amount": 5}'] * 1500)
    admin = AdminClient({"bootstrap.servers": shop.servers})
    before = topics_of(admin)
    *events, end = shop.json("run", "--debug")
    assert [flow["counts"]["consumed"] for flow in end["flows"]] == [DEBUG_OFFSETS] * 2
    told = f"a trial writes nothing into topic {out}: its rows are in table bronze.orders_debug alone"
    assert [each["message"] for each in events if each["event"] == "warned"] == [told]
    lake = shop.folder / "lake"
    assert sorted(path.name for path in lake.iterdir()) == ["_rivermouth_debug", "archive", "bronze", "silver"]
    for name in ("archive", "bronze", "silver"):
        assert [path.name for path in (lake / name).iterdir()] == ["orders_debug"]
    (*_, end) = shop.json("run", "--debug")
    assert [flow["counts"]["consumed"] for flow in end["flows"]] == [500] * 2
    archive = (lake / "archive" / "orders_debug").glob("*.json")
    assert sum(len(each.read_text().splitlines()) for each in archive) == 1500
    assert topics_of(admin) == before
    (raw, orders) = (each.sink for each in Project.load(shop.file).with_debug().audit())
    assert raw.not_compared == ("topics of the sink: a trial writes no records into them",)
    assert (orders.rows, raw.problems, orders.problems) == (1500, (), ())
    groups = admin.list_consumer_groups().result(10).valid
    assert group not in [each.group_id for each in groups]


def test_ingest_is_the_whole_of_it_in_one_line(shop):
    shop.send(*VALUES)
    place = ("--bootstrap-servers", shop.servers, "--lake", "./one", "--table", "bronze.orders")
    code, out, err = shop.say("ingest", shop.topic, *place, "--format", "raw", "--save", "-f", "one.yml")
    assert code == 0, err
    assert [line.split()[1:4] for line in out.splitlines()[1:]] == [["5", "5", "0"]]
    assert f"  bootstrap_servers: {shop.servers}\n" in err
    assert "  keys:              kafka_key\n" in err
    assert f"bronze.orders at {shop.folder}/one/bronze/orders\n" in err
    assert "written: one.yml\n" in err
    assert [bytes(row["value"]) for row in rows_of(shop.folder / "one/bronze/orders")] == [VALUES[-1]]
    saved = Project.load("one.yml")
    assert (saved.spec.lake, [flow.topics for flow in saved.spec.flows.values()]) == ("./one", [(shop.topic,)])
    (*_, end) = shop.json("run", "-f", "one.yml")
    assert end["flows"][0]["counts"]["consumed"] == 0

    code, out, err = shop.say("ingest", shop.topic, *place, "--format", "raw", "--sink", "append")
    assert code == 1
    assert "its rows have the keys kafka_key, and those of the flow nothing; nothing was written" in err


def test_ingest_in_json_begins_with_what_it_derived(shop):
    shop.send(*VALUES)
    schema = ("--schema", "id bigint, amount int", "--sink", "append")
    derived, *_, end = shop.json("ingest", shop.topic, "--bootstrap-servers", shop.servers, *schema)
    assert derived["event"] == "derived"
    assert (derived["configuration"]["format"], derived["configuration"]["mode"]) == ("json", "once")
    assert derived["configuration"]["sink"] == "append"
    assert end["flows"][0]["counts"]["written"] == 4


def test_python_says_the_same_as_the_shell(shop):
    shop.send(*VALUES)
    project = rivermouth.Project.load("rivermouth.yml")
    project.validate()
    assert [plan.offsets for plan in project.plan("orders")] == [5]
    batches = []
    (outcome,) = project.run("orders", listener=batches.append)
    assert (outcome.flow, outcome.counts.written, outcome.counts.dead_lettered) == ("orders", 1, 3)
    assert [event.entry for event in batches if isinstance(event, BatchDone)] == [1]
    assert [status.message for status in project.status("orders")] == ["up to date"]
    found = rivermouth.ingest(shop.topic, bootstrap_servers=shop.servers, lake="./two", base=shop.folder, format="raw")
    assert (found.counts.written, found.counts.merged) == (0, 5)
    assert project.spark().read.format("delta").load(str(shop.folder / "lake/silver/orders")).count() == 1


def test_python_raises_what_the_shell_tells(shop):
    shop.edit(f"topics: [{shop.topic}]\n    starting_offsets", "topics: [t-nothing-like-it]\n    starting_offsets")
    with pytest.raises(FlowsFailed) as failure:
        rivermouth.Project.load("rivermouth.yml").run()
    assert str(failure.value) == "[FLOWS_FAILED] 1 of 2 flows failed: orders\n  hint: rivermouth status"
    assert isinstance(failure.value.__cause__, TopicMissing)
    with pytest.raises(TopicMissing):
        rivermouth.ingest("t-nothing-like-it", bootstrap_servers=shop.servers, lake=str(Path("lake").absolute()))


def test_stopping_before_it_began_ends_at_once(shop):
    shop.send(*VALUES)
    stop = managed_session.Stop()
    stop.ask()
    (outcome,) = run_flows.run(
        Project.load("rivermouth.yml"), ["orders"], follow=True, hooks=managed_session.RunHooks(stop=stop)
    )
    assert (outcome.error, outcome.counts.consumed) == (None, 0)


def wait_until(reached, bound_s=60):
    deadline = time.monotonic() + bound_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)
