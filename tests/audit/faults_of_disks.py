"""Disks without room: one place alone, or every file of the flow's processes; see ``tests.audit.faults``."""

from __future__ import annotations

import contextlib
import os
import random
import resource
import time
from collections.abc import Callable, Iterator
from functools import partial

from tests.audit.scenario import Scenario

_MOMENTS = ("ledger", "write", "dead_letters", "BatchDone")
_FELT_WITHIN_S = 10.0
# Down to nothing, or what some files still fit into.
_LEFT_BYTES = (0, 0, 4096, 32768)


_Shortage = Callable[[Scenario, random.Random], contextlib.AbstractContextManager[None]]


def _full(scenario: Scenario, chance: random.Random, *, run_short: _Shortage) -> None:
    with scenario.following() as flow:
        flow.wait_for(chance.choice(_MOMENTS))
        with run_short(scenario, chance):
            scenario.produce(200, chance)
            scenario.hit = flow.wait_for("BatchRetried", patience_s=_FELT_WITHIN_S)
            time.sleep(chance.uniform(0, 2))
        flow.wait_for("BatchDone", 3)
        scenario.hit = scenario.hit or flow.saw("FlowRestarted")


@contextlib.contextmanager
def _no_file_grows(scenario: Scenario, chance: random.Random) -> Iterator[None]:
    """No process may write beyond some bytes of any file: lake, checkpoint and Spark's own folder alike."""
    processes = (scenario.environment.jvm, os.getpid())
    unlimited = resource.prlimit(scenario.environment.jvm, resource.RLIMIT_FSIZE)
    limit_bytes = chance.choice((0, 10, 300, 3000))
    try:
        for pid in processes:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, (limit_bytes, unlimited[1]))
        yield
    finally:
        for pid in processes:
            resource.prlimit(pid, resource.RLIMIT_FSIZE, unlimited)


def _disk(scenario: Scenario, chance: random.Random, *, place: str) -> contextlib.AbstractContextManager[None]:
    return scenario.disks[place].full(chance.choice(_LEFT_BYTES))


PLACES = ("lake", "checkpoint", "spark")
FAULTS = {
    "disk_full": partial(_full, run_short=_no_file_grows),
    **{f"disk_full:{place}": partial(_full, run_short=partial(_disk, place=place)) for place in PLACES},
}
ON_DISKS_OF_THEIR_OWN = frozenset(f"disk_full:{place}" for place in PLACES)
