"""Kafka as Spark reads it: frames of explicit offset ranges, and the streaming source."""

from __future__ import annotations

import json
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Self

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.domain.kafka.jaas import IAM_LOGIN
from rivermouth.domain.kafka.kafka_options import IAM_MECHANISM
from rivermouth.domain.kafka.source_topics import Topic
from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges, ends, flat, starts
from rivermouth.errors import MskJarMissing
from rivermouth.ports.kafka import kafka_records
from rivermouth.ports.kafka.kafka_cluster import spark_pattern

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.spec import Flow

# Apache 2.0; not one of our jars: only users of Amazon MSK need it.
_IAM_PACKAGE: Final = "software.amazon.msk:aws-msk-iam-auth:2.3.9"
LAST_OFFSET: Final = 2**63 - 1
FETCHES: Final[Mapping[str, str]] = {
    # Fewer, larger fetches: one poll of the default 500 records costs more than its records.
    "max.poll.records": "50000",
    "max.partition.fetch.bytes": str(16 << 20),
    "fetch.max.bytes": str(64 << 20),
    # Spark fetches what it knows to be there, so only the fetch ahead of its last one ever waits at the log's
    # end; and until that one is answered the broker answers nothing else on the connection. Kafka's default is half
    # a second.
    "fetch.max.wait.ms": "5",
    "receive.buffer.bytes": str(1 << 20),
}
"""How a reader fetches, where nobody says otherwise."""
_CLIENT_DEFAULTS: Final[Mapping[str, str]] = {**FETCHES, "isolation.level": "read_committed"}


def _new_group() -> str:
    # The prefix that Spark itself gives, for which a secured cluster may have a rule.
    return f"spark-kafka-relation-{uuid.uuid4()}"


@dataclass(frozen=True, slots=True)
class KafkaSource:
    """How to reach one cluster from Spark.

    Attributes:
        bootstrap_servers: ``host:port``, several are separated by commas.
        options: Client options without a ``kafka.`` prefix, resolved and checked.
        headers: Whether frames have a ``headers`` column.
        min_partitions: The least number of tasks that read a frame.
        group_id: Under which Spark keeps the consumers of frames of ranges. One for all frames of a source: with
            one each, as Spark would have it, no frame finds the consumers of the one before, and what Spark
            keeps of them grows with every frame. Nothing is ever committed to it.
        first_at: The first offset of these topics from a timestamp (ms) on, of those partitions that have one. Asked
            once a partition: records from ``kafka_records.OVERFLOW_MS`` on are read by a class of ours, as are those
            behind them. None: nobody is asked, and Spark fails at such a record.
    """

    bootstrap_servers: str
    options: Mapping[str, str] = field(default_factory=dict, repr=False)
    headers: bool = True
    min_partitions: int | None = None
    group_id: str = field(default_factory=_new_group)
    first_at: Callable[[Mapping[str, Topic], int], Offsets] | None = field(default=None, repr=False, compare=False)
    _overflowing: Offsets = field(default_factory=dict, repr=False, compare=False)

    def check_login(self, spark: SparkSession) -> None:
        """Checks that the session has the class by which its client logs in.

        Raises:
            MskJarMissing: The class is Amazon's, and the session does not have it.
        """
        if self.options.get("sasl.mechanism") != IAM_MECHANISM:
            return
        if java_class(spark, IAM_LOGIN) is None:
            raise MskJarMissing(package=_IAM_PACKAGE)

    def with_new_consumers(self) -> Self:
        """The same source, but its next frame makes new consumers: one that failed may go on failing.

        What was known of timestamps is asked again.
        """
        return replace(self, group_id=_new_group(), _overflowing={})

    def with_headers(self, *, headers: bool) -> Self:
        """The same source, whose frames have a ``headers`` column or have none."""
        return replace(self, headers=headers)

    def batch(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        """The records of ``ranges`` in the columns of Spark's Kafka source; nothing is read yet."""
        self._look_for_overflows(ranges)
        cut = [(*part, self._cut(*part)) for part in flat(ranges)]
        sparks: Ranges = {}
        ours: Ranges = {}
        for topic, partition, start, end, at in cut:
            if start < at or start == end:
                sparks.setdefault(topic, {})[partition] = (start, at)
            if at < end:
                ours.setdefault(topic, {})[partition] = (at, end)
        frames = [self._read_by_spark(spark, sparks)] if sparks else []
        frames += [self._read_by_us(spark, ours)] if ours else []
        return frames[0] if len(frames) == 1 else frames[0].unionByName(frames[1])

    def has_overflows(self, ranges: Ranges) -> bool:
        """Whether a record of ``ranges`` is known to be one that Spark cannot read, or to be behind one."""
        return any(self._cut(*part) < part[-1] for part in flat(ranges))

    def _look_for_overflows(self, ranges: Ranges) -> None:
        new: dict[str, Topic] = {}
        for topic, parts in ranges.items():
            if rest := tuple(sorted(parts.keys() - self._overflowing.get(topic, {}).keys())):
                new[topic] = Topic(topic, None, rest)
        if self.first_at is None or not new:
            return
        found = self.first_at(new, kafka_records.OVERFLOW_MS)
        for topic, asked in new.items():
            none = dict.fromkeys(asked.partitions, LAST_OFFSET)
            self._overflowing.setdefault(topic, {}).update(none | found.get(topic, {}))

    def _cut(self, topic: str, partition: int, start: int, end: int) -> int:
        """The offset within a range up to which Spark itself reads."""
        first = self._overflowing.get(topic, {}).get(partition, LAST_OFFSET)
        return min(max(first, start), end)

    def _read_by_us(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        client = {**_CLIENT_DEFAULTS, **self.options, "bootstrap.servers": self.bootstrap_servers}
        found = kafka_records.frame(spark, client, ranges, self.min_partitions)
        return found if self.headers else found.drop("headers")

    def _read_by_spark(self, spark: SparkSession, ranges: Ranges) -> DataFrame:
        reader = spark.read.format("kafka").options(**self._options())
        assign = {topic: sorted(partitions) for topic, partitions in ranges.items()}
        return (
            reader.option("assign", json.dumps(assign))
            .option("startingOffsets", json.dumps(starts(ranges)))
            .option("endingOffsets", json.dumps(ends(ranges)))
            .option("kafka.group.id", self.group_id)
            .load()
        )

    def stream(self, spark: SparkSession, flow: Flow, start: Offsets) -> DataFrame:
        """The flow's records from ``start`` on, as a streaming frame; new partitions begin at their earliest.

        Args:
            spark: The flow's session.
            flow: Names the topics and the rate limits.
            start: The first offset of every partition that exists now.
        """
        options = {**self._options(), "startingOffsets": json.dumps(start), "failOnDataLoss": "true"}
        if flow.topic_pattern:
            # Spark only looks for the pattern somewhere in the name; ours matches the whole name.
            options["subscribePattern"] = spark_pattern(flow.topic_pattern)
        elif flow.assign:
            options["assign"] = json.dumps({topic: list(parts) for topic, parts in flow.assign.items()})
        else:
            options["subscribe"] = ",".join(flow.topics)
        trigger = flow.trigger
        if trigger.max_offsets:
            options["maxOffsetsPerTrigger"] = str(trigger.max_offsets)
        if trigger.min_offsets:
            options["minOffsetsPerTrigger"] = str(trigger.min_offsets)
        if trigger.max_delay:
            options["maxTriggerDelay"] = f"{round(trigger.max_delay * 1000)}ms"
        return spark.readStream.format("kafka").options(**options).load()

    def _options(self) -> dict[str, str]:
        client = {**_CLIENT_DEFAULTS, **self.options, "bootstrap.servers": self.bootstrap_servers}
        options = {f"kafka.{key}": value for key, value in client.items()}
        options["includeHeaders"] = str(self.headers).lower()
        if self.min_partitions:
            options["minPartitions"] = str(self.min_partitions)
        return options
