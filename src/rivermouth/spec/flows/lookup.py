"""Columns that a flow takes from another table: ``lookup``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any, Final, Literal, Self

from pydantic import BeforeValidator, Field, PrivateAttr, WithJsonSchema, model_validator

from rivermouth.spec.values import ConfigModel

_TEXTS: Final = {"type": "array", "items": {"type": "string"}, "minItems": 1}
_MAPPING: Final = {"type": "object", "additionalProperties": {"type": "string"}, "minProperties": 1}


def _mapped(value: object) -> object:
    """``name``, ``[name, …]`` and ``{name: other}`` as a mapping."""
    if isinstance(value, str):
        return {value: value}
    if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
        return {name: name for name in value}
    return value


_Names = Annotated[
    dict[str, str],
    BeforeValidator(_mapped),
    Field(min_length=1),
    WithJsonSchema({"anyOf": [{"type": "string"}, _TEXTS, _MAPPING]}),
]


class Lookup(ConfigModel):
    """Columns of a Delta table that a flow adds to each record by a key.

    The table is read when a batch starts, if it has a new version. Its rows are kept in memory and broadcast.

    Attributes:
        table: The Delta table: ``schema.table`` of a flow or of the lake, or a path.
        on: The columns by which a record finds its row: one name, a list, or a mapping ``{record column: table
            column}``. A record column is one that the format reads, a field of it such as ``customer.id``, or a
            metadata column. Both columns must have the same type. NULL finds no row.
        columns: Columns of the table: a list, or a mapping ``{table column: name in the flow}``. Expressions of the
            flow, such as ``select``, expectations and keys, can use them.
        missing: What happens to a record without a row: ``keep`` writes it with NULL in these columns, ``drop`` counts
            it, ``dead_letter`` refuses it.
        where: A Spark SQL condition over the table's columns: only rows for which it is TRUE are found. A table with
            the history of its keys needs ``__END_AT IS NULL``.
        max_rows: The most rows that are kept in memory.
    """

    table: str = Field(min_length=1)
    on: _Names
    columns: _Names
    missing: Literal["keep", "drop", "dead_letter"] = "keep"
    where: str | None = Field(default=None, min_length=1)
    max_rows: int = Field(default=1_000_000, gt=0)
    _location: str = PrivateAttr(default="")
    _owner: str | None = PrivateAttr(default=None)
    _writer: Any = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _different(self) -> Self:
        names = list(self.columns.values())
        if twice := [name for name in names if names.count(name) > 1]:
            msg = f"lookup gives two columns the name {twice[0]!r}: give each a name of its own"
            raise ValueError(msg)
        return self

    def at(self, location: str, owner: str | None = None, writer: Callable[[], Any] | None = None) -> Self:
        """The same lookup; its table is at ``location``; the flow ``owner`` writes it, which ``writer`` returns."""
        same = self.model_copy()
        same._location = location  # noqa: SLF001
        same._owner = owner  # noqa: SLF001
        same._writer = writer  # noqa: SLF001
        return same

    @property
    def location(self) -> str:
        """The folder of the table; empty until the project is resolved."""
        return self._location

    @property
    def owner(self) -> str | None:
        """The name of the flow of the project that writes the table; None if no flow does."""
        return self._owner

    @property
    def writer(self) -> Any:
        """That flow."""
        return None if self._writer is None else self._writer()

    @property
    def name(self) -> str:
        """What it is called in counts."""
        return f"lookup {self.table} on {', '.join(self.on)}"


def as_list(value: object) -> object:
    """One lookup as a list of one."""
    return [value] if isinstance(value, dict | Lookup) else value
