"""A Kafka cluster as ``status`` asks it, and how far a reader of its topics is behind."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Self, TypeVar

from rivermouth.engine.report.flow_status import PartitionStatus
from rivermouth.errors import BrokerUnreachable, RivermouthError
from rivermouth.ports.kafka.kafka_cluster import Kafka

if TYPE_CHECKING:
    from rivermouth.domain.ledger.offset_ranges import Offsets

Answer = TypeVar("Answer")


class AskedCluster:
    """A cluster that is asked no more once it has failed to answer.

    Args:
        bootstrap_servers: ``host:port``, several are separated by commas.
        options: Its client options, resolved.
        timeout_s: Bound on each answer.
    """

    def __init__(self, bootstrap_servers: str, options: Mapping[str, str], timeout_s: float) -> None:
        self._lock = threading.Lock()
        self._found = False
        self._failure: RivermouthError | None = None
        self._kafka: Kafka | None = None
        try:
            self._kafka = Kafka(bootstrap_servers, options, timeout_s)
        except RivermouthError as error:
            self._failure = error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._kafka is not None:
            self._kafka.close()

    def ask(self, question: Callable[[Kafka], Answer]) -> Answer:
        """The answer to ``question``.

        Raises:
            RivermouthError: The reason why there is none, this time or before.
        """
        kafka = self._reached()
        try:
            return question(kafka)
        except BrokerUnreachable as error:
            self._failure = error
            raise

    def _reached(self) -> Kafka:
        # Under a lock, so that many flows wait for one answer and not each for its own.
        with self._lock:
            if self._failure is None and self._kafka is not None and not self._found:
                try:
                    self._kafka.cluster_id()
                except RivermouthError as error:
                    self._failure = error
                self._found = True
            if self._failure is not None or self._kafka is None:
                raise self._failure or AssertionError
            return self._kafka


def partition_statuses(
    known: Offsets, ends: Offsets, reads: Mapping[str, tuple[int, ...]] | None
) -> tuple[PartitionStatus, ...]:
    """Where a reader is in each partition.

    Args:
        known: The first offset that it has not read.
        ends: Where partitions end; partitions that are not in it have no known end.
        reads: By topic the partitions that it reads, all where there are none; None if those of ``known``.
    """
    result = []
    for topic in sorted(known if reads is None else reads):
        for partition in sorted((reads or {}).get(topic) or known.get(topic, {})):
            next_offset = known.get(topic, {}).get(partition)
            end = ends.get(topic, {}).get(partition)
            lag = None if next_offset is None or end is None else max(0, end - next_offset)
            result.append(PartitionStatus(topic, partition, next_offset, end, lag))
    return tuple(result)


def whole_lag(partitions: Sequence[PartitionStatus]) -> int | None:
    """The sum of the lags; None if one is not known."""
    lags = [each.lag for each in partitions if each.lag is not None]
    return sum(lags) if len(lags) == len(partitions) else None


def furthest(partitions: Sequence[PartitionStatus]) -> PartitionStatus | None:
    """The partition with the greatest lag; None if nothing lags or lags are not known."""
    return max((each for each in partitions if each.lag), key=lambda each: each.lag or 0, default=None)
