"""What a topic has that was copied from one of orders, as a reader of committed records sees it."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, TopicPartition

from bench import records
from bench.groups import WrongRows

# One of this number of values is decoded.
_LOOKED_INTO = 1000
_TIMEOUT_S = 60.0
_POLL_S = 0.5


def reader(servers: str, topic: str, partitions: int) -> Consumer:
    """A consumer of all of the topic from its beginning; it does not wait for large fetches."""
    consumer = Consumer(
        {
            "bootstrap.servers": servers,
            "group.id": "bench",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
            "isolation.level": "read_committed",
            "enable.partition.eof": True,
            "fetch.wait.max.ms": 5,
            "fetch.error.backoff.ms": 5,
        }
    )
    consumer.assign([TopicPartition(topic, partition, 0) for partition in range(partitions)])
    return consumer


def number_of(message: Message) -> int:
    """The number of the order whose copy a message is."""
    key = message.key()
    assert isinstance(key, bytes)
    return int(key) - records.FIRST


def check_copy(servers: str, topic: str, count: int) -> None:
    """Checks that the topic has each of the orders once.

    Raises:
        WrongRows: It does not, or the value of an order is another one.
    """
    times = bytearray(count)
    for message in _messages(servers, topic):
        number = number_of(message)
        if not 0 <= number < count or times[number]:
            _wrong(topic, f"order {number} came twice, or was never sent")
        times[number] = 1
        value = message.value()
        if number % _LOOKED_INTO == 0 and (value is None or json.loads(value)["order_id"] != number + records.FIRST):
            _wrong(topic, f"the value of order {number} is that of another one")
    if (found := sum(times)) != count:
        _wrong(topic, f"{found} orders, {count} were expected")


def _messages(servers: str, topic: str) -> Iterator[Message]:
    consumer = reader(servers, topic, records.PARTITIONS)
    try:
        ended: set[int | None] = set()
        deadline = time.monotonic() + _TIMEOUT_S
        while len(ended) < records.PARTITIONS:
            # It waits for that number of messages, and a topic may have fewer.
            found = consumer.consume(10_000, _POLL_S)
            if found:
                deadline = time.monotonic() + _TIMEOUT_S
            elif time.monotonic() > deadline:
                _wrong(topic, "it cannot be read to its end")
            for message in found:
                error = message.error()
                if error is None:
                    yield message
                elif error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001 - its public name
                    ended.add(message.partition())
                else:
                    raise KafkaException(error)
    finally:
        consumer.close()


def _wrong(topic: str, detail: str) -> None:
    message = f"{topic}: {detail}"
    raise WrongRows(message)
