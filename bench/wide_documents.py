"""Documents with 500 fields, and schemas of some of them."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Final

from bench import records

FIELDS: Final = 500
FEW: Final = 10
_TEMPLATES: Final = 64


def schema(fields: int) -> str:
    """The first ``fields`` columns, numbers and texts in turns, with the others spread among the undeclared."""
    step = FIELDS // fields
    return ", ".join(f"f{number} {'bigint' if number % 2 else 'string'}" for number in range(0, FIELDS, step))


def messages(count: int) -> Iterator[tuple[int, bytes, bytes]]:
    """Partition, key and value of ``count`` documents."""
    chance = random.Random(11)
    made = []
    for _ in range(_TEMPLATES):
        fields = (
            f'"f{number}":{chance.randrange(10**9)}' if number % 2 else f'"f{number}":"{chance.randrange(36**6):09x}"'
            for number in range(FIELDS)
        )
        made.append(f"{{{','.join(fields)}}}".encode())
    for number in range(count):
        yield number % records.PARTITIONS, b"%d" % number, made[number % _TEMPLATES]
