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
    """A project with those of ``FLOWS`` that read a folder of messages."""

    def __init__(self, folder, capsys, servers, topic, number):
        super().__init__(folder, capsys, servers, topic)
        self._messages = REPORTS / number
        flows = "".join(
            f"  {name}:\n    topics: [{topic}]\n    format: {{{form}}}\n    table: silver.{name}\n    {sink}\n"
            for name, (folder, form, sink) in FLOWS.items()
            if folder == number
        )
        self.save(f"lake: ./lake\nkafka: {{bootstrap_servers: '{servers}'}}\nflows:\n{flows}")

    def send_json(self, *pairs):
        for key, value in pairs:
            self.send(None if value is None else json.dumps(value).encode(), key=json.dumps(key).encode())

    def send_file(self, name):
        lines = [json.loads(line) for line in (self._messages / name).read_text().splitlines()]
        self.send_json(*((line["key"]["json"], line["value"]["json"]) for line in lines))

    def run(self, *flows):
        code, out = self.say("run", *flows)
        assert code == 0, out

    def table(self, name, columns):
        found = QueryBuilder().register("t", DeltaTable(str(self.folder / "lake/silver" / name)))
        told = found.execute(f"SELECT {columns} FROM t ORDER BY id").read_all()
        return list(zip(*(column.to_pylist() for column in told.columns), strict=True))


@pytest.fixture
def reported(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project over the messages of a folder; the first ones are sent and written."""

    def reported(number):
        monkeypatch.chdir(tmp_path)
        project = Reported(tmp_path, capsys, broker.bootstrap_servers, topic(), number)
        project.send_file("messages.1.jsonl")
        project.run()
        return project

    return reported


@pytest.mark.long
def test_values_that_a_change_leaves_out_stay(reported):
    project = reported("04")
    assert project.table("c04", "id, status, bio, tags") == [(1, "old", "L" * 3000, ["a", "b"])]
    project.send_file("messages.2.jsonl")
    unknown = {"before": None, "after": {"id": 2, "status": "late", "bio": GONE, "tags": [GONE]}, "op": "u"}
    project.send_json(({"id": 2}, unknown))
    project.run()
    # Of a row that nobody knows the placeholder stays, until a change brings the value.
    assert project.table("c04", "id, status, bio, tags") == [
        (1, "new", "L" * 3000, ["a", "b"]),
        (2, "late", GONE, [GONE]),
    ]
    assert project.table("c04_ignore", "id, status") == [(1, "new"), (2, "late")]


@pytest.mark.long
def test_values_within_arrays_are_what_the_source_held(reported):
    project, utc = reported("24"), dt.UTC
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


@pytest.mark.long
def test_rows_without_an_envelope_are_what_their_schema_says(reported):
    project = reported("10")
    day, at = dt.date(2026, 1, 1), dt.datetime(2026, 1, 1, 0, 0, 0, 123_000, tzinfo=dt.UTC)
    prices = [Decimal("7.70"), Decimal("-0.01"), Decimal("999999.99")]
    exact = at.replace(microsecond=123_456)
    assert project.table("c10", "id, price, day, at, micro") == [
        (number, price, day, at, exact) for number, price in enumerate(prices, 1)
    ]
    _code, said = project.say("dead-letters", "show", "c10_debezium", "--output", "json")
    assert "the format connect_json reads rows in schema and payload without one" in said, said
    schema = {"type": "struct", "fields": [{"type": "int32", "field": "id"}]}
    project.send_json(({"schema": schema, "payload": {"id": 3}}, None), ({"id": 2}, None))
    project.run("c10_keyed")
    assert project.table("c10_keyed", "id, price") == [(1, Decimal("7.70"))]
