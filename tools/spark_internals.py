"""Finds what is not public in Spark, Delta and PySpark outside of the packages for it. Part of `make check`.

These packages are `ports/internals/` in Python and `rivermouth.internals` in Java. With a new version of Spark or
Delta they are what has to be read again. `python -m tools.spark_internals` lists every other use and exits with 1.
"""

from __future__ import annotations

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
PYTHON = ROOT / "src/rivermouth"
JAVA = ROOT / "src/java/rivermouth"
OF_PYTHON = ("ports/internals/", "decoding/jvm/java_objects.py")
OF_JAVA = "internals/"

CLASSES = re.compile(
    r"\borg\.apache\.spark\.(?:sql\.(?:execution|catalyst|internal|classic|delta)|internal|scheduler|rdd)\b[\w.]*"
)
# What connectors of Spark exchange with it: rows, and the values in them.
ROWS = re.compile(
    r"org\.apache\.spark\.sql\.catalyst\."
    r"(?:InternalRow|expressions\.GenericInternalRow|util\.(?:ArrayData|GenericArrayData|ArrayBasedMapData))$"
)
ATTRIBUTES = frozenset(
    {
        *("_jvm", "_jdf", "_jc", "_jsc", "_jsparkSession", "_gateway", "_active_spark_context", "_ensure_initialized"),
        *("_instantiatedSession", "_activeSession"),
        *("queryExecution", "sessionState", "sharedState", "statusStore", "getRDDStorageInfo", "cloneSession"),
        "internalCreateDataFrame",
    }
)


def uses_in_python(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each internal class or attribute that a module with this source names."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Attribute) and node.attr in ATTRIBUTES:
            yield node.lineno, node.attr
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from ((node.lineno, found) for found in CLASSES.findall(node.value))


def uses_in_java(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line and the name of each internal class that a Java file with this source names."""
    for number, line in enumerate(source.splitlines(), 1):
        yield from ((number, found) for found in CLASSES.findall(line) if not ROWS.fullmatch(found))


def main() -> int:
    """Prints each use, one a line. Returns 1 if there is one, else 0."""
    found = []
    for folder, pattern, allowed, uses in (
        (PYTHON, "*.py", OF_PYTHON, uses_in_python),
        (JAVA, "*.java", OF_JAVA, uses_in_java),
    ):
        for path in sorted(folder.rglob(pattern)):
            if not path.relative_to(folder).as_posix().startswith(allowed):
                shown = path.relative_to(ROOT).as_posix()
                found += [f"{shown}:{line}: {name} is internal" for line, name in uses(path.read_text("utf-8"))]
    for each in found:
        sys.stdout.write(f"{each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
