"""What the formats of text lines share: a text for each column, read as the column's type, or a reason."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding.declared.declared import DeclaredFormat, precision_hint
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.text import text_types
from rivermouth.names import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession

_LINE: Final = ("__texts", "__why", "__where", "__told")
_NOW: Final = "it can be read now, and could not when its batch was written"


class LineFormat(DeclaredFormat):
    """Base of the formats whose values are text that is taken apart into a text, or nothing, for each column."""

    def splitter(self, columns: Sequence[str]) -> tuple[Any, ...]:
        """Name and arguments of the class of ours (a ``values.Step``) that makes an array of texts of a value."""
        raise NotImplementedError

    def check_types(self, schema: T.StructType) -> None:
        """Makes sure that every column can be read from a text.

        Raises:
            ValueError: One cannot; the text says which.
        """
        text_types.check(schema)

    def columns(self, spark: SparkSession) -> T.StructType:
        """The declared columns, in order, all nullable.

        Raises:
            ValueError: The schema cannot be read, or the settings do not fit; the text says why.
        """
        found = super().columns(spark)
        self.check_splitter(spark, found.names)
        return found

    def check_splitter(self, spark: SparkSession, columns: Sequence[str]) -> None:
        """Makes sure that our class takes the settings.

        Raises:
            ValueError: It does not; the text says why.
        """
        name, *arguments = self.splitter(columns)
        jvm_classes.made(spark, name, *arguments)

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to texts in one pass, and texts to columns."""
        fields = list(enumerate(self.schema_as_declared().fields))
        read = self._read(rows)
        typed = read.selectExpr("*", *(f"{self._typed(number, field)} AS __done_{number}" for number, field in fields))
        misfits = [sql for number, field in fields for sql, _ in _misfits(number, field, f"__done_{number}")]
        fits = f"__texts IS NOT NULL AND NOT coalesce({' OR '.join(misfits) or 'false'}, false)"
        data = ", ".join(f"__done_{number} AS {quoted(field.name)}" for number, field in fields)
        ours = ", ".join([*_LINE, *(f"__done_{number}" for number, _ in fields)])
        return typed.selectExpr(
            f"* EXCEPT ({ours})",
            f"{names.VALUE} IS NULL OR ({fits}) AS {names.DECODED}",
            f"struct({data}) AS {names.DATA}",
        )

    def explain(self, rows: DataFrame) -> DataFrame:
        """Each value is taken apart again; of several columns that do not fit the first one is named.

        Reasons: those of the format itself, ``FIELD_TYPE``, ``FIELD_MISSING``, and ``UNEXPLAINED`` where it can be
        read by now.
        """
        fields = enumerate(self.schema_as_declared().fields)
        found = [
            (sql, reason, field)
            for number, field in fields
            for sql, reason in _misfits(number, field, self._typed(number, field))
        ]
        parts = {
            names.REASON: ("__why", "'UNEXPLAINED'", [literal(reason) for _, reason, _ in found]),
            names.FIELD: ("__where", "NULL", [literal(field.name) for _, _, field in found]),
            names.MESSAGE: (
                "__told",
                literal(_NOW),
                [literal(self._message(reason, field)) for _, reason, field in found],
            ),
        }
        read = self._read(rows).withColumn("__first", F.expr(_first([sql for sql, *_ in found])))
        told = (
            f"CASE WHEN __texts IS NULL THEN {own} "
            f"ELSE coalesce(get(CAST(array({', '.join(texts)}) AS array<string>), __first), {none}) END AS {name}"
            for name, (own, none, texts) in parts.items()
        )
        return read.selectExpr(f"* EXCEPT ({', '.join((*_LINE, '__first'))})", *told)

    def _read(self, rows: DataFrame) -> DataFrame:
        """Rows with ``_LINE``: the texts of a value, or why there are none."""
        name, *arguments = self.splitter(self.schema_as_declared().names)
        made = jvm_classes.step(rows.sparkSession, names.VALUE, name, *arguments)
        parts = zip(("made", "reason", "field", "message"), _LINE, strict=True)
        told = (f"__made.{part} AS {name}" for part, name in parts)
        return rows.select("*", made.alias("__made")).selectExpr("* EXCEPT (__made)", *told)

    def _typed(self, number: int, field: T.StructField) -> str:
        return text_types.of_text(_text(number), field.dataType, exact_times=self.refuses_finer_times)

    def _message(self, reason: str, field: T.StructField) -> str:
        if reason == "FIELD_MISSING":
            return f"field {field.name} is declared NOT NULL and is null"
        message = f"field {field.name} is declared {field.dataType.simpleString()} and holds a text that does not fit"
        return message + precision_hint(field.dataType, refused=self.refuses_finer_times)


def _text(number: int) -> str:
    return f"get(__texts, {number})"


def _misfits(number: int, field: T.StructField, done: str) -> list[tuple[str, str]]:
    """SQL that is true where a column of a value that was taken apart is refused, and the reason."""
    text = _text(number)
    found = []
    if not isinstance(field.dataType, T.StringType):
        found.append((f"({text} IS NOT NULL AND {done} IS NULL)", "FIELD_TYPE"))
    if not field.nullable:
        found.append((f"{text} IS NULL", "FIELD_MISSING"))
    return found


def _first(misfits: Sequence[str]) -> str:
    """SQL: the number of the first misfit that is true; null if none is."""
    cases = " ".join(f"WHEN {sql} THEN {number}" for number, sql in enumerate(misfits))
    return f"CASE {cases} END" if cases else "CAST(NULL AS INT)"
