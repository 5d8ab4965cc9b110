"""A Protobuf descriptor file: its messages as columns."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Iterator
from enum import IntEnum
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import protobuf_built_in
from rivermouth.decoding.python import python_values
from rivermouth.errors import DescriptorUnusable
from rivermouth.names import below, did_you_mean
from rivermouth.schemas.evolution import FIELD_NUMBER

_IMPORTS: Final = "protoc --include_imports --descriptor_set_out=FILE ..."
_MOST_IMPORTS: Final = 100


class FieldType(IntEnum):
    """The types of fields, by their numbers in descriptor.proto."""

    DOUBLE = 1
    FLOAT = 2
    INT64 = 3
    UINT64 = 4
    INT32 = 5
    FIXED64 = 6
    FIXED32 = 7
    BOOL = 8
    STRING = 9
    GROUP = 10
    MESSAGE = 11
    BYTES = 12
    UINT32 = 13
    ENUM = 14
    SFIXED32 = 15
    SFIXED64 = 16
    SINT32 = 17
    SINT64 = 18


_LONGS: Final = (FieldType.INT64, FieldType.SFIXED64, FieldType.SINT64, FieldType.UINT32, FieldType.FIXED32)
SCALARS: Final[dict[int, T.DataType]] = {
    FieldType.DOUBLE: T.DoubleType(),
    FieldType.FLOAT: T.FloatType(),
    **dict.fromkeys(_LONGS, T.LongType()),
    **dict.fromkeys((FieldType.UINT64, FieldType.FIXED64), T.DecimalType(20, 0)),
    **dict.fromkeys((FieldType.INT32, FieldType.SFIXED32, FieldType.SINT32), T.IntegerType()),
    FieldType.BOOL: T.BooleanType(),
    FieldType.STRING: T.StringType(),
    FieldType.BYTES: T.BinaryType(),
    FieldType.ENUM: T.StringType(),
}
"""The columns of fields that hold neither a message nor a group."""
WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
JSON: Final = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
TIMESTAMP: Final = "google.protobuf.Timestamp"


@functools.lru_cache(maxsize=32)
def message_class(content: bytes, name: str, file: str = "", whole: str = _IMPORTS) -> Any:
    """The class of a message of a descriptor file.

    Args:
        content: What the file holds: a ``FileDescriptorSet``.
        name: Full name of the message.
        file: Its path, for errors.
        whole: How one is made that holds all that it needs.

    Raises:
        DescriptorUnusable: It is no descriptor file, lacks what it imports, or has no such message.
    """
    from google.protobuf import descriptor_pb2, message_factory  # noqa: PLC0415 - an extra
    from google.protobuf.message import DecodeError  # noqa: PLC0415

    try:
        files = descriptor_pb2.FileDescriptorSet.FromString(content).file
    except (DecodeError, UnicodeDecodeError):
        files = []
    if not files:
        raise DescriptorUnusable(file=file, detail="it holds no FileDescriptorSet", fix=whole)
    pool = _pool(files, file, whole)
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        known = [found for each in files for found in _names(each.message_type, each.package)]
        detail = lacks(name)
        raise DescriptorUnusable(file=file, detail=detail, fix=did_you_mean(name, known)) from None
    try:
        return message_factory.GetMessageClass(descriptor)
    except RecursionError:
        detail = f"{name} has messages within each other that are too deep for google.protobuf"
        raise DescriptorUnusable(file=file, detail=detail, fix="name another message") from None


def lacks(name: str) -> str:
    """What is said of a descriptor file without a message."""
    return f"it has no message {name}"


def _pool(files: Any, file: str, whole: str) -> Any:
    from google.protobuf import descriptor_pool  # noqa: PLC0415

    by_name = {each.name: each for each in files}
    pool, added = descriptor_pool.DescriptorPool(), set()

    def add(name: str, behind: tuple[str, ...]) -> None:
        if name in added:
            return
        found = by_name.get(name) or protobuf_built_in.file(name)
        wrong = _wrong(name, found, behind)
        if wrong is not None:
            raise DescriptorUnusable(file=file, detail=wrong, fix=whole)
        for each in found.dependency:
            add(each, (*behind, name))
        try:
            pool.AddSerializedFile(found.SerializeToString())
        except TypeError as error:
            text = str(error).splitlines()[0]
            raise DescriptorUnusable(file=file, detail=f"{name}: {text}", fix=whole) from None
        added.add(name)

    for each in files:
        # Names that are no UTF-8 are bytes.
        if not all(isinstance(name, str) for name in (each.name, each.package, *each.dependency)):
            raise DescriptorUnusable(file=file, detail="it holds no FileDescriptorSet", fix=whole)
    for each in files:
        add(each.name, ())
    return pool


def _wrong(name: str, found: Any, behind: tuple[str, ...]) -> str | None:
    """What keeps a file of a descriptor set from being read, that google.protobuf does not look at."""
    if found is None:
        return f"it lacks {name}"
    if name in behind:
        return f"{name} imports itself"
    if len(behind) > _MOST_IMPORTS:
        return f"{name} is imported through more than {_MOST_IMPORTS} others"
    if any(map(_has_odd_map, found.message_type)):
        return f"{name} has a map without key and value"
    return None


def _has_odd_map(message: Any) -> bool:
    # google.protobuf takes it, and has no names for what is in such a map.
    odd = message.options.map_entry and [each.name for each in message.field] != ["key", "value"]
    return odd or any(map(_has_odd_map, message.nested_type))


def _names(messages: Any, package: str) -> Iterator[str]:
    for each in messages:
        name = f"{package}.{each.name}" if package else each.name
        yield name
        yield from _names(each.nested_type, name)


# --- columns ----------------------------------------------------------------------------------------


def columns(content: bytes, name: str, file: str = "", whole: str = _IMPORTS) -> T.StructType:
    """The fields of a message as columns, in the order of their numbers; each has that in its metadata.

    Raises:
        DescriptorUnusable: It cannot be read, or has a message within itself, or names that are the same to Delta.
    """
    descriptor = message_class(content, name, file, whole).DESCRIPTOR
    try:
        found = _struct(descriptor, (), "")
        python_values.check(found)
    except ValueError as error:
        raise DescriptorUnusable(
            file=file, detail=str(error), fix="name another message, or leave the field out of it"
        ) from None
    return found


def _struct(descriptor: Any, within: tuple[str, ...], path: str) -> T.StructType:
    if descriptor.full_name in within:
        msg = (
            f"column {path} is the message {descriptor.full_name} within itself, and no table is as deep as its values"
        )
        raise ValueError(msg)
    within = (*within, descriptor.full_name)
    fields = sorted(descriptor.fields, key=lambda field: field.number)
    return T.StructType(
        [
            T.StructField(each.name, _field(each, within, below(path, each.name)), True, {FIELD_NUMBER: each.number})
            for each in fields
        ]
    )


def _field(field: Any, within: tuple[str, ...], path: str) -> T.DataType:
    if is_map(field):
        key, value = map_parts(field)
        return T.MapType(SCALARS[key.type], single_type(value, within, f"{path}[]"))
    return (
        T.ArrayType(single_type(field, within, f"{path}[]")) if is_repeated(field) else single_type(field, within, path)
    )


def single_type(field: Any, within: tuple[str, ...], path: str) -> T.DataType:
    """The type of one value of a field.

    Args:
        field: The field.
        within: Full names of the messages around it.
        path: Its path.

    Raises:
        ValueError: A message is within itself.
    """
    if not is_message(field):
        return SCALARS[field.type]
    name = standard(field.message_type)
    if name == TIMESTAMP:
        return T.TimestampType()
    if name in JSON:
        return T.StringType()
    if name in WRAPPERS:
        return SCALARS[field.message_type.fields_by_name["value"].type]
    if not field.message_type.fields:
        return T.BooleanType()
    return _struct(field.message_type, within, path)


def standard(descriptor: Any) -> str | None:
    """The name of a message that has a meaning of its own; None for others, also where they bear such a name."""
    name = str(descriptor.full_name)
    if name != TIMESTAMP and name not in JSON and name not in WRAPPERS:
        return None
    file = "timestamp" if name == TIMESTAMP else "struct" if name in JSON else "wrappers"
    ours = importlib.import_module(f"google.protobuf.{file}_pb2").DESCRIPTOR.message_types_by_name[descriptor.name]
    return name if _shape(ours) == _shape(descriptor) else None


def _shape(descriptor: Any) -> list[tuple[Any, ...]]:
    return sorted((field.number, field.name, field.type, is_repeated(field)) for field in descriptor.fields)


def is_repeated(field: Any) -> bool:
    """Whether a field may stand several times; protobuf before 6.31 knows that as its label alone."""
    described = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if described is None else described)


def is_map(field: Any) -> bool:
    """Whether a field is a map, which is one of messages with a key and a value."""
    return bool(field.type == FieldType.MESSAGE and is_repeated(field) and field.message_type.GetOptions().map_entry)


def map_parts(field: Any) -> tuple[Any, Any]:
    """The fields of a map's entries: the key, and the value."""
    key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
    return key, value


def is_message(field: Any) -> bool:
    """Whether what a field holds is a message, or a group of one."""
    return field.type in (FieldType.MESSAGE, FieldType.GROUP)


def is_string(field: Any) -> bool:
    """Whether what a field holds is text."""
    return bool(field.type == FieldType.STRING)


def is_enum(field: Any) -> bool:
    """Whether what a field holds is an enum."""
    return bool(field.type == FieldType.ENUM)


def is_required(field: Any) -> bool:
    """Whether a message is none without the field."""
    described = getattr(field, "is_required", None)
    return bool(field.label == field.LABEL_REQUIRED if described is None else described)


def has_columns(field: Any) -> bool:
    """Whether what a field holds is a message that is a struct, and no single value."""
    return bool(is_message(field) and standard(field.message_type) is None and field.message_type.fields)


def described(field: Any) -> str:
    """What a field holds, in words."""
    if is_map(field):
        return "a map"
    of_file = field.message_type if is_message(field) else field.enum_type if is_enum(field) else None
    name = FieldType(field.type).name.lower() if of_file is None else of_file.full_name
    return f"repeated {name}" if is_repeated(field) else str(name)
