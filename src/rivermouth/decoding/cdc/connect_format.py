"""Rows as Kafka Connect's JSON converter writes them, read by what their schema block says, else by a setting."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import TYPE_CHECKING, ClassVar, Literal

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.cdc import debezium_nested, debezium_types, text_maps
from rivermouth.decoding.cdc.change_format import NESTED, NEW, Read, RowFormat
from rivermouth.decoding.json import json_types
from rivermouth.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class ConnectFormat(RowFormat):
    """Base of the formats whose values Kafka Connect's JSON converter wrote.

    Attributes:
        decimals: What a text is for a decimal where no schema block says it: ``base64`` (``decimal.handling.mode:
            precise``; the scale is the declared one) or ``string``. Refused, if not given.
        time_precision: What a number is for a timestamp where no schema block says it: ``millis``, ``micros`` or
            ``nanos`` since 1970. Refused, if not given.
        binaries: What a text is for binary where no schema block says that it is bytes: ``base64`` or ``hex``
            (``binary.handling.mode``). If not given, base64 without a schema block; refused, if one says string.
    """

    variants: ClassVar[bool] = True
    values_as: ClassVar[str] = "connect"
    decimals: Literal["base64", "string"] | None = None
    time_precision: Literal["millis", "micros", "nanos"] | None = None
    binaries: Literal["base64", "hex"] | None = None

    def hints(self) -> T.ArrayType:
        """What is read of the part of a schema block that is about the columns."""
        return T.ArrayType(debezium_nested.hint_type(each.dataType for each in self.schema_as_declared().fields))

    def read_as(self, declared: T.DataType) -> T.DataType:
        """What the schema block explains is kept as it came; a map of texts may come as one text."""
        return T.StringType() if json_types.is_text_map(declared) else debezium_nested.read_as(declared)

    def is_native(self, declared: T.DataType) -> bool:
        """Whether the parser itself refuses what does not fit that type."""
        return not (debezium_nested.is_hinted(declared) or json_types.is_text_map(declared))

    def convert(self, read: Read) -> str:
        """What ``of_rows`` made of it already, or as in plain JSON."""
        return super().convert(read) if self.is_native(read.declared) else f"__of_{read.number}"

    def misfits(self, read: Read, done: str) -> Mapping[str, str]:
        """By reason: SQL, true where a value is there and its declared type cannot be made of it."""
        found, declared, made = {}, read.declared, f"__of_{read.number}"
        if isinstance(declared, T.StringType):
            encoded: str | None = f"array_contains(__encoded, {names.literal(read.name)})"
        else:
            encoded = debezium_nested.encoded(f"{made}_hint", declared)
        if encoded:
            found["FIELD_AMBIGUOUS"] = f"{read.sql} IS NOT NULL AND {encoded}"
        if self.is_native(declared):
            return {**found, **super().misfits(read, done)}
        if json_types.is_text_map(declared):
            nothing = f"{read.sql} IS NOT NULL AND {done} IS NULL"
            return {**found, "FIELD_TYPE": json_types.any_of([nothing, json_types.misfit(done, declared)]) or nothing}
        if isinstance(declared, NESTED):
            unclear: str | None = debezium_nested.wrong(f"{made}_judged", declared, "FIELD_AMBIGUOUS")
            misfit = debezium_nested.wrong(f"{made}_judged", declared, "FIELD_TYPE")
        else:
            unclear = debezium_types.ambiguous(declared, made, self._said)
            misfit = f"{debezium_types.is_there(read.sql)} AND {done} IS NULL"
        if unclear:
            found["FIELD_AMBIGUOUS"] = json_types.any_of([found.get("FIELD_AMBIGUOUS"), unclear]) or unclear
        return {**found, "FIELD_TYPE": misfit}

    @property
    def _said(self) -> debezium_types.Described:
        return debezium_types.Described(self.decimals, self.time_precision, self.binaries, self.refuses_finer_times)

    def of_rows(self, told: DataFrame, schema: T.StructType) -> DataFrame:
        """The columns whose values mean what the schema block says, made of both in a few steps.

        Args:
            told: Has ``NEW``, the row as it was read, and ``__columns``, what ``hints`` are read of the block, or null.
            schema: The declared columns.
        """
        columns = list(enumerate(schema.fields))
        # Of all texts at once: a search of the block for each would cost more than to read it.
        encoded = f"transform(filter(__columns, c -> c.name = '{debezium_types.DECIMAL}'), c -> c.field) AS __encoded"
        others = [(n, each) for n, each in columns if not isinstance(each.dataType, T.StringType)]
        read = [(n, each) for n, each in others if debezium_nested.is_told(each.dataType)]
        hints = (f"{debezium_nested.hint_of('__columns', each.name)} AS __of_{n}_hint" for n, each in read)
        rows = told.selectExpr("*", encoded, *hints)
        steps = [self._steps(n, each) for n, each in read if debezium_nested.is_hinted(each.dataType)]
        for parts in zip_longest(*steps, fillvalue={}):
            rows = rows.selectExpr("*", *(f"{sql} AS {name}" for part in parts for name, sql in part.items()))
        for n, each in columns:
            if json_types.is_text_map(each.dataType):
                rows = text_maps.with_map(rows, f"{NEW}.{quoted(each.name)}", each.dataType, f"__of_{n}")
        return rows

    def _steps(self, number: int, column: T.StructField) -> Iterator[dict[str, str]]:
        """Columns to be added one step after the other; the last is the value."""
        at, declared = f"__of_{number}", column.dataType
        read = self.nonzero(f"{NEW}.{quoted(column.name)}", declared)
        if not isinstance(declared, NESTED):
            yield from debezium_types.steps(read, declared, at, self._said)
            return
        yield {f"{at}_judged": debezium_nested.checked(read, declared, f"{at}_hint", self._said)}
        yield {at: debezium_nested.value(f"{at}_judged", declared)}
