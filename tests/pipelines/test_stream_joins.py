"""Joins of two streams: a NULL key is equal to no other, as in SQL."""

from __future__ import annotations

import pytest

PYTHON = """
from pyspark import pipelines as dp

def stream(name):
    rows = spark.readStream.schema(f"{name} int, {name}_key string, {name}_at timestamp").json(f"{folder}/{name}")
    return rows.withWatermark(f"{name}_at", "1 hour")

NEAR = "a_key = b_key AND b_at BETWEEN a_at - INTERVAL 1 HOUR AND a_at + INTERVAL 1 HOUR"

def joined(kind):
    from pyspark.sql import functions as F
    found = stream("a").join(stream("b"), F.expr(NEAR), kind)
    return found.selectExpr("a", "b") if kind != "left_semi" else found.selectExpr("a", "CAST(NULL AS INT) AS b")

for kind in KINDS:
    @dp.table(name=kind)
    def one(kind=kind):
        return joined(kind)
"""
CDC_AND_SINK = """
dp.create_streaming_table("newest")
dp.create_auto_cdc_flow("newest", "changes", keys=["a"], sequence_by="b")

@dp.temporary_view
def changes():
    return joined("inner")

@dp.foreach_batch_sink
def written(frame, number):
    frame.write.format("delta").mode("append").save(f"{folder}/lake/default/written")

@dp.append_flow(target="written")
def to_sink():
    return joined("inner")
"""
AT = "2026-01-01T00:00:00Z"
# Far ahead, so that what has no partner is written.
END = {"a": 99, "a_key": "end", "a_at": "2026-01-02T00:00:00Z"}


EXPECTED = {
    "inner": [(1, 1)],
    "left_outer": [(1, 1), (2, None), (3, None)],
    "right_outer": [(1, 1), (None, 2), (None, 3)],
    "left_semi": [(1, None)],
}


@pytest.mark.parametrize(
    ("kinds", "more"),
    [
        (("inner", "left_outer"), ""),
        pytest.param(("inner", "right_outer", "left_semi"), CDC_AND_SINK, marks=pytest.mark.long),
    ],
)
def test_a_null_key_is_equal_to_no_other(folder, kinds, more):
    folder.write("src/a.py", f"folder, KINDS = {str(folder.folder)!r}, {kinds!r}\n{PYTHON}{more}")
    for name, keys in (("a", ["x", None, "y"]), ("b", ["x", None, "z"])):
        rows = [{name: number, f"{name}_key": key, f"{name}_at": AT} for number, key in enumerate(keys, start=1)]
        folder.feed(f"{name}/1.json", *rows)
    assert {each.error and str(each.error) for each in folder.run().values()} == {None}
    for name in ("a", "b"):
        folder.feed(f"{name}/2.json", {each.replace("a", name, 1): value for each, value in END.items()})
    assert {each.error and str(each.error) for each in folder.run().values()} == {None}
    expected = {name: EXPECTED[name] for name in kinds}
    expected |= dict.fromkeys(("newest", "written"), EXPECTED["inner"]) if more else {}
    found = {name: [row for row in folder.rows(f"default.{name}", "a, b") if 99 not in row] for name in expected}
    assert found == expected
