"""The reference page ``pipelines-compatibility.md``, made of the items that ``tests/pipelines`` proves."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

ROOT: Final = Path(__file__).resolve().parents[1]
_TIERS: Final = {
    "A": "In 20 or more of 86 public repositories",
    "B": "In 10 to 19 repositories",
    "C": "In 3 to 9 repositories",
    "D": "In one or two repositories, or in the documentation alone",
}
_HEAD: Final = """# Pipelines: what is compatible

What pipeline files for Databricks and for Spark have, ranked by how many of 86 public repositories have it. Each row is
proved by a test, whose function is in the last column, in `tests/pipelines/test_compatibility.py`.

- **works**: as in Databricks.
- **differs**: it is accepted, and the last but one column says what is different.
- **refused**: an error names it with its line, and nothing is run.

For what it means to run such files, see [Run a declarative pipeline](../how-to/run-pipelines.md)."""


def compatibility_page() -> str:
    """The text of the page."""
    items = [*_items()]
    counts = {verdict: sum(each.verdict == verdict for _, each in items) for verdict in ("works", "differs", "refused")}
    said = ", ".join(f"{number} {verdict}" for verdict, number in counts.items())
    parts = [_HEAD, f"Of {len(items)} items: {said}."]
    for tier, title in _TIERS.items():
        rows = [_row(each, test) for test, each in items if each.tier == tier]
        parts.append("\n".join([f"## {title}\n", "| item | | | test |", "|---|---|---|---|", *rows]))
    return "\n\n".join(parts)


def _items() -> Iterator[tuple[str, Any]]:
    """The items with the functions that test them."""
    sys.path.insert(0, str(ROOT))
    try:
        from tests.pipelines import compatibility_defined, compatibility_run  # noqa: PLC0415 - not in the package
    finally:
        sys.path.remove(str(ROOT))
    for test, items in (
        ("test_it_is_defined", compatibility_defined.DEFINED),
        ("test_it_runs", compatibility_run.RUN),
        ("test_it_is_refused_by_name_and_line", compatibility_defined.REFUSED),
        ("test_a_source_that_spark_does_not_have_is_refused_by_name_and_line", compatibility_run.FUNCTIONS),
        ("test_its_options_are_read", compatibility_run.KINESIS),
    ):
        for each in items:
            yield test, each


def _row(item: Any, test: str) -> str:
    cells = (item.name, item.verdict, item.note, f"`{test}`")
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"
