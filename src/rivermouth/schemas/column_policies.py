"""Policies of single columns, held against the columns that there are."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from rivermouth.names import did_you_mean
from rivermouth.schemas.column_types import name_in_json
from rivermouth.spec.evolution import WIDENS

if TYPE_CHECKING:
    from collections.abc import Collection

    from rivermouth.spec import Evolution

_FAIL: Final = "fail"


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


def policies_of(
    columns: StructType, evolution: Evolution, *, looked_at: Collection[int] = (), only_fails: bool = False
) -> str:
    """What the readers of records are told of a table that grows.

    Args:
        columns: Its columns as they are now.
        evolution: Its policies, settled.
        looked_at: Ids of schemas by which nothing grows any more.
        only_fails: Whether records are refused for what stops the flow alone.

    Returns:
        JSON, for ``Policies`` and for ``avro.Policies`` in Spark's JVM.
    """
    return json.dumps(
        {
            "schema": columns.jsonValue(),
            "columns": {
                name: {
                    "new": evolution.new_column(name),
                    "type": evolution.type_change(name),
                    "missing": evolution.missing_column(name) or "",
                }
                for name in columns.names
            },
            "named": {name.lower(): evolution.new_column(name) for name in evolution.columns},
            "others": evolution.on_new_column,
            "max_columns": evolution.max_columns,
            "looked_at": sorted(looked_at),
            "only_fails": only_fails,
        }
    )


class Policies:
    """What ``policies_of`` has written, as those ask it who read records in Python.

    Attributes:
        columns: The columns as they are now.
        max_columns: As of the flow.
        looked_at: Ids of schemas by which nothing grows any more.
    """

    def __init__(self, text: str, *, only_fails: bool = False) -> None:
        """Reads the text; with ``only_fails`` records are refused for what stops the flow alone, whatever it says."""
        self._said: dict[str, Any] = json.loads(text)
        self._only_fails = only_fails or bool(self._said["only_fails"])
        self.columns = StructType.fromJson(self._said["schema"])
        self.max_columns = int(self._said["max_columns"])
        self.looked_at = frozenset(self._said["looked_at"])

    def new_column(self, name: str) -> str:
        """What happens to fields of a name that are not in the schema, or to those within its column."""
        known = self._said["columns"].get(name)
        return str(known["new"] if known else self._said["named"].get(name.lower(), self._said["others"]))

    def type_change(self, name: str) -> str:
        """What happens to values that a column does not hold."""
        return str(self._said["columns"].get(name, {}).get("type", ""))

    def refuses(self, column: str) -> bool:
        """Whether a record is refused that has a value in a field that is not in the schema."""
        word = self.new_column(column)
        return word == _FAIL if self._only_fails else word != "ignore"

    def widens(self, column: str) -> bool:
        """Whether a column takes more than it was declared for."""
        return self.type_change(column) in WIDENS

    def passes(self, column: str) -> bool:
        """Whether a value of another type is passed over, to look at what comes behind it."""
        return self._only_fails and self.type_change(column) != _FAIL

    def requires(self, column: str) -> bool:
        """Whether a column has to have a value."""
        return self._missing(column) == _FAIL

    def forgives(self, column: str) -> bool:
        """Whether a field that the writer lacks is null whatever the format's rules say."""
        return self._missing(column) == "null"

    def _missing(self, column: str) -> str:
        return str(self._said["columns"].get(column, {}).get("missing", ""))
