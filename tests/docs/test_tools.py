"""The tools of this repository: circles, internals of Spark, the tests of a change, and parts of the long tests."""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections import Counter

import pytest
from tests.conftest import a_part, part_of
from tools.changed_tests import ALWAYS, PACKAGES, chosen
from tools.import_circles import ROOT, circles, imports_of, modules_of
from tools.sizes import problems_of
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


BLOCKS = """
def deep(rows):
    for row in rows:
        if row:
            pass
        elif rows:
            with row:
                try:
                    {inner}
                except ValueError:
                    pass
"""


@pytest.mark.parametrize(
    ("source", "found"),
    [
        ("pass\n" * 400, []),
        ("pass\n" * 401, ["the module has 401 lines"]),
        ("def few(a, b, c, *, d, e, f, **g): ...\n", []),
        ("def many(a, b, c, *, d, e, f, g): ...\n", ["many has 7 parameters"]),
        ("class Kind:\n    def few(self, a, b, c, d, e, f): ...\n", []),
        ("@group.command('x')\ndef options(a, b, c, d, e, f, g): ...\n", []),
        ("def long():\n" + "    pass\n" * 39, []),
        ("def long():\n" + "    pass\n" * 40, ["long has 41 lines"]),
        ('def told():\n    """One.\n\n    Two.\n    """\n' + "    pass\n" * 39, []),
        (BLOCKS.format(inner="pass"), []),
        (BLOCKS.format(inner="while row: pass"), ["deep has 5 levels of blocks"]),
    ],
)
def test_what_is_too_large_is_found(source, found):
    assert [what for _line, what in problems_of(source)] == found


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
    sources = modules_of(PACKAGES)
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    return lambda *files: chosen(files, sources, tests)


@pytest.mark.parametrize(
    ("file", "test"),
    [
        pytest.param("src/rivermouth/formats/csv.py", "tests/laws/test_csv_law.py", marks=pytest.mark.long),
        ("src/rivermouth/rows/keyed/history.py", "tests/laws/test_history_law.py"),
        ("src/rivermouth/cli/status.py", "tests/doors/test_status.py"),
        ("src/java/rivermouth/avro/Grown.java", "tests/laws/test_avro_law.py"),
        ("docs/how-to/upsert.md", "tests/docs/test_blocks.py::test_page[docs/how-to/upsert.md]"),
        ("docs/how-to/upsert.md", "tests/docs/test_site.py"),
        ("docs/how-to/deleted.md", "tests/docs/test_site.py"),
        ("docs/how-to/deleted.md", "tests/docs/test_links.py"),
        ("docs/adr/0001-truth-in-the-table.md", "tests/docs/test_links.py"),
        ("docs/explanation/architecture.md", "tests/docs/test_architecture.py"),
        ("docs/reference/rivermouth.schema.json", "tests/docs/test_reference.py"),
        ("docs/reference/json.md", "tests/rows/test_format_json_suite.py"),
        ("docs/images/records-way.svg", "tests/docs/test_links.py"),
        ("CONTRIBUTING.md", "tests/docs/test_blocks.py::test_page[CONTRIBUTING.md]"),
        ("changelog.d/+any.fixed.md", "tests/docs/test_links.py"),
        ("tools/sizes.py", "tests/docs/test_tools.py"),
        ("tools/reference_errors.py", "tests/docs/test_reference.py"),
        ("tools/docs_words.toml", "tests/docs/test_reference.py"),
        ("bench/measure.py", "tests/docs/test_bench_smoke.py"),
        ("tests/rows/test_changes.py", "tests/rows/test_changes.py"),
        ("uv.lock", "tests"),
        ("tests/conftest.py", "tests"),
    ],
)
def test_a_change_chooses_the_tests_that_it_can_break(file, test, tests_of):
    assert test in tests_of(file)


@pytest.mark.parametrize(
    "file",
    [
        "docs/adr/0001-truth-in-the-table.md",
        "docs/explanation/architecture.md",
        "docs/how-to/deleted.md",
        "docs/images/records-way.svg",
        "docs/reference/json.md",
        "docs/reference/rivermouth.schema.json",
        "CHANGELOG.md",
    ],
)
def test_what_has_no_block_that_is_tested_chooses_no_test_of_blocks(file, tests_of):
    # pytest refuses the whole selection for one id that it does not find.
    assert [each for each in tests_of(file) if "test_blocks" in each] == []


def test_a_change_of_nothing_chooses_the_tests_that_always_run(tests_of):
    assert tests_of() == sorted(ALWAYS)


def test_parts_have_about_as_many_tests_and_a_test_stays_in_its_part():
    names = [f"tests/laws/test_any.py::test_law[{number}]" for number in range(800)]
    found = Counter(part_of(name, 8) for name in names)
    assert sorted(found) == [1, 2, 3, 4, 5, 6, 7, 8]
    assert all(60 < count < 140 for count in found.values())
    assert [part_of(name, 8) for name in names[:6]] == [7, 8, 5, 6, 3, 4]


def test_one_part_is_run_and_the_others_are_left_out():
    command = [sys.executable, "-m", "pytest", "--collect-only", "-q", "tests/docs/test_links.py", "--part", "1/3"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "::" in line]
    assert found
    assert {part_of(name, 3) for name in found} == {1}
    (run, all_of_them, others) = map(
        int, re.search(r"(\d+)/(\d+) tests collected \((\d+) deselected", done.stdout).groups()
    )
    assert run == len(found)
    assert run + others == all_of_them


@pytest.mark.parametrize("text", ["", "3", "0/8", "9/8", "1/0", "a/8", "1/8/2", "-1/8"])
def test_what_is_no_part_is_refused(text):
    with pytest.raises(argparse.ArgumentTypeError, match="is no part: write 1/8 to 8/8"):
        a_part(text)


def test_a_part_is_a_number_of_a_count():
    assert a_part("3/8") == (3, 8)
