"""Finds what has grown too large. Part of `make check`; `python -m tools.sizes` lists it and exits with 1.

A module has at most 400 lines, a function 40 without its docstring, six parameters and four levels of nested blocks, a
folder 15 modules. Exempt are commands of click, whose parameters are their options, functions of `rivermouth.testing`,
which users call with keywords, and the folders with one file for each command or kind.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
SOURCES = ROOT / "src/rivermouth"
LINES, FUNCTION_LINES, PARAMETERS, LEVELS, MODULES = 400, 40, 6, 4, 15
ONE_A_FILE = {"cli", "formats"}
BY_KEYWORDS = "testing"

Function = ast.FunctionDef | ast.AsyncFunctionDef
BLOCKS = (ast.If, ast.For, ast.AsyncFor, ast.While, ast.With, ast.AsyncWith, ast.Try, ast.TryStar, ast.Match)


def problems_of(source: str) -> Iterator[tuple[int, str]]:
    """Yields the line of each module or function with this source that is too large, and what it has too much of."""
    if (lines := source.count("\n")) > LINES:
        yield 1, f"the module has {lines} lines"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, Function):
            for count, most, what in (
                (lines_of(node), FUNCTION_LINES, "lines"),
                (0 if is_command(node) else parameters_of(node), PARAMETERS, "parameters"),
                (levels_of(node), LEVELS, "levels of blocks"),
            ):
                if count > most:
                    yield node.lineno, f"{node.name} has {count} {what}"


def lines_of(function: Function) -> int:
    """Counts the lines from ``def`` on, without the docstring."""
    first = function.body[0]
    told = 0 if ast.get_docstring(function) is None else (first.end_lineno or 0) - first.lineno + 1
    return (function.end_lineno or 0) - function.lineno + 1 - told


def parameters_of(function: Function) -> int:
    """Counts the parameters, without ``self``; ``*args`` and ``**kwargs`` are none."""
    names = [each.arg for each in (*function.args.posonlyargs, *function.args.args, *function.args.kwonlyargs)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def is_command(function: Function) -> bool:
    """Whether it is a command of click: ``@click.command(...)``, or that of a group."""
    called = (each.func for each in function.decorator_list if isinstance(each, ast.Call))
    return any(isinstance(each, ast.Attribute) and each.attr == "command" for each in called)


def levels_of(node: ast.AST) -> int:
    """Counts the blocks within each other; ``elif`` is the level of its ``if``, and a function counts from 0 again."""
    deepest = 0
    for field in ("body", "orelse", "finalbody", "handlers", "cases"):
        inner = getattr(node, field, [])
        is_elif = field == "orelse" and isinstance(node, ast.If) and len(inner) == 1 and isinstance(inner[0], ast.If)
        for each in inner if isinstance(inner, list) else []:
            if not isinstance(each, (*Function.__args__, ast.ClassDef)):
                deepest = max(deepest, levels_of(each) + (isinstance(each, BLOCKS) and not is_elif))
    return deepest


def main() -> int:
    """Prints what is too large, one a line. Returns 1 if there is something, else 0."""
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        shown = path.relative_to(ROOT).as_posix()
        problems = problems_of(path.read_text("utf-8"))
        by_keywords = BY_KEYWORDS in path.parts
        found += [f"{shown}:{line}: {what}" for line, what in problems if not (by_keywords and "parameters" in what)]
    for folder in sorted(each for each in SOURCES.rglob("*") if each.is_dir()):
        count = len([each for each in folder.glob("*.py") if each.stem != "__init__"])
        if count > MODULES and folder.relative_to(SOURCES).as_posix() not in ONE_A_FILE:
            found.append(f"{folder.relative_to(ROOT).as_posix()}: the folder has {count} modules")
    for each in found:
        sys.stdout.write(f"{each}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
