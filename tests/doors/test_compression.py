"""Flows over compressed values, over a real broker: rows, dead letters as they were sent, and their replay."""

from __future__ import annotations

import gzip
import json

import pyarrow as pa
import pytest
from tests.crashes.oracle import rows_of

from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.ports.kafka.kafka_produce import produce

PROJECT = """
lake: ./lake
kafka: {{bootstrap_servers: '{servers}'}}
flows:
  orders:
    topics: [{gzipped}]
    compression: {{type: gzip, max_bytes: {max_bytes}}}
    format: {{type: json, schema: "id bigint, note string"}}
    table: silver.orders
    sink: {{type: upsert, keys: [id]}}
  lines:
    topics: [{zstandard}]
    compression: zstd
    format: {{type: csv, schema: "id bigint, note string"}}
    table: silver.lines
  bytes:
    topics: [{gzipped}]
    compression: gzip
    format: raw
    table: bronze.orders
"""


@pytest.mark.long
def test_values_are_read_as_they_were_before(tmp_path, monkeypatch, broker, topic, spark):
    monkeypatch.chdir(tmp_path)
    gzipped, zstandard = topic(), topic()
    large = gzip.compress(json.dumps({"id": 2, "note": "x" * 1000}).encode())
    sent = [gzip.compress(b'{"id": 1, "note": "a"}'), large, b'{"id": 3}', gzip.compress(b"no JSON"), (None, None, ())]
    produce(broker.bootstrap_servers, {}, gzipped, sent)
    lines = [b"1,a", b"x,b"]
    produce(broker.bootstrap_servers, {}, zstandard, [pa.Codec("zstd").compress(each, asbytes=True) for each in lines])

    def run(max_bytes):
        places = {"servers": broker.bootstrap_servers, "gzipped": gzipped, "zstandard": zstandard}
        (tmp_path / "rivermouth.yml").write_text(PROJECT.format(max_bytes=max_bytes, **places))
        return {outcome.flow: outcome.counts for outcome in Project.load("rivermouth.yml").run()}

    counts = run(500)
    told = {name: (each.written + each.merged, each.dropped, each.dead_lettered) for name, each in counts.items()}
    assert told == {"orders": (1, 0, 4), "lines": (1, 0, 1), "bytes": (4, 0, 1)}
    letters = {row["kafka_offset"]: row for row in rows_of(tmp_path / "lake/silver/orders__dead_letters")}
    assert {offset: row["reason"] for offset, row in letters.items()} == {
        1: "TOO_LARGE",
        2: "INVALID_COMPRESSION",
        3: "INVALID_JSON",
        4: "KEY_NULL",
    }
    assert [bytes(letters[offset]["kafka_value"]) for offset in (1, 2, 3)] == sent[1:4]
    [line] = rows_of(tmp_path / "lake/silver/lines__dead_letters")
    assert (line["reason"], line["field"]) == ("FIELD_TYPE", "id")
    raw = {row["kafka_offset"]: row["value"] for row in rows_of(tmp_path / "lake/bronze/orders")}
    assert (bytes(raw[3]), raw[4]) == (b"no JSON", None)

    run(5_000)
    assert invoke(["dead-letters", "replay", "orders"]) == 0
    rows = {row["id"]: row["note"] for row in rows_of(tmp_path / "lake/silver/orders")}
    assert rows == {1: "a", 2: "x" * 1000}
