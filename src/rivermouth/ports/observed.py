"""Rows that are counted while another action carries them on."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from py4j.java_gateway import JavaClass
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.rows.aggregates import struct_of

if TYPE_CHECKING:
    from rivermouth.rows.aggregates import Aggregate

# A code of a row has a bit for each condition, and a bigint has 63 of them.
_CONDITIONS: Final = 63
_TYPES: Final = {"sum": "BIGINT", "collect_set": "STRING", "bit_xor": "BIGINT"}


class Observed:
    """Rows with aggregates over them, which are taken in the one action that follows.

    Spark's ``observe`` stands between two stages of generated code and lays out each row in full there. Here rows are
    counted within the generated code. Where our classes are missing, in a JVM or on executors of others, and for
    more conditions than a number has bits, it is ``observe`` after all.

    Args:
        rows: A frame.
        aggregates: What to count, by name; of each kind but ``count_if`` at most one.

    Attributes:
        rows: The same rows, to be carried on by exactly one action: each further one would count again.
    """

    def __init__(self, rows: DataFrame, aggregates: dict[str, Aggregate]) -> None:
        self._aggregates = aggregates
        self._conditions = [name for name, each in aggregates.items() if each.kind == "count_if"]
        java = getattr(rows.sparkSession._jvm, "rivermouth.plan.Observer")  # noqa: SLF001
        self._observation: Observation | None = None
        there = isinstance(java, JavaClass) and java.reaches(rows._jdf)  # noqa: SLF001
        if there and len(self._conditions) <= _CONDITIONS:
            self._observer = java()
            found = self._observer.over(rows._jdf, self._code(), *(self._of(kind) for kind in _TYPES))  # noqa: SLF001
            self.rows = DataFrame(found, rows.sparkSession)
        else:
            self._observation = Observation()
            self.rows = rows.observe(self._observation, F.expr(f"{struct_of(aggregates)} AS observed"))

    def get(self) -> dict[str, Any]:
        """The aggregates by name, once the action is done."""
        if self._observation is not None:
            found: dict[str, Any] = self._observation.get["observed"].asDict()
            return found
        counts, total, mark, marked, members = self._observer.value().split("\n")
        rows = [tuple(map(int, each.split(":"))) for each in counts.split(",") if each]
        others = {"sum": int(total), "bit_xor": int(mark) if marked == "true" else None, "collect_set": members}
        bits = {name: 1 << place for place, name in enumerate(self._conditions)}
        return {
            name: others[each.kind] if each.kind in others else sum(n for code, n in rows if code & bits[name])
            for name, each in self._aggregates.items()
        }

    def _code(self) -> str:
        conditions = (self._aggregates[name].of for name in self._conditions)
        bits = [f"IF({condition}, {1 << place}L, 0L)" for place, condition in enumerate(conditions)]
        return " + ".join(bits) or "0L"

    def _of(self, kind: str) -> str:
        found = [each.of for each in self._aggregates.values() if each.kind == kind]
        if len(found) > 1:
            msg = f"at most one {kind} can be observed at a time"
            raise ValueError(msg)
        return f"CAST({found[0] if found else 'NULL'} AS {_TYPES[kind]})"
