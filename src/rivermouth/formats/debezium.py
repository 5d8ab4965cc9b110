"""Debezium's change events in JSON, with and without the schema block: one change of one row each."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pydantic import Field, model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.decoding.cdc import bson_types, debezium_types, debezium_unavailable
from rivermouth.decoding.cdc.change_format import NESTED, NEW, UNKNOWN, Read
from rivermouth.decoding.cdc.connect_format import ConnectFormat
from rivermouth.decoding.cdc.mysql_format import MySqlFormat
from rivermouth.decoding.cdc.source_values import binlog_file, of_milliseconds
from rivermouth.decoding.json import json_fast_path, json_spark_parser, json_types
from rivermouth.names import quoted

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
_FILE: Final = binlog_file("{s}.file")
_IN_BINLOG: Final = f"nullif(concat_ws(':', {_FILE}, lpad({{s}}.pos, 20, '0'), lpad({{s}}.row, 10, '0')), '')"
# Each is greater, as text, than those before it in the log of one source.
_POSITIONS: Final = {
    "mysql": _IN_BINLOG,
    "mariadb": _IN_BINLOG,
    "postgresql": "lpad({s}.lsn, 20, '0')",
    "sqlserver": "nullif(concat_ws(':', {s}.commit_lsn, {s}.change_lsn, lpad({s}.event_serial_no, 10, '0')), '')",
    "mongodb": "concat(lpad({s}.ts_ms, 20, '0'), ':', lpad({s}.ord, 10, '0'))",
}
_TABLE: Final = (
    "concat(coalesce(__e_source.schema, __e_source.db), '.', coalesce(__e_source.table, __e_source.collection))"
)
_COLUMNS: Final = (
    "get(filter(__in_schema.fields, f -> f.field IN ('before', 'after') AND f.fields IS NOT NULL), 0).fields"
)
# The names of the event's fields, also of those that nothing else reads.
_WRAPPED: Final = f"size(array_except(json_object_keys({json_spark_parser.TEXT}), array('schema', 'payload'))) = 0"
_FIELDS: Final = (
    f"json_object_keys(CASE WHEN {_WRAPPED} THEN get_json_object({json_spark_parser.TEXT}, '$.payload') "
    f"ELSE {json_spark_parser.TEXT} END)"
)
# The key of a document is its id, as extended JSON in a text.
_ID: Final = (
    f"coalesce(get_json_object({record_keys.TEXT}, '$.payload.id'), get_json_object({record_keys.TEXT}, '$.id'))"
)


class Debezium(ConnectFormat, MySqlFormat):
    """Changes of a database's table as Debezium's connectors write them with Kafka Connect's JSON converter.

    Attributes:
        type: ``debezium``.
        connector: ``mongodb`` where rows are documents in extended JSON; ``relational`` for all others.
        unavailable_value_placeholder: What the connector writes for a value that the database did not log, if
            ``unavailable.value.placeholder`` is set there. Nothing else is taken for it then.
    """

    truncates: ClassVar[bool] = True
    whole_deletions: ClassVar[bool] = False
    row_at: ClassVar[tuple[str, ...]] = ("$.payload.after", "$.after", "$.payload.before", "$.before")
    type: Literal["debezium"] = "debezium"
    connector: Literal["relational", "mongodb"] = "relational"
    unavailable_value_placeholder: str | None = Field(default=None, min_length=1)
    _whole: frozenset[str] | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self._has_documents and "zero_dates" in self.model_fields_set:
            msg = "zero_dates is about dates of MySQL, and connector: mongodb has none: leave it out"
            raise ValueError(msg)
        if self._has_documents and self.absent_in_update == "refuse":
            msg = "absent_in_update is about columns, and a document of connector: mongodb may lack any: leave it out"
            raise ValueError(msg)
        return self

    @property
    def nulls_zero_dates(self) -> bool | None:
        """Whether NULL is stored for zero dates, else they are refused; None for documents, which have none."""
        return None if self._has_documents else super().nulls_zero_dates

    def envelope(self, row: T.DataType) -> T.StructType:
        """The fields of an event, once at the top and once under ``payload``; and of the schema block."""
        rows = [T.StructField(name, self._sent(row)) for name in ("before", "after")]
        texts = [T.StructField(name, T.StringType()) for name in _TEXTS]
        source = T.StructField("source", T.StructType([T.StructField(name, T.StringType()) for name in _SOURCE]))
        event = [*rows, *texts, source]
        columns = T.StructType([T.StructField("field", T.StringType()), T.StructField("fields", self.hints())])
        block = T.StructType([T.StructField("fields", T.ArrayType(columns))])
        return T.StructType([*event, T.StructField("payload", T.StructType(event)), T.StructField("schema", block)])

    def changed_row(self) -> str:
        """SQL of the JSON text of the row after an update."""
        found = (f"get_json_object({json_spark_parser.TEXT}, '{path}')" for path in self.row_at[:2])
        return f"coalesce({', '.join(found)})"

    def check_types(self, schema: T.StructType) -> None:
        """Makes sure that values can be read as these columns.

        Raises:
            ValueError: They cannot; the text says which, and why.
        """
        json_types.check(schema, variants=not self._has_documents)

    def read_as(self, declared: T.DataType) -> T.DataType:
        """What the schema block explains, and what extended JSON wraps, is kept as it came."""
        return T.VariantType() if self._has_documents else super().read_as(declared)

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return not self._has_documents and super().is_native(declared)

    def _gone(self, read: Read, done: str) -> str | None:
        """SQL: whether the change leaves the value out; None where no value of that type can be."""
        if self._has_documents:
            return None
        return debezium_unavailable.sql(read.sql, done, read.declared, self._placeholder)

    @property
    def _placeholder(self) -> str:
        return self.unavailable_value_placeholder or debezium_unavailable.PLACEHOLDER

    def _keeps(self, read: Read) -> bool:
        """Whether the table's row keeps the value that a change leaves out."""
        return (
            self._whole is not None
            and read.name.lower() not in self._whole
            and debezium_unavailable.stored(read.declared, self._placeholder) is not None
        )

    def convert(self, read: Read) -> str:
        """What ``_of_documents`` made of it already, or as in plain JSON."""
        if self._has_documents:
            made = f"__of_{read.number}"
            return json_types.convert(made, read.declared) if isinstance(read.declared, NESTED) else made
        made = super().convert(read)
        if not (self._keeps(read) and isinstance(read.declared, T.BinaryType | T.VariantType)):
            return made
        # Whatever its text is called, as such a value it is known.
        stored = debezium_unavailable.stored(read.declared, self._placeholder)
        return f"CASE WHEN {self._gone(read, made)} THEN {stored} ELSE {made} END"

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """Values that are present but became null, and placeholders for values that the change leaves out."""
        if self._has_documents:
            made, declared = f"__of_{read.number}", read.declared
            inner = (
                json_types.misfit(made, declared, exact_times=self.refuses_finer_times)
                if isinstance(declared, NESTED)
                else None
            )
            lost = f"{debezium_types.is_there(read.sql)} AND {done} IS NULL"
            return {"FIELD_TYPE": f"{lost} OR ({inner})" if inner else lost}
        found = super().misfits(read, done)
        gone = self._gone(read, done)
        if gone is None:
            return found
        if self._keeps(read):
            return {reason: f"({sql}) AND NOT coalesce({gone}, false)" for reason, sql in found.items()}
        return {"VALUE_UNAVAILABLE": f"{names.OPERATION} <> '{names.DELETION}' AND ({gone})", **found}

    @property
    def omits_values(self) -> bool:
        """Whether a change may leave out values that the row of its key has."""
        return not self._has_documents

    def omitted_values(self) -> Mapping[str, str]:
        """By column whose value a change may leave out: the SQL of its placeholder while the value is unknown."""
        if self._has_documents:
            return {}
        columns = self.schema_as_declared().fields
        found = {each.name: debezium_unavailable.stored(each.dataType, self._placeholder) for each in columns}
        return {name: sql for name, sql in found.items() if sql}

    def keeping_values(self, whole: Collection[str]) -> Self:
        """The same format for a table whose rows keep the values that a change leaves out."""
        same = self.model_copy()
        same._whole = frozenset(whole)  # noqa: SLF001
        return same

    def beside(self, schema: T.StructType, reads: Sequence[Read]) -> Mapping[str, str]:
        """Where the table's rows keep them, also ``__unavailable``: the columns that the change leaves out."""
        moved = super().beside(schema, reads)
        return moved if self._whole is None else {**moved, names.UNAVAILABLE: self._unavailable(reads)}

    def _unavailable(self, reads: Sequence[Read]) -> str:
        gone = {read.name: self._gone(read, f"__done_{read.number}") for read in reads if self._keeps(read)}
        told = ", ".join(f"CASE WHEN {sql} THEN {names.literal(name)} END" for name, sql in gone.items() if sql)
        if not told:
            return "CAST(NULL AS ARRAY<STRING>)"
        some = " OR ".join(f"({sql})" for sql in gone.values() if sql)
        is_there = f"{names.OPERATION} <> '{names.DELETION}' AND ({some})"
        return f"CASE WHEN {is_there} THEN array_compact(array({told})) END"

    def _misfit_inside(self, read: Read) -> str | None:
        return json_types.misfit(f"__of_{read.number}", read.declared, exact_times=self.refuses_finer_times)

    def moved(self, schema: T.StructType) -> str:
        """SQL of the names of the columns that an update changed; a change of the record's own key is two records."""
        simple = [field.name for field in schema.fields if not isinstance(field.dataType, NESTED)]
        if self._has_documents or not simple:
            return "CAST(NULL AS ARRAY<STRING>)"
        texts = {name: [f"CAST(__e_{row}.{quoted(name)} AS STRING)" for row in ("before", "after")] for name in simple}
        changed = (f"CASE WHEN {was} <> {now} THEN {names.literal(name)} END" for name, (was, now) in texts.items())
        known = f"{names.OPERATION} = '{names.UPDATE}' AND __e_before IS NOT NULL"
        return f"CASE WHEN {known} THEN array_compact(array({', '.join(changed)})) END"

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Operations by their letters; what is no change of a row is known by its other fields."""
        event = ("before", "after", "source", *_TEXTS)
        either = (f"coalesce(__in_payload.{name}, __in_{name}) AS __e_{name}" for name in event)
        read = parsed.selectExpr("*", *either)
        key = record_keys.ROW_KEY
        if self._has_documents:
            read, key = _with_id(read, schema), "CASE WHEN __id IS NOT NULL THEN to_json(struct(__id AS _id)) END"
        told = read.selectExpr(
            "*",
            f"{self.of_tables(_operation(), _TABLE)} AS {names.OPERATION}",
            f"{of_milliseconds('__e_source.ts_ms')} AS {names.SOURCE_TIMESTAMP}",
            f"{_position()} AS {names.SOURCE_POSITION}",
            f"{key} AS {names.PRIMARY_KEY}",
        )
        row = f"CASE WHEN {names.OPERATION} = '{names.DELETION}' THEN __e_before ELSE __e_after END"
        if self._has_documents:
            return self._of_documents(told.selectExpr("*", f"{row} AS __text"), schema)
        return self.of_rows(told.selectExpr("*", f"{row} AS {NEW}", f"{_COLUMNS} AS __columns"), schema)

    @property
    def _has_documents(self) -> bool:
        return self.connector == "mongodb"

    def _sent(self, row: T.DataType) -> T.DataType:
        return T.StringType() if self._has_documents else row

    def _is_wrapped(self, declared: T.DataType) -> bool:
        """Whether extended JSON may put a value of that type into an object."""
        return self._has_documents and not isinstance(declared, NESTED)

    def _of_documents(self, told: DataFrame, schema: T.StructType) -> DataFrame:
        """A row is a document in a text: one more parse, of the text alone."""
        corrupt = T.StructField("__corrupt_row", T.StringType())
        fields = T.StructType([*self.row(schema), corrupt])
        parsed = F.from_json(F.col("__text"), fields, json_spark_parser.options(corrupt.name))
        rows = told.select("*", F.inline(F.array(F.struct(parsed.alias("__read")))))
        whole = f"__read.{corrupt.name} IS NULL AND endswith(rtrim(' \t\r\n', __text), '}}')"
        rows = rows.selectExpr("*", f"CASE WHEN {whole} THEN __read END AS {NEW}")
        wrapped = [(n, each) for n, each in enumerate(schema.fields) if self._is_wrapped(each.dataType)]
        reads = {number: f"{NEW}.{quoted(each.name)}" for number, each in wrapped}
        rows = rows.selectExpr("*", *(f"schema_of_variant({reads[n]}) AS __kind_{n}" for n, _ in wrapped))
        values = (f"{self._extended(reads[n], f'__kind_{n}', each)} AS __of_{n}" for n, each in wrapped)
        rows = rows.selectExpr("*", *values)
        for n, each in enumerate(schema.fields):
            if isinstance(each.dataType, NESTED):
                rows = _with_parsed(rows, f"{NEW}.{quoted(each.name)}", json_types.read_as(each.dataType), f"__of_{n}")
        return rows

    def _extended(self, read: str, kind: str, field: T.StructField) -> str:
        return bson_types.value(read, kind, field.dataType, exact_times=self.refuses_finer_times)


def _with_parsed(rows: DataFrame, read: str, kind: T.DataType, called: str) -> DataFrame:
    """Adds a part of a document, by its type: null where it does not fit, strictly as for whole documents."""
    corrupt = T.StructField("__corrupt", T.StringType())
    fields = T.StructType([T.StructField("v", kind), corrupt])
    text = f"""concat('{{"v":', {bson_types.plain(read)}, '}}')"""
    sent = f"{called}_sent"
    there = F.expr(f"CAST(CASE WHEN {debezium_types.is_there(read)} THEN {text} END AS BINARY)").alias(sent)
    rows, spark = rows.select("*", there), rows.sparkSession
    kept = json_fast_path.texts_kept(spark, fields, sent)
    parsed = F.from_json(kept.cast("string"), fields, json_spark_parser.options(corrupt.name))
    return rows.select("*", F.when(parsed[corrupt.name].isNull(), parsed["v"]).alias(called))


def _with_id(rows: DataFrame, schema: T.StructType) -> DataFrame:
    """Adds ``__id``, the document's id in Kafka's key, made as the column ``_id`` of a document is."""
    declared = next((field.dataType for field in schema.fields if field.name == "_id"), T.StringType())
    parsed = rows.selectExpr("*", f"try_parse_json({_ID}) AS __id_given")
    if isinstance(declared, NESTED):
        return _with_parsed(parsed, "__id_given", declared, "__id")
    kinds = parsed.selectExpr("*", "schema_of_variant(__id_given) AS __id_kind")
    return kinds.selectExpr("*", f"{bson_types.value('__id_given', '__id_kind', declared)} AS __id")


def _operation() -> str:
    """SQL of the operation; null where the value is no event at all."""
    known = " ".join(f"WHEN '{letter}' THEN '{operation}'" for letter, operation in _OPERATIONS.items())
    # Rows without an envelope may have columns of these names.
    is_ddl = "__e_source IS NOT NULL AND (__e_ddl IS NOT NULL OR __e_tableChanges IS NOT NULL)"
    marks = f"size(array_intersect({_FIELDS}, array('id', 'event_count'))) = 2"
    is_transaction = f"__e_status IN ('BEGIN', 'END') AND {marks}"
    is_heartbeat = f"__e_ts_ms IS NOT NULL AND {_FIELDS} = array('ts_ms')"
    beside = f"WHEN ({is_ddl}) OR ({is_transaction}) OR ({is_heartbeat}) THEN '{names.SKIP}'"
    return f"CASE __e_op {known} ELSE CASE WHEN __e_op IS NOT NULL THEN '{UNKNOWN}' {beside} END END"


def _position() -> str:
    """SQL of the event's place in the log of its source, as text that grows; null for connectors that are unknown."""
    cases = (f"WHEN '{connector}' THEN {sql.format(s='__e_source')}" for connector, sql in _POSITIONS.items())
    return f"CASE __e_source.connector {' '.join(cases)} END"


KIND = Debezium
