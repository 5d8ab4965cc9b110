"""The tools of this repository: circles, internals of Spark and the tests of a change are found."""

from __future__ import annotations

import pytest
from tools.changed_tests import ALWAYS, chosen
from tools.import_circles import ROOT, circles, imports_of, modules_of
from tools.spark_internals import uses_in_java, uses_in_python

MODULES = ("pack", "pack.a", "pack.b", "pack.c")


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import pack.a", {"pack.a"}),
        ("from pack import a, other", {"pack.a", "pack"}),
        ("from pack.a import thing", {"pack.a"}),
        ("def late():\n    from pack import b", {"pack.b"}),
        ("if TYPE_CHECKING:\n    from pack.c import Kind", {"pack.c"}),
        ("import json\nfrom elsewhere import a", set()),
    ],
)
def test_every_import_of_a_module_is_seen(source, found):
    assert imports_of(source, MODULES) == found


def test_circles_are_found_whole():
    graph = {"a": {"b"}, "b": {"c"}, "c": {"a", "d"}, "d": {"e"}, "e": set(), "f": {"g"}, "g": {"f"}}
    assert sorted(circles(graph)) == [["a", "b", "c"], ["f", "g"]]
    assert list(circles({"a": {"b"}, "b": {"c"}, "c": set()})) == []


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("frame._jdf.columns()", ["_jdf"]),
        ("plan = frame.queryExecution()", ["queryExecution"]),
        ('name = "org.apache.spark.sql.catalyst.InternalRow"', ["org.apache.spark.sql.catalyst.InternalRow"]),
        ('name = f"org.apache.spark.sql.delta.{kind}"', ["org.apache.spark.sql.delta."]),
        ('name = "org.apache.spark.sql.functions"', []),
        ("spark.sql('SELECT 1')", []),
    ],
)
def test_internals_of_spark_are_found_in_python(source, found):
    assert [name for _line, name in uses_in_python(source)] == found


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("import org.apache.spark.sql.classic.Dataset;", ["org.apache.spark.sql.classic.Dataset"]),
        ("import org.apache.spark.sql.delta.Snapshot;", ["org.apache.spark.sql.delta.Snapshot"]),
        ("org.apache.spark.rdd.RDD<Row> rows;", ["org.apache.spark.rdd.RDD"]),
        ("import org.apache.spark.sql.catalyst.InternalRow;", []),
        ("import org.apache.spark.sql.Dataset;", []),
        ("import io.delta.storage.HDFSLogStore;", []),
    ],
)
def test_internals_of_spark_are_found_in_java(source, found):
    assert [name for _line, name in uses_in_java(source)] == found


@pytest.fixture(scope="module")
def tests_of():
    sources = modules_of({"rivermouth": ROOT / "src/rivermouth"})
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return lambda *files: chosen(files, sources, tests)


@pytest.mark.parametrize(
    ("file", "test"),
    [
        ("src/rivermouth/formats/csv.py", "tests/laws/test_csv_law.py"),
        ("src/rivermouth/rows/keyed/history.py", "tests/laws/test_history_law.py"),
        ("src/rivermouth/cli/status.py", "tests/doors/test_status.py"),
        ("src/java/rivermouth/avro/Grown.java", "tests/laws/test_avro_law.py"),
        ("docs/how-to/upsert.md", "tests/docs/test_blocks.py::test_page[docs/how-to/upsert.md]"),
        ("tests/rows/test_changes.py", "tests/rows/test_changes.py"),
        ("uv.lock", "tests"),
        ("tests/conftest.py", "tests"),
    ],
)
def test_a_change_chooses_the_tests_that_it_can_break(file, test, tests_of):
    assert test in tests_of(file)


def test_a_change_that_breaks_no_test_chooses_those_that_always_run(tests_of):
    assert tests_of("changelog.d/+any.fixed.md") == sorted(ALWAYS)
