"""Values made to break a parser: each ends in its place, the worker lives, and the record behind them is carried."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from tests.crashes.oracle import rows_of

import rivermouth
from rivermouth.spec import ProjectSpec

MIB = 1 << 20
BOMBS = {
    "arrays in arrays": b"[" * 500_000,
    "objects in objects": b'{"a":' * 300_000,
    "objects in objects, closed": b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
    "arrays in an undeclared field": b'{"id": 1, "x": ' + b"[" * 5_000 + b"]" * 5_000 + b"}",
    "a long string": b'{"id": 1, "name": "' + b"x" * (25 * MIB) + b'"}',
    "many digits": b'{"id": ' + b"9" * MIB + b"}",
    "a huge exponent": b'{"amount": 1e999999999}',
    "a long name": b'{"' + b"k" * MIB + b'": 1}',
    "escapes": b'{"name": "' + b"\\u0041" * 200_000 + b'", "id": "no"}',
}
REASONS = {
    "arrays in arrays": ("TOO_DEEP", None),
    "objects in objects": ("TOO_DEEP", None),
    "objects in objects, closed": ("TOO_DEEP", None),
    "arrays in an undeclared field": ("TOO_DEEP", None),
    "a long string": ("TOO_LONG", "name"),
    "many digits": ("TOO_LONG", None),
    "a huge exponent": ("FIELD_TYPE", "amount"),
    "a long name": ("TOO_LONG", None),
    "escapes": ("FIELD_TYPE", "id"),
}
FINE = {
    "a long string that nobody asked for": b'{"id": 1, "x": "' + b"x" * (25 * MIB) + b'"}',
    "many keys": b"{" + b",".join(b'"k%d": %d' % (number, number) for number in range(100_000)) + b', "id": 2}',
    "many twins": b"{" + b'"x": 1,' * 100_000 + b'"id": 3}',
    "a small one behind them all": b'{"id": 4}',
}


@pytest.mark.long
@pytest.mark.timeout(240)
def test_each_ends_in_its_place(broker, topic, spark, tmp_path):
    name = topic(**{"max.message.bytes": str(64 * MIB)})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "message.max.bytes": 64 * MIB})
    for key, value in {**BOMBS, **FINE}.items():
        producer.produce(name, value, key)
        producer.flush(30)
    spec = ProjectSpec(
        lake=str(tmp_path / "lake"),
        kafka={"bootstrap_servers": broker.bootstrap_servers},
        flows={
            "bombs": {
                "topics": name,
                "format": {"type": "json", "schema": "id bigint, name string, amount double"},
                "table": "silver.bombs",
            }
        },
    )
    [outcome] = rivermouth.Project.from_spec(spec).run()
    assert outcome.error is None
    assert outcome.counts.consumed == len(BOMBS) + len(FINE)
    assert {row["kafka_key"] for row in rows_of(tmp_path / "lake/silver/bombs")} == set(FINE)
    letters = {row["kafka_key"].decode(): row for row in rows_of(tmp_path / "lake/silver/bombs__dead_letters")}
    assert {key: (row["reason"], row["field"]) for key, row in letters.items()} == REASONS
    assert {key: bytes(row["kafka_value"]) for key, row in letters.items()} == BOMBS
