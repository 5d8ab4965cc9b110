"""The value as it came: bytes in, bytes out."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import BinaryType, StructField, StructType

from rivermouth import names
from rivermouth.spec import Format


class Raw(Format):
    """One payload column ``value`` of type BINARY; nothing is ever refused.

    Attributes:
        type: ``raw``.
    """

    type: Literal["raw"] = "raw"

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - the same for every session
        """``value`` BINARY."""
        return StructType([StructField("value", BinaryType())])

    def decode(self, rows: DataFrame) -> DataFrame:
        """Every value decodes to itself."""
        data = f"struct({names.VALUE} AS value)"
        return rows.withColumns({names.DATA: F.expr(data), names.DECODED: F.lit(True)})

    def explain(self, rows: DataFrame) -> DataFrame:
        """No row is ever refused, so this sees none; its columns are null."""
        nothing = F.lit(None).cast("string")
        return rows.withColumns({names.REASON: nothing, names.FIELD: nothing, names.MESSAGE: nothing})


KIND = Raw
