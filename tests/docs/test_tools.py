"""The tools of this repository: circles of imports are found, and a change chooses the tests that it can break."""

from __future__ import annotations

import pytest
from tools.changed_tests import ALWAYS, chosen
from tools.import_circles import ROOT, circles, imports_of, modules_of

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
