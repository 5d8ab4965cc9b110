"""Oracle GoldenGate's change messages in JSON: one row each, whole before and after the change."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc.change_format import NEW, OLD, UNKNOWN, ChangeFormat, Read
from rivermouth.decoding.text import text_types
from rivermouth.decoding.times import time_texts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OPERATIONS: Final = {"I": names.INSERT, "U": names.UPDATE, "D": names.DELETION, "T": names.TRUNCATION}
_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)


class Ogg(ChangeFormat):
    """Changes as Oracle GoldenGate's JSON formatter writes them; values are numbers or text.

    Attributes:
        type: ``ogg``.
    """

    splits: ClassVar[bool] = True
    truncates: ClassVar[bool] = True
    values_as: ClassVar[str] = "text"
    row_at: ClassVar[tuple[str, ...]] = ("$.after", "$.before")
    type: Literal["ogg"] = "ogg"

    def envelope(self, row: T.DataType) -> T.StructType:
        """The fields of a message."""
        keys = T.StructField("primary_keys", T.ArrayType(T.StringType()))
        rows = (T.StructField(name, row) for name in ("before", "after"))
        texts = (T.StructField(name, T.StringType()) for name in ("table", "op_type", "op_ts", "pos"))
        return T.StructType([*rows, *texts, keys])

    def read_as(self, declared: T.DataType) -> T.DataType:
        """Whatever JSON holds: a formatter may write all columns as text."""
        return super().read_as(declared) if isinstance(declared, (T.StringType, *_NESTED)) else T.VariantType()

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return isinstance(declared, (T.StringType, *_NESTED))

    def convert(self, read: Read) -> str:
        """Numbers and text alike."""
        if self.is_native(read.declared):
            return super().convert(read)
        return text_types.of_text(f"CAST({read.sql} AS STRING)", read.declared, exact_times=self.refuses_finer_times)

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """What is there and became nothing."""
        if self.is_native(read.declared):
            return super().misfits(read, done)
        return {"FIELD_TYPE": f"CAST({read.sql} AS STRING) IS NOT NULL AND {done} IS NULL"}

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """Types to operations; a deletion's row is the one before."""
        known = " ".join(f"WHEN '{kind}' THEN '{operation}'" for kind, operation in _OPERATIONS.items())
        operation = f"CASE __in_op_type {known} ELSE CASE WHEN __in_op_type IS NOT NULL THEN '{UNKNOWN}' END END"
        row = "CASE WHEN __in_op_type = 'D' THEN __in_before ELSE __in_after END"
        placed = parsed.selectExpr("*", f"{row} AS {NEW}", f"__in_before AS {OLD}")
        return placed.selectExpr(
            "*",
            f"{self.of_tables(operation, '__in_table')} AS {names.OPERATION}",
            f"{time_texts.instant('__in_op_ts')} AS {names.SOURCE_TIMESTAMP}",
            f"__in_pos AS {names.SOURCE_POSITION}",
            f"{self.key_of(NEW, None, '__in_primary_keys', schema)} AS {names.PRIMARY_KEY}",
            f"{self.key_of(OLD, NEW, '__in_primary_keys', schema)} AS {names.OLD_PRIMARY_KEY}",
            f"0 AS {names.ORDINAL}",
        )


KIND = Ogg
