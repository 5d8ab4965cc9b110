"""What documents have besides the schema, or write more exactly: found by our class in the JVM, next to the parse."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth.decoding.json.json_types import read_as
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.names import folded, pointer_step
from rivermouth.schemas.column_types import name_in_json
from rivermouth.spec.evolution import RESCUES, WIDENS

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from rivermouth.spec.evolution import Evolution

_EVOLVE: Final = "evolve"
_NUMBERS: Final[dict[type[T.DataType], str]] = {
    T.ByteType: "tinyint",
    T.ShortType: "smallint",
    T.IntegerType: "int",
    T.LongType: "bigint",
    T.FloatType: "float",
    T.DecimalType: "decimal",
}
_EXACT: Final[dict[type[T.DataType], str]] = {
    T.DoubleType: "double",
    T.TimestampType: "timestamp",
    T.TimestampNTZType: "timestamp",
}
Exact = Mapping[str, Any]
"""Where in documents each digit of a number, and each part of a second, counts."""


def fields(spark: SparkSession, declared: T.StructType, evolution: Evolution, words: frozenset[str], of: str) -> Column:
    """Text of the undeclared fields of a binary column with documents, those whose policy is one of ``words``.

    A JSON object from JSON pointers (https://datatracker.ietf.org/doc/html/rfc6901) to the values as they were sent;
    null where there are none. A null is none.
    """
    return ClassicColumn(_class(spark, fields_tree(declared, evolution, words)).found(of))


def rescued(spark: SparkSession, tree: Mapping[str, Any], of: str, misfits: str) -> Column:
    """As ``fields``, of those that are rescued, with the declared fields whose value is none of their column's type.

    Args:
        spark: Any session.
        tree: As of ``rescued_tree``.
        of: The column with the documents as they were sent.
        misfits: SQL of the names of fields that are rescued though Spark's parser takes them: an array of strings.
    """
    return ClassicColumn(_class(spark, tree).found(of, misfits))


def fitted(spark: SparkSession, tree: Mapping[str, Any], of: str) -> Column:
    """The documents of a binary column; null in the place of rescued fields that Spark's parser refuses or rounds.

    Args:
        spark: Any session.
        tree: As of ``kinds_tree``.
        of: The column with the documents.
    """
    return ClassicColumn(_class(spark, tree).fitted(of))


def wider_numbers(
    spark: SparkSession, declared: T.StructType, evolution: Evolution, of: str, *, pinned: Collection[str] = ()
) -> Column:
    """Whether a document has a number that its column does not hold and a wider one may; never null.

    Args:
        spark: Any session.
        declared: The schema.
        evolution: Its policies.
        of: The column with the documents.
        pinned: Names, in lower case, of columns that stay as they are.
    """
    return ClassicColumn(_class(spark, numbers_tree(declared, evolution, pinned)).wider(of))


def is_kept_exactly(spark: SparkSession, tree: Mapping[str, Any], of: str) -> Column:
    """Whether the documents of a binary column say nothing more exactly than their columns keep it; never null.

    Args:
        spark: Any session.
        tree: As of ``exact_tree``.
        of: The column with the documents.
    """
    return ClassicColumn(_class(spark, tree).kept(of))


def sound(spark: SparkSession, of: str) -> Column:
    """Whether a binary column is a JSON object and nothing else; never null."""
    return ClassicColumn(_class(spark, {}).sound(of))


def _class(spark: SparkSession, tree: Mapping[str, Any]) -> Any:
    return jvm_classes.made(spark, "json.Undeclared", json.dumps(tree))


def fields_tree(declared: T.StructType, evolution: Evolution, words: frozenset[str]) -> dict[str, Any]:
    """The names that a schema declares, and which others are told, for our class and for ``pointers``."""
    members = {}
    for field in declared.fields:
        others = evolution.new_column(field.name) in words
        told = {"others": others, "evolves": evolution.new_column(field.name) == _EVOLVE}
        members[name_in_json(field)] = _names_in(field.dataType, told)
    return {
        "fields": members,
        "others": evolution.on_new_column in words,
        "named": {name.lower(): evolution.new_column(name) in words for name in evolution.columns},
        "evolves": evolution.on_new_column == _EVOLVE,
        "evolving": {name.lower(): evolution.new_column(name) == _EVOLVE for name in evolution.columns},
    }


def _names_in(declared: T.DataType, told: dict[str, bool]) -> dict[str, Any]:
    match declared:
        case T.StructType():
            return {"fields": {each.name: _names_in(each.dataType, told) for each in declared.fields}, **told}
        case T.ArrayType():
            return {"items": _names_in(declared.elementType, told)}
        case T.MapType():
            return {"values": _names_in(declared.valueType, told)}
    return {}


def rescued_tree(declared: T.StructType, evolution: Evolution, kinds: Mapping[str, Any]) -> dict[str, Any]:
    """The names that a schema declares with those of ``kinds``, a ``kinds_tree``, for ``rescued``."""
    tree = {**fields_tree(declared, evolution, RESCUES), "nested": kinds["nested"]}
    for name, each in kinds["fields"].items():
        tree["fields"][name] = _merged(tree["fields"][name], each)
    return tree


def kinds_tree(declared: T.StructType, evolution: Evolution, exact: Exact, *, nested: bool) -> dict[str, Any]:
    """The types as which Spark's parser reads the columns whose values are rescued, and where each digit counts.

    Args:
        declared: The schema; nullable with all of its nested fields, if they are rescued alone.
        evolution: Its policies.
        exact: As of ``exact_tree``.
        nested: Whether of a struct, and of structs in an array, the fields are rescued alone that do not fit.
    """
    members = (each for each in declared.fields if is_rescued(each, evolution))
    kinds = {name_in_json(each): _kinds_in(read_as(each.dataType)) for each in members}
    digits = exact.get("fields", {})
    return {"fields": {name: _merged(each, digits.get(name, {})) for name, each in kinds.items()}, "nested": nested}


def is_rescued(field: T.StructField, evolution: Evolution) -> bool:
    """Whether a value of a column is rescued where it is none of its type; what is NOT NULL cannot be."""
    return field.nullable and evolution.type_change(field.name) in RESCUES


def _kinds_in(read: T.DataType) -> dict[str, Any]:
    match read:
        case T.StructType():
            return {"kind": "struct", "fields": {each.name: _kinds_in(each.dataType) for each in read.fields}}
        case T.ArrayType():
            return {"kind": "array", "items": _kinds_in(read.elementType)}
        case T.MapType():
            return {"kind": "map", "values": _kinds_in(read.valueType)}
        case T.FloatType():
            return {"kind": "double"}
    return {"kind": read.simpleString()}


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Two trees over the same schema."""
    both = {**one, **other}
    for part in ("items", "values"):
        if part in one and part in other:
            both[part] = _merged(one[part], other[part])
    if "fields" in one and "fields" in other:
        both["fields"] = {name: _merged(each, other["fields"].get(name, {})) for name, each in one["fields"].items()}
    return both


def exact_tree(
    declared: T.StructType,
    said: Callable[[T.StructField], bool],
    before: T.StructType | None,
    *,
    times: bool | None = None,
) -> dict[str, Any]:
    """Where in documents each digit of a number, and each part of a second, counts; empty where nowhere.

    Args:
        declared: The schema.
        said: Whether a column was inferred, or shall keep each digit because a policy says so.
        before: The schema as it was declared; what it lacks has grown out of it, and counts as inferred. None: nothing
            has grown.
        times: Whether each part of a second counts in all columns, or in none; None: as digits of numbers do.
    """
    base = declared if before is None else before
    known = {folded(each.name): each.dataType for each in base.fields}
    parts = {}
    for each in declared.fields:
        part = _exact_in(each.dataType, None if said(each) else known.get(folded(each.name)), times)
        if part:
            parts[name_in_json(each)] = part
    return {"fields": parts} if parts else {}


def _exact_in(declared: T.DataType, before: T.DataType | None, times: bool | None) -> dict[str, Any]:
    match declared:
        case T.StructType():
            known = {folded(f.name): f.dataType for f in before.fields} if isinstance(before, T.StructType) else {}
            inner = ((each.name, each.dataType, known.get(folded(each.name))) for each in declared.fields)
            members = {name: _exact_in(kind, was, times) for name, kind, was in inner}
            members = {name: part for name, part in members.items() if part}
            return {"fields": members} if members else {}
        case T.ArrayType():
            item_before = before.elementType if isinstance(before, T.ArrayType) else None
            items = _exact_in(declared.elementType, item_before, times)
            return {"items": items} if items else {}
        case T.MapType():
            value_before = before.valueType if isinstance(before, T.MapType) else None
            values = _exact_in(declared.valueType, value_before, times)
            return {"values": values} if values else {}
    what = _EXACT.get(type(declared))
    if times is not None and what == "timestamp":
        return {"exact": what} if times else {}
    return {"exact": what} if what is not None and declared != before else {}


def numbers_tree(declared: T.StructType, evolution: Evolution, pinned: Collection[str] = ()) -> dict[str, Any]:
    """The types of the numbers in the columns that may be widened."""
    open_ones = (each for each in declared.fields if each.name.lower() not in pinned)
    widened = (each for each in open_ones if evolution.type_change(each.name) in WIDENS)
    return {"fields": {name_in_json(each): _numbers_in(each.dataType) for each in widened}}


def _numbers_in(declared: T.DataType) -> dict[str, Any]:
    match declared:
        case T.StructType():
            return {"fields": {each.name: _numbers_in(each.dataType) for each in declared.fields}}
        case T.ArrayType():
            return {"items": _numbers_in(declared.elementType)}
        case T.MapType():
            return {"values": _numbers_in(declared.valueType)}
        case T.DecimalType():
            return {"number": "decimal", "precision": declared.precision, "scale": declared.scale}
    number = _NUMBERS.get(type(declared))
    return {} if number is None else {"number": number}


def first_pointer(
    document: Any, tree: dict[str, Any], members: Callable[[Any], list[tuple[str, Any]] | None]
) -> str | None:
    """The JSON pointer of the first undeclared field of a document; None if there is none.

    Args:
        document: As Python read it.
        tree: As ``fields_tree``.
        members: Of an object its names and values; None for what is no object.
    """
    found = members(document)
    if found is not None:
        known = tree.get("fields")
        for name, value in found:
            inner = tree.get("values") if known is None else known.get(name)
            step = pointer_step(name)
            if inner is not None:
                below = first_pointer(value, inner, members)
                if below is not None:
                    return step + below
            elif known is not None and _is_told(name, value, tree, members):
                return step
    elif isinstance(document, list) and "items" in tree:
        for index, value in enumerate(document):
            below = first_pointer(value, tree["items"], members)
            if below is not None:
                return f"/{index}{below}"
    return None


def _is_told(
    name: str, value: Any, tree: dict[str, Any], members: Callable[[Any], list[tuple[str, Any]] | None]
) -> bool:
    """Whether a field that is not declared is told; a null is none, nor what is empty where the schema may grow."""
    if value is None or not tree.get("named", {}).get(name.lower(), tree["others"]):
        return False
    waits = tree.get("evolving", {}).get(name.lower(), tree.get("evolves", False))
    return not (waits and _is_empty(value, members))


def _is_empty(value: Any, members: Callable[[Any], list[tuple[str, Any]] | None]) -> bool:
    """Whether there is nothing but null in a value."""
    found = members(value)
    if found is not None:
        return all(_is_empty(each, members) for _, each in found)
    return value is None or (isinstance(value, list) and all(_is_empty(each, members) for each in value))


def column_of(field: str, columns: Mapping[str, str]) -> str:
    """The column, or the undeclared field, within which a dead letter's ``field`` lies: a pointer, or a path.

    Args:
        field: As ``explain`` tells it.
        columns: The declared columns by the names that their fields have in the documents.
    """
    if field.startswith("/"):
        name = field[1:].partition("/")[0].replace("~1", "/").replace("~0", "~")
        return columns.get(name, name)
    inside = (name for name in columns.values() if field == name or field.startswith((f"{name}.", f"{name}[]")))
    return max(inside, key=len, default=field)
