"""What users write as arguments of definitions: columns, and table properties."""

import functools

import pytest
from pyspark.sql import functions as F

from rivermouth.errors import DefinitionInvalid
from rivermouth.pipelines.python.arguments import column_text
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.registry import Registry
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


SHARED = """
import functools
import dlt
def rows(): return 1
def of(n): return n
for name, rules in {"a": {"sound": "n > 0"}, "b": {"sound": "n > 9", "more": "m"}, "c": {}}.items():
    dlt.table(name=name)(dlt.expect_all_or_drop(rules)(dlt.expect("of " + name, name)(rows)))
twice = dlt.expect("sound", "n > 1")(functools.partial(of, 2))
for name in ("d", "e"):
    dlt.view(name=name)(twice)
@dlt.expect("above", "n > 4")
@dlt.table(name="f")
@dlt.expect("below", "n > 3")
@dlt.table
def g():
    "Seven."
    return 7
FOUND.append((rows(), g(), g.__name__, g.__doc__))
"""


def evaluated(folder, text, *found):
    file = folder / "a.py"
    file.write_text(text)
    with importable({}):
        return Evaluation(folder, {"FOUND": found[0] if found else None}, {}, Registry(folder)).evaluate([file])


def test_a_function_can_be_decorated_for_several_datasets(tmp_path):
    found = []
    datasets = evaluated(tmp_path, SHARED, found).datasets
    assert {each.name: [one.condition for one in each.expectations] for each in datasets} == {
        "a": ["n > 0", "a"],
        "b": ["n > 9", "m", "b"],
        "c": ["c"],
        "d": ["n > 1"],
        "e": ["n > 1"],
        "g": ["n > 3"],
        "f": ["n > 4"],
    }
    assert found == [(1, 7, "g", "Seven.")]
    assert [each.query.function() for each in datasets] == [1, 1, 1, 2, 2, 7, 7]
    assert datasets[-1].query.function.__code__.co_filename.endswith("a.py")


def test_a_function_of_a_flow_can_define_a_view_with_expectations_too(tmp_path):
    text = "import dlt\ndef rows(): return 1\ndlt.append_flow(target='a')(rows)\n"
    found = evaluated(tmp_path, f"{text}dlt.view(name='b')(dlt.expect('x', 'y')(rows))\n")
    assert [each.name for each in found.flows] == ["rows"]
    assert [(each.name, [one.condition for one in each.expectations]) for each in found.datasets] == [("b", ["y"])]


@pytest.mark.parametrize(
    ("text", "line", "what"),
    [
        ("import dlt\n@dlt.expect_or_drop('x', 'y')\ndef a(): ...\n", 2, "expect_or_drop"),
        ("import dlt\n@dlt.table\ndef a(): ...\ndlt.expect_all({'x': 'y'})(a.__wrapped__)\n", 4, "expect_all"),
    ],
)
def test_expectations_without_a_dataset_are_refused(tmp_path, text, line, what):
    with pytest.raises(DefinitionInvalid) as refused:
        evaluated(tmp_path, text)
    assert str(refused.value) == (
        f"[DEFINITION_INVALID] {what}: no table and no view has it; the pipeline was not run\n"
        f"  at: a.py:{line}\n  hint: @dp.table above @dp.{what}"
    )


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
