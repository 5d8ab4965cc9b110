"""What happens to the workers of a cluster while they carry records; see ``tests.audit.faults``."""

from __future__ import annotations

import contextlib
import os
import random
import signal
import time
from collections.abc import Callable
from functools import partial

from tests.audit.scenario import Scenario
from tests.ports.cluster import Cluster

_MOMENTS = ("ledger", "read", "decode", "write", "BatchDone")


def _struck(scenario: Scenario, chance: random.Random, *, strike: Callable[[Cluster, random.Random], bool]) -> None:
    processes, cluster = scenario.environment.nursery_on_cluster, scenario.environment.cluster
    follow, moment, times = chance.random() < 0.5, chance.choice(_MOMENTS), chance.randint(1, 2)
    with processes.running(scenario.scene, own_jvm=False, follow=follow) as child:
        child.wait_until(lambda: child.events.count(moment) >= times)
        time.sleep(chance.uniform(0, 0.5))
        at_work = child.lives
        scenario.hit = strike(cluster, chance) and at_work
        code = child.wait()
        assert code == 0, child.error or child.said()
    scenario.drained = not follow


def _executor_killed(cluster: Cluster, chance: random.Random) -> bool:
    executors = [pid for worker in cluster.workers for pid in cluster.executors(worker)]
    return bool(executors) and _signalled([chance.choice(executors)], signal.SIGKILL)


def _killed(cluster: Cluster, chance: random.Random) -> bool:
    cluster.kill_worker(chance.choice(cluster.workers))
    cluster.add_worker()
    return True


def _stopped(cluster: Cluster, chance: random.Random) -> bool:
    """A machine that hangs: short enough to go on as if nothing had been, or so long that it was given up."""
    worker = chance.choice(cluster.workers)
    processes = [worker.pid, *cluster.executors(worker)]
    try:
        hit = _signalled(processes, signal.SIGSTOP)
        time.sleep(chance.choice((chance.uniform(0.5, 5), chance.uniform(12, 20))))
    finally:
        _signalled(processes, signal.SIGCONT)
    return hit and len(processes) > 1


def _signalled(processes: list[int], what: signal.Signals) -> bool:
    done = 0
    for pid in processes:
        # It may have ended by itself meanwhile.
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)
            done += 1
    return done == len(processes)


FAULTS = {
    "worker:killed": partial(_struck, strike=_killed),
    "worker:stopped": partial(_struck, strike=_stopped),
    "worker:executor_killed": partial(_struck, strike=_executor_killed),
}
