"""Arguments of definitions as users write them: names, columns and lists of columns, in all their spellings."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Column

from rivermouth.decoding.jvm.java_objects import java_column
from rivermouth.pipelines.python.registry import Registry, invalid

if TYPE_CHECKING:
    from collections.abc import Sequence

NOT_HONOURED: Final = ("row_filter",)
"""Arguments that change what readers see, and that Delta on Spark has no means for."""
_BEFORE: Final = r"^|(?<=\()|(?<=\[)|(?<=, )|(?<=-> )|(?<=WHEN )|(?<=THEN )|(?<=ELSE )"
_OPERATOR: Final = re.compile(
    rf"""'(?:[^'\\]|\\.)*'|`(?:[^`]|``)*`|(?:{_BEFORE})(?P<operator>and|or|not|in|[^\w\s(),.'"`\[\]]+)\("""
)
"""In the text of a Column: what is quoted, which stays, and operators before their operands.

They are at the beginning of an expression. Elsewhere they are SQL that a user wrote for ``expr``.
"""
_SQL: Final = "SqlExpression"
"""Spark's class of what ``expr`` makes."""
_SCD_TYPES: Final = {None: 1, 1: 1, "1": 1, 2: 2, "2": 2}


def column_text(value: Any) -> str:
    """SQL of a column or an expression: text is taken as it is, a Column by what Spark calls it."""
    if isinstance(value, str):
        return value
    if isinstance(value, Column):
        node = java_column(value).node()
        text = str(node.sql())
        return text if node.getClass().getSimpleName() == _SQL else _OPERATOR.sub(_as_function, text)
    name = getattr(value, "name", None)
    return name if isinstance(name, str) else str(value)


def _as_function(found: re.Match[str]) -> str:
    """A Column calls operators like functions, as in ``=(a, b)``; Spark's parser knows such names in backquotes."""
    return found[0] if found["operator"] is None else f"`{found['operator']}`("


def column_name(value: Any) -> str:
    """The name of a column: text, or a Column that is one."""
    if isinstance(value, str):
        return value
    if isinstance(value, Column):
        return str(java_column(value).toString())
    name = getattr(value, "name", value)
    return name if isinstance(name, str) else str(value)


def column_names(registry: Registry, what: str, argument: str, value: Any) -> tuple[str, ...]:
    """The names in a list of columns; a single column need not be in a list; empty where there is none.

    Raises:
        DefinitionInvalid: It is neither.
    """
    if value is None:
        return ()
    if isinstance(value, str | Column):
        return (column_name(value),)
    try:
        return tuple(column_name(each) for each in value)
    except TypeError:
        raise invalid(registry, what, f"{argument} is no list of columns", f'{argument}=["id"]') from None


def scd_type(registry: Registry, what: str, value: Any) -> int:
    """1 or 2, as a number or as text; 1 where none is given.

    Raises:
        DefinitionInvalid: It is another one.
    """
    try:
        return _SCD_TYPES[value]
    except (KeyError, TypeError):
        detail = f"stored_as_scd_type is {value!r}"
        raise invalid(registry, what, detail, "stored_as_scd_type=1 keeps the newest row, 2 all versions") from None


def unknown_arguments(registry: Registry, what: str, given: dict[str, Any], known: Sequence[str]) -> None:
    """Raises if an argument is given that is not known.

    Raises:
        DefinitionInvalid: There is one, or one that is known and has no effect here is not None.
    """
    from rivermouth.names import did_you_mean  # noqa: PLC0415 - only for the error

    for name, value in given.items():
        if name in NOT_HONOURED:
            if value is not None:
                detail = f"{name} changes what readers see, and Spark has no means for it"
                raise invalid(registry, what, detail, f"remove {name}; filter in the query instead")
            continue
        raise invalid(registry, what, f"there is no argument {name}", did_you_mean(name, known))
