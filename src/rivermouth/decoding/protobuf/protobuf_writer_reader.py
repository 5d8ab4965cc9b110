"""A writer's Protobuf messages as rows of a table that grows: read by the writer's own descriptor, field by number.

What the table's descriptor declares is what that says where nothing was sent. What has come since is null then.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.protobuf import protobuf_descriptor as descriptors
from rivermouth.decoding.protobuf import protobuf_reader as reading
from rivermouth.decoding.protobuf import protobuf_writer_columns
from rivermouth.decoding.protobuf.protobuf_descriptor import is_repeated
from rivermouth.decoding.protobuf.protobuf_reader import Read
from rivermouth.decoding.protobuf.protobuf_writer_columns import FRACTIONS, WHOLE
from rivermouth.decoding.python import python_scalars
from rivermouth.decoding.python.python_scalars import Misfit
from rivermouth.names import below
from rivermouth.schemas.column_policies import Policies
from rivermouth.schemas.evolution import FIELD_NUMBER

PASSED: Final = object()
"""Marks a value that was passed over."""
_OF_TYPES: Final = ("FIELD_TYPE", "SCHEMA_MISMATCH")
# Of the type on the left all values are some of the type on the right, and written the same.
_HELD: Final = {
    (T.IntegerType, T.LongType),
    (T.IntegerType, T.DecimalType),
    (T.LongType, T.DecimalType),
    (T.IntegerType, T.DoubleType),
    (T.FloatType, T.DoubleType),
}


class GrownReader:
    """How messages of one writer are read.

    Attributes:
        read: A function from a message to a dict of the table's columns; it raises a ``Misfit`` for what does not fit.
    """

    def __init__(self, writer: Any, declared: Any, policies: Policies, *, truncates: bool = False) -> None:
        """Makes it of the writer's descriptor, the table's, and the columns that the table has by now."""
        self._policies, self._truncates = policies, truncates
        self._found: dict[str, None] = {}
        self._unread: Callable[[Any], set[int]] = lambda _: set()
        whole = self._message(writer, declared, policies.columns, "", None)
        required = [name for name in policies.columns.names if policies.requires(name)]

        def read(message: Any) -> dict[str, Any]:
            self._found.clear()
            row: dict[str, Any] = whole(message)
            for name in required:
                if row[name] is None:
                    raise Misfit("FIELD_MISSING", name, "the column has no value")
            return row

        self.read: Callable[[Any], dict[str, Any]] = read

    def undeclared(self, message: Any) -> list[str]:
        """The paths of the fields that no column has, and whose policy is to ignore that, of the message read last.

        Fields without a name are those of the message itself.
        """
        return [*self._found, *reading.numbered(self._unread(message))]

    def _message(self, writer: Any, declared: Any, target: T.StructType, path: str, column: str | None) -> Read:
        """A function from a message to a dict; ``column`` is the one around it, None for the whole record."""
        known = protobuf_writer_columns.by_number(target)
        parts: dict[str, Read] = {}
        refused: list[tuple[Callable[[Any], bool], str]] = []
        ignored: list[tuple[Callable[[Any], bool], str]] = []
        for field in writer.fields:
            mine = known.get(field.number)
            if mine is None:
                refuses = self._policies.refuses(column or field.name)
                (refused if refuses else ignored).append((_there(field), below(path, field.name)))
                continue
            of_table = _field_of(declared, field.number)
            within, inner = column or mine.name, below(path, mine.name)
            read = self._field(field, of_table, mine.dataType, inner, within)
            parts[mine.name] = _passing(read) if self._policies.passes(within) else read
        for each in target.fields:
            if each.name not in parts:
                of_table = _field_of(declared, each.metadata.get(FIELD_NUMBER))
                parts[each.name] = self._absent(of_table, below(path, each.name), column or each.name, is_lacking=True)
        check = self._sent(writer, known, path, column)
        ordered = [(each.name, parts[each.name]) for each in target.fields]

        def read_message(message: Any) -> dict[str, Any]:
            check(message)
            for there, at in refused:
                if there(message):
                    raise Misfit("FIELD_UNDECLARED", at, "the value has a field that is not in the schema")
            for there, at in ignored:
                if there(message):
                    self._found[at] = None
            return {name: part(message) for name, part in ordered}

        return read_message

    def _sent(
        self, writer: Any, known: dict[int, T.StructField], path: str, column: str | None
    ) -> Callable[[Any], None]:
        """A function that makes sure that what the writer's descriptor does not read is nothing that has a place."""
        unread, own = reading.unread(writer), {field.number: below(path, field.name) for field in writer.fields}
        paths = {number: below(path, each.name) for number, each in known.items()}
        passed = {number for number, each in known.items() if self._policies.passes(column or each.name)}
        # What has no name has none that a policy could be said for.
        refuses = self._policies.refuses(column or "")
        if column is None and not refuses:
            self._unread = unread

        def check(message: Any) -> None:
            for number in sorted(unread(message) - passed):
                if number in own:
                    raise reading.other_type(paths.get(number, own[number]))
                if number in paths:
                    text = f"the value has the field {paths[number]}, which the schema of its writer lacks"
                    raise Misfit("SCHEMA_MISMATCH", paths[number], text)
                if refuses:
                    text = f"the value has a field of the number {number}, which the schema of its writer lacks"
                    raise Misfit("FIELD_UNDECLARED", below(path, str(number)), text)

        return check

    def _absent(self, declared: Any, path: str, column: str, *, is_lacking: bool = False) -> Read:
        """What a column holds where nothing was sent: what the table's descriptor says of that, if it has the field."""
        policies = self._policies
        if declared is None or (is_lacking and (policies.forgives(column) or policies.requires(column))):
            return _nothing
        if is_repeated(declared):
            return (lambda _: {}) if descriptors.is_map(declared) else (lambda _: [])
        if descriptors.is_required(declared):

            def refuse(_message: Any) -> Any:
                raise Misfit("FIELD_MISSING", path, f"field {path} is required, and not set")

            return refuse
        if declared.has_presence:
            return _nothing
        default = reading.value_reader(declared, path)(declared.default_value)
        return lambda _: default

    def _field(self, field: Any, declared: Any, target: T.DataType, path: str, column: str) -> Read:
        """A function from a message to the value of one of its fields."""
        name, there = field.name, _there(field)
        absent = self._absent(declared, path, column)
        if descriptors.is_map(field):
            entries = self._entries(field, declared, target, path, column)
            return _mismatch(field, target, path, there, absent) if entries is None else entries
        several = is_repeated(field)
        items = isinstance(target, T.ArrayType)
        convert = None
        if items or not several:
            kind = target.elementType if isinstance(target, T.ArrayType) else target
            convert = self._value(field, declared, kind, f"{path}[]" if items else path, column)
        if convert is None:
            return _mismatch(field, target, path, there, absent)
        one = convert
        if several:
            return lambda message: [one(each) for each in getattr(message, name)]
        if items:
            # The writer has one value where the column has several.
            return lambda message: [one(getattr(message, name))] if there(message) else absent(message)
        if field.has_presence or (declared is not None and declared.has_presence):
            return lambda message: one(getattr(message, name)) if there(message) else absent(message)
        return lambda message: one(getattr(message, name))

    def _entries(self, field: Any, declared: Any, target: T.DataType, path: str, column: str) -> Read | None:
        """A function from a message to the dict of one of its maps; None where the type has no such values."""
        if not isinstance(target, T.MapType) or (declared is not None and not descriptors.is_map(declared)):
            return None
        mine = (None, None) if declared is None else descriptors.map_parts(declared)
        key, item = (
            self._value(each, of_table, kind, f"{path}[]", column)
            for each, of_table, kind in zip(
                descriptors.map_parts(field), mine, (target.keyType, target.valueType), strict=True
            )
        )
        if key is None or item is None:
            return None
        name, key_of, item_of = field.name, key, item
        return lambda message: {key_of(each): item_of(value) for each, value in getattr(message, name).items()}

    def _value(self, field: Any, declared: Any, target: T.DataType, path: str, column: str) -> Read | None:
        """A function from a value of the field to one of the type; None where that has no such values."""
        if isinstance(target, T.StructType):
            if not descriptors.is_message(field) or descriptors.standard(field.message_type) is not None:
                return None
            of_table = declared.message_type if declared is not None and descriptors.is_message(declared) else None
            return self._message(field.message_type, of_table, target, path, column)
        if descriptors.has_columns(field) or (declared is not None and _kind(field) != _kind(declared)):
            return None
        if descriptors.is_enum(field):
            return self._symbols(field, declared, path, column) if isinstance(target, T.StringType) else None
        return _as(
            target,
            descriptors.single_type(field, (), path),
            reading.value_reader(field, path, truncates=self._truncates),
            path,
        )

    def _symbols(self, field: Any, declared: Any, path: str, column: str) -> Read:
        """A function from an enum's number to its name: the table's own, or where it may take more the writer's."""
        named = reading.value_reader(field, path)
        if declared is None:
            return named
        own = {number: str(each.name) for number, each in declared.enum_type.values_by_number.items()}
        of_table = reading.value_reader(declared, path)
        other = named if self._policies.widens(column) else of_table
        return lambda number: own[number] if number in own else other(number)


def _as(target: T.DataType, written: T.DataType, read: Read, path: str) -> Read | None:
    """A function to values of another type of numbers, which refuses what is none of its own; None for other types."""
    if target == written or (type(written), type(target)) in _HELD:
        return read
    to_whole, to_fraction = isinstance(target, WHOLE), isinstance(target, FRACTIONS)
    of_whole, of_fraction = isinstance(written, WHOLE), isinstance(written, FRACTIONS)
    if not (of_whole and (to_whole or to_fraction)) and not (of_fraction and to_fraction):
        return None

    def exact(value: Any) -> Any:
        made = read(value)
        python_scalars.column([made], target, path)
        return made

    return exact


def _kind(field: Any) -> str:
    """What tells fields apart whose columns have one type."""
    if descriptors.is_enum(field):
        return "enum"
    if not descriptors.is_message(field):
        return "value"
    name = descriptors.standard(field.message_type)
    if name is None:
        return "message"
    # A wrapper is its value, or none.
    return "json" if name in descriptors.JSON else "value"


def _field_of(declared: Any, number: int | None) -> Any:
    """The field that the table's descriptor has under a number; None without a descriptor, or such a field."""
    return None if declared is None else declared.fields_by_number.get(number)


def _there(field: Any) -> Callable[[Any], bool]:
    """Whether a message has a value in a field; the default of a field without presence counts as no value."""
    name = field.name
    if is_repeated(field):
        return lambda message: len(getattr(message, name)) > 0
    if field.has_presence:
        return lambda message: bool(type(message).HasField(message, name))
    default = field.default_value
    return lambda message: bool(getattr(message, name) != default)


def _nothing(_message: Any) -> None:
    return None


def _mismatch(field: Any, target: T.DataType, path: str, there: Callable[[Any], bool], absent: Read) -> Read:
    """A function that refuses what was sent in a field whose column cannot hold it."""
    text = f"field {path} is {descriptors.described(field)} in the writer's schema, which is not {target.typeName()}"

    def read(message: Any) -> Any:
        if there(message):
            raise Misfit("SCHEMA_MISMATCH", path, text)
        return absent(message)

    return read


def _passing(read: Read) -> Read:
    """The same, but what does not fit is passed over, to look at what comes behind it."""

    def passing(message: Any) -> Any:
        try:
            return read(message)
        except Misfit as misfit:
            if misfit.reason not in _OF_TYPES:
                raise
            return PASSED

    return passing
