"""What another process does to the table meanwhile; see ``tests.audit.faults``."""

from __future__ import annotations

import random
from functools import partial

import deltalake
from tests.audit.scenario import EnvironmentBroken, Scenario
from tests.crashes import oracle


def _tidied(scenario: Scenario, chance: random.Random, *, tidy: str) -> None:
    scenario.processes.get_ready(own_jvm=False)
    with scenario.following() as flow:
        flow.wait_for("BatchDone")
        if oracle.ledger_of(scenario.look().table):
            scenario.produce(200, chance)
            scenario.hit = _done_by_another(scenario, tidy)
        flow.wait_for("BatchDone", 2)


def _restored(scenario: Scenario, chance: random.Random) -> None:
    """Only while Kafka holds everything: what RESTORE takes away then comes again."""
    scenario.recover(follow=False)
    latest = deltalake.DeltaTable(scenario.look().table).version()
    if latest > 0 and scenario.kafka_holds_all:
        scenario.hit = scenario.rewound = _done_by_another(scenario, "restore", version=chance.randrange(latest))
        # What compaction has taken away meanwhile does not come again.
        scenario.pinned.clear()


def _done_by_another(scenario: Scenario, tidy: str, **how: int) -> bool:
    """Whether it was done; what meets a commit of the flow may have to give way."""
    child = scenario.processes.run(scenario.scene, own_jvm=False, tidy=tidy, **how)
    if child.code != 0 and "Concurrent" not in child.said():
        raise EnvironmentBroken(f"{tidy} ended with {child.code}: {child.said()}")
    return child.code == 0


FAULTS = {
    "others:optimize": partial(_tidied, tidy="optimize"),
    "others:vacuum": partial(_tidied, tidy="vacuum"),
    "others:restore": _restored,
}
