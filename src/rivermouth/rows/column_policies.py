"""Policies of single columns, held against the columns that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.names import did_you_mean
from rivermouth.rows.json_types import name_in_json

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

    from rivermouth.spec import Evolution


def check(declared: StructType, evolution: Evolution) -> None:
    """Makes sure that no policy waits for a column that never comes.

    Raises:
        ValueError: One does; the text says for which.
    """
    there = {name.lower() for each in declared.fields for name in (each.name, name_in_json(each))}
    for name, policy in evolution.columns.items():
        if name.lower() in there:
            continue
        column = name.partition(".")[0]
        if column != name and column.lower() in there:
            msg = f"evolution.columns names {name!r}: policies are for whole columns, so name {column!r}"
            raise ValueError(msg)
        waits = policy.on_type_change is not None or policy.on_missing_column is not None
        if waits and evolution.new_column(name) != "evolve":
            guess = did_you_mean(name, declared.names)
            msg = f"evolution.columns names {name!r}, which is no column: {guess}"
            raise ValueError(msg)
