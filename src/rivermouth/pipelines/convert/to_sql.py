"""A draft as the text of a SQL file of a pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from rivermouth.names import is_plain, quoted
from rivermouth.pipelines.convert.model import Draft, listed, word
from rivermouth.pipelines.spec import AutoCdc, Expectation
from rivermouth.pipelines.sql.tokens import quoted_string

_VIOLATION: Final = {
    "warn": "",
    "drop": " ON VIOLATION DROP ROW",
    "fail": " ON VIOLATION FAIL UPDATE",
    "dead_letter": " ON VIOLATION DEAD LETTER",
}


def to_sql(draft: Draft, origin: str) -> str:
    """The text of a SQL file that defines the table.

    Args:
        draft: The table.
        origin: What it was made of, for its first line.
    """
    parts = [f"-- Made by `rivermouth convert` of {origin}."]
    parts += [f"SET {name} = {value};\n" for name, value in draft.conf.items()]
    name = _name(draft.dataset.name)
    head = _head(draft, name)
    if draft.cdc is None:
        parts.append(f"{head}\nAS {_select(draft)};")
    else:
        changes = f"{draft.flow}_changes"
        parts.append(f"CREATE TEMPORARY VIEW {word(changes)}\nAS {_select(draft)};\n")
        parts.append(f"{head};\n")
        parts.append(f"CREATE FLOW {word(f'{changes}_flow')} AS AUTO CDC INTO {name}\n{_cdc(draft.cdc, changes)};")
    return "\n".join(parts) + "\n"


def _head(draft: Draft, name: str) -> str:
    dataset = draft.dataset
    lines = [f"CREATE OR REFRESH STREAMING TABLE {name}"]
    if dataset.expectations:
        held = ",\n".join(map(_constraint, dataset.expectations))
        lines[0] += f" (\n{held}\n)"
    if dataset.partition_by:
        lines.append(f"PARTITIONED BY ({listed(dataset.partition_by)})")
    if dataset.cluster_by:
        lines.append(f"CLUSTER BY ({listed(dataset.cluster_by)})")
    if dataset.comment is not None:
        lines.append(f"COMMENT {quoted_string(dataset.comment)}")
    if dataset.properties:
        lines.append(f"TBLPROPERTIES ({_pairs(dataset.properties, '=')})")
    return "\n".join(lines)


def _constraint(each: Expectation) -> str:
    return f"  CONSTRAINT {word(each.name)} EXPECT ({each.condition}){_VIOLATION[each.action]}"


def _pairs(values: Mapping[str, str], sign: str) -> str:
    return ", ".join(f"{quoted_string(name)} {sign} {quoted_string(value)}" for name, value in values.items())


def _select(draft: Draft) -> str:
    options = ", ".join(f"{word(name)} => {quoted_string(value)}" for name, value in draft.kafka.items())
    found = f"STREAM read_kafka({options})"
    # A line break may be in a text, whose value spaces would change.
    has_lines = any("\n" in text for step in draft.steps for text in (*step.items, step.where or ""))
    for number, step in enumerate(draft.steps):
        inner = found if not number else f"(\n{found if has_lines else _indented(found)}\n)"
        where = f"\nWHERE {step.where}" if step.where is not None else ""
        found = f"SELECT {', '.join(step.items)}\nFROM {inner}{where}"
    return found


def _cdc(cdc: AutoCdc, changes: str) -> str:
    lines = [f"FROM STREAM({word(changes)})", f"KEYS ({listed(cdc.keys)})"]
    if cdc.ignore_null_updates:
        lines.append("IGNORE NULL UPDATES")
    lines += _chosen("IGNORE NULL UPDATES ON", cdc.ignore_null_updates_columns, cdc.ignore_null_updates_except_columns)
    if cdc.apply_as_deletes:
        lines.append(f"APPLY AS DELETE WHEN {cdc.apply_as_deletes}")
    if cdc.apply_as_truncates:
        lines.append(f"APPLY AS TRUNCATE WHEN {cdc.apply_as_truncates}")
    lines.append(f"SEQUENCE BY {cdc.sequence_by}")
    lines += _chosen("COLUMNS", cdc.columns, cdc.except_columns)
    if cdc.columns_to_update:
        lines.append(f"COLUMNS TO UPDATE {word(cdc.columns_to_update)}")
    lines.append(f"STORED AS SCD TYPE {cdc.scd_type}")
    lines += _chosen("TRACK HISTORY ON", cdc.track_history_columns, cdc.track_history_except_columns)
    return "\n".join(lines)


def _chosen(clause: str, names: Iterable[str], others: Iterable[str]) -> list[str]:
    if names := tuple(names):
        return [f"{clause} ({listed(names)})"]
    if others := tuple(others):
        return [f"{clause} * EXCEPT ({listed(others)})"]
    return []


def _name(name: str) -> str:
    return ".".join(part if is_plain(part) else quoted(part) for part in name.split("."))


def _indented(text: str) -> str:
    return "\n".join(f"  {line}" for line in text.splitlines())
