"""Avro's binary encoding, strictly: a record whose schema resolves to the table's, or refused with reason and field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import StructType

from rivermouth import names
from rivermouth.decoding.avro import avro_document
from rivermouth.decoding.avro.avro_document import Encoding
from rivermouth.decoding.registry import schema_registry
from rivermouth.decoding.registry.writer_format import POLICED, WritersFormat, reason_of_change
from rivermouth.encoding import avro_values
from rivermouth.schemas import column_policies, column_types
from rivermouth.spec import EncodingFormat

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

# As Avro spells the name of a record, with its namespace or without.
_Name = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*(\.[A-Za-z_][A-Za-z0-9_]*)*$")]


class Avro(WritersFormat, EncodingFormat):
    """Records in Avro's binary encoding.

    Attributes:
        type: ``avro``.
        declared: ``schema`` in YAML: the path of a schema file (``.avsc``), or the schema itself as a mapping. Its
            fields are the table's columns. Keys may be of a schema that is no record: ``long``.
        framing: What comes before each record: nothing (``plain``), Avro's single-object header with the writer
            schema's fingerprint (``single_object``), or a zero and the writer schema's id in the schema registry
            (``confluent``); instead of these a header of the record may have the id, or the schema's GUID.
        writer_schemas: Schemas that records were written with, if not with ``schema``: of plain records the one of
            all of them, of single objects those whose fingerprints may come there.
        subject: Subject of the schema registry that has the table's schema, where no ``schema`` is given.
        version: Its version.
        record_names: Names of the writers' records that are the flow's: ``shop.OrderPlaced``, or ``OrderPlaced`` for
            that name in any namespace. They are read as the table's record, and records of other names are dropped and
            counted. If none is given, a record must have the name of the table's record, in any namespace, or one of
            its ``aliases``; a record of another name is a dead letter.
    """

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["schema"]}, {"required": ["subject", "version"]}]}
    )
    schema_example: ClassVar[str] = (
        """schema: '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "long"}]}'"""
    )
    type: Literal["avro"] = "avro"
    declared: str | dict[str, Any] | None = Field(default=None, alias="schema")
    framing: Literal["plain", "single_object", "confluent"] = "plain"
    writer_schemas: tuple[str | dict[str, Any], ...] = ()
    subject: str | None = Field(default=None, min_length=1)
    version: int | None = Field(default=None, gt=0)
    record_names: tuple[_Name, ...] = Field(default=(), examples=[["shop.OrderPlaced"]])
    _written_by: tuple[str, int | None] | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        msg = None
        if self.record_names and self.framing == "plain":
            msg = "plain records are all of one schema, so record_names chooses none of them: leave it out"
        elif self.framing != "confluent":
            if self.subject is not None or self.version is not None:
                msg = "subject and version are of the schema registry: they go with framing: confluent"
            elif self.declared is None:
                msg = "the schema of the table is not given: schema: orders.avsc"
            elif self.framing == "plain" and len(self.writer_schemas) > 1:
                msg = "plain records do not say which of several writer_schemas is theirs: give one"
        elif self.writer_schemas:
            msg = "the schema registry has the writers' schemas: remove writer_schemas"
        elif self.unpaired is not None:
            msg = self.unpaired
        elif (self.declared is None) == (self.version is None):
            msg = "the table's schema is one of two: schema: orders.avsc, or subject and version"
        if msg is not None:
            raise ValueError(msg)
        return self

    @property
    def reads_registry(self) -> bool:
        """Whether the schemas of records are in the schema registry."""
        return self.framing == "confluent"

    @property
    def evolves(self) -> bool:
        """Where records name the schemas that they were written with, and a registry has these."""
        return self.reads_registry

    @property
    def asks_for(self) -> str:
        """Begins the sentence that says that there is no registry."""
        return "framing: confluent needs"

    @property
    def asks_for_writers(self) -> bool:
        """Whether the registry is asked for the schema of each record's writer."""
        return self.reads_registry

    @property
    def unwritable(self) -> str | None:
        """Why no value can be written with these settings, and what to write instead; None if it can."""
        if self.framing == "single_object":
            return "values with the framing single_object are only read: framing: plain"
        if self.record_names or self.writer_schemas:
            return "record_names and writer_schemas are for records that are read: leave them out"
        if self.framing == "confluent" and self.subject is None:
            return "the framing confluent writes a version of a subject: subject: orders-value, version: 1"
        return None

    def encoded(self, spark: SparkSession, there: StructType) -> Column:
        """The record of a row, binary, of the columns that have the names of the schema's fields.

        Raises:
            SchemaRegistryFailed: The registry does not have the schema, or does not give it.
            ValueError: The columns are not those of the schema; the text says why.
        """
        first = self._written_by is None
        if self._written_by is None:
            number = schema_registry.written_id(spark, self.access, self.subject, self.version)
            self._written_by = (self._schema(spark), number)
        schema, number = self._written_by
        return avro_values.encoded(spark, schema, there, number, check=first)

    def with_base_dir(self, base: Path) -> Self:
        """The same format; relative paths of schema files are resolved against ``base``."""

        def placed(declared: Any) -> Any:
            return str(base / declared) if avro_document.is_path(declared) else declared

        changes = {"writer_schemas": tuple(map(placed, self.writer_schemas))}
        return self.model_copy(update=changes | ({"declared": placed(self.declared)} if self.declared else {}))

    def with_loaded_files(self, spark: SparkSession) -> Self:
        """The same format; schema files are read, and the registry is asked for the table's schema.

        Raises:
            SchemaRegistryFailed: It has none, or does not give it.
        """
        found = self._schema(spark)
        writers = tuple(map(avro_document.text_of, self.writer_schemas))
        update = {"declared": found, "writer_schemas": writers, "subject": None, "version": None}
        same = self.model_copy(update=update)
        kind = avro_document.key_type(spark, found)
        # A schema that is no record is one of keys.
        same._declared_columns = kind if isinstance(kind, StructType) else None  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> StructType:
        """The fields of the schema, in order, and what has grown out of them.

        Raises:
            ValueError: A schema cannot be read, or records of a writer's cannot be, or a policy is for a column that
                there never is; the text says why.
        """
        found = self.grown(avro_document.columns(spark, self._schema(spark)))
        if self.writer_schemas:
            avro_document.check(spark, self._encoding(spark))
        if self._evolution is not None:
            column_policies.check(found, self._evolution)
        return column_types.nullable_columns(found)

    def key_type(self, spark: SparkSession) -> DataType:
        """A struct of the schema's fields, or of a schema that is no record the type of its values."""
        return avro_document.key_type(spark, self._schema(spark))

    @property
    def makes_struct_of_keys(self) -> bool:
        """Whether that is known before the schema is read."""
        return isinstance(self.declared, dict) and self.declared.get("type") == "record"

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns by the schemas of their writers, each resolved to the table's by Avro's rules."""
        spark = rows.sparkSession
        column = avro_document.decoded(spark, self._encoding(spark), *self._columns(rows.columns))
        return rows.select("*", column.alias("__made")).selectExpr(
            "* EXCEPT (__made)",
            f"__made.decoded AS {names.DECODED}",
            f"__made.data AS {names.DATA}",
            f"__made.undeclared AS {names.UNDECLARED}",
            f"__made.verdict AS {names.VERDICT}",
        )

    def explain(self, rows: DataFrame) -> DataFrame:
        """What was said when the value was read.

        Reasons: ``WRONG_MAGIC``, ``UNKNOWN_SCHEMA``, ``RECORD_NAME``, ``SCHEMA_MISMATCH``, ``TRUNCATED``,
        ``TRAILING_BYTES``, ``INVALID_AVRO``, ``INVALID_UTF8``, ``FIELD_TYPE``, ``FIELD_UNDECLARED``, ``FIELD_MISSING``,
        ``TOO_LONG``, ``TOO_DEEP``, and ``UNEXPLAINED`` where it is a fault of ours.
        """
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"{names.VERDICT}.{part} AS {name}" for name, part in parts.items())
        return rows.selectExpr("*", *told)

    def rows_to_inspect(self, spark: SparkSession) -> Column:
        """Records by whose writers' schemas the table may grow; and those that are refused for what stops the flow."""
        found = avro_document.growing(spark, self._encoding(spark), *self._columns())
        if self._evolution is None or not self._evolution.says("fail"):
            return found
        verdict = self._stopping(spark)
        stops = verdict.getField("reason").isin(*POLICED) & verdict.getField("field").isNotNull()
        return found | (~F.col(names.DECODED) & F.coalesce(stops, F.lit(False)))

    def stop_reasons(self, rows: DataFrame) -> DataFrame:
        """``rows`` of refused records with what stops the flow first, in the columns ``__reason`` and ``__field``."""
        told = rows.withColumn("__found", self._stopping(rows.sparkSession))
        return told.where(F.col("__found.field").isNotNull()).selectExpr(
            "* EXCEPT (__found)",
            f"{reason_of_change('__found.reason')} AS {names.REASON}",
            f"__found.field AS {names.FIELD}",
        )

    def _stopping(self, spark: SparkSession) -> Column:
        return avro_document.explained(spark, self._encoding(spark, only_fails=True), *self._columns())

    def _columns(self, there: Sequence[str] = names.ENVELOPE) -> tuple[str, ...]:
        """What is looked at of a record."""
        by_header = self.reads_headers and names.HEADERS in there
        return (names.VALUE, names.HEADERS) if by_header else (names.VALUE,)

    def writer_columns(self, spark: SparkSession, writer: int) -> StructType:
        """The fields of the writer's schema by the names that the table's aliases give them.

        Raises:
            SchemaRegistryFailed: The registry does not say.
            ValueError: It has no such schema.
        """
        return avro_document.written(spark, self._encoding(spark), writer)

    def _encoding(self, spark: SparkSession, *, only_fails: bool = False) -> Encoding:
        writers, schema = tuple(map(avro_document.text_of, self.writer_schemas)), self._schema(spark)
        policies = ""
        if self._evolution is not None:
            columns = self.grown(avro_document.columns(spark, schema))
            looked_at = self._looked_at
            policies = column_policies.policies_of(columns, self._evolution, looked_at=looked_at, only_fails=only_fails)
        registry = self.access() if self.reads_registry else None
        return Encoding(schema, self.framing, writers, registry, policies, self.record_names, self._id_header)

    def _schema(self, spark: SparkSession) -> str:
        if self.declared is not None:
            return avro_document.text_of(self.declared)
        return avro_document.of_registry(spark, self.access(), self.subject or "", self.version or 0)


KIND = Avro
