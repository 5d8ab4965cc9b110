"""Sending records to a topic: for trying things out, demonstrations and tests."""

from __future__ import annotations

import gzip
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from confluent_kafka import KafkaError, KafkaException, Message, Producer

from rivermouth.errors import ProduceFailed
from rivermouth.ports.kafka.kafka_client import KafkaClient, option_refused, plain
from rivermouth.ports.kafka.kafka_topics import create_topics

Header = tuple[str, bytes | None]
Record = tuple[bytes | None, bytes | None, Sequence[Header]]
"""Key, value and headers."""

_DEFAULTS: Final[Mapping[str, str | bool]] = {
    "enable.idempotence": "true",
    # The Java client's choice, so that a key lands in the partition where other producers put it.
    "partitioner": "murmur2_random",
    "linger.ms": "50",
    "queue.buffering.max.messages": "500000",
    # Only failures call back: a Python call per record would halve the rate.
    "delivery.report.only.error": True,
}
_REPORT_EVERY: Final = 10_000
_ACKNOWLEDGED_WITHIN_S: Final = 30.0


@dataclass(frozen=True, slots=True)
class Produced:
    """What was sent.

    Attributes:
        topic: The topic.
        created: Whether the topic did not exist before.
        delivered: Records that the broker has acknowledged.
        without_key: Those whose line has no such field, or is no JSON object: their key is null.
        seconds: From the first record to the last acknowledgement.
    """

    topic: str
    created: bool
    delivered: int
    without_key: int
    seconds: float

    @property
    def rows_per_s(self) -> float:
        """Acknowledged records a second; 0 where nothing was sent."""
        return self.delivered / self.seconds if self.seconds > 0 else 0.0


@dataclass(frozen=True, slots=True)
class ProduceSettings:
    """How records are sent.

    Attributes:
        partitions: Of a topic that is created.
        timeout_s: Bound on reaching the broker, and on the time that a record waits for its acknowledgement (at least
            30 s), in seconds.
        on_progress: Called now and then with the number of records handed over so far.
    """

    partitions: int = 1
    timeout_s: float = 10.0
    on_progress: Callable[[int], None] | None = None


DEFAULT_SETTINGS: Final = ProduceSettings()


def produce(
    bootstrap_servers: str,
    options: Mapping[str, str],
    topic: str,
    lines: Iterable[bytes | Record],
    key_field: str | None = None,
    how: ProduceSettings = DEFAULT_SETTINGS,
) -> Produced:
    """Sends each line as one record, as it is: a line that is no JSON is sent too, for others to refuse.

    Args:
        bootstrap_servers: ``host:port``, several are separated by commas.
        options: Options as a user writes them, in the Java client's words, references already expanded.
        topic: Created if it does not exist.
        lines: Values without line end; or (key, value, headers), which are sent untouched.
        key_field: Top-level field whose value becomes the key: text as UTF-8, other values as compact JSON.
            Where a line has no such field, where it is null, or where the line is no JSON object, the key is
            null and the record is counted in ``without_key``: a stream of test data goes on.
        how: Partitions of a topic that is created, bounds, and who hears of progress.

    Raises:
        BrokerUnreachable: No broker answered; nothing was sent.
        KafkaRefused: The broker does not let this client in, or does not create the topic; nothing was sent.
        ProduceFailed: Records were not acknowledged.

    Guarantees:
        Idempotent within one call: a record that the client sends again by itself is stored once, in order.
        Run twice, every record is there twice. Stopped half-way, what was acknowledged stays.
    """
    client = KafkaClient(bootstrap_servers, options, how.timeout_s)
    created = create_topics(client, [topic], partitions=how.partitions)[topic]
    sender = _Sender(client, topic)
    begin = time.monotonic()
    without_key = 0
    for line in lines:
        key, value, headers = (_key(line, key_field), line, ()) if isinstance(line, bytes) else line
        without_key += key is None and key_field is not None
        sender.send(key, value, headers)
        if how.on_progress is not None and sender.sent % _REPORT_EVERY == 0:
            how.on_progress(sender.sent)
    sender.finish()
    return Produced(topic, created, sender.sent, without_key, time.monotonic() - begin)


def read_lines(source: str) -> Iterator[bytes]:
    """The lines of a file without their ends; blank ones are left out. See ``numbered_lines``."""
    return (line for _, line in numbered_lines(source))


def numbered_lines(source: str) -> Iterator[tuple[int, bytes]]:
    """The lines of a file without their ends, each with its number from 1; blank ones are left out.

    Args:
        source: A path, of a gzip file if it ends in ``.gz``; ``-`` is standard input.

    Raises:
        OSError: The file cannot be read.
    """
    if source == "-":
        yield from _lines(sys.stdin.buffer)
        return
    path = Path(source)
    with gzip.open(path, "rb") if path.suffix == ".gz" else path.open("rb") as file:
        yield from _lines(file)


def _lines(file: Iterable[bytes]) -> Iterator[tuple[int, bytes]]:
    for number, line in enumerate(file, 1):
        text = line.rstrip(b"\r\n")
        if text.strip():
            yield number, text


def _key(line: bytes, field: str | None) -> bytes | None:
    if field is None:
        return None
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        return None
    found = value.get(field) if isinstance(value, dict) else None
    if found is None:
        return None
    text = found if isinstance(found, str) else json.dumps(found, separators=(",", ":"), ensure_ascii=False)
    return text.encode(errors="surrogatepass")


class _Sender:
    """A producer that counts, and remembers the first failure."""

    def __init__(self, client: KafkaClient, topic: str) -> None:
        self.sent = 0
        self._topic = topic
        self._failed = 0
        self._detail = ""
        bound_ms = str(int(max(_ACKNOWLEDGED_WITHIN_S, client.timeout_s) * 1000))
        config = {
            "message.timeout.ms": bound_ms,
            **_DEFAULTS,
            **client.config,
            "on_delivery": self._on_delivery,
        }
        try:
            self._producer = Producer(config)
        except KafkaException as error:
            raise option_refused(error) from None

    def send(self, key: bytes | None, value: bytes | None, headers: Sequence[Header]) -> None:
        while True:
            try:
                self._producer.produce(self._topic, value, key, headers=list(headers) if headers else None)
            except BufferError:
                self._producer.poll(0.1)
                self._stop_if_failed()
            except KafkaException as error:
                self._note(error.args[0])
                break
            else:
                break
        self.sent += 1
        if self.sent % _REPORT_EVERY == 0:
            self._producer.poll(0)
            self._stop_if_failed()

    def finish(self) -> None:
        # Bounded by "message.timeout.ms". Never purged: what was handed over may have arrived, yet count as failed.
        self._producer.flush()
        if self._failed:
            raise ProduceFailed(topic=self._topic, failed=self._failed, sent=self.sent, detail=self._detail)

    def _stop_if_failed(self) -> None:
        if self._failed:
            self.finish()

    def _on_delivery(self, error: KafkaError | None, _message: Message[Any, Any]) -> None:
        if error is not None:
            self._note(error)

    def _note(self, error: KafkaError) -> None:
        self._failed += 1
        self._detail = self._detail or plain(error)
