"""Values that have none of the declared columns: refused in every format with named fields, or kept by a setting."""

from __future__ import annotations

import json

import msgpack
import pytest
from tests.rows.formats import Outcome, outcomes

from rivermouth.decoding.json import no_declared_field
from rivermouth.extend import find_kind
from rivermouth.spec import Evolution

SCHEMA = "Id bigint, Amount double"
NONE = "the value has none of the declared columns"
NEAR = f"{NONE}; column Id differs in case from field id: declare it as id"

REFUSED = {
    "other names": ({"x": 1, "y": None}, (None, NONE)),
    "no names": ({}, (None, NONE)),
    "another case": ({"amount": 2.5, "id": 1}, ("Id", NEAR)),
    "another case, null": ({"id": None}, ("Id", NEAR)),
    "declared names within others": ({"x": {"Id": 1}}, (None, NONE)),
}
TAKEN = {
    "all": ({"Id": 1, "Amount": 2.5}, {"Id": 1, "Amount": 2.5}),
    "one": ({"id": 1, "Amount": 2.5}, {"Id": None, "Amount": 2.5}),
    "one that is null": ({"x": 1, "Id": None}, {"Id": None, "Amount": None}),
}


def written(kind, fields):
    match kind:
        case "json":
            return json.dumps(fields).encode()
        case "msgpack":
            return msgpack.packb(fields)
        case "xml":
            return f"<r>{''.join(_element(*each) for each in fields.items())}</r>".encode()
        case "key_value":
            pairs = (f"{name}={'' if value is None or value == {} else value}" for name, value in fields.items())
            return " ".join(pairs).encode()
    raise ValueError(kind)


def _element(name, value):
    if isinstance(value, dict):
        value = "".join(_element(*each) for each in value.items())
    return f"<{name}>{'' if value is None else value}</{name}>"


@pytest.mark.parametrize(
    ("kind", "settings"),
    [
        ("json", {}),
        # Read by Spark's parser, not by ours.
        ("json", {"timestamp_format": "yyyy/MM/dd"}),
        ("msgpack", {}),
        ("xml", {"null_value": ""}),
        ("key_value", {}),
    ],
)
def test_a_value_without_any_declared_column_is_refused_or_kept(spark, kind, settings):
    refused, taken = dict(REFUSED), dict(TAKEN)
    if kind == "key_value":
        del refused["no names"], refused["declared names within others"]
    values = [written(kind, fields) for fields, _ in (*refused.values(), *taken.values())]
    form = find_kind("formats", kind).model_validate({"type": kind, "schema": SCHEMA, **settings})
    wanted = [Outcome(None, no_declared_field.REASON, *told) for _, told in refused.values()]
    wanted += [Outcome(row) for _, row in taken.values()]
    assert outcomes(spark, form, [*values, None]) == [*wanted, Outcome(None)]
    keeping = form.model_copy(update={"no_declared_field": "keep"})
    blank = {"Id": None, "Amount": None}
    assert outcomes(spark, keeping, values[: len(refused)]) == [Outcome(blank)] * len(refused)


@pytest.mark.parametrize(
    ("policies", "kept"),
    [
        ({}, []),
        pytest.param({"on_new_column": "rescue"}, ["new", "null"], marks=pytest.mark.long),
        ({"columns": {"new": {"on_new_column": "rescue"}}}, ["new", "null"]),
        pytest.param({"columns": {"else": {"on_new_column": "rescue"}}}, [], marks=pytest.mark.long),
        # One that it cannot take yet is refused until the schema has grown.
        ({"on_new_column": "evolve"}, ["null"]),
        pytest.param({"on_new_column": "dead_letter"}, [], marks=pytest.mark.long),
    ],
)
def test_what_a_policy_keeps_is_no_value_without_fields(spark, policies, kept):
    form = find_kind("formats", "json").model_validate({"type": "json", "schema": SCHEMA})
    form = form.with_policies(Evolution.model_validate(policies).with_defaults(infers=False))
    values = {"new": b'{"new": 1}', "null": b'{"new": null}', "empty": b"{}"}
    found = dict(zip(values, outcomes(spark, form, list(values.values())), strict=True))
    assert [name for name, each in found.items() if each.reason is None] == kept
    reasons = {each.reason for each in found.values() if each.reason is not None}
    known = {"FIELD_UNDECLARED"} if policies.get("on_new_column") in {"evolve", "dead_letter"} else set()
    assert reasons == known | {no_declared_field.REASON}


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        ("json", {"ID": 1, "x": 2}),
        *(pytest.param(*each, marks=pytest.mark.long) for each in (("msgpack", {"ID": 1, "x": 2}), ("xml", {"ID": 1}))),
    ],
)
def test_a_column_that_must_be_there_names_the_spelling_too(spark, kind, fields):
    wanted = "; column Id differs in case from field ID: declare it as ID"
    form = find_kind("formats", kind).model_validate({"type": kind, "schema": "Id bigint NOT NULL, x int"})
    (found,) = outcomes(spark, form, [written(kind, fields)])
    assert (found.reason, found.field) == ("FIELD_MISSING", "Id")
    assert found.message.endswith(wanted)


@pytest.mark.parametrize(
    "kind", ["json", *(pytest.param(each, marks=pytest.mark.long) for each in ("msgpack", "key_value"))]
)
def test_long_names_are_cut(spark, kind):
    name = "N" * 150
    told = f"{NONE}; column {'N' * 100}... differs in case from field {'n' * 100}...: declare it as {'n' * 100}..."
    form = find_kind("formats", kind).model_validate({"type": kind, "schema": f"{name} bigint"})
    value = written(kind, {name.lower(): 1})
    assert outcomes(spark, form, [value]) == [Outcome(None, no_declared_field.REASON, name, told)]
