"""Rows as Kafka Connect's JSON converter writes them: an object of ``schema`` and ``payload``, without an envelope."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, ClassVar, Final, Literal, Self

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc.change_format import NEW
from rivermouth.decoding.cdc.connect_format import ConnectFormat
from rivermouth.decoding.json import json_spark_parser
from rivermouth.names import quoted
from rivermouth.spec import KeyFormat

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OUTER: Final = ("schema", "payload")
_IS_WRAPPED: Final = f"size(array_union(json_object_keys({json_spark_parser.TEXT}), array('schema', 'payload'))) = 2"


class ConnectJson(ConnectFormat, KeyFormat):
    """Rows with their schema, as Kafka Connect's JSON converter writes them with ``schemas.enable: true``.

    Attributes:
        type: ``connect_json``.
    """

    row_at: ClassVar[tuple[str, ...]] = ("$.payload",)
    row_below: ClassVar[str] = "payload[.]"
    messages: ClassVar[Mapping[str, str]] = {
        "NOT_CONNECT_JSON": "the value is an object, and not one of schema and payload alone: the format json reads "
        "plain objects",
        "ROW_MISSING": "the payload is null",
        "NO_DECLARED_FIELD": "the payload has none of the declared columns: the format debezium reads change envelopes",
    }
    type: Literal["connect_json"] = "connect_json"
    _bare: bool = False

    def envelope(self, row: T.DataType) -> T.StructType:
        """The row under ``payload``, and its schema block; of keys also a row at the top."""
        block = T.StructType([T.StructField("fields", self.hints())])
        outer = [T.StructField("schema", block), T.StructField("payload", row)]
        top = row.fields if self._bare and isinstance(row, T.StructType) else []
        return T.StructType([*outer, *(each for each in top if each.name not in _OUTER)])

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to rows in one parse."""
        return super().decode(rows).drop(names.MISFIT)

    def explain(self, rows: DataFrame) -> DataFrame:
        """Why values were refused: they are decoded once more.

        Reasons: ``NOT_CONNECT_JSON``, ``ROW_MISSING``, ``NO_DECLARED_FIELD``, ``FIELD_TYPE``, ``FIELD_MISSING``,
        ``FIELD_AMBIGUOUS``, and those of the format json.
        """
        made = (names.DATA, names.DECODED, names.UNDECLARED)
        there = [name for name in rows.columns if name in made]
        aside = {name: f"__before{name}" for name in there}
        checked = super().decode(rows.withColumnsRenamed(aside)).drop(*made)
        back = {kept: name for name, kept in aside.items()}
        return super().explain(checked).drop(names.MISFIT).withColumnsRenamed(back)

    def for_tombstone_keys(self) -> Self:
        """The same format for the keys of records without a value, which may be plain objects too."""
        same = self.model_copy()
        same._bare = True  # noqa: SLF001
        return same

    def whole(self) -> Iterator[str]:
        """What is no row with a schema."""
        if not self._bare:
            yield f"WHEN NOT coalesce({_IS_WRAPPED}, false) THEN 'NOT_CONNECT_JSON'"
        yield f"WHEN {NEW} IS NULL THEN 'ROW_MISSING'"

    def change_columns(self, parsed: DataFrame, schema: T.StructType) -> DataFrame:
        """The payload; a schema block that is null says nothing."""
        row = "__in_payload"
        if self._bare:
            top = (
                f"{f'__in_payload.{quoted(each.name)}' if each.name in _OUTER else quoted(f'__in_{each.name}')} "
                f"AS {quoted(each.name)}"
                for each in schema.fields
            )
            row = f"CASE WHEN {_IS_WRAPPED} THEN __in_payload ELSE struct({', '.join(top)}) END"
        return self.of_rows(parsed.selectExpr("*", f"{row} AS {NEW}", "__in_schema.fields AS __columns"), schema)


KIND = ConnectJson
