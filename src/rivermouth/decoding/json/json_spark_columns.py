"""The columns of JSON documents by Spark's parser, and whether each document fits them: all in SQL.

As a plan over all rows, for columns and policies that our reader does not take; and as one column for the values that
it asks about.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth import names
from rivermouth.decoding.json import json_spark_parser, json_types
from rivermouth.schemas import column_types

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from pyspark.sql import DataFrame
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it


def ours(declared: T.StructType, spared: Collection[int]) -> list[str]:
    """The columns that ``parse_columns`` adds."""
    return [
        "__fits",
        "__others",
        "__named",
        *(f"__done_{place}" for place in range(len(declared))),
        *(f"__not_{place}" for place in spared),
    ]


def parse_columns(rows: DataFrame, declared: T.StructType, spared: Collection[int]) -> DataFrame:
    """``rows`` with ``__fits``, whether a document is sound and fits (not null), and its columns ``__done_0``, ...

    ``__others`` is true: there may be fields that are not declared. ``__named`` (not null) is whether there is one that
    is declared, be it null.

    Args:
        rows: Has ``__value``, and in text and VARIANT columns no values but strings, as of ``json_fast_path.kept``.
        declared: The schema.
        spared: Places of columns that every document fits; ``__not_0``, ... say whether it does (not null).
    """
    fields = list(enumerate(declared.fields))
    reads = [f"__read_{place}" for place, _ in fields]
    parsed = json_spark_parser.parsed(rows, json_types.read_columns(declared), reads)
    converted = parsed.selectExpr(
        "*",
        f"{json_spark_parser.SOUND} AS __sound",
        *(f"{json_types.convert(reads[place], field.dataType)} AS __done_{place}" for place, field in fields),
    )
    misfits = {place: json_types.field_misfit(reads[place], field, f"__done_{place}") for place, field in fields}
    wrong = json_types.any_of(misfit for place, misfit in misfits.items() if place not in spared)
    return converted.selectExpr(
        f"* EXCEPT ({', '.join([*json_spark_parser.OURS, *reads, '__sound'])})",
        f"coalesce(__sound AND NOT coalesce({wrong or 'false'}, false), false) AS __fits",
        "true AS __others",
        f"{_is_any_named(reads, declared)} AS __named",
        *(f"coalesce({misfits[place] or 'false'}, false) AS __not_{place}" for place in spared),
    )


def in_one_column(rows: DataFrame, declared: T.StructType) -> DataFrame:
    """Only ``row``: a struct of the columns c0, c1, ..., ``others`` and ``named``; null where a document is refused.

    ``others`` is true: there may be fields that are not declared. ``named`` is whether there is one that is.

    Args:
        rows: Has ``__value``, and in text and VARIANT columns no values but strings.
        declared: The schema.
    """
    documents = json_spark_parser.in_one_column(rows, json_types.read_columns(declared))
    fields = list(enumerate(declared.fields))
    misfits = [json_types.field_misfit(f"d.c{place}", field) for place, field in fields]
    wrong = json_types.any_of(misfits) or "false"
    fits = f"__text_sound AND d.corrupt IS NULL AND d.last = 1 AND NOT coalesce({wrong}, false)"
    columns = ", ".join(f"{json_types.convert(f'd.c{place}', field.dataType)} AS c{place}" for place, field in fields)
    named = _is_any_named([f"d.c{place}" for place, _ in fields], declared)
    made = f"struct({columns}, true AS others, {named} AS named)"
    row = f"get(transform(__documents, d -> CASE WHEN {fits} THEN {made} END), 0)"
    return documents.selectExpr(f"CASE WHEN {names.VALUE} IS NOT NULL THEN {row} END AS row")


def _is_any_named(reads: Sequence[str], declared: T.StructType) -> str:
    """SQL: whether a document has one of the declared fields; its names are read only where all of these are null."""
    listed = ", ".join(names.literal(column_types.name_in_json(field)) for field in declared.fields)
    there = f"arrays_overlap(json_object_keys({json_spark_parser.TEXT}), array({listed}))"
    return f"({' OR '.join(f'{read} IS NOT NULL' for read in reads)} OR coalesce({there}, true))"
