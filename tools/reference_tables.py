"""The reference pages of tables: columns, dead letters, the ledger entry."""

# ruff: noqa: SLF001 - it describes what it looks into

from __future__ import annotations

import dataclasses
import inspect
import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from pyspark.sql.types import StructType

from rivermouth import names
from rivermouth.decoding.cdc import change_format, connect_format
from rivermouth.decoding.json import json_explain
from rivermouth.decoding.protobuf import (
    protobuf_decode,
    protobuf_descriptor,
    protobuf_reader,
    protobuf_wire_check,
    protobuf_writer_reader,
    protobuf_writer_schemas,
)
from rivermouth.decoding.python import python_arrays, python_decode, python_values
from rivermouth.domain.ledger import ledger
from rivermouth.extend import find_kind, kind_names
from rivermouth.rows import conform, dead_letter, lookups
from rivermouth.rows.columns import attempts, time_ranges
from rivermouth.rows.keyed import changes, snapshots
from rivermouth.rows.reasons import REASONS
from tools.reference_markdown import PROSE, WORDS, fields_table, summary_of, table_row

# Where formats whose values are read by Python say their reasons.
_IN_RULES: Final = (json_explain, changes, snapshots, change_format, connect_format)

_IN_PYTHON: Final = (
    python_arrays,
    python_decode,
    python_values,
    protobuf_descriptor,
    protobuf_writer_reader,
    protobuf_reader,
    protobuf_decode,
    protobuf_wire_check,
    protobuf_writer_schemas,
)

_CHANGES: Final = {
    "operation": "with an append of changes",
    "primary_key": "with changes by that key",
    **dict.fromkeys(("source_timestamp", "source_position"), "on request, of changes"),
}

_METADATA: Final[Mapping[str, str]] = WORDS["metadata_columns"]


def table_columns_page() -> str:
    """The page of the columns that a table gets besides its payload."""
    types = {name: f"`{kind.simpleString()}`" for name, kind in conform._METADATA_TYPES.items()}
    types["kafka_key"] = "`string`, `binary` or by `key_format`"
    rows = [
        table_row(
            f"`{name}`",
            types[name],
            _presence(name),
            _METADATA[name],
        )
        for name in names.METADATA_COLUMNS
    ]
    return "\n\n".join(
        [
            "# Columns of a table",
            PROSE["table_columns_1"],
            "\n".join(["| column | type | there | meaning |", "|---|---|---|---|", *rows]),
            PROSE["table_columns_2"],
        ]
    )


def _presence(column: str) -> str:
    if column in names.COORDINATES:
        return "always"
    if column in names.ROW_IN_TABLE.values():
        return "with `explode`"
    if column in names.CHANGE_METADATA_COLUMNS:
        return _CHANGES[column]
    return "yes" if column in names.DEFAULT_METADATA_COLUMNS else "on request"


def dead_letter_page() -> str:
    """The page of the dead letters."""
    columns = StructType([*dead_letter.COLUMNS.fields, dead_letter.POSITION])
    meanings = _METADATA | WORDS["dead_letter_columns"]
    rows = [table_row(f"`{c.name}`", f"`{c.dataType.simpleString()}`", meanings[c.name]) for c in columns]
    return "\n\n".join(
        [
            "# Columns of a table of dead letters",
            PROSE["dead_letter_1"],
            "\n".join(["| column | type | meaning |", "|---|---|---|", *rows]),
            "## Reasons",
            "| reason | stage | meaning |\n|---|---|---|\n" + "\n".join(table_row(*row) for row in _reasons()),
            PROSE["dead_letter_2"],
        ]
    )


def _reasons() -> Iterator[tuple[str, str, str]]:
    sources = [
        inspect.getsource(each)
        for each in (*_IN_RULES, dead_letter._reason, dead_letter._of_key, find_kind("formats", "connect_json"))
    ]
    sources += [inspect.getsource(each) for each in _IN_PYTHON]
    sources += [inspect.getsource(find_kind("formats", name).explain) for name in kind_names("formats")]
    sources += [
        path.read_text(encoding="utf-8")
        for folder in ("avro", "values")
        for path in (Path(__file__).parents[1] / "src/java/rivermouth" / folder).glob("*.java")
    ]
    found = {code for source in sources for code in re.findall(r"""["']([A-Z][A-Z0-9_]{5,})["']""", source)}
    found |= {dead_letter.TIMESTAMP_REASON, time_ranges.TIME_REASON, attempts.EXPRESSION_REASON, lookups.REASON}
    reasons = WORDS["reasons"]
    if not found == set(reasons) == REASONS:
        raise SystemExit(
            f"reasons without a meaning or not in rows/reasons.py: {sorted((found ^ set(reasons)) | (REASONS ^ found))}"
        )
    for code, (stage, meaning) in reasons.items():
        yield f"`{code}`", stage, meaning


def ledger_page() -> str:
    """The page of the ledger entry."""
    start = {"orders": {0: 0, 1: 0}}
    ids = {"orders": "pSg3vLyVQ3qxKk2UjHn0Nw"}
    entry = ledger.first_entry("orders", start, ids)
    entry = entry.after_batch({"orders": {0: (0, 120), 1: (0, 80)}}, ledger.Counts(), ids)
    entry = dataclasses.replace(entry, attempt="5a2f0c7be1d94c6f8a3e6b1d2c4f7a90")
    text = json.dumps(json.loads(entry.to_json()), indent=2)
    return "\n\n".join(
        [
            "# The ledger entry",
            PROSE["ledger_0"].format(format=ledger.FORMAT),
            f"```json\n{text}\n```",
            PROSE["ledger_1"],
            f"## Entry\n\n{summary_of(ledger.Entry)}\n\n{fields_table(ledger.Entry)}",
            f"## Decision\n\n{summary_of(ledger.Decision)}\n\n{fields_table(ledger.Decision)}",
            f"## Counts\n\n{summary_of(ledger.Counts)}\n\n{fields_table(ledger.Counts)}",
        ]
    )
