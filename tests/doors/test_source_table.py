"""A flow that reads the table of another one: the same records, coordinates and counts as from Kafka, and no broker."""

from __future__ import annotations

import json
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import counted, ledger_of, rows_of

from rivermouth.cli.main import invoke
from rivermouth.engine.events import BatchDone
from rivermouth.errors import FlowsFailed, TableBusy
from rivermouth.project.api import Project
from rivermouth.project.commands import dead_letters, managed_session, run_flows
from rivermouth.rows.dead_letter import DeadLetterFilter

# No broker listens there, and nobody shall ask for one.
NOWHERE = "127.0.0.1:1"
PROJECT = """\
lake: ./lake
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:  # before the flow whose table it reads
    source: {{table: bronze.orders}}
    format: {{type: json, schema: "id bigint, amount double"}}
    metadata_columns: [kafka_timestamp, kafka_key, kafka_headers]
    expectations:
      - {{name: positive, condition: amount > 0, action: dead_letter}}
    table: silver.orders
  newest:
    source: {{table: bronze.orders}}
    format: {{type: json, schema: "id bigint, amount double"}}
    table: silver.newest
    sink: {{type: upsert, keys: [id]}}
  raw:
    topics: [{topic}]
    format: raw
    metadata_columns: [kafka_timestamp, kafka_key, kafka_headers]
    table: bronze.orders
    starting_offsets: {starting}
"""


class Shop:
    """A project over one topic of two partitions, in a folder of its own."""

    def __init__(self, folder: Path, servers: str, topic: str, capsys) -> None:
        self.folder = folder
        self.topic = topic
        self._servers = servers
        self._capsys = capsys
        self.write()

    def write(self, servers: str | None = None, starting: str = "earliest", **changes: str) -> None:
        text = PROJECT.format(servers=servers or self._servers, topic=self.topic, starting=starting)
        for old, new in changes.items():
            text = text.replace(old, new)
        (self.folder / "rivermouth.yml").write_text(text)

    def send(self, *values: bytes | None, partition: int = 0) -> None:
        producer = Producer({"bootstrap.servers": self._servers})
        for value in values:
            key = str(json.loads(value)["id"]).encode() if value and value.endswith(b"}") else b"1"
            producer.produce(self.topic, value=value, key=key, partition=partition, headers={"h": b"\xff"})
        assert producer.flush(30) == 0

    def say(self, *arguments: str) -> tuple[int, str, str]:
        code = invoke(list(arguments))
        out, err = self._capsys.readouterr()
        return code, out, err

    def json(self, *arguments: str) -> dict:
        code, out, err = self.say(*arguments, "--output", "json")
        assert code == 0, err
        return json.loads(out.splitlines()[-1] if arguments[0] == "run" else out)

    def rows(self, table: str) -> list[dict]:
        return rows_of(self.folder / "lake" / table)

    def places(self, table: str) -> Counter:
        return Counter((row["kafka_partition"], row["kafka_offset"]) for row in self.rows(table))

    def counts(self, table: str) -> dict:
        side = self.folder / f"lake/_rivermouth/ledger/{table.replace('/', '.')}.json"
        return counted(self.folder / "lake" / table, side)


@pytest.fixture
def shop(spark, broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, broker.bootstrap_servers, topic(partitions=2), capsys)


def a(key: int, amount: float) -> bytes:
    return json.dumps({"id": key, "amount": amount}).encode()


@pytest.mark.long
def test_bronze_stands_in_for_the_broker(shop):
    shop.send(a(1, 1), b"{bad", a(2, -1), a(1, 2), None)
    shop.send(a(3, 3), partition=1)
    code, _out, err = shop.say("run", "orders", "raw")
    assert code == 0, err
    assert shop.places("bronze/orders") == {(0, offset): 1 for offset in range(5)} | {(1, 0): 1}
    assert shop.places("silver/orders") == {(0, 0): 1, (0, 3): 1, (1, 0): 1}
    letters = {row["kafka_offset"]: row for row in shop.rows("silver/orders__dead_letters")}
    assert {offset: (row["stage"], row["kafka_value"]) for offset, row in letters.items()} == {
        1: ("decode", b"{bad"),
        2: ("expectation", a(2, -1)),
    }
    assert letters[1]["kafka_headers"] == [{"key": "h", "value": b"\xff"}]
    counts = shop.counts("silver/orders")
    assert [counts[name] for name in ("consumed", "written", "dead_lettered", "null_values")] == [6, 3, 2, 1]
    entry, bronze = ledger_of(shop.folder / "lake/silver/orders")[-1], ledger_of(shop.folder / "lake/bronze/orders")[-1]
    assert entry["topics"][shop.topic]["next"] == {"0": 5, "1": 1}
    assert entry["topics"][shop.topic]["id"] == bronze["topics"][shop.topic]["id"] is not None

    shop.send(a(4, 4))
    assert shop.say("run", "raw")[0] == 0
    shop.write(NOWHERE)
    [flow] = shop.json("status", "orders")["flows"]
    assert (flow["code"], flow["lag"], flow["message"]) == (
        None,
        1,
        "1 offsets behind, and no process writes the table",
    )
    [plan] = shop.json("plan", "orders")["flows"]
    assert (plan["problem"], plan["offsets"]) == (None, 1)
    code, _out, err = shop.say("run", "orders")
    assert code == 0, err
    assert shop.places("silver/orders") == {(0, 0): 1, (0, 3): 1, (0, 5): 1, (1, 0): 1}

    before = shop.rows("silver/orders")
    code, out, err = shop.say("rebuild", "orders", "--yes", "--why", "we know")
    assert code == 0, err
    assert out.splitlines()[-1] == "silver.orders: 4 rows before, 4 rows now"
    assert unstamped(shop.rows("silver/orders")) == unstamped(before)
    letters = Counter((row["kafka_offset"], row["status"]) for row in shop.rows("silver/orders__dead_letters"))
    assert letters == dict.fromkeys([(1, "discarded"), (2, "discarded"), (1, "open"), (2, "open")], 1)
    newest = ledger_of(shop.folder / "lake/silver/orders")[-1]
    assert [(each["kind"], each["moves"], each["why"]) for each in newest["decisions"]] == [
        ("rebuild", {"0": [6, 0], "1": [1, 0]}, "we know")
    ]
    code, out, err = shop.say("audit", "orders")
    assert code == 0, out + err
    assert "  7 records in table bronze.orders: 4 in the table, 2 in the dead letters, 1 in neither (1 counted" in out


@pytest.mark.long
@pytest.mark.parametrize("sink", ["upsert, keys: [id]", "history, keys: [id], sequence_by: kafka_offset"])
def test_keyed_tables_are_made_of_bronze_too(shop, sink):
    shop.write(**{"upsert, keys: [id]": sink})
    shop.send(a(1, 1), b"{bad", a(2, -1), a(1, 2), None, a(1, 3), None)
    shop.send(a(3, 3), partition=1)
    code, _out, err = shop.say("run", "newest", "raw")
    assert code == 0, err
    rows = shop.rows("silver/newest")
    current = {row["id"]: row["amount"] for row in rows if row.get("__END_AT") is None}
    # A tombstone deletes the key that Kafka has: 1.
    assert current == {2: -1.0, 3: 3.0}
    shop.write(NOWHERE, **{"upsert, keys: [id]": sink})
    for _ in range(2):
        code, out, err = shop.say("rebuild", "newest", "--yes")
        assert code == 0, err
        assert out.splitlines()[-1] == f"silver.newest: {len(rows)} rows before, {len(rows)} rows now"
        assert unstamped(shop.rows("silver/newest")) == unstamped(rows)
    code, out, err = shop.say("audit", "newest")
    assert code == 0, out + err
    shop.write(**{"upsert, keys: [id]": sink})
    shop.send(a(1, 9))
    assert shop.say("run", "newest", "raw")[0] == 0
    current = {row["id"]: row["amount"] for row in shop.rows("silver/newest") if row.get("__END_AT") is None}
    assert current == {1: 9.0, 2: -1.0, 3: 3.0}


def unstamped(rows: list[dict]) -> list[dict]:
    """The rows without the time of their batch, in an order."""
    kept = [{name: value for name, value in row.items() if name != "ingested_at"} for row in rows]
    return sorted(kept, key=lambda row: (row["kafka_partition"], row["kafka_offset"]))


@pytest.mark.long
def test_what_keeps_a_flow_from_its_source(shop, spark):
    shop.write(NOWHERE)
    told = (
        "[SOURCE_NOT_MADE] flow orders: its source, table bronze.orders, is not made yet; nothing was read\n"
        "  at: rivermouth.yml:4\n"
        "  hint: rivermouth run raw\n"
    )
    assert told in shop.say("run", "orders")[2]
    # A trial reads that of the other flow.
    told = told.replace("bronze.orders", "bronze.orders_debug").replace("run raw", "run raw --debug")
    assert told in shop.say("run", "orders", "--debug")[2]
    status = shop.json("status", "orders")["flows"][0]
    said = "flow orders: its source, table bronze.orders, is not made yet"
    assert (status["code"], status["message"]) == (None, f"{said}; nothing was read")
    plan = shop.json("plan", "orders")["flows"][0]
    assert (plan["problem"], plan["creates_table"], plan["warnings"]) == (None, True, [said])
    shop.write()
    shop.send(*[a(number, 1) for number in range(10)])
    assert shop.say("run", "raw", "orders")[0] == 0
    bronze = shop.folder / "lake/bronze/orders"
    # A user who deletes rows of bronze has to say so to its flow; until then nobody reads it.
    spark.sql(f"DELETE FROM delta.`{bronze}` WHERE kafka_offset < 3")
    shop.send(a(10, 1))
    assert "[LEDGER_VOID] table " in shop.say("run", "orders")[2]
    code, _out, err = shop.say("run", "raw", "--rewind", f"{shop.topic}-0:10", "--why", "erased")
    assert code == 0, err
    assert shop.say("run", "orders")[0] == 0
    assert shop.places("silver/orders") == {(0, offset): 1 for offset in range(11)}
    # What was erased there is gone here with the next rebuild, whatever others did to the table.
    spark.sql(f"DELETE FROM delta.`{shop.folder}/lake/silver/orders` WHERE kafka_offset = 9")
    assert "[LEDGER_VOID] table " in shop.say("run", "orders")[2]
    code, out, err = shop.say("rebuild", "orders", "--yes")
    assert (code, out.splitlines()[-1:]) == (0, ["silver.orders: 10 rows before, 8 rows now"]), err
    assert shop.places("silver/orders") == {(0, offset): 1 for offset in range(3, 11)}


@pytest.mark.long
def test_a_flow_moves_from_its_topic_to_the_table_and_back_without_losing_its_place(shop):
    # Properties are those of the table as it is made first.
    table = {"table: silver.orders": "table: {name: silver.orders, properties: {delta.appendOnly: true}}"}
    topics = {
        "source: {table: bronze.orders}\n    format: {type": f"topics: [{shop.topic}]\n    format: {{type",
        **table,
    }
    shop.send(*[a(number, 1) for number in range(5)])
    shop.write(**topics)
    assert shop.say("run", "orders", "raw")[0] == 0
    for number, kind in enumerate((table, topics, table)):
        shop.send(a(5 + number, 1))
        shop.write(**kind)
        code, _out, err = shop.say("run", "raw", "orders")
        assert code == 0, err
        assert shop.places("silver/orders") == {(0, offset): 1 for offset in range(6 + number)}
    code, _out, err = shop.say("rebuild", "orders", "--yes")
    assert code == 1
    refused = (
        f"[REBUILD_REFUSED] flow orders: table {shop.folder}/lake/silver/orders is not rebuilt: its property "
        "delta.appendOnly lets no row be taken out; nothing was changed\n"
        "  at: rivermouth.yml:4\n"
        f"  hint: ALTER TABLE delta.`{shop.folder}/lake/silver/orders` UNSET TBLPROPERTIES ('delta.appendOnly')\n"
    )
    assert refused in err, err
    assert shop.places("silver/orders") == {(0, offset): 1 for offset in range(8)}
    # A table that begins later than the flow's own cannot give back what the flow has from before.
    shop.write(starting="latest", **table, **{"bronze.orders": "bronze.late"})
    assert shop.say("run", "raw")[0] == 0
    code, out, err = shop.say("rebuild", "orders", "--yes")
    assert code == 1
    refused = (
        f"[REBUILD_REFUSED] flow orders: table {shop.folder}/lake/silver/orders is not rebuilt: 8 of its rows are of "
        "records that the source does not have; nothing was changed\n"
        "  at: rivermouth.yml:4\n"
        "  hint: write into another table, by a flow of its own, and keep this one\n"
    )
    assert refused in err, err
    assert out.splitlines()[-1] == "silver.orders: none known before, 8 rows now"


def test_rebuild_refuses(shop):
    code, _out, err = shop.say("rebuild", "raw", "--yes")
    assert code == 1
    assert err == (
        f"[REBUILD_REFUSED] flow raw: table {shop.folder}/lake/bronze/orders is not rebuilt: the flow does not read "
        "a table, and what Kafka dropped would be gone; nothing was changed\n"
        "  at: rivermouth.yml:16\n"
        "  hint: source: {table: ...} instead of topics:, with the table of a raw flow\n"
    )
    code, _out, err = shop.say("rebuild", "orders")
    assert code == 1
    assert err == (
        f"[ARGUMENT_INVALID] rebuild: all rows of {shop.folder}/lake/silver/orders would be deleted, and there is no "
        "terminal to ask on; nothing was run\n"
        "  hint: rivermouth rebuild orders --yes\n"
    )
    assert shop.say("rebuild", "ordres")[2].startswith("[FLOW_UNKNOWN]")


@pytest.mark.long
def test_following_a_table_needs_no_query_and_answers_requests(shop, spark):
    trigger = "trigger: {every: 300 ms, max_offsets: 2}"
    shop.write(**{"table: silver.orders": f"table: silver.orders\n    {trigger}"})
    project, stop, batches = Project.load("rivermouth.yml"), managed_session.Stop(), []

    def hear(event):
        if isinstance(event, BatchDone) and event.flow == "orders":
            batches.append(event)

    shop.send(*[a(number, 1) for number in range(5)], b"{bad")
    with ThreadPoolExecutor(1) as pool:
        # The table of bronze is made meanwhile.
        running = pool.submit(
            run_flows.run, project, ["orders", "raw"], follow=True, hooks=managed_session.RunHooks(hear, stop=stop)
        )
        try:
            wait_until(lambda: sum(event.counts.consumed for event in batches) == 6, running)
            assert [event.counts.consumed for event in batches] == [2, 2, 2]
            assert dead_letters.discarded(project, ["orders"], DeadLetterFilter()) == {"orders": 1}
            with pytest.raises(FlowsFailed) as caught:
                project.rebuild("orders")
            assert isinstance(caught.value.__cause__, TableBusy)
            shop.send(a(6, 1))
            wait_until(lambda: sum(event.counts.consumed for event in batches) == 7, running)
        finally:
            stop.ask()
        assert [outcome.error for outcome in running.result(60)] == [None, None]
    assert not (shop.folder / "lake/_rivermouth/checkpoints/silver.orders").exists()
    assert shop.places("silver/orders") == {(0, offset): 1 for offset in (0, 1, 2, 3, 4, 6)}
    done = project.rebuild("orders", why="by Python")
    assert (done.table, done.rows_before, done.rows_after, done.outcome.counts.consumed) == ("silver.orders", 6, 6, 7)


def wait_until(reached, running, bound_s=60):
    deadline = time.monotonic() + bound_s
    while not reached():
        assert not running.done(), running.result()
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.long
@pytest.mark.parametrize("name", ["orders", "newest"])
def test_what_is_erased_from_both_tables_is_audited_in_both(shop, name):
    shop.send(a(1, 1), a(2, 2), a(1, -1), a(1, 3))
    assert shop.say("run", name, "raw")[0] == 0
    # First from the one that people read.
    for table, where in ((f"silver.{name}", "id = 1"), ("bronze.orders", BY_KEY)):
        code, out, err = shop.say("tables", "forget", table, "--where", where, "--yes")
        assert code == 0, out + err
    assert [shop.places(table) for table in (f"silver/{name}", "bronze/orders")] == [{(0, 1): 1}] * 2
    code, out, err = shop.say("audit", name, "raw")
    assert (code, err.replace("starting Spark …\n", "")) == (0, ""), out
    assert "  4 records in Kafka: 1 in the table, 0 in the dead letters, 3 erased, 0 in neither" in out
    shop.send(a(1, 4))
    assert shop.say("run", name, "raw")[0] == 0
    code, out, err = shop.say("audit", name, "raw")
    assert (code, err.replace("starting Spark …\n", "")) == (0, ""), out


BY_KEY = "CAST(kafka_key AS STRING) = '1'"
