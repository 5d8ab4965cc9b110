"""Whichever writer is first, the table gets the same columns, and they hold all that fastavro reads of every record."""

from __future__ import annotations

import io
from decimal import Decimal

import fastavro
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T
from tests.laws.test_avro_law import FLOATS, INTS, LONGS, TEXTS, interpreted, plain  # noqa: F401 - a fixture
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import Evolving, record
from tests.rows.formats import frame

from rivermouth import names


def decimals(precision, scale):
    kind = {"type": "bytes", "logicalType": "decimal", "precision": precision, "scale": scale}
    return kind, st.integers(-(10**precision) + 1, 10**precision - 1).map(lambda it: Decimal(it).scaleb(-scale))


# For each field the types that writers have of it: numbers, where Delta has a type that holds all of them.
KINDS = {
    "whole": [("int", INTS), ("long", LONGS)],
    "real": [("float", FLOATS), ("double", st.floats(allow_nan=False))],
    "price": [decimals(5, 2), decimals(9, 4), decimals(7, 0), ("int", INTS)],
    "text": [("string", TEXTS)],
    "flag": [("boolean", st.booleans())],
}


@st.composite
def writers(draw, name="R", depth=2):
    """A record's schema, in which some fields may be null, and its values."""
    own = {}
    for field in draw(st.lists(st.sampled_from(sorted(KINDS)), unique=True, min_size=1)):
        own[field] = draw(st.sampled_from(KINDS[field]))
    if depth:
        for field, form in (("inner", None), ("list", "array"), ("map", "map")):
            if draw(st.booleans()):
                kind, values = draw(writers(f"{name}_{field}", depth - 1))
                own[field] = wrapped(form, kind, values)
    for field in draw(st.lists(st.sampled_from(sorted(own)), unique=True)):
        kind, values = own[field]
        own[field] = ["null", kind], st.none() | values
    order = draw(st.permutations(sorted(own)))
    return record(*((field, own[field][0]) for field in order), name=name), st.fixed_dictionaries(
        {field: values for field, (_, values) in own.items()}
    )


def wrapped(form, kind, values):
    if form == "array":
        return {"type": "array", "items": kind}, st.lists(values, max_size=2)
    return ({"type": "map", "values": kind}, st.dictionaries(TEXTS, values, max_size=2)) if form else (kind, values)


@st.composite
def scenes(draw):
    """Writers, some records of each, and two orders in which they come."""
    schemas = [draw(writers()) for _ in range(draw(st.integers(1, 4)))]
    records = [(schema, draw(st.lists(values, min_size=1, max_size=3))) for schema, values in schemas]
    return records, draw(st.permutations(range(len(records))))


def column(value, declared):
    """What a column holds of what fastavro reads: fields that a writer lacks are null, and none is left out."""
    match declared:
        case _ if value is None:
            return None
        case T.StructType():
            assert value.keys() <= set(declared.names)
            return tuple(column(value.get(each.name), each.dataType) for each in declared)
        case T.ArrayType():
            return [column(each, declared.elementType) for each in value]
        case T.MapType():
            return {key: column(each, declared.valueType) for key, each in value.items()}
        case T.DecimalType():
            return Decimal(value)
        case T.DoubleType():
            return float(value)
    return value


@pytest.fixture(scope="module")
def registry():
    with SchemaRegistry() as found:
        yield found


@settings(max_examples=3)
@given(scenes())
def test_any_order_of_a_few_writers_makes_the_same_columns(interpreted, registry, scene):  # noqa: F811
    any_order_makes_the_same_columns(interpreted, registry, scene)


@pytest.mark.long
@settings(max_examples=12)
@given(scenes())
def test_any_order_of_writers_makes_the_same_columns_and_nothing_is_lost(interpreted, registry, scene):  # noqa: F811
    any_order_makes_the_same_columns(interpreted, registry, scene)


def any_order_makes_the_same_columns(interpreted, registry, scene):  # noqa: F811
    records, other_order = scene
    declared = record(("id", "int", 0), ("text", ["null", "string"], None))
    tables = []
    for order in (range(len(records)), other_order):
        table = Evolving(interpreted, registry, declared, on_new_column="evolve", on_type_change="widen")
        for place in order:
            table.meet([registry.register("s", records[place][0])])
            assert table.meet([registry.register("s", records[place][0])]) == ()
        tables.append(table)
    one, other = (table.flow.format.schema_as_declared() for table in tables)
    assert in_order(one) == in_order(other)

    sent = [(writer, each, tables[1].sent(writer, each)) for writer, values in records for each in values]
    form = tables[1].flow.value_format
    decoded = form.decode(frame(interpreted, [value for *_, value in sent]).coalesce(1))
    new = form.rows_to_inspect(interpreted).alias("__new")
    row = decoded.orderBy(names.OFFSET).select(names.DECODED, names.DATA, new)
    for (writer, _, value), (is_decoded, data, is_new) in zip(sent, row.collect(), strict=True):
        read = fastavro.schemaless_reader(io.BytesIO(value[5:]), fastavro.parse_schema(writer, {}, _force=True), None)
        assert (is_decoded, is_new) == (True, False)
        assert plain(data) == column({"id": 0, "text": None} | read, other)


def in_order(declared):
    """A type with the fields of its structs in the order of their names, and nothing but types."""
    match declared:
        case T.StructType():
            fields = sorted((each.name, in_order(each.dataType)) for each in declared)
            return T.StructType([T.StructField(name, kind) for name, kind in fields])
        case T.ArrayType():
            return T.ArrayType(in_order(declared.elementType))
        case T.MapType():
            return T.MapType(declared.keyType, in_order(declared.valueType))
    return declared
