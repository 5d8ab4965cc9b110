"""The faults of a store that is a server, and of two drivers that write there; see ``tests.audit.faults``."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import deltalake
from tests.audit import planted
from tests.audit.scenario import Scenario
from tests.crashes.conftest import Child
from tests.ports.s3_proxy import S3Proxy

_MOMENTS = ("ledger", "read", "write", "BatchDone")


def _killed(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow, _felt(scenario):
        flow.wait_for(chance.choice(_MOMENTS))
        scenario.environment.store.kill()
        scenario.produce(300, chance)
        time.sleep(chance.uniform(0.1, 3))
        scenario.environment.store.restart()
        scenario.environment.restarts += 1
        flow.wait_for("BatchDone", 3)


def _stopped(scenario: Scenario, chance: random.Random) -> None:
    asked = scenario.environment.store.proxy.requests
    with scenario.following() as flow:
        flow.wait_for(chance.choice(_MOMENTS))
        before = len(asked)
        scenario.environment.store.server.pause()
        try:
            scenario.produce(300, chance)
            time.sleep(chance.uniform(0.5, 5))
        finally:
            scenario.hit = len(asked) > before
            scenario.environment.store.server.resume()
        flow.wait_for("BatchDone", 3)


def _busy(scenario: Scenario, chance: random.Random) -> None:
    proxy = scenario.environment.store.proxy
    before = proxy.refused
    with scenario.following() as flow:
        for number in range(3):
            flow.wait_for(chance.choice(_MOMENTS[:3]), number + 1)
            proxy.busy = chance.randint(1, 30)
            scenario.produce(100, chance)
            flow.wait_for("BatchDone", number + 1)
        proxy.busy = 0
    scenario.hit = proxy.refused > before


def _reset(scenario: Scenario, chance: random.Random) -> None:
    proxy = scenario.environment.store.proxy
    with scenario.following() as flow:
        for _ in range(chance.randint(1, 5)):
            flow.wait_for("write")
            before = len(proxy.requests)
            proxy.cut()
            scenario.hit = scenario.hit or before > 0
            scenario.produce(100, chance)
            time.sleep(chance.uniform(0.05, 0.5))
        flow.wait_for("BatchDone", 3)


def _refused(scenario: Scenario, chance: random.Random) -> None:
    proxy = scenario.environment.store.proxy
    with scenario.following() as flow, _felt(scenario):
        flow.wait_for(chance.choice(_MOMENTS))
        proxy.refuses = True
        try:
            proxy.cut()
            scenario.produce(300, chance)
            time.sleep(chance.uniform(0.5, 4))
        finally:
            proxy.mend()
        flow.wait_for("BatchDone", 3)


@contextmanager
def _felt(scenario: Scenario) -> Iterator[None]:
    """The fault in the block did harm if a connection was turned away."""
    before = scenario.environment.store.proxy.turned_away
    yield
    scenario.hit = scenario.environment.store.proxy.turned_away > before


def _sleeper(scenario: Scenario, chance: random.Random) -> Callable[[], None] | None:
    """A driver's commit is held on its way; another takes its place and goes on; then the commit arrives."""
    proxy = S3Proxy(scenario.environment.store.server.port)
    conf = {**scenario.spark_conf, "spark.hadoop.fs.s3a.endpoint": proxy.endpoint, **planted.CONF_OF_A_SLEEPER}
    driver = Child(scenario.folder, conf=conf)
    driver.wait_until_ready()
    begun = deltalake.DeltaTable.is_deltatable(str(scenario.look().table))
    # Version 0 is the empty table.
    version = deltalake.DeltaTable(str(scenario.look().table)).version() + 1 if begun else 1
    proxy.holds_back = f"_delta_log/{version:020d}.json"
    driver.begin(scenario.scene, follow=False)
    scenario.hit = driver.wait_until(proxy.held.is_set)
    if not scenario.hit:
        _bury(driver, proxy)
        return None
    # Another machine would give its lease up for lost; this one sees that it lives.
    scenario.environment.store.server.store.delete_file(scenario.scene.places.lease_file.removeprefix("s3a://"))
    # What the other one commits under this number holds more.
    scenario.produce(300, chance)

    def arrive() -> None:
        proxy.let_go()
        driver.wait_until(lambda: not driver.lives)
        _bury(driver, proxy)

    return arrive


def _bury(driver: Child, proxy: S3Proxy) -> None:
    proxy.let_go()
    driver.cleanup()
    proxy.__exit__()


FAULTS = {
    "s3:killed": _killed,
    "s3:stopped": _stopped,
    "s3:busy": _busy,
    "s3:reset": _reset,
    "s3:refused": _refused,
    "s3:sleeper": _sleeper,
}
