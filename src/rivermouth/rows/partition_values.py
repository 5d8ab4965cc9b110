"""Partition values that a table keeps as they are; a row with any other value is refused."""

from __future__ import annotations

import json
from itertools import product
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import BinaryType, StringType

from rivermouth import names
from rivermouth.rows import explode
from rivermouth.rows.columns.table_columns import derived_columns, partition_columns

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType, StructType

    from rivermouth.spec import Flow

MAX_FOLDER_BYTES: Final = 255
"""The longest name of a folder on Linux, macOS and HDFS."""
MAX_FOLDERS_BYTES: Final = 700
"""All folders of one row: a key of an object store has 1,024 bytes, with the lake before them and a file behind."""
NULL_FOLDER: Final = "__HIVE_DEFAULT_PARTITION__"
"""Null in the name of a folder."""
ESCAPED: Final = "".join(map(chr, range(1, 0x20))) + "\"#%'*/:=?\\\x7f{[]^"
"""Characters that Spark writes as ``%2F`` into the name of a folder: three bytes in the place of one."""

_EMPTY, _WORD, _UNFIT, _LONG, _DEEP = range(5)
_WHAT: Final = {
    _EMPTY: "is an empty text, which Delta keeps as null",
    _WORD: f"is {NULL_FOLDER}, which Delta keeps as null",
    _UNFIT: "holds a NUL, or bytes that are not UTF-8, and no folder has that in its name",
    _LONG: f"needs a folder whose name has more than {MAX_FOLDER_BYTES} bytes",
    _DEEP: f"needs folders that have more than {MAX_FOLDERS_BYTES} bytes together",
}
_OTHER_BYTES: Final = 64  # more than the text of a number, a date or a time has


def are_judged(flow: Flow) -> bool:
    """Whether rows of the flow have ``__partition_problem``."""
    return bool(flow.table.partition_by)


def check(rows: DataFrame, flow: Flow) -> DataFrame:
    """Adds ``__partition_problem`` where the flow's table has partitions: an int, null where nothing is wrong.

    Delta keeps partition values as text, in its log and in the names of folders. An empty text is null there, and
    what cannot be in the name of a folder makes the whole write fail. Rows that are not stored have no problem.

    Args:
        rows: Conformed rows, with what each of them does to a keyed table.
        flow: Names the partition columns.
    """
    if not are_judged(flow):
        return rows
    cases = [f"WHEN {condition} THEN {code}" for code, condition in _problems(rows.schema, flow)]
    if cases and (unstored := " OR ".join(_unstored(flow))):
        cases.insert(0, f"WHEN {unstored} THEN NULL")
    problem = f"CASE {' '.join(cases)} END" if cases else "CAST(NULL AS INT)"
    return rows.selectExpr("*", f"{problem} AS {names.PARTITION_PROBLEM}")


def field(flow: Flow) -> str:
    """SQL over ``__partition_problem``: the name of the partition column."""
    return _of_problem({code: column for code, column, _kind, _is_binary in _codes(flow)})


def message(flow: Flow) -> str:
    """SQL over ``__partition_problem``: what is wrong with the value, and which partitions to write instead."""
    texts = {}
    for code, column, kind, is_binary in _codes(flow):
        parts = _instead(flow, column, kind, is_binary=is_binary)
        fix = f"write into a new table with partition_by: {json.dumps(parts, ensure_ascii=False)}"
        texts[code] = f"the value of the partition column {column} {_WHAT[kind]}: {fix}"
    return _of_problem(texts)


def folder_bytes(text: str) -> int:
    """The bytes of a text in the name of a folder."""
    return len(text.encode()) + 2 * sum(character in ESCAPED for character in text)


def has_folder(column: str) -> bool:
    """Whether the name of a partition column leaves room for a value in the name of a folder."""
    return folder_bytes(f"{column}={NULL_FOLDER}") <= MAX_FOLDER_BYTES


def _of_problem(texts: dict[int, str]) -> str:
    cases = (f"WHEN {code} THEN {names.literal(text)}" for code, text in texts.items())
    return f"CASE {names.PARTITION_PROBLEM} {' '.join(cases)} END"


def _codes(flow: Flow) -> Iterator[tuple[int, str, int, bool]]:
    """Each problem that there may be: its number, the column, the kind, and whether the column is binary."""
    parts = product(partition_columns(flow), _WHAT, (False, True))
    return ((code, *each) for code, each in enumerate(parts))


def _instead(flow: Flow, column: str, kind: int, *, is_binary: bool) -> list[Any]:
    """``partition_by`` of the flow, with a column that is derived from ``column`` and can be kept in its place."""
    parts: list[Any] = []
    for part in flow.table.partition_by:
        for name in names.named([part]):
            if name != column:
                parts.append({name: part[name]} if isinstance(part, dict) else part)
                continue
            made_here = isinstance(part, dict) or part != column
            of = derived_columns(flow).get(column, column if column.isidentifier() else names.quoted(column))
            text = f"cast({of} AS string)" if is_binary else of
            if kind == _EMPTY:
                parts.append({column if made_here else f"{column}_part": f"coalesce(nullif({text}, ''), '(empty)')"})
            elif made_here:
                parts.append({column: f"CASE WHEN {_fits(column, kind, of, text)} THEN {of} ELSE '(other)' END"})
            else:
                parts.append({f"{column}_part": f"sha2({of}, 256)"})
    return parts


def _fits(column: str, kind: int, of: str, text: str) -> str:
    """SQL: whether a derived value can be kept. Others read it by its value, so a hash of all values is no remedy."""
    if kind == _WORD:
        return f"{text} <> '{NULL_FOLDER}'"
    if kind == _UNFIT:
        return f"is_valid_utf8({of}) AND instr({text}, char(0)) = 0"
    # Of texts of letters and digits it is the length.
    room = MAX_FOLDER_BYTES - folder_bytes(column) - len("=") if kind == _LONG else _OTHER_BYTES
    return f"octet_length(url_encode({text})) <= {room}"


def _unstored(flow: Flow) -> Iterator[str]:
    """SQL, never null: what is true of rows that the table does not get."""
    if flow.keyed is not None:
        yield f"{names.DELETE} OR {names.TRUNCATE}"
    elif flow.null_values != "keep":
        yield f"{names.VALUE} IS NULL"
    if flow.change_envelope:
        yield f"coalesce({names.OPERATION} = '{names.SKIP}', false)"
    if flow.explosion is not None:
        yield f"coalesce({names.POSITION} = {explode.NONE}, false)"


def _problems(columns: StructType, flow: Flow) -> Iterator[tuple[int, str]]:
    """The number of each problem that a value can have, and SQL that says whether it has it."""
    types = {names.folded(each.name): each.dataType for each in columns}
    codes = {(column, kind, is_binary): code for code, column, kind, is_binary in _codes(flow)}
    texts: list[str] = []
    taken = 0
    for column in partition_columns(flow):
        taken += folder_bytes(column) + len("=/")
        data_type = types[names.folded(column)]
        text = _as_text(column, data_type)
        if text is None:
            taken += _OTHER_BYTES
            continue
        texts.append(text)
        for kind, condition in _conditions(column, texts, MAX_FOLDERS_BYTES - taken).items():
            yield codes[column, kind, isinstance(data_type, BinaryType)], condition


def _conditions(column: str, texts: Sequence[str], room: int) -> dict[int, str]:
    """By kind of problem: SQL for a column with the text ``texts[-1]``; ``room`` is for all of ``texts``."""
    text = texts[-1]
    conditions = {
        _EMPTY: f"{text} = ''",
        _WORD: f"{text} = '{NULL_FOLDER}'",
        _UNFIT: f"instr({text}, {names.literal(chr(0))}) > 0 OR NOT is_valid_utf8({text})",
        _LONG: _are_longer([text], MAX_FOLDER_BYTES - folder_bytes(column) - len("=")),
    }
    return {**conditions, _DEEP: _are_longer(texts, room)} if len(texts) > 1 else conditions


def _as_text(column: str, data_type: DataType) -> str | None:
    """SQL of a value as Delta makes text of it; None for types whose every text can be kept."""
    if isinstance(data_type, BinaryType):
        return f"CAST({names.quoted(column)} AS STRING)"
    return names.quoted(column) if isinstance(data_type, StringType) else None


def _are_longer(texts: Sequence[str], room: int) -> str:
    """SQL: whether texts need more bytes in the names of folders; a question that costs little comes first."""
    size = " + ".join(f"coalesce(octet_length({text}), {len(NULL_FOLDER)})" for text in texts)
    rest = (f"coalesce(length({text}) - length(translate({text}, {names.literal(ESCAPED)}, '')), 0)" for text in texts)
    return f"3 * ({size}) > {room} AND {size} + 2 * ({' + '.join(rest)}) > {room}"
