"""Several Avro record types in one topic, at the command line: each flow takes its own, and none becomes another."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest
from tests.doors.one_topic import OneTopic
from tests.ports.schema_registry import SchemaRegistry

DATA = Path(__file__).parents[1] / "data/reports/13"


def event(name, *fields):
    told = [{"name": field, "type": kind, **more} for field, kind, more in fields]
    return {"type": "record", "name": name, "namespace": "shop", "fields": told}


ID, AMOUNT = ("order_id", "long", {}), ("amount", "double", {})
NOTE = ("note", ["null", "string"], {"default": None})
# In the order of their ids, which the messages name.
SCHEMAS = (
    event("OrderPlaced", ID, AMOUNT),
    event("OrderShipped", ID, ("carrier", "string", {})),
    event("OrderPlaced", ID, AMOUNT, NOTE),
    event("OrderCancelled", ID, AMOUNT, ("reason", "string", {})),
)


def of(name, version, *record_names):
    chosen = f", record_names: [{', '.join(record_names)}]" if record_names else ""
    return f"{{type: avro, framing: confluent, subject: c13-shop.{name}, version: {version}{chosen}}}"


def messages(number):
    lines = (DATA / f"messages.{number}.jsonl").read_text().splitlines()
    return [base64.b64decode(json.loads(line)["value"]["b64"]) for line in lines]


class Events(OneTopic):
    def write(self, registry, **flows):
        """Flows by name, each with its format and what it reads, if that is not the topic."""
        self.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{self.servers}"}}
schema_registry: {{url: "{registry.url}"}}
flows:
""")
        for flow, (form, *source) in flows.items():
            read = source[0] if source else f"topics: [{self.topic}]"
            text = (self.folder / "rivermouth.yml").read_text()
            self.save(f"{text}  {flow}: {{{read}, format: {form}, table: silver.{flow}}}\n")

    def told(self, table, *columns):
        return [tuple(row[name] for name in columns) for row in self.kept(table)]

    def totals(self):
        flows = json.loads(self.say("status", "--output", "json")[1])["flows"]
        names = ("consumed", "written", "dropped", "dead_lettered")
        return {each["flow"]: tuple(each["totals"][name] for name in names) for each in flows}


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    return Events(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_a_flow_takes_the_records_of_its_name_and_refuses_others_or_passes_over_them(project):
    with SchemaRegistry() as registry:
        for schema in SCHEMAS:
            registry.register(f"c13-shop.{schema['name']}", schema)
        flows = {"placed": (of("OrderPlaced", 1),), "chosen": (of("OrderPlaced", 2, "shop.OrderPlaced"),)}
        project.write(registry, **flows)
        project.send(*messages(1), *messages(2))
        code, said = project.say("run")
        assert code == 0, said
        assert project.told("placed", "order_id", "amount") == [(1, 9.5), (2, 1.0)]
        assert project.told("chosen", "order_id", "amount", "note") == [(1, 9.5, None), (2, 1.0, "n")]
        other = "the value was written as record shop.{}, the flow reads shop.OrderPlaced"
        letters = [
            (1, "RECORD_NAME", other.format("OrderShipped")),
            (3, "RECORD_NAME", other.format("OrderCancelled")),
        ]
        assert project.told("placed__dead_letters", "kafka_offset", "reason", "message") == letters
        assert project.totals() == {"placed": (4, 2, 0, 2), "chosen": (4, 2, 2, 0)}


@pytest.mark.long
def test_each_flow_takes_the_records_of_its_name(project):
    with SchemaRegistry() as registry:
        for schema in SCHEMAS:
            registry.register(f"c13-shop.{schema['name']}", schema)
        flows = {
            "placed": (of("OrderPlaced", 1),),
            "chosen": (of("OrderPlaced", 2, "shop.OrderPlaced"),),
            "shipped": (of("OrderShipped", 1, "OrderShipped"),),
            "raw": ("raw",),
        }
        project.write(registry, **flows)
        project.send(*messages(1), *messages(2))
        code, said = project.say("run")
        assert code == 0, said
        assert project.told("placed", "order_id", "amount") == [(1, 9.5), (2, 1.0)]
        assert project.told("chosen", "order_id", "amount", "note") == [(1, 9.5, None), (2, 1.0, "n")]
        assert project.told("shipped", "order_id", "carrier") == [(1, "dhl")]
        other = "the value was written as record shop.{}, the flow reads shop.OrderPlaced"
        letters = [
            (1, "RECORD_NAME", other.format("OrderShipped")),
            (3, "RECORD_NAME", other.format("OrderCancelled")),
        ]
        assert project.told("placed__dead_letters", "kafka_offset", "reason", "message") == letters
        counted = {"placed": (4, 2, 0, 2), "chosen": (4, 2, 2, 0), "shipped": (4, 1, 3, 0), "raw": (4, 4, 0, 0)}
        assert project.totals() == counted

        # A flow over the raw table chooses as one over the topic does.
        project.write(
            registry, **flows, of_raw=(of("OrderShipped", 1, "shop.OrderShipped"), "source: {table: silver.raw}")
        )
        code, said = project.say("run", "of_raw")
        assert code == 0, said
        assert project.told("of_raw", "order_id", "carrier") == [(1, "dhl")]
        assert project.totals() == counted | {"of_raw": (4, 1, 3, 0)}
