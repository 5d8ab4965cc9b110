"""Dates and timestamps that JSON says in a form of the user's: a pattern, or a number since 1970."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.times import datetime_pattern
from rivermouth.names import below, literal
from rivermouth.schemas import type_limits

EPOCHS: Final = {"epoch_s": 1_000_000, "epoch_ms": 1_000, "epoch_us": 1}
"""Words in the place of a pattern of timestamps, and how many microseconds their number counts."""
SETTINGS: Final = {"spark.sql.legacy.timeParserPolicy": "CORRECTED", "spark.sql.timestampType": "TIMESTAMP_LTZ"}
"""What a session must say, so that patterns are read strictly and keep their offsets."""
_LESS_THAN_MICROS: Final = "SSSSSSS"


class TimeByForm(T.DataType):
    """A date or a timestamp of a schema, with the form in which documents say it.

    Attributes:
        declared: The type of the column.
        form: The pattern, or one of ``EPOCHS``.
    """

    def __init__(self, declared: T.DataType, form: str) -> None:
        self.declared = declared
        self.form = form

    def simpleString(self) -> str:  # noqa: N802 - Spark's
        """That of the declared type."""
        return self.declared.simpleString()

    @property
    def read_as(self) -> T.DataType:
        """The type that the parser is told."""
        return T.LongType() if self.form in EPOCHS else T.StringType()

    def convert(self, read: str) -> str:
        """SQL of the declared type; null where there is no such time; ``misfit`` says whether it fits."""
        if self.form in EPOCHS:
            first, last = bounds(self.form)
            micros = f"timestamp_micros({read} * {EPOCHS[self.form]})"
            return f"CASE WHEN {read} BETWEEN {first} AND {last} THEN {micros} END"
        return f"CAST(try_to_timestamp({read}, {literal(self.form)}) AS {self.simpleString()})"

    def misfit(self, read: str, done: str) -> str:
        """SQL that is true where what was read does not fit."""
        # Spark takes signs before years, and more than four digits behind them.
        return f"{read} IS NOT NULL AND NOT coalesce({type_limits.within(done, self.simpleString())}, false)"

    def fits(self, text: str) -> bool:
        """Whether a string, or the digits of a whole number, fit."""
        if self.form in EPOCHS:
            first, last = bounds(self.form)
            return first <= int(text) <= last
        return datetime_pattern.fits(self.form, text)


def check_form(form: str, *, of_dates: bool) -> None:
    """Makes sure, without Spark, that a form can be read.

    Raises:
        ValueError: It cannot; the text says why, and what to write.
    """
    if form not in EPOCHS:
        datetime_pattern.check(form, of_dates=of_dates)
    elif of_dates:
        msg = f"{form} counts from an instant, and a date is none: declare the column timestamp"
        raise ValueError(msg)


def bounds(epoch: str) -> tuple[int, int]:
    """The least and the greatest number of an epoch that lie in the years 1 to 9999."""
    return type_limits.time_range(EPOCHS[epoch])


@dataclass(frozen=True, slots=True)
class TimeForms:
    """How documents say timestamps and dates; None: as ISO 8601 has it.

    Attributes:
        timestamp: A pattern, or one of ``EPOCHS``.
        date: A pattern.
    """

    timestamp: str | None = None
    date: str | None = None

    def check(self, declared: T.StructType, session: Mapping[str, str | None]) -> None:
        """Makes sure that each form is one of a column, and that the session reads it as it is meant.

        Args:
            declared: The schema.
            session: What the session says of ``SETTINGS``.

        Raises:
            ValueError: It is of none, a column of TIMESTAMP_NTZ would lose an offset, or the session reads otherwise;
                the text says what to do.
        """
        for name, wanted in SETTINGS.items():
            found = session.get(name)
            if found not in (None, wanted):
                msg = f"timestamp_format and date_format are not read strictly where {name} is {found}: remove that"
                raise ValueError(msg)
        leaves = list(_leaves(declared, ""))
        instants = [path for path, leaf in leaves if isinstance(leaf, T.TimestampType)]
        local = [path for path, leaf in leaves if isinstance(leaf, T.TimestampNTZType)]
        if self.timestamp is not None:
            if not instants and not local:
                msg = "timestamp_format is about timestamps, and no column is one: declare one, or leave it out"
                raise ValueError(msg)
            if local and (self.timestamp in EPOCHS or datetime_pattern.has_offset(self.timestamp)):
                msg = f"column {local[0]} is timestamp_ntz, and timestamp_format has instants: declare it timestamp"
                raise ValueError(msg)
        if self.date is not None and not any(isinstance(leaf, T.DateType) for _, leaf in leaves):
            msg = "date_format is about dates, and no column is one: declare one, or leave it out"
            raise ValueError(msg)

    def check_digits(self, exact: Iterable[T.StructField], because: str) -> None:
        """Makes sure that nothing is cut off of timestamps in columns that shall keep all that is said.

        Args:
            exact: Those columns.
            because: The setting that says so.

        Raises:
            ValueError: A form has digits for less than a microsecond; the text says what to do.
        """
        if _LESS_THAN_MICROS not in (self.timestamp or ""):
            return
        times = (T.TimestampType, T.TimestampNTZType)
        leaves = (leaf for each in exact for leaf in _leaves(each.dataType, each.name))
        column = next((path for path, leaf in leaves if isinstance(leaf, times)), None)
        if column is not None:
            msg = f"timestamp_format reads more digits of a second than column {column} keeps, and {because} says "
            msg += "that none is cut off: write SSSSSS, or declare the column string"
            raise ValueError(msg)

    def marked(self, declared: T.StructType) -> T.StructType:
        """A schema with ``TimeByForm`` in the place of the types that have a form."""
        if self == TimeForms():
            return declared
        return T.StructType(
            [T.StructField(f.name, self._marked(f.dataType), f.nullable, f.metadata) for f in declared.fields]
        )

    def _marked(self, declared: T.DataType) -> T.DataType:
        match declared:
            case T.StructType():
                return self.marked(declared)
            case T.ArrayType():
                return T.ArrayType(self._marked(declared.elementType), declared.containsNull)
            case T.MapType():
                return T.MapType(declared.keyType, self._marked(declared.valueType), declared.valueContainsNull)
            case T.TimestampType() | T.TimestampNTZType() if self.timestamp is not None:
                return TimeByForm(declared, self.timestamp)
            case T.DateType() if self.date is not None:
                return TimeByForm(declared, self.date)
        return declared


def _leaves(declared: T.DataType, path: str) -> list[tuple[str, T.DataType]]:
    match declared:
        case T.StructType():
            return [leaf for each in declared.fields for leaf in _leaves(each.dataType, below(path, each.name))]
        case T.ArrayType():
            return _leaves(declared.elementType, f"{path}[]")
        case T.MapType():
            return _leaves(declared.valueType, f"{path}[]")
    return [(path, declared)]
