"""The schema that a shape makes: one type a path that takes every value that was seen there, and what was given up."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import folded
from rivermouth.schemas import column_types, inferred_times, open_fields
from rivermouth.schemas.inference import ARRAY, DEEP, NULL, OBJECT, Node, Seen, Shape
from rivermouth.schemas.inferred_numbers import NumberBounds

MAX_COLUMNS: Final = 5_000
"""More fields than that, nested ones among them, are no schema that anybody could use."""
_NAMELESS: Final = "unnamed"


class SchemaTooWide(ValueError):
    """The documents have more fields than a table can have."""


@dataclass(frozen=True, slots=True)
class FieldFound:
    """A field of the documents.

    Attributes:
        path: Its names from the document down; ``[]`` means the elements of an array.
        type: Its type in short: ``struct`` and ``array<struct>`` have their own fields behind them.
        records: In how many records it is; null counts.
        share: The same as a part of all documents; None below a map.
        column: The column's name, where it is another one than the field's.
        note: What a reader should know of it; None where there is nothing.
    """

    path: tuple[str, ...]
    type: str
    records: int
    share: float | None
    column: str | None = None
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Conflict:
    """A path at which values are of kinds that no type but text holds.

    Attributes:
        path: As in ``FieldFound``.
        kinds: By kind of JSON value: how many there are, and a record that has one.
        type: The type that it got.
    """

    path: tuple[str, ...]
    kinds: Mapping[str, Seen]
    type: str


@dataclass(frozen=True, slots=True)
class Inferred:
    """A schema, and how it came about.

    Attributes:
        found: The types as far as they were seen: void where there was only null, or only empty arrays, and a
            struct without fields where there were only empty objects. A column whose name is not the field's has the
            field's in its metadata.
        fields: The fields, each before its own, in the order of the schema.
        conflicts: Where text was the only way.
        numbers: Bounds of the numbers, by path as in ``FieldFound``; ``{}`` means the values of a map.
        is_open: Which fields may stay without a column while they are open, as ``schemas/open_fields.py`` has it.
    """

    found: T.StructType
    fields: tuple[FieldFound, ...]
    conflicts: tuple[Conflict, ...]
    numbers: Mapping[tuple[str, ...], NumberBounds] = field(default_factory=dict)
    is_open: open_fields.IsOpen = field(default=lambda _field, _column: False, compare=False, repr=False)

    @property
    def schema(self) -> T.StructType:
        """A schema that a table can have, and that takes every document that was seen; without open fields."""
        return final_columns(open_fields.without_open(self.found, self.is_open))

    @property
    def complete(self) -> T.StructType:
        """The same with open fields as text, for a schema that does not grow."""
        return final_columns(self.found)

    @property
    def open(self) -> tuple[open_fields.Path, ...]:
        """The open fields."""
        return open_fields.paths(self.found, self.is_open)


def final_columns(found: T.StructType) -> T.StructType:
    """``final_type`` for a whole schema."""
    return T.StructType([T.StructField(f.name, final_type(f.dataType), f.nullable, f.metadata) for f in found.fields])


def final_type(found: T.DataType) -> T.DataType:
    """The type with text where nothing but null was seen, and a map where objects had no fields."""
    match found:
        case T.NullType():
            return T.StringType()
        case T.StructType() if not found.fields:
            return T.MapType(T.StringType(), T.StringType())
        case T.StructType():
            return final_columns(found)
        case T.ArrayType():
            return T.ArrayType(final_type(found.elementType))
        case T.MapType():
            return T.MapType(found.keyType, final_type(found.valueType))
    return found


def schema_of(
    shape: Shape,
    *,
    times: bool = False,
    is_taken: Callable[[str], bool] = lambda _name: False,
    is_open: open_fields.IsOpen = lambda _field, _column: False,
) -> Inferred:
    """The schema that takes every document of ``shape``; its columns are sorted by the fields' names.

    Args:
        shape: Has at least one document with a field.
        times: Whether strings that are all dates or all times get such a type.
        is_taken: Whether a column cannot bear a name, because the table has another one of that name.
        is_open: Which fields may stay without a column while they are open.

    Raises:
        SchemaTooWide: There are too many fields.
    """
    maker = _Maker(shape, times=times)
    top = shape.documents.fields or {}
    if len(top) > max(MAX_COLUMNS, shape.limits.max_fields):
        raise SchemaTooWide
    called = _column_names(sorted(top), is_taken)
    fields = []
    for name in sorted(top):
        column = called[name]
        maker.is_open = is_open(name, column)
        found = maker.type_of(top[name], (name,), column=None if column == name else column)
        fields.append(T.StructField(column, found, True, column_types.read_from(name) if column != name else None))
    if len(maker.fields) > MAX_COLUMNS:
        raise SchemaTooWide
    return Inferred(T.StructType(fields), tuple(maker.fields), tuple(maker.conflicts), maker.numbers, is_open)


class _Maker:
    """Types of nodes, and what is told of them on the way."""

    def __init__(self, shape: Shape, *, times: bool) -> None:
        self.fields: list[FieldFound] = []
        self.conflicts: list[Conflict] = []
        self.numbers: dict[tuple[str, ...], NumberBounds] = {}
        self.is_open = False
        self._limits = shape.limits
        self._documents = shape.sound_records
        self._apart = shape.apart
        self._times = times

    def type_of(
        self, node: Node, path: tuple[str, ...], *, column: str | None = None, named: bool = True
    ) -> T.DataType:
        place = len(self.fields)
        data_type: T.DataType
        if len(path) == 1 and path[0].lower() in self._apart:
            data_type, note = T.VariantType(), None
        else:
            data_type, note = self._judged(node, path, named=named)
        share = node.records / self._documents if named and self._documents else None
        told: T.DataType | None = data_type
        if self.is_open and (told := open_fields.known(data_type)) is None:
            note = f"{note or 'only empty'}: no column until a value comes"
        shown = "void" if told is None else _short(final_type(told))
        found = FieldFound(path, shown, node.records, share, column, note)
        self.fields.insert(place, found)
        return data_type

    def _judged(self, node: Node, path: tuple[str, ...], *, named: bool) -> tuple[T.DataType, str | None]:
        kinds = {kind: seen for kind, seen in node.kinds.items() if kind != NULL}
        if not kinds:
            return T.NullType(), "only null"
        if self.is_open and len(kinds) > 1 and _is_empty(node):
            return T.NullType(), "only empty"
        if len(kinds) > 1 and not (set(kinds) == {OBJECT, DEEP} or set(kinds) == {ARRAY, DEEP}):
            self.conflicts.append(Conflict(path, dict(sorted(kinds.items())), "string"))
            return T.StringType(), "conflict: text"
        if DEEP in kinds:
            return T.StringType(), f"deeper than {self._limits.max_depth} levels: JSON text"
        (kind,) = kinds
        match kind:
            case "object":
                return self._object(node, path, named=named)
            case "array":
                return self._array(node, path, named=named)
            case "number" if node.numbers is not None:
                self.numbers[path] = node.numbers
                number = node.numbers.data_type
                return number, "has digits that only text keeps" if isinstance(number, T.StringType) else None
            case "string":
                return (inferred_times.data_type(node.times) if self._times else None) or T.StringType(), None
        return T.BooleanType(), None

    def _array(self, node: Node, path: tuple[str, ...], *, named: bool) -> tuple[T.DataType, str | None]:
        items = node.items
        if items is None or not items.kinds:
            return T.ArrayType(T.NullType()), "only empty"
        inner, note = self._judged(items, (*path, "[]"), named=named)
        return T.ArrayType(inner), note

    def _object(self, node: Node, path: tuple[str, ...], *, named: bool) -> tuple[T.DataType, str | None]:
        values, note = node.values, f"more than {self._limits.max_fields} different fields: map"
        if values is None:
            names = sorted(node.fields or {})
            if not names:
                return T.StructType([]), "only empty"
            unfit = _unfit(names)
            if unfit is None:
                return self._struct(node, path, names, named=named)
            note = f"{unfit}: map"
            values = Node()
            for name in names:
                values.merge((node.fields or {})[name], self._limits)
        inner, _ = self._judged(values, (*path, "{}"), named=False)
        return T.MapType(T.StringType(), inner), note

    def _struct(
        self, node: Node, path: tuple[str, ...], names: list[str], *, named: bool
    ) -> tuple[T.DataType, str | None]:
        members = node.fields or {}
        return T.StructType(
            [T.StructField(name, self.type_of(members[name], (*path, name), named=named)) for name in names]
        ), None


def _is_empty(node: Node) -> bool:
    """Whether there was nothing but null, and objects and arrays with nothing else in them; a map is something."""
    parts = [*(node.fields or {}).values(), *([node.items] if node.items else [])]
    return node.kinds.keys() <= {NULL, OBJECT, ARRAY} and node.values is None and all(map(_is_empty, parts))


def _unfit(names: list[str]) -> str | None:
    """Why an object with fields of these names cannot be a struct."""
    if "" in names:
        return "a field without a name"
    if len({folded(name) for name in names}) < len(names):
        return "fields that differ in nothing but case"
    return None


def _column_names(names: list[str], is_taken: Callable[[str], bool]) -> dict[str, str]:
    """The columns of the document's fields: their names, as far as a table can have them."""
    called: dict[str, str] = {}
    used: set[str] = set()
    free = [name for name in names if name and not is_taken(name)]
    # A field that can keep its name keeps it, even if another field comes before it.
    for name in free:
        if folded(name) not in used:
            called[name] = name
            used.add(folded(name))
    for name in names:
        if name in called:
            continue
        called[name] = next(each for each in _others(name) if folded(each) not in used and not is_taken(each))
        used.add(folded(called[name]))
    return called


def _others(name: str) -> Iterator[str]:
    if not name:
        yield _NAMELESS
    stem = name or _NAMELESS
    for number in range(2, 1 << 20):
        yield f"{stem}_{number}"
        yield f"field_{stem}_{number}"


def _short(data_type: T.DataType) -> str:
    match data_type:
        case T.StructType():
            return "struct"
        case T.ArrayType():
            return f"array<{_short(data_type.elementType)}>"
        case T.MapType():
            return f"map<string,{_short(data_type.valueType)}>"
    return data_type.simpleString()
