"""What the formats share whose values one class of ours makes rows of the declared columns, or refuses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rivermouth import names
from rivermouth.decoding.declared.declared import DeclaredFormat
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class StepFormat(DeclaredFormat):
    """Base of the formats whose values are read by a class of ours in Spark's JVM (a ``values.Step``)."""

    def step(self) -> tuple[Any, ...]:
        """Name and arguments of the class that makes a row of a value."""
        raise NotImplementedError

    def columns(self, spark: SparkSession) -> StructType:
        """The declared columns, in order, all nullable.

        Raises:
            ValueError: The schema cannot be read; the text says why.
        """
        found = super().columns(spark)
        self._made(spark)
        return found

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns in one pass over their bytes."""
        declared = self.schema_as_declared().names
        data = ", ".join(f"__made.made.{quoted(name)} AS {quoted(name)}" for name in declared)
        return rows.select("*", self._made(rows.sparkSession).alias("__made")).selectExpr(
            "* EXCEPT (__made)",
            f"{names.VALUE} IS NULL OR __made.made IS NOT NULL AS {names.DECODED}",
            f"struct({data}) AS {names.DATA}",
        )

    def explain(self, rows: DataFrame) -> DataFrame:
        """Each value is read again, by the same code; ``UNEXPLAINED`` where it can be read by now."""
        now = names.literal("it can be read now, and could not when its batch was written")
        return rows.select("*", self._made(rows.sparkSession).alias("__made")).selectExpr(
            "* EXCEPT (__made)",
            f"coalesce(__made.reason, 'UNEXPLAINED') AS {names.REASON}",
            f"__made.field AS {names.FIELD}",
            f"coalesce(__made.message, {now}) AS {names.MESSAGE}",
        )

    def _made(self, spark: SparkSession) -> Column:
        return jvm_classes.step(spark, names.VALUE, *self.step())
