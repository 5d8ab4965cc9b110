"""What an episode does, as data: a seed says all of it, and a failing one can be made shorter."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any


@dataclass(frozen=True)
class Round:
    """Records, then a fault, then everything is looked at.

    Attributes:
        fault: Name of the fault, see ``tests.audit.faults``.
        records: How many are produced before.
        seed: Of all that is left to chance within the round.
    """

    fault: str
    records: int
    seed: int


@dataclass(frozen=True)
class Plan:
    """One episode: a topic, a compacted topic and a flow, and what happens to them.

    Attributes:
        seed: From which it was made.
        partitions: Of the first topic, at the beginning.
        max_offsets: How many offsets the flow takes into one batch.
        rounds: In their order.
        on_s3: Whether the lake lies on S3; else on a disk.
        sink: How rows get into the table: append, upsert or history.
    """

    seed: int
    partitions: int
    max_offsets: int
    rounds: tuple[Round, ...]
    on_s3: bool = False
    sink: str = "append"

    def to_json(self) -> str:
        """One line, for ``--plan``."""
        return json.dumps(asdict(self), separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Plan:
        """What ``to_json`` wrote."""
        body: dict[str, Any] = json.loads(text)
        return cls(**{**body, "rounds": tuple(Round(**each) for each in body["rounds"])})


def plan_of(
    seed: int, faults: Sequence[str], *, rounds: int, records: int, on_s3: bool = False, sink: str = "append"
) -> Plan:
    """The plan that belongs to ``seed``; about ``records`` records a round, and each class of faults as likely."""
    chance = random.Random(seed)
    classes: dict[str, list[str]] = {}
    for name in faults:
        classes.setdefault(kind_of(name), []).append(name)
    return Plan(
        seed=seed,
        partitions=chance.choice((1, 2, 2, 3)),
        # A merge takes its time, however few its records are.
        max_offsets=chance.choice((records // 3 if sink == "append" else records, records, records * 4)),
        rounds=tuple(
            Round(
                chance.choice(chance.choice([*classes.values()])),
                chance.randint(records // 2, records * 3 // 2),
                chance.getrandbits(32),
            )
            for _ in range(rounds)
        ),
        on_s3=on_s3,
        sink=sink,
    )


def kind_of(fault: str) -> str:
    """The class of faults that it belongs to."""
    return fault.partition(":")[0]


def shrunk(plan: Plan, fails: Callable[[Plan], bool]) -> Plan:
    """The shortest plan that still fails: rounds are left out one after the other, the last ones first.

    Args:
        plan: One that fails.
        fails: Plays a plan and says whether it fails.
    """
    for index in reversed(range(len(plan.rounds))):
        shorter = replace(plan, rounds=plan.rounds[:index] + plan.rounds[index + 1 :])
        if shorter.rounds and fails(shorter):
            plan = shorter
    return plan
