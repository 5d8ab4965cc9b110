"""Values inside of arrays, maps and structs, read by the same rules as columns, and by their part of the schema block.

Such a column is read with variants in the place of the values that ``debezium_types`` reads. ``checked`` makes of it
the same arrays, maps and structs with a struct for each value: ``v`` is the value, ``wrong`` the reason why it is none.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc import debezium_types
from rivermouth.decoding.cdc.debezium_types import HINTED, Described
from rivermouth.decoding.json import json_types
from rivermouth.names import quoted

AMBIGUOUS: Final = "FIELD_AMBIGUOUS"
MISFIT: Final = "FIELD_TYPE"
_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)


def hint_type(declared: Iterable[T.DataType]) -> T.StructType:
    """What is read of the schema block for columns of these types: as deep as the types are."""
    kinds = list(declared)
    fields = [
        *(T.StructField(name, T.StringType()) for name in ("field", "type", "name")),
        T.StructField("parameters", T.MapType(T.StringType(), T.StringType())),
    ]
    items = [each.elementType for each in kinds if isinstance(each, T.ArrayType)]
    values = [each.valueType for each in kinds if isinstance(each, T.MapType)]
    inner = [part.dataType for each in kinds if isinstance(each, T.StructType) for part in each.fields]
    if items:
        fields.append(T.StructField("items", hint_type(items)))
    if values:
        fields.append(T.StructField("values", hint_type(values)))
    if inner:
        fields.append(T.StructField("fields", T.ArrayType(hint_type(inner))))
    return T.StructType(fields)


def is_told(declared: T.DataType) -> bool:
    """Whether the schema block says something of values of a type: how to read them, or that they are no text."""
    match declared:
        case T.StructType():
            return any(is_told(field.dataType) for field in declared.fields)
        case T.ArrayType() | T.MapType():
            return is_told(json_types.item_type(declared))
    return isinstance(declared, (*HINTED, T.StringType))


def encoded(hint: str, declared: T.DataType) -> str | None:
    """SQL, true where the schema block says of a declared text that it is an encoded decimal; None without texts."""
    match declared:
        case T.StringType():
            return f"coalesce({hint}.name = '{debezium_types.DECIMAL}', false)"
        case T.ArrayType():
            return encoded(f"{hint}.items", declared.elementType)
        case T.MapType():
            return encoded(f"{hint}.values", declared.valueType)
        case T.StructType():
            parts = (encoded(hint_of(f"{hint}.fields", each.name), each.dataType) for each in declared.fields)
            return json_types.any_of(parts)
    return None


def is_hinted(declared: T.DataType) -> bool:
    """Whether values of a type, or values inside of them, mean what the schema block says."""
    match declared:
        case T.StructType():
            return any(is_hinted(field.dataType) for field in declared.fields)
        case T.ArrayType() | T.MapType():
            return is_hinted(json_types.item_type(declared))
    return isinstance(declared, HINTED)


def read_as(declared: T.DataType) -> T.DataType:
    """The type by which a column is read from the document: what the schema block explains is kept as it came."""
    return json_types.read_as(declared, _leaf_read_as)


def _leaf_read_as(declared: T.DataType) -> T.DataType:
    return T.VariantType() if isinstance(declared, HINTED) else json_types.leaf_read_as(declared)


def hint_of(hints: str, name: str) -> str:
    """SQL of the part of a schema block's fields that is about the field of that name; null without one."""
    return f"get(filter({hints}, c -> c.field = {names.literal(name)}), 0)"


def checked(read: str, declared: T.DataType, hint: str, said: Described, numbers: Iterator[int] | None = None) -> str:
    """SQL of a column that was read as ``read_as`` says, with a struct of ``v`` and ``wrong`` for each value.

    Args:
        read: SQL of the column.
        declared: Its type.
        hint: SQL of its part of the schema block, of ``hint_type``.
        said: What the settings say.
        numbers: For the names of variables.
    """
    numbers = numbers if numbers is not None else itertools.count()
    if not is_hinted(declared):
        return _plain(read, declared, said)
    at = f"n{next(numbers)}"
    match declared:
        case T.StructType():
            parts = ((f"{read}.{quoted(each.name)}", hint_of(f"{at}_hint.fields", each.name)) for each in declared)
            made = ", ".join(
                f"{checked(part, each.dataType, its, said, numbers)} AS {quoted(each.name)}"
                for (part, its), each in zip(parts, declared.fields, strict=True)
            )
            made = f"CASE WHEN {read} IS NOT NULL THEN struct({made}) END"
            return _let({f"{at}_hint": hint}, made)
        case T.ArrayType():
            inner = checked(at, declared.elementType, f"{at}_hint", said, numbers)
            return _let({f"{at}_hint": f"{hint}.items"}, f"transform({read}, {at} -> {inner})")
        case T.MapType():
            inner = checked(at, declared.valueType, f"{at}_hint", said, numbers)
            entries = json_types.last_wins(read, at)
            return _let({f"{at}_hint": f"{hint}.values"}, f"transform_values({entries}, (k{at}, {at}) -> {inner})")
    return _leaf(read, declared, hint, at, said)


def value(checked: str, declared: T.DataType, numbers: Iterator[int] | None = None) -> str:
    """SQL of the values alone of what ``checked`` made."""
    numbers = numbers if numbers is not None else itertools.count()
    if is_hinted(declared):
        at = f"v{next(numbers)}"
        match declared:
            case T.StructType():
                fields = (
                    f"{value(f'{checked}.{quoted(each.name)}', each.dataType, numbers)} AS {quoted(each.name)}"
                    for each in declared.fields
                )
                return f"CASE WHEN {checked} IS NOT NULL THEN struct({', '.join(fields)}) END"
            case T.ArrayType():
                return f"transform({checked}, {at} -> {value(at, declared.elementType, numbers)})"
            case T.MapType():
                return f"transform_values({checked}, (k{at}, {at}) -> {value(at, declared.valueType, numbers)})"
    return f"{checked}.v"


def wrong(checked: str, declared: T.DataType, reason: str, numbers: Iterator[int] | None = None) -> str:
    """SQL, never null: whether a value in what ``checked`` made is none for a reason."""
    numbers = numbers if numbers is not None else itertools.count()
    if is_hinted(declared):
        at = f"w{next(numbers)}"
        match declared:
            case T.StructType():
                parts = [
                    _wrong_part(f"{checked}.{quoted(each.name)}", each.dataType, each.nullable, reason, numbers)
                    for each in declared.fields
                ]
                return f"({checked} IS NOT NULL AND ({' OR '.join(parts)}))"
            case T.ArrayType():
                inner = _wrong_part(at, declared.elementType, declared.containsNull, reason, numbers)
                return f"coalesce(exists({checked}, {at} -> {inner}), false)"
            case T.MapType():
                inner = _wrong_part(at, declared.valueType, declared.valueContainsNull, reason, numbers)
                return f"coalesce(exists(map_values({checked}), {at} -> {inner}), false)"
    return f"coalesce({checked}.wrong = '{reason}', false)"


def _wrong_part(part: str, declared: T.DataType, may_be_null: bool, reason: str, numbers: Iterator[int]) -> str:
    found = wrong(part, declared, reason, numbers)
    if may_be_null or reason != MISFIT:
        return found
    empty = f"{part} IS NULL" if is_hinted(declared) and isinstance(declared, _NESTED) else f"{part}.v IS NULL"
    return f"({found} OR {empty})"


def _plain(read: str, declared: T.DataType, said: Described) -> str:
    """Of what no schema block explains: as in plain JSON."""
    misfit = json_types.misfit(read, declared, exact_times=said.exact_times)
    reason = f"CASE WHEN {misfit} THEN '{MISFIT}' END" if misfit else "CAST(NULL AS STRING)"
    return f"struct({json_types.convert(read, declared)} AS v, {reason} AS wrong)"


def _leaf(read: str, declared: T.DataType, hint: str, at: str, said: Described) -> str:
    """The steps of a column, one inside of the other."""
    bound = {f"{at}_hint": hint}
    for step in debezium_types.steps(read, declared, at, said):
        bound |= step
    unclear = debezium_types.ambiguous(declared, at, said)
    ambiguous = f"WHEN {unclear} THEN '{AMBIGUOUS}' " if unclear else ""
    reason = f"CASE {ambiguous}WHEN {debezium_types.is_there(read)} AND {at} IS NULL THEN '{MISFIT}' END"
    return _let(bound, f"struct({at} AS v, {reason} AS wrong)")


def _let(bound: dict[str, str], result: str) -> str:
    """SQL of ``result`` with names for other SQL; each may use the names before it."""
    for name, sql in reversed(bound.items()):
        result = f"get(transform(array({sql}), {name} -> {result}), 0)"
    return result
