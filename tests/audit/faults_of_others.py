"""What another process does to the table meanwhile; see ``tests.audit.faults``."""

from __future__ import annotations

import random
from functools import partial

import deltalake
from tests.audit.world import HouseBroken, World
from tests.crashes import oracle


def _tidied(world: World, chance: random.Random, *, tidy: str) -> None:
    world.nursery.get_ready(own_jvm=False)
    with world.following() as flow:
        flow.wait_for("BatchDone")
        if oracle.ledger_of(world.look().table):
            world.produce(200, chance)
            world.hit = _done_by_another(world, tidy)
        flow.wait_for("BatchDone", 2)


def _restored(world: World, chance: random.Random) -> None:
    """Only while Kafka holds everything: what RESTORE takes away then comes again."""
    world.recover(follow=False)
    latest = deltalake.DeltaTable(world.look().table).version()
    if latest > 0 and world.kafka_holds_all:
        world.hit = world.rewound = _done_by_another(world, "restore", version=chance.randrange(latest))
        # What compaction has taken away meanwhile does not come again.
        world.pinned.clear()


def _done_by_another(world: World, tidy: str, **how: int) -> bool:
    """Whether it was done; what meets a commit of the flow may have to give way."""
    child = world.nursery.run(world.scene, own_jvm=False, tidy=tidy, **how)
    if child.code != 0 and "Concurrent" not in child.said():
        raise HouseBroken(f"{tidy} ended with {child.code}: {child.said()}")
    return child.code == 0


FAULTS = {
    "others:optimize": partial(_tidied, tidy="optimize"),
    "others:vacuum": partial(_tidied, tidy="vacuum"),
    "others:restore": _restored,
}
