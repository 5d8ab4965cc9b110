"""The data set: order events of exactly 385 bytes, the same ones for every contestant."""

from __future__ import annotations

import datetime as dt
import random
from collections.abc import Iterable, Iterator
from typing import Final

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic

SIZE: Final = 385
PARTITIONS: Final = 4
FIRST: Final = 100_000_000
"""The number of the first order."""

SCHEMA: Final = (
    "order_id bigint, customer_id string, sku string, quantity int, amount decimal(10,2), currency string, "
    "status string, op string, country string, created_at timestamp, updated_at timestamp, note string"
)
COLUMNS: Final = tuple(part.split()[0] for part in SCHEMA.split(", "))
# Both are checked by every contestant that checks anything; a record that fails one is a dead letter.
EXPECTATIONS: Final = (
    ("positive_amount", "amount > 0"),
    ("known_status", "status IN ('new', 'paid', 'packed', 'sent', 'returned')"),
)

_TEMPLATES: Final = 4096
_WORDS: Final = (
    *("parcel", "gift", "urgent", "fragile", "leave", "at", "the", "door", "ring", "twice", "call", "before"),
    *("delivery", "neighbour", "invoice", "customer", "asked", "for", "another", "colour", "size", "exchanged"),
    *("discount", "voucher", "applied", "address", "corrected", "by", "phone", "second", "attempt", "weekend"),
    *("evening", "morning", "reception", "backyard", "box", "keep", "upright", "glass", "ceramic", "wooden"),
)


def templates(seed: int = 7) -> list[tuple[bytes, bytes]]:
    """The text before and after the order's number; together with nine digits they are 385 bytes."""
    chance = random.Random(seed)
    start = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
    made = []
    for _ in range(_TEMPLATES):
        created = start + dt.timedelta(milliseconds=chance.randrange(30 * 86_400_000))
        updated = created + dt.timedelta(milliseconds=chance.randrange(86_400_000))
        after = (
            f',"customer_id":"c-{chance.randrange(10**6):06d}","sku":"{chance.randrange(36**8):011x}"'
            f',"quantity":{chance.randrange(1, 9)},"amount":{chance.randrange(100, 10**6) / 100:.2f}'
            f',"currency":"{chance.choice(["EUR", "USD", "GBP"])}"'
            f',"status":"{chance.choice(["new", "paid", "packed", "sent", "returned"])}"'
            f',"op":"{chance.choice("IU")}","country":"{chance.choice(["DE", "FR", "NL", "PL", "GB", "US"])}"'
            f',"created_at":"{_text(created)}","updated_at":"{_text(updated)}","note":"'
        )
        room = SIZE - len('{"order_id":') - 9 - len(after) - len('"}')
        note = ""
        while len(note) < room:
            note += chance.choice(_WORDS) + " "
        made.append((b'{"order_id":', (after + note[:room] + '"}').encode()))
    return made


def _text(moment: dt.datetime) -> str:
    return moment.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moment.microsecond // 1000:03d}Z"


def values(count: int, *, bad_every: int = 0, first: int = 0) -> Iterator[tuple[bytes, bytes]]:
    """Key and value of ``count`` records; every ``bad_every``-th is bad.

    Bad ones take turns: a document cut short, no JSON at all, an amount that is not positive, an unknown
    status. All four are found by the usual script too.
    """
    before_after = templates()
    for number in range(first, first + count):
        before, after = before_after[number % _TEMPLATES]
        digits = b"%d" % (FIRST + number)
        value = before + digits + after
        if bad_every and number % bad_every == bad_every - 1:
            value = _spoiled(value, number // bad_every % 4)
        yield digits, value


def _spoiled(value: bytes, kind: int) -> bytes:
    if kind == 0:
        return value[: len(value) // 2]
    if kind == 1:
        return b"<html>502 Bad Gateway</html>"
    field, spoiled = ((b'"amount":', b'"amount":-'), (b'"status":"', b'"status":"un'))[kind - 2]
    return value.replace(field, spoiled)


RARE: Final = tuple(f"rare_{number:03d}" for number in range(200))
"""Fields that one record in a thousand has."""


def values_with_rare_fields(count: int) -> Iterator[tuple[bytes, bytes]]:
    """The same, and in every thousand of them each of the rare fields once, somewhere."""
    chance = random.Random(13)
    places: list[int] = []
    for key, value in values(count):
        if not places:
            places = chance.sample(range(1000), 1000)
        rare = places.pop()
        yield key, value[:-1] + b',"%s":%d}' % (RARE[rare].encode(), rare) if rare < len(RARE) else value


KINDS: Final = tuple(f"kind_{number:02d}" for number in range(32))
"""Of events that are routed; each is as frequent as the others."""
KINDS_SCHEMA: Final = f"kind string, {SCHEMA}"


def values_of_kinds(count: int) -> Iterator[tuple[bytes, bytes]]:
    """The same, each of a kind."""
    chance = random.Random(17)
    for key, value in values(count):
        yield key, b'{"kind":"%s",' % chance.choice(KINDS).encode() + value[1:]


def bad(count: int, bad_every: int) -> int:
    """How many of ``count`` records are bad."""
    return count // bad_every if bad_every else 0


CUSTOMERS: Final = 100_000


def customer(number: int) -> str:
    """The id of a customer of ``values_of_customers``."""
    return f"c-{number:06d}"


def values_of_customers(count: int) -> Iterator[tuple[bytes, bytes]]:
    """The same, each of a customer among ``CUSTOMERS``."""
    chance = random.Random(19)
    start = len(b'{"order_id":') + 9 + len(b',"customer_id":"')
    for key, value in values(count):
        one = customer(chance.randrange(CUSTOMERS)).encode()
        yield key, value[:start] + one + value[start + len(one) :]


def create(servers: str, topic: str, partitions: int = PARTITIONS) -> None:
    """Makes the topic."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    admin.create_topics([NewTopic(topic, num_partitions=partitions, replication_factor=1)])[topic].result(30)


def delete(servers: str, topic: str) -> None:
    """Takes the topic away."""
    admin = AdminClient({"bootstrap.servers": servers, "log_level": 3})
    admin.delete_topics([topic])[topic].result(30)


def producer(servers: str) -> Producer:
    """A producer for filling topics; it does not compress, so that no contestant pays for unpacking."""
    return Producer(
        {
            "bootstrap.servers": servers,
            "log_level": 3,
            "linger.ms": 20,
            "batch.size": 1_000_000,
            "queue.buffering.max.messages": 400_000,
            "queue.buffering.max.kbytes": 400_000,
        }
    )


def fill(servers: str, topic: str, count: int, *, bad_every: int = 0, first: int = 0) -> None:
    """Makes the topic and fills it, record by record into one partition after the other."""
    send_in_turns(servers, topic, values(count, bad_every=bad_every, first=first))


def send_in_turns(servers: str, topic: str, found: Iterable[tuple[bytes, bytes]], *, more: bool = False) -> None:
    """Makes the topic, unless it is there, and fills it with these keys and values, one partition after the other."""
    turns = ((number % PARTITIONS, key, value) for number, (key, value) in enumerate(found))
    send(servers, topic, turns, more=more)


def send(servers: str, topic: str, messages: Iterable[tuple[int, bytes, bytes]], *, more: bool = False) -> None:
    """Makes the topic, unless it gets ``more``, and fills it with partition, key and value of each message."""
    if not more:
        create(servers, topic)
    client = producer(servers)
    for number, (partition, key, value) in enumerate(messages):
        while True:
            try:
                client.produce(topic, value, key, partition=partition)
                break
            except BufferError:
                client.poll(0.05)
        if number % 20_000 == 0:
            client.poll(0)
    if client.flush(120):
        message = f"{topic}: records were not delivered"
        raise RuntimeError(message)


# --- changes of a keyed table ---

CHANGES_SCHEMA: Final = (
    "id bigint, version bigint, updated_at timestamp, amount decimal(10,2), status string, note string"
)
CHANGE_BYTES: Final = 130
"""Some; of the larger tables."""
_START: Final = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
_STATUSES: Final = ("new", "paid", "packed", "sent", "returned")


def fill_changes(servers: str, topic: str, changes: Iterable[tuple[int, int]], *, more: bool = False) -> None:
    """Makes the topic, unless it gets ``more``, and fills it with changes of some 130 bytes: (id, version).

    All of an id are in one partition.
    """
    messages = ((key % PARTITIONS, b"%d" % key, _change(key, version)) for key, version in changes)
    send(servers, topic, messages, more=more)


def _change(key: int, version: int) -> bytes:
    updated_at = _text(_START + dt.timedelta(milliseconds=version))
    return (
        f'{{"id":{key},"version":{version},"updated_at":"{updated_at}","amount":{version % 100_000 / 100:.2f},'
        f'"status":"{_STATUSES[version % len(_STATUSES)]}","note":"{version * 2654435761 % 2**32:010d}"}}'
    ).encode()


def changed_keys(rows: int, kind: str, batch: int, batches: int) -> Iterator[int]:
    """Keys of ``batches`` batches, each of ``batch`` different ones: of the newest hundredth, or of all."""
    chance = random.Random(kind)
    first = rows - max(batch, rows // 100) if kind == "recent" else 0
    for _ in range(batches):
        # The same number in each partition, so that a batch of ``batch`` offsets is one of these.
        yield from _spread(chance, first, rows, batch)


def _spread(chance: random.Random, first: int, rows: int, batch: int) -> Iterator[int]:
    lanes = [chance.sample(range(first + lane, rows, PARTITIONS), batch // PARTITIONS) for lane in range(PARTITIONS)]
    for keys in zip(*lanes, strict=True):
        yield from keys
