"""Protobuf messages by a descriptor, strictly: read wholly, or refused with reason and field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.protobuf import (
    protobuf_decode,
    protobuf_descriptor,
    protobuf_registry,
    protobuf_writer_schemas,
)
from rivermouth.decoding.protobuf.protobuf_decode import Encoding
from rivermouth.decoding.protobuf.protobuf_library import check_library
from rivermouth.decoding.registry import schema_headers, schema_registry
from rivermouth.decoding.registry.writer_format import POLICED, WritersFormat, reason_of_change
from rivermouth.encoding import protobuf_values
from rivermouth.errors import DescriptorUnusable
from rivermouth.schemas import column_policies, column_types
from rivermouth.spec import EncodingFormat

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

_IN_PLACE_OF_REGISTRY: Final = (
    "descriptor: FILE in place of subject and version; protoc --include_imports --descriptor_set_out=FILE ... makes it"
)


class Protobuf(WritersFormat, EncodingFormat):
    """Protobuf messages, as a descriptor file describes them.

    Attributes:
        type: ``protobuf``.
        descriptor: The path of a file with a ``FileDescriptorSet``, as ``protoc --include_imports
            --descriptor_set_out`` writes it.
        message: Full name of the message that each value is: ``shop.Order``. Its fields are the table's columns.
        framing: What comes before each message: nothing (``plain``), or as Confluent's serializers write it a zero,
            the id of the writer's schema and which message of its file it is (``confluent``), unless a header has
            these. The id is looked up where there are policies of ``evolution``; else only the numbers
            of fields identify them.
        subject: Subject of the schema registry that has the table's schema, where no ``descriptor`` is given.
        version: Its version.
        timestamp_precision: What happens to a ``google.protobuf.Timestamp`` with nanoseconds, which no column keeps:
            ``truncate`` cuts them off, toward the past, ``refuse`` refuses the record with ``FIELD_TYPE``.
    """

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["descriptor"]}, {"required": ["subject", "version"]}]}
    )
    type: Literal["protobuf"] = "protobuf"
    descriptor: str | None = Field(default=None, min_length=1)
    message: str = Field(min_length=1, examples=["shop.Order"])
    framing: Literal["plain", "confluent"] = "plain"
    subject: str | None = Field(default=None, min_length=1)
    version: int | None = Field(default=None, gt=0)
    timestamp_precision: Literal["truncate", "refuse"] = "refuse"
    _content: bytes | None = PrivateAttr(default=None)
    _own_id: int | None = PrivateAttr(default=None)
    _written_by: protobuf_values.Encoding | None = PrivateAttr(default=None)

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        msg = self.unpaired
        if msg is None and (self.descriptor is None) == (self.subject is None):
            msg = "the table's schema is one of two: descriptor: shop.desc, or subject and version"
        elif msg is None and self.subject is not None and self.framing != "confluent":
            msg = "subject and version are of the schema registry: they go with framing: confluent"
        if msg is not None:
            raise ValueError(msg)
        return self

    @property
    def evolves(self) -> bool:
        """Where records name the schemas that they were written with."""
        return self.framing == "confluent"

    @property
    def reads_registry(self) -> bool:
        """Whether the table's schema is in the schema registry, or those of records are asked for there."""
        return super().reads_registry or self.asks_for_writers

    @property
    def asks_for_writers(self) -> bool:
        """Whether the registry is asked for the schema of each record's writer: the table may grow by it."""
        return self._evolution is not None

    @property
    def asks_for(self) -> str:
        """Begins the sentence that says that there is no registry."""
        return "evolution of Protobuf needs" if self.asks_for_writers else super().asks_for

    @property
    def unwritable(self) -> str | None:
        """Why no value can be written with these settings, and what to write instead; None if it can."""
        if self.framing == "confluent" and self.subject is None:
            return "the framing confluent writes a version of a subject: subject: orders-value, version: 1"
        return None

    def encoded(self, spark: SparkSession, there: StructType) -> Column:
        """The message of a row, binary, of the columns that have the names of the message's fields.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The descriptor cannot be used.
            SchemaRegistryFailed: The registry does not have the schema, or does not give it.
            ValueError: The columns are not those of the message; the text says why.
        """
        if self._written_by is None:
            number = schema_registry.written_id(spark, self.access, self.subject, self.version)
            self._written_by = protobuf_values.Encoding(self._read(spark), self.message, number)
        return protobuf_values.encoded(self._written_by, there)

    def with_base_dir(self, base: Path) -> Self:
        """The same format; the descriptor file's relative path is resolved against ``base``."""
        if self.descriptor is None:
            return self
        return self.model_copy(update={"descriptor": str(base / self.descriptor)})

    def with_loaded_files(self, spark: SparkSession) -> Self:
        """The same format; the descriptor file is read, or the registry asked for it.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The file cannot be read.
            SchemaRegistryFailed: The registry has none, or does not give it.
        """
        same = self.model_copy()
        same._content = content = self._read(spark)  # noqa: SLF001
        same._declared_columns = self._columns_of(content)  # noqa: SLF001
        if self.subject is not None and self._own_id is None:
            found = schema_registry.id_of(spark, self.access(), self.subject, self.version or 0)
            same._own_id = found  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> StructType:
        """The fields of the message, in the order of their numbers, and what has grown out of them.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The descriptor cannot be used.
            SchemaRegistryFailed: The registry has none, or does not give it.
            ValueError: A policy is for a column that there never is; the text says which.
        """
        found = self._columns(spark)
        if self._evolution is not None:
            column_policies.check(found, self._evolution)
        return column_types.nullable_columns(found)

    def _columns(self, spark: SparkSession) -> StructType:
        check_library()
        return self.grown(self._columns_of(self._read(spark)))

    def _columns_of(self, content: bytes) -> StructType:
        if self.descriptor is not None:
            return protobuf_descriptor.columns(content, self.message, self.descriptor)
        words = f"of version {self.version} of subject {self.subject}"
        return protobuf_descriptor.columns(content, self.message, words, _IN_PLACE_OF_REGISTRY)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Messages to columns; the verdict says why a message has no columns.

        If the table grows, each message is read by the descriptor of its writer, which the registry provides.
        """
        spark, value = rows.sparkSession, self._value(rows)
        if self._evolution is None:
            made = protobuf_decode.decoder(self._plain_encoding(spark))(value)
        else:
            encoding = self._encoding(spark)
            known = [number for number, _ in encoding.known]
            asked = protobuf_registry.asked(spark, self.access(), names.VALUE, known)
            made = protobuf_writer_schemas.decoder(encoding)(value, asked)
        # Else Spark might decode once for each column that is taken out of it.
        told = rows.select("*", F.inline(F.array(made)).alias(names.DECODED, names.DATA, names.VERDICT))
        return told.withColumn(names.UNDECLARED, F.col(f"{names.VERDICT}.undeclared"))

    def _value(self, rows: DataFrame) -> Column:
        """The value as its framing has it, also where a header has the schema's id: where none is looked up."""
        by_header = self.reads_headers and self._evolution is None and names.HEADERS in rows.columns
        return F.expr(schema_headers.as_framed(self._id_header) if by_header else names.VALUE)

    @property
    def _truncates(self) -> bool:
        return self.timestamp_precision == "truncate"

    def _plain_encoding(self, spark: SparkSession) -> Encoding:
        return Encoding(self._read(spark), self.message, self.framing, self._truncates)

    def _encoding(self, spark: SparkSession) -> protobuf_writer_schemas.Encoding:
        """What workers need to read messages of whatever writer."""
        if self._evolution is None:
            msg = "its table does not grow"
            raise ValueError(msg)
        content, registry = self._read(spark), self.access()
        known = {
            number: protobuf_registry.descriptor_set_of_writer(spark, registry, number) for number in self._looked_at
        }
        if self._own_id is not None:
            known[self._own_id] = content
        policies = column_policies.policies_of(self._columns(spark), self._evolution, looked_at=self._looked_at)
        fails = self._evolution.says("fail")
        writers = tuple(sorted(known.items()))
        return protobuf_writer_schemas.Encoding(content, self.message, policies, fails, writers, self._truncates)

    def rows_to_inspect(self, spark: SparkSession) -> Column:  # noqa: ARG002
        """Records by whose writers' schemas the table may grow; and those that are refused for what stops the flow."""
        verdict = F.col(names.VERDICT)
        found = F.coalesce(verdict.getField("grows"), F.lit(False))
        stops = verdict.getField("stops_by").isin(*POLICED) & verdict.getField("stops_at").isNotNull()
        return found | (~F.col(names.DECODED) & F.coalesce(stops, F.lit(False)))

    def stop_reasons(self, rows: DataFrame) -> DataFrame:
        """``rows`` of refused records with what stops the flow first, in the columns ``__reason`` and ``__field``."""
        reason = reason_of_change(f"{names.VERDICT}.stops_by")
        return rows.where(F.col(f"{names.VERDICT}.stops_at").isNotNull()).selectExpr(
            "*", f"{reason} AS {names.REASON}", f"{names.VERDICT}.stops_at AS {names.FIELD}"
        )

    def writer_columns(self, spark: SparkSession, writer: int) -> StructType:
        """The fields of the writer's message by the names of the columns that have their numbers.

        Raises:
            SchemaRegistryFailed: The registry does not say.
            ValueError: It has no such schema.
        """
        content = protobuf_registry.descriptor_set_of_writer(spark, self.access(), writer)
        return protobuf_writer_schemas.written(content, self.message, self._columns(spark))

    def explain(self, rows: DataFrame) -> DataFrame:
        """What was said when the value was decoded.

        Reasons: ``TRUNCATED``, ``INVALID_PROTOBUF``, ``INVALID_UTF8``, ``FIELD_TYPE``, ``FIELD_MISSING``, ``TOO_DEEP``,
        ``WRONG_MAGIC``, ``SCHEMA_MISMATCH``, ``UNKNOWN_SCHEMA``, ``FIELD_UNDECLARED``.
        """
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"{names.VERDICT}.{part} AS {name}" for name, part in parts.items())
        explained = rows.selectExpr("*", *told)
        if not self.reads_headers or self._evolution is None:
            return explained
        # Only ids before values are looked up for a table that grows.
        unread = names.literal(f"; the header {self._id_header} has the schema's id, which evolution does not read")
        in_header = f"{names.REASON} = 'WRONG_MAGIC' AND {schema_headers.found(self._id_header)} IS NOT NULL"
        return explained.withColumn(names.MESSAGE, F.expr(f"concat({names.MESSAGE}, IF({in_header}, {unread}, ''))"))

    def _read(self, spark: SparkSession) -> bytes:
        if self._content is not None:
            return self._content
        check_library()
        if self.descriptor is None:
            return self._asked(spark)
        try:
            return Path(self.descriptor).read_bytes()
        except OSError as error:
            fix = "protoc --include_imports --descriptor_set_out=FILE ..., and its path: descriptor: FILE"
            detail = f"it cannot be read: {error.strerror}"
            raise DescriptorUnusable(file=self.descriptor, detail=detail, fix=fix) from None

    def _asked(self, spark: SparkSession) -> bytes:
        return protobuf_registry.descriptor_set(spark, self.access(), self.subject or "", self.version or 0)


KIND = Protobuf
