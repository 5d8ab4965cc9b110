"""Open fields: those in which documents had nothing so far, and whose type nobody can know.

Nothing is null, an object without a value in it, and an array without a value in it. Where a flow adds new columns as
it runs, an open field is no column until its first value comes; then it is a new field like any other.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.schemas.column_types import name_in_json

if TYPE_CHECKING:
    from rivermouth.spec import Flow

Path = tuple[str, ...]
"""Names of fields from the document down; ``[]`` means the elements of an array."""
IsOpen = Callable[[str, str], bool]
"""Whether a field of the document, by its name and that of its column, may stay without a column."""
_WORD: Final = re.compile(r"`(?:[^`]|``)+`|\w+")


def known(found: T.DataType) -> T.DataType | None:
    """The part of an inferred type that values made; None if nothing was there but null, ``{}`` and ``[]``."""
    match found:
        case T.NullType():
            return None
        case T.StructType():
            inner = ((each, known(each.dataType)) for each in found.fields)
            fields = [T.StructField(f.name, kind, f.nullable, f.metadata) for f, kind in inner if kind is not None]
            return T.StructType(fields) if fields else None
        case T.ArrayType():
            element = known(found.elementType)
            return None if element is None else T.ArrayType(element, found.containsNull)
    # The names of a map are lost: of what is in it nobody could make fields later.
    return found


def without_open(found: T.StructType, is_open: IsOpen) -> T.StructType:
    """The inferred columns without what is open in them."""
    fields = []
    for each in found.fields:
        kind = known(each.dataType) if is_open(name_in_json(each), each.name) else each.dataType
        if kind is not None:
            fields.append(T.StructField(each.name, kind, each.nullable, each.metadata))
    return T.StructType(fields)


def paths(found: T.StructType, is_open: IsOpen) -> tuple[Path, ...]:
    """The open fields of inferred columns; of those within an open one none."""
    parts = (_paths(each.dataType, (name_in_json(each),)) for each in found if is_open(name_in_json(each), each.name))
    return tuple(path for part in parts for path in part)


def _paths(found: T.DataType, path: Path) -> Iterator[Path]:
    if known(found) is None:
        yield path
    elif isinstance(found, T.StructType):
        for each in found.fields:
            yield from _paths(each.dataType, (*path, each.name))
    elif isinstance(found, T.ArrayType):
        yield from _paths(found.elementType, (*path, "[]"))


def still_open(open_paths: Iterable[Path], schema: T.StructType) -> tuple[Path, ...]:
    """Those of the paths that are no columns, or fields within one, of a newer schema."""
    return tuple(path for path in open_paths if not _is_there(path, schema))


def _is_there(path: Path, schema: T.DataType) -> bool:
    if not path:
        return True
    match schema:
        case T.StructType():
            inner = next((each.dataType for each in schema.fields if name_in_json(each) == path[0]), None)
            return inner is not None and _is_there(path[1:], inner)
        case T.ArrayType() if path[0] == "[]":
            return _is_there(path[1:], schema.elementType)
    return True


def beside(found: T.StructType, mine: T.StructType) -> T.StructType:
    """What was found without the open fields that a schema does not have: nothing grows by them."""
    there = {name_in_json(each): each.dataType for each in mine.fields}
    fields = []
    for each in found.fields:
        name = name_in_json(each)
        kind = _beside(each.dataType, there[name]) if name in there else known(each.dataType)
        if kind is not None:
            fields.append(T.StructField(each.name, kind, each.nullable, each.metadata))
    return T.StructType(fields)


def _beside(found: T.DataType, mine: T.DataType) -> T.DataType:
    match found, mine:
        case T.StructType(), T.StructType():
            return beside(found, mine)
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_beside(found.elementType, mine.elementType), found.containsNull)
        case T.MapType(), T.MapType():
            return T.MapType(found.keyType, _beside(found.valueType, mine.valueType), found.valueContainsNull)
    return found


def open_for(flow: Flow) -> IsOpen:
    """Which fields a flow may leave without a column: those that it would add as new ones, and that it does not name.

    What its expressions, keys, layout and policies name must be a column from the first record on.
    """
    policies, pinned, named = flow.policies, flow.evolving_format.pinned, _named_by(flow)

    def is_open(field: str, column: str) -> bool:
        words = {field.lower(), column.lower()}
        return policies.new_column(field) == "evolve" and not words & (pinned | named)

    return is_open


def _named_by(flow: Flow) -> frozenset[str]:
    """The words, in lower case, among which are the columns that a flow names."""
    policies = flow.evolution.columns if flow.evolution else {}
    texts = [*flow.select, flow.explode or "", *(each.condition for each in flow.expectations), *policies]
    texts += [column for each in flow.lookup for column in each.on]
    table = flow.table
    texts += [*_texts(table.partition_by), *table.cluster_by, *table.column_comments, *flow.zorder]
    if flow.keyed is not None:
        texts += _texts(flow.keyed.model_dump())
    words = (word for text in texts for word in (text, *_WORD.findall(text)))
    return frozenset(word.strip("`").replace("``", "`").lower() for word in words)


def _texts(value: object) -> list[str]:
    match value:
        case str():
            return [value]
        case dict():
            return [text for part in value.values() for text in _texts(part)]
        case list() | tuple() | set() | frozenset():
            return [text for part in value for text in _texts(part)]
    return []
