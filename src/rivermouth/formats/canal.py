"""Canal's change messages in flat JSON: several rows each, whose values are all text."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc.change_format import NEW, OLD, UNKNOWN, Read
from rivermouth.decoding.cdc.mysql_format import MySqlFormat
from rivermouth.decoding.cdc.source_values import of_milliseconds
from rivermouth.decoding.json import json_spark_parser
from rivermouth.decoding.text import text_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TABLE: Final = "concat(__in_database, '.', __in_table)"
_OPERATIONS: Final = {
    "INSERT": names.INSERT,
    "UPDATE": names.UPDATE,
    "DELETE": names.DELETION,
    "TRUNCATE": names.TRUNCATION,
}
_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)


class Canal(MySqlFormat):
    """Changes of MySQL tables as Canal writes them in flat messages.

    Attributes:
        type: ``canal``.
    """

    splits: ClassVar[bool] = True
    several_rows: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    values_as: ClassVar[str] = "text"
    row_at: ClassVar[tuple[str, ...]] = ("$.data[0]",)
    type: Literal["canal"] = "canal"

    def envelope(self, row: T.DataType) -> T.StructType:
        """The fields of a message."""
        texts = (T.StructField(name, T.StringType()) for name in ("type", "isDdl", "database", "table", "es"))
        rows = (T.StructField(name, T.ArrayType(row)) for name in ("data", "old"))
        return T.StructType([*rows, *texts, T.StructField("pkNames", T.ArrayType(T.StringType()))])

    def schema_as_declared(self) -> T.StructType:
        """The schema as declared.

        Raises:
            ValueError: It cannot be read, or has columns that hold more than one value; the text says why.
        """
        schema = super().schema_as_declared()
        for field in schema.fields:
            if isinstance(field.dataType, _NESTED):
                kind = field.dataType.simpleString()
                msg = f"column {field.name}: type {kind} is not read from text, as Canal sends it: declare string"
                raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
        return schema

    def changed_row(self) -> str:
        """SQL of the JSON text of the row."""
        return f"get_json_object({json_spark_parser.TEXT}, concat('$.data[', {names.ORDINAL}, ']'))"

    def rows_of_record(self) -> str:
        """SQL of the number of rows in a message."""
        return f"json_array_length(get_json_object({json_spark_parser.TEXT}, '$.data'))"

    def read_as(self, declared: T.DataType) -> T.DataType:  # noqa: ARG002 - all alike
        """Text, whatever is declared."""
        return T.StringType()

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return isinstance(declared, T.StringType)

    def convert(self, read: Read) -> str:
        """From text; bytes come as characters."""
        if isinstance(read.declared, T.BinaryType):
            return text_types.bytes_as_characters(read.sql)
        return text_types.of_text(read.sql, read.declared, exact_times=self.refuses_finer_times)

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """What is there and became nothing."""
        return {} if self.is_native(read.declared) else {"FIELD_TYPE": f"{read.sql} IS NOT NULL AND {done} IS NULL"}

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Types to operations, and a row for each of the message's."""
        known = " ".join(f"WHEN '{kind}' THEN '{operation}'" for kind, operation in _OPERATIONS.items())
        other = f"WHEN lower(__in_isDdl) = 'true' THEN '{names.SKIP}' WHEN __in_type IS NOT NULL THEN '{UNKNOWN}'"
        operation = f"CASE __in_type {known} ELSE CASE {other} END END"
        columns = [column for column in parsed.columns if column != "__in_data"]
        rows = parsed.select(*columns, F.posexplode_outer("__in_data").alias("__number", NEW))
        placed = rows.selectExpr("*", f"get(__in_old, __number) AS {OLD}", f"coalesce(__number, 0) AS {names.ORDINAL}")
        return placed.selectExpr(
            "*",
            f"{self.of_tables(operation, _TABLE)} AS {names.OPERATION}",
            f"{of_milliseconds('__in_es')} AS {names.SOURCE_TIMESTAMP}",
            f"CAST(NULL AS STRING) AS {names.SOURCE_POSITION}",
            f"{self.key_of(NEW, None, '__in_pkNames', schema)} AS {names.PRIMARY_KEY}",
            f"{self.key_of(OLD, NEW, '__in_pkNames', schema)} AS {names.OLD_PRIMARY_KEY}",
        )


KIND = Canal
