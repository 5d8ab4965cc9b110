"""What the formats of change envelopes share: rows checked column by column, and the words for what is wrong."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Final

from pydantic import Field
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc import row_reasons
from rivermouth.decoding.cdc.null_or_refuse import NullOrRefuse
from rivermouth.decoding.cdc.row_reasons import UNSOUND
from rivermouth.decoding.declared.declared import DeclaredFormat, precision_hint
from rivermouth.decoding.json import json_fast_path, json_spark_parser, json_types, undeclared_names
from rivermouth.decoding.json.json_fast_path import kept_type
from rivermouth.decoding.times import time_texts
from rivermouth.names import quoted
from rivermouth.schemas.json_limits import SAMPLED
from rivermouth.spec import ChangeEnvelope

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

NEW: Final = "__new"
"""The row that a change is about, as it was read: the one after it, or before a deletion."""
OLD: Final = "__was"
"""The row before an update, as it was read, with what is known of it."""
UNKNOWN: Final = "?"
"""The operation of a change whose operation nobody knows."""
_NAMELESS: Final = "? table"
NESTED: Final = (T.StructType, T.ArrayType, T.MapType)
"""Types whose values have values inside."""
_DATES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
CHANGE: Final = (names.OPERATION, names.SOURCE_TIMESTAMP, names.SOURCE_POSITION, names.PRIMARY_KEY)

_SENT: Final = "__sent"
_WITHOUT_ROW: Final = f"{names.OPERATION} IN ('{names.SKIP}', '{names.TRUNCATION}')"
_MESSAGES: Final = {
    "NOT_A_CHANGE": "the value is an object, and not a change in the format's envelope: the format connect_json reads "
    "rows in schema and payload without one, the format json plain rows",
    "OPERATION_UNKNOWN": "the envelope names an operation that its format does not know",
    "TABLE_MISSING": "the change does not name its table, and the format takes those of listed source_tables alone",
    "NO_DECLARED_FIELD": "the row of the change has none of the declared columns",
    "ROW_MISSING": "the change does not hold the row that it is about",
}
_FIELD_MESSAGES: Final = {
    "FIELD_ZERO_DATE": "field {name} is declared {type} and holds a zero date of MySQL, which is no date: "
    "zero_dates: null stores NULL for it",
    "FIELD_MISSING": "field {name} is declared NOT NULL and is null or missing",
    "COLUMN_NOT_SENT": "the update does not have the column {name}: let the source log whole rows (MySQL: "
    "binlog_row_image = FULL, GoldenGate: NOCOMPRESSUPDATES); absent_in_update: null stores NULL for it",
    "VALUE_UNAVAILABLE": "the source did not send the value of field {name}, which the change left as it was: set "
    "REPLICA IDENTITY FULL in Postgres; only sink: upsert keeps the stored value, if no key and no order is made of it",
}


@dataclass(frozen=True, slots=True)
class Read:
    """A column as it was read from the document.

    Attributes:
        sql: SQL of what was read.
        declared: The type that it should have.
        number: Its place among the declared columns.
        name: Its name.
    """

    sql: str
    declared: T.DataType
    number: int
    name: str


class RowFormat(DeclaredFormat):
    """Base of the formats whose values have a row of declared columns somewhere within."""

    row_at: ClassVar[tuple[str, ...]]
    """Where a value's document may have its row, as paths; the first that is there counts."""
    row_below: ClassVar[str] = ""
    """A regular expression of what paths in the document have before the columns of the row."""
    told_columns: ClassVar[tuple[str, ...]] = ()
    """What ``told`` says besides the row, for the rows of ``decode``."""
    deletes: ClassVar[str] = "false"
    """SQL: whether the row is one that is gone."""
    values_as: ClassVar[str] = "json"
    """How its values are written, as of ``row_reasons.Row``."""
    messages: ClassVar[Mapping[str, str]] = {}
    """By reason that is about the whole value: what is said of it."""

    def envelope(self, row: T.DataType) -> T.StructType:
        """What is read of a value's document, in which rows of the source are of type ``row``."""
        raise NotImplementedError

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Parsed values with their rows.

        Args:
            parsed: Envelope rows with the fields of ``envelope``, each as ``__in_<name>``, and ``__sound``.
            schema: The declared columns.

        Returns:
            ``parsed`` with ``NEW`` and ``told_columns``.
        """
        raise NotImplementedError

    def read_as(self, declared: T.DataType) -> T.DataType:
        """The type by which a column is read from the document."""
        return json_types.read_as(declared)

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return json_types.read_as(declared) == self.read_as(declared)

    @property
    def nulls_zero_dates(self) -> bool | None:
        """Whether NULL is stored for zero dates, else they are refused; None where the source has none."""
        return None

    def nonzero(self, read: str, declared: T.DataType) -> str:
        """SQL of a column as it was read, or null for a zero date that is stored as NULL."""
        if not self.nulls_zero_dates or not isinstance(declared, _DATES):
            return read
        return f"CASE WHEN NOT {time_texts.is_zero(f'CAST({read} AS STRING)')} THEN {read} END"

    def convert(self, read: Read) -> str:
        """SQL of a column's value, null where what was read does not fit."""
        return json_types.convert(read.sql, read.declared)

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """By reason: SQL, true where a column's value, which ``convert`` made ``done`` of, is refused for it."""
        found = json_types.misfit(read.sql, read.declared, done=done, exact_times=self.refuses_finer_times)
        return {"FIELD_TYPE": found} if found else {}

    def absent(self, _read: Read) -> str | None:
        """SQL, true where a record is refused because its row does not have the column; None where none is."""
        return None

    def beside(self, _schema: T.StructType, _reads: Sequence[Read]) -> Mapping[str, str]:
        """SQL of further columns of ``decode``, by name."""
        return {}

    def whole(self) -> Iterator[str]:
        """Branches of a CASE: reasons that are about the whole value, before its columns are looked at."""
        return iter(())

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to rows in one parse."""
        schema = self.schema_as_declared()
        document = self.envelope(self.row(schema))
        called = [f"__in_{field.name}" for field in document.fields]
        others = [name for name in rows.columns if name != names.VALUE]
        texts = json_fast_path.texts_kept(rows.sparkSession, self.envelope(self.kept_row(schema)), _SENT)
        sent = rows.select(*others, F.col(names.VALUE).alias(_SENT)).select("*", texts.alias(names.VALUE))
        parsed = json_spark_parser.parsed(sent, document, called)
        parsed = parsed.selectExpr(f"* EXCEPT ({names.VALUE}, {_SENT})", f"{_SENT} AS {names.VALUE}")
        sound = f"coalesce({json_spark_parser.SOUND}, false) AS __sound"
        told = self.change_columns(parsed.selectExpr("*", sound), schema)
        reads = [self._read(NEW, number, field) for number, field in enumerate(schema.fields)]
        converted = told.selectExpr("*", *(f"{self.convert(read)} AS {_done(read)}" for read in reads))
        data = _struct({read.name: self._kept(read) for read in reads})
        kept = [*rows.columns, *self.told_columns]
        made = [f"{self._misfit(schema, reads)} AS {names.MISFIT}", f"{data} AS {names.DATA}"]
        made += (f"{sql} AS {name}" for name, sql in self.beside(schema, reads).items())
        checked = converted.selectExpr(*map(quoted, kept), *made)
        decoded = checked.selectExpr("*", f"{names.MISFIT} IS NULL AS {names.DECODED}")
        row = f"CAST({self._row_text()} AS BINARY)"
        return undeclared_names.named(decoded, schema, row) if self._names_nested else decoded

    def _read(self, row: str, number: int, field: T.StructField) -> Read:
        return Read(self.nonzero(f"{row}.{quoted(field.name)}", field.dataType), field.dataType, number, field.name)

    def row(self, schema: T.StructType) -> T.StructType:
        """The type by which a row of the source is read."""
        return T.StructType([T.StructField(field.name, self.read_as(field.dataType)) for field in schema.fields])

    def kept_row(self, schema: T.StructType) -> T.StructType:
        """``row`` with decimals in the place of the variants that become decimals."""
        return T.StructType(
            [T.StructField(each.name, kept_type(each.dataType, self.read_as(each.dataType))) for each in schema.fields]
        )

    def explain(self, rows: DataFrame) -> DataFrame:
        """What ``decode`` found, in words; what the parser refused is read again in Python.

        Reasons: those of ``messages``, ``FIELD_TYPE``, ``FIELD_ZERO_DATE``, ``FIELD_MISSING``, ``FIELD_AMBIGUOUS``,
        ``COLUMN_NOT_SENT``, ``VALUE_UNAVAILABLE``, and those of the format json.
        """
        schema = self.schema_as_declared()
        kinds = {f.name: f.dataType if self.is_native(f.dataType) else self.read_as(f.dataType) for f in schema.fields}
        document = self.envelope(T.StructType([T.StructField(name, kind) for name, kind in kinds.items()]))
        row = row_reasons.Row(schema.json(), document.json(), self.row_at, self.row_below, self.values_as, self.type)
        verdict = row_reasons.explainer(row)(F.col(names.VALUE), F.col(names.MISFIT))
        whole = "".join(
            f" WHEN {names.MISFIT} = {code!r} THEN {names.literal(text)}" for code, text in self.messages.items()
        )
        words = "".join(
            f" WHEN {names.MISFIT} = {names.literal(f'{code} {each.name}')} "
            f"THEN {names.literal(text.format(name=each.name, type=each.dataType.simpleString()))}"
            for each in schema.fields
            for code, text in _FIELD_MESSAGES.items()
        )
        hints = "".join(
            f" WHEN {names.literal(f'FIELD_TYPE {each.name}')} THEN {names.literal(hint)}"
            for each in schema.fields
            if (hint := precision_hint(each.dataType, refused=self.refuses_finer_times))
        )
        hint = f"CASE {names.MISFIT}{hints} ELSE '' END" if hints else "''"
        space = f"instr({names.MISFIT}, ' ')"
        field = f"CASE WHEN {space} > 0 THEN substring({names.MISFIT}, {space} + 1) END"
        return rows.withColumn("__verdict", verdict).selectExpr(
            "* EXCEPT (__verdict)",
            f"coalesce(__verdict.reason, substring_index({names.MISFIT}, ' ', 1)) AS {names.REASON}",
            f"CASE WHEN __verdict IS NULL THEN {field} ELSE __verdict.field END AS {names.FIELD}",
            f"coalesce(concat(__verdict.message, {hint}), CASE {whole} {words} END) AS {names.MESSAGE}",
        )

    @property
    def further_columns(self) -> tuple[str, ...]:
        """The undeclared fields, where ``decode`` looks for them."""
        return (names.UNDECLARED,) if self._names_nested else ()

    @property
    def _names_nested(self) -> bool:
        return undeclared_names.has_nested(self.schema_as_declared())

    def undeclared_names(self) -> str | None:
        """Those of the row in the change and of the structs in it, of records in a sample.

        Of a record with several rows those of the first.
        """
        if self._names_nested:
            return names.UNDECLARED
        extra = f"array_except({self._fields()}, {_listed(self.schema_as_declared())})"
        return f"CASE WHEN {SAMPLED} AND {names.VALUE} IS NOT NULL THEN {extra} END"

    def _misfit(self, schema: T.StructType, reads: Sequence[Read]) -> str:
        cases = [
            f"WHEN {names.VALUE} IS NULL THEN NULL WHEN NOT __sound THEN '{UNSOUND}'",
            *self.whole(),
            f"WHEN {self._without_columns(schema, reads)} THEN 'NO_DECLARED_FIELD'",
            *self._misfits(schema, reads),
        ]
        return f"CASE {' '.join(cases)} END"

    def _kept(self, read: Read) -> str:
        """SQL of a column's value; of a deletion, which keyed tables take all the same, null where it does not fit."""
        done = _done(read)
        misfit = None if isinstance(read.declared, NESTED) else self.misfits(read, done).get("FIELD_TYPE")
        if misfit is None or not self.is_native(read.declared):
            return done
        return f"CASE WHEN {self.deletes} AND ({misfit}) THEN NULL ELSE {done} END"

    def _fields(self) -> str:
        """SQL of the names of the row's fields; null without a row."""
        return f"json_object_keys({self._row_text()})"

    def _row_text(self) -> str:
        """SQL of the row's JSON text; null without a row."""
        rows = ", ".join(f"get_json_object({json_spark_parser.TEXT}, '{path}')" for path in self.row_at)
        return f"coalesce({rows})"

    def _without_columns(self, schema: T.StructType, reads: Sequence[Read]) -> str:
        """SQL: whether a row that should have columns has none of those that are declared, not even as null."""
        nothing = " AND ".join(f"{read.sql} IS NULL" for read in reads)
        known = f"size(array_intersect({self._fields()}, {_listed(schema)}))"
        return f"NOT ({self.deletes}) AND {nothing} AND {known} = 0"

    def _misfits(self, schema: T.StructType, reads: Sequence[Read]) -> Iterator[str]:
        for field, read in zip(schema.fields, reads, strict=True):
            found = dict(self.misfits(read, _done(read)))
            if self.nulls_zero_dates is False and isinstance(read.declared, _DATES):
                found = {"FIELD_ZERO_DATE": time_texts.is_zero(f"CAST({read.sql} AS STRING)"), **found}
            if absent := self.absent(read):
                found = {"COLUMN_NOT_SENT": absent, **found}
            if not field.nullable:
                found["FIELD_MISSING"] = f"NOT ({self.deletes}) AND {_done(read)} IS NULL"
            for reason, sql in found.items():
                yield f"WHEN {sql} THEN {names.literal(f'{reason} {field.name}')}"


class ChangeFormat(RowFormat, ChangeEnvelope):
    """Base of the formats whose values are changes of a source's rows.

    From ``told`` they have ``CHANGE``, and where they split ``OLD``, ``names.OLD_PRIMARY_KEY`` and ``names.ORDINAL``.

    Attributes:
        source_tables: The tables of the source whose changes are taken, ``database.table``; those of others are
            dropped and counted. All, if none is named.
        absent_in_update: What happens to an update whose row does not have a declared column: ``null`` stores NULL,
            ``refuse`` refuses the record with ``COLUMN_NOT_SENT``, for sources that may log a part of the row alone.
    """

    row_below: ClassVar[str] = r"(payload[.])?(before|after|data|old)(\[\])?[.]"
    told_columns: ClassVar[tuple[str, ...]] = CHANGE
    deletes: ClassVar[str] = f"{names.OPERATION} = '{names.DELETION}'"
    messages: ClassVar[Mapping[str, str]] = _MESSAGES
    source_tables: tuple[str, ...] = Field(default=())
    absent_in_update: NullOrRefuse = "null"

    def moved(self, schema: T.StructType) -> str:
        """SQL, for formats that do not split, over ``told`` rows: the names of the columns that an update changed."""
        raise NotImplementedError

    def beside(self, schema: T.StructType, _reads: Sequence[Read]) -> Mapping[str, str]:
        """What the change moved, or the row before it."""
        if not self.splits:
            return {names.MOVED: self.moved(schema)}
        told = {name: name for name in (names.OLD_PRIMARY_KEY, names.ORDINAL)}
        return {**told, names.OLD: self._old(schema)}

    def changed_row(self) -> str:
        """SQL of the JSON text of the row after an update."""
        return f"get_json_object({json_spark_parser.TEXT}, '{self.row_at[0]}')"

    def absent(self, read: Read) -> str | None:
        """SQL: whether the row after an update lacks a column; the row is looked through where the column is null."""
        if self.absent_in_update == "null":
            return None
        fields = f"json_object_keys({self.changed_row()})"
        lacks = f"NOT array_contains({fields}, {names.literal(read.name)})"
        return f"{names.OPERATION} = '{names.UPDATE}' AND {read.sql} IS NULL AND {lacks}"

    def whole(self) -> Iterator[str]:
        """What is no change of a row, or one that nobody can read."""
        operation = names.OPERATION
        yield f"WHEN {operation} IS NULL THEN 'NOT_A_CHANGE' WHEN {operation} = '{UNKNOWN}' THEN 'OPERATION_UNKNOWN'"
        yield f"WHEN {operation} = '{_NAMELESS}' THEN 'TABLE_MISSING' WHEN {_WITHOUT_ROW} THEN NULL"
        yield f"WHEN {NEW} IS NULL AND NOT ({self.deletes}) THEN 'ROW_MISSING'"

    def of_tables(self, operation: str, table: str) -> str:
        """SQL: the operation, or skip where the change is one of another table; refused where it names none."""
        if not self.source_tables:
            return operation
        listed = ", ".join(map(names.literal, self.source_tables))
        other = f"WHEN {table} IS NOT NULL AND {operation} IS NOT NULL THEN '{names.SKIP}'"
        nameless = f"WHEN {operation} NOT IN ('{names.SKIP}', '{UNKNOWN}') THEN '{_NAMELESS}'"
        return f"CASE WHEN {table} IN ({listed}) THEN {operation} {other} {nameless} ELSE {operation} END"

    def key_of(self, row: str, fallback: str | None, primary: str, schema: T.StructType) -> str:
        """SQL of the primary key as a JSON object of texts; null where a part is not among the declared columns.

        Args:
            row: The row as it was read.
            fallback: The row that has what ``row`` lacks.
            primary: An array with the names of the columns.
            schema: The declared columns.
        """
        simple = [each.name for each in schema.fields if not isinstance(each.dataType, NESTED)]
        parts = (f"{names.literal(name)}, {_text(row, fallback, name)}" for name in simple)
        found = f"map_filter(map({', '.join(parts)}), (k, v) -> v IS NOT NULL AND array_contains({primary}, k))"
        return f"CASE WHEN size({primary}) > 0 AND size({found}) = size({primary}) THEN to_json({found}) END"

    def _old(self, schema: T.StructType) -> str:
        """What is not known of the row before is as after it."""
        parts = {}
        for number, field in enumerate(schema.fields):
            either = f"coalesce({self._read(OLD, number, field).sql}, {self._read(NEW, number, field).sql})"
            parts[field.name] = self.convert(Read(either, field.dataType, number, field.name))
        update = f"{names.OPERATION} = '{names.UPDATE}' AND {OLD} IS NOT NULL"
        return f"CASE WHEN {update} THEN {_struct(parts)} END"


def _listed(schema: T.StructType) -> str:
    return f"array({', '.join(names.literal(field.name) for field in schema.fields)})"


def _done(read: Read) -> str:
    return f"__done_{read.number}"


def _struct(parts: Mapping[str, str]) -> str:
    return f"struct({', '.join(f'{sql} AS {quoted(name)}' for name, sql in parts.items())})"


def _text(row: str, fallback: str | None, name: str) -> str:
    mine = f"CAST({row}.{quoted(name)} AS STRING)"
    return f"coalesce({mine}, CAST({fallback}.{quoted(name)} AS STRING))" if fallback else mine
