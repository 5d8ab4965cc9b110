"""Updates whose rows lack a declared column: NULL is stored, or they are refused where it is said."""

from __future__ import annotations

import json
from functools import reduce

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame
from tests.rows.formats import frame

from rivermouth import names
from rivermouth.extend import find_kind

ENVELOPES = {
    "debezium": lambda op, *rows: {"op": op[0], "after": rows[0]},
    "canal": lambda op, *rows: {"type": {"c": "INSERT", "u": "UPDATE"}[op], "data": rows},
    "maxwell": lambda op, *rows: {"type": {"c": "insert", "u": "update"}[op], "data": rows[0]},
    "ogg": lambda op, *rows: {"op_type": {"c": "I", "u": "U"}[op], "after": rows[0]},
}
WHOLE = {"id": "1", "v": "x", "at": "2026-01-01"}
# The operation, the rows, and the column that the update lacks.
CASES = [
    ("u", [WHOLE], None),
    ("u", [{"id": "1", "v": None, "at": None}], None),
    ("u", [{"id": "1", "v": "x"}], "at"),
    ("u", [{"id": "1", "at": "2026-01-01"}], "v"),
    ("c", [{"id": "1"}], None),
]
SEVERAL = ("u", [WHOLE, {"id": "2", "v": "y"}], "at")
MESSAGE = (
    "the update does not have the column {}: let the source log whole rows (MySQL: binlog_row_image = FULL, "
    "GoldenGate: NOCOMPRESSUPDATES); absent_in_update: null stores NULL for it"
)


def told(spark, kind, cases, setting):
    text = {"type": kind, "schema": "id string, v string, at date"}
    form = find_kind("formats", kind).model_validate(text | ({} if setting is None else {"absent_in_update": setting}))
    sent = [json.dumps(ENVELOPES[kind](op, *rows)).encode() for op, rows, _ in cases]
    explained = form.explain(form.decode(frame(spark, sent)))
    verdict = f"IF({names.DECODED}, NULL, struct({names.REASON}, {names.FIELD}, {names.MESSAGE}))"
    return explained.selectExpr(f"'{kind}'", f"'{setting}'", names.OFFSET, verdict)


@pytest.mark.long
def test_an_update_that_lacks_a_column_is_refused_where_it_is_said(spark):
    cases = {kind: [*CASES, *([SEVERAL] if kind == "canal" else [])] for kind in ENVELOPES}
    frames = [told(spark, kind, cases[kind], setting) for kind in cases for setting in (None, "null", "refuse")]
    found = {}
    for kind, setting, place, verdict in reduce(DataFrame.unionAll, frames).collect():
        found.setdefault((kind, setting, place), []).append(verdict and tuple(verdict))
    for kind, mine in cases.items():
        for place, (_, rows, lacks) in enumerate(mine):
            refused = lacks and ("COLUMN_NOT_SENT", lacks, MESSAGE.format(lacks))
            whole = [None] * (len(rows) - 1)
            assert found[kind, "refuse", place] == [*whole, refused], (kind, rows)
            assert found[kind, "None", place] == found[kind, "null", place] == [*whole, None]


def test_documents_may_lack_any_column():
    text = {"type": "debezium", "connector": "mongodb", "schema": "_id string", "absent_in_update": "refuse"}
    with pytest.raises(ValidationError, match="absent_in_update is about columns, and a document"):
        find_kind("formats", "debezium").model_validate(text)
