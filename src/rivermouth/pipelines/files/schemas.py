"""Schemas of files: what is inferred, what was kept, and what hints say, in one. Of types alone, without a session."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from typing import Final

from pyspark.errors import PySparkException
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import folded, pointer_step

_NAME: Final = re.compile(r"\s*((?:`(?:[^`]|``)*`|[^\s.`]+)(?:\.(?:`(?:[^`]|``)*`|[^\s.`]+))*)\s+(.+)", re.DOTALL)
_STEP: Final = re.compile(r"`((?:[^`]|``)*)`|([^\s.`]+)")
_ELEMENT, _KEY, _VALUE = "element", "key", "value"

_BY_WIDTH: Final[tuple[tuple[type[T.DataType], ...], ...]] = (
    (T.ByteType, T.ShortType, T.IntegerType, T.LongType),
    (T.FloatType, T.DoubleType),
)

Hint = tuple[tuple[str, ...], T.DataType]
"""The path of a column and its type."""
_Leaf = Callable[[T.DataType, T.DataType | None], T.DataType]


def hints(ddl: str) -> list[Hint]:
    """What hints say: ``id bigint, place.zip string, tags.element int``.

    Raises:
        ValueError: They cannot be read; the text says which.
    """
    found: list[Hint] = []
    for part in _parts(ddl):
        matched = _NAME.fullmatch(part)
        if matched is None:
            msg = f"{part.strip()!r} is not a name and a type"
            raise ValueError(msg)
        steps = tuple(quoted.replace("``", "`") or plain for quoted, plain in _STEP.findall(matched[1]))
        found.append((steps, from_ddl(f"x {matched[2].strip()}").fields[0].dataType))
    return found


def from_ddl(ddl: str) -> T.StructType:
    """The columns that DDL declares; needs a session in this process.

    Raises:
        ValueError: It cannot be read; the text says why.
    """
    try:
        found = T.StructType.fromDDL(ddl)
    except PySparkException as error:
        first = next(iter(str(error).strip().splitlines()), "")
        raise ValueError(first or "it is not DDL") from None
    if not isinstance(found, T.StructType):
        msg = "it has no names of columns"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    return found


def _parts(ddl: str) -> Iterator[str]:
    """The parts between commas that are in no brackets and no quotes."""
    depth, begin, quote = 0, 0, ""
    for place, sign in enumerate(ddl):
        if quote:
            quote = "" if sign == quote else quote
        elif sign in "`'\"":
            quote = sign
        elif sign in "<(":
            depth += 1
        elif sign in ">)":
            depth -= 1
        elif sign == "," and depth == 0:
            yield ddl[begin:place]
            begin = place + 1
    if ddl[begin:].strip():
        yield ddl[begin:]


def hinted(schema: T.StructType, told: Sequence[Hint]) -> T.StructType:
    """The schema with the types that hints say; columns that it does not have are added."""
    for path, kind in told:
        schema = _hinted_struct(schema, path, kind)
    return schema


def _hinted_struct(schema: T.StructType, path: tuple[str, ...], kind: T.DataType) -> T.StructType:
    fields = list(schema.fields)
    place = next((at for at, each in enumerate(fields) if folded(each.name) == folded(path[0])), None)
    if place is None:
        fields.append(T.StructField(path[0], _hinted(T.StringType(), path[1:], kind)))
    else:
        mine = fields[place]
        fields[place] = T.StructField(mine.name, _hinted(mine.dataType, path[1:], kind), metadata=mine.metadata)
    return T.StructType(fields)


def _hinted(declared: T.DataType, path: tuple[str, ...], kind: T.DataType) -> T.DataType:
    if not path:
        return kind
    match declared:
        case T.ArrayType() if path[0].lower() == _ELEMENT:
            return T.ArrayType(_hinted(declared.elementType, path[1:], kind))
        case T.MapType() if path[0].lower() == _KEY:
            return T.MapType(_hinted(declared.keyType, path[1:], kind), declared.valueType)
        case T.MapType() if path[0].lower() == _VALUE:
            return T.MapType(declared.keyType, _hinted(declared.valueType, path[1:], kind))
        case T.StructType():
            return _hinted_struct(declared, path, kind)
    return _hinted_struct(T.StructType(), path, kind)


def united(kept: T.StructType, found: T.StructType, leaf: _Leaf = lambda kept, _: kept) -> T.StructType:
    """The kept schema and, behind it, the fields that it does not have; types that are kept stay.

    Args:
        kept: The kept schema.
        found: Another one.
        leaf: Gives the type of a field of both that is not nested in both.
    """
    there = {folded(each.name): each.dataType for each in reversed(found.fields)}
    known = {folded(each.name) for each in kept.fields}
    fields = [
        T.StructField(each.name, _united(each.dataType, there.get(folded(each.name)), leaf), metadata=each.metadata)
        for each in kept.fields
    ]
    for each in found.fields:
        if folded(each.name) not in known:
            known.add(folded(each.name))
            fields.append(T.StructField(each.name, each.dataType))
    return T.StructType(fields)


def retyped(kept: T.StructType, found: T.StructType) -> T.StructType:
    """The kept schema, with the types that were found of columns that are strings."""
    types = {folded(each.name): each.dataType for each in found.fields}
    return T.StructType(
        [
            T.StructField(each.name, types.get(folded(each.name), each.dataType), metadata=each.metadata)
            if isinstance(each.dataType, T.StringType)
            else each
            for each in kept.fields
        ]
    )


def _united(kept: T.DataType, found: T.DataType | None, leaf: _Leaf) -> T.DataType:
    match kept, found:
        case T.StructType(), T.StructType():
            return united(kept, found, leaf)
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_united(kept.elementType, found.elementType, leaf))
        case T.MapType(), T.MapType():
            return T.MapType(kept.keyType, _united(kept.valueType, found.valueType, leaf))
    return leaf(kept, found)


def one_spelling(shape: T.StructType) -> T.StructType:
    """The fields, without those that differ from one before in nothing but case: they are rescued."""
    first = {folded(each.name): each for each in reversed(shape.fields)}
    return T.StructType(
        [
            T.StructField(each.name, _one_spelling(each.dataType), metadata=each.metadata)
            for each in shape.fields
            if first[folded(each.name)] is each
        ]
    )


def _one_spelling(declared: T.DataType) -> T.DataType:
    match declared:
        case T.StructType():
            return one_spelling(declared)
        case T.ArrayType():
            return T.ArrayType(_one_spelling(declared.elementType))
        case T.MapType():
            return T.MapType(declared.keyType, _one_spelling(declared.valueType))
    return declared


def as_strings(shape: T.StructType, told: Sequence[Hint] = ()) -> T.StructType:
    """Columns of strings; those within which a hint names a field have their shape, with strings inside."""
    nested = {folded(path[0]) for path, _ in told if len(path) > 1}
    return T.StructType(
        [
            T.StructField(each.name, _leaves(each.dataType) if folded(each.name) in nested else T.StringType())
            for each in shape.fields
        ]
    )


def _leaves(declared: T.DataType) -> T.DataType:
    match declared:
        case T.StructType():
            return T.StructType([T.StructField(each.name, _leaves(each.dataType)) for each in declared.fields])
        case T.ArrayType():
            return T.ArrayType(_leaves(declared.elementType))
        case T.MapType():
            return T.MapType(T.StringType(), _leaves(declared.valueType))
    return T.StringType()


def without(schema: T.StructType, names: Sequence[str]) -> T.StructType:
    """The schema without columns of some names."""
    left_out = {folded(name) for name in names}
    return T.StructType([each for each in schema.fields if folded(each.name) not in left_out])


def new_names(kept: T.StructType, found: T.StructType, path: str = "") -> list[str]:
    """The fields that ``found`` has and ``kept`` does not, with their paths."""
    known = {folded(each.name): each.dataType for each in kept.fields}
    new: list[str] = []
    for each in found.fields:
        mine = known.get(folded(each.name))
        if mine is None:
            new.append(f"{path}{each.name}")
        elif isinstance(mine, T.StructType) and isinstance(each.dataType, T.StructType):
            new.extend(new_names(mine, each.dataType, f"{path}{each.name}."))
    return new


def pointers(schema: T.StructType, path: str = "") -> list[str]:
    """The JSON pointers of all fields; ``[]`` is any element of an array."""
    found: list[str] = []
    for each in schema.fields:
        found.extend(_pointers(each.dataType, path + pointer_step(each.name)))
    return found


def _pointers(declared: T.DataType, path: str) -> list[str]:
    match declared:
        case T.StructType():
            return [path, *pointers(declared, path)]
        case T.ArrayType():
            return [path, *_pointers(declared.elementType, f"{path}/[]")]
    return [path]


def widened(older: T.StructType, newer: T.StructType) -> T.StructType:
    """The fields of both. Of two numbers of one kind the wider type counts, of other types that of the older field."""
    return united(older, newer, _wider)


def _wider(older: T.DataType, newer: T.DataType | None) -> T.DataType:
    for kinds in _BY_WIDTH:
        if newer is not None and type(older) in kinds and type(newer) in kinds:
            return older if kinds.index(type(older)) >= kinds.index(type(newer)) else newer
    return older
