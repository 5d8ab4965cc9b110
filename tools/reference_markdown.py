"""What the reference pages share: rows of tables, docstrings as Markdown."""

# ruff: noqa: SLF001 - it describes what it looks into

from __future__ import annotations

import dataclasses
import inspect
import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from rivermouth import spec
from rivermouth.cli import event_text

_ENTRY: Final = re.compile(r"^(?: {4})(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)

_SECTION: Final = re.compile(r"^(Attributes|Args|Returns|Raises|Guarantees):$", re.MULTILINE)

_JSON_TYPES: Final[Mapping[str, str]] = {
    "tuple[StillFailing, ...]": "list of [reasons](#reasons)",
    "Decision": "[decision](ledger-entry.md#decision)",
    "tuple[str, ...]": "list of text",
    "tuple[Decision, ...]": "list of [decisions](#decision)",
    "Mapping[int, tuple[int, int]]": "object of [from, to]",
    "MaintenanceReport": "[report](#reports)",
    "tuple[LetterReason, ...]": "list of objects: `reason`, `field`, `failed_expectations`, `letters`",
    "MergeReport | None": "[merge](#merge) or null",
    "Join": "`broadcast`, `shuffle`",
    "Operation": "`optimize`, `vacuum`",
    "Figures": "[figures](#figures)",
    "tuple[tuple[int, int], ...]": "list of [first, last]",
    "Mapping[str, Mapping[int, tuple[int, ...]]]": "object of object of list of number",
}

FIELDS_HEAD: Final = ("| field | type | meaning |", "|---|---|---|")

WORDS: Final = tomllib.loads(Path(__file__).with_name("docs_words.toml").read_text("utf-8"))

PROSE: Final[Mapping[str, str]] = WORDS["prose"]


def fields_table(cls: type) -> str:
    meanings: dict[str, str] = dict(WORDS["fields"])
    for base in (*event_text._KINDS, *reversed(cls.__mro__[:-1])):
        # What one event says of a field holds for the others that have it and say nothing.
        meanings = {**meanings, **attributes_of(base)}
    rows = [
        table_row(f"`{field.name}`", _json_type(str(field.type)), meanings[field.name].replace("None", "null"))
        for field in dataclasses.fields(cls)
    ]
    return "\n".join([*FIELDS_HEAD, *rows])


def _json_type(annotation: str) -> str:
    """A Python type in the words of JSON; offsets, ranges and counts keep their name."""
    if annotation.startswith("Literal["):
        return ", ".join(f"`{word}`" for word in re.findall(r"'(\w+)'|\"(\w+)\"", annotation) for word in word if word)
    words = {"str": "text", "int": "number", "float": "number", "bool": "true or false", "None": "null"}
    words |= {"Offsets": "offsets", "Ranges": "ranges", "Counts": "[counts](#counts)"}
    if annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    if annotation.startswith("Mapping["):
        inner = annotation.removeprefix("Mapping[str, ").removesuffix("]")
        return f"object of {_json_type(inner)}"
    return " or ".join(words[part.strip()] for part in annotation.split("|"))


def summary_of(cls: type) -> str:
    text = inspect.cleandoc(cls.__doc__ or "")
    section = _SECTION.search(text)
    body = text[: section.start()] if section else text
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in _markdown(body).strip().split("\n\n"))


def attributes_of(cls: type) -> dict[str, str]:
    told: dict[str, str] = {}
    for each in reversed(cls.__mro__):  # nouns inherit fields
        text = inspect.cleandoc(each.__doc__ or "") if issubclass(each, spec.ConfigModel) or each is cls else ""
        section = _SECTION.search(text)
        found = _ENTRY.findall(text[section.end() :]) if section else []
        told |= {name: " ".join(_markdown(words).split()) for name, words in found}
    return told


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def table_row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")
