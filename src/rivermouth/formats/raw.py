"""The value as it came: bytes in, bytes out."""

from __future__ import annotations

from typing import ClassVar, Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import BinaryType, StructField, StructType

from rivermouth import names
from rivermouth.spec import Format


class Raw(Format):
    """One payload column ``value`` of type BINARY; no value is ever refused.

    Attributes:
        type: ``raw``.
    """

    type: Literal["raw"] = "raw"
    accepts_all: ClassVar[bool] = True

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - the same for every session
        """``value`` BINARY."""
        return StructType([StructField("value", BinaryType())])

    def decode(self, rows: DataFrame) -> DataFrame:
        """Every value decodes to itself."""
        return rows.selectExpr("*", f"struct({names.VALUE} AS value) AS {names.DATA}", f"true AS {names.DECODED}")

    def explain(self, rows: DataFrame) -> DataFrame:
        """No row is ever refused, so this sees none; its columns are null."""
        told = (f"CAST(NULL AS STRING) AS {name}" for name in (names.REASON, names.FIELD, names.MESSAGE))
        return rows.selectExpr("*", *told)


KIND = Raw
