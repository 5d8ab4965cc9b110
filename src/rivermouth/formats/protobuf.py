"""Protobuf messages by a descriptor file, strictly: read wholly, or refused with reason and field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import ConfigDict, Field, PrivateAttr, model_validator
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import DescriptorUnusable
from rivermouth.rows import json_types, protobuf_descriptor, protobuf_registry, protobuf_values
from rivermouth.rows.protobuf_values import Encoding
from rivermouth.rows.registry_format import RegistryFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Protobuf(RegistryFormat):
    """Protobuf messages, as a descriptor file describes them.

    Attributes:
        type: ``protobuf``.
        descriptor: The path of a file with a ``FileDescriptorSet``, as ``protoc --include_imports
            --descriptor_set_out`` writes it.
        message: Full name of the message that each value is: ``shop.Order``. Its fields are the table's columns.
        framing: What stands before each message: nothing (``plain``), or as Confluent's serializers write it a zero,
            the id of the writer's schema and which message of its file it is (``confluent``). The id is not looked up:
            fields are told apart by their numbers.
        subject: Subject of the schema registry that has the table's schema, where no ``descriptor`` is given.
        version: Its version.
    """

    model_config = ConfigDict(
        json_schema_extra={"anyOf": [{"required": ["descriptor"]}, {"required": ["subject", "version"]}]}
    )
    tells: ClassVar[bool] = True
    type: Literal["protobuf"] = "protobuf"
    descriptor: str | None = Field(default=None, min_length=1)
    message: str = Field(min_length=1, examples=["shop.Order"])
    framing: Literal["plain", "confluent"] = "plain"
    subject: str | None = Field(default=None, min_length=1)
    version: int | None = Field(default=None, gt=0)
    _content: bytes | None = PrivateAttr(default=None)

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

    def below(self, base: Path) -> Self:
        """The same format; the descriptor file's relative path is resolved against ``base``."""
        if self.descriptor is None:
            return self
        return self.model_copy(update={"descriptor": str(base / self.descriptor)})

    def fixed(self, spark: SparkSession) -> Self:
        """The same format; the descriptor file is read, or the registry asked for it.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The file cannot be read.
            SchemaRegistryFailed: The registry has none, or does not give it.
        """
        same = self.model_copy()
        same._content = self._read(spark)  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> StructType:
        """The fields of the message, in the order of their numbers.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The descriptor cannot be used.
            SchemaRegistryFailed: The registry has none, or does not give it.
        """
        protobuf_descriptor.check_library()
        place = self.descriptor or f"of version {self.version} of subject {self.subject}"
        found = protobuf_descriptor.columns(self._read(spark), self.message, place)
        return json_types.nullable_columns(found)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Messages to columns; what is said of the others stands beside them."""
        made = protobuf_values.decoder(Encoding(self._read(rows.sparkSession), self.message, self.framing))(
            F.col(names.VALUE)
        )
        # Else Spark might decode once for each column that is taken out of it.
        return rows.select("*", F.inline(F.array(made)).alias(names.DECODED, names.DATA, names.VERDICT))

    def explain(self, rows: DataFrame) -> DataFrame:
        """What was said when the value was decoded.

        Reasons: ``TRUNCATED``, ``INVALID_PROTOBUF``, ``INVALID_UTF8``, ``FIELD_TYPE``, ``FIELD_MISSING``, ``TOO_DEEP``,
        ``WRONG_MAGIC``, ``SCHEMA_MISMATCH``.
        """
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"{names.VERDICT}.{part} AS {name}" for name, part in parts.items())
        return rows.selectExpr("*", *told)

    def _read(self, spark: SparkSession) -> bytes:
        if self._content is not None:
            return self._content
        protobuf_descriptor.check_library()
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
