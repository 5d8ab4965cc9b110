"""What is wrong with the bytes of a Protobuf message, field by field, where google.protobuf says nothing of it.

It refuses bytes without a reason, and cuts a number off that has more bits than its field.
"""

from __future__ import annotations

from typing import Any, Final

from rivermouth.decoding.protobuf.protobuf_descriptor import FieldType, is_repeated
from rivermouth.decoding.protobuf.protobuf_reader import other_type
from rivermouth.decoding.python.python_scalars import Misfit
from rivermouth.names import below

_VARINT, _I64, _LEN, _START, _END, _I32 = range(6)
_SIZES: Final = {_I64: 8, _I32: 4}
_MOST_BYTES: Final = 10
# A zero and four bytes of an id.
_HEADER: Final = 5
_MAX_DEPTH: Final = 100
_FIRST_FIELD, _LAST_FIELD = 1, (1 << 29) - 1

_KINDS: Final = {
    **dict.fromkeys((FieldType.DOUBLE, FieldType.FIXED64, FieldType.SFIXED64), _I64),
    **dict.fromkeys((FieldType.FLOAT, FieldType.FIXED32, FieldType.SFIXED32), _I32),
    **dict.fromkeys((FieldType.STRING, FieldType.MESSAGE, FieldType.BYTES), _LEN),
    FieldType.GROUP: _START,
}
# A varint as encoded, without a sign: what fits a field of fewer bits.
_SIGNED: Final = ((0, (1 << 31) - 1), ((1 << 64) - (1 << 31), (1 << 64) - 1))
_FITS: Final = {
    FieldType.INT32: _SIGNED,
    FieldType.ENUM: _SIGNED,
    FieldType.UINT32: ((0, (1 << 32) - 1),),
    FieldType.SINT32: ((0, (1 << 32) - 1),),
    FieldType.BOOL: ((0, 1),),
}


def wrong_bytes(value: bytes, descriptor: Any) -> Misfit | None:
    """The first thing that is wrong with the bytes of a message; None where nothing is that can be told."""
    try:
        _Walk(value).message(0, len(value), descriptor, "", 0)
    except Misfit as misfit:
        return misfit
    return None


def confluent(value: bytes, descriptor: Any) -> bytes:
    """The bytes after Confluent's framing, which is a zero, the id of a schema, and the message's place in its file.

    Raises:
        Misfit: There is no such framing, or it is another message than the descriptor's.
    """
    writer_id(value)
    walk = _Walk(value)
    count, at = walk.signed(_HEADER)
    if not 0 <= count <= _MAX_DEPTH:
        raise Misfit("WRONG_MAGIC", None, "the place of the message in its file has a length that is none")
    places = []
    for _ in range(count):
        place, at = walk.signed(at)
        places.append(place)
    if (places or [0]) != place_in_file(descriptor):
        text = f"the value is another message of its file than {descriptor.full_name}"
        raise Misfit("SCHEMA_MISMATCH", None, text)
    return value[at:]


def writer_id(value: bytes) -> int:
    """The id of the schema that a value in Confluent's framing was written with.

    Raises:
        Misfit: There is no such framing.
    """
    if len(value) < _HEADER + 1 or value[0] != 0:
        text = "the value does not begin with a zero, the id of a schema and the place of a message"
        raise Misfit("WRONG_MAGIC", None, text)
    return int.from_bytes(value[1:_HEADER], "big", signed=True)


def place_in_file(descriptor: Any) -> list[int]:
    """Where a message is in its file: its number among its siblings, behind that of what it is nested in."""
    if descriptor.containing_type is None:
        return [list(descriptor.file.message_types_by_name).index(descriptor.name)]
    return [*place_in_file(descriptor.containing_type), descriptor.containing_type.nested_types.index(descriptor)]


class _Walk:
    """One way through the bytes of a value."""

    def __init__(self, value: bytes) -> None:
        self._value = value

    def signed(self, at: int) -> tuple[int, int]:
        """A number in the zigzag encoding, and where it ends."""
        found, at = self._varint(at, len(self._value), "")
        return (found >> 1) ^ -(found & 1), at

    def message(self, at: int, end: int, descriptor: Any, path: str, depth: int, group: int | None = None) -> int:
        """Where the message ends that begins at ``at``: at ``end``, or behind the end of its group."""
        if depth > _MAX_DEPTH:
            raise Misfit("TOO_DEEP", None, f"the value is nested deeper than {_MAX_DEPTH} levels")
        fields = {} if descriptor is None else descriptor.fields_by_number
        of_map = descriptor is not None and descriptor.GetOptions().map_entry
        while at < end:
            tag, at = self._varint(at, end, path)
            number, kind = tag >> 3, tag & 7
            if not _FIRST_FIELD <= number <= _LAST_FIELD or kind > _I32:
                raise _invalid("a field has a number or a wire type that is none")
            if kind == _END:
                if number != group:
                    raise _invalid("a group ends that did not begin")
                return at
            field = fields.get(number)
            if of_map and field is not None and kind != _kind(field):
                # Not every implementation keeps it as an unknown field.
                raise other_type(path)
            at = self._field((at, end), (number, kind), field, f"{path}[]" if of_map else _below(path, field), depth)
        if group is not None:
            raise _truncated(path)
        return at

    def _field(self, span: tuple[int, int], tag: tuple[int, int], field: Any, path: str, depth: int) -> int:
        (at, end), (number, kind) = span, tag
        if kind == _VARINT:
            found, at = self._varint(at, end, path)
            _check_number(found, field, path)
            return at
        if kind == _START:
            inner = field.message_type if field is not None and field.type == FieldType.GROUP else None
            return self.message(at, end, inner, path, depth + 1, group=number)
        if kind == _LEN:
            length, at = self._varint(at, end, path)
        else:
            length = _SIZES[kind]
        if length > end - at:
            raise _truncated(path)
        if kind == _LEN and field is not None:
            self._inside(at, at + length, field, path, depth)
        return at + length

    def _inside(self, at: int, end: int, field: Any, path: str, depth: int) -> None:
        if field.type == FieldType.MESSAGE:
            self.message(at, end, field.message_type, path, depth + 1)
        elif field.type == FieldType.STRING:
            try:
                self._value[at:end].decode("utf-8")
            except UnicodeDecodeError:
                raise Misfit("INVALID_UTF8", path, f"field {path} is not valid UTF-8") from None
        elif is_repeated(field) and field.type in _FITS:
            while at < end:
                found, at = self._varint(at, end, path)
                _check_number(found, field, path)

    def _varint(self, at: int, end: int, path: str) -> tuple[int, int]:
        found = 0
        for place in range(_MOST_BYTES):
            if at + place >= end:
                raise _truncated(path)
            byte = self._value[at + place]
            found |= (byte & 0x7F) << (7 * place)
            if byte < 0x80:  # noqa: PLR2004 - the bit that says that more follow
                if found >> 64:
                    break
                return found, at + place + 1
        raise _invalid("a number has more than 64 bits")


def _kind(field: Any) -> int:
    """The wire type of a single value of a field, which is not packed."""
    return _KINDS.get(field.type, _VARINT)


def _check_number(found: int, field: Any, path: str) -> None:
    fits = _FITS.get(field.type) if field is not None else None
    if fits is not None and not any(first <= found <= last for first, last in fits):
        raise Misfit("FIELD_TYPE", path, f"field {path} came with a number that has more bits than it")


def _below(path: str, field: Any) -> str:
    return path if field is None else below(path, field.name)


def _truncated(path: str) -> Misfit:
    return Misfit("TRUNCATED", path or None, "the value ends before what a length in it announces")


def _invalid(what: str) -> Misfit:
    return Misfit("INVALID_PROTOBUF", None, what)
