"""The JSON parsing test suite, each document as the record itself and inside another one."""

from __future__ import annotations

import base64
import gzip
import json
import re
from pathlib import Path

import pytest
from tests.rows.formats import outcomes

from rivermouth.formats.json import Json

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs/reference/json.md"

# What an object is read into, where the suite's documents stand in field a.
SCHEMAS = [
    "a string",
    *(
        pytest.param(each, marks=pytest.mark.long)
        for each in ("a array<string>", "a double", "a bigint", "a map<string,string>")
    ),
    "b int",
]


def _suite():
    with gzip.open(ROOT / "tests/data/json-test-suite/parsing.jsonl.gz", "rt") as lines:
        rows = [json.loads(line) for line in lines]
    return {row["name"]: (row["expect"], base64.b64decode(row["b64"])) for row in rows}


SUITE = _suite()


def of(expect):
    return {name: value for name, (found, value) in SUITE.items() if found == expect}


def inside(values):
    return [b'{"a":' + value + b"}" for value in values]


def test_the_suite_is_whole():
    assert (len(of("reject")), len(of("accept")), len(of("either"))) == (188, 95, 35)


@pytest.mark.parametrize("declared", SCHEMAS)
def test_what_must_be_rejected_is_refused_as_a_record(spark, declared):
    values = of("reject")
    found = dict(zip(values, outcomes(spark, Json(schema=declared), list(values.values())), strict=True))
    assert {name: o.reason for name, o in found.items() if o.reason not in {"INVALID_JSON", "INVALID_UTF8"}} == {
        "n_structure_100000_opening_arrays.json": "TOO_DEEP",
        "n_structure_open_array_object.json": "TOO_DEEP",
    }


@pytest.mark.parametrize("declared", SCHEMAS)
def test_what_must_be_rejected_is_refused_inside_a_record(spark, declared):
    values = of("reject")
    found = dict(zip(values, outcomes(spark, Json(schema=declared), inside(values.values())), strict=True))
    assert {name: o.reason for name, o in found.items() if o.reason not in {"INVALID_JSON", "INVALID_UTF8"}} == {
        "n_structure_100000_opening_arrays.json": "TOO_DEEP",
        "n_structure_open_array_object.json": "TOO_DEEP",
    }


def test_what_must_be_accepted_is_stored_if_it_is_an_object(spark):
    values = of("accept")
    objects = {name for name, value in values.items() if isinstance(json.loads(value), dict)}
    form = Json(schema="a string", no_declared_field="keep")
    found = dict(zip(values, outcomes(spark, form, list(values.values())), strict=True))
    assert len(objects) == 12
    assert {name: found[name].reason for name in objects} == dict.fromkeys(objects)
    assert {o.reason for name, o in found.items() if name not in objects} == {"NOT_AN_OBJECT"}


@pytest.mark.parametrize("declared", ["a string", "b int"])
def test_what_must_be_accepted_is_stored_inside_a_record(spark, declared):
    values = of("accept")
    found = outcomes(spark, Json(schema=declared, no_declared_field="keep"), inside(values.values()))
    assert {name: o.reason for name, o in zip(values, found, strict=True)} == dict.fromkeys(values)


def test_the_page_names_the_verdict_on_every_document_that_may_be_either(spark):
    values = of("either")
    record = outcomes(spark, Json(schema="a string", no_declared_field="keep"), list(values.values()))
    declared = outcomes(spark, Json(schema="a string"), inside(values.values()))
    ignored = outcomes(spark, Json(schema="b string", no_declared_field="keep"), inside(values.values()))
    found = {
        name: tuple(o.reason or "accepted" for o in verdicts)
        for name, *verdicts in zip(values, record, declared, ignored, strict=True)
    }
    rows = re.findall(r"^\| `(i_[^`]+)` \| (\S+) \| (\S+) \| (\S+) \| (.+) \|$", PAGE.read_text(), re.MULTILINE)
    assert {name: tuple(verdicts) for name, *verdicts, _ in rows} == found
    assert all(len(why) > 10 for *_, why in rows)
