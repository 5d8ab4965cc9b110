"""Rows of two tables compared, whatever the types of their columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rivermouth.rows.keyed.change_order import ChangeOrder


def comparable(sql: str, kind: T.DataType, depth: int = 0) -> str:
    """SQL of something that Spark can compare: it is equal for two values of a type where these are equal.

    Args:
        sql: A value.
        kind: Its type. Spark compares neither maps, whose entries have no order, nor variants.
        depth: In how many functions over arrays it is.
    """
    one = f"rivermouth_{depth}"
    match kind:
        case T.VariantType():
            return f"to_json({sql})"
        case _ if not needs_help(kind):
            return sql
        case T.StructType():
            fields = (f"{comparable(f'{sql}.{quoted(each.name)}', each.dataType, depth)}" for each in kind.fields)
            return f"IF({sql} IS NULL, NULL, struct({', '.join(fields)}))"
        case T.ArrayType():
            return f"transform({sql}, {one} -> {comparable(one, kind.elementType, depth + 1)})"
        case T.MapType():
            parts = (("key", kind.keyType), ("value", kind.valueType))
            fields = (comparable(f"{one}.{name}", part, depth + 1) for name, part in parts)
            return f"array_sort(transform(map_entries({sql}), {one} -> struct({', '.join(fields)})))"
    return sql


def alike(one: str, other: str, kind: T.DataType) -> str:
    """SQL, never null: whether two values of a type are equal, or both null."""
    return f"{comparable(one, kind)} <=> {comparable(other, kind)}"


def needs_help(kind: T.DataType) -> bool:
    """Whether Spark cannot compare two values of a type."""
    return any(word in kind.simpleString() for word in ("map<", "variant"))


def differences(
    behind: DataFrame,
    there: DataFrame,
    wanted: DataFrame,
    columns: Sequence[str],
    order: ChangeOrder,
    *,
    versions: bool,
) -> DataFrame:
    """The rows of the wanted keys that a target lacks or has otherwise, and those that it has too much.

    Args:
        behind: The rows that it should have.
        there: The rows that it has.
        wanted: Keys.
        columns: Of the target.
        order: Of the changes.
        versions: Whether it has all versions of a key.

    Returns:
        The columns, ``__delete``, and ``__change``, which is another number in each row.
    """
    row = F.struct(*(F.col(quoted(name)) for name in columns))
    identity = [*order.keys, *([names.START_AT] if versions else [])]
    plain = [quoted(name) for name in identity]
    mine = behind.join(wanted, list(order.keys), "left_semi").select(*plain, row.alias("__new"))
    its = there.join(wanted, list(order.keys), "left_semi").select(*plain, row.alias("__old"))
    found = mine.join(its, identity, "full")
    kinds = {each.name: each.dataType for each in behind.schema}
    same = " AND ".join(alike(f"__new.{quoted(name)}", f"__old.{quoted(name)}", kinds[name]) for name in columns)
    changed = found.where(f"__new IS NULL OR __old IS NULL OR NOT ({same})")
    values = [
        F.col(quoted(name)) if name in identity else F.col(f"__new.{quoted(name)}").alias(name) for name in columns
    ]
    return changed.select(*values, F.col("__new").isNull().alias(names.DELETE)).withColumn(
        names.CHANGE, F.monotonically_increasing_id()
    )
