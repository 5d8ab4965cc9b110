"""Columns of PySpark as SQL, as far as they are read without Spark."""

from __future__ import annotations

import ast
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import is_plain, quoted
from rivermouth.pipelines.convert.model import listed, word
from rivermouth.pipelines.sql.tokens import quoted_string

OPERATORS: Final[dict[type[ast.AST], str]] = {
    ast.Add: "+",
    ast.Sub: "-",
    ast.Mult: "*",
    ast.Div: "/",
    ast.Mod: "%",
    ast.BitAnd: "AND",
    ast.BitOr: "OR",
    ast.Gt: ">",
    ast.GtE: ">=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Eq: "=",
    ast.NotEq: "<>",
}
_COLUMNS: Final = ("col", "column")
_TEXT_BEHIND: Final = frozenset(
    ["to_timestamp", "to_date", "date_format", "split", "regexp_extract", "regexp_replace", "get_json_object", "nvl"]
)
"""Functions that take a text after the first argument as a text, and not as the name of a column."""


class Unread(Exception):
    """A column cannot be read; its text says why."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A column as SQL.

    Attributes:
        text: SQL of its value.
        names: What ``alias`` calls it.
    """

    text: str
    names: tuple[str, ...] = ()

    @property
    def item(self) -> str:
        """As an item of a SELECT."""
        if not self.names:
            return self.text
        called = word(self.names[0]) if len(self.names) == 1 else f"({listed(self.names)})"
        return f"{self.text} AS {called}"

    def method(self, name: str, arguments: list[Any]) -> Sql:
        """A call of one of its methods.

        Raises:
            Unread: It is none of those that are read.
        """
        match name, arguments:
            case (("alias" | "name"), [*names]) if names and all(isinstance(each, str) for each in names):
                return replace(self, names=tuple(names))
            case (("cast" | "astype"), [str() as kind]):
                return Sql(f"CAST({self.text} AS {kind.upper()})")
            case (("cast" | "astype"), [T.DataType() as kind]):
                return Sql(f"CAST({self.text} AS {kind.simpleString()})")
            case "isNotNull", []:
                return Sql(f"{self.text} IS NOT NULL")
            case "isNull", []:
                return Sql(f"{self.text} IS NULL")
            case (("getField" | "getItem"), [str() as field]):
                return Sql(f"{self.text}.{word(field)}")
            case "getItem", [int() as position]:
                return Sql(f"{self.text}[{position}]")
        msg = f"a flow's column is SQL, and .{name}() is not read: write it with expr()"
        raise Unread(msg)


def column(value: Any) -> Sql:
    """A column, or its name."""
    if isinstance(value, Sql):
        return value
    if isinstance(value, str):
        return Sql(_name(value))
    msg = "a column is neither SQL nor a name"
    raise Unread(msg)


def constant(value: Any) -> str:
    """A value of Python as SQL."""
    match value:
        case None:
            return "NULL"
        case bool():
            return str(value).lower()
        case int() | float():
            return repr(value)
        case str():
            return quoted_string(value)
    msg = f"a value of type {type(value).__name__} is not read as SQL"
    raise Unread(msg)


def operand(value: Any) -> str:
    """The SQL of an operand."""
    return value.text if isinstance(value, Sql) else constant(value)


def function(name: str, arguments: list[Any], named: dict[str, Any]) -> Sql:
    """A call of a function of ``pyspark.sql.functions``.

    Raises:
        Unread: It is not one that is read.
    """
    match name, arguments:
        case (("col" | "column"), [str() as text]):
            return Sql(_name(text))
        case "expr", [str() as text]:
            return Sql(text)
        case "lit", [value]:
            return Sql(constant(value))
        case "from_json", [value, schema, *more]:
            return _from_json(value, schema, (more[0] if more else named.get("options")) or {})
    if named:
        msg = f"{name}() with named arguments is not read: write it with expr()"
        raise Unread(msg)
    texts = [
        constant(each)
        if isinstance(each, int | float) or (position and isinstance(each, str) and name in _TEXT_BEHIND)
        else column(each).text
        for position, each in enumerate(arguments)
    ]
    if name == "date_trunc":
        texts[0] = constant(arguments[0])
    return Sql(f"{name}({', '.join(texts)})")


def _from_json(value: Any, schema: Any, options: dict[str, Any]) -> Sql:
    if isinstance(schema, T.DataType):
        schema = ddl(schema)
    if not isinstance(schema, str):
        msg = "the schema of from_json is no constant"
        raise Unread(msg)
    pairs = [f"{quoted_string(str(name))}, {quoted_string(str(text))}" for name, text in options.items()]
    more = f", map({', '.join(pairs)})" if pairs else ""
    return Sql(f"from_json({column(value).text}, {quoted_string(schema)}{more})")


def ddl(schema: T.DataType) -> str:
    """A type as DDL; of a struct its columns."""
    if not isinstance(schema, T.StructType):
        return _type(schema)
    return ", ".join(f"{word(each.name)} {_type(each.dataType)}" for each in schema.fields)


def _type(kind: T.DataType) -> str:
    match kind:
        case T.StructType():
            return f"struct<{', '.join(f'{word(each.name)}: {_type(each.dataType)}' for each in kind.fields)}>"
        case T.ArrayType():
            return f"array<{_type(kind.elementType)}>"
        case T.MapType():
            return f"map<{_type(kind.keyType)}, {_type(kind.valueType)}>"
    return kind.simpleString()


def _name(text: str) -> str:
    if text == "*" or text.endswith(".*"):
        return text
    parts = text.split(".") if "`" not in text else [text]
    return ".".join(part if is_plain(part) or "`" in part else quoted(part) for part in parts)
