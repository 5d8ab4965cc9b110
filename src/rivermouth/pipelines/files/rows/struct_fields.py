"""SQL of values with structs that were read with more fields than are declared."""

from __future__ import annotations

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import folded


def narrowed(value: str, declared: T.DataType, read: T.DataType, depth: int = 0) -> str:
    """SQL of a value with the declared fields alone.

    Args:
        value: SQL of the value.
        declared: Its type.
        read: The type that it was read with: the same, with more fields in structs.
        depth: How many lambdas are around it.
    """
    each = f"each_{depth}"
    match declared, read:
        case _ if declared == read:
            return value
        case T.StructType(), T.StructType():
            types = {folded(one.name): one.dataType for one in read.fields}
            fields = ", ".join(
                f"{names.literal(one.name)}, "
                f"{narrowed(_field(value, one.name), one.dataType, types[folded(one.name)], depth)}"
                for one in declared.fields
            )
            return f"CASE WHEN {value} IS NOT NULL THEN named_struct({fields}) END"
        case T.ArrayType(), T.ArrayType():
            inner = narrowed(each, declared.elementType, read.elementType, depth + 1)
            return f"transform({value}, {each} -> {inner})"
        case T.MapType(), T.MapType():
            inner = narrowed(each, declared.valueType, read.valueType, depth + 1)
            return f"transform_values({value}, (key_{depth}, {each}) -> {inner})"
    return value


def others(value: str, declared: T.StructType, read: T.StructType, depth: int = 0) -> list[tuple[str, str]]:
    """The JSON pointers of the fields that are not declared, each with SQL of its value.

    An array or a map that has such a field in one of its structs is there as a whole.

    Args:
        value: SQL of the struct; empty for a row.
        declared: Its type.
        read: The type that it was read with.
        depth: How many lambdas are around it.
    """
    types = {folded(each.name): each.dataType for each in declared.fields}
    found: list[tuple[str, str]] = []
    for each in read.fields:
        field = _field(value, each.name) if value else names.quoted(each.name)
        pointer = names.pointer_step(each.name)
        if folded(each.name) not in types:
            found.append((pointer, field))
        else:
            inner = _of_field(field, types[folded(each.name)], each.dataType, depth)
            found.extend((pointer + rest, sql) for rest, sql in inner)
    return found


def _of_field(value: str, declared: T.DataType, read: T.DataType, depth: int) -> list[tuple[str, str]]:
    match declared, read:
        case T.StructType(), T.StructType():
            return others(value, declared, read, depth)
        case T.ArrayType(), T.ArrayType():
            elements, inner, kind = value, declared.elementType, read.elementType
        case T.MapType(), T.MapType():
            elements, inner, kind = f"map_values({value})", declared.valueType, read.valueType
        case _:
            return []
    each = f"other_{depth}"
    if lost := " OR ".join(f"{sql} IS NOT NULL" for _, sql in _of_field(each, inner, kind, depth + 1)):
        return [("", f"CASE WHEN exists({elements}, {each} -> {lost}) THEN {value} END")]
    return []


def _field(value: str, name: str) -> str:
    return f"{value}.{names.quoted(name)}"
