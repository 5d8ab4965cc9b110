"""Records of windows read through librdkafka, without a Spark session and without joining a group."""

from __future__ import annotations

import time
import uuid
from typing import TYPE_CHECKING, Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from rivermouth.decoding.registry import schema_headers
from rivermouth.domain.ledger.sampling import Record
from rivermouth.ports.kafka.kafka_client import KafkaClient, option_refused

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from rivermouth.domain.ledger.sampling import Window

_AT_ONCE: Final = 1000
_POLL_S: Final = 0.2
# Of windows that are read one after the other most of what is fetched ahead is for nothing.
_AHEAD_KIB: Final = 4096
_DEFAULTS: Final = {
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "enable.partition.eof": True,
    "auto.offset.reset": "earliest",
    "check.crcs": True,
    "fetch.wait.max.ms": 50,
}


def read_windows(
    client: KafkaClient, isolation: str, windows: Sequence[Window], *, headers: bool = False
) -> Iterator[Record]:
    """The records of ``windows``, one window a partition; of each partition in the order of their offsets.

    Where an offset of a window is gone, compacted for example, the next one that is there counts, up to its end.

    Args:
        client: Of the cluster.
        isolation: As Kafka's ``isolation.level``.
        windows: What is read.
        headers: Whether records say that a header has the id of a schema.

    Raises:
        BrokerUnreachable: Nothing came in time.
        KafkaRefused: The broker does not let this client read.
        KafkaOptionRefused: librdkafka does not take one of the options.
    """
    open_windows = {(window.topic, window.partition): window for window in windows if window.end > window.start}
    if not open_windows:
        return
    consumer = _consumer(client, isolation, ahead=max(window.records for window in windows) <= _AT_ONCE)
    try:
        consumer.assign([TopicPartition(each.topic, each.partition, each.start) for each in open_windows.values()])
        left = {place: window.records for place, window in open_windows.items()}
        while left:
            done = []
            for message in _some(client, consumer):
                place = (str(message.topic()), int(message.partition() or 0))
                if place not in left:
                    continue
                record, end = _record(client, message, place, headers=headers), open_windows[place].end
                within = record is not None and record.offset < end
                if record is not None and within:
                    left[place] -= 1
                    yield record
                if record is None or not within or left[place] <= 0 or record.offset + 1 >= end:
                    del left[place]
                    done.append(TopicPartition(*place))
            if done and left:
                consumer.incremental_unassign(done)
    finally:
        consumer.close()


def _some(client: KafkaClient, consumer: Consumer) -> list[Message]:
    """The next messages, ends of partitions among them.

    Raises:
        BrokerUnreachable: None came in time.
    """
    deadline = time.monotonic() + client.timeout_s
    while time.monotonic() < deadline:
        # That this client may not join a group is nothing to it: none is joined.
        messages = [each for each in consumer.consume(_AT_ONCE, timeout=_POLL_S) if not _is_about_groups(each)]
        if messages:
            return messages
    raise client.unanswered("the records of a partition")


def _is_about_groups(message: Message) -> bool:
    error = message.error()
    return error is not None and "GROUP" in error.name()


def _record(client: KafkaClient, message: Message, place: tuple[str, int], *, headers: bool) -> Record | None:
    """The record that a message is; None where it says that the partition ends here.

    Raises:
        RivermouthError: It is an error of the partition's own.
    """
    error = message.error()
    if error is None:
        # librdkafka's types allow for a message without coordinates, which only an error is.
        key, value = message.key(), message.value()
        listed: Any = message.headers() if headers else None
        return Record(*place, int(message.offset() or 0), key, value, schema_headers.has_id(listed))
    if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - the library's own name for it
        return None
    raise client.failure(error, f"records of {place[0]}-{place[1]}")


def _consumer(client: KafkaClient, isolation: str, *, ahead: bool) -> Consumer:
    config = {
        **client.config,
        **_DEFAULTS,
        "isolation.level": isolation,
        # A name for the client alone: nothing is committed under it.
        "group.id": f"rivermouth-look-{uuid.uuid4().hex}",
        **({"queued.max.messages.kbytes": _AHEAD_KIB} if ahead else {}),
    }
    try:
        return Consumer(config)
    except KafkaException as error:
        raise option_refused(error) from None
