"""``format: python`` at the command line: a user's own function from a topic into a table, and what becomes of the rest."""

from __future__ import annotations

import json
import sys

import pytest
from confluent_kafka import Producer
from tests.crashes import oracle

from rivermouth.cli.main import invoke

# One value a line of what a function may meet.
ONE_BY_ONE = """
import json
import os
import time
from datetime import datetime, timezone
from decimal import Decimal

import {module}_beside


def orders(value: bytes, *, topic, key, headers) -> dict | None:
    if value == b"secret-1":
        raise ValueError("no such order: " + value.decode())
    if value == b"sleep":
        time.sleep(60)
    if value == b"exit":
        os._exit(3)
    order = json.loads(value)
    if order["id"] is None:
        return None
    order["amount"] = Decimal(order["amount"]) if isinstance(order["amount"], str) else order["amount"]
    return {{**order, "said": {module}_beside.said(topic, key, headers)}}
"""
NEIGHBOUR = """
def said(topic, key, headers):
    return f"{topic} {key} {headers}"
"""
AT_ONCE = """
import pyarrow as pa
import pyarrow.compute as pc


def orders(values: pa.Array) -> pa.StructArray:
    texts = pc.cast(values, pa.string())
    ids = pc.cast(pc.list_element(pc.split_pattern(texts, ","), 0), pa.int32())
    amounts = pc.cast(pc.list_element(pc.split_pattern(texts, ","), 1), pa.float64())
    return pa.StructArray.from_arrays([ids, amounts], ["id", "amount"], mask=pc.equal(ids, 0))
"""


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of the format: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})

    class Project:
        topic = name
        # No two tests share one, since Spark's workers keep the modules that they have imported.
        module = f"decode_{name.replace('-', '_').replace('.', '_')}"

        def write(self, form, code, schema, more=""):
            (tmp_path / f"{self.module}.py").write_text(code)
            (tmp_path / f"{self.module}_beside.py").write_text(NEIGHBOUR)
            text = f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{broker.bootstrap_servers}"}}
flows:
  orders:
    topics: [{name}]
    format: {{type: python, function: "{self.module}:orders", schema: "{schema}"{form}}}
    table: silver.orders
{more}
"""
            (tmp_path / "rivermouth.yml").write_text(text)

        def send(self, *values, **more):
            for value in values:
                producer.produce(name, value=value, **more)
            assert producer.flush(30) == 0

        def say(self, *arguments):
            code = invoke(list(arguments))
            out, err = capsys.readouterr()
            return code, out + err

        def rows(self, *columns):
            found = oracle.rows_of(str(tmp_path / "lake/silver/orders"))
            kept = sorted(found, key=lambda row: row["kafka_offset"])
            return [tuple(row[name] for name in columns) for row in kept]

        def letters(self):
            found = oracle.rows_of(str(tmp_path / "lake/silver/orders__dead_letters"))
            kept = sorted(found, key=lambda row: row["kafka_offset"])
            return [tuple(row[name] for name in ("kafka_offset", "reason", "field", "message")) for row in kept]

    return Project()


def order(**fields):
    return json.dumps(fields).encode()


def test_each_record_ends_in_the_table_in_the_dead_letters_or_in_a_count(project):
    project.write(
        ", timeout_s: 1", ONE_BY_ONE.format(module=project.module), "id bigint, amount decimal(6,2), said string"
    )
    project.send(order(id=1, amount="1.50"), key=b"k", headers=[("h", b"\\x00"), ("h", None)])
    project.send(order(id=None, amount=0), b"secret-1", None, b"sleep", order(id="1", amount="2"))
    project.send(order(id=2, amount="1.505"), order(id=3, amount="1", more=1), order(id=4, amount=1.5))
    project.send(order(id=5, amount="-9999.99"))
    assert project.say("validate")[0] == 0
    code, text = project.say("run", "--output", "json")
    assert code == 0, text
    assert "secret-1" not in text
    first = f"{project.topic} b'k' [('h', b'\\\\x00'), ('h', None)]"
    assert [
        (at, number, str(amount), said)
        for at, number, amount, said in project.rows("kafka_offset", "id", "amount", "said")
    ] == [
        (0, 1, "1.50", first),
        (9, 5, "-9999.99", f"{project.topic} None []"),
    ]
    assert project.letters() == [
        (2, "FUNCTION_FAILED", None, "ValueError: no such order: secret-1"),
        (4, "FUNCTION_FAILED", None, "it did not return within 1 s"),
        (5, "FIELD_TYPE", "id", "field id is declared bigint and holds a str"),
        (
            6,
            "FIELD_TYPE",
            "amount",
            "field amount is declared decimal(6,2) and holds a number with more digits than that, before or after the point",
        ),
        (7, "FIELD_UNKNOWN", None, "the dict has a key that the schema lacks: 'more'"),
        (
            8,
            "FIELD_TYPE",
            "amount",
            "field amount is declared decimal(6,2) and holds a float, which is no exact number: return a decimal.Decimal",
        ),
    ]
    told = json.loads(project.say("status", "--output", "json")[1])
    print(told)
    assert project.module not in sys.path
