"""Changes and rows of Kafka Connect that people reported: values left out, arrays, rows without an envelope."""

from __future__ import annotations

import datetime as dt
import json
from decimal import Decimal
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.doors.one_topic import OneTopic

REPORTS = Path(__file__).parents[1] / "data" / "reports"
GONE = "__debezium_unavailable_value"
KEYED = "sink: {type: upsert, keys: [id]}"
# Of each flow: its messages, its format, and what else it has.
FLOWS = {
    "c04": ("04", 'type: debezium, schema: "id bigint, status string, bio string, tags array<string>"', KEYED),
    "c04_ignore": ("04", 'type: debezium, schema: "id bigint, status string"', KEYED),
    "c24_da": ("24", 'type: debezium, schema: "id bigint, da array<decimal(10,2)>", decimals: string', KEYED),
    "c24_by_block": (
        "24",
        (
            'type: debezium, schema: "id bigint, da array<decimal(10,2)>, dp array<decimal(10,2)>, dd array<date>, '
            'ts array<timestamp>, tz array<timestamp>, js array<string>, hs string, hm map<string,string>"'
        ),
        KEYED,
    ),
    "c24_hs_map": ("24", 'type: debezium, schema: "id bigint, hs map<string,string>"', KEYED),
    "c10": (
        "10",
        'type: connect_json, schema: "id int, price decimal(10,2), day date, at timestamp, micro timestamp"',
        "sink: append",
    ),
    "c10_keyed": ("10", 'type: connect_json, schema: "id int, price decimal(10,2), day date"', KEYED),
    "c10_debezium": ("10", 'type: debezium, schema: "id int, price decimal(10,2)"', KEYED),
}


class Reported(OneTopic):
    """A project with a flow for each of ``FLOWS``, and a topic for each folder of messages."""

    def __init__(self, folder, capsys, servers, topics):
        super().__init__(folder, capsys, servers, "")
        self.topics = topics
        flows = "".join(
            f"  {name}:\n    topics: [{topics[number]}]\n    format: {{{form}}}\n    table: silver.{name}\n    {sink}\n"
            for name, (number, form, sink) in FLOWS.items()
        )
        self.save(f"lake: ./lake\nkafka: {{bootstrap_servers: '{servers}'}}\nflows:\n{flows}")

    def send_json(self, number, *pairs):
        self.topic = self.topics[number]
        for key, value in pairs:
            self.send(None if value is None else json.dumps(value).encode(), key=json.dumps(key).encode())

    def send_file(self, number, name):
        lines = [json.loads(line) for line in (REPORTS / number / name).read_text().splitlines()]
        self.send_json(number, *((line["key"]["json"], line["value"]["json"]) for line in lines))

    def table(self, name, columns):
        found = QueryBuilder().register("t", DeltaTable(str(self.folder / "lake/silver" / name)))
        told = found.execute(f"SELECT {columns} FROM t ORDER BY id").read_all()
        return list(zip(*(column.to_pylist() for column in told.columns), strict=True))


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    return Reported(tmp_path, capsys, broker.bootstrap_servers, {number: topic() for number in ("04", "10", "24")})


def test_tables_hold_what_the_source_held(project):
    for number in project.topics:
        project.send_file(number, "messages.1.jsonl")
    code, out = project.say("run")
    assert code == 0, out
    long = "L" * 3000
    assert project.table("c04", "id, status, bio, tags") == [(1, "old", long, ["a", "b"])]
    utc = dt.UTC
    micro, half = dt.datetime(2026, 1, 1, tzinfo=utc), dt.datetime(2026, 1, 31, 10, 0, 0, 500_000, tzinfo=utc)
    assert project.table("c24_by_block", "da, dp, dd, ts, tz") == [
        (
            [Decimal("-10.00"), None],
            [Decimal("7.70"), None],
            [dt.date(2026, 1, 31), None],
            [micro, None],
            [half, None],
        )
    ]
    assert project.table("c24_da", "da") == [([Decimal("-10.00"), None],)]
    assert project.table("c24_hs_map", "hs") == [([("k", "v"), ("n", None)],)]
    day, at = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=utc)
    prices = [Decimal("7.70"), Decimal("-0.01"), Decimal("999999.99")]
    exact = at.replace(microsecond=123_456)
    assert project.table("c10", "id, price, day, at, micro") == [
        (number, price, day, at, exact) for number, price in enumerate(prices, 1)
    ]
    code, said = project.say("dead-letters", "show", "c10_debezium", "--output", "json")
    assert "the format connect_json reads rows in schema and payload without one" in said, said

    project.send_file("04", "messages.2.jsonl")
    unknown = {"before": None, "after": {"id": 2, "status": "late", "bio": GONE, "tags": [GONE]}, "op": "u"}
    project.send_json("04", ({"id": 2}, unknown))
    schema = {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}
    project.send_json("10", ({"schema": schema, "payload": {"id": 3}}, None), ({"id": 2}, None))
    code, out = project.say("run", "c04", "c04_ignore", "c10_keyed")
    assert code == 0, out
    # Of a row that nobody knows the placeholder stays, until a change brings the value.
    assert project.table("c04", "id, status, bio, tags") == [
        (1, "new", long, ["a", "b"]),
        (2, "late", GONE, [GONE]),
    ]
    assert project.table("c04_ignore", "id, status") == [(1, "new"), (2, "late")]
    assert project.table("c10_keyed", "id, price") == [(1, Decimal("7.70"))]
