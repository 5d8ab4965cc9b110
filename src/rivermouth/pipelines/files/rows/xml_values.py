"""Elements of XML as Spark reads them whole, and what of them fits columns: SQL and types.

Of an element that is repeated Spark keeps the last one, unless its column is an array. It leaves out an element within
a struct that is no field, unless the struct has a column for such elements. So every element is read as an array, and
every struct has that column.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names

OTHERS: Final = "__others"
"""The column for elements that are no field: Spark gives what is in them, and not their names."""
_OTHERS_FIELD: Final = T.StructField(OTHERS, T.ArrayType(T.StringType()))
_ENTRY: Final = "STRUCT<pointer: STRING, texts: ARRAY<STRING>>"


@dataclass(frozen=True, slots=True)
class Elements:
    """How the elements of one source are read.

    Attributes:
        attribute: The begin of the names of columns that are attributes.
        text: The name of the column with the text of an element that has attributes.
        rescues: Whether what does not fit is rescued; else the last of repeated elements counts, as in Spark.
    """

    attribute: str
    text: str
    rescues: bool

    def is_read_once(self, field: T.StructField) -> bool:
        """Whether a column is read as it is: an array, or an attribute or text, which an element has once."""
        is_whole = isinstance(field.dataType, T.ArrayType | T.VariantType)
        # Without a begin of their own any simple column may be one.
        is_attribute = _is_simple(field.dataType) and field.name.startswith(self.attribute)
        return is_whole or is_attribute or field.name == self.text

    def read_field(self, field: T.StructField) -> T.StructField:
        """The column that Spark's reader is asked for."""
        declared = self._read_type(field.dataType)
        if not self.is_read_once(field):
            declared = T.ArrayType(declared)
        return T.StructField(field.name, declared, metadata=field.metadata)

    def _read_type(self, declared: T.DataType) -> T.DataType:
        match declared:
            case T.StructType():
                return T.StructType([*map(self.read_field, declared.fields), _OTHERS_FIELD])
            case T.ArrayType():
                return T.ArrayType(self._read_type(declared.elementType))
        return declared

    def value(self, sql: str, field: T.StructField, depth: int = 0) -> str:
        """SQL of the column's value, from SQL of what was read; null where there are several elements."""
        if self.is_read_once(field):
            return self._value(sql, field.dataType, depth)
        if _is_simple(field.dataType):
            return self._one(sql)
        each = f"element_{depth}"
        return self._one(f"transform({sql}, {each} -> {self._value(each, field.dataType, depth + 1)})")

    def _one(self, sql: str) -> str:
        return f"CASE WHEN size({sql}) = 1 THEN {sql}[0] END" if self.rescues else f"try_element_at({sql}, -1)"

    def _value(self, sql: str, declared: T.DataType, depth: int) -> str:
        match declared:
            case T.StructType():
                fields = ", ".join(
                    f"{names.literal(each.name)}, {self.value(f'{sql}.{names.quoted(each.name)}', each, depth)}"
                    for each in declared.fields
                )
                return f"CASE WHEN {sql} IS NOT NULL THEN named_struct({fields}) END"
            case T.ArrayType() if not _is_simple(declared.elementType):
                each = f"element_{depth}"
                return f"transform({sql}, {each} -> {self._value(each, declared.elementType, depth + 1)})"
        return sql

    def lost(self, schema: T.StructType) -> str:
        """SQL of a JSON object from JSON pointers to the texts of what is in no value, for rows as they were read."""
        found = self._lost_fields("", schema, "''", 0)
        return f"to_json(map_from_entries(filter({found}, entry -> size(entry.texts) > 0)))"

    def _lost_fields(self, sql: str, schema: T.StructType, pointer: str, depth: int) -> str:
        """SQL of entries: of the elements that are no field, and of each field."""
        begin = f"{sql}." if sql else ""
        parts = [f"array({_entry(f'''concat({pointer}, '/_unknown_elements')''', f'{begin}{OTHERS}')})"]
        for each in schema.fields:
            step = names.literal(names.pointer_step(each.name))
            parts.append(self._lost(f"{begin}{names.quoted(each.name)}", each, f"concat({pointer}, {step})", depth))
        return f"concat({', '.join(part for part in parts if part)})"

    def _lost(self, sql: str, field: T.StructField, pointer: str, depth: int) -> str:
        each, place = f"element_{depth}", f"place_{depth}"
        if self.is_read_once(field):
            inner = self._lost_within(each, field.dataType, f"concat({pointer}, '/', {place})", depth + 1)
            return _flat(sql, f"({each}, {place}) -> {inner}") if inner else ""
        text = f"CAST({each} AS STRING)" if _is_simple(field.dataType) else f"to_json({each})"
        several = f"CASE WHEN size({sql}) > 1 THEN transform({sql}, {each} -> {text}) END"
        found = f"array({_entry(pointer, several)})"
        if isinstance(field.dataType, T.StructType):
            inner = self._lost_fields(each, field.dataType, pointer, depth + 1)
            found = f"concat({found}, {_flat(f'CASE WHEN size({sql}) = 1 THEN {sql} END', f'{each} -> {inner}')})"
        return found

    def _lost_within(self, sql: str, declared: T.DataType, pointer: str, depth: int) -> str:
        match declared:
            case T.ArrayType(elementType=T.StructType() as inner):
                return self._lost_fields(sql, inner, pointer, depth)
        return ""


def _flat(sql: str, function: str) -> str:
    return f"coalesce(flatten(transform({sql}, {function})), CAST(array() AS ARRAY<{_ENTRY}>))"


def _entry(pointer: str, texts: str) -> str:
    return f"named_struct('pointer', {pointer}, 'texts', {texts})"


def _is_simple(declared: T.DataType) -> bool:
    return not isinstance(declared, T.StructType | T.ArrayType | T.MapType)
