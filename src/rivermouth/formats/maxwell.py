"""Maxwell's change messages: one row each, with the columns that an update changed as they were before."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc.change_format import NEW, OLD, UNKNOWN
from rivermouth.decoding.cdc.mysql_format import MySqlFormat
from rivermouth.decoding.cdc.source_values import binlog_file, of_seconds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TABLE: Final = "concat(__in_database, '.', __in_table)"
_OPERATIONS: Final = {
    "insert": names.INSERT,
    "bootstrap-insert": names.READ,
    "update": names.UPDATE,
    "delete": names.DELETION,
}
_BESIDE: Final = "^(bootstrap-(start|complete)|(table|database)-(create|alter|drop))$"


class Maxwell(MySqlFormat):
    """Changes of MySQL tables as Maxwell writes them.

    Attributes:
        type: ``maxwell``.
    """

    splits: ClassVar[bool] = True
    row_at: ClassVar[tuple[str, ...]] = ("$.data",)
    type: Literal["maxwell"] = "maxwell"

    def envelope(self, row: T.DataType) -> T.StructType:
        """The fields of a message."""
        texts = ("type", "database", "table", "ts", "xoffset", "position")
        keys = T.StructField("primary_key_columns", T.ArrayType(T.StringType()))
        rows = (T.StructField(name, row) for name in ("data", "old"))
        return T.StructType([*rows, *(T.StructField(name, T.StringType()) for name in texts), keys])

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Types to operations; ``old`` holds the columns that an update changed."""
        known = " ".join(f"WHEN '{kind}' THEN '{operation}'" for kind, operation in _OPERATIONS.items())
        beside = f"WHEN __in_type RLIKE '{_BESIDE}' THEN '{names.SKIP}' WHEN __in_type IS NOT NULL THEN '{UNKNOWN}'"
        operation = f"CASE __in_type {known} ELSE CASE {beside} END END"
        file, at = (f"substring_index(__in_position, ':', {number})" for number in (1, -1))
        row = "lpad(coalesce(__in_xoffset, ''), 10, '0')"
        position = f"concat_ws(':', {binlog_file(file)}, lpad({at}, 20, '0'), {row})"
        position = f"CASE WHEN __in_position IS NOT NULL THEN {position} END"
        return parsed.selectExpr(
            "*",
            f"{self.of_tables(operation, _TABLE)} AS {names.OPERATION}",
            f"{of_seconds('__in_ts')} AS {names.SOURCE_TIMESTAMP}",
            f"{position} AS {names.SOURCE_POSITION}",
            f"__in_data AS {NEW}",
            f"__in_old AS {OLD}",
            f"{self.key_of('__in_data', None, '__in_primary_key_columns', schema)} AS {names.PRIMARY_KEY}",
            f"{self.key_of('__in_old', '__in_data', '__in_primary_key_columns', schema)} AS {names.OLD_PRIMARY_KEY}",
            f"0 AS {names.ORDINAL}",
        )


KIND = Maxwell
