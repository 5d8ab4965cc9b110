"""Between which values the keys of a batch lie: by literal bounds alone Delta skips files."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import IntegralType, StringType

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from pyspark.sql import Column, DataFrame, Row

    Ranges = Mapping[str, tuple[Any, Any]]
    """The least and the greatest value by column."""

# Not times, which on their way through Python become those of another zone.
_RANGED: Final = (IntegralType, StringType)


def ranged(frame: DataFrame, keys: Sequence[str]) -> list[str]:
    """Those of the key columns whose type has an order that files are skipped by."""
    return [name for name in keys if isinstance(frame.schema[name].dataType, _RANGED)]


def counts(columns: Sequence[str]) -> Iterator[Column]:
    """Aggregates, each with a name, from which ``found`` makes the ranges of these columns."""
    for index, name in enumerate(columns):
        yield F.min(names.quoted(name)).alias(f"least_{index}")
        yield F.max(names.quoted(name)).alias(f"greatest_{index}")


def found(columns: Sequence[str], told: Row) -> Ranges:
    """The least and the greatest value by column, as the aggregates tell; without columns that have none of use."""
    ranges = {name: (told[f"least_{index}"], told[f"greatest_{index}"]) for index, name in enumerate(columns)}
    # Bytes that are no text come back as others.
    return {
        name: (least, greatest)
        for name, (least, greatest) in ranges.items()
        if least is not None and "\ufffd" not in f"{least}{greatest}"
    }


def within(ranges: Ranges) -> Column:
    """Whether a row of the table ``t`` lies in the ranges."""
    bounds = F.lit(True)
    for name, (least, greatest) in ranges.items():
        bounds = bounds & F.col(f"t.{names.quoted(name)}").between(F.lit(least), F.lit(greatest))
    return bounds
