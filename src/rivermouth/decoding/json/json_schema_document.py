"""Columns of a JSON Schema: what its documents may hold, as far as a table's types can say it.

https://json-schema.org/draft/2020-12/json-schema-core and the drafts before it, from 4 on. Only what says where values
are, and what kind they have, is read: bounds, patterns and conditions are not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any, Final
from urllib.parse import unquote

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.schemas.type_limits import MAX_DIGITS, whole_range

_NULL: Final = "null"
_NUMBER: Final = frozenset({"integer", "number"})
_KINDS: Final = {
    "object": frozenset({"object"}),
    "array": frozenset({"array"}),
    "string": frozenset({"string"}),
    "boolean": frozenset({"boolean"}),
    "integer": frozenset({"integer"}),
    "number": _NUMBER,
    _NULL: frozenset({_NULL}),
}
_ANYTHING: Final = frozenset().union(*_KINDS.values())
_PYTHON: Final[dict[type, str]] = {
    dict: "object",
    list: "array",
    str: "string",
    bool: "boolean",
    int: "integer",
    float: "number",
    type(None): _NULL,
}
_STRINGS: Final[dict[str, T.DataType]] = {"date": T.DateType(), "date-time": T.TimestampType()}
# What Kafka Connect's converter says besides:
# https://github.com/confluentinc/schema-registry/blob/master/json-schema-converter
_CONNECT: Final[dict[str, T.DataType]] = {
    "int8": T.ByteType(),
    "int16": T.ShortType(),
    "int32": T.IntegerType(),
    "int64": T.LongType(),
    "float32": T.FloatType(),
    "float64": T.DoubleType(),
}
_CONNECT_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
_LONGEST: Final = MAX_DIGITS
_LARGEST: Final = whole_range(T.LongType)[1]
_MOST_VALUES: Final = 20_000
_DEEPEST: Final = 60


def is_json_schema(declared: Mapping[str, Any]) -> bool:
    """Whether a mapping is a JSON Schema, and not Spark's form of a schema."""
    return "fields" not in declared and not declared.keys().isdisjoint({"$schema", "properties", "$ref", "allOf"})


def columns(document: Mapping[str, Any], others: Mapping[str, Any] | None = None) -> T.StructType:
    """The columns of documents that a JSON Schema describes.

    What is required and may not be null is NOT NULL. Where values of several kinds may stand, or anything, the column
    is a string with the text of the value.

    Args:
        document: The schema of an object.
        others: Schemas that it refers to, by the names by which it does.

    Raises:
        ValueError: A table cannot have these columns; the text says why.
    """
    described = _Reading(others or {}).described(document, document, ())
    found = _type(described)
    if not isinstance(found, T.StructType):
        msg = "the JSON Schema describes no object with properties"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    return found


@dataclass(frozen=True, slots=True)
class _Described:
    """What is described of one value.

    Attributes:
        kinds: The kinds that it may have; none where there can be no value.
        properties: Of an object, by name.
        required: Names of those that must be there.
        values: Of the other members of an object; None where nothing is described of them.
        items: Of an array; None where nothing is described of them.
        hints: What is described of a value that is none of both.
    """

    kinds: frozenset[str] = _ANYTHING
    properties: Mapping[str, _Described] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    values: _Described | None = None
    items: _Described | None = None
    hints: Mapping[str, Any] = field(default_factory=dict)


def _both(one: _Described, other: _Described) -> _Described:
    """What is described where both are."""
    kinds = one.kinds & other.kinds
    if not kinds and one.kinds and other.kinds:
        # No value can be both: rather the text of whatever comes than no column.
        kinds = one.kinds | other.kinds
    joined = _joined(_both, one, other)
    return replace(joined, kinds=kinds, required=one.required | other.required, hints={**one.hints, **other.hints})


def _either(one: _Described, other: _Described) -> _Described:
    """What is described where one of them is."""
    if not one.kinds or not other.kinds:
        return one if one.kinds else other
    required = one.required & other.required
    if "object" not in one.kinds & other.kinds:
        required = one.required | other.required
    joined = _joined(_either, one, other)
    return replace(joined, kinds=one.kinds | other.kinds, required=required, hints=_common_hints(one, other))


def _common_hints(one: _Described, other: _Described) -> Mapping[str, Any]:
    """The hints that hold for each value that is not null of one or the other."""
    for null, rest in ((one, other), (other, one)):
        if null.kinds == _KINDS[_NULL]:
            return rest.hints
    return one.hints if one.hints == other.hints else {}


def _joined(join: Callable[[_Described, _Described], _Described], one: _Described, other: _Described) -> _Described:
    def of(mine: _Described | None, others: _Described | None) -> _Described | None:
        return join(mine, others) if mine is not None and others is not None else mine or others

    properties = dict(one.properties)
    for name, described in other.properties.items():
        properties[name] = join(properties[name], described) if name in properties else described
    return _Described(properties=properties, values=of(one.values, other.values), items=of(one.items, other.items))


class _Reading:
    """Reads schemas and what they refer to."""

    def __init__(self, others: Mapping[str, Any]) -> None:
        self._others = others
        self._left = _MOST_VALUES

    def described(self, schema: Any, root: Any, opened: tuple[tuple[int, str], ...], depth: int = 0) -> _Described:
        """What a schema says; ``opened`` are the references that lead to it."""
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST:
            msg = f"the JSON Schema has more than {_MOST_VALUES:,} values, or nests more than {_DEEPEST} levels"
            raise ValueError(msg)
        if schema is False:
            return _Described(kinds=frozenset())
        if not isinstance(schema, Mapping):
            return _Described()

        def inner(part: Any) -> _Described:
            return self.described(part, root, opened, depth + 1)

        found = _Described(
            kinds=_kinds(schema),
            properties={str(name): inner(each) for name, each in _mapping(schema, "properties").items()},
            required=frozenset(map(str, _listed(schema.get("required")))),
            values=_one_of(map(inner, _values(schema))),
            items=_one_of(map(inner, _items(schema))),
            hints={name: each for name, each in schema.items() if name in _HINTS},
        )
        if isinstance(reference := schema.get("$ref"), str):
            found = _both(found, self._referred(reference, root, opened, depth))
        for part in _listed(schema.get("allOf")):
            found = _both(found, inner(part))
        for word in ("oneOf", "anyOf"):
            if (choice := _one_of(map(inner, _listed(schema.get(word))))) is not None:
                found = _both(found, choice)
        return found

    def _referred(self, reference: str, root: Any, opened: tuple[tuple[int, str], ...], depth: int) -> _Described:
        name, _, pointer = reference.partition("#")
        target = self._others.get(name) if name else root
        place = (id(target), pointer)
        if place in opened:
            msg = f"the JSON Schema refers to itself by {reference!r}: no table is as deep"
            raise ValueError(msg)
        found = target
        for part in pointer.split("/")[1:]:
            key = unquote(part).replace("~1", "/").replace("~0", "~")
            found = found.get(key) if isinstance(found, Mapping) else None
        if found is None or (pointer and not pointer.startswith("/")):
            msg = f"the JSON Schema refers to {reference!r}, which is not there"
            raise ValueError(msg)
        return self.described(found, target, (*opened, place), depth + 1)


_BOUNDS: Final = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
_HINTS: Final = ("format", "title", *_BOUNDS, "connect.type", "connect.parameters", "description")


def _kinds(schema: Mapping[str, Any]) -> frozenset[str]:
    """The kinds of values that a schema by itself allows."""
    if "type" in schema:
        return frozenset[str]().union(*(_KINDS.get(str(each), _ANYTHING) for each in _listed(schema["type"])))
    if "const" in schema or "enum" in schema:
        known = [schema["const"]] if "const" in schema else _listed(schema["enum"])
        return frozenset[str]().union(*(_KINDS.get(_PYTHON.get(type(each), ""), _ANYTHING) for each in known))
    # That is not what the specification has, and what those who leave the type out mean.
    if "properties" in schema:
        return _KINDS["object"]
    return _KINDS["array"] if "items" in schema else _ANYTHING


def _values(schema: Mapping[str, Any]) -> Iterable[Any]:
    """Schemas of the members of an object that have no names in it."""
    others = list(_mapping(schema, "patternProperties").values())
    more = schema.get("additionalProperties")
    return [*others, more] if isinstance(more, Mapping) else others


def _items(schema: Mapping[str, Any]) -> Iterable[Any]:
    """Schemas of the items of an array, of those at certain places too."""
    found = [*_listed(schema.get("prefixItems")), *_listed(schema.get("items"))]
    return [*found, schema["additionalItems"]] if isinstance(schema.get("additionalItems"), Mapping) else found


def _one_of(described: Iterable[_Described]) -> _Described | None:
    found = list(described)
    return reduce(_either, found) if found else None


def _mapping(schema: Mapping[str, Any], word: str) -> Mapping[str, Any]:
    found = schema.get(word)
    return found if isinstance(found, Mapping) else {}


def _listed(value: Any) -> list[Any]:
    if value is None:
        return []
    return list(value) if isinstance(value, list | tuple) else [value]


def _type(described: _Described) -> T.DataType:
    """The type of a column that holds what is described."""
    kinds = described.kinds - {_NULL}
    if kinds == _KINDS["object"]:
        return _object(described)
    if kinds == _KINDS["array"]:
        items = described.items or _Described()
        return T.ArrayType(_type(items), _NULL in items.kinds)
    hint = _word(described.hints, "connect.type")
    if kinds == _KINDS["boolean"]:
        return T.BooleanType()
    if kinds == _KINDS["integer"]:
        larger = any(map(_is_beyond_longs, described.hints.items()))
        return T.DecimalType(_LONGEST, 0) if larger else _CONNECT.get(hint, T.LongType())
    if kinds and kinds <= _NUMBER:
        return _decimal(described.hints) or _CONNECT.get(hint, T.DoubleType())
    if kinds == _KINDS["string"]:
        return _STRINGS.get(_word(described.hints, "format"), T.StringType())
    return T.StringType()


def _is_beyond_longs(hint: tuple[str, Any]) -> bool:
    """Whether a hint is a bound that whole numbers of 64 bits do not reach."""
    word, bound = hint
    if word not in _BOUNDS or not isinstance(bound, int | float):
        return False
    # A bound that is no value itself may be one further.
    return abs(bound) > _LARGEST + word.startswith("exclusive")


def _word(hints: Mapping[str, Any], name: str) -> str:
    """What a hint says; nothing where that is no word."""
    found = hints.get(name)
    return found if isinstance(found, str) else ""


def _object(described: _Described) -> T.DataType:
    """A struct of the properties; a map, or a string with the text of the object, where none has a name."""
    known = {name: each for name, each in described.properties.items() if each.kinds}
    if known:
        return T.StructType([_field(name, each, needed=name in described.required) for name, each in known.items()])
    if described.values is None:
        return T.StringType()
    return T.MapType(T.StringType(), _type(described.values), _NULL in described.values.kinds)


def _field(name: str, described: _Described, *, needed: bool) -> T.StructField:
    about = described.hints.get("description")
    comment = {"comment": about} if isinstance(about, str) and about else {}
    return T.StructField(name, _type(described), not needed or _NULL in described.kinds, comment)


def _decimal(hints: Mapping[str, Any]) -> T.DecimalType | None:
    if hints.get("title") != _CONNECT_DECIMAL:
        return None
    described = hints.get("connect.parameters")
    parameters = described if isinstance(described, Mapping) else {}
    try:
        scale = int(parameters.get("scale", 0))
        digits = int(parameters.get("connect.decimal.precision", _LONGEST))
    except (TypeError, ValueError, OverflowError):
        return None
    return T.DecimalType(digits, scale) if 0 <= scale <= digits <= _LONGEST else None
