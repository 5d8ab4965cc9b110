"""What users write as arguments of definitions: columns, and table properties."""

import functools

import pytest
from pyspark.sql import functions as F

from rivermouth.pipelines.python.arguments import column_text
from rivermouth.pipelines.session.snapshot_functions import takes_version
from rivermouth.pipelines.session.table_properties import stored, with_known_properties
from rivermouth.pipelines.spec import Dataset, Definitions, PythonQuery, SourceLine


def snapshot(_folder, _latest):
    return None


class Snapshots:
    def __call__(self, _latest):
        return None

    def newest(self):
        return None


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (functools.partial(snapshot, "in"), True),
        (Snapshots(), True),
        (lambda *_found: None, True),
        (Snapshots().newest, False),
        (lambda *, _folder="in": None, False),
    ],
)
def test_a_function_of_snapshots_takes_the_newest_version_if_it_has_a_place_for_it(function, takes):
    assert takes_version(PythonQuery(function)) == takes


def test_a_column_is_the_same_as_its_text(spark):
    rows = [("DELETE", 1, 2.5, None), ("it's =(x", 5, -1.0, "q"), ("a\\b'c", 0, 7.0, "z")]
    frame = spark.createDataFrame(rows, "op string, a int, b double, n string")
    op, a, b, n = map(F.col, frame.columns)
    columns = [
        op == "DELETE",
        op != "DELETE",
        (a > 1) & (b <= 2.5),
        (a < 1) | ~n.isNull(),
        ~(op == "DELETE"),
        n.eqNullSafe("q"),
        -(a + 1) * 2 - b / 2 % 3,
        a.between(1, 3) & op.isin("DELETE", "x"),
        F.when(a == 1, "=(x").when(b > 3, F.lit("it's and(")).otherwise(n),
        F.struct("a", b + 1),
        F.coalesce(n, op) == "it's =(x",
        op == F.lit("a\\b'c"),
        F.expr("a = 1 AND op = 'it''s'"),
        F.expr("op in('DELETE', 'x') and(a>(b-1))"),
        F.expr("a*(b+1)") > F.expr("b-(a)"),
        ~F.expr("not(op=('DELETE'))"),
        F.exists(F.array(op, n), lambda each: each == "DELETE"),
        F.array(a, a + 1)[F.size(F.array(a)) - 1] == 1,
        a.bitwiseAND(3) == 1,
        a.cast("string") == "1",
    ]
    wanted = frame.select(*(each.alias(f"c{place}") for place, each in enumerate(columns)))
    found = frame.selectExpr(*(f"{column_text(each)} AS c{place}" for place, each in enumerate(columns)))
    assert found.collect() == wanted.collect()


def test_properties_that_delta_does_not_know_are_named_and_others_kept(spark):
    at = SourceLine("a.py", 3)
    properties = {
        "quality": "bronze",
        "delta.enableChangeDataFeed": "true",
        "delta.targetFileSize": "64mb",
        "pipelines.reset.allowed": "false",
        "pipelines.autoOptimize.managed": "true",
        "pipelines.channel": "preview",
        "delta.autoOptimize.autoCompact": "true",
        "delta.minReaderVersion": "2",
    }
    found = with_known_properties(spark, Definitions(datasets=(Dataset("t", "table", at, properties=properties),)))
    assert found.notes == tuple(
        (at, f"dataset t: {each}")
        for each in (
            "delta.targetFileSize has no effect, Delta Lake does not know it",
            "pipelines.autoOptimize.managed has no effect here: `rivermouth tables optimize` compacts the table",
            "pipelines.channel has no effect here",
            "delta.minReaderVersion has no effect, Delta Lake sets it by what a table needs",
        )
    )
    kept = found.datasets[0].properties
    assert set(kept) == set(properties) - {"delta.targetFileSize", "delta.minReaderVersion"}
    assert stored(kept) == {
        "quality": "bronze",
        "delta.enableChangeDataFeed": "true",
        "delta.autoOptimize.autoCompact": "true",
    }
