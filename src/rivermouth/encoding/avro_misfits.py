"""Why a row is no record of an Avro schema: asked before Spark writes it, which cuts off, or tells the value."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import reduce
from typing import Any, Final

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import below

Why = Callable[[Column], Column]
"""Makes of a value the reason why it cannot be written, a string; null where it can, and of null itself."""

_NULL: Final = "null"
_NAMED: Final = ("record", "error", "enum", "fixed")
_RECORDS: Final = ("record", "error")
_MILLIS: Final = ("timestamp-millis", "local-timestamp-millis")
_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_MICROS_PER_MILLI: Final = 1_000
_UUID: Final = "^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}\\z"


def misfit(schema: Mapping[str, Any], fields: T.StructType, values: Mapping[str, Column]) -> Column | None:
    """A reason why a row cannot be a record, a string without a value of the row; null where it can be.

    Args:
        schema: Of the record.
        fields: Its fields, as columns.
        values: Of the fields, by their names.

    Returns:
        None where every row can be.
    """
    found = _Reading().of_record(schema, fields)
    reasons = [why(values[name]) for name, why in found.items()]
    return F.coalesce(*reasons) if reasons else None


class _Reading:
    """Reads a schema in the order of its text: names that it refers to are those that came before."""

    def __init__(self) -> None:
        self._known: dict[str, tuple[Mapping[str, Any], str]] = {}

    def of_record(self, schema: Mapping[str, Any], kind: T.StructType) -> dict[str, Why]:
        """Of a record that is in no other the fields whose values cannot all be written, by name."""
        record, space = self._described(schema, "")
        return self._fields(record, kind, "", space)

    def _fields(self, record: Mapping[str, Any], kind: T.StructType, path: str, space: str) -> dict[str, Why]:
        inside = self._named(record, space)
        found: dict[str, Why] = {}
        for each in record["fields"]:
            why = self._value(each["type"], kind[each["name"]].dataType, below(path, each["name"]), inside)
            if why is not None:
                found[each["name"]] = why
        return found

    def _value(self, schema: Any, kind: T.DataType, path: str, space: str) -> Why | None:
        branches = schema if isinstance(schema, list) else [schema]
        held = [each for each in branches if not _is_null(each)]
        has_null = len(held) < len(branches)
        why = None
        if len(held) == 1:
            why = self._one(held[0], kind, path, space)
        elif isinstance(kind, T.StructType):
            why = self._members(held, kind, path, space, has_null=has_null)
        return why if has_null else _not_null(path, why)

    def _one(self, schema: Any, kind: T.DataType, path: str, space: str) -> Why | None:
        """Of a schema that is no union."""
        described, space = self._described(schema, space)
        match described["type"], kind:
            case "array", T.ArrayType():
                return _of_each(self._value(described["items"], kind.elementType, f"{path}[]", space), _itself)
            case "map", T.MapType():
                return _of_each(self._value(described["values"], kind.valueType, f"{path}[]", space), F.map_values)
            case record, T.StructType() if record in _RECORDS:
                return _first(self._fields(described, kind, path, space))
            case _:
                return _leaf(described, kind, path, space)

    def _members(self, held: list[Any], kind: T.StructType, path: str, space: str, *, has_null: bool) -> Why:
        """Of a union of several types, whose column has a field for each."""
        pairs = zip(held, kind.fields, strict=True)
        parts = {field.name: self._one(each, field.dataType, f"{path}.{field.name}", space) for each, field in pairs}
        inside = _first({name: why for name, why in parts.items() if why is not None})

        def why(value: Column) -> Column:
            count = reduce(Column.__add__, (value.getField(name).isNotNull().cast("int") for name in kind.names))
            told = F.when(count > 1, F.lit(f"field {path} is of one of several types, and a row has several"))
            if not has_null:
                told = told.when(count == 0, F.lit(f"field {path} is of one of several types, and a row has none"))
            found = told if inside is None else F.coalesce(told, inside(value))
            return F.when(value.isNotNull(), found)

        return why

    def _described(self, schema: Any, space: str) -> tuple[Mapping[str, Any], str]:
        """A schema as a mapping whose ``type`` is Avro's own word, and the namespace around it."""
        while isinstance(schema, Mapping) and isinstance(schema["type"], Mapping):
            schema = schema["type"]
        if isinstance(schema, Mapping) and self._known_as(schema["type"], space) is None:
            self._named(schema, space)
            return schema, space
        name = schema["type"] if isinstance(schema, Mapping) else schema
        return self._known_as(name, space) or ({"type": name}, space)

    def _known_as(self, name: str, space: str) -> tuple[Mapping[str, Any], str] | None:
        return self._known.get(_full(name, space)) or self._known.get(name)

    def _named(self, schema: Mapping[str, Any], space: str) -> str:
        """Keeps a schema by its name, if it has one; the namespace of what is in it."""
        if schema["type"] not in _NAMED:
            return space
        full = _full(schema["name"], schema.get("namespace", space))
        self._known[full] = (schema, space)
        return full.rpartition(".")[0]


def _is_null(schema: Any) -> bool:
    return schema == _NULL or (isinstance(schema, Mapping) and schema.get("type") == _NULL)


def _full(name: str, space: str | None) -> str:
    return f"{space}.{name}" if space and "." not in name else name


def _itself(value: Column) -> Column:
    return value


def _not_null(path: str, why: Why | None) -> Why:
    def told(value: Column) -> Column:
        lacks = F.when(value.isNull(), F.lit(f"the schema has no null for field {path}, and a row has"))
        return lacks if why is None else lacks.otherwise(why(value))

    return told


def _first(parts: Mapping[str, Why]) -> Why | None:
    """Of a struct the first reason of its fields."""
    if not parts:
        return None

    def told(value: Column) -> Column:
        reasons = [why(value.getField(name)) for name, why in parts.items()]
        return F.when(value.isNotNull(), F.coalesce(*reasons))

    return told


def _of_each(why: Why | None, elements: Callable[[Column], Column]) -> Why | None:
    """Of an array or a map a reason of its elements."""
    if why is None:
        return None
    return lambda value: F.array_max(F.transform(elements(value), why))


def _leaf(schema: Mapping[str, Any], kind: T.DataType, path: str, space: str) -> Why | None:
    """Of a value that has no others in it."""
    match schema["type"], schema.get("logicalType"):
        case "enum", _:
            name = _full(schema["name"], schema.get("namespace", space))
            told = f"field {path} has a text that the enum {name} lacks"
            return lambda value: F.when(~value.isin(list(schema["symbols"])), F.lit(told))
        case "fixed", _ if isinstance(kind, T.BinaryType):
            size = int(schema["size"])
            told = f"field {path} takes {size} bytes, and a row has another number of them"
            return lambda value: F.when(F.octet_length(value) != size, F.lit(told))
        case "string", "uuid":
            told = f"field {path} takes UUIDs, and a row has another text"
            return lambda value: F.when(~value.rlike(_UUID), F.lit(told))
        case "long", unit if unit in _MILLIS and isinstance(kind, _TIMES):
            told = f"field {path} takes times in milliseconds, and a row has one with microseconds"
            return lambda value: F.when(_micros(value) % _MICROS_PER_MILLI != 0, F.lit(told))
    return None


def _micros(value: Column) -> Column:
    """Microseconds of a time; one without a zone is that of any zone but for whole seconds."""
    return F.unix_micros(value.cast("timestamp"))
