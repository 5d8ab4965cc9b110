"""The parts of a flow: what is expected of its records, how often it looks for them, and its table."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rivermouth.extend import find_kind
from rivermouth.spec.kinds import Action
from rivermouth.spec.values import MOST_INT, MOST_LONG, ConfigModel, DurationS

_WORD = re.compile(r"[A-Za-z0-9_]+")
_TABLE = re.compile(r"^[A-Za-z0-9_{}-]+(\.[A-Za-z0-9_{}-]+){1,2}$")


NullValues = Literal["drop", "keep", "dead_letter"]


def _null_values(known: dict[str, Any]) -> NullValues:
    """The default of ``null_values``; ``known`` are the fields before it, as nouns or as a dump of them."""
    used = known.get("format")
    kind = used.get("type") if isinstance(used, Mapping) else getattr(used, "type", None)
    return "keep" if kind == "raw" and known.get("explode") is None else "drop"


class Expectation(ConfigModel):
    """A condition that each record should meet; it counts as met only if it is TRUE, so NULL fails.

    Attributes:
        name: Names it in counts and dead letters.
        condition: A Spark SQL expression over the table's columns.
        action: What happens to a record that fails: warn, drop, dead_letter or fail.
    """

    name: str = Field(min_length=1, max_length=100)
    condition: str = Field(min_length=1)
    action: str = "warn"

    @model_validator(mode="after")
    def _known_action(self) -> Self:
        find_kind("actions", self.action)
        return self

    @property
    def route(self) -> str:
        """Where a record goes that fails this expectation."""
        action: Action = find_kind("actions", self.action)
        return action.route


class Trigger(ConfigModel):
    """How often a flow looks for records, and how many it takes at a time.

    Attributes:
        every: Time from the start of one batch to the start of the next, with ``--follow``.
        max_offsets: The most offsets in a batch, over all partitions.
        min_offsets: Wait until there are this many offsets, but no longer than ``max_delay``.
        max_delay: Bound on the wait for ``min_offsets``.
        min_partitions: The least number of Spark tasks that read a batch.
    """

    every: DurationS = 10.0
    max_offsets: int | None = Field(default=None, gt=0, le=MOST_LONG)
    min_offsets: int | None = Field(default=None, gt=0, le=MOST_LONG)
    max_delay: DurationS | None = None
    min_partitions: int | None = Field(default=None, gt=0, le=MOST_INT)

    @model_validator(mode="after")
    def _delay_goes_with_minimum(self) -> Self:
        if self.max_delay is not None and self.min_offsets is None:
            msg = "max_delay bounds the wait for min_offsets: give min_offsets too"
            raise ValueError(msg)
        if self.min_offsets and self.max_offsets and self.min_offsets > self.max_offsets:
            greater = f"min_offsets ({self.min_offsets}) is greater than max_offsets ({self.max_offsets})"
            msg = f"{greater}: write max_offsets: {self.min_offsets}"
            raise ValueError(msg)
        return self


class Table(ConfigModel):
    """The Delta table that a flow writes; in YAML a name, or a mapping with its layout.

    Attributes:
        name: ``schema.table`` is in the lake; ``catalog.schema.table`` is also registered in that catalog. With
            ``{topic}`` in it a flow of several topics has a table for each; with ``{column}``, a flow over a table
            has one for each value of that partition column.
        max_tables: The most tables, where there are several.
        partition_by: Columns; ``{name: expression}`` derives one, for example ``{day: date(kafka_timestamp)}``.
        cluster_by: Columns for liquid clustering; not together with ``partition_by``.
        properties: Delta table properties, set when the table is created.
        comment: Comment on the table.
        column_comments: Comments by column name.
    """

    name: str
    max_tables: int = Field(default=100, gt=0)
    partition_by: tuple[str | dict[str, str], ...] = ()
    cluster_by: tuple[str, ...] = ()
    properties: dict[str, str | int | bool] = {}
    comment: str | None = None
    column_comments: dict[str, str] = {}

    @model_validator(mode="before")
    @classmethod
    def _from_name(cls, value: object) -> object:
        return {"name": value} if isinstance(value, str) else value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not _TABLE.match(self.name):
            # One word may be the table; the schema it cannot be without.
            example = f"table: bronze.{self.name}" if _WORD.fullmatch(self.name) else "table: bronze.orders"
            msg = f"{self.name!r} is no table name (schema.table or catalog.schema.table): {example}"
            raise ValueError(msg)
        if self.partition_by and self.cluster_by:
            msg = "a table is partitioned or clustered, not both: keep one of partition_by and cluster_by"
            raise ValueError(msg)
        return self
