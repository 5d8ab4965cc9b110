"""Shapes merge in any order, and the schema of what was seen takes all of it: told by the decoder itself."""

from __future__ import annotations

import datetime as dt
import json
import pickle
import random
import re
from contextlib import suppress
from decimal import Decimal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T
from tests.laws.gathering import gathered
from tests.rows.formats import outcomes

from rivermouth.decoding.json.json_python_parser import Object
from rivermouth.decoding.json.undeclared_fields import fields_tree, first_pointer
from rivermouth.formats.json import Json
from rivermouth.schemas.column_types import name_in_json
from rivermouth.schemas.evolution import difference
from rivermouth.schemas.inference import Corrupt, Limits, Shape, parsed
from rivermouth.schemas.inferred import schema_of
from rivermouth.spec import Evolution

NAMES = st.sampled_from(["a", "b", "A", "x.y", "s p", "", "q`t", "kafka_offset", "é"])
NUMBERS = st.one_of(
    st.integers(-(2**70), 2**70).map(str),
    st.integers(-5, 5).map(str),
    st.sampled_from(
        ["1.5", "0.1", "-0.0", "1e5", "1E-7", "123456789012.12345678", "1e-400", "9" * 40, "0.30000000000000004"]
    ),
    st.sampled_from(["0.12345678901234567", "0.1234567890123456789e0", "9007199254740993", "1e400", "-1e-400", "1e23"]),
)
TEXTS = st.sampled_from(
    ["", "x", "2026-01-31", "2026-02-30", "2026-01-31T12:00:00Z", "2026-01-31 12:00:00.123456", "2026-01-31T12:00:00"]
) | st.sampled_from(["2026-01-31T12:00:00.1234567Z", "2026-01-31T12:00:00.123456001", "2026-01-31T12:00:00.120000000Z"])


class Written(str):
    """A text that is JSON already."""

    __slots__ = ()


LEAVES = st.one_of(
    st.sampled_from(["null", "true", "false"]).map(Written),
    NUMBERS.map(Written),
    TEXTS.map(lambda text: Written(json.dumps(text))),
)


def array(items):
    return Written(f"[{', '.join(items)}]")


def an_object(members):
    return Written("{" + ", ".join(f"{json.dumps(name)}: {item}" for name, item in members) + "}")


def objects(values):
    # Names may stand twice.
    return st.lists(st.tuples(NAMES, values), max_size=4).map(an_object)


VALUES = st.recursive(
    LEAVES, lambda inner: st.one_of(st.lists(inner, max_size=3).map(array), objects(inner)), max_leaves=8
)
DOCUMENTS = objects(VALUES).map(lambda text: text.encode())
RECORDS = st.lists(
    st.one_of(DOCUMENTS, st.sampled_from([None, b"", b"[1]", b"{", b'{"a": NaN}', b"\xff"])), max_size=12
)
LIMITS = Limits(max_fields=3, max_depth=3)


def shape_of(records, limits=LIMITS):
    shape = Shape(limits)
    for at, value in records:
        shape.add(value, at)
    return shape


def placed(values):
    return [(("t", index % 3, index), value) for index, value in enumerate(values)]


CUTS = (st.integers(0, 12), st.integers(0, 12), st.randoms(use_true_random=False))


@given(RECORDS, *CUTS)
@settings(max_examples=40)
def test_a_few_parts_merge_to_the_whole_in_any_order_and_grouping(values, one, two, order):
    parts_merge_to_the_whole(values, one, two, order)


@pytest.mark.long
@given(RECORDS, *CUTS)
@settings(max_examples=200)
def test_parts_merge_to_the_whole_in_any_order_and_grouping(values, one, two, order):
    parts_merge_to_the_whole(values, one, two, order)


def parts_merge_to_the_whole(values, one, two, order):
    records = placed(values)
    whole = shape_of(records).described()
    order.shuffle(records)
    first, second = sorted((one, two))
    parts = [records[:first], records[first:second], records[second:]]

    def made():
        # As they come from other processes.
        return [pickle.loads(pickle.dumps(shape_of(part))) for part in parts]

    a, b, c = made()
    assert all(each.nodes == each.documents.size() - 1 for each in (a, b, c))
    merged = a.merge(b).merge(c)
    assert merged.described() == whole
    assert merged.nodes == merged.documents.size() - 1
    a, b, c = made()
    assert a.merge(b.merge(c)).described() == whole
    a, b, c = made()
    assert c.merge(a.merge(b)).described() == whole
    assert Shape(LIMITS).merge(shape_of(records)).described() == whole
    assert shape_of(records).merge(Shape(LIMITS)).described() == whole


@given(RECORDS, st.integers(0, 12))
@settings(max_examples=40)
def test_what_was_kept_of_a_few_parts_changes_only_to_take_more(values, cut):
    what_was_kept_changes_only_to_take_more(values, cut)


@pytest.mark.long
@given(RECORDS, st.integers(0, 12))
@settings(max_examples=150)
def test_what_was_kept_of_a_part_changes_only_to_take_more(values, cut):
    what_was_kept_changes_only_to_take_more(values, cut)


def what_was_kept_changes_only_to_take_more(values, cut):
    records = placed(values)
    limits = Limits(max_fields=30)
    before, after = schema_of(shape_of(records[:cut], limits)), schema_of(shape_of(records, limits))
    change = difference(before.schema, after.found, numbers=after.numbers)
    if not change.refused:
        again = difference(change.schema, after.found, numbers=after.numbers)
        assert (again.changes, again.refused) == ((), ())
    assert change.schema.names[: len(before.schema.names)] == before.schema.names


GROWS = Evolution(on_new_column="evolve").with_defaults(infers=True)


@given(RECORDS)
@settings(max_examples=40)
def test_what_is_open_is_no_column_and_few_documents_that_were_seen_are_not_refused_for_it(values):
    nothing_is_refused_for_what_is_open(values)


@pytest.mark.long
@given(RECORDS)
@settings(max_examples=200)
def test_what_is_open_is_no_column_and_no_document_that_was_seen_is_refused_for_it(values):
    nothing_is_refused_for_what_is_open(values)


def nothing_is_refused_for_what_is_open(values):
    found = schema_of(shape_of(placed(values)), is_open=lambda _field, _column: True)
    assert not any(has_void(each.dataType) for each in found.schema)
    assert len(found.schema) + sum(len(path) == 1 for path in found.open) == len(found.complete)
    # Not by what was seen already: only a value makes a column of an open field.
    again = difference(found.schema, found.found, numbers=found.numbers)
    assert (again.schema, again.changes, again.refused) == (found.schema, (), ())
    tree = fields_tree(found.schema, GROWS, frozenset({"evolve"}))
    for value in values:
        with suppress(Corrupt):
            parsed(value or b"")
            document = json.loads(value, object_pairs_hook=Object)
            assert first_pointer(document, tree, lambda part: part if isinstance(part, Object) else None) is None


def has_void(declared):
    match declared:
        case T.StructType():
            return not declared.fields or any(has_void(each.dataType) for each in declared)
        case T.ArrayType():
            return has_void(declared.elementType)
        case T.MapType():
            return has_void(declared.valueType)
    return isinstance(declared, T.NullType)


def topics_of(number, number_of_doubles, number_of_times):
    """Values of a number of small topics, each with those that come later."""
    topics = gathered(st.lists(VALUES, min_size=2, max_size=6), number)
    # Of doubles and times comes what they do not keep.
    topics += [["0.5", *more] for more in gathered(st.lists(NUMBERS, min_size=2, max_size=6), number_of_doubles)]
    times = gathered(st.lists(TEXTS.map(json.dumps), min_size=3, max_size=6), number_of_times)
    return topics + [['"2026-01-31T12:00:00Z"', *more] for more in times]


@pytest.mark.parametrize(("part", "least"), [(4, 2), pytest.param(1, 20, marks=pytest.mark.long)])
def test_the_schema_takes_every_document_that_was_seen_and_nothing_is_lost_of_others(spark, part, least):
    """Many small topics as columns of one: each generated topic is a field of a document of its own."""
    topics = topics_of(40 // part, 15 // part, 15 // part)
    seen, unseen, random_order = [], [], random.Random(7)
    for number, values in enumerate(topics):
        for place, value in enumerate(values):
            some = unseen if place else seen
            some.append(f'{{"n": {len(seen) + len(unseen)}, "t{number}": {value}}}'.encode())
    random_order.shuffle(seen)
    lost = 0
    for documents, others in ((seen + unseen, []), (seen, unseen)):
        inferred = schema_of(shape_of(placed(documents), Limits()), times=bool(others))
        form = Json(schema="infer", infer_times=bool(others)).with_schema(inferred.schema)
        for value, each in zip(documents + others, outcomes(spark, form, documents + others), strict=True):
            assert each.reason is None or (value in others and each.reason == "FIELD_TYPE"), f"{value} {each}"
            sent = json.loads(value, object_pairs_hook=list, parse_int=Number, parse_float=Number)
            assert each.reason or holds(each.data, sent, inferred.schema), f"{value} {each}"
            lost += each.reason is not None
        assert len(inferred.schema) == len(topics) + 1
    assert lost > least
    # The same with open fields: each document is taken, and where a column is it says what was sent.
    documents = seen + unseen
    inferred = schema_of(shape_of(placed(documents), Limits()), is_open=lambda _field, _column: True)
    assert len(inferred.schema) < len(topics) + 1
    form = Json(schema="infer").with_schema(inferred.schema).with_policies(GROWS)
    for value, each in zip(documents, outcomes(spark, form, documents), strict=True):
        sent = json.loads(value, object_pairs_hook=list, parse_int=Number, parse_float=Number)
        assert each.reason is None, f"{value} {each}"
        assert holds(each.data, sent, inferred.schema), f"{value} {each}"


class Number(str):
    """A number as it is written."""

    __slots__ = ()


def holds(stored, sent, declared):
    """Whether a stored value says all that was sent, but for fields that are not declared."""
    if sent is None or stored is None:
        return stored is sent
    match declared:
        case T.StructType():
            fields = {name_in_json(each): (each.name, each.dataType) for each in declared}
            last = {name: value for name, value in sent if name in fields}
            return all(holds(stored[name], last.get(read), kind) for read, (name, kind) in fields.items())
        case T.MapType():
            last = dict(sent)
            return stored.keys() == last.keys() and all(holds(stored[k], last[k], declared.valueType) for k in last)
        case T.ArrayType():
            pairs = zip(stored, sent, strict=True)
            return len(stored) == len(sent) and all(holds(*pair, declared.elementType) for pair in pairs)
        case T.StringType():
            plain = type(sent) is str
            text = stored if plain else json.loads(stored, object_pairs_hook=list, parse_int=Number, parse_float=Number)
            return text == sent
        case T.DoubleType():
            return Decimal(sent) in {Decimal(repr(stored)), Decimal(stored)}
        case T.TimestampType() | T.TimestampNTZType():
            return is_time(stored, sent)
        case T.DateType():
            return str(stored) == sent
    return stored is sent if isinstance(sent, bool) else Decimal(sent) == stored


def is_time(stored, sent):
    """Whether a time is the one that its text says, to the last digit of the second."""
    text, digits = re.fullmatch(r"(.{10}(?:.\d\d:\d\d:\d\d)?)(?:[.](\d+))?Z?", sent).groups(default="0")
    whole = dt.datetime.fromisoformat(text)
    return whole == stored.replace(microsecond=0) and Decimal(f"0.{digits}") == Decimal(stored.microsecond).scaleb(-6)
