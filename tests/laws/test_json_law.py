"""Spark's verdict on JSON, field by field and record by record, against plain Python.

The oracle shares no code with the format: Python's own json module and a few lines per declared type. Each law
is one Spark job over all its examples.
"""

from __future__ import annotations

import base64
import contextlib
import datetime as dt
import json
import math
import re
import struct
from decimal import Decimal, localcontext

import pytest
from hypothesis import strategies as st
from pyspark.sql import types as T
from tests.laws.gathering import gathered
from tests.rows.formats import frame, outcomes

from rivermouth import names
from rivermouth.decoding.json import json_fast_path, json_spark_columns
from rivermouth.decoding.wrapped import unwrap
from rivermouth.formats.json import Json
from rivermouth.spec import Evolution, Flow

# --- the oracle ------------------------------------------------------------------------------------

REFUSED, EITHER = "refused", "either"

DDL = (
    "flag boolean, tiny tinyint, small smallint, whole int, big bigint, real float, dbl double, "
    "price decimal(10,2), exact decimal(38,18), note string, bytes binary, day date, at timestamp, "
    "local timestamp_ntz, must int NOT NULL, deep struct<tiny:tinyint,at:timestamp,note:string>, "
    "items array<struct<price:decimal(10,2),day:date>>, tags array<string>, "
    "counts map<string,tinyint>, times map<string,array<timestamp>>, ratios array<struct<d:map<string,double>>>, "
    "open variant, parts array<struct<v:variant,day:date>>, shapes map<string,variant>"
)


class Literal(str):
    """A number as it is written."""

    __slots__ = ()


class Members(list):
    """The members of an object, twins included."""


class ExactDouble(T.DoubleType):
    """Of a column that was inferred: a number with more digits than a double keeps is none of it."""


class ExactTime(T.TimestampType):
    """Of one that was inferred: nothing is cut off."""


class ExactLocalTime(T.TimestampNTZType):
    """As ``ExactTime``."""


def exactly(declared):
    """A type as it is where it was inferred, or where ``on_type_change`` is said."""
    match declared:
        case T.StructType():
            return T.StructType([T.StructField(f.name, exactly(f.dataType), f.nullable) for f in declared])
        case T.ArrayType():
            return T.ArrayType(exactly(declared.elementType), declared.containsNull)
        case T.MapType():
            return T.MapType(declared.keyType, exactly(declared.valueType), declared.valueContainsNull)
    same = {T.DoubleType: ExactDouble, T.TimestampType: ExactTime, T.TimestampNTZType: ExactLocalTime}
    return same.get(type(declared), type(declared))() if type(declared) in same else declared


class Refuse(Exception):
    """The value does not fit."""


class Unsure(Refuse):
    """The value may be refused, and it may be stored as the last of its twins or as a double says it."""


def number(text):
    return Literal(text)


def refuse(*_):
    raise Refuse


def oracle(raw, schema):
    """What must be stored for these bytes: a dict, or REFUSED, or EITHER."""
    try:
        text = raw.decode("utf-8")
        document = json.loads(
            text, object_pairs_hook=Members, parse_int=number, parse_float=number, parse_constant=refuse
        )
        # Halves of characters cannot be encoded, nor in a member whose twin wins.
        json.dumps(json.loads(text, object_pairs_hook=list), ensure_ascii=False).encode("utf-8")
        return fields(document if type(document) is Members else refuse(), schema)
    except Unsure:
        return EITHER
    except (ValueError, Refuse):
        return REFUSED


def fields(members, schema):
    row = {}
    for field in schema:
        found = [item for key, item in members if key == field.name]
        row[field.name] = value(found[-1], field.dataType) if found else None
        for twin in found[:-1]:
            with unsure():
                value(twin, field.dataType)
        if not field.nullable and row[field.name] is None:
            raise Refuse
    return row


@contextlib.contextmanager
def unsure():
    try:
        yield
    except (Refuse, ValueError):
        raise Unsure from None


def value(item, declared):
    if item is None:
        return None
    match declared:
        case T.StructType():
            return fields(item if type(item) is Members else refuse(), declared)
        case T.MapType():
            pairs = item if type(item) is Members else refuse()
            return fields(pairs, [T.StructField(key, declared.valueType) for key in dict(pairs)])
        case T.ArrayType():
            return [value(part, declared.elementType) for part in (item if type(item) is list else refuse())]
        case T.StringType():
            return item if type(item) is str else kept(item)
        case T.VariantType():
            return shapeless(item)
    return leaf(item, declared)


def leaf(item, declared):
    kind = type(item)
    match declared:
        case T.BooleanType() if kind is bool:
            return item
        case T.ByteType() | T.ShortType() | T.IntegerType() | T.LongType() if kind is Literal:
            bits = {"tinyint": 7, "smallint": 15, "int": 31, "bigint": 63}[declared.simpleString()]
            whole = re.fullmatch(r"-?\d+", item) and int(item)
            return whole if type(whole) is int and -(2**bits) <= whole < 2**bits else refuse()
        case T.DoubleType() if kind is Literal:
            found = finite(float(item))
            kept_digits = Decimal(item) in {Decimal(repr(found)), Decimal(found)}
            return found if kept_digits or type(declared) is not ExactDouble else refuse()
        case T.FloatType() if kind is Literal:
            try:
                return finite(struct.unpack("f", struct.pack("f", finite(float(item))))[0])
            except OverflowError:
                refuse()
        case T.DecimalType() if kind in {Literal, str}:
            return decimal(item, declared)
        case T.BinaryType() if kind is str:
            return base64.b64decode(item, validate=True)
        case T.DateType() if kind is str and re.fullmatch(r"\d{4}-\d\d-\d\d", item, re.ASCII):
            return dt.date.fromisoformat(item)
        case T.TimestampType() if kind is str:
            return time(item, zoned=True, exact=type(declared) is ExactTime)
        case T.TimestampNTZType() if kind is str:
            return time(item, zoned=False, exact=type(declared) is ExactLocalTime)
    return refuse()


def finite(found):
    return found if math.isfinite(found) else refuse()


def decimal(item, declared):
    form = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d{1,3})?"
    if type(item) is str and not re.fullmatch(form, item, re.ASCII):
        refuse()
    exact = Decimal(item)
    if type(item) is Literal and "e" in item.lower():
        exact = Decimal(repr(finite(float(item))))
        if exact == 0 and re.match("-?[0.]*[1-9]", item):
            refuse()
        # Of a zero with an exponent nobody can tell, if there is a number in the document that is too small.
        if len(exact.as_tuple().digits) > 9 or exact == 0:
            raise Unsure
    _, digits, exponent = exact.as_tuple()
    digits = "".join(map(str, digits)).lstrip("0")
    kept_digits = digits.rstrip("0")
    exponent += len(digits) - len(kept_digits)
    if not kept_digits:
        return Decimal(0)
    if -exponent > declared.scale or len(kept_digits) + exponent > declared.precision - declared.scale:
        refuse()
    return exact


def time(item, *, zoned, exact):
    form = r"(\d{4}-\d\d-\d\d)(?:[T ](\d\d:\d\d(?::\d\d)?)(\.\d{1,9})?(?:(Z|[+-]\d\d:\d\d)(?:\[[\w/]+\])?)?)?"
    match = re.fullmatch(form, item, re.ASCII)
    if not match or (match[4] and not zoned) or (match[3] and len(match[2]) == 5):
        refuse()
    if exact and (match[3] or "")[7:].strip("0"):
        refuse()
    found = dt.datetime.fromisoformat(match[1] + "T" + (match[2] or "00:00"))
    found = found.replace(microsecond=int((match[3] or ".0")[1:7].ljust(6, "0")))
    if match[4]:
        found = found.replace(tzinfo=dt.datetime.fromisoformat("2000-01-01T00:00:00" + match[4]).tzinfo)
        try:
            found = found.astimezone(dt.UTC).replace(tzinfo=None)
        except OverflowError:
            refuse()
    return found


def kept(item):
    """What JSON text of a value that is no string must say: its parts, numbers digit by digit."""
    if type(item) is Literal:
        return item
    if type(item) is Members:
        return Members((key, kept(part)) for key, part in item)
    return [kept(part) for part in item] if type(item) is list else item


def shapeless(item):
    """What a VARIANT holds: whole numbers of 64 bits, else decimals of up to 38 digits, else doubles."""
    if type(item) is Members:
        return {key: shapeless(part) for key, part in item}
    if type(item) is list:
        return [shapeless(part) for part in item]
    if type(item) is not Literal:
        return item
    if re.fullmatch(r"-?\d+", item) and -(2**63) <= int(item) < 2**63:
        return int(item)
    _, digits, exponent = Decimal(item).as_tuple()
    is_decimal = "e" not in item.lower() and len(digits) <= 38 and -exponent <= 38
    return Decimal(item) if is_decimal else finite(float(item))


def alike(one, other):
    """Whether parts of a VARIANT are the same, type for type."""
    if type(one) is dict and type(other) is dict:
        return one.keys() == other.keys() and all(alike(one[key], other[key]) for key in one)
    if type(one) is list and type(other) is list:
        return len(one) == len(other) and all(map(alike, one, other))
    return type(one) is type(other) and one == other


def same(stored, wanted):
    """Whether a stored value is the wanted one; kept JSON text is read for that."""
    if isinstance(stored, T.VariantVal):
        with localcontext(prec=100):
            return alike(stored.toPython(), wanted)
    if isinstance(wanted, float) and isinstance(stored, float):
        return stored == wanted
    if isinstance(stored, str) and type(wanted) is not str:
        return json.loads(stored, object_pairs_hook=Members, parse_int=Literal, parse_float=Literal) == wanted
    if isinstance(wanted, dict) and isinstance(stored, dict):
        return stored.keys() == wanted.keys() and all(same(stored[key], wanted[key]) for key in wanted)
    if isinstance(wanted, list) and isinstance(stored, list):
        return len(stored) == len(wanted) and all(map(same, stored, wanted))
    if isinstance(stored, bytearray):
        stored = bytes(stored)
    return type(stored) is type(wanted) and stored == wanted


# --- the examples ----------------------------------------------------------------------------------

WORDS = st.text(max_size=8) | st.sampled_from(
    ["", "Infinity", '"Infinity"', "null", "\ufffd", "a\0b", "😀", "\\u", "{", "["]
)
INTS = st.integers(-300, 300) | st.integers(-(2**64), 2**64) | st.sampled_from([2**7, 2**15, 2**31, 2**63, -(2**63)])
NUMBERS = (
    INTS.map(str)
    | st.floats(allow_nan=False, allow_infinity=False).map(repr)
    | st.decimals(-(10**9), 10**9, places=2).map(str)
    | st.decimals(-(10**21), 10**21, places=18).map(lambda d: format(d, "f"))
    | st.sampled_from(
        ["0.30000000000000004", "0.29999999999999999", "0.1234567890123456789", "12345678901234567890.5e0"]
    )
    | st.sampled_from(
        ["0.1000000000000000055511151231257827021181583404541015625", str(2**54), "9007199254740993", "1e23"]
    )
    | st.sampled_from(["-0", "1.0", "1e3", "1E2", "0.10", "9.999", "1e400", "-1e39", "1e-400", "9" * 38, "3.4e38"])
)
# PySpark itself makes no datetime of the first day.
TIMES = st.datetimes(dt.datetime(1, 1, 2), dt.datetime(9999, 12, 30)).flatmap(
    lambda t: st.sampled_from(
        [
            t.isoformat(),
            t.isoformat() + "Z",
            t.isoformat(" ") + "+05:30",
            t.isoformat() + "123",
            t.isoformat("T", "minutes"),
            t.isoformat("T", "minutes") + "-03:00",
            t.isoformat() + "+05:30[Asia/Kolkata]",
            t.isoformat() + " IST",
            str(t.date()),
            t.isoformat()[11:],
            str(t.year),
            t.isoformat().replace("-", "/"),
            t.isoformat()[:7],
        ]
    )
) | st.sampled_from(
    [
        *("0001-01-01T00:00:00+05:30", "9999-12-31T23:59:59-05:30", "10000-01-01T00:00:00Z", "0000-12-31T00:00:00"),
        *("0000-12-31", "10000-01-01", "+10000-01-01", "+12026-01-31T10:00:00Z"),
    ]
)
STRINGS = WORDS | TIMES | NUMBERS | st.binary(max_size=5).map(lambda b: base64.b64encode(b).decode()) | st.just("QQ")
QUOTED = st.tuples(STRINGS, st.booleans()).map(lambda pair: json.dumps(pair[0], ensure_ascii=pair[1]))
SCALARS = NUMBERS | QUOTED | st.sampled_from(["true", "false", "null", "{}", "[]"])
BLANK = st.sampled_from(["", "", "", " ", "\n\t"])
KEYS = [field.split()[0] for field in re.findall(r"(?:^|, )(\w+ )", DDL)]
INNER = ["tiny", "at", "note", "price", "day", "k", "k", "other"]


def members(values, keys):
    pair = st.tuples(keys.map(json.dumps), BLANK, values).map(lambda parts: f"{parts[0]}:{parts[1]}{parts[2]}")
    return st.tuples(BLANK, st.lists(pair, max_size=6)).map(lambda parts: "{" + parts[0] + ",".join(parts[1]) + "}")


def listed(values):
    return st.lists(values, max_size=3).map(lambda items: f"[{','.join(items)}]")


DAYS = st.dates().map(lambda d: f'"{d}"')
NESTED = st.recursive(
    SCALARS,
    lambda inner: members(inner, st.sampled_from(INNER)) | listed(inner),
    max_leaves=6,
)
FITTING = {
    "flag": st.sampled_from(["true", "false", "null"]),
    "tiny": st.integers(-140, 140).map(str),
    "small": st.integers(-33000, 33000).map(str),
    "whole": st.integers(-(2**31), 2**31).map(str),
    "big": st.integers(-(2**63), 2**63).map(str),
    "real": NUMBERS,
    "dbl": NUMBERS,
    "price": NUMBERS | st.decimals(-(10**8), 10**8, places=2).map(lambda d: f'"{d}"'),
    "exact": NUMBERS | st.decimals(-(10**20), 10**20, places=18).map(lambda d: f'"{d:f}"'),
    "note": NESTED,
    "bytes": st.binary(max_size=6).map(lambda b: json.dumps(base64.b64encode(b).decode())),
    "day": DAYS,
    "at": TIMES.map(json.dumps),
    "local": TIMES.map(json.dumps),
    "must": st.integers(0, 9).map(str),
    "deep": members(NUMBERS | TIMES.map(json.dumps), st.sampled_from(["tiny", "at", "note"])),
    "items": listed(members(NUMBERS | DAYS, st.sampled_from(["price", "day"]))),
    "tags": listed(SCALARS),
    "counts": members(st.integers(-130, 130).map(str), st.sampled_from(["k", "j", "i"])),
    "times": members(listed(TIMES.map(json.dumps)), st.sampled_from(["k", "j"])),
    "ratios": listed(members(members(NUMBERS, st.sampled_from(["k", "j"])), st.just("d"))),
    "open": NESTED,
    "parts": listed(members(NESTED | DAYS, st.sampled_from(["v", "day"]))),
    "shapes": members(NESTED, st.sampled_from(["k", "j"])),
}


@st.composite
def documents(draw):
    """Documents where most fields fit, with twins, foreign fields and blanks."""
    names = draw(st.lists(st.sampled_from([*FITTING, "foreign"]), max_size=5))
    pairs = [f'"{name}":{draw(BLANK)}{draw(FITTING.get(name, NESTED))}' for name in names]
    if draw(st.integers(0, 9)):
        pairs.insert(draw(st.integers(0, len(pairs))), '"must":1')
    comma = f"{draw(BLANK)},{draw(BLANK)}"
    return f"{{{draw(BLANK)}{comma.join(pairs)}}}{draw(BLANK)}".encode("utf-8", "surrogatepass")


@st.composite
def wild(draw):
    """Any value of JSON in any field."""
    pairs = draw(st.lists(st.tuples(st.sampled_from([*FITTING, "foreign"]), NESTED), min_size=1, max_size=2))
    return ('{"must":1,' + ",".join(f'"{name}":{text}' for name, text in pairs) + "}").encode("utf-8", "surrogatepass")


PIECES = [b"", b'"', b"{", b"}", b"]", b",", b":", b"\\", b"'", b"\x00", b"\xff", b"0", b"}{", b"\\ud800", b" x"]


@st.composite
def broken(draw):
    """Documents with a few bytes cut out, put in or changed."""
    raw = bytearray(draw(documents() | wild()))
    for _ in range(draw(st.integers(1, 3))):
        place = draw(st.integers(0, len(raw)))
        piece = draw(st.sampled_from(PIECES))
        raw[place : place + draw(st.integers(0, 2))] = piece
    return bytes(raw)


# Kinds of documents, how many of them, and how many of these are refused at least.
KINDS = ("fitting", "wild", "broken")
REFUSING = ((documents(), 1500, 300), (wild(), 2500, 500), (broken(), 1500, 20))
# Whether doubles and timestamps have to keep each digit.
EXACTLY = (*zip(REFUSING, (False, False, True), strict=True), (REFUSING[0], True))
# The law of many has this many times as many.
SHORTER = 4
MIXED, FEW_MIXED = documents() | wild() | broken(), 200

# --- the laws --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("strategy", "number", "least", "exact"),
    [
        (MIXED, FEW_MIXED, 16, False),
        *(
            pytest.param(strategy, number // part, least // part, exact, marks=pytest.mark.long)
            for part in (SHORTER, 1)
            for (strategy, number, least), exact in EXACTLY
        ),
    ],
    ids=["mixed", *(f"{many}{kind}" for many in ("", "many ") for kind in (*KINDS, "exact"))],
)
def test_spark_stores_what_python_reads_and_explains_what_it_refuses(spark, strategy, number, least, exact):
    values = gathered(strategy, number)
    schema, form = T.StructType.fromDDL(DDL), Json(schema=DDL)
    if exact:
        policies = Evolution(on_new_column="ignore", on_type_change="dead_letter")
        schema, form = exactly(schema), form.with_policies(policies)
    found = outcomes(spark, form, values)  # checks that refused means explained, and nothing else
    wanted = [oracle(raw, schema) for raw in values]
    wrong = [
        (raw, outcome, expected)
        for raw, outcome, expected in zip(values, found, wanted, strict=True)
        if expected != EITHER
        and ((outcome.data is None) != (expected == REFUSED) or (outcome.data and not same(outcome.data, expected)))
    ]
    assert wrong[:5] == []
    assert sum(expected == EITHER for expected in wanted) < number / 10
    refused = [outcome for outcome in found if outcome.data is None]
    assert [o for o in refused if o.reason in {None, "UNEXPLAINED"} or not o.message] == []
    assert least < len(refused) < number - number // 75


@pytest.mark.parametrize(
    ("strategy", "number"),
    [
        (MIXED, FEW_MIXED),
        *(
            pytest.param(strategy, number // part, marks=pytest.mark.long)
            for part in (SHORTER, 1)
            for strategy, number, _ in REFUSING
        ),
    ],
    ids=["mixed", *(f"{many}{kind}" for many in ("", "many ") for kind in KINDS)],
)
def test_our_reader_says_what_sparks_parser_says(spark, strategy, number):
    values, schema = gathered(strategy, number), Json(schema=DDL).schema_as_declared()
    ours = json_fast_path.row(spark, schema, {}).alias("ours")
    read = frame(spark, values).select(names.OFFSET, names.VALUE, ours)
    ours = ", ".join(f"ours.c{place}" for place in range(len(schema)))
    columns = ", ".join(f"__done_{place}" for place in range(len(schema)))
    documents = read.withColumn(names.VALUE, json_fast_path.kept(spark, schema, names.VALUE))
    judged = json_spark_columns.parse_columns(documents, schema, ()).selectExpr(
        names.OFFSET,
        f"CASE WHEN ours IS NOT NULL THEN CAST(struct({ours}) AS STRING) END",
        f"CASE WHEN __fits THEN CAST(struct({columns}) AS STRING) END",
    )
    found = judged.collect()
    assert len(found) == number
    assert [(values[offset], ours, theirs) for offset, ours, theirs in found if ours != theirs][:5] == []
    reader = json_fast_path.reader(spark, schema, {})
    fitting = [values[offset] for offset, _, theirs in found if theirs is not None]
    assert sum(reader.isSure(value) for value in values) == sum(reader.isSure(value) for value in fitting)
    # It leaves to Spark's parser documents that name a key twice, and a few numbers.
    usual = [reader.isSure(value) for value in fitting if not names_a_key_twice(value)]
    assert len(usual) > 0
    assert sum(usual) > 0.75 * len(usual)


def names_a_key_twice(raw):
    """Whether an object of a document has two members of one name."""
    found = []

    def look(pairs):
        found.append(len({key for key, _ in pairs}) < len(pairs))
        return dict(pairs)

    json.loads(raw.decode("utf-8", "surrogatepass"), object_pairs_hook=look, strict=False)
    return any(found)


@st.composite
def strung(draw):
    """A document with one in a string, what is read of it, and whether the string may hold one at all."""
    front, end = draw(st.sampled_from([('{"a":1,"p":', "}"), ('{"p" : ', ' , "note":"{}"}')]))
    text = draw(NESTED | broken().map(lambda raw: raw.decode("utf-8", "replace")))
    quoted = json.dumps(text, ensure_ascii=draw(st.booleans()))
    return f"{front}{quoted}{end}".encode("utf-8", "replace"), f"{front}{text}{end}", text


@pytest.mark.parametrize("number", [100, *(pytest.param(many, marks=pytest.mark.long) for many in (400, 1500))])
def test_a_document_in_a_string_is_read_as_if_it_stood_there(number, spark):
    examples = gathered(strung(), number)
    form = {"type": "json", "schema": "p variant", "documents_in_strings": "p"}
    flow = Flow(name="f", topics=("t",), format=form, table="silver.f")
    rows = unwrap.unwrapped(frame(spark, [value for value, *_ in examples]), flow)
    found = {
        offset: tuple(told) for offset, *told in rows.select(names.OFFSET, names.VALUE, "__wrapping.reason").collect()
    }
    for place, (_, whole, text) in enumerate(examples):
        try:
            document = json.loads(text, parse_constant=refuse, object_pairs_hook=list)
            json.dumps(document, ensure_ascii=False).encode("utf-8")
        except UnicodeEncodeError:
            # With half a character in it, it is refused here or where it is read.
            wanted = [(None, "INVALID_JSON"), (whole.encode(), None)]
        except (ValueError, Refuse):
            wanted = [(None, "INVALID_JSON")]
        else:
            wanted = [(whole.encode(), None)]
        opened, reason = found[place]
        assert (opened and bytes(opened), reason) in wanted, text
