"""How a schema grows by what documents have besides: new fields, and wider types where Delta can change a column.

A schema only ever grows: each type holds every value that the one before it held.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import folded
from rivermouth.schemas import open_fields
from rivermouth.schemas.column_types import name_in_json, read_from
from rivermouth.schemas.inference import ARRAY, NULL, NUMBER, OBJECT, Node
from rivermouth.schemas.inferred import final_type
from rivermouth.schemas.type_widening import widens
from rivermouth.schemas.wider_types import Numbers, takes, wider_number
from rivermouth.spec import Evolution
from rivermouth.spec.evolution import WIDENS

_ALL_THAT_DELTA_CAN: Final = Evolution(on_new_column="evolve", on_type_change="widen").model_copy(
    update={"max_columns": 1 << 31}
)
GROWN: Final = "grown"
"""In a kept column's metadata: it was not declared, but has come since."""
FIELD_NUMBER: Final = "field_number"
"""In the metadata of a column, or of a field within one: what it is known by, whatever it is called."""
_NUMBERS: Final = (T.IntegralType, T.FractionalType)
_KINDS: Final[Mapping[Any, frozenset[str]]] = {
    T.StructType: frozenset({OBJECT, NULL}),
    T.MapType: frozenset({OBJECT, NULL}),
    T.ArrayType: frozenset({ARRAY, NULL}),
    _NUMBERS: frozenset({NUMBER, NULL}),
}
"""Kinds of JSON values that a column of a type holds, or would if its type grew."""


class GrowthPolicies(Protocol):
    """What is asked of the policies of a schema that may grow: ``Evolution``, or ``column_policies.Policies``."""

    @property
    def max_columns(self) -> int:
        """The most columns of the schema, those within others included."""

    def new_column(self, name: str) -> str:
        """What happens to a field that is not there, or to those within a column."""

    def type_change(self, name: str) -> str:
        """What happens to values that a column does not hold."""


@dataclass(frozen=True, slots=True)
class Growth:
    """A schema, and what is new in it.

    Attributes:
        schema: The columns, in their order, new ones behind them.
        changes: What is new, in words; empty where nothing is.
        is_full: Whether there were fields for which there was no room.
    """

    schema: T.StructType
    changes: tuple[str, ...]
    is_full: bool


@dataclass(frozen=True, slots=True)
class GrowthBounds:
    """What a schema cannot become.

    Attributes:
        pinned: Names, in lower case, of columns that stay as they are.
        table: The columns of the table. One that the schema lacks is taken for a new field of its name where it holds
            that; else the new column gets another name.
        is_taken: Whether a new column cannot have a name.
    """

    pinned: Collection[str] = ()
    table: T.StructType | None = None
    is_taken: Callable[[str], bool] = lambda _name: False


NO_BOUNDS: Final = GrowthBounds()


def grown(
    declared: T.StructType,
    found: T.StructType,
    numbers: Numbers,
    evolution: GrowthPolicies,
    bounds: GrowthBounds = NO_BOUNDS,
) -> Growth:
    """A schema that takes more of what was found; what no policy wants, or Delta cannot change, stays as it is.

    Args:
        declared: The schema as it is.
        found: As ``Inferred.found``.
        numbers: As ``Inferred.numbers``.
        evolution: The policies, settled.
        bounds: What new columns and old ones cannot be.
    """
    pinned, is_taken = bounds.pinned, bounds.is_taken
    there = {folded(each.name): each.dataType for each in (bounds.table or T.StructType()).fields}
    grower = _Grower(numbers, evolution, evolution.max_columns - size(declared))
    fields = list(declared.fields)
    places = {_known_by(each): place for place, each in enumerate(fields)}
    for each in found.fields:
        name = name_in_json(each)
        place = places.get(_known_by(each))
        if place is None:
            if each.name.lower() not in pinned and evolution.new_column(name) == "evolve" and grower.has_room(each):
                new = _added(each, {folded(known.name) for known in fields}, is_taken, there, numbers)
                fields.append(new)
                grower.changes.append(f"adds column {new.name} {new.dataType.simpleString()}")
            continue
        mine = fields[place]
        if mine.name.lower() in pinned:
            continue
        wider = grower.type_of(mine.dataType, each.dataType, (name,), column=mine.name, shown=mine.name)
        fields[place] = T.StructField(mine.name, wider, mine.nullable, mine.metadata)
    return Growth(T.StructType(fields), tuple(grower.changes), grower.is_full)


@dataclass(frozen=True, slots=True)
class Difference:
    """What a newer inference makes of a kept schema.

    Attributes:
        schema: The kept columns, in their order, wider where need be, and behind them new ones.
        changes: What is different, in words.
        refused: What would be needed besides, and no table takes.
    """

    schema: T.StructType
    changes: tuple[str, ...] = field(default=())
    refused: tuple[str, ...] = field(default=())


def difference(
    kept: T.StructType, found: T.StructType, *, numbers: Numbers | None = None, pinned: Collection[str] = ()
) -> Difference:
    """How the kept schema must change to take what was found; a column that was not found stays.

    Args:
        kept: The kept schema.
        found: As ``Inferred.found``: void where nothing but null was seen.
        numbers: As ``Inferred.numbers``: a column may take numbers for which another type was inferred.
        pinned: Names, in lower case, of kept columns whose types are none of what is inferred.
    """
    numbers, found = numbers or {}, open_fields.beside(found, kept)
    growth = grown(kept, found, numbers, _ALL_THAT_DELTA_CAN, GrowthBounds(pinned))
    fields = {name_in_json(each): each for each in growth.schema.fields if each.name.lower() not in pinned}
    pairs = [(fields[name_in_json(each)], each.dataType) for each in found.fields if name_in_json(each) in fields]
    refused = (
        f"column {mine.name} is {_described(mine.dataType)}, and there are {_values(mine, final_type(there))}"
        for mine, there in pairs
        if not takes(mine.dataType, there, numbers, (name_in_json(mine),))
    )
    return Difference(growth.schema, growth.changes, tuple(refused))


def overlaid(declared: T.StructType, kept: T.StructType, *, whole: bool = False) -> T.StructType:
    """A declared schema with its later growth: wider types, and further columns and fields.

    A column has its declared type if the kept type is not wider than that. A column that is no longer declared is left
    out.

    Args:
        declared: As it is declared now.
        kept: The newest kept version.
        whole: Whether all columns of that count, and not only those that have grown.
    """
    known = {folded(each.name): each for each in kept.fields}
    names = {folded(each.name) for each in declared.fields}
    numbers = {each.metadata[FIELD_NUMBER] for each in declared.fields if FIELD_NUMBER in each.metadata}
    fields = []
    for each in declared.fields:
        since = known.get(folded(each.name))
        laid = each.dataType if since is None else _laid_over(each.dataType, since.dataType)
        fields.append(T.StructField(each.name, laid, each.nullable, each.metadata))
    more = (each for each in kept.fields if folded(each.name) not in names and (whole or GROWN in each.metadata))
    return T.StructType([*fields, *(each for each in more if each.metadata.get(FIELD_NUMBER) not in numbers)])


def _known_by(each: T.StructField) -> Any:
    """What a column, or a field within one, has in common with what was found of it."""
    return each.metadata.get(FIELD_NUMBER, name_in_json(each))


def _laid_over(declared: T.DataType, kept: T.DataType) -> T.DataType:
    match declared, kept:
        case T.StructType(), T.StructType():
            mine = {each.name: each for each in declared.fields}
            there = {folded(each.name) for each in kept.fields}
            new = [each for each in declared.fields if each.name not in kept.names]
            if any(folded(each.name) in there for each in new):
                return declared
            fields = []
            for each in kept.fields:
                own = mine.get(each.name, each)
                fields.append(
                    T.StructField(own.name, _laid_over(own.dataType, each.dataType), own.nullable, own.metadata)
                )
            return T.StructType([*fields, *new])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(_laid_over(declared.elementType, kept.elementType), declared.containsNull)
        case T.MapType(), T.MapType():
            inner = _laid_over(declared.valueType, kept.valueType)
            return T.MapType(declared.keyType, inner, declared.valueContainsNull)
    return kept if widens(declared, kept) else declared


def narrowed(node: Node, declared: T.DataType) -> None:
    """Takes away what was seen at a path and no growth of its type would take, so that it hides nothing else.

    Args:
        node: What was seen; changed.
        declared: The type at that path.
    """
    kinds = next((kinds for types, kinds in _KINDS.items() if isinstance(declared, types)), None)
    if kinds is not None:
        node.kinds = {kind: seen for kind, seen in node.kinds.items() if kind in kinds}
    match declared:
        case T.StructType():
            known = {each.name: each.dataType for each in declared.fields}
            node.fields = _apart(node.fields, known)
            for name, kind in known.items():
                if node.fields is not None and name in node.fields:
                    narrowed(node.fields[name], kind)
        case T.ArrayType() if node.items is not None:
            narrowed(node.items, declared.elementType)
        case T.MapType():
            for each in filter(None, (node.values, *(node.fields or {}).values())):
                narrowed(each, declared.valueType)


def _apart(fields: dict[str, Node] | None, known: Collection[str]) -> dict[str, Node] | None:
    """The known fields of an object, and the others that a struct can also have: with a name that is not taken."""
    if fields is None:
        return None
    found, used = {name: node for name, node in fields.items() if name in known}, set(map(folded, known))
    for name in sorted(fields.keys() - found.keys()):
        if name and folded(name) not in used:
            used.add(folded(name))
            found[name] = fields[name]
    return found


def size(declared: T.DataType) -> int:
    """How many fields a type has, those within others included."""
    match declared:
        case T.StructType():
            return sum(1 + size(each.dataType) for each in declared.fields)
        case T.ArrayType():
            return size(declared.elementType)
        case T.MapType():
            return size(declared.valueType)
    return 0


class _Grower:
    """Types that take more, and what is told of them on the way."""

    def __init__(self, numbers: Numbers, evolution: GrowthPolicies, room: int) -> None:
        self.changes: list[str] = []
        self.is_full = False
        self._numbers = numbers
        self._evolution = evolution
        self._room = room

    def has_room(self, field: T.StructField) -> bool:
        needed = 1 + size(field.dataType)
        if needed > self._room:
            self.is_full = True
            return False
        self._room -= needed
        return True

    def type_of(
        self, mine: T.DataType, found: T.DataType, path: tuple[str, ...], *, column: str, shown: str
    ) -> T.DataType:
        match mine, found:
            case T.StructType(), T.StructType():
                return self._struct(mine, found, path, column=column, shown=shown)
            case T.ArrayType(), T.ArrayType():
                inner = self.type_of(
                    mine.elementType, found.elementType, (*path, "[]"), column=column, shown=f"{shown}[]"
                )
                return T.ArrayType(inner, mine.containsNull)
            case T.MapType(), T.MapType():
                inner = self.type_of(mine.valueType, found.valueType, (*path, "{}"), column=column, shown=f"{shown}[]")
                return T.MapType(mine.keyType, inner, mine.valueContainsNull)
            case T.MapType(), T.StructType():
                inner = mine.valueType
                for each in found.fields:
                    inner = self.type_of(inner, each.dataType, (*path, each.name), column=column, shown=f"{shown}[]")
                return T.MapType(mine.keyType, inner, mine.valueContainsNull)
        if self._evolution.type_change(column) not in WIDENS or takes(mine, found, self._numbers, path):
            return mine
        bounds, wanted = self._numbers.get(path), final_type(found)
        wider = wider_number(mine, bounds) if bounds else wanted if widens(mine, wanted) else None
        if wider is None:
            return mine
        self.changes.append(f"widens {shown} to {wider.simpleString()}")
        return wider

    def _struct(
        self, mine: T.StructType, found: T.StructType, path: tuple[str, ...], *, column: str, shown: str
    ) -> T.StructType:
        fields = list(mine.fields)
        places = {_known_by(each): place for place, each in enumerate(fields)}
        taken = {folded(each.name) for each in fields}
        for each in found.fields:
            place = places.get(_known_by(each))
            name = f"{shown}.{each.name}"
            if place is not None:
                known = fields[place]
                inner = self.type_of(known.dataType, each.dataType, (*path, each.name), column=column, shown=name)
                fields[place] = T.StructField(known.name, inner, known.nullable, known.metadata)
            elif (
                folded(each.name) not in taken
                and self._evolution.new_column(column) == "evolve"
                and self.has_room(each)
            ):
                taken.add(folded(each.name))
                fields.append(T.StructField(each.name, final_type(each.dataType), True, each.metadata))
                self.changes.append(f"adds {name} {fields[-1].dataType.simpleString()}")
        return T.StructType(fields)


def _added(
    found: T.StructField,
    taken: Collection[str],
    is_taken: Callable[[str], bool],
    there: Mapping[str, T.DataType],
    numbers: Numbers,
) -> T.StructField:
    """A new column with a name that is not in ``taken``; ``there`` are the types of a table. Names are folded."""
    name, number, in_json = found.name, 1, name_in_json(found)
    kind: T.DataType | None = None
    while kind is None:
        is_free = folded(name) not in taken and not is_taken(name)
        kind = _type_at(there.get(folded(name)), found.dataType, numbers, (in_json,)) if is_free else None
        if kind is None:
            number += 1
            name = f"{found.name}_{number}"
    numbered = {key: value for key, value in found.metadata.items() if key == FIELD_NUMBER}
    metadata = {**found.metadata, **read_from(in_json)} if name != in_json else numbered
    return T.StructField(name, kind, True, metadata)


def _type_at(there: T.DataType | None, found: T.DataType, numbers: Numbers, path: tuple[str, ...]) -> T.DataType | None:
    """The type for what was found in the place of a type that a table may have; None if they do not go together."""
    wanted = final_type(found)
    if there is None or widens(there, wanted):
        return wanted
    return there if takes(there, found, numbers, path) else None


def _values(mine: T.StructField, wanted: T.DataType) -> str:
    if isinstance(mine.dataType, T.DoubleType) and isinstance(wanted, T.LongType):
        return "whole numbers that do not fit a double exactly"
    return f"values of {_described(wanted)}"


def _described(declared: T.DataType) -> str:
    """A type in a few words: a wide struct would fill pages."""
    text = declared.simpleString()
    return text if len(text) <= 60 else f"{declared.typeName()} ({len(text)} characters)"  # noqa: PLR2004 - a line
