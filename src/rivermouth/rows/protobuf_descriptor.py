"""A Protobuf descriptor file: its messages as columns, and as Python values that fit them.

What google.protobuf reads without a word though the sender meant something else is refused: a number of another wire
type, an enum's number without a name, a time that a column cannot hold.
"""

from __future__ import annotations

import datetime as dt
import functools
import importlib
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.errors import DescriptorUnusable, ProtobufMissing
from rivermouth.names import did_you_mean
from rivermouth.rows import python_values
from rivermouth.rows.python_scalars import Misfit

_IMPORTS: Final = "protoc --include_imports --descriptor_set_out=FILE ..."
_WELL_KNOWN: Final = (
    "any",
    "api",
    "duration",
    "empty",
    "field_mask",
    "source_context",
    "struct",
    "timestamp",
    "type",
    "wrappers",
)
# By the numbers of descriptor.proto.
_DOUBLE, _FLOAT, _INT64, _UINT64, _INT32, _FIXED64, _FIXED32, _BOOL, _STRING, _GROUP, _MESSAGE, _BYTES = range(1, 13)
_UINT32, _ENUM, _SFIXED32, _SFIXED64, _SINT32, _SINT64 = range(13, 19)
_SCALARS: Final[dict[int, T.DataType]] = {
    _DOUBLE: T.DoubleType(),
    _FLOAT: T.FloatType(),
    **dict.fromkeys((_INT64, _SFIXED64, _SINT64, _UINT32, _FIXED32), T.LongType()),
    **dict.fromkeys((_UINT64, _FIXED64), T.DecimalType(20, 0)),
    **dict.fromkeys((_INT32, _SFIXED32, _SINT32), T.IntegerType()),
    _BOOL: T.BooleanType(),
    _STRING: T.StringType(),
    _BYTES: T.BinaryType(),
    _ENUM: T.StringType(),
}
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{kind}Value"
    for kind in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_JSON: Final = frozenset(f"google.protobuf.{kind}" for kind in ("Struct", "Value", "ListValue"))
_TIMESTAMP: Final = "google.protobuf.Timestamp"
_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_S, _LAST_S = -62_135_596_800, 253_402_300_799
_NANOS_OF_A_MICRO: Final = 1000
_NANOS_OF_A_SECOND: Final = 10**9

Read = Callable[[Any], Any]


def check_library() -> None:
    """Makes sure that google.protobuf can be imported.

    Raises:
        ProtobufMissing: It cannot.
    """
    try:
        importlib.import_module("google.protobuf.descriptor_pool")
    except ImportError:
        raise ProtobufMissing from None


@functools.lru_cache(maxsize=32)
def message_class(content: bytes, name: str, file: str = "") -> Any:
    """The class of a message of a descriptor file.

    Args:
        content: What the file holds: a ``FileDescriptorSet``.
        name: Full name of the message.
        file: Its path, for errors.

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
        raise DescriptorUnusable(file=file, detail="it holds no FileDescriptorSet", fix=_IMPORTS)
    pool = _pool(files, file)
    try:
        descriptor = pool.FindMessageTypeByName(name)
    except KeyError:
        known = [found for each in files for found in _names(each.message_type, each.package)]
        detail = f"it has no message {name}"
        raise DescriptorUnusable(file=file, detail=detail, fix=did_you_mean(name, known)) from None
    return message_factory.GetMessageClass(descriptor)


def _pool(files: Any, file: str) -> Any:
    from google.protobuf import descriptor_pool  # noqa: PLC0415

    by_name = {each.name: each for each in files}
    pool, added = descriptor_pool.DescriptorPool(), set()

    def add(name: str, behind: tuple[str, ...]) -> None:
        if name in added:
            return
        found = by_name.get(name) or _well_known(name)
        if found is None or name in behind:
            detail = f"it lacks {name}" if found is None else f"{name} imports itself"
            raise DescriptorUnusable(file=file, detail=detail, fix=_IMPORTS)
        for each in found.dependency:
            add(each, (*behind, name))
        try:
            pool.AddSerializedFile(found.SerializeToString())
        except TypeError as error:
            text = str(error).splitlines()[0]
            raise DescriptorUnusable(file=file, detail=f"{name}: {text}", fix=_IMPORTS) from None
        added.add(name)

    for each in files:
        # Names that are no UTF-8 are bytes.
        if not all(isinstance(name, str) for name in (each.name, each.package, *each.dependency)):
            raise DescriptorUnusable(file=file, detail="it holds no FileDescriptorSet", fix=_IMPORTS)
    for each in files:
        add(each.name, ())
    return pool


def _well_known(name: str) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415

    short = name.removeprefix("google/protobuf/").removesuffix(".proto")
    if short not in _WELL_KNOWN or not name.startswith("google/protobuf/"):
        return None
    module = importlib.import_module(f"google.protobuf.{short}_pb2")
    return descriptor_pb2.FileDescriptorProto.FromString(module.DESCRIPTOR.serialized_pb)


def _names(messages: Any, package: str) -> Iterator[str]:
    for each in messages:
        name = f"{package}.{each.name}" if package else each.name
        yield name
        yield from _names(each.nested_type, name)


# --- columns ----------------------------------------------------------------------------------------


def columns(content: bytes, name: str, file: str = "") -> T.StructType:
    """The fields of a message as columns, in the order of their numbers.

    Raises:
        DescriptorUnusable: It cannot be read, or has a message within itself, or names that are the same to Delta.
    """
    descriptor = message_class(content, name, file).DESCRIPTOR
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
    return T.StructType([T.StructField(each.name, _field(each, within, _below(path, each.name))) for each in fields])


def _field(field: Any, within: tuple[str, ...], path: str) -> T.DataType:
    if _is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return T.MapType(_SCALARS[key.type], _single(value, within, f"{path}[]"))
    return T.ArrayType(_single(field, within, f"{path}[]")) if is_repeated(field) else _single(field, within, path)


def _single(field: Any, within: tuple[str, ...], path: str) -> T.DataType:
    if field.type not in (_MESSAGE, _GROUP):
        return _SCALARS[field.type]
    name = _standard(field.message_type)
    if name == _TIMESTAMP:
        return T.TimestampType()
    if name in _JSON:
        return T.StringType()
    if name in _WRAPPERS:
        return _SCALARS[field.message_type.fields_by_name["value"].type]
    if not field.message_type.fields:
        return T.BooleanType()
    return _struct(field.message_type, within, path)


def _standard(descriptor: Any) -> str | None:
    """The name of a message that has a meaning of its own; None for others, also where they bear such a name."""
    name = str(descriptor.full_name)
    if name != _TIMESTAMP and name not in _JSON and name not in _WRAPPERS:
        return None
    file = "timestamp" if name == _TIMESTAMP else "struct" if name in _JSON else "wrappers"
    ours = importlib.import_module(f"google.protobuf.{file}_pb2").DESCRIPTOR.message_types_by_name[descriptor.name]
    return name if _shape(ours) == _shape(descriptor) else None


def _shape(descriptor: Any) -> list[tuple[Any, ...]]:
    return sorted((field.number, field.name, field.type, is_repeated(field)) for field in descriptor.fields)


def is_repeated(field: Any) -> bool:
    """Whether a field may stand several times; protobuf before 6.31 knows that as its label alone."""
    told = getattr(field, "is_repeated", None)
    return bool(field.label == field.LABEL_REPEATED if told is None else told)


def _is_map(field: Any) -> bool:
    return bool(field.type == _MESSAGE and is_repeated(field) and field.message_type.GetOptions().map_entry)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


# --- values -----------------------------------------------------------------------------------------


@functools.lru_cache(maxsize=32)
def reader(content: bytes, name: str) -> Read:
    """A function from a message to a dict of its columns; it raises a ``Misfit`` for what does not fit."""
    return _message(message_class(content, name).DESCRIPTOR, "")


def _message(descriptor: Any, path: str) -> Read:
    parts = [(field.name, _reading(field, _below(path, field.name))) for field in descriptor.fields]
    check = _known(descriptor, {field.number: _below(path, field.name) for field in descriptor.fields})

    def read(message: Any) -> dict[str, Any]:
        check(message)
        return {name: part(message) for name, part in parts}

    return read


def _known(descriptor: Any, paths: Mapping[int, str]) -> Callable[[Any], None]:
    """A function that makes sure that none of a message's unknown fields is one that its descriptor knows."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415

    declared = frozenset(descriptor.fields_by_number)

    def check(message: Any) -> None:
        for unknown in UnknownFieldSet(message):
            if unknown.field_number in declared:
                raise other_type(paths[unknown.field_number])

    return check


def other_type(path: str) -> Misfit:
    """That the field of that path came as something else than it is."""
    text = f"field {path} came with another wire type, or a number that its enum lacks"
    return Misfit("FIELD_TYPE", path, text)


def _reading(field: Any, path: str) -> Read:
    """A function from a message to the value of one of its fields, None where it is not set."""
    name = field.name
    if _is_map(field):
        item = _value(field.message_type.fields_by_name["value"], f"{path}[]")
        key = _value(field.message_type.fields_by_name["key"], f"{path}[]")
        return lambda message: {key(each): item(value) for each, value in getattr(message, name).items()}
    repeated = is_repeated(field)
    convert = _value(field, f"{path}[]" if repeated else path)
    plain = field.type not in (_MESSAGE, _GROUP, _ENUM, _STRING)
    if repeated:
        if plain:
            return lambda message: list(getattr(message, name))
        return lambda message: [convert(each) for each in getattr(message, name)]
    if field.has_presence:
        # A field may be called HasField itself.
        return lambda message: convert(getattr(message, name)) if type(message).HasField(message, name) else None
    if plain:
        return lambda message: getattr(message, name)
    return lambda message: convert(getattr(message, name))


def _value(field: Any, path: str) -> Read:
    """A function from a value of the field to one that its column takes."""
    if field.type == _ENUM:
        known = {number: value.name for number, value in field.enum_type.values_by_number.items()}

        def named(number: int) -> str:
            if number not in known:
                text = f"field {path} has a number that the enum {field.enum_type.full_name} lacks"
                raise Misfit("FIELD_TYPE", path, text)
            return str(known[number])

        return named
    if field.type == _STRING:
        return functools.partial(_text, path)
    if field.type not in (_MESSAGE, _GROUP):
        return _itself
    name = _standard(field.message_type)
    check = _known(field.message_type, defaultdict(lambda: path))
    if name == _TIMESTAMP:
        return functools.partial(_instant, path, check)
    if name in _JSON:
        return functools.partial(_json, path)
    if name in _WRAPPERS:
        return functools.partial(_boxed, check, _value(field.message_type.fields_by_name["value"], path))
    if not field.message_type.fields:
        return lambda _message: True
    return _message(field.message_type, path)


def _itself(value: Any) -> Any:
    return value


def _text(path: str, value: Any) -> str:
    # Strings of proto2 are not looked at when they are parsed.
    if isinstance(value, str):
        return value
    raise Misfit("INVALID_UTF8", path, f"field {path} is not valid UTF-8")


def _boxed(check: Callable[[Any], None], inner: Read, message: Any) -> Any:
    check(message)
    return inner(message.value)


def _instant(path: str, check: Callable[[Any], None], message: Any) -> dt.datetime:
    check(message)
    seconds, nanos = message.seconds, message.nanos
    if not (_FIRST_S <= seconds <= _LAST_S and 0 <= nanos < _NANOS_OF_A_SECOND):
        raise Misfit("FIELD_TYPE", path, f"field {path} holds a time that is none of the years 1 to 9999")
    if nanos % _NANOS_OF_A_MICRO:
        raise Misfit("FIELD_TYPE", path, f"field {path} holds a time with nanoseconds, which a timestamp would cut off")
    return _EPOCH + dt.timedelta(seconds=seconds, microseconds=nanos // _NANOS_OF_A_MICRO)


def _json(path: str, message: Any) -> str:
    from google.protobuf import json_format  # noqa: PLC0415

    _check_json(path, message)
    try:
        return str(json_format.MessageToJson(message, indent=None, ensure_ascii=False))
    except (json_format.SerializeToJsonError, ValueError):
        raise Misfit("FIELD_TYPE", path, f"field {path} holds what JSON has no word for") from None


def _check_json(path: str, message: Any) -> None:
    """Makes sure that nothing in a ``Struct``, ``Value`` or ``ListValue`` came with another wire type."""
    waiting = [message]
    while waiting:
        each = waiting.pop()
        _known(each.DESCRIPTOR, defaultdict(lambda: path))(each)
        match each.DESCRIPTOR.name:
            case "Struct":
                waiting += each.fields.values()
            case "ListValue":
                waiting += each.values
            case "Value":
                kind = each.WhichOneof("kind")
                waiting += [getattr(each, kind)] if kind in ("struct_value", "list_value") else []
