"""MessagePack, strictly: each value is one map, and every column fits, or the value is refused."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.names import quoted
from rivermouth.rows import our_classes, python_values
from rivermouth.rows.declared import DeclaredFormat

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_CLASS = "values.MessagePack"


class Msgpack(DeclaredFormat):
    """Maps in MessagePack: the columns of the schema are keys, and further keys are ignored.

    Attributes:
        type: ``msgpack``.
    """

    type: Literal["msgpack"] = "msgpack"

    def check_types(self, schema: T.StructType) -> None:
        """Makes sure that MessagePack has values for all declared types, and that names are unambiguous.

        Raises:
            ValueError: It has not, or they are not; the text says which.
        """
        python_values.check(schema, of="MessagePack", keyed="map")

    def columns(self, spark: SparkSession) -> T.StructType:
        """The declared columns, in order, all nullable.

        Raises:
            ValueError: The schema cannot be read, or our classes are not there; the text says why.
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
        """Each value is read again, by the same code.

        Reasons: ``NOT_AN_OBJECT``, ``TRUNCATED``, ``TRAILING_BYTES``, ``INVALID_MSGPACK``, ``INVALID_UTF8``,
        ``TOO_DEEP``, ``FIELD_TYPE``, ``FIELD_MISSING``, and ``UNEXPLAINED`` where it can be read by now.
        """
        now = names.literal("it can be read now, and could not when its batch was written")
        return rows.select("*", self._made(rows.sparkSession).alias("__made")).selectExpr(
            "* EXCEPT (__made)",
            f"coalesce(__made.reason, 'UNEXPLAINED') AS {names.REASON}",
            f"__made.field AS {names.FIELD}",
            f"coalesce(__made.message, {now}) AS {names.MESSAGE}",
        )

    def _made(self, spark: SparkSession) -> Column:
        return our_classes.step(spark, names.VALUE, _CLASS, self.schema_as_declared().json())


KIND = Msgpack
