"""A query as SELECTs over one source, as far as it is no more than that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from rivermouth.pipelines.convert.model import Step
from rivermouth.pipelines.spec import SourceLine


class NotReadable(Exception):
    """A query does something that a flow does not.

    Attributes:
        at: Where.
        reason: A sentence without its subject.
    """

    def __init__(self, at: SourceLine, reason: str) -> None:
        super().__init__(reason)
        self.at = at
        self.reason = reason


@dataclass(frozen=True, slots=True)
class Relation:
    """SELECTs over one source.

    Attributes:
        at: Where the query is written.
        options: Of Spark's Kafka source; None where a table is read.
        table: The name of the table that is read, as it is written.
        steps: In their order.
    """

    at: SourceLine
    options: Mapping[str, str] | None = None
    table: str | None = None
    steps: tuple[Step, ...] = field(default=())

    def then(self, step: Step) -> Relation:
        """The same, with a SELECT over it."""
        return replace(self, steps=(*self.steps, step))

    def over(self, inner: Relation) -> Relation:
        """The same SELECTs over another relation in the place of the table."""
        return replace(inner, at=self.at, steps=(*inner.steps, *self.steps))
