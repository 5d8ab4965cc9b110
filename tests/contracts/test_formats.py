"""What every format promises, whatever it decodes. A new format adds a line to EXAMPLES."""

from pathlib import Path

import pytest
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, StructField, StructType

from rivermouth import names
from rivermouth.extend import find_kind, kind_names
from rivermouth.rows import envelope
from rivermouth.spec import ChangeEnvelope

DATA = Path(__file__).resolve().parents[1] / "data"
# Kind: what the YAML says, values that it decodes, values that it refuses.
EXAMPLES = {
    "raw": ({}, [b"", b"\xff\x00", b"text"], []),
    "text": ({}, [b"", b"text", "größer ✓".encode()], [b"\xff\xfe", b"a\xc3"]),
    "long": ({}, [bytes(8), b"\xff" * 8, b"\x80" + bytes(7)], [b"", bytes(4), bytes(9)]),
    "int": ({}, [bytes(4), b"\xff" * 4, b"\x80" + bytes(3)], [b"", bytes(8), b"5"]),
    "json": (
        {"schema": "id bigint, name string"},
        [b'{"id": 1, "name": "a"}', b'{"id": null}', b'{"id": 2, "more": [1]}'],
        [
            b"{}",
            b'{"more": [1]}',
            b"",
            b"{",
            b"[]",
            b"1",
            b'{"id": "x"}',
            b'{"id": 1} {"id": 2}',
            b"{'id': 1}",
            b'{"name": "\xff"}',
        ],
    ),
    "csv": (
        {"schema": "id bigint, name string"},
        [b"1,a", b'"1","a,""b""\nc"', b",", b"2,\r\n"],
        [b"", b"x,a", b"1", b"1,a,b", b'1,"a', b'1,"a"b', b"1,a\n2,b", b"1,\xff", b"1.5,a"],
    ),
    "regex": (
        {"pattern": "(?<id>[^ ]*) ?(?<name>.*)?", "schema": "id bigint NOT NULL, name string"},
        [b"1 a", b"1", b"-7 \xe2\x9c\x93"],
        [b"", b"x a", b"1 a\n", b"1 \xff", b"1.5"],
    ),
    "key_value": (
        {"schema": "id bigint, name string"},
        [b"id=1 name=a", b'name="two words" more=x', b"id= x=\n"],
        [b"", b"id", b"id=x", b"id=1 id=2", b'name="a', b'name="a"b', b"=1", b"id=1\nid=2", b"name=\xff"],
    ),
    "avro": (
        {
            "schema": {
                "type": "record",
                "name": "r",
                "fields": [{"name": "id", "type": ["null", "long"]}, {"name": "name", "type": "string"}],
            }
        },
        [b"\x00\x00", b"\x02\x02\x02a"],
        [b"", b"\x00", b"\x04\x00", b"\x00\x02\xff", b"\x00\x00\x00", b"\x00\x01", b"\x02" + b"\xff" * 11],
    ),
    "python": (
        {"function": "json:loads", "schema": "id bigint, name string"},
        [b'{"id": 1, "name": "a"}', b'{"name": null, "id": null}', b"null"],
        [b"", b"{", b"[]", b"1", b'{"id": 1}', b'{"id": "x", "name": ""}', b'{"id": 1, "name": "", "more": "x"}'],
    ),
    "jvm": (
        {"class": "org.apache.kafka.common.serialization.LongDeserializer", "schema": "id bigint"},
        [bytes(8), b"\xff" * 8],
        [b"", b"\x01", bytes(9)],
    ),
    "msgpack": (
        {"schema": "id bigint, name string"},
        [b"\x82\xa2id\x01\xa4name\xa1a", b"\x82\xa2id\xc0\x01\x02"],
        [
            b"",
            b"\x01",
            b"\x80",
            b"\x81\xa2id",
            b"\x80\x80",
            b"\x81\xa2id\xa11",
            b"\x81\xa4name\xa1\xff",
            b"\xc1",
            b"\xdf" + b"\xff" * 9,
        ],
    ),
    "xml": (
        {"schema": "id bigint, name string"},
        [
            b"<o><id>1</id><name>a</name></o>",
            b"<?xml version='1.0'?>\n<o id='x'><more/><id> 2 </id></o><!-- -->",
        ],
        [
            b"",
            b"1",
            b"<o>",
            b"<o/>",
            b"<o/><o/>",
            b"<o><id/></o>",
            b"<o><id>x</id></o>",
            b"<o><name>\xff</name></o>",
            b"<!DOCTYPE o><o/>",
        ],
    ),
    "protobuf": (
        {"descriptor": str(DATA / "protobuf/pair.desc"), "message": "shop.Pair"},
        [b"", b"\x08\x01", b"\x08\x01\x12\x01a", b"\x12\x00\x18\x07"],
        [b"\x08", b"\x12\x02a", b"\x12\x01\xff", b"\x0a\x01x", b"\x00", b"\x08" + b"\xff" * 11],
    ),
    "debezium": (
        {"schema": "id bigint, name string, price decimal(9,2)"},
        [
            b'{"op": "c", "after": {"id": 1}}',
            b'{"schema": null, "payload": {"op": "d", "before": {"id": 1}, "after": null}}',
            b'{"op": "t"}',
            b'{"ts_ms": 1}',
        ],
        [
            *(b"", b"{", b"{}", b'{"op": "q"}', b'{"op": "c"}', b'{"op": "c", "after": {"id": "x"}}'),
            *(b'{"op": "c", "after": {"price": "AN3h"}}', b'{"op": "c", "after": {"price": {"a": 1}}}'),
            b'{"op": "c", "after": {"name": "__debezium_unavailable_value"}}',
        ],
    ),
    "connect_json": (
        {"schema": "id bigint, name string, price decimal(9,2)"},
        [b'{"schema": {}, "payload": {"id": 1}}', b' {"payload": {"name": null}, "schema": null}'],
        [
            *(b"", b"{", b"{}", b'{"id": 1}', b'{"schema": {}, "payload": null}', b'{"schema": {}, "payload": {}}'),
            *(b'{"schema": {}, "payload": {"id": "x"}}', b'{"schema": {}, "payload": {"price": "AN3h"}}'),
        ],
    ),
    "canal": (
        {"schema": "id bigint, name string"},
        [b'{"type": "INSERT", "data": [{"id": "1"}]}', b'{"type": "CREATE", "isDdl": true}'],
        [b"", b"[]", b"{}", b'{"type": "INSERT", "data": []}', b'{"type": "INSERT", "data": [{"id": "x"}]}'],
    ),
    "maxwell": (
        {"schema": "id bigint, name string"},
        [b'{"type": "insert", "data": {"id": 1}}', b'{"type": "table-create"}'],
        [b"", b"{}", b'{"type": "delete-all"}', b'{"type": "insert", "data": {"id": "x"}}'],
    ),
    "ogg": (
        {"schema": "id bigint, name string"},
        [b'{"op_type": "U", "before": {"id": "1"}, "after": {"id": 2}}', b'{"op_type": "T"}'],
        [
            *(b"", b"{}", b'{"op_type": "I"}', b'{"op_type": "I", "after": {"id": "x"}}'),
            *(b'{"op_type": "I", "after": {"id": {"a": 1}}}', b'{"op_type": "I", "after": {"id": [1]}}'),
        ],
    ),
}
CHANGES = {names.OPERATION, names.SOURCE_TIMESTAMP, names.SOURCE_POSITION, names.PRIMARY_KEY, names.MISFIT}
SPLITS = {names.OLD, names.OLD_PRIMARY_KEY, names.ORDINAL}


def frame(spark, values):
    """Envelope rows of these values, with offsets in their order."""
    schema = StructType([StructField("value", BinaryType())])
    columns = {
        "topic": F.lit("t"),
        "partition": F.lit(0),
        "offset": F.monotonically_increasing_id(),
        "timestamp": F.current_timestamp(),
        "timestampType": F.lit(0),
        "key": F.lit(None).cast("binary"),
    }
    source = spark.createDataFrame([(value,) for value in values], schema).coalesce(1).withColumns(columns)
    return envelope.read(source)


def test_every_format_has_examples():
    assert sorted(EXAMPLES) == kind_names("formats")


@pytest.fixture(params=sorted(EXAMPLES))
def case(request):
    """A format with its examples."""
    settings, good, bad = EXAMPLES[request.param]
    kind = find_kind("formats", request.param)
    return kind.model_validate({"type": request.param, **settings}), good, bad


@pytest.fixture(scope="module")
def kept():
    """By format the columns before and after, and the rows, of what tests have decoded."""
    return {}


@pytest.fixture
def decoded(spark, case, kept):
    """What becomes of all values of a format, in one job for the tests that ask for it."""
    form, good, bad = case
    if form.type not in kept:
        rows = frame(spark, [*good, None, *bad]).withColumn("mine", F.lit("kept"))
        made, told = form.decode(rows), form.undeclared_names() or "CAST(NULL AS array<string>)"
        found = made.select(names.VALUE, names.DECODED, names.DATA, "mine", F.expr(told).alias("told"))
        assert found.schema["told"].dataType.simpleString() == "array<string>"
        kept[form.type] = rows.columns, made.columns, found.collect()
    return kept[form.type]


def test_decode_keeps_every_row_and_column_and_says_what_it_refused(case, decoded):
    form, good, bad = case
    before, after, found = decoded
    told = {*form.further_columns}
    if isinstance(form, ChangeEnvelope):
        told |= CHANGES | (SPLITS if form.splits else {names.MOVED})
    assert {*before} | {names.DATA, names.DECODED} | told == {*after}
    assert [row[0] if row[0] is None else bytes(row[0]) for row in found] == [*good, None, *bad]
    assert [row[1] for row in found] == [True] * (len(good) + 1) + [False] * len(bad)
    assert None not in [row[2] for row in found]
    assert set(found[len(good)][2]) == {None}
    assert {row[3] for row in found} == {"kept"}
    assert form.accepts_all == (not bad)


def test_decode_yields_exactly_the_declared_columns(spark, case):
    form, good, _ = case
    columns = form.columns(spark)
    decoded = form.decode(frame(spark, good))
    assert decoded.schema[names.DATA].dataType.fieldNames() == columns.fieldNames()
    found = {field.name: field.dataType for field in decoded.schema[names.DATA].dataType}
    assert found == {field.name: field.dataType for field in columns}


def test_explain_gives_each_refused_row_a_reason_without_its_contents(spark, case):
    form, _, bad = case
    if not bad:
        assert form.type == "raw"
        return
    explained = form.explain(form.decode(frame(spark, bad)).where(~F.col(names.DECODED)))
    found = explained.select(names.REASON, names.FIELD, names.MESSAGE).collect()
    assert len(found) == len(bad)
    for reason, _field, message in found:
        assert reason
        assert reason == reason.upper()
        assert message
        assert "'x'" not in message


def test_fields_that_no_column_has_are_named_for_each_value(case, decoded):
    form, *_ = case
    if form.undeclared_names() is not None:
        *_, found = decoded
        # Some changes have no row.
        named = {row.told is not None for row in found if row[names.DECODED] and row[names.VALUE] is not None}
        assert named == {True} or isinstance(form, ChangeEnvelope)
        assert [row.told for row in found if not row[names.DECODED] and row.told is not None] == []
