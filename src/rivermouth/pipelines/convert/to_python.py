"""A draft as the text of a Python file of a pipeline."""

from __future__ import annotations

import keyword
import re
from collections.abc import Iterable, Mapping
from typing import Any, Final

from rivermouth.pipelines.convert.model import Draft
from rivermouth.pipelines.spec import AutoCdc, Expectation

_WIDTH: Final = 116
_TAKEN: Final = ("dp", "spark", "dbutils", "display", "decode")
"""Names that a file uses, and that no function of it may have."""
_EXPECT: Final = {
    "warn": "expect",
    "drop": "expect_or_drop",
    "fail": "expect_or_fail",
    "dead_letter": "expect_or_dead_letter",
}
_EXPECT_ALL: Final = {
    "warn": "expect_all",
    "drop": "expect_all_or_drop",
    "fail": "expect_all_or_fail",
    "dead_letter": "expect_all_or_dead_letter",
}
_CDC: Final = (
    ("keys", "keys"),
    ("sequence_by", "sequence_by"),
    ("apply_as_deletes", "apply_as_deletes"),
    ("apply_as_truncates", "apply_as_truncates"),
    ("column_list", "columns"),
    ("except_column_list", "except_columns"),
    ("stored_as_scd_type", "scd_type"),
    ("track_history_column_list", "track_history_columns"),
    ("track_history_except_column_list", "track_history_except_columns"),
    ("ignore_null_updates", "ignore_null_updates"),
    ("ignore_null_updates_column_list", "ignore_null_updates_columns"),
    ("ignore_null_updates_except_column_list", "ignore_null_updates_except_columns"),
    ("columns_to_update", "columns_to_update"),
)


def to_python(draft: Draft, origin: str) -> str:
    """The text of a Python file that defines the table.

    Args:
        draft: The table.
        origin: What it was made of, for its first line.
    """
    imports = ["from pyspark import pipelines as dp"]
    if draft.decode:
        imports += ["", "from rivermouth.pipelines import decode"]
    parts = [f'"""Made by `rivermouth convert` of {origin}."""', "\n".join(imports), ""]
    name = draft.dataset.name
    if draft.cdc is None:
        arguments = {"name": name, **_arguments(draft), "spark_conf": dict(draft.conf)}
        parts += [_call("@dp.table", arguments), *map(_expectation, draft.dataset.expectations), _query(draft, name)]
        return "\n\n".join(parts[:2]) + "\n\n\n" + "\n".join(parts[3:]) + "\n"
    changes = f"{_identifier(draft.flow)}_changes"
    target = {"": name, **_arguments(draft), **_grouped(draft.dataset.expectations)}
    flow = {"target": name, "source": changes, **_cdc(draft.cdc)}
    blocks = [
        "\n".join(["@dp.temporary_view", _query(draft, changes)]),
        _call("dp.create_streaming_table", target),
        _call("dp.create_auto_cdc_flow", flow),
    ]
    return "\n\n".join(parts[:2]) + "\n\n\n" + "\n\n\n".join(blocks[:2]) + f"\n\n{blocks[2]}\n"


def _arguments(draft: Draft) -> dict[str, Any]:
    return {
        "comment": draft.dataset.comment,
        "table_properties": dict(draft.dataset.properties),
        "partition_cols": list(draft.dataset.partition_by),
        "cluster_by": list(draft.dataset.cluster_by),
    }


def _grouped(expectations: Iterable[Expectation]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {}
    for each in expectations:
        found.setdefault(_EXPECT_ALL[each.action], {})[each.name] = each.condition
    return found


def _cdc(cdc: AutoCdc) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for argument, attribute in _CDC:
        value = getattr(cdc, attribute)
        found[argument] = list(value) if isinstance(value, tuple) else value
    return found


def _expectation(each: Expectation) -> str:
    return f"@dp.{_EXPECT[each.action]}({literal(each.name)}, {literal(each.condition)})"


def _query(draft: Draft, name: str) -> str:
    head = "    records = (" if draft.decode else "    return ("
    lines = [f"def {_identifier(name)}():", head, '        spark.readStream.format("kafka")']
    lines += [f"        .option({literal(key)}, {literal(value)})" for key, value in draft.kafka.items()]
    lines.append("        .load()")
    if draft.decode:
        lines += ["    )", *_decoded(draft)]
        return "\n".join(lines)
    for step in draft.steps:
        if step.where is not None:
            lines.append(f"        .where({literal(step.where)})")
        lines.append(_call("        .selectExpr", dict(_positional(step.items))))
    return "\n".join([*lines, "    )"])


def _decoded(draft: Draft) -> list[str]:
    """The statements behind the one that reads the records."""
    read = _call("    decode", {"": _Name("records"), **draft.decode}).replace("    decode", "    return decode", 1)
    if not draft.steps:
        return [read]
    lines = [read.replace("    return decode", "    rows = decode", 1)]
    *before, last = [_call("rows.selectExpr", dict(_positional(step.items))) for step in draft.steps]
    return [*lines, *(f"    rows = {each}" for each in before), f"    return {last}"]


class _Name(str):
    """A name in the text, and no text."""

    __slots__ = ()


def _positional(items: Iterable[str]) -> list[tuple[str, str]]:
    """Positional arguments, by their places."""
    return [(f"{number}", each) for number, each in enumerate(items)]


def _call(head: str, arguments: Mapping[str, Any]) -> str:
    """A call on one line where it fits, else with a line for each argument; positional ones have no name."""
    given = [
        literal(value) if not name or name.isdecimal() else f"{name}={literal(value)}"
        for name, value in arguments.items()
        if value is not None and value is not False and value not in ({}, [])
    ]
    line = f"{head}({', '.join(given)})"
    if len(line) <= _WIDTH:
        return line
    indent = " " * (len(head) - len(head.lstrip()))
    return "\n".join([f"{head}(", *(f"{indent}    {each}," for each in given), f"{indent})"])


def literal(value: Any) -> str:
    """A value as Python, texts between double quotes where that needs no backslash."""
    if isinstance(value, _Name):
        return str(value)
    if isinstance(value, str):
        quoted = repr(value)
        plain = "\\" not in quoted and '"' not in value
        return f'"{value}"' if plain else quoted
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{literal(key)}: {literal(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(map(literal, value)) + "]"
    return repr(value)


def _identifier(name: str) -> str:
    table = re.sub(r"\W", "_", name.rpartition(".")[2])
    if not table.isidentifier():
        return f"t_{table}"
    return f"{table}_" if keyword.iskeyword(table) or table in _TAKEN else table
