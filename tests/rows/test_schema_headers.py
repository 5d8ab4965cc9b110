"""Ids of schemas in headers, record by record: which one counts, and what is said of those that name none."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import pytest
from confluent_kafka.schema_registry.serde import SchemaId
from pyspark.sql import functions as F
from tests.ports.schema_registry import SchemaRegistry, guid_of
from tests.rows.avro_writers import record
from tests.rows.formats import frame, outcome
from tests.rows.protobuf_files import descriptor_set
from tests.rows.protobuf_writers import told

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.formats.avro import Avro
from rivermouth.formats.protobuf import Protobuf

VALUE, KEY = "__value_schema_id", "__key_schema_id"
DATA = Path(__file__).parents[1] / "data/reports/17"
R = json.loads((DATA / "c17.avsc").read_text())
NONE = "the value does not begin with a zero and the id of a schema, and no header {} has one"
NEITHER = "the header {} has neither the id of a schema nor its GUID"
UNKNOWN = "the schema registry has no Avro schema with the GUID {} of the header {}"


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as running:
        yield running


def guid(number, **more):
    return SchemaId("PROTOBUF" if more else "AVRO", guid=guid_of(number), **more).guid_to_bytes()


def framed(number, body):
    return struct.pack(">bI", 0, number) + body


def rows_of(spark, records):
    """Envelope rows of (headers, value)."""
    headers = spark.createDataFrame(
        [(place, [tuple(each) for each in found]) for place, (found, _) in enumerate(records)],
        "place bigint, headers array<struct<key:string,value:binary>>",
    )
    rows = frame(spark, [value for _, value in records])
    return (
        rows.join(headers, rows[names.OFFSET] == headers["place"])
        .withColumn(names.HEADERS, F.col("headers"))
        .drop("headers", "place")
    )


def made(form, rows):
    decoded = form.decode(rows)
    found = form.explain(decoded).selectExpr(
        names.OFFSET, f"IF({names.DECODED}, {names.DATA}, NULL).id", names.REASON, names.MESSAGE
    )
    return [tuple(row)[1:] for row in sorted(found.collect())]


def test_the_header_counts_where_it_is_there(spark, registry):
    mine = registry.register("c17-value", R)
    other = registry.register("other", record(("x", "string"), ("id", "long"), name="R"))
    known, absent = guid(mine), SchemaId("AVRO", guid=guid_of(9999)).guid_to_bytes()

    def records(header, foreign):
        return [
            ([(header, known)], b"\2"),
            ([(header, known)], b"\0"),
            ([], framed(mine, b"\6")),
            ([(header, struct.pack(">bI", 0, mine))], b"\x08"),
            ([(header, known), ("x", b"y"), (header, guid(other))], b"\2a\x0a"),
            # As a prefix it would name a schema of the registry.
            ([(header, known)], framed(mine, b"\6")),
            ([(foreign, known)], b"\2"),
            ([(header, absent)], b"\2"),
            ([(header, b"\1abc")], b"\2"),
            ([(header, None)], framed(mine, b"\6")),
            ([(header, known)], None),
        ]

    def expected(header):
        return [
            *((number, None, None) for number in (1, 0, 3, 4, 5)),
            (None, "TRAILING_BYTES", "bytes follow the record"),
            (None, "WRONG_MAGIC", NONE.format(header)),
            (None, "UNKNOWN_SCHEMA", UNKNOWN.format(guid_of(9999), header)),
            (None, "WRONG_MAGIC", NEITHER.format(header)),
            (3, None, None),
            (None, None, None),
        ]

    settings = {"type": "avro", "framing": "confluent", "schema": R}
    form = Avro.model_validate(settings).with_registry(RegistryAccess(url=registry.url))
    assert form.reads_headers
    assert made(form, rows_of(spark, records(VALUE, KEY))) == expected(VALUE)
    rows = rows_of(spark, records(KEY, VALUE)).withColumns({names.KEY: F.col(names.VALUE), names.DECODED: F.lit(True)})
    keys = form.for_keys()
    found = record_keys.explain(record_keys.decode(rows, keys), keys)
    told = found.selectExpr(names.OFFSET, f"{names.KEY_DATA}.id", "__key_reason", "__key_message").collect()
    assert [tuple(row)[1:] for row in sorted(told)] == expected(KEY)


@pytest.mark.parametrize(
    "instead", [{"error_code": 404, "message": "HTTP 404 Not Found"}, b"404: Not Found"], ids=["jersey", "text"]
)
def test_a_guid_refuses_its_record_where_the_registry_knows_none(spark, instead):
    with SchemaRegistry() as older:
        older.instead_of_guids = instead
        number = older.register("c17-value", R)
        form = Avro.model_validate({"type": "avro", "framing": "confluent", "schema": R})
        form = form.with_registry(RegistryAccess(url=older.url, timeout_s=2.0))
        rows = rows_of(spark, [([(VALUE, guid(number))], b"\2"), ([], framed(number, b"\6"))])
        none = f"{UNKNOWN.format(guid_of(number), VALUE)} that can be used: it knows no GUIDs"
        assert made(form, rows) == [(None, "UNKNOWN_SCHEMA", none), (3, None, None)]
        # Where other paths are not those of a registry either, no record is at fault.
        older.order("another_404")
        rows = rows_of(spark, [([(VALUE, guid(number + 1))], b"\2")])
        with pytest.raises(Exception, match=r"it answers 404 to the schema of .*, and not as a schema registry"):
            made(form, rows)


def test_messages_of_protobuf_have_their_place_in_the_header(spark, registry, tmp_path):
    content = descriptor_set({"M": ["int32 x = 1"], "N": ["int32 id = 1"]})
    (tmp_path / "n.desc").write_bytes(content)
    subject = registry.register("n-value", told(content), kind="PROTOBUF")
    records = [
        ([(VALUE, guid(subject, message_indexes=[1]))], b"\x08\5"),
        ([(VALUE, guid(subject, message_indexes=[0]))], b"\x08\5"),
        ([], framed(subject, b"\2\2\x08\5")),
        ([(VALUE, struct.pack(">bI", 0, subject) + b"\2\2")], b"\x08\5"),
        ([(VALUE, guid(subject))], b"\x08\5"),
        ([], b"\x08\5"),
    ]
    settings = {"type": "protobuf", "message": "shop.N", "framing": "confluent"}
    magic = "the value does not begin with a zero, the id of a schema and the place of a message"
    other = "the value is another message of its file than shop.N"
    form = Protobuf.model_validate(settings | {"descriptor": str(tmp_path / "n.desc")})
    assert made(form, rows_of(spark, records)) == [
        (5, None, None),
        (None, "SCHEMA_MISMATCH", other),
        (5, None, None),
        (5, None, None),
        (None, "WRONG_MAGIC", magic),
        (None, "WRONG_MAGIC", magic),
    ]


def test_a_framed_value_is_no_plain_record(spark):
    form = Avro.model_validate({"type": "avro", "schema": R})
    assert not form.reads_headers
    found = outcome(spark, form, framed(20, b"\6"))
    looks = "it looks like a record behind a zero and the id of a schema, as framing: confluent reads it"
    assert (found.reason, found.message) == ("TRAILING_BYTES", f"bytes follow the record; {looks}")
    assert outcome(spark, form, b"\0" * 6).message.startswith("bytes follow the record; it looks like")
    assert outcome(spark, form, b"\0" * 7).message == "bytes follow the record"
    assert outcome(spark, form, b"\0").data == {"id": 0}
