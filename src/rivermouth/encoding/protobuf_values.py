"""Columns as Protobuf messages, by google.protobuf in Spark's Python workers."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import protobuf_descriptor as descriptors
from rivermouth.decoding.protobuf import protobuf_library
from rivermouth.decoding.protobuf.protobuf_wire_check import place_in_file
from rivermouth.encoding import fields
from rivermouth.encoding.framing import frame
from rivermouth.names import below

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

_BITS: Final[Mapping[int, int]] = {
    descriptors.FieldType.UINT32: 32,
    descriptors.FieldType.FIXED32: 32,
    descriptors.FieldType.UINT64: 64,
    descriptors.FieldType.FIXED64: 64,
}
"""Of the numbers without a sign; the columns that hold them have one."""

Fill = Callable[[Any, Any], None]
"""A function that puts a value that is not null into a message."""


@dataclass(frozen=True, slots=True)
class Encoding:
    """How messages are written.

    Attributes:
        content: What the descriptor file holds.
        message: Full name of the message.
        schema_id: The id of the schema in its registry, for Confluent's framing; None for plain messages.
    """

    content: bytes = field(repr=False)
    message: str
    schema_id: int | None = None


def encoded(encoding: Encoding, there: T.StructType) -> Column:
    """The message of a row, binary.

    Args:
        encoding: How it is written.
        there: The columns of a row.

    Raises:
        ProtobufMissing: google.protobuf is not installed.
        DescriptorUnusable: The descriptor cannot be used.
        ValueError: It is not one of these columns; the text says why.
    """
    protobuf_library.check_library()
    columns = descriptors.columns(encoding.content, encoding.message)
    functions: Any = F  # its stubs do not know this one

    def values(rows: pa.Array) -> pa.Array:
        return written(encoding, rows)

    values.__annotations__ = {}  # Spark looks for them where it is not told the kind
    made: Column = functions.arrow_udf(values, "binary")(fields.message(fields.values(columns, there)))
    return made


def written(encoding: Encoding, rows: pa.Array) -> pa.Array:
    """The messages of one Arrow batch of structs.

    Raises:
        RuntimeError: A row cannot be a message; ``fields.unwritable`` reads why.
    """
    protobuf_library.check_in_worker()
    kind = descriptors.message_class(encoding.content, encoding.message)
    fill, begin = _filler(encoding), b""
    if encoding.schema_id is not None:
        begin = frame(encoding.schema_id, place_in_file(kind.DESCRIPTOR))

    def made(row: Mapping[str, Any]) -> bytes:
        message = kind()
        fill(message, row)
        # Methods of the class: fields may bear their names.
        if not kind.IsInitialized(message):
            name = next(iter(kind.FindInitializationErrors(message)))
            raise RuntimeError(fields.marked(f"the message needs field {name}, and a row has null there"))
        return begin + bytes(kind.SerializeToString(message, deterministic=True))

    try:
        return pa.array(map(made, rows.to_pylist()), pa.binary())
    except (ArithmeticError, TypeError, ValueError):
        # Their texts may have the value.
        why = f"a row has a text or a time that no message of {encoding.message} can have"
        raise RuntimeError(fields.marked(why)) from None


@functools.lru_cache(maxsize=32)
def _filler(encoding: Encoding) -> Fill:
    return _message(descriptors.message_class(encoding.content, encoding.message).DESCRIPTOR, "")


def _message(descriptor: Any, path: str) -> Fill:
    parts = [(each.name, _field(each, below(path, each.name))) for each in descriptor.fields]
    choices = [[each.name for each in oneof.fields] for oneof in descriptor.oneofs if len(oneof.fields) > 1]

    def fill(message: Any, row: Mapping[str, Any]) -> None:
        for choice in choices:
            given = [below(path, name) for name in choice if row[name] is not None]
            if len(given) > 1:
                why = f"fields {given[0]} and {given[1]} are of one oneof, and a row has both"
                raise RuntimeError(fields.marked(why))
        for name, part in parts:
            if row[name] is not None:
                part(message, row[name])

    return fill


def _field(field: Any, path: str) -> Fill:
    """A function that puts the value of one field into the message around it."""
    name = field.name
    if descriptors.is_map(field):
        return _map(field, path)
    repeated = descriptors.is_repeated(field)
    inner = f"{path}[]" if repeated else path
    if descriptors.is_message(field):
        fill = _inside(field, inner)
        return _repeated(name, fill, inner) if repeated else _single(name, fill)
    scalar = _scalar(field, inner)
    if repeated:
        return lambda message, found: getattr(message, name).extend(scalar(_there(each, inner)) for each in found)
    return lambda message, value: setattr(message, name, scalar(value))


def _repeated(name: str, fill: Fill, path: str) -> Fill:
    def put(message: Any, found: Any) -> None:
        for each in found:
            fill(getattr(message, name).add(), _there(each, path))

    return put


def _single(name: str, fill: Fill) -> Fill:
    def put(message: Any, value: Any) -> None:
        part = getattr(message, name)
        part.SetInParent()
        fill(part, value)

    return put


def _map(field: Any, path: str) -> Fill:
    name, inner = field.name, f"{path}[]"
    key_field, item_field = descriptors.map_parts(field)
    key = _scalar(key_field, inner)
    if descriptors.is_message(item_field):
        fill = _inside(item_field, inner)

        def put(message: Any, found: Any) -> None:
            for each, item in found:
                fill(getattr(message, name)[key(each)], _there(item, inner))

        return put
    item_of = _scalar(item_field, inner)
    return lambda message, found: getattr(message, name).update(
        {key(each): item_of(_there(item, inner)) for each, item in found}
    )


def _there(value: Any, path: str) -> Any:
    if value is None:
        raise RuntimeError(fields.marked(f"field {path} has a null, and a list or a map of Protobuf has none"))
    return value


def _inside(field: Any, path: str) -> Fill:
    """A function that puts a value into the message that a field is."""
    name = descriptors.standard(field.message_type)
    if name == descriptors.TIMESTAMP:
        return lambda message, value: message.FromDatetime(value)
    if name in descriptors.JSON:
        return functools.partial(_json, path)
    if name in descriptors.WRAPPERS:
        scalar = _scalar(field.message_type.fields_by_name["value"], path)
        return lambda message, value: setattr(message, "value", scalar(value))
    if not field.message_type.fields:
        return lambda _message, _value: None
    return _message(field.message_type, path)


def _json(path: str, message: Any, value: str) -> None:
    from google.protobuf import json_format  # noqa: PLC0415 - of an extra

    why = f"field {path} is a JSON document, and a row has another text"
    try:
        json_format.Parse(value, message)
        numbers: list[str] = []
        json.loads(value, parse_int=numbers.append, parse_float=numbers.append, parse_constant=_refuse)
    except (json_format.ParseError, ValueError):
        raise RuntimeError(fields.marked(why)) from None
    if not all(map(_is_kept, numbers)):
        why = f"field {path} keeps numbers of its JSON as doubles, and a row has one that no double keeps"
        raise RuntimeError(fields.marked(why))


def _refuse(_constant: str) -> None:
    """Of JSON as Python reads it what no other reads: NaN and Infinity."""
    raise ValueError


def _is_kept(text: str) -> bool:
    """Whether a number is exactly a double, or the one that a double is written as."""
    number, held = Decimal(text), float(text)
    return number in (Decimal(held), Decimal(repr(held)))


def _scalar(field: Any, path: str) -> Callable[[Any], Any]:
    """A function from a value of a column to one that the field takes."""
    if descriptors.is_enum(field):
        numbers = {name: value.number for name, value in field.enum_type.values_by_name.items()}

        def number(name: str) -> int:
            if name not in numbers:
                why = f"field {path} has a text that the enum {field.enum_type.full_name} lacks"
                raise RuntimeError(fields.marked(why))
            return int(numbers[name])

        return number
    kind = descriptors.FieldType(field.type)
    if kind in _BITS:
        return functools.partial(_within, path, _BITS[kind])
    return _itself


def _within(path: str, bits: int, value: Any) -> int:
    if not 0 <= value < 1 << bits:
        raise RuntimeError(fields.marked(f"field {path} takes numbers from 0 of {bits} bits, and a row has another"))
    return int(value)


def _itself(value: Any) -> Any:
    return value
