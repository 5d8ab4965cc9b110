"""Debezium's change events in JSON, with and without the schema block: one change of one row each."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import quoted
from rivermouth.rows import bson_types, debezium_types, json_document, json_fast_path, json_types, our_classes
from rivermouth.rows.change_format import NESTED, NEW, UNKNOWN, ChangeFormat, Read, binlog_file, of_milliseconds

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
_WRAPPED: Final = f"size(array_except(json_object_keys({json_document.TEXT}), array('schema', 'payload'))) = 0"
_FIELDS: Final = (
    f"json_object_keys(CASE WHEN {_WRAPPED} THEN get_json_object({json_document.TEXT}, '$.payload') "
    f"ELSE {json_document.TEXT} END)"
)
_KEY: Final = f"CAST({names.KEY} AS STRING)"
# Kafka's key as a JSON object without its schema; a string without its quotes, and what is no JSON as it is.
_HAS_SCHEMA: Final = f"get_json_object({_KEY}, '$.schema') IS NOT NULL"
_ROW_KEY: Final = (
    f"coalesce(CASE WHEN {_HAS_SCHEMA} THEN get_json_object({_KEY}, '$.payload') END, "
    f"CASE WHEN startswith({_KEY}, '{{') THEN get_json_object({_KEY}, '$') "
    f"WHEN startswith({_KEY}, '\"') THEN try_variant_get(try_parse_json({_KEY}), '$', 'string') END, {_KEY})"
)
# The key of a document is its id, as extended JSON in a text.
_ID: Final = f"coalesce(get_json_object({_KEY}, '$.payload.id'), get_json_object({_KEY}, '$.id'))"


class Debezium(ChangeFormat):
    """Changes of a database's table as Debezium's connectors write them with Kafka Connect's JSON converter.

    Attributes:
        type: ``debezium``.
        connector: ``mongodb`` where rows are documents in extended JSON; ``relational`` for all others.
        decimals: What a text is for a decimal where no schema block says it: ``base64`` (``decimal.handling.mode:
            precise``; the scale is the declared one) or ``string``. Refused, if not given.
        time_precision: What a number is for a timestamp where no schema block says it: ``millis``, ``micros`` or
            ``nanos`` since 1970. Refused, if not given.
        binaries: What a text is for binary where no schema block says that it is bytes: ``base64`` or ``hex``
            (``binary.handling.mode``). If not given, base64 without a schema block; refused, if one says string.
    """

    truncates: ClassVar[bool] = True
    whole_deletions: ClassVar[bool] = False
    row_at: ClassVar[tuple[str, ...]] = ("$.payload.after", "$.after", "$.payload.before", "$.before")
    type: Literal["debezium"] = "debezium"
    connector: Literal["relational", "mongodb"] = "relational"
    decimals: Literal["base64", "string"] | None = None
    time_precision: Literal["millis", "micros", "nanos"] | None = None
    binaries: Literal["base64", "hex"] | None = None

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
        if self._has_documents or isinstance(declared, debezium_types.HINTED):
            return T.VariantType()
        return super().read_as(declared)

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return not self._has_documents and not isinstance(declared, debezium_types.HINTED)

    def convert(self, read: Read) -> str:
        """What ``told`` made of it already, or as in plain JSON."""
        if self._has_documents and isinstance(read.declared, NESTED):
            return json_types.convert(f"__of_{read.number}", read.declared)
        return super().convert(read) if self.is_native(read.declared) else f"__of_{read.number}"

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """What is there and became nothing; and what stands for a value that is not there."""
        declared, found = read.declared, {}
        if self.is_native(declared):
            found = dict(super().misfits(read, done))
            unclear = None if self._has_documents else self._unread(read)
            found |= {"FIELD_AMBIGUOUS": unclear} if unclear else {}
        else:
            if not self._has_documents:
                unclear = debezium_types.ambiguous(declared, f"__of_{read.number}", self._said)
                found |= {"FIELD_AMBIGUOUS": unclear} if unclear else {}
            found["FIELD_TYPE"] = f"{debezium_types.is_there(read.sql)} AND {done} IS NULL"
            if isinstance(declared, NESTED) and (inner := json_types.misfit(f"__of_{read.number}", declared)):
                found["FIELD_TYPE"] += f" OR ({inner})"
        placeholder = debezium_types.unavailable(done, declared)
        if placeholder and not self._has_documents:
            found["VALUE_UNAVAILABLE"] = f"{names.OPERATION} <> '{names.DELETION}' AND ({placeholder})"
        return found

    def moved(self, schema: T.StructType) -> str:
        """SQL of the names of the columns that an update changed; a change of the record's own key is two records."""
        simple = [field.name for field in schema.fields if not isinstance(field.dataType, NESTED)]
        if self._has_documents or not simple:
            return "CAST(NULL AS ARRAY<STRING>)"
        texts = {name: [f"CAST(__e_{row}.{quoted(name)} AS STRING)" for row in ("before", "after")] for name in simple}
        changed = (f"CASE WHEN {was} <> {now} THEN {names.literal(name)} END" for name, (was, now) in texts.items())
        known = f"{names.OPERATION} = '{names.UPDATE}' AND __e_before IS NOT NULL"
        return f"CASE WHEN {known} THEN array_compact(array({', '.join(changed)})) END"

    def told(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Operations by their letters; what is no change of a row is known by its other fields."""
        event = ("before", "after", "source", *_TEXTS)
        either = (f"coalesce(__in_payload.{name}, __in_{name}) AS __e_{name}" for name in event)
        read = parsed.selectExpr("*", *either)
        key = _ROW_KEY
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
        return self._of_rows(told.selectExpr("*", f"{row} AS {NEW}", f"{_COLUMNS} AS __columns"), schema)

    @property
    def _said(self) -> debezium_types.Said:
        return debezium_types.Said(self.decimals, self.time_precision, self.binaries)

    def _unread(self, read: Read) -> str | None:
        """SQL: whether a value is written in a way that its declared type does not undo; None where none can be."""
        if isinstance(read.declared, T.StringType):
            return f"{read.sql} IS NOT NULL AND array_contains(__encoded, {names.literal(read.name)})"
        if self.decimals != "string" and debezium_types.has_decimals(read.declared):
            return f"{read.sql} IS NOT NULL"
        return None

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
        parsed = F.from_json(F.col("__text"), fields, json_document.options(corrupt.name))
        rows = told.select("*", F.inline(F.array(F.struct(parsed.alias("__read")))))
        whole = f"__read.{corrupt.name} IS NULL AND endswith(rtrim(' \t\r\n', __text), '}}')"
        rows = rows.selectExpr("*", f"CASE WHEN {whole} THEN __read END AS {NEW}")
        wrapped = [(n, each) for n, each in enumerate(schema.fields) if self._is_wrapped(each.dataType)]
        reads = {number: f"{NEW}.{quoted(each.name)}" for number, each in wrapped}
        rows = rows.selectExpr("*", *(f"schema_of_variant({reads[n]}) AS __kind_{n}" for n, _ in wrapped))
        values = (f"{bson_types.value(reads[n], f'__kind_{n}', each.dataType)} AS __of_{n}" for n, each in wrapped)
        rows = rows.selectExpr("*", *values)
        for n, each in enumerate(schema.fields):
            if isinstance(each.dataType, NESTED):
                rows = _with_parsed(rows, f"{NEW}.{quoted(each.name)}", json_types.read_as(each.dataType), f"__of_{n}")
        return rows

    def _of_rows(self, told: DataFrame, schema: T.StructType) -> DataFrame:
        """The columns whose values mean what the schema block says, made of both in a few steps."""
        hinted = [(n, each) for n, each in enumerate(schema.fields) if isinstance(each.dataType, debezium_types.HINTED)]
        listed = {n: f"get(filter(__columns, c -> c.field = {names.literal(each.name)}), 0)" for n, each in hinted}
        encoded = f"transform(filter(__columns, c -> c.name = '{debezium_types.DECIMAL}'), c -> c.field) AS __encoded"
        rows = told.selectExpr("*", encoded, *(f"{sql} AS __of_{n}_hint" for n, sql in listed.items()))
        steps = [
            debezium_types.steps(f"{NEW}.{quoted(each.name)}", each.dataType, f"__of_{n}", self._said)
            for n, each in hinted
        ]
        for parts in zip_longest(*steps, fillvalue={}):
            rows = rows.selectExpr("*", *(f"{sql} AS {name}" for part in parts for name, sql in part.items()))
        return rows


def _with_parsed(rows: DataFrame, read: str, kind: T.DataType, called: str) -> DataFrame:
    """Adds a part of a document, by its type: null where it does not fit, strictly as for whole documents."""
    corrupt = T.StructField("__corrupt", T.StringType())
    fields = T.StructType([T.StructField("v", kind), corrupt])
    text = f"""concat('{{"v":', {bson_types.plain(read)}, '}}')"""
    sent = f"{called}_sent"
    there = F.expr(f"CAST(CASE WHEN {debezium_types.is_there(read)} THEN {text} END AS BINARY)").alias(sent)
    rows, spark = rows.select("*", there), rows.sparkSession
    kept = json_fast_path.texts_kept(spark, fields, sent) if our_classes.are_there(spark) else F.col(sent)
    parsed = F.from_json(kept.cast("string"), fields, json_document.options(corrupt.name))
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
