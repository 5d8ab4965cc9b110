"""Whole numbers as Java and Kafka's serializers write them: two's complement, the most significant byte first."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from pyspark.sql.types import DataType, StructField, StructType

from rivermouth import names
from rivermouth.spec import KeyFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class FixedNumber(KeyFormat):
    """One payload column ``value``, a whole number of a fixed count of bytes; other lengths are refused."""

    size: ClassVar[int]
    """How many bytes a number has."""
    kind: ClassVar[DataType]
    """Its type in Spark."""

    @property
    def makes_struct_of_keys(self) -> bool:
        """A key is the number itself."""
        return False

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - the same for every session
        """``value``, the number."""
        return StructType([StructField("value", self.kind)])

    def key_type(self, spark: SparkSession) -> DataType:  # noqa: ARG002 - the same for every session
        """The number's type."""
        return self.kind

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values of the right length to numbers."""
        fits = f"length({names.VALUE}) = {self.size}"
        # To base -10 the 64 bits are a signed number; fewer are filled up with the sign's.
        sign = f"IF(hex(substr({names.VALUE}, 1, 1)) >= '80', '{'FF' * (8 - self.size)}', '')"
        number = f"CAST(conv(concat({sign}, hex({names.VALUE})), 16, -10) AS {self.kind.simpleString()})"
        data = f"struct(CASE WHEN {fits} THEN {number} END AS value) AS {names.DATA}"
        return rows.selectExpr("*", data, f"coalesce({fits}, true) AS {names.DECODED}")

    def explain(self, rows: DataFrame) -> DataFrame:
        """The only reason is ``WRONG_LENGTH``."""
        said = f"concat('the value is of length ', length({names.VALUE}), ', and {self.type} has {self.size} bytes')"
        return rows.selectExpr(
            "*",
            f"'WRONG_LENGTH' AS {names.REASON}",
            f"CAST(NULL AS STRING) AS {names.FIELD}",
            f"{said} AS {names.MESSAGE}",
        )
