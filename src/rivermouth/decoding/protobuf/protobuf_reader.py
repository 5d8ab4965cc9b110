"""Protobuf messages as Python values that fit the columns of their descriptor.

Some values are refused that google.protobuf reads without an error, though the sender meant something else: a number of
another wire type, an enum's number without a name, a time that a column cannot hold.
"""

from __future__ import annotations

import datetime as dt
import functools
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from rivermouth.decoding.protobuf import protobuf_descriptor as descriptors
from rivermouth.decoding.python.python_scalars import Misfit
from rivermouth.names import below
from rivermouth.schemas.type_limits import time_range

_EPOCH: Final = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_FIRST_S, _LAST_S = time_range(1_000_000)
_NANOS_OF_A_MICRO: Final = 1000
_NANOS_OF_A_SECOND: Final = 10**9

Read = Callable[[Any], Any]


@functools.lru_cache(maxsize=32)
def reader(content: bytes, name: str, *, truncates: bool = False) -> Read:
    """A function from a message to a dict of its columns; it raises a ``Misfit`` for what does not fit.

    What is less than a microsecond is cut off of times where it ``truncates``.
    """
    return _message(descriptors.message_class(content, name).DESCRIPTOR, "", truncates=truncates)


def _message(descriptor: Any, path: str, *, truncates: bool) -> Read:
    parts = [(field.name, _reading(field, below(path, field.name), truncates=truncates)) for field in descriptor.fields]
    check = known_fields(descriptor, {field.number: below(path, field.name) for field in descriptor.fields})

    def read(message: Any) -> dict[str, Any]:
        check(message)
        return {name: part(message) for name, part in parts}

    return read


def known_fields(descriptor: Any, paths: Mapping[int, str]) -> Callable[[Any], None]:
    """A function that makes sure that no unknown field of a message is one that its descriptor knows, or raises."""
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415

    declared = frozenset(descriptor.fields_by_number)

    def check(message: Any) -> None:
        for unknown in UnknownFieldSet(message):
            if unknown.field_number in declared:
                raise other_type(paths[unknown.field_number])

    return check


def unread(descriptor: Any) -> Callable[[Any], set[int]]:
    """A function that gives the numbers of what a message has besides the fields of its descriptor, extensions too.

    Fields within other fields are not checked.
    """
    from google.protobuf.unknown_fields import UnknownFieldSet  # noqa: PLC0415

    def numbers(message: Any) -> set[int]:
        return {each.field_number for each in UnknownFieldSet(message)}

    if not descriptor.is_extendable:
        return numbers
    # Of the class: a field may have the name of the method.
    return lambda message: (
        numbers(message) | {field.number for field, _ in type(message).ListFields(message) if field.is_extension}
    )


def numbered(fields: Iterable[int]) -> list[str]:
    """Texts in the place of names, for fields that are known only by their numbers."""
    return [f"number {number}" for number in sorted(fields)]


def other_type(path: str) -> Misfit:
    """That the field of that path came as something else than it is."""
    text = f"field {path} came with another wire type, or a number that its enum lacks"
    return Misfit("FIELD_TYPE", path, text)


def _reading(field: Any, path: str, *, truncates: bool) -> Read:
    """A function from a message to the value of one of its fields, None where it is not set."""
    name = field.name
    if descriptors.is_map(field):
        key, item = (value_reader(each, f"{path}[]", truncates=truncates) for each in descriptors.map_parts(field))
        return lambda message: {key(each): item(value) for each, value in getattr(message, name).items()}
    repeated = descriptors.is_repeated(field)
    convert = value_reader(field, f"{path}[]" if repeated else path, truncates=truncates)
    plain = not (descriptors.is_message(field) or descriptors.is_enum(field) or descriptors.is_string(field))
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


def value_reader(field: Any, path: str, *, truncates: bool = False) -> Read:
    """A function from a value of the field to one that its column takes, or that raises a ``Misfit``."""
    if descriptors.is_enum(field):
        known = {number: value.name for number, value in field.enum_type.values_by_number.items()}

        def named(number: int) -> str:
            if number not in known:
                text = f"field {path} has a number that the enum {field.enum_type.full_name} lacks"
                raise Misfit("FIELD_TYPE", path, text)
            return str(known[number])

        return named
    if descriptors.is_string(field):
        return functools.partial(_text, path)
    if not descriptors.is_message(field):
        return _itself
    name = descriptors.standard(field.message_type)
    check = known_fields(field.message_type, defaultdict(lambda: path))
    if name == descriptors.TIMESTAMP:
        return functools.partial(_instant, path, check, truncates)
    if name in descriptors.JSON:
        return functools.partial(_json, path)
    if name in descriptors.WRAPPERS:
        return functools.partial(_boxed, check, value_reader(field.message_type.fields_by_name["value"], path))
    if not field.message_type.fields:
        return lambda _message: True
    return _message(field.message_type, path, truncates=truncates)


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


def _instant(path: str, check: Callable[[Any], None], truncates: bool, message: Any) -> dt.datetime:
    check(message)
    seconds, nanos = message.seconds, message.nanos
    if not (_FIRST_S <= seconds <= _LAST_S and 0 <= nanos < _NANOS_OF_A_SECOND):
        raise Misfit("FIELD_TYPE", path, f"field {path} holds a time that is none of the years 1 to 9999")
    if nanos % _NANOS_OF_A_MICRO and not truncates:
        text = f"field {path} holds a time with nanoseconds, which timestamp_precision: truncate cuts off"
        raise Misfit("FIELD_TYPE", path, text)
    # Nanoseconds count from the second on: before 1970 too they are cut toward the past.
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
        known_fields(each.DESCRIPTOR, defaultdict(lambda: path))(each)
        match each.DESCRIPTOR.name:
            case "Struct":
                waiting += each.fields.values()
            case "ListValue":
                waiting += each.values
            case "Value":
                kind = each.WhichOneof("kind")
                waiting += [getattr(each, kind)] if kind in ("struct_value", "list_value") else []
