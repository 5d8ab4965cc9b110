"""What to write instead of a value that does not fit: one step for each."""

from __future__ import annotations

import re
from typing import Any, Final

from rivermouth.project.file.bounds import nearest
from rivermouth.project.file.secret_keys import can_be_secret
from rivermouth.project.file.yaml_source import Path

MISSING: Final = {
    "lake": "lake: ./lake",
    "files": "files: [transformations/**]",
    "format": "format: raw",
    "table": "table: bronze.orders",
    "schema": 'schema: "id bigint, at timestamp"',
    "condition": "condition: amount > 0",
    "pattern": "pattern: '(?<host>\\S+) (?<status>\\d+)'",
    "on": "on: customer_id",
    "columns": "columns: [name]",
    "sequence_by": "sequence_by: updated_at, or Kafka's own time: sequence_by: kafka_timestamp",
}
_MISSING_IN: Final[dict[tuple[str | int, ...], str]] = {
    ("sink", "format"): "format: parquet",
    ("sink", "path"): "path: archive/orders",
    ("sink", "topic"): "topic: good-orders",
}
_FIXES_BY_NAME: Final = {
    "flows": "write each flow as its name with a ':', indented under flows:",
    "format": "format: raw",
    "sink": "sink: append",
    "source": "source: {table: bronze.orders}",
    "schema": MISSING["schema"],
    "table": MISSING["table"],
    "evolution": "evolution: {on_new_column: evolve}",
    "trigger": "trigger: {every: 30 seconds}",
    "expectations": "expectations: [{name: positive_amount, condition: amount > 0, action: dead_letter}]",
    "lookup": "lookup: {table: silver.customers, on: customer_id, columns: [name]}",
    "on": "on: customer_id",
    "every": "every: 30 seconds",
    "max_delay": "max_delay: 30 seconds",
}
_FIXES: Final = {
    "a list": "write [one, two], or one '- ' line for each",
    "a mapping": "write key: value lines, indented under it",
    "a whole number": "write a whole number without quotes or unit",
    "a number": "write a number without quotes",
    "true or false": "write true or false without quotes",
    "text": "write text",
    "something else": "correct the value",
}


def of_missing(path: Path) -> str:
    """What to write where the key at the end of ``path`` is missing."""
    name = str(path[-1])
    return _MISSING_IN.get(path[-2:], MISSING.get(name, f"{name}: ..."))


def found_in(value: object) -> str:
    """What kind of value was found, in words."""
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def of_mismatch(path: Path, expected: list[str], value: object) -> str:
    """What to write instead of a value of another kind than was expected.

    Args:
        path: Of the value.
        expected: The kinds, in the words of ``found_in``.
        value: What was found.
    """
    name = str(path[-1]) if path else ""
    if value is None and path != ("flows",):
        return "give it a value, or remove the line"
    if name == "driver_memory" and isinstance(value, int):
        return f"driver_memory: {value:d}m"
    if "text" in expected and isinstance(value, bool | int | float):
        shown = "..." if can_be_secret(path) else str(value).lower() if isinstance(value, bool) else str(value)
        return f'write it in quotes: "{shown}"'
    if isinstance(value, dict) and path[-2:-1] in (("options",), ("conf",)):
        return "write the option's full name with its dots on one line"
    if isinstance(value, str) and re.match(r"\w+:\S", value):
        return "write a space after each ':'"
    if "text" in expected and isinstance(value, list):
        return "write one text, without [ ]" if can_be_secret(path) else _as_text(name, value)
    if isinstance(path[-1], int) and len(path) > 1 and name not in _FIXES_BY_NAME:
        name = str(path[-2])
    return _FIXES_BY_NAME.get(name) or _FIXES[expected[-1 if expected[-1] in ("a list", "a mapping") else 0]]


def _as_text(name: str, value: list[object]) -> str:
    """The setting with the parts of a list in one text."""
    parts = [part for part in value if isinstance(part, str)]
    if not parts or len(parts) < len(value) or (len(parts) > 1 and name not in _COMMAS):
        return _FIXES_BY_NAME.get(name, "write one text, without [ ]")
    text = _COMMAS.get(name, "").join(parts)
    if "@" in text:
        return "write one text, without [ ]"  # an address may have a login in it
    return f'{name}: "{text}"' if re.search(r"[^\w.:/-]", text) else f"{name}: {text}"


_COMMAS: Final = {"bootstrap_servers": ",", "schema": ", ", "schema_hints": ", "}
"""The separator of settings that hold a list in one text."""


def within_bounds(path: Path, bounds: dict[str, Any]) -> str:
    """The setting with the nearest value that keeps within its bounds."""
    name, inside = str(path[-1]), nearest(bounds)
    if name in _FIXES_BY_NAME or inside is None:
        return _FIXES_BY_NAME.get(name, "write another value")
    return f"{name}: {inside}"


def of_key(key: object, kind_of_key: str) -> str:
    """What to write instead of a key of another kind than was expected."""
    return f'write it in quotes: "{key}"' if kind_of_key == "text" else "write the number of a partition, as in {0: 23}"
