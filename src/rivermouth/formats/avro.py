"""Avro's binary encoding, strictly: a record whose schema resolves to the table's, or refused with reason and field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from rivermouth import names
from rivermouth.rows import avro_document
from rivermouth.rows.avro_document import Encoding
from rivermouth.rows.registry_format import RegistryFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Avro(RegistryFormat):
    """Records in Avro's binary encoding.

    Attributes:
        type: ``avro``.
        declared: ``schema`` in YAML: the path of a schema file (``.avsc``), or the schema itself as a mapping. Its
            fields are the table's columns.
        framing: What stands before each record: nothing (``plain``), Avro's single-object header with the writer
            schema's fingerprint (``single_object``), or a zero and the writer schema's id in the schema registry
            (``confluent``).
        writer_schemas: Schemas that records were written with, if not with ``schema``: of plain records the one of
            all of them, of single objects those whose fingerprints may stand there.
        subject: Subject of the schema registry that has the table's schema, where no ``schema`` is given.
        version: Its version.
    """

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["schema"]}, {"required": ["subject", "version"]}]}
    )
    type: Literal["avro"] = "avro"
    declared: str | dict[str, Any] | None = Field(default=None, alias="schema")
    framing: Literal["plain", "single_object", "confluent"] = "plain"
    writer_schemas: tuple[str | dict[str, Any], ...] = ()
    subject: str | None = Field(default=None, min_length=1)
    version: int | None = Field(default=None, gt=0)
    asks_for: ClassVar[str] = "framing: confluent needs"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        msg = None
        if self.framing != "confluent":
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
    def asks_for_writers(self) -> bool:
        """Whether the registry is asked for the schema of each record's writer."""
        return self.reads_registry

    def below(self, base: Path) -> Self:
        """The same format; relative paths of schema files are resolved against ``base``."""

        def placed(declared: Any) -> Any:
            return str(base / declared) if avro_document.is_path(declared) else declared

        changes = {"writer_schemas": tuple(map(placed, self.writer_schemas))}
        return self.model_copy(update=changes | ({"declared": placed(self.declared)} if self.declared else {}))

    def fixed(self, spark: SparkSession) -> Self:
        """The same format; schema files are read, and the registry is asked for the table's schema.

        Raises:
            SchemaRegistryFailed: It has none, or does not give it.
        """
        found = self._schema(spark)
        writers = tuple(map(avro_document.text_of, self.writer_schemas))
        update = {"declared": found, "writer_schemas": writers, "subject": None, "version": None}
        return self.model_copy(update=update)

    def columns(self, spark: SparkSession) -> StructType:
        """The fields of the schema, in order."""
        return avro_document.columns(spark, self._schema(spark))

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns by the schemas of their writers, each resolved to the table's by Avro's rules."""
        spark = rows.sparkSession
        column = avro_document.decoded(spark, self._encoding(spark), names.VALUE)
        return rows.select("*", column.alias("__made")).selectExpr(
            "* EXCEPT (__made)", f"__made.decoded AS {names.DECODED}", f"__made.data AS {names.DATA}"
        )

    def explain(self, rows: DataFrame) -> DataFrame:
        """Each value is read again, by the same code.

        Reasons: ``WRONG_MAGIC``, ``UNKNOWN_SCHEMA``, ``SCHEMA_MISMATCH``, ``TRUNCATED``, ``TRAILING_BYTES``,
        ``INVALID_AVRO``, ``INVALID_UTF8``, ``FIELD_TYPE``, ``TOO_LONG``, ``TOO_DEEP``, and ``UNEXPLAINED`` where it
        can be read by now.
        """
        spark = rows.sparkSession
        verdict = avro_document.explained(spark, self._encoding(spark), names.VALUE)
        now = names.literal("it can be read now, and could not when its batch was written")
        return rows.select("*", verdict.alias("__verdict")).selectExpr(
            "* EXCEPT (__verdict)",
            f"coalesce(__verdict.reason, 'UNEXPLAINED') AS {names.REASON}",
            f"__verdict.field AS {names.FIELD}",
            f"coalesce(__verdict.message, {now}) AS {names.MESSAGE}",
        )

    def _encoding(self, spark: SparkSession) -> Encoding:
        writers = tuple(map(avro_document.text_of, self.writer_schemas))
        return Encoding(self._schema(spark), self.framing, writers, self.access() if self.reads_registry else None)

    def _schema(self, spark: SparkSession) -> str:
        if self.declared is not None:
            return avro_document.text_of(self.declared)
        return avro_document.of_registry(spark, self.access(), self.subject or "", self.version or 0)


KIND = Avro
