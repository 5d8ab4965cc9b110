"""Whether a value fits a column's type has one answer: in Python, in Spark's JVM, and in each format."""

from __future__ import annotations

import datetime as dt
import io
import json
import math
import pickle
import re
import struct
from decimal import Context, Decimal
from functools import reduce

import fastavro
import msgpack
import pytest
from pyspark.sql import DataFrame
from pyspark.sql import types as T
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.decoding.json.undeclared_fields import numbers_tree
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.extend import find_kind
from rivermouth.schemas import type_limits
from rivermouth.spec import Evolution

SCHEMA = (
    "t tinyint, s smallint, i int, l bigint, f float, d double, p decimal(5,2), q decimal(38,0), r decimal(38,18), "
    "day date, at timestamp, local timestamp_ntz, b binary"
)
COLUMNS = [part.split()[0] for part in re.sub(r"\([^)]*\)", "", SCHEMA).split(",")]
WHOLE = {"t": 7, "s": 15, "i": 31, "l": 63}
REAL = ("f", "d")
TIMES = ("day", "at", "local")
IN_STRINGS = (*TIMES, "b")

# Column, text of a value, whether the column holds it.
CASES = [
    *((name, str(number), True) for name, bits in WHOLE.items() for number in (-(2**bits), 0, 2**bits - 1)),
    *((name, str(number), False) for name, bits in WHOLE.items() for number in (-(2**bits) - 1, 2**bits, 10**30)),
    ("p", "999.99", True),
    ("p", "-999.99", True),
    ("p", "1000", False),
    ("p", "999.991", False),
    ("p", "9.999", False),
    ("p", "0.000", True),
    ("p", "1.2300", True),
    ("p", "0.001", False),
    ("q", "9" * 38, True),
    ("q", "-" + "9" * 38, True),
    ("q", "9" * 39, False),
    ("q", "1" + "0" * 38, False),
    ("q", "0.5", False),
    ("r", "9" * 20 + "." + "9" * 18, True),
    ("r", "1" + "0" * 20, False),
    ("r", "0." + "0" * 17 + "1", True),
    ("r", "0." + "0" * 18 + "1", False),
    ("f", "3.4028235e38", True),
    ("f", "-3.4028235e38", True),
    ("f", "3.4028236e38", False),
    ("f", "1e39", False),
    ("d", "1.7976931348623157e308", True),
    ("d", "1e309", False),
    ("d", "-1e309", False),
    ("day", "0001-01-01", True),
    ("day", "9999-12-31", True),
    ("day", "0000-12-31", False),
    ("day", "2023-02-29", False),
    ("day", "1500-02-28", True),
    ("day", "1500-02-29", False),
    ("at", "0001-01-01T00:00:00Z", True),
    ("at", "9999-12-31T23:59:59.999999Z", True),
    ("at", "0001-01-01T00:00:00+00:01", False),
    ("at", "9999-12-31T23:59:59-00:01", False),
    ("at", "0000-12-31T23:59:59Z", False),
    ("at", "2026-01-31T24:00:00Z", False),
    ("at", "2026-01-31T10:00:60Z", False),
    ("at", "2026-01-31T10:00:00+18:00", True),
    ("at", "2026-01-31T10:00:00+18:01", False),
    ("local", "0001-01-01T00:00:00", True),
    ("local", "9999-12-31T23:59:59.999999", True),
    ("local", "0000-12-31T23:59:59", False),
    ("local", "2026-01-31T10:00:00Z", False),
    ("b", "QUI=", True),
    ("b", "QUI", False),
    ("b", "Q UI=", False),
    ("b", "QU-=", False),
]
# A number, and whether a float is it to its last digit.
FLOATS = [(16_777_216.0, True), (16_777_217.0, False), (0.1, False), (0.5, True), (1e39, False), (1e-50, False)]
FLOATS += [(math.nan, True), (math.inf, True), (-math.inf, True)]
TEXTS = [("", True), ("ä\U0001f600", True), ("\ud83d", False), ("a\ude00b", False)]


def python_holds(kind, text):
    match kind:
        case T.DecimalType():
            return type_limits.as_decimal(Decimal(text), kind) is not None
        case T.FloatType():
            return type_limits.is_in_float_range(float(text))
        case T.DoubleType():
            return math.isfinite(float(text))
    return type_limits.is_whole(int(text), type(kind))


def java_holds(jvm, kind, text):
    limits = jvm.rivermouth.types.Limits
    match kind:
        case T.DecimalType():
            number = jvm.java.math.BigDecimal(text)
            made = limits.decimal(number, kind.precision, kind.scale)
            assert (made is not None) is limits.isDecimal(number, kind.precision, kind.scale)
            assert made is None or Decimal(made.toString()) == Decimal(text)
            return made is not None
        case T.FloatType():
            return limits.isInFloatRange(float(text))
        case T.DoubleType():
            return math.isfinite(float(text))
    # Longer ones are refused before, by the number of their bits.
    declared = getattr(jvm.org.apache.spark.sql.types.DataTypes, f"{type(kind).__name__}")
    return -(1 << 63) <= int(text) < 1 << 63 and limits.isWhole(int(text), limits.greatest(declared))


def test_python_and_the_jvm_have_the_same_rules(spark):
    jvm, kinds = spark._jvm, T.StructType.fromDDL(SCHEMA)
    cases = [(kinds[name].dataType, text, fits) for name, text, fits in CASES if name not in IN_STRINGS]
    found = [(kind, text, python_holds(kind, text), java_holds(jvm, kind, text)) for kind, text, _ in cases]
    assert found == [(kind, text, fits, fits) for kind, text, fits in cases]
    limits = jvm.rivermouth.types.Limits
    for number, fits in FLOATS:
        assert (type_limits.is_float(number), limits.isFloat(number)) == (fits, fits), number
    for text, fits in TEXTS:
        assert type_limits.is_text(text) is fits
    for name in ("FIRST_DAY", "LAST_DAY", "MAX_DIGITS"):
        assert getattr(limits, name) == getattr(type_limits, name)
    assert (limits.FIRST_MICROS, limits.LAST_MICROS) == (type_limits.FIRST_US, type_limits.LAST_US)
    assert [limits.isTime(type_limits.FIRST_US + each) for each in (-1, 0)] == [False, True]
    assert [limits.isDay(type_limits.LAST_DAY + each) for each in (0, 1)] == [True, False]


def test_a_table_does_not_grow_for_a_number_that_its_column_holds(spark):
    kinds = T.StructType.fromDDL(SCHEMA)
    tree = numbers_tree(kinds, Evolution(on_type_change="widen").with_defaults(infers=False))
    undeclared = jvm_classes.made(spark, "json.Undeclared", json.dumps(tree))
    held = [(name, text) for name, text, fits in CASES if fits and name not in IN_STRINGS]
    assert [case for case in held if undeclared.needsWider(row_of(*case).encode())] == []
    for name in ("t", "s", "i", "l"):
        assert undeclared.needsWider(row_of(name, str(2 ** WHOLE[name])).encode())


# --- each format ---


def row_of(name, text):
    return f'{{"{name}":{json.dumps(text) if name in IN_STRINGS else text}}}'


def within(before, after):
    return lambda name, text: (before + row_of(name, text) + after).encode()


def by_sparks_parser(name, text):
    # Our own reader leaves documents with such a time to Spark's.
    others = "" if name == "at" else ', "at": "2026-01-31 10:00:00 Europe/Berlin"'
    return (row_of(name, text)[:-1] + others + "}").encode()


def in_extended_json(name, text):
    if name in TIMES:
        return None
    kinds = {"b": "$binary", **dict.fromkeys(WHOLE, "$numberLong"), **dict.fromkeys(REAL, "$numberDouble")}
    kind = kinds.get(name, "$numberDecimal")
    return json.dumps({"op": "c", "after": json.dumps({name: {kind: text}})}).encode()


def in_canal(name, text):
    # Its bytes are characters.
    return None if name == "b" else json.dumps({"type": "INSERT", "data": [{name: text}]}).encode()


def in_msgpack(name, text):
    if name == "b":
        return None
    value = int(text) if name in WHOLE else float(text) if name in REAL else text
    # It has no more bits, and a float is not rounded there.
    lacks = (name in WHOLE and not -(1 << 63) <= value < 1 << 64) or name == "f" or value in (math.inf, -math.inf)
    return None if lacks else msgpack.packb({name: value})


def in_python(name, text):
    if name in REAL or name == "b":
        return None
    try:
        value = python_value(name, text)
    except ValueError:
        return None
    return pickle.dumps({**dict.fromkeys(COLUMNS), name: value})


def python_value(name, text):
    if text.endswith("+18:01"):
        raise ValueError  # an offset of Python's, and none of ISO 8601's
    if name in TIMES:
        return (dt.date if name == "day" else dt.datetime).fromisoformat(text)
    return int(text) if name in WHOLE else float(text) if name in REAL else Decimal(text)


AVRO = {
    "i": "int",
    "l": "long",
    "f": "float",
    "d": "double",
    "p": {"type": "bytes", "logicalType": "decimal", "precision": 5, "scale": 2},
    "q": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 0},
    "r": {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 18},
    "day": {"type": "int", "logicalType": "date"},
    "at": {"type": "long", "logicalType": "timestamp-micros"},
    "local": {"type": "long", "logicalType": "local-timestamp-micros"},
}
BARE = {name: kind if isinstance(kind, str) else kind["type"] for name, kind in AVRO.items()}
OUTSIDE = {
    "0000-12-31": type_limits.FIRST_DAY - 1,
    "0001-01-01T00:00:00+00:01": type_limits.FIRST_US - 60_000_000,
    "9999-12-31T23:59:59-00:01": type_limits.LAST_US + 59_000_001,
    "0000-12-31T23:59:59Z": type_limits.FIRST_US - 1_000_000,
    "0000-12-31T23:59:59": type_limits.FIRST_US - 1_000_000,
}


def record(kinds):
    fields = [{"name": name, "type": ["null", kind], "default": None} for name, kind in kinds.items()]
    return {"type": "record", "name": "R", "fields": fields}


def in_avro(name, text):
    """A number without its logical type is written as it is."""
    if name not in AVRO or name in REAL or (name == "local" and text.endswith("Z")):
        return None
    try:
        value = OUTSIDE[text] if text in OUTSIDE else avro_number(name, text)
        sent = io.BytesIO()
        fastavro.schemaless_writer(sent, fastavro.parse_schema(record(BARE)), {name: value})
    except (ValueError, OverflowError, struct.error):
        return None
    return sent.getvalue()


def avro_number(name, text):
    value = python_value(name, text)
    match value:
        case Decimal():
            whole = value.scaleb(AVRO[name]["scale"], Context(prec=100))
            if whole != int(whole):
                raise ValueError
            return int(whole).to_bytes(20, "big", signed=True)
        case dt.datetime():
            return (value.replace(tzinfo=dt.UTC) - dt.datetime(1970, 1, 1, tzinfo=dt.UTC)) // dt.timedelta(
                microseconds=1
            )
        case dt.date():
            return (value - dt.date(1970, 1, 1)).days
    return value


PATTERN = "".join(f"(?:{name}<(?<{name}>[^>]*)>)?" for name in COLUMNS)
# By name: settings, and how a value is sent; None where the format has no such value.
FORMS = {
    "json": ({"type": "json"}, within("", "")),
    "json by Spark's parser": ({"type": "json"}, by_sparks_parser),
    "csv": ({"type": "csv"}, lambda name, text: ",".join(text * (name == each) for each in COLUMNS).encode()),
    "key_value": ({"type": "key_value"}, lambda name, text: f"{name}={text}".encode()),
    "regex": ({"type": "regex", "pattern": PATTERN}, lambda name, text: f"{name}<{text}>".encode()),
    "xml": ({"type": "xml"}, lambda name, text: f"<row><{name}>{text}</{name}></row>".encode()),
    "msgpack": ({"type": "msgpack"}, in_msgpack),
    "python": ({"type": "python", "function": "pickle:loads"}, in_python),
    "avro": ({"type": "avro", "schema": record(AVRO)}, in_avro),
    "debezium": ({"type": "debezium", "decimals": "string"}, within('{"op":"c","after":', "}")),
    "extended json": ({"type": "debezium", "connector": "mongodb"}, in_extended_json),
    "connect_json": ({"type": "connect_json"}, within('{"schema":{"fields":[]},"payload":', "}")),
    "canal": ({"type": "canal"}, in_canal),
    "maxwell": ({"type": "maxwell"}, within('{"type":"insert","data":', "}")),
    "ogg": ({"type": "ogg"}, within('{"op_type":"I","table":"t","after":', "}")),
}
# They tell dates of MySQL with zeros in them apart.
OF_MYSQL = {"debezium", "canal", "maxwell"}


@pytest.mark.long
def test_a_value_fits_or_not_in_whichever_format_it_comes(spark):
    frames, wanted = [], {}
    for label, (settings, sent) in FORMS.items():
        values = [sent(name, text) for name, text, _ in CASES]
        for place, (name, text, fits) in enumerate(CASES):
            if values[place] is not None:
                is_zero = label in OF_MYSQL and name in TIMES and text.startswith("0000")
                reason = "FIELD_ZERO_DATE" if is_zero else "FIELD_TYPE"
                wanted[label, name, text] = (True, None, None) if fits else (False, reason, name)
        form = find_kind("formats", settings["type"]).model_validate({"schema": SCHEMA, **settings})
        told = form.explain(form.decode(frame(spark, values).where(f"{names.VALUE} IS NOT NULL").coalesce(1)))
        parts = (f"IF({names.DECODED}, NULL, {part})" for part in (names.REASON, names.FIELD))
        frames.append(told.selectExpr(f"{names.literal(label)} AS label", names.OFFSET, names.DECODED, *parts))
    rows = reduce(DataFrame.unionAll, frames).collect()
    found = {(label, *CASES[offset][:2]): tuple(verdict) for label, offset, *verdict in rows}
    assert {label for label, *_ in wanted} == {*FORMS}
    assert found == wanted
