"""The law of sample records: what ``check_records`` says of records is what a run makes of the same records."""

from __future__ import annotations

import base64
import json

import pytest
from confluent_kafka import Producer
from google.protobuf import json_format
from tests.crashes.oracle import rows_of
from tests.doors.test_avro import FIRST, FOREIGN, RECORDS, SECOND, THIRD, encoded, framed
from tests.doors.test_check_records import AT, CASES, FLOWS
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.protobuf_writers import orders, told

from rivermouth import Project, Record
from rivermouth.cli.main import invoke
from rivermouth.decoding.protobuf.protobuf_descriptor import message_class
from rivermouth.domain.project.sample_records import placed
from rivermouth.spec import ProjectSpec

NARROW, WIDE = orders("int32 id = 1", "string note = 3"), orders("int64 id = 1", "string note = 3", "bool more = 4")
# When a row was carried.
OF_THE_RUN = {"ingested_at", "kafka_timestamp"}
MORE = {
    "avro": {"format": {"type": "avro", "framing": "confluent", "subject": "avro", "version": 2}},
    "avro_keyed": {
        "format": {"type": "avro", "framing": "confluent", "subject": "avro", "version": 2},
        "sink": {"type": "upsert", "keys": ["id"]},
        "expectations": [{"name": "tagged", "condition": "tag IS NOT NULL", "action": "drop"}],
    },
    "protobuf": {
        "format": {
            "type": "protobuf",
            "framing": "confluent",
            "message": "shop.Order",
            "subject": "protobuf",
            "version": 1,
        },
        "expectations": [{"name": "positive", "condition": "id > 0", "action": "dead_letter"}],
    },
    "csv": {"format": {"type": "csv", "schema": "id int, name string"}},
    "text": {"format": "text", "key_format": "int"},
}


def avro_records(registry):
    """Of two writers, of another record, of no known writer; cut off, unframed, and a tombstone."""
    ids = {json.dumps(schema): registry.register("avro", schema) for schema in (FIRST, SECOND)}
    foreign, unknown = registry.register("other", FOREIGN), 1 << 20
    good = [framed(ids[json.dumps(schema)], encoded(schema, record)) for schema, record in RECORDS]
    last = encoded(THIRD, {"id": 9, "note": "later", "tag": None, "more": 0.5})
    return [*good, good[0][:-1], good[0] + b"\0", b"", b"\1", framed(foreign, b"\1"), framed(unknown, last), None]


def protobuf_records(registry):
    """Of two writers, one of whom nobody knows; cut off, unframed, and a tombstone."""
    number = registry.register("protobuf", told(NARROW), kind="PROTOBUF")

    def message(writer, content, schema_id):
        body = json_format.ParseDict(content, message_class(writer, "shop.Order")()).SerializeToString()
        return framed(schema_id, b"\0" + body)

    good = [message(NARROW, {"id": 1, "note": "ä"}, number), message(WIDE, {"id": 2, "more": True}, 999)]
    refused = [message(NARROW, {"id": -1}, number), message(WIDE, {"id": 1 << 40}, number)]
    return [*good, *refused, good[0][:-1], b"", b"\1", framed(number, b"\2\2\x08\1"), None]


def records_of(registry):
    """By flow."""
    avro = avro_records(registry)
    return {
        **{name: records for name, (records, _) in CASES.items()},
        "avro": avro,
        "avro_keyed": [each if each is None else Record(each, key=str(place)) for place, each in enumerate(avro)],
        "protobuf": protobuf_records(registry),
        "csv": ["1,a", "x,a", '2,"b', "3", "4,ä,more", b"\xff,a", "", None],
        "text": [Record("a", key=b"\0\0\0\1"), Record("b", key="x"), Record(b"\xff", key=b"\0\0\0\2"), None],
    }


@pytest.fixture
def registry():
    with SchemaRegistry() as running:
        yield running


@pytest.mark.long
def test_a_run_makes_of_the_same_records_what_the_verdicts_say(
    spark, broker, topic, registry, tmp_path, monkeypatch, capsys
):
    monkeypatch.chdir(tmp_path)
    records = records_of(registry)
    flows = {name: {"table": f"silver.{name}", **({**FLOWS, **MORE}[name]), "topics": [topic()]} for name in records}
    servers = broker.bootstrap_servers
    spec = {
        "lake": "./lake",
        "kafka": {"bootstrap_servers": servers},
        "schema_registry": {"url": registry.url},
        "flows": flows,
    }
    (tmp_path / "rivermouth.yml").write_text(json.dumps(spec))
    project = Project.from_spec(ProjectSpec(**spec), base=tmp_path)
    verdicts = {name: project.check_records(name, given) for name, given in records.items()}
    producer = Producer({"bootstrap.servers": servers})
    for name, given in records.items():
        for each in placed(given, "t", AT):
            producer.produce(flows[name]["topics"][0], each.value, each.key, headers=list(each.headers))
    assert producer.flush(30) == 0
    counts = {each.flow: each.counts for each in project.run()}
    for name, found in verdicts.items():
        assert {each.record for each in found} == {*range(len(records[name]))}
        # Where a record is exploded, each of its rows is counted.
        of_records = {each.record: each.verdict for each in found}
        counted = [each.verdict for each in found] if "explode" in flows[name] else [*of_records.values()]
        run = counts[name]
        verdict_counts = (counted.count("table"), counted.count("dropped"), counted.count("dead_letter"))
        assert (run.written + run.merged, run.dropped, run.dead_lettered) == verdict_counts, name
        letters = sorted(
            (each.record, -1 if each.position is None else each.position, each.reason, each.field, each.message)
            for each in found
            if each.verdict == "dead_letter"
        )
        table = tmp_path / "lake" / str(project.flow(name).table.name).replace(".", "/")
        assert sorted(map(letter_of, rows_of(f"{table}__dead_letters"))) == letters, name
        if "sink" not in flows[name]:
            assert sorted(map(carried, rows_of(table)), key=str) == sorted(
                (carried(each.row) for each in found if each.verdict == "table"), key=str
            ), name

    # The command says the same of bytes, which a line has as base64.
    values = records["avro"]
    given = [
        {"value_base64": base64.b64encode(each).decode()} if each is not None else {"value": None} for each in values
    ]
    (tmp_path / "sample.jsonl").write_text("\n".join(map(json.dumps, given)))
    code = invoke(["check-records", "avro", "sample.jsonl", "--lines", "records", "--output", "json"])
    out, err = capsys.readouterr()
    said = [json.loads(line) for line in out.splitlines()]
    assert (code, "6 of 11 records would not reach the table" in err) == (1, True), err
    assert [(each["record"], each["verdict"], each["reason"], each["message"]) for each in said] == [
        (each.record, each.verdict, each.reason, each.message) for each in verdicts["avro"]
    ]


def letter_of(row):
    position = row.get("kafka_position")
    return row["kafka_offset"], -1 if position is None else position, row["reason"], row["field"], row["message"]


def carried(row):
    """A row without what says when it was carried."""
    return sorted((name, value) for name, value in row.items() if name not in OF_THE_RUN)
