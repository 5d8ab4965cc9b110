"""Kafka's transactions: the records of a batch and the ledger entry that says so, in one commit.

The producer is Java's, in Spark's driver: it takes the options of Spark's own writer, and its classes for logins.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Self

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException

from rivermouth.decoding.jvm.java_objects import java_class, java_frame
from rivermouth.encoding.fields import unwritable
from rivermouth.errors import (
    KafkaOptionRefused,
    RivermouthError,
    SinkFenced,
    SinkRecordInvalid,
    SinkRecordTooLarge,
    SinkRefused,
    SinkTopicDiffers,
    SinkTopicMissing,
    SinkUnreachable,
    SinkValueInvalid,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.kafka.sink_options import KafkaSinkOptions

_LEDGER_SETTINGS: Final = {"cleanup.policy": "compact"}
_ADMIN: Final = {"default.api.timeout.ms": "30000"}
"""Not less than Kafka's ``request.timeout.ms``."""
_KAFKA: Final = "org.apache.kafka."
_FENCED: Final = ("ProducerFencedException", "InvalidProducerEpochException", "FencedInstanceIdException")
_ENDED: Final = ("InvalidTxnStateException", "InvalidPidMappingException", "UnknownProducerIdException")
_TOO_LARGE: Final = ("RecordTooLargeException", "RecordBatchTooLargeException")
_MISSING: Final = ("UnknownTopicOrPartitionException", "InvalidTopicException")
_RETRIABLE: Final = "org.apache.kafka.common.errors.RetriableException"
_UNRESOLVED: Final = "No resolvable bootstrap urls"
"""A broker that is away may have no address meanwhile; Kafka calls that a wrong option."""
_DEEPEST: Final = 10
_LONGEST_NAME: Final = 200
"""Kafka takes names of topics up to 249 characters."""


@dataclass(frozen=True, slots=True)
class SinkNames:
    """What the writes of one flow into one sink are called.

    Attributes:
        flow: The flow's name.
        sink: The sink's name.
        transactional_id: Of its producer: the same in every run, and of no other flow.
        creates: What a user writes so that the sink creates its topic.
    """

    flow: str
    sink: str
    transactional_id: str
    creates: str = 'add "topic.partitions": "3" to the options of the sink, and the topic is created'

    @classmethod
    def of(cls, flow: str, sink: str, called: str, place: str) -> Self:
        """Names with a transactional id that begins with ``rivermouth-``, and that Kafka takes.

        Args:
            flow: The flow's name.
            sink: The sink's name.
            called: What the id says to people.
            place: Of the flow's state or table: two flows of one name in two lakes have two ids.
        """
        readable = re.sub(r"[^A-Za-z0-9._-]", "_", called)[:_LONGEST_NAME]
        return cls(flow, sink, f"rivermouth-{readable}-{hashlib.sha256(place.encode()).hexdigest()[:8]}")

    @property
    def ledger_topic(self) -> str:
        """The topic with the flow's ledger entries."""
        return f"{self.transactional_id}-ledger"


@dataclass(frozen=True, slots=True)
class SinkCluster:
    """The cluster of a sink, as one flow writes to it.

    Attributes:
        spark: A session.
        options: Of the sink.
        names: What the writes of the flow are called.
    """

    spark: SparkSession
    options: KafkaSinkOptions
    names: SinkNames

    def ensure_topics(self, *, ledger: bool) -> None:
        """Creates the sink's topic where its options ask for it, and the one of the ledger.

        Raises:
            SinkTopicDiffers: The topic is there, with other settings than the sink asks for.
            SinkUnreachable, SinkRefused, KafkaOptionRefused: The cluster cannot be used.

        Guarantees:
            Run twice: the second time creates none.
        """
        with self.failures():
            topics = java_class(self.spark, "rivermouth.kafka.Topics")({**_ADMIN, **self.options.client})
            try:
                if ledger and topics.partitions(self.names.ledger_topic) == 0:
                    topics.create(self.names.ledger_topic, 1, 0, _LEDGER_SETTINGS)
                self._ensure_topic(topics)
            finally:
                topics.close()

    def newest_entry(self) -> str | None:
        """The text of the newest committed ledger entry; None before the first. The ledger topic is there."""
        with self.failures():
            newest = java_class(self.spark, "rivermouth.kafka.LedgerTopic").newest
            found: str | None = newest(self.options.client, self.names.ledger_topic)
            return found

    def _ensure_topic(self, topics: Any) -> None:
        options = self.options
        if options.topic is None or not options.creation:
            return
        if topics.partitions(options.topic) == 0:
            settings = options.topic_settings
            topics.create(options.topic, options.partitions, options.replication_factor, settings)
            return
        wanted = {name: (topics.setting(options.topic, name), each) for name, each in options.topic_settings.items()}
        if options.partitions:
            wanted["partitions"] = (str(topics.partitions(options.topic)), str(options.partitions))
        for setting, (found, each) in wanted.items():
            if found != each:
                facts = {"topic": options.topic, "setting": setting, "found": found, "wanted": each}
                raise SinkTopicDiffers(flow=self.names.flow, **facts)

    @contextmanager
    def failures(self) -> Iterator[None]:
        """Errors of Kafka's Java client in the block become ours; others stay as they are."""
        try:
            yield
        except Py4JJavaError as error:
            found = self._failure(error)
            if found is None:
                raise
            raise found from error
        except PySparkException as error:
            if (why := unwritable(str(error))) is None:
                raise
            raise SinkValueInvalid(flow=self.names.flow, sink=self.names.sink, detail=why) from error

    def _failure(self, error: Py4JJavaError) -> RivermouthError | None:
        """Kafka's error as ours; None of an error that is none of Kafka's."""
        java, first = error.java_exception, error.java_exception
        kind = str(first.getClass().getName())
        if kind.startswith("org.apache.spark."):  # of the rows themselves, which may be read from Kafka too
            return None
        for _ in range(_DEEPEST):
            name = str(java.getClass().getName())
            if name.startswith(_KAFKA) and name != "org.apache.kafka.common.KafkaException":
                return self._kafkas(name.rsplit(".", 1)[-1], str(java.getMessage()), passing=_is_retriable(java))
            if java.getCause() is None:
                break
            java = java.getCause()
        text = str(first.getMessage() or kind).rstrip(".")
        return self._refused(text) if kind.startswith(_KAFKA) else None

    def _kafkas(self, name: str, text: str, *, passing: bool) -> RivermouthError:
        flow, sink = self.names.flow, self.names.sink
        if name == "InvalidRecordException" or (text.startswith("Partition ") and "not present in metadata" in text):
            return SinkRecordInvalid(flow=flow, sink=sink, detail=text.rstrip("."))
        if name in _MISSING or "not present in metadata" in text:
            topic = self.options.topic or text.removeprefix("Topic ").split(" ", 1)[0]
            if not self._is_missing(topic):
                return SinkUnreachable(flow=flow, sink=sink, detail=text.rstrip("."))
            fix = f"kafka-topics.sh --create --topic {topic}" if self.options.topic is None else self.names.creates
            return SinkTopicMissing(flow=flow, topic=topic, fix=fix)
        if name in _TOO_LARGE:
            return SinkRecordTooLarge(flow=flow, sink=sink, detail=text.rstrip("."))
        if name in (*_FENCED, *_ENDED):
            return SinkFenced(flow=flow, sink=sink, detail=text.rstrip("."))
        if passing or _UNRESOLVED in text:
            return SinkUnreachable(flow=flow, sink=sink, detail=text.rstrip("."))
        if name == "ConfigException":
            option = next((each for each in self.options.client if each in text), "an option")
            reason = "Kafka's producer does not take its value with transactions"
            return KafkaOptionRefused(option=f"kafka.{option}", reason=reason, fix="correct it, or remove it")
        return self._refused(text.rstrip("."))

    def _is_missing(self, topic: str) -> bool:
        """Whether the brokers say that there is no such topic."""
        try:
            topics = java_class(self.spark, "rivermouth.kafka.Topics")({**_ADMIN, **self.options.client})
            try:
                return int(topics.partitions(topic)) == 0
            finally:
                topics.close()
        except Py4JJavaError:
            return False  # nobody says anything

    def _refused(self, text: str) -> SinkRefused:
        names = self.names
        text = text.removeprefix("Unexpected error in InitProducerIdResponse; ")
        return SinkRefused(
            flow=names.flow, sink=names.sink, detail=text, id=names.transactional_id, ledger=names.ledger_topic
        )


def _is_retriable(java: Any) -> bool:
    """Whether Kafka says of an error of its own that it may pass: a broker is away, or starts, or is no leader now."""
    kind = java.getClass()
    while kind is not None:
        if kind.getName() == _RETRIABLE:
            return True
        kind = kind.getSuperclass()
    return False


class KafkaTransactions:
    """The transactions of one flow into one sink.

    Args:
        spark: A session.
        options: Of the sink.
        names: What they are called.

    Raises:
        SinkTopicMissing, SinkTopicDiffers: The sink's topic is not there, or is another one than it asks for.
        SinkUnreachable, SinkRefused, KafkaOptionRefused: The cluster cannot be used.

    Guarantees:
        A transaction that a process before left open is completed or aborted, and that process can write no more.
    """

    def __init__(self, spark: SparkSession, options: KafkaSinkOptions, names: SinkNames) -> None:
        self._spark = spark
        self._cluster = SinkCluster(spark, options, names)
        self.names = names
        self._cluster.ensure_topics(ledger=True)
        with self._cluster.failures():
            self._producer: Any = java_class(spark, "rivermouth.kafka.Transactions")(
                options.producer, names.transactional_id
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def ledger_place(self) -> str:
        """The topic with the flow's ledger entries."""
        return self.names.ledger_topic

    def close(self) -> None:
        """Closes the producer. A transaction that is open stays so, until the next producer or the broker ends it."""
        self._producer.close()

    def newest_entry(self) -> str | None:
        """The text of the newest committed ledger entry; None before the first."""
        return self._cluster.newest_entry()

    def begin(self) -> None:
        """Begins a transaction."""
        with self._cluster.failures():
            self._producer.begin()

    def send(self, rows: DataFrame) -> int:
        """Sends rows as ``rows.kafka_records.records`` returns them; how many there were.

        Raises:
            SinkRecordTooLarge, SinkRecordInvalid: A row cannot be written.
            SinkTopicMissing, SinkUnreachable, SinkFenced, SinkRefused: The cluster does not take it.

        Guarantees:
            Nobody who reads committed records sees them before ``commit``.
        """
        with self._cluster.failures():
            return int(self._producer.send(java_frame(rows)))

    def commit(self, entry: str) -> None:
        """Commits what was sent, and the text of its ledger entry.

        Raises:
            RivermouthError: As ``send``. The next ``newest_entry`` of a new producer shows whether it was committed.

        Guarantees:
            Stopped half-way: the transaction is there with its entry, or nothing of it.
        """
        with self._cluster.failures():
            self._producer.commit(self.names.ledger_topic, self.names.flow, entry)

    def abandon(self) -> None:
        """Aborts the transaction that is open, and closes the producer."""
        self._producer.abandon()
