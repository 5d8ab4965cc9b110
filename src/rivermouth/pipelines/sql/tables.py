"""What a SELECT can read: a table, or a table function."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.errors.pipeline_sql import SqlNotConstant
from rivermouth.pipelines.python.decode import SETTINGS
from rivermouth.pipelines.sql.constants import Constant


@dataclass(frozen=True, slots=True)
class Reference:
    """A table that a SELECT reads.

    Attributes:
        parts: Its name without backquotes: ``("LIVE", "orders")``; ``("parquet", "/data")`` for a path.
        is_streaming: Whether it is written as ``STREAM(name)`` or ``STREAM name``.
        start: The first character of the name in the text.
        end: The character after its last one.
        options: Those of ``WITH (option, key = 'value')`` behind it, ``true`` for one without a value, and of
            ``VERSION AS OF`` and ``TIMESTAMP AS OF``.
        clauses: Where these are: each first character, and the one after the last.
        computed: Why the time of ``TIMESTAMP AS OF`` is not among the options: only Spark can evaluate it.
        alias_at: The character behind which an alias could be written; None where the table has one.
        scope: Where columns can be named by it: parts of the text, each from and to.
        table_word: Where the word TABLE of ``TABLE name`` is, from and to; None for a table in FROM.
    """

    parts: tuple[str, ...]
    is_streaming: bool
    start: int
    end: int
    options: Mapping[str, str] = field(default_factory=dict)
    clauses: tuple[tuple[int, int], ...] = ()
    computed: SqlNotConstant | None = None
    alias_at: int | None = None
    scope: tuple[tuple[int, int], ...] = ()
    table_word: tuple[int, int] | None = None


Setting = Constant | Mapping[str, "Setting"] | tuple["Setting", ...]
"""A constant, or ``map(...)`` and ``array(...)`` of constants, to any depth."""

DECODING: Final = ("format", "schema", *SETTINGS[1:])
"""Arguments of ``read_kafka`` that say how its records are decoded."""


@dataclass(frozen=True, slots=True)
class Argument:
    """An argument of a table function.

    Attributes:
        name: As it is written before ``=>``; None for an argument without name.
        value: A constant, or those of ``map('key', 'value')`` by key.
    """

    name: str | None
    value: Constant | Mapping[str, Constant]


@dataclass(frozen=True, slots=True)
class TableFunction:
    """A call of one of SOURCE_FUNCTIONS where a table could be.

    Attributes:
        name: In small letters.
        arguments: In the order of the text.
        is_streaming: Whether it is written as ``STREAM name(...)`` or ``STREAM(name(...))``; ``cloud_files`` always is.
        start: The first character of the call in the text, behind ``STREAM``.
        end: The character after its last one.
        at: Where it is written, as ``file:line:column``.
        options_span: Of ``WITH (...)`` behind a stream, whose options are arguments, too: from and to.
        names_metadata: Whether the SELECT that reads it names ``_metadata``, so that its view needs that column.
        decoding: Of ``read_kafka`` how its records are decoded, by DECODING; empty where they are not.
    """

    name: str
    arguments: tuple[Argument, ...]
    is_streaming: bool
    start: int
    end: int
    at: str
    options_span: tuple[int, int] | None = None
    names_metadata: bool = False
    decoding: Mapping[str, Setting] = field(default_factory=dict)

    def positional(self, secret: Callable[[str, str], str]) -> list[str]:
        """The arguments without name that are no map."""
        values = [each.value for each in self.arguments if each.name is None]
        return [each.text(secret) for each in values if isinstance(each, Constant)]

    def options(self, secret: Callable[[str, str], str]) -> dict[str, str]:
        """The arguments with names, and those of maps, as written; without those that are ``NULL``.

        Args:
            secret: Gives the secret of a scope and key.
        """
        found: dict[str, Constant] = {}
        for each in self.arguments:
            if isinstance(each.value, Mapping):
                found.update(each.value)
            elif each.name is not None:
                found[each.name] = each.value
        return {name: value.text(secret) for name, value in found.items() if not value.is_null}

    def settings(self, secret: Callable[[str, str], str]) -> dict[str, Any]:
        """How its records are decoded, as ``decode`` takes it; empty where they are not."""
        found = {name: _plain(value, secret) for name, value in self.decoding.items()}
        if "schema" in found:
            kind, schema = found.get("format", {}), found.pop("schema")
            found["format"] = {**(kind if isinstance(kind, dict) else {"type": kind}), "schema": schema}
        return found


def _plain(setting: Setting, secret: Callable[[str, str], str]) -> Any:
    if isinstance(setting, Constant):
        return None if setting.is_null else setting.text(secret)
    if isinstance(setting, Mapping):
        return {name: _plain(value, secret) for name, value in setting.items()}
    return [_plain(value, secret) for value in setting]
