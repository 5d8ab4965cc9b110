"""Rows that are counted while another action processes them."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.decoding.jvm.java_objects import java_class, java_frame
from rivermouth.domain.ledger.undeclared_names import most_frequent
from rivermouth.rows.columns.aggregates import BETWEEN_NAMES, struct_of

if TYPE_CHECKING:
    from rivermouth.rows.columns.aggregates import Aggregate

# A code of a row has a bit for each condition, and a bigint has 63 of them.
_CONDITIONS: Final = 63
_PASSES: Final = "__passes"
_OBSERVER: Final = "rivermouth.internals.plan.Observer"
_STAGE_OBSERVER: Final = "rivermouth.internals.plan.StageObserver"
_TYPES: Final = {"sum": "BIGINT", "collect_set": "STRING", "bit_xor": "BIGINT", "count_each": "STRING"}


class _Sums:
    """Aggregates as our classes take them: SQL over a row, and the way back from what they say."""

    def __init__(self, aggregates: dict[str, Aggregate]) -> None:
        self._aggregates = aggregates
        self.conditions = [name for name, each in aggregates.items() if each.kind == "count_if"]

    @property
    def sql(self) -> list[str]:
        """Code, summand, member, mark and names of a row."""
        bits = [f"IF({self._aggregates[name].of}, {1 << place}L, 0L)" for place, name in enumerate(self.conditions)]
        return [" + ".join(bits) or "0L", *(self._of(kind) for kind in _TYPES)]

    def read(self, told: str) -> dict[str, Any]:
        """The aggregates by name."""
        counts, total, mark, marked, members, named = told.split("\n", 5)  # a name may hold another one
        pairs = named.split(BETWEEN_NAMES)
        each_name = dict(zip(pairs[::2], map(int, pairs[1::2]), strict=False))
        others: dict[str, Any] = {"sum": int(total), "bit_xor": int(mark) if marked == "true" else None}
        others |= {"collect_set": members, "count_each": most_frequent(each_name)}
        found = self.read_counts(counts)
        return {
            name: others[each.kind] if each.kind in others else found[name] for name, each in self._aggregates.items()
        }

    def read_counts(self, counts: str) -> dict[str, int]:
        """The numbers of rows by condition, of rows by code."""
        rows = [tuple(map(int, each.split(":"))) for each in counts.split(",") if each]
        return {
            name: sum(count for code, count in rows if code & 1 << place) for place, name in enumerate(self.conditions)
        }

    def read_row(self, found: dict[str, Any]) -> dict[str, Any]:
        """The aggregates by name, of what Spark observed."""
        each_name = {
            name: most_frequent(Counter(filter(None, (found[name] or "").split(BETWEEN_NAMES))))
            for name, each in self._aggregates.items()
            if each.kind == "count_each"
        }
        return found | each_name

    def _of(self, kind: str) -> str:
        found = [each.of_row for each in self._aggregates.values() if each.kind == kind]
        if len(found) > 1:
            msg = f"at most one {kind} can be observed at a time"
            raise ValueError(msg)
        return f"CAST({found[0] if found else 'NULL'} AS {_TYPES[kind]})"


class Observed:
    """Rows with aggregates over them, which are computed in the one action that follows.

    Spark's ``observe`` separates two stages of generated code and writes each row in full between them. Here rows are
    counted within the generated code. For more conditions than a number has bits, and over sources that apply Spark's
    filters themselves, ``observe`` is used all the same.

    Args:
        rows: A frame.
        aggregates: What to count, by name; of each kind but ``count_if`` at most one.

    Attributes:
        rows: The same rows, to be processed by exactly one action: each further one would count again.
    """

    def __init__(self, rows: DataFrame, aggregates: dict[str, Aggregate]) -> None:
        self._sums = _Sums(aggregates)
        self._observation: Observation | None = None
        java = java_class(rows.sparkSession, _OBSERVER)
        if len(self._sums.conditions) <= _CONDITIONS and not java.isFilteredBySource(java_frame(rows)):
            self._observer = java()
            self.rows = DataFrame(self._observer.over(java_frame(rows), *self._sums.sql), rows.sparkSession)
        else:
            self._observation = Observation()
            self.rows = rows.observe(self._observation, F.expr(f"{struct_of(aggregates)} AS observed"))

    def get(self) -> dict[str, Any]:
        """The aggregates by name, once the action is done."""
        if self._observation is not None:
            return self._sums.read_row(self._observation.get["observed"].asDict())
        return self._sums.read(self._observer.value())


class ObservedStream:
    """Rows of a streaming query that are counted in each of its batches, below whatever the query does with them.

    Args:
        rows: A streaming frame, or that of a batch.
        aggregates: What to count, by name; each a ``count_if``.

    Attributes:
        rows: The same rows. Of several actions that read them, the one that read most of them counts.
    """

    def __init__(self, rows: DataFrame, aggregates: dict[str, Aggregate]) -> None:
        parts = list(aggregates.items())
        self._parts: list[tuple[_Sums, Any]] = []
        for first in range(0, len(parts), _CONDITIONS):
            sums = _Sums(dict(parts[first : first + _CONDITIONS]))
            observer = java_class(rows.sparkSession, _STAGE_OBSERVER)()
            found = observer.over(java_frame(rows), _PASSES, sums.sql[0])
            rows = DataFrame(found, rows.sparkSession)
            self._parts.append((sums, observer))
        self.rows = rows

    def reset(self) -> None:
        """Begins to count from 0."""
        for _, observer in self._parts:
            observer.reset()

    def get(self) -> dict[str, Any]:
        """The counts by name since then, once an action is done."""
        return {
            name: count for sums, observer in self._parts for name, count in sums.read_counts(observer.value()).items()
        }


class ObservedEach:
    """As ``Observed`` for rows of many, each with aggregates of its own.

    Args:
        rows: A frame.
        number: Column that says whose a row is, from 0; an int and never null.
        count: How many they are.
        aggregates: What to count, by name; as of ``Observed``, and of conditions at most 63.

    Attributes:
        rows: The same rows, to be processed by exactly one action.
    """

    def __init__(self, rows: DataFrame, number: str, count: int, aggregates: dict[str, Aggregate]) -> None:
        self._sums = _Sums(aggregates)
        if len(self._sums.conditions) > _CONDITIONS:
            msg = f"at most {_CONDITIONS} conditions can be observed at a time"
            raise ValueError(msg)
        java = java_class(rows.sparkSession, _OBSERVER)
        self._observers = [java() for _ in range(count)]
        found = java.overEach(self._observers, java_frame(rows), number, *self._sums.sql)
        self.rows = DataFrame(found, rows.sparkSession)

    def get(self, number: int) -> dict[str, Any]:
        """The aggregates of one of them by name, once the action is done."""
        return self._sums.read(self._observers[number].value())
