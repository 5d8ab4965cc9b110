"""Errors that rows of files raise within Spark, and how they are known again outside."""

from __future__ import annotations

import re
from typing import Final

from rivermouth import names
from rivermouth.errors import FileColumnsNew, FileRecordMalformed, RivermouthError

_MARK: Final = "rivermouth.files"
_RAISED: Final = re.compile(rf"{re.escape(_MARK)}\|(\w+)\|([^|]*)\|([^|]*)\|")
_FIXES: Final = {
    "new": "add them to the schema or to schemaHints, or remove the file",
    "folders": "start it again: the columns of folders are found at each start",
    "started": "start it again: the schema is inferred at each start",
}


def raised(kind: str, file: str, about: str, *, is_sql: bool = False) -> str:
    """SQL of a boolean that is an error whenever it is evaluated.

    Args:
        kind: ``malformed``, ``new``, ``started`` or ``folders``.
        file: SQL of the file's address.
        about: Of a malformed record the format, else the new columns.
        is_sql: Whether that is SQL.
    """
    told = about if is_sql else names.literal(about)
    text = f"concat('{_MARK}|{kind}|', replace({file}, '|', '%7C'), '|', replace({told}, '|', ' '), '|')"
    return f"CAST(raise_error({text}) AS BOOLEAN)"


def found(error: BaseException, at: str | None = None) -> RivermouthError | None:
    """The error of a file behind one of Spark's; None where it is another.

    Args:
        error: As a query or an action raised it.
        at: Where the source is written.
    """
    matched = _RAISED.search(str(error))
    if matched is None:
        return None
    kind, file, about = matched.groups()
    if kind == "malformed":
        return FileRecordMalformed(at=at, file=file, format=about)
    columns = ", ".join(_plain(each) for each in about.split(", "))
    return FileColumnsNew(at=at, file=file, columns=columns, fix=_FIXES[kind])


def may_pass(error: RivermouthError) -> bool:
    """Whether the same query has columns for the file when it is started again."""
    return isinstance(error, FileColumnsNew) and error.facts["fix"] in (_FIXES["folders"], _FIXES["started"])


def _plain(pointer: str) -> str:
    steps = pointer.removeprefix("/").split("/")
    return ".".join(step.replace("~1", "/").replace("~0", "~") for step in steps)
