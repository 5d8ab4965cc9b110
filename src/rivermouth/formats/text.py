"""The value as text: UTF-8 bytes in, a string out."""

from __future__ import annotations

from typing import Literal

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StringType, StructField, StructType

from rivermouth import names
from rivermouth.decoding.json.utf8 import is_utf8
from rivermouth.spec import Format


class Text(Format):
    """One payload column ``value`` of type STRING; bytes that are no UTF-8 are refused.

    Attributes:
        type: ``text``.
    """

    type: Literal["text"] = "text"

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - the same for every session
        """``value`` STRING."""
        return StructType([StructField("value", StringType())])

    def decode(self, rows: DataFrame) -> DataFrame:
        """Valid UTF-8 to text, byte for byte: nothing is trimmed, replaced or normalised."""
        data = f"struct(CAST({names.VALUE} AS STRING) AS value) AS {names.DATA}"
        return rows.selectExpr("*", data, f"coalesce({is_utf8(names.VALUE)}, true) AS {names.DECODED}")

    def explain(self, rows: DataFrame) -> DataFrame:
        """The only reason is ``INVALID_UTF8``."""
        return rows.selectExpr(
            "*",
            f"'INVALID_UTF8' AS {names.REASON}",
            f"CAST(NULL AS STRING) AS {names.FIELD}",
            f"'the value is not valid UTF-8' AS {names.MESSAGE}",
        )


KIND = Text
