"""Source files as cells: notebooks of Databricks (``.py``, ``.sql``), of Jupyter (``.ipynb``), and plain files."""

from __future__ import annotations

import ast
import json
import os
import re
import warnings
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final, Literal

from rivermouth.errors import NotebookInvalid
from rivermouth.pipelines.spec import SourceLine

Language = Literal["python", "sql", "markdown", "pip", "run", "shell", "scala", "r"]

SUFFIXES: Final = (".py", ".sql", ".ipynb")
"""Of source files of a pipeline."""

_COMMENT: Final = {".py": "#", ".sql": "--"}
_CELL_MAGICS: Final[dict[str, Language]] = {
    "python": "python",
    "py": "python",
    "sql": "sql",
    "md": "markdown",
    "md-sandbox": "markdown",
    "markdown": "markdown",
    "html": "markdown",
    "skip": "markdown",
    "run": "run",
    "sh": "shell",
    "bash": "shell",
    "fs": "shell",
    "scala": "scala",
    "r": "r",
}
_WATCHING: Final = ("time", "timeit", "capture", "prun")
_MAGIC: Final = re.compile(r"\s*%%?([A-Za-z][\w-]*)(?:[ \t]+(.*))?$")
_LINE_MAGIC: Final = re.compile(r"\s*(?:%%?[A-Za-z]|!)")
_PIP: Final = re.compile(r"\s*(?:[%!]{0,2}(?:uv\s+)?pip3?|[%!]\s*(?:\S*/)?python3?\s+-m\s+pip)\s+(install\b.*)$")
_TITLE: Final = re.compile(r"\s*(?:#|--)\s*DBTITLE\b")
_RUN: Final = re.compile(r"""\s*(?:"([^"]+)"|'([^']+)'|(.*?))\s*(\$.*)?$""")
_ARGUMENT: Final = re.compile(r"""\$([\w.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'$]+))\s*""")
_LANGUAGES: Final[dict[str, Language]] = {"python": "python", "sql": "sql", "scala": "scala", "r": "r"}


@dataclass(frozen=True, slots=True)
class Cell:
    """A part of a source file in one language.

    Attributes:
        language: ``pip`` are the arguments of pip, ``run`` is the path of another notebook; ``shell`` are also magics
            that nothing here answers to.
        text: Without the marks of the notebook. Each line is on the line that it has in the file, counted from ``at``.
        at: Where its first line is.
        arguments: Of ``run``: the values of widgets of the other notebook, ``$name="value"``.
    """

    language: Language
    text: str
    at: SourceLine
    arguments: Mapping[str, str] = field(default_factory=dict)

    @property
    def padded(self) -> str:
        """The text with empty lines before it, so that line 1 of the text is line 1 of the file or of its cell."""
        return "\n" * (self.at.line - 1) + self.text


def cells(path: Path, shown: str) -> list[Cell]:
    """The cells of a source file, in their order; a file that is no notebook is one cell.

    Lines of pip and other magics within a cell of Python are cells of their own before it, and empty lines in it.

    Args:
        path: The file: ``.py``, ``.sql`` or ``.ipynb``.
        shown: Its name in messages.

    Raises:
        NotebookInvalid: The file cannot be read, is no UTF-8, has another suffix, or is no notebook of Jupyter. Or
            the arguments of a ``%run`` are not written as ``$name="value"``.
    """
    suffix = path.suffix.lower()
    if suffix not in SUFFIXES:
        fix = f"name a file that ends in {', '.join(SUFFIXES)}"
        raise NotebookInvalid(file=shown, detail="it is no Python, SQL or Jupyter file", fix=fix)
    text = _text(path, shown)
    parts = _jupyter(text, shown) if suffix == ".ipynb" else _marked(text, suffix, shown)
    return [cell for part in parts for cell in _by_magics(part) if cell.text.strip()]


def run_target(cell: Cell, path: Path) -> Path:
    """The file that a cell of ``run`` means, whose path may lack its suffix.

    Args:
        cell: Of the notebook.
        path: The notebook: the path in the cell is relative to its folder.

    Raises:
        NotebookInvalid: There is no such file.
    """
    asked = Path(os.path.normpath(path.parent / cell.text))
    for suffix in ("", *SUFFIXES):
        if (named := asked.with_name(asked.name + suffix)).is_file():
            return named
    shown = cell.at.file
    detail = f"%run: there is no notebook {cell.text}"
    raise NotebookInvalid(at=str(cell.at), file=shown, detail=detail, fix=f"write a path relative to {shown}")


def pip_requirements(cell: Cell) -> list[str]:
    """What a cell of pip installs, as it is written there: ``faker``, ``pandas>=2``, the name of a wheel's package.

    Files of requirements, folders and options of pip are left out.
    """
    found: list[str] = []
    for line in cell.text.splitlines():
        words = _words(line)
        if words[:1] == ["install"]:
            found += _required(words[1:])
    return list(dict.fromkeys(found))


def missing(requirements: Iterable[str]) -> list[str]:
    """Those of the requirements whose package is not installed here; versions are not compared."""
    from importlib.metadata import PackageNotFoundError, distribution  # noqa: PLC0415 - costs 20 ms

    gone = []
    for requirement in requirements:
        name = re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]
        try:
            distribution(name)
        except (PackageNotFoundError, ValueError):
            gone.append(requirement)
    return gone


def _text(path: Path, shown: str) -> str:
    try:
        return path.read_bytes().decode("utf-8-sig").replace("\r\n", "\n")
    except UnicodeDecodeError:
        raise NotebookInvalid(file=shown, detail="it is no UTF-8", fix="save it as UTF-8") from None
    except OSError as error:
        fix = "check the path and its access rights"
        raise NotebookInvalid(file=shown, detail=f"it cannot be read: {error.strerror}", fix=fix) from None


def _marked(text: str, suffix: str, shown: str) -> Iterator[Cell]:
    """The cells of a file in which comments part them."""
    mark = re.escape(_COMMENT[suffix])
    header = re.compile(rf"{mark}\s*Databricks notebook source\s*$")
    border = re.compile(rf"{mark}\s*COMMAND\s*-{{4,}}\s*$")
    magic = re.compile(rf"{mark}\s*MAGIC ?(.*)$")
    language = _LANGUAGES["python" if suffix == ".py" else "sql"]
    lines = text.split("\n")
    first = next((line for line in lines if line.strip()), "")
    if not header.match(first) and not any(border.match(line) for line in lines):
        yield Cell(language, text, SourceLine(shown, 1))
        return
    start = 0
    for number, line in enumerate([*lines, None]):
        if line is None or border.match(line) or header.match(line):
            part = [found[1] if (found := magic.match(each)) else each for each in lines[start:number]]
            yield Cell(language, "\n".join(part), SourceLine(shown, start + 1))
            start = number + 1


def _jupyter(text: str, shown: str) -> Iterator[Cell]:
    document = _json(text, shown)
    default = _jupyter_language(document) or "python"
    # In version 3 of the format the cells are in sheets, and their text is the input.
    sheets = [document, *(document.get("worksheets") or ())]
    for number, cell in enumerate((each for sheet in sheets for each in sheet.get("cells") or ()), 1):
        source = cell.get("source", cell.get("input", ""))
        code = source if isinstance(source, str) else "".join(source)
        at = SourceLine(shown, 1, number)
        if cell.get("cell_type") == "code":
            said = _under(cell, "metadata", "vscode", "languageId") or cell.get("language")
            yield Cell(_LANGUAGES.get(str(said).lower(), default), code, at)
        else:
            yield Cell("markdown", code, at)


def _json(text: str, shown: str) -> dict[str, Any]:
    try:
        document = json.loads(text)
    except ValueError as error:
        line = getattr(error, "lineno", 1)
        fix = "save it again with Jupyter or Databricks"
        raise NotebookInvalid(at=f"{shown}:{line}", file=shown, detail="it is no JSON", fix=fix) from None
    if not isinstance(document, dict) or not {"cells", "worksheets"} & document.keys():
        fix = "save it again with Jupyter or Databricks"
        raise NotebookInvalid(file=shown, detail="it is JSON, but no notebook: it has no cells", fix=fix)
    return document


def _jupyter_language(document: dict[str, Any]) -> Language | None:
    said = (
        _under(document, "metadata", "application/vnd.databricks.v1+notebook", "language"),
        _under(document, "metadata", "language_info", "name"),
        _under(document, "metadata", "kernelspec", "language"),
    )
    return next((_LANGUAGES[str(each).lower()] for each in said if str(each).lower() in _LANGUAGES), None)


def _under(value: Any, *keys: str) -> Any:
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _by_magics(cell: Cell) -> Iterator[Cell]:
    """A cell in the language that its magic names, and lines of magics in Python as cells of their own."""
    if cell.language == "markdown":
        yield cell
        return
    lines = cell.text.split("\n")
    first = next((n for n, line in enumerate(lines) if line.strip() and not _TITLE.match(line)), None)
    found = _MAGIC.match(lines[first]) if first is not None else None
    language = _cell_language(found[0], found[1].lower()) if found else None
    if found is None or first is None:
        yield from _by_lines(cell)
    elif language is None:
        # Magics of a line, such as %pip, are Python's in a notebook of any language.
        yield from _by_lines(Cell("python", cell.text, cell.at))
    elif language == "run":
        rest = [*lines[:first], "", *lines[first + 1 :]]
        yield from _by_lines(Cell(cell.language, "\n".join(rest), cell.at))
        yield _run(found[2] or "", _moved(cell.at, first))
    else:
        # What follows on the magic's own line keeps its line, and its title is a comment of the notebook.
        rest = [found[2] or "", *lines[first + 1 :]]
        yield from _by_lines(Cell(language, "\n".join(rest), _moved(cell.at, first)))


def _cell_language(line: str, magic: str) -> Language | None:
    """The language of a cell that begins with a magic; None for a magic of one line."""
    if magic in _CELL_MAGICS:
        return _CELL_MAGICS[magic]
    # %%writefile and its like take the whole cell; %%time and %%capture only watch it.
    return ("python" if magic in _WATCHING else "shell") if line.lstrip().startswith("%%") else None


def _by_lines(cell: Cell) -> Iterator[Cell]:
    if cell.language != "python" or _is_python(cell.text):
        yield cell
        return
    lines = cell.text.split("\n")
    for number, line in enumerate(lines):
        if pip := _PIP.match(line):
            yield Cell("pip", pip[1], _moved(cell.at, number))
        elif (magic := _MAGIC.match(line)) and magic[1] == "run":
            yield _run(magic[2] or "", _moved(cell.at, number))
        elif _LINE_MAGIC.match(line):
            yield Cell("shell", line.strip(), _moved(cell.at, number))
        else:
            continue
        lines[number] = ""
    yield Cell("python", "\n".join(lines), cell.at)


def _is_python(text: str) -> bool:
    """Whether Python reads the text: then no line of it is a magic, whatever it looks like."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            ast.parse(text)
        except (SyntaxError, ValueError):
            return False
    return True


def _run(text: str, at: SourceLine) -> Cell:
    """What is behind ``%run``: the path of a notebook, and values of its widgets."""
    found = _RUN.match(text)
    *paths, written = found.groups(default="") if found else ("", "")
    path = "".join(paths)  # at most one of them is there
    if _ARGUMENT.sub("", written):
        detail = f"%run: the arguments behind {path} cannot be read"
        raise NotebookInvalid(at=str(at), file=at.file, detail=detail, fix='write $name="value" for each of them')
    arguments = {name: quoted or single or bare for name, quoted, single, bare in _ARGUMENT.findall(written)}
    return Cell("run", path, at, arguments)


def _moved(at: SourceLine, lines: int) -> SourceLine:
    return SourceLine(at.file, at.line + lines, at.cell)


# --- what pip would install ---

_VALUED: Final = frozenset(
    {
        *("-r", "--requirement", "-c", "--constraint", "-i", "--index-url", "--extra-index-url", "-f", "--find-links"),
        *("-t", "--target", "--trusted-host", "--proxy", "--python-version", "--platform", "--prefix", "--root"),
        *("--src", "--timeout", "--retries", "--cert", "--progress-bar"),
    }
)
_EGG: Final = re.compile(r"#egg=([A-Za-z0-9._-]+)")
_NAMED: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*(\[[^\]]*\])?")


def _words(line: str) -> list[str]:
    import shlex  # noqa: PLC0415 - only for cells of pip

    line = re.split(r"\s#", line, maxsplit=1)[0]
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()


def _required(words: list[str]) -> Iterator[str]:
    waiting = iter(words)
    for word in waiting:
        if word in _VALUED:
            next(waiting, None)
        elif not word.startswith("-") and (name := _package(word)):
            yield name


def _package(word: str) -> str | None:
    if egg := _EGG.search(word):
        return egg[1]
    if word.endswith((".whl", ".tar.gz")):
        return word.rpartition("/")[2].partition("-")[0]
    if "://" in word:
        return word.partition("@" if word.startswith("git+") else "?")[0].rpartition("/")[2].removesuffix(".git")
    if "/" in word or word.startswith((".", "$", "{")):
        return None
    return word if _NAMED.match(word) else None
