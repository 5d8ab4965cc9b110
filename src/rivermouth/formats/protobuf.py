"""Protobuf messages by a descriptor file, strictly: read wholly, or refused with reason and field."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from pydantic import Field, PrivateAttr
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import DescriptorUnusable
from rivermouth.rows import json_types, protobuf_descriptor, protobuf_values
from rivermouth.rows.protobuf_values import Encoding
from rivermouth.spec import Format

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Protobuf(Format):
    """Protobuf messages, as a descriptor file describes them.

    Attributes:
        type: ``protobuf``.
        descriptor: The path of a file with a ``FileDescriptorSet``, as ``protoc --include_imports
            --descriptor_set_out`` writes it.
        message: Full name of the message that each value is: ``shop.Order``. Its fields are the table's columns.
        framing: What stands before each message: nothing (``plain``), or as Confluent's serializers write it a zero,
            the id of the writer's schema and which message of its file it is (``confluent``). The id is not looked up:
            fields are told apart by their numbers.
    """

    tells: ClassVar[bool] = True
    type: Literal["protobuf"] = "protobuf"
    descriptor: str = Field(min_length=1)
    message: str = Field(min_length=1)
    framing: Literal["plain", "confluent"] = "plain"
    _content: bytes | None = PrivateAttr(default=None)

    def below(self, base: Path) -> Self:
        """The same format; the descriptor file's relative path is resolved against ``base``."""
        return self.model_copy(update={"descriptor": str(base / self.descriptor)})

    def fixed(self, spark: SparkSession) -> Self:  # noqa: ARG002 - a file needs no session
        """The same format; the descriptor file is read.

        Raises:
            DescriptorUnusable: It cannot be read.
        """
        same = self.model_copy()
        same._content = self._read()  # noqa: SLF001
        return same

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - a file needs no session
        """The fields of the message, in the order of their numbers.

        Raises:
            ProtobufMissing: google.protobuf is not installed.
            DescriptorUnusable: The descriptor file cannot be used.
        """
        protobuf_descriptor.check_library()
        found = protobuf_descriptor.columns(self._read(), self.message, self.descriptor)
        return json_types.nullable_columns(found)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Messages to columns; what is said of the others stands beside them."""
        made = protobuf_values.decoder(Encoding(self._read(), self.message, self.framing))(F.col(names.VALUE))
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

    def _read(self) -> bytes:
        if self._content is not None:
            return self._content
        try:
            return Path(self.descriptor).read_bytes()
        except OSError as error:
            fix = "protoc --include_imports --descriptor_set_out=FILE ..., and its path: descriptor: FILE"
            detail = f"it cannot be read: {error.strerror}"
            raise DescriptorUnusable(file=self.descriptor, detail=detail, fix=fix) from None


KIND = Protobuf
