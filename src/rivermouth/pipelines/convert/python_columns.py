"""Columns of PySpark as SQL, as far as they are read without Spark."""

from __future__ import annotations

import ast
import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import is_plain, quoted
from rivermouth.pipelines.convert.model import listed, word
from rivermouth.pipelines.convert.selects.items import written
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
_NAMES: Final[Mapping[str, str]] = {"create_map": "map"}
"""Functions of PySpark that have another name in SQL."""
_TURNED: Final = ("trim", "ltrim", "rtrim")
"""Functions whose two arguments are the other way round in SQL."""
_NO_SQL: Final = frozenset(
    [
        *("asc", "asc_nulls_first", "asc_nulls_last", "desc", "desc_nulls_first", "desc_nulls_last", "broadcast"),
        *("bitwise_not", "bitwiseNOT", "call_function", "call_udf", "timestamp_add", "timestamp_diff"),
        *("bucket", "years", "months", "days", "hours", "extract", "product", "unwrap_udt"),
        *("count_distinct", "countDistinct", "sum_distinct", "sumDistinct", "listagg_distinct", "string_agg_distinct"),
    ]
)
"""Functions that are no functions of SQL, or others of this name."""
_ONE_NAME: Final = re.compile(r"\w+|`[^`]+`")
_TEXT: Final = re.compile(r"\bstr\b|\bAny\b")
_MORE_THAN_TEXT: Final = re.compile(r"Mapping|Callable")


class Unread(Exception):
    """A column cannot be read; its text says why."""


@dataclass(frozen=True, slots=True)
class Sql:
    """A column as SQL.

    Attributes:
        text: SQL of its value.
        names: What ``alias`` calls it.
        is_loose: Whether an operator next to it would take a part of it.
    """

    text: str
    names: tuple[str, ...] = ()
    is_loose: bool = False

    @property
    def operand(self) -> str:
        """Its SQL next to an operator."""
        return f"({self.text})" if self.is_loose else self.text

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
                return Sql(f"CAST({self.text} AS {kind})")
            case (("cast" | "astype"), [T.DataType() as kind]):
                return Sql(f"CAST({self.text} AS {_type(kind)})")
            case "isNotNull", []:
                return Sql(f"{self.operand} IS NOT NULL", is_loose=True)
            case "isNull", []:
                return Sql(f"{self.operand} IS NULL", is_loose=True)
            case (("getField" | "getItem"), [str() as field]):
                return Sql(f"{self.operand}.{word(field)}")
            case "getItem", [int() as position]:
                return Sql(f"{self.operand}[{position}]")
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
        case int():
            return repr(int(value))
        case float() if math.isfinite(value):
            return f"{float(value)!r}D"
        case str():
            return quoted_string(value)
    kind = "that is no finite number" if isinstance(value, float) else f"of type {type(value).__name__}"
    msg = f"a value {kind} is not read as SQL"
    raise Unread(msg)


def operand(value: Any) -> str:
    """The SQL of an operand."""
    return value.operand if isinstance(value, Sql) else constant(value)


def negated(value: Any) -> Sql:
    """The opposite of a condition."""
    return Sql(f"NOT ({value.text if isinstance(value, Sql) else constant(value)})", is_loose=True)


def function(called: Callable[..., Any], arguments: list[Any], named: dict[str, Any]) -> Sql:
    """A call of a function of ``pyspark.sql.functions``.

    Raises:
        Unread: It is not one that is read.
    """
    name = called.__name__
    match name, arguments:
        case (("col" | "column"), [str() as text]):
            return Sql(_name(text))
        case "expr", [str() as text]:
            value, names = written(text)
            return Sql(value, names, is_loose=_ONE_NAME.fullmatch(value) is None)
        case "lit", [Sql() as value]:
            return value
        case "lit", [value]:
            return Sql(constant(value))
        case "from_json", [value, schema, *more] if {*named} <= {"options"}:
            return _from_json(value, schema, (more[0] if more else named.get("options")) or {})
    if named:
        msg = f"{name}() with named arguments is not read: write it with expr()"
        raise Unread(msg)
    if name in _NO_SQL:
        msg = f"{name}() is not read: write it with expr()"
        raise Unread(msg)
    texts = [_argument(name, *each) for each in zip(arguments, _kinds(called, arguments), strict=True)]
    if name in _TURNED:
        texts.reverse()
    return Sql(f"{_NAMES.get(name, name)}({', '.join(texts)})")


def _kinds(called: Callable[..., Any], arguments: list[Any]) -> list[str]:
    """What each argument of a function may be, in the words of PySpark."""
    found: list[str] = []
    bound = inspect.signature(called).bind(*arguments)
    for name, values in bound.arguments.items():
        parameter = bound.signature.parameters[name]
        is_rest = parameter.kind is inspect.Parameter.VAR_POSITIONAL
        found += [str(parameter.annotation)] * (len(values) if is_rest else 1)
    return found


def _argument(name: str, value: Any, kind: str) -> str:
    """An argument as SQL: PySpark takes a text as a name or as a text, by the argument that it is."""
    if isinstance(value, Sql):
        return value.text
    if isinstance(value, str) and "ColumnOrName" in kind:
        return _name(value)
    if isinstance(value, str) and (_MORE_THAN_TEXT.search(kind) or not _TEXT.search(kind)):
        msg = f"{name}() takes no text there: write it with expr()"
        raise Unread(msg)
    if value is None:
        msg = f"{name}() with None is not read: write it with expr()"
        raise Unread(msg)
    return constant(value)


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
