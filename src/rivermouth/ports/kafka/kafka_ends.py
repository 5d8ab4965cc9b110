"""Where topics end, asked once by the options of Spark's Kafka source."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError

from rivermouth.decoding.jvm.java_objects import java_class

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Ends = Mapping[str, Mapping[str, int]]
"""Offsets by topic and number of the partition, as Spark writes the position of a Kafka source."""
_BOUNDS: Final = {"default.api.timeout.ms": "10000", "request.timeout.ms": "5000"}
_PREFIX: Final = "kafka."
_ISOLATION: Final = "isolation.level"


class KafkaEnds:
    """Asks clusters where topics end, once for each set of options and topics; all callers share the answer.

    Args:
        spark: A session.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._known: dict[tuple[tuple[str, str], ...], Ends | None] = {}
        self._lock = threading.Lock()

    def of(self, sources: Sequence[Mapping[str, str]]) -> Ends | None:
        """Where the topics end that Kafka sources of one query read; None where that cannot be known.

        Args:
            sources: The options of each.
        """
        found: dict[str, Mapping[str, int]] = {}
        for options in sources:
            ends = self._of_one({name.lower(): value for name, value in options.items()})
            if ends is None or any(topic in found for topic in ends):
                return None
            found |= ends
        return found

    def _of_one(self, options: Mapping[str, str]) -> Ends | None:
        """None also where Kafka does not answer: the query itself says why."""
        topics = sorted({each.strip() for each in options.get("subscribe", "").split(",") if each.strip()})
        if not topics:
            return None
        client = {name.removeprefix(_PREFIX): value for name, value in options.items() if name.startswith(_PREFIX)}
        key = (*sorted(client.items()), *((topic, "") for topic in topics))
        with self._lock:
            if key not in self._known:
                self._known[key] = self._asked(client, topics)
            return self._known[key]

    def _asked(self, client: Mapping[str, str], topics: Sequence[str]) -> Ends | None:
        try:
            admin = java_class(self._spark, "rivermouth.kafka.Topics")({**_BOUNDS, **client})
            try:
                text: str = admin.ends(list(topics), client.get(_ISOLATION) == "read_committed")
            finally:
                admin.close()
        except Py4JJavaError:
            return None
        found: dict[str, dict[str, int]] = {topic: {} for topic in topics}
        for line in text.splitlines():
            topic, partition, offset = line.split("\t")
            found[topic][partition] = int(offset)
        return found
