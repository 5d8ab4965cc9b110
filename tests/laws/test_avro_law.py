"""Whatever fastavro reads, by whatever schema it was written, is what the columns hold; what it refuses is refused."""

from __future__ import annotations

import datetime as dt
import decimal
import io
import uuid

import fastavro
import pytest
from fastavro.schema import fingerprint, to_parsing_canonical_form
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql.types import BinaryType, StructField, StructType

from rivermouth import names
from rivermouth.formats.avro import Avro

INTS = st.integers(-(2**31), 2**31 - 1)
LONGS = st.integers(-(2**63), 2**63 - 1)
# What a double holds exactly.
WHOLE = st.integers(-(2**53), 2**53)
FLOATS = st.floats(width=32, allow_nan=False)
DOUBLES = st.floats(allow_nan=False)
TEXTS = st.text(st.characters(codec="utf-8"), max_size=8)
BYTES = st.binary(max_size=8)
SYMBOLS = ("A", "B", "C", "D")
INSTANTS = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30), timezones=st.just(dt.UTC))
DECIMALS = st.integers(-(10**9) + 1, 10**9 - 1).map(lambda unscaled: decimal.Decimal(unscaled).scaleb(-3))


def in_millis(instant):
    return instant.replace(microsecond=instant.microsecond // 1000 * 1000)


def leaf(kind, values, logical=None, **more):
    return (
        {"type": kind, **({"logicalType": logical} if logical else {}), **more} if logical or more else kind,
        values,
    )


@st.composite
def kinds(draw, name, depth=2):
    """A type and the values that it has."""
    simple = [
        leaf("boolean", st.booleans()),
        leaf("int", INTS),
        leaf("long", LONGS),
        leaf("float", FLOATS),
        leaf("double", DOUBLES),
        leaf("string", TEXTS),
        leaf("bytes", BYTES),
        leaf("int", st.dates(), "date"),
        leaf("long", INSTANTS.map(in_millis), "timestamp-millis"),
        leaf("long", INSTANTS, "timestamp-micros"),
        leaf("long", INSTANTS.map(lambda at: at.replace(tzinfo=None)), "local-timestamp-micros"),
        leaf("bytes", DECIMALS, "decimal", precision=9, scale=3),
        leaf("fixed", DECIMALS, "decimal", precision=9, scale=3, name=f"{name}_d", size=6),
        leaf("string", st.uuids(), "uuid"),
        leaf("fixed", st.binary(min_size=3, max_size=3), name=f"{name}_f", size=3),
        leaf("enum", st.sampled_from(SYMBOLS), name=f"{name}_e", symbols=list(SYMBOLS)),
        (["null", "string", "long", "boolean"], st.none() | TEXTS | LONGS | st.booleans()),
        (["int", "null", "long"], st.none() | LONGS),
    ]
    choice = draw(st.integers(0, len(simple) + 3 * (depth > 0)))
    if choice < len(simple):
        return simple[choice]
    if choice == len(simple):
        kind, values = draw(kinds(f"{name}n", 0).filter(lambda found: not isinstance(found[0], list)))
        return ["null", kind], st.none() | values
    kind, values = draw(kinds(f"{name}i", depth - 1))
    if choice == len(simple) + 1:
        return {"type": "array", "items": kind}, st.lists(values, max_size=3)
    if choice == len(simple) + 2:
        return {"type": "map", "values": kind}, st.dictionaries(TEXTS, values, max_size=3)
    record = {"type": "record", "name": f"{name}_r", "fields": [{"name": "x", "type": kind}]}
    return record, st.fixed_dictionaries({"x": values})


@st.composite
def scenes(draw):
    """A schema of the table, that of an older writer, and records of both."""
    fields = [(f"f{number}", *draw(kinds(f"f{number}"))) for number in range(draw(st.integers(1, 12)))]
    added = {"name": "added", "type": {"type": "array", "items": "int"}, "default": [1, 2]}
    promoted = {"name": "promoted", "type": draw(st.sampled_from(["long", "double", ["null", "long"]]))}
    reader = [{"name": name, "type": kind} for name, kind, _ in fields]
    older = {
        "type": "record",
        "name": "R",
        "fields": [
            {"name": "gone", "type": ["null", {"type": "map", "values": "string"}]},
            *reversed(reader),
            {"name": "promoted", "type": "int"},
        ],
    }
    newer = {"type": "record", "name": "R", "fields": [*reader, added, promoted]}
    values = st.fixed_dictionaries({name: value for name, _, value in fields})
    gone = st.none() | st.dictionaries(TEXTS, TEXTS, max_size=2)
    olds = st.builds(lambda own, gone, number: {**own, "gone": gone, "promoted": number}, values, gone, INTS)
    lists = st.lists(INTS, max_size=2)
    news = st.builds(lambda own, added, number: {**own, "added": added, "promoted": number}, values, lists, WHOLE)
    records = st.lists(olds.map(lambda r: (older, r)) | news.map(lambda r: (newer, r)), min_size=1, max_size=12)
    wounds = st.lists(st.tuples(st.sampled_from(["cut", "longer", "flipped"]), st.integers(0, 2**16)), max_size=12)
    return newer, older, draw(records), draw(wounds)


def parsed(schema):
    return fastavro.parse_schema(schema, {}, _force=True)


def single_object(schema, record):
    content = io.BytesIO()
    fastavro.schemaless_writer(content, parsed(schema), record)
    mark = bytes.fromhex(fingerprint(to_parsing_canonical_form(schema), "CRC-64-AVRO"))
    return b"\xc3\x01" + mark + content.getvalue()


def wounded(value, wound):
    """Bytes that are cut off, added or turned, behind the header."""
    kind, number = wound
    body = len(value) - 10
    if kind == "longer" or not body:
        return value + bytes([number % 256])
    place = 10 + number % body
    if kind == "cut":
        return value[:place]
    return value[:place] + bytes([value[place] ^ (1 << number % 8)]) + value[place + 1 :]


def read(value, writer, reader):
    """What fastavro reads; None where it refuses."""
    content = io.BytesIO(value[10:])
    try:
        found = fastavro.schemaless_reader(content, parsed(writer), parsed(reader))
    except Exception:  # noqa: BLE001 - whatever it raises, it refuses
        return None
    return found if content.tell() == len(value) - 10 else None


def column(kind, value):
    """What a table holds of what fastavro reads."""
    if value is None:
        return None
    if isinstance(kind, list):
        branches = [each for each in kind if each != "null"]
        if len(branches) == 1:
            return column(branches[0], value)
        if branches == ["int", "long"]:
            return value
        types = {"string": str, "long": int, "boolean": bool}
        return tuple(value if type(value) is types[each] else None for each in branches)
    match kind["type"] if isinstance(kind, dict) else kind:
        case "array":
            return [column(kind["items"], each) for each in value]
        case "map":
            return {key: column(kind["values"], each) for key, each in value.items()}
        case "record":
            return tuple(column(each["type"], value[each["name"]]) for each in kind["fields"])
        case "double":
            return float(value)
    if isinstance(value, uuid.UUID):
        return str(value)
    return value.replace(tzinfo=None) if isinstance(value, dt.datetime) else value


def plain(value):
    """What Spark hands over, without its own classes."""
    if isinstance(value, bytearray):
        return bytes(value)
    if isinstance(value, tuple):
        return tuple(plain(each) for each in value)
    if isinstance(value, dict):
        return {key: plain(each) for key, each in value.items()}
    return [plain(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def interpreted(spark):
    """A session that compiles nothing: each example has other columns."""
    session = spark.newSession()
    session.conf.set("spark.sql.codegen.wholeStage", "false")
    session.conf.set("spark.sql.codegen.factoryMode", "NO_CODEGEN")
    session.conf.set("spark.sql.session.timeZone", "UTC")
    return session


def decoded(spark, form, values):
    frame = spark.createDataFrame(
        [(place, value) for place, value in enumerate(values)],
        StructType.fromDDL("place int").add(StructField(names.VALUE, BinaryType())),
    )
    found = form.decode(frame.coalesce(1)).orderBy("place").select(names.DECODED, names.DATA).collect()
    return [plain(row[1]) if row[0] else None for row in found]


@settings(max_examples=12)
@given(scenes())
def test_columns_hold_what_fastavro_reads(interpreted, scene):
    newer, older, records, wounds = scene
    form = Avro.model_validate({"type": "avro", "schema": newer, "framing": "single_object", "writer_schemas": [older]})
    good = [(schema, single_object(schema, record)) for schema, record in records]
    bad = [(schema, wounded(value, wound)) for (schema, value), wound in zip(good * len(wounds), wounds, strict=False)]
    found = decoded(interpreted, form, [value for _, value in good + bad])
    for (schema, value), row in zip(good, found[: len(good)], strict=True):
        assert row == column(newer, read(value, schema, newer))
    for (schema, value), row in zip(bad, found[len(good) :], strict=True):
        expected = read(value, schema, newer)
        # What is no Avro at all fastavro takes here and there: a boolean of 2, an int of 40 bits.
        assert row is None or row == column(newer, expected)
