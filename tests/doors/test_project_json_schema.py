"""The JSON Schema for editors: valid, and of one mind with the nouns."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from jsonschema import Draft202012Validator

from rivermouth.extend import kind_names
from rivermouth.project.api import Project
from rivermouth.project.file import yaml_source
from rivermouth.project.file.json_schema import project_schema
from rivermouth.project.file.validation import validate_document
from rivermouth.project.file.variables import resolved
from rivermouth.project.resolved.static_checks import validate_static

ROOT = Path(__file__).parents[2]
STARTER = ROOT / "src" / "rivermouth" / "project" / "starter.yml"
FLOW = "    topics: [orders]\n    format: raw\n    table: bronze.orders\n"


def project(*lines: str, drop: str = "nothing") -> str:
    kept = "".join(f"{line}\n" for line in FLOW.splitlines() if not line.strip().startswith(f"{drop}:"))
    return "lake: ./lake\nflows:\n  orders:\n" + kept + "".join(f"    {line}\n" for line in lines)


ACCEPTED = [
    project(),
    project("topics: orders", drop="topics"),
    project("topic_pattern: orders-.*", drop="topics"),
    project("assign: {orders: [0, 1]}", drop="topics"),
    project("source: {table: bronze.raw}", drop="topics"),
    project("starting_offsets: latest"),
    project("starting_offsets: {orders: {0: 23, 1: -2}}"),
    project("starting_offsets: 2026-01-31T12:00:00Z", "ending_offsets: 2026-02-01"),
    project("starting_offsets: {group: old}", "ending_offsets: latest", "group_id: new"),
    project("format: {type: json, schema: 'id bigint'}", drop="format"),
    project("format: {type: json, schema: at timestamp, timestamp_format: epoch_ms}", drop="format"),
    project("format: {type: text}", drop="format"),
    project("format: {type: debezium, schema: 'id int', connector: mongodb}", "sink: upsert", drop="format"),
    project("format: {type: debezium, schema: 'id int', time_precision: millis, binaries: hex}", drop="format"),
    project("format: {type: canal, schema: 'id int', source_tables: [a.b]}", "sink: {type: upsert}", drop="format"),
    project("format: {type: ogg, schema: 'id int'}", "metadata_columns: [operation, primary_key]", drop="format"),
    project("format: {type: avro, schema: a.avsc, framing: single_object, writer_schemas: [b.avsc]}", drop="format"),
    project("format: {type: csv, schema: a int, delimiter: ';', quote: null, escape: null}", drop="format"),
    project("format: {type: regex, schema: a int, pattern: '(?<a>.*)', max_reads: 5000}", drop="format"),
    project("format: {type: key_value, schema: a int, pair_separator: ;, quote: null}", drop="format"),
    project("format: {type: python, function: 'decode:orders', schema: 'id int', timeout_s: 0.5}", drop="format"),
    project("format: {type: python, function: orders, schema: {type: struct}, arrow: true}", drop="format"),
    project("format: {type: jvm, class: a.B$C, jars: [a.jar], config: {b: 1}, schema: 'id int'}", drop="format"),
    project("format: {type: protobuf, descriptor: shop.desc, message: shop.Order}", drop="format"),
    project("format: {type: protobuf, message: a.B, framing: confluent, subject: s, version: 1}", drop="format"),
    project("sink: append"),
    project("sink: {type: append}"),
    project("table: {name: x.y, partition_by: [a, {day: date(b)}], properties: {delta.x: true}}", drop="table"),
    project("metadata_columns: [kafka_offset, kafka_headers]"),
    project("metadata_columns: {kafka_offset: position, kafka_key: }"),
    project("expectations: [{name: a, condition: b > 0, action: dead_letter}, {name: c, condition: d}]"),
    project("trigger: {every: 30 seconds, max_offsets: 5, min_offsets: 1, max_delay: 1 m}"),
    project("places: {table: '{lake}/{topic}'}", "key_format: text", "null_values: keep", "previously: old"),
    project("maintenance: {optimize: daily, vacuum: {every: 6 hours, retain: 30 days}, after_run: true}"),
    project("maintenance: after_run"),
    project("maintenance: {optimize: {every: weekly, zorder: [amount]}}"),
    "lake: ./lake\nmaintenance: {optimize: daily}\n",
    "lake: ./lake\nkafka: {options: {security.protocol: SSL, max.poll.records: 5, check.crcs: true}}\n",
    "lake: ./lake\nschema_registry: {url: 'http://a:1', username: b, password: c, timeout_s: 2.5, max_bytes: 9}\n",
    project("trigger: {every: '${EVERY:-5 s}', max_offsets: '${MAX:-100}'}"),
    project("on_data_loss: ${ON_LOSS:-record}", "null_values: '${NULLS:-keep}'"),
    project("starting_offsets: {orders: {0: '${FIRST:-5}'}}"),
    project("format: '${FORMAT:-raw}'", drop="format"),
    project("table: {name: 'a.b_${STAGE:-dev}', comment: '${WHY:-}'}", drop="table"),
    "lake: ./lake\nspark: {master: 'local[2]', driver_memory: 2g, conf: {a: 1.5, b: false}}\n",
]
REFUSED = [
    "name: shop\n",
    "lake: 5\n",
    "lake: ./lake\nkafak: {}\n",
    project("topic: orders"),
    project(drop="topics"),
    project(drop="format"),
    project(drop="table"),
    project("topic_pattern: orders-.*"),
    project("source: {table: bronze.raw}"),
    project("source: bronze.raw", drop="topics"),
    project("format: jsn", drop="format"),
    project("format: json", drop="format"),
    project("format: {type: json, schema: a int, mode: x}", drop="format"),
    project("format: {type: json, schema: day date, date_format: ''}", drop="format"),
    project("sink: history"),
    project("format: {type: debezium, schema: a int, connector: mongo}", drop="format"),
    project("format: maxwell", drop="format"),
    project("format: avro", drop="format"),
    project("format: csv", drop="format"),
    project("format: {type: regex, schema: a int}", drop="format"),
    project("format: {type: regex, schema: a int, pattern: '(?<a>.*)', max_reads: 5}", drop="format"),
    project("format: {type: csv, schema: a int, quote: 5}", drop="format"),
    project("format: {type: key_value, schema: a int, pair_separator: ''}", drop="format"),
    project("format: {type: protobuf, descriptor: shop.desc}", drop="format"),
    project("format: {type: jvm, schema: 'id int'}", drop="format"),
    project("format: {type: python, schema: 'id int'}", drop="format"),
    project("format: {type: python, function: 'decode:orders', schema: 'id int', timeout_s: 0}", drop="format"),
    project("format: {type: avro, schema: a.avsc, framing: kafka}", drop="format"),
    project("starting_offsets: earlyest"),
    project("starting_offsets: {orders: {zero: 1}}"),
    project("metadata_columns: [kafka_ofset]"),
    project("expectations: [{name: a, condition: b, action: dorp}]"),
    project("trigger: {max_offsets: many}"),
    project("key_format: utf8"),
    project("maintenance: {optimize: {evry: daily}}"),
    project("maintenance: nightly"),
    "lake: ./lake\nflows:\n  my orders:\n" + FLOW,
]


@pytest.fixture(scope="module")
def validator():
    schema = project_schema()
    Draft202012Validator.check_schema(schema)
    return Draft202012Validator(schema)


def value_of(text: str) -> object:
    # JSON has no keys but texts.
    return json.loads(json.dumps(yaml_source.read(text, "rivermouth.yml").value))


@pytest.mark.parametrize("text", ACCEPTED)
def test_what_the_nouns_accept_the_schema_accepts(validator, text):
    spec, problems = validate_document(
        resolved(yaml_source.read(text, "rivermouth.yml"), "rivermouth.yml", {}), "rivermouth.yml"
    )

    assert [str(problem) for problem in problems] == []
    assert spec is not None
    assert [error.message for error in validator.iter_errors(value_of(text))] == []


@pytest.mark.parametrize("text", REFUSED)
def test_what_the_nouns_refuse_the_schema_refuses(validator, text):
    _, problems = validate_document(yaml_source.read(text, "rivermouth.yml"), "rivermouth.yml")

    assert problems != []
    assert not validator.is_valid(value_of(text))


def test_the_starter_is_a_project_that_both_accept(validator):
    loaded = Project.load(STARTER, {})

    validate_static(loaded)
    assert sorted(loaded.spec.flows) == ["orders", "orders_raw"]
    assert validator.is_valid(value_of(STARTER.read_text(encoding="utf-8")))


def test_every_kind_stands_in_the_schema_and_every_field_is_explained():
    schema = project_schema()
    flow = schema["$defs"]["Flow"]["properties"]
    formats = {
        definition["properties"]["type"]["const"]
        for definition in schema["$defs"].values()
        if "const" in definition.get("properties", {}).get("type", {})
    }

    assert formats >= {*kind_names("formats"), *kind_names("sinks")}
    assert schema["$defs"]["Expectation"]["properties"]["action"]["anyOf"][0]["enum"] == kind_names("actions")
    assert [name for name, field in flow.items() if not field.get("description")] == []
    assert [name for name, field in schema["properties"].items() if not field.get("description")] == []
