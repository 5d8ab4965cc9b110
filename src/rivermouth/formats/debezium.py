"""Debezium's change events in JSON, with and without the schema block: one change of one row each."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import quoted
from rivermouth.rows import bson_types, debezium_types, json_document
from rivermouth.rows.change_format import NEW, UNKNOWN, ChangeFormat, Read, of_milliseconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPERATIONS: Final = {
    "c": names.INSERT,
    "r": names.READ,
    "u": names.UPDATE,
    "d": names.DELETION,
    "t": names.TRUNCATION,
    "m": names.SKIP,
}
_TEXTS: Final = ("op", "ts_ms", "status", "ddl", "tableChanges")
_SOURCE: Final = (
    *("connector", "ts_ms", "db", "schema", "table", "collection", "file", "pos", "row", "lsn", "commit_lsn"),
    *("change_lsn", "event_serial_no", "ord"),
)
# Each is greater, as text, than those before it in the log of one source.
_POSITIONS: Final = {
    "mysql": "nullif(concat_ws(':', {s}.file, lpad({s}.pos, 20, '0'), lpad({s}.row, 10, '0')), '')",
    "mariadb": "nullif(concat_ws(':', {s}.file, lpad({s}.pos, 20, '0'), lpad({s}.row, 10, '0')), '')",
    "postgresql": "lpad({s}.lsn, 20, '0')",
    "sqlserver": "nullif(concat_ws(':', {s}.commit_lsn, {s}.change_lsn, lpad({s}.event_serial_no, 10, '0')), '')",
    "mongodb": "concat(lpad({s}.ts_ms, 20, '0'), ':', lpad({s}.ord, 10, '0'))",
}
_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)
_TABLE: Final = (
    "concat(coalesce(__e_source.schema, __e_source.db), '.', coalesce(__e_source.table, __e_source.collection))"
)
_COLUMNS: Final = (
    "get(filter(__in_schema.fields, f -> f.field IN ('before', 'after') AND f.fields IS NOT NULL), 0).fields"
)
_KEY: Final = f"CAST({names.KEY} AS STRING)"
# Kafka's key as a JSON object without its schema; one that is no object stays as it is.
_HAS_SCHEMA: Final = f"get_json_object({_KEY}, '$.schema') IS NOT NULL"
_ROW_KEY: Final = (
    f"coalesce(CASE WHEN {_HAS_SCHEMA} THEN get_json_object({_KEY}, '$.payload') END, "
    f"CASE WHEN startswith({_KEY}, '{{') THEN get_json_object({_KEY}, '$') END, {_KEY})"
)
# The key of a document is its id, as extended JSON in a text.
_ID: Final = f"coalesce(get_json_object({_KEY}, '$.payload.id'), get_json_object({_KEY}, '$.id'))"
_PLAIN_ID: Final = (
    f"coalesce(get_json_object({_ID}, '$[\\'$oid\\']'), get_json_object({_ID}, '$[\\'$numberLong\\']'), "
    f"get_json_object({_ID}, '$[\\'$numberInt\\']'), get_json_object({_ID}, '$'))"
)
_DOCUMENT_KEY: Final = f"to_json(named_struct('_id', {_PLAIN_ID}))"
_PLACEHOLDERS: Final = {
    T.StringType: names.literal(debezium_types.UNAVAILABLE),
    T.BinaryType: f"CAST({names.literal(debezium_types.UNAVAILABLE)} AS BINARY)",
}


class Debezium(ChangeFormat):
    """Changes of a database's table as Debezium's connectors write them with Kafka Connect's JSON converter.

    Attributes:
        type: ``debezium``.
        connector: ``mongodb`` where rows are documents in extended JSON; ``relational`` for all others.
        decimals: What a text is for a decimal where no schema block says it: ``base64`` (``decimal.handling.mode:
            precise``; the scale is the declared one) or ``string``. Refused, if not given.
        time_precision: What a number is for a timestamp where no schema block says it: ``millis``, ``micros`` or
            ``nanos`` since 1970. Refused, if not given.
    """

    truncates: ClassVar[bool] = True
    type: Literal["debezium"] = "debezium"
    connector: Literal["relational", "mongodb"] = "relational"
    decimals: Literal["base64", "string"] | None = None
    time_precision: Literal["millis", "micros", "nanos"] | None = None

    def envelope(self, row: T.DataType) -> T.StructType:
        """The fields of an event, once at the top and once under ``payload``; and of the schema block."""
        rows = [T.StructField(name, self._sent(row)) for name in ("before", "after")]
        texts = [T.StructField(name, T.StringType()) for name in _TEXTS]
        source = T.StructField("source", T.StructType([T.StructField(name, T.StringType()) for name in _SOURCE]))
        event = [*rows, *texts, source]
        columns = T.StructType(
            [T.StructField("field", T.StringType()), T.StructField("fields", T.ArrayType(debezium_types.HINT))]
        )
        block = T.StructType([T.StructField("fields", T.ArrayType(columns))])
        return T.StructType([*event, T.StructField("payload", T.StructType(event)), T.StructField("schema", block)])

    def read_as(self, declared: T.DataType) -> T.DataType:
        """What the schema block explains, and what extended JSON wraps, is kept as it came."""
        if self._is_wrapped(declared) or isinstance(declared, debezium_types.HINTED):
            return T.VariantType()
        return super().read_as(declared)

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return not self._is_wrapped(declared) and not isinstance(declared, debezium_types.HINTED)

    def convert(self, read: Read) -> str:
        """What ``told`` made of it already, or as in plain JSON."""
        return super().convert(read) if self.is_native(read.declared) else f"__of_{read.number}"

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """What is there and became nothing; and what stands for a value that is not there."""
        declared, found = read.declared, {}
        if self.is_native(declared):
            found = dict(super().misfits(read, done))
        else:
            if isinstance(declared, debezium_types.HINTED) and not self._is_wrapped(declared):
                unclear = debezium_types.ambiguous(declared, f"__of_{read.number}", self.decimals, self.time_precision)
                found |= {"FIELD_AMBIGUOUS": unclear} if unclear else {}
            found["FIELD_TYPE"] = f"{debezium_types.is_there(read.sql)} AND {done} IS NULL"
        placeholder = _PLACEHOLDERS.get(type(declared))
        if placeholder:
            found["VALUE_UNAVAILABLE"] = f"{names.OPERATION} <> '{names.DELETION}' AND {done} = {placeholder}"
        return found

    def told(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Operations by their letters; what is no change of a row is known by its other fields."""
        event = ("before", "after", "source", *_TEXTS)
        either = (f"coalesce(__in_payload.{name}, __in_{name}) AS __e_{name}" for name in event)
        told = parsed.selectExpr("*", *either).selectExpr(
            "*",
            f"{self.of_tables(_operation(), _TABLE)} AS {names.OPERATION}",
            f"{of_milliseconds('__e_source.ts_ms')} AS {names.SOURCE_TIMESTAMP}",
            f"{_position()} AS {names.SOURCE_POSITION}",
            f"{_DOCUMENT_KEY if self._has_documents else _ROW_KEY} AS {names.PRIMARY_KEY}",
        )
        row = f"CASE WHEN {names.OPERATION} = '{names.DELETION}' THEN __e_before ELSE __e_after END"
        if self._has_documents:
            return self._of_documents(told.selectExpr("*", f"{row} AS __text"), schema)
        return self._of_rows(told.selectExpr("*", f"{row} AS {NEW}", f"{_COLUMNS} AS __columns"), schema)

    @property
    def _has_documents(self) -> bool:
        return self.connector == "mongodb"

    def _sent(self, row: T.DataType) -> T.DataType:
        return T.StringType() if self._has_documents else row

    def _is_wrapped(self, declared: T.DataType) -> bool:
        """Whether extended JSON may put a value of that type into an object."""
        return self._has_documents and not isinstance(declared, _NESTED)

    def _of_documents(self, told: DataFrame, schema: T.StructType) -> DataFrame:
        """A row is a document in a text: one more parse, of the text alone."""
        corrupt = T.StructField("__corrupt_row", T.StringType())
        fields = T.StructType([*self.row(schema), corrupt])
        parsed = F.from_json(F.col("__text"), fields, json_document.options(corrupt.name))
        rows = told.select("*", F.inline(F.array(F.struct(parsed.alias("__read")))))
        rows = rows.selectExpr("*", f"CASE WHEN __read.{corrupt.name} IS NULL THEN __read END AS {NEW}")
        wrapped = [(n, each) for n, each in enumerate(schema.fields) if self._is_wrapped(each.dataType)]
        reads = {number: f"{NEW}.{quoted(each.name)}" for number, each in wrapped}
        rows = rows.selectExpr("*", *(f"schema_of_variant({reads[n]}) AS __kind_{n}" for n, _ in wrapped))
        values = (f"{bson_types.value(reads[n], f'__kind_{n}', each.dataType)} AS __of_{n}" for n, each in wrapped)
        return rows.selectExpr("*", *values)

    def _of_rows(self, told: DataFrame, schema: T.StructType) -> DataFrame:
        """The columns whose values mean what the schema block says, made of both in a few steps."""
        hinted = [(n, each) for n, each in enumerate(schema.fields) if isinstance(each.dataType, debezium_types.HINTED)]
        listed = {n: f"get(filter(__columns, c -> c.field = {names.literal(each.name)}), 0)" for n, each in hinted}
        rows = told.selectExpr("*", *(f"{sql} AS __of_{n}_hint" for n, sql in listed.items()))
        steps = [
            debezium_types.steps(
                f"{NEW}.{quoted(each.name)}", each.dataType, f"__of_{n}", self.decimals, self.time_precision
            )
            for n, each in hinted
        ]
        for parts in zip_longest(*steps, fillvalue={}):
            rows = rows.selectExpr("*", *(f"{sql} AS {name}" for part in parts for name, sql in part.items()))
        return rows


def _operation() -> str:
    """SQL of the operation; null where the value is no event at all."""
    known = " ".join(f"WHEN '{letter}' THEN '{operation}'" for letter, operation in _OPERATIONS.items())
    is_ddl = "__e_ddl IS NOT NULL OR __e_tableChanges IS NOT NULL"
    is_transaction = "__e_status IN ('BEGIN', 'END')"
    no_row = "__e_before IS NULL AND __e_after IS NULL AND __e_source IS NULL"
    is_heartbeat = f"__e_ts_ms IS NOT NULL AND {no_row}"
    beside = f"WHEN {is_ddl} OR {is_transaction} OR ({is_heartbeat}) THEN '{names.SKIP}'"
    return f"CASE __e_op {known} ELSE CASE WHEN __e_op IS NOT NULL THEN '{UNKNOWN}' {beside} END END"


def _position() -> str:
    """SQL of the event's place in the log of its source, as text that grows; null for connectors that are unknown."""
    cases = (f"WHEN '{connector}' THEN {sql.format(s='__e_source')}" for connector, sql in _POSITIONS.items())
    return f"CASE __e_source.connector {' '.join(cases)} END"


KIND = Debezium
