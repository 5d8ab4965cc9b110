"""While flows follow: whether their cluster answers, and how many of their records become dead letters."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth.domain.ledger.ledger import MANY_DEAD_LETTERS
from rivermouth.engine.events import BrokerAway, BrokerBack, DeadLettersMany, Event, LetterReason
from rivermouth.errors import RivermouthError
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.spark.session import has_ended

if TYPE_CHECKING:
    from rivermouth.engine.flow.jobs import Job
    from rivermouth.engine.flow.running import FlowContext, FlowRun

# A broker that is away is reported after the sum of these two, and the time to find out why, at most.
_ASK_EVERY_S: Final = 2.0
_ANSWER_S: Final = 3.0
_SAY_EVERY_S: Final = 30.0
_LETTERS_EVERY_S: Final = 60.0
_REASONS: Final = 3


class BrokerWatch(threading.Thread):
    """Asks a cluster for its id every few seconds, and reports when it does not answer and when it does again.

    Spark itself waits for minutes before it says so.

    Args:
        bootstrap_servers: The cluster.
        options: Its client options, resolved.
        tell: Gets the events.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], tell: Callable[[Event], None]) -> None:
        super().__init__(name="broker-watch", daemon=True)
        self._servers = bootstrap_servers
        self._options = options
        self._tell = tell
        self._over = threading.Event()
        self._since: float | None = None
        self._told_at = 0.0

    def end(self) -> None:
        """Asks no more. Returns at once."""
        self._over.set()

    def run(self) -> None:
        """Watches until ``end`` is called."""
        with Kafka(self._servers, self._options, _ANSWER_S) as kafka:
            while not self._over.wait(_ASK_EVERY_S):
                asked_at = time.time()
                try:
                    kafka.cluster_id()
                except RivermouthError as error:
                    self._away(error, asked_at)
                else:
                    self._back()

    def _away(self, error: RivermouthError, asked_at: float) -> None:
        now = time.time()
        self._since = asked_at if self._since is None else self._since
        if self._over.is_set() or (self._told_at and now - self._told_at < _SAY_EVERY_S):
            return
        self._told_at = now
        since = dt.datetime.fromtimestamp(self._since, dt.UTC).isoformat(timespec="seconds")
        reason = str(error.facts.get("reason") or error.message)
        self._tell(BrokerAway("", self._servers, since, round(now - self._since, 1), reason))

    def _back(self) -> None:
        if self._since is not None:
            self._tell(BrokerBack("", self._servers, round(time.time() - self._since, 1)))
        self._since, self._told_at = None, 0.0


@contextmanager
def watching(jobs: Sequence[Job], tell: Callable[[Event], None]) -> Iterator[None]:
    """Watches the cluster that these flows read while the block lasts; does nothing where none reads one."""
    readers = [each for each in jobs if each.source is None and getattr(each, "snapshots", None) is None]
    if not readers:
        yield
        return
    watch = BrokerWatch(readers[0].bootstrap_servers, readers[0].options, tell)
    watch.start()
    try:
        yield
    finally:
        watch.end()


class LetterWatch:
    """Reports when more than ``MANY_DEAD_LETTERS`` of a flow's new records went to the dead letters.

    Args:
        run: The flow, opened; its newest entry is complete.
    """

    def __init__(self, run: FlowRun) -> None:
        self._run = run
        self._entry = run.entry.number
        self._totals = run.entry.totals
        if run.position.counts is not None:
            self._totals += run.position.counts
        self._looked_at = time.monotonic()

    def look_now_and_then(self) -> None:
        """Looks if that was long ago and something came; costs nothing else."""
        if time.monotonic() - self._looked_at >= _LETTERS_EVERY_S:
            self.look()

    def look(self) -> None:
        """Looks at what came since the last look."""
        run, position = self._run, self._run.position
        if position.counts is None or position.entry.number == self._entry:
            return
        self._looked_at = time.monotonic()
        totals, since = position.entry.totals + position.counts, self._entry
        new = totals - self._totals
        self._entry, self._totals = position.entry.number, totals
        rows = new.consumed + new.exploded
        if new.dead_lettered > MANY_DEAD_LETTERS * rows:
            reasons, place = _reasons(run.context, since), run.places.dead_letter_table
            run.emit(
                DeadLettersMany(
                    run.flow.name, new.dead_lettered, rows, reasons, table=place, debug=bool(run.places.option)
                )
            )


def _reasons(context: FlowContext, since: int) -> tuple[LetterReason, ...]:
    """The most frequent reasons of the dead letters after an entry; none where they cannot be read."""
    columns = ("reason", "field", "failed_expectations")
    try:
        letters = context.dead_letters.after(since)
        found = letters.groupBy(*columns).count().orderBy(F.desc("count"), *columns).limit(_REASONS).collect()
    except (PySparkException, Py4JJavaError):
        # The next batch says what is wrong with the lake; the share is reported all the same.
        if has_ended(context.spark):
            raise
        return ()
    return tuple(LetterReason(row[0], row[1], tuple(row[2] or ()), row[3]) for row in found)
