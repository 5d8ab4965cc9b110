"""Schemas only grow, whatever comes in whatever order; and what is rescued is what alone would be refused."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T
from tests.laws import test_json_law as strict
from tests.laws.gathering import gathered
from tests.laws.test_inference_law import RECORDS, placed, shape_of
from tests.rows.formats import outcomes

from rivermouth.engine.schema.evolve import _growth
from rivermouth.engine.schema.growth_limits import GrowthLimit, marked
from rivermouth.engine.schema.kept_schemas import with_columns
from rivermouth.engine.table.flow_table import table_changes, table_shape
from rivermouth.formats.json import Json
from rivermouth.names import folded
from rivermouth.ports.internals.delta_snapshot import TableState
from rivermouth.schemas.column_types import RESCUED, name_in_json
from rivermouth.schemas.evolution import grown
from rivermouth.schemas.inference import Limits
from rivermouth.schemas.inferred import schema_of
from rivermouth.schemas.type_widening import widens
from rivermouth.spec import Evolution, Flow

GROWS = Evolution(on_new_column="evolve", on_type_change="widen", max_columns=5000)
WIDE = Limits(max_fields=30)


def after(schema, records):
    """The schema once it has grown by these records."""
    inferred = schema_of(shape_of(records, WIDE))
    return grown(schema, inferred.found, inferred.numbers, GROWS)


@given(RECORDS, st.lists(st.integers(0, 12), max_size=3))
@settings(max_examples=40)
def test_by_a_few_records_a_schema_only_grows_and_only_once(values, cuts):
    it_only_grows_and_only_once(values, cuts)


@pytest.mark.long
@given(RECORDS, st.lists(st.integers(0, 12), max_size=3))
@settings(max_examples=200)
def test_a_schema_only_grows_and_only_once(values, cuts):
    it_only_grows_and_only_once(values, cuts)


def it_only_grows_and_only_once(values, cuts):
    records, schema = placed(values), T.StructType([])
    for start, end in zip([0, *sorted(cuts)], [*sorted(cuts), 12], strict=True):
        growth = after(schema, records[start:end])
        before = {each.name: each.dataType for each in schema}
        assert growth.schema.names[: len(before)] == schema.names
        for each in growth.schema.fields[: len(before)]:
            assert each.dataType == before[each.name] or widens(before[each.name], each.dataType)
        again = after(growth.schema, records[start:end])
        assert (again.schema, again.changes) == (growth.schema, ())
        schema = growth.schema
    whole = schema_of(shape_of(records, WIDE)).schema
    seen = {name_in_json(each) for each in schema}
    assert seen <= {name_in_json(each) for each in whole}
    # What only ever was null is a column of the whole, and none that grows.
    assert {name_in_json(each) for each in whole} - seen <= {
        name_in_json(each) for each in whole if all_null(each, values)
    }


def all_null(field, values):
    found = []
    for value in values:
        try:
            document = json.loads(value.decode()) if value is not None else None
        except ValueError:
            continue
        if isinstance(document, dict):
            found.append(document.get(name_in_json(field)))
    return all(each is None for each in found)


# An array that is empty, or an object, says too little of its type.
KINDS = {
    "a": st.integers(-5, 5),
    "b": st.booleans(),
    "c": st.text(max_size=3),
    "d": st.lists(st.integers(0, 9), min_size=1, max_size=2),
}
SOME = st.fixed_dictionaries({"z": st.integers(-5, 5)}, optional=KINDS)
MORE = st.fixed_dictionaries({"y": st.booleans()}, optional={**KINDS, "e": SOME})
ALIKE = st.fixed_dictionaries({}, optional={**KINDS, "e": SOME, "f": st.lists(MORE, min_size=1, max_size=2)})


@given(st.lists(ALIKE, max_size=8), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(max_examples=40)
def test_a_few_documents_of_one_kind_make_the_same_schema_in_any_order_and_all_at_once(documents, size, order):
    they_make_the_same_schema(documents, size, order)


@pytest.mark.long
@given(st.lists(ALIKE, max_size=8), st.integers(1, 4), st.randoms(use_true_random=False))
@settings(max_examples=200)
def test_documents_of_one_kind_make_the_same_schema_in_any_order_and_all_at_once(documents, size, order):
    they_make_the_same_schema(documents, size, order)


def they_make_the_same_schema(documents, size, order):
    values = [json.dumps(each).encode() for each in documents]
    whole = sorted_by_name(after(T.StructType([]), placed(values)).schema)
    order.shuffle(values)
    schema = T.StructType([])
    for start in range(0, len(values), size):
        schema = after(schema, placed(values[start : start + size])).schema
    assert sorted_by_name(schema) == whole


NUMBERS = st.integers(-5, 5) | st.sampled_from([1 << 40, 1 << 63, 1.5, -0.25])
DECLARED = "a bigint, b int, c array<int>, e struct<x: int, y: bigint>"
MEMBERS = st.fixed_dictionaries({}, optional={"x": NUMBERS, "y": NUMBERS, "z": NUMBERS})
GROWING = st.fixed_dictionaries(
    {},
    optional={
        "a": NUMBERS,
        "b": NUMBERS,
        "c": st.lists(NUMBERS, min_size=1, max_size=2),
        "e": MEMBERS,
        "next": NUMBERS,
        "New": st.booleans(),
        "text": st.just("t"),
        "half": NUMBERS,
    },
)
# What is computed, and the column whose type it holds: half of a decimal is no double, and no date is that far off.
COMPUTED = {
    "a + 1 AS next": None,
    "e.y AS text": None,
    "size(c) AS many": None,
    "c[0] AS first": None,
    "a / 2 AS half": "a",
    "e.y / 2 AS half_y": "e",
    "date_add(DATE '1970-01-01', b) AS day": "b",
}


CASES = st.tuples(
    st.lists(st.lists(GROWING, min_size=1, max_size=3), min_size=1, max_size=3),
    st.sets(st.sampled_from([*COMPUTED]), min_size=1),
)


@pytest.mark.parametrize("number", [2, pytest.param(12, marks=pytest.mark.long)])
def test_a_table_follows_whatever_its_schema_grows_to_and_what_is_computed_stays(spark, number):
    held = 0
    for batches, computed in [*gathered(CASES, number), ([[{"a": 1 << 63}]], {"a / 2 AS half"})]:
        selected, plain = (
            Flow.model_validate(
                {
                    "name": "f",
                    "topics": ["t"],
                    "table": "s.t",
                    "evolution": GROWS,
                    **more,
                    "format": {"type": "json", "schema": DECLARED},
                }
            )
            for more in ({"select": ["*", *sorted(computed)]}, {})
        )
        columns, others = (table_shape(spark, flow).columns for flow in (selected, plain))
        for batch in batches:
            values = [json.dumps(each).encode() for each in batch]
            before = columns
            selected, columns = met(spark, selected, columns, values)
            plain, others = met(spark, plain, others, values)
            for each in before:
                now = columns[each.name].dataType
                assert now == each.dataType or widens(each.dataType, now)
            assert len({folded(name) for name in columns.names}) == len(columns)
        mine, theirs = (
            {name_in_json(each): each for each in flow.format.schema_as_declared()} for flow in (selected, plain)
        )
        assert mine.keys() == theirs.keys()
        assert not {folded(each.split(" AS ")[1]) for each in computed} & {folded(each.name) for each in mine.values()}
        different = {name for name, each in mine.items() if each.dataType != theirs[name].dataType}
        assert different <= {COMPUTED[each] for each in computed}
        held += len(different)
    assert held > 0


def met(spark, flow, columns, values):
    """The flow and the columns of its table after a batch of documents, as a run makes them grow."""
    state = TableState("id", 1, columns, (), {}, {})
    growth = _growth(flow, shape_of(placed(values), WIDE), GrowthLimit(spark, "t", state, columns.names))
    if growth is None or not growth.changes:
        return flow, columns
    flow = with_columns(flow, marked(flow, growth.schema))
    shape = table_shape(spark, flow)
    changes = table_changes(flow, "t", state, shape)
    kept = {each.name: each for each in (*columns, *changes.widened, *changes.added)}
    return flow, T.StructType([*kept.values()])


def sorted_by_name(declared):
    match declared:
        case T.StructType():
            fields = (T.StructField(each.name, sorted_by_name(each.dataType)) for each in declared)
            return T.StructType(sorted(fields, key=lambda each: each.name))
        case T.ArrayType():
            return T.ArrayType(sorted_by_name(declared.elementType))
    return declared


@pytest.mark.long
def test_what_is_rescued_is_what_alone_would_be_refused(spark):
    schema = strict.exactly(T.StructType.fromDDL(strict.DDL))
    values = [*strict.gathered(strict.documents(), 400), *strict.gathered(strict.wild(), 800)]
    policies = Evolution(on_new_column="rescue", on_type_change="rescue")
    found = outcomes(spark, Json(schema=strict.DDL).with_policies(policies), values)
    judged = rescued = 0
    for raw, outcome in zip(values, found, strict=True):
        wanted = expected(raw, schema)
        if wanted is None:
            continue
        judged += 1
        if wanted == strict.REFUSED:
            assert outcome.data is None, raw
            assert outcome.reason not in {None, "UNEXPLAINED"}, raw
            continue
        assert outcome.data is not None, f"{raw!r} {outcome}"
        columns, beside = wanted
        text = outcome.data.pop(RESCUED)
        assert strict.same(outcome.data, columns), raw
        assert (dict(read(text)) if text else {}) == beside, raw
        rescued += bool(beside)
    assert (judged > 800, rescued > 400) == (True, True), (judged, rescued)


def expected(raw, schema):
    """The columns, and by pointer the values in no column; REFUSED; None where the oracle cannot say."""
    try:
        members = read(raw.decode("utf-8"))
        json.dumps(members, ensure_ascii=False).encode("utf-8")
    except ValueError:
        return strict.REFUSED
    if len(dict(members)) < len(members):
        return None
    columns, beside = {}, {}
    for field in schema:
        given_value = dict(members).get(field.name)
        alone = strict.Members([(field.name, given_value)])
        try:
            columns.update(strict.fields(alone, [field]))
        except strict.Unsure:
            return None
        except (ValueError, strict.Refuse):
            if not field.nullable:
                return strict.REFUSED
            columns[field.name] = None
            beside[f"/{field.name}"] = given_value
    whole = T.StructType([each for each in schema if f"/{each.name}" not in beside])
    own = strict.Members(pair for pair in members if f"/{pair[0]}" not in beside)
    beside.update(undeclared(own, whole, ""))
    return columns, beside


def read(text):
    return json.loads(
        text,
        object_pairs_hook=strict.Members,
        parse_int=strict.number,
        parse_float=strict.number,
        parse_constant=strict.refuse,
    )


def undeclared(item, declared, path):
    """By pointer the parts that a type has no place for, other than null; of twins the last."""
    found = {}
    match declared:
        case T.StructType() if type(item) is strict.Members:
            known = {each.name: each.dataType for each in declared}
            for key, part in item:
                if key in known:
                    found.update(undeclared(part, known[key], f"{path}/{key}"))
                elif part is not None:
                    found[f"{path}/{key}"] = part
        case T.MapType() if type(item) is strict.Members:
            for key, part in item:
                found.update(undeclared(part, declared.valueType, f"{path}/{key}"))
        case T.ArrayType() if type(item) is list:
            for index, part in enumerate(item):
                found.update(undeclared(part, declared.elementType, f"{path}/{index}"))
    return found
