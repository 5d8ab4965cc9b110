"""The faults, each a function that does harm to a scenario; what follows must put it right or refuse with a reason.

A fault's name is ``class`` or ``class:detail``. It may run the flow itself; whatever it leaves behind, the round goes
on with one more run. It says in ``scenario.hit`` whether it did harm: a step that is not reached kills nobody.
"""

from __future__ import annotations

import random
import shutil
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

from tests.audit import disks, faults_of_disks, faults_of_others, faults_on_a_cluster, faults_on_s3
from tests.audit.plan import kind_of
from tests.audit.scenario import EnvironmentBroken, Scenario
from tests.crashes.test_checkpoint import DAMAGES
from tests.crashes.test_kills import STEPS

from rivermouth.errors import TableBusy
from rivermouth.ports.delta import delta_append
from rivermouth.sinks import _merging

Fault = Callable[[Scenario, random.Random], Callable[[], None] | None]
"""Does its harm; what it returns is called after the next run, when everything seems to be well again."""

FAULTS: dict[str, Fault] = {
    **faults_of_disks.FAULTS,
    **faults_of_others.FAULTS,
    **faults_on_a_cluster.FAULTS,
    **faults_on_s3.FAULTS,
}
# They look for files by their paths, or share a disk with workers.
_ONLY_ON_DISK = frozenset({"checkpoint", "disk_full", "freeze", "worker"})
_ONLY_ON_S3 = frozenset({"s3"})

CHECKPOINT_FILES = ("metadata", "rivermouth.json", "sources/0/0", "offsets/last", "commits/last", "offsets/before")
CHECKPOINT_FILES += ("commits/before", "offsets/.last.crc", "commits/.last.crc")


def fault(name: str) -> Callable[[Fault], Fault]:
    def register(function: Fault) -> Fault:
        FAULTS[name] = function
        return function

    return register


def faults_of(names: Sequence[str], *, on_s3: bool) -> list[str]:
    """Those of ``names`` that there can be on this machine, where the lake lies on S3, or on a disk."""
    here = [name for name in names if disks.can_be_made() or name not in faults_of_disks.ON_DISKS_OF_THEIR_OWN]
    return [name for name in here if kind_of(name) not in (_ONLY_ON_DISK if on_s3 else _ONLY_ON_S3)]


# --- processes ---


def _killed(scenario: Scenario, chance: random.Random, *, step: str, who: str, delay_s: float = 0.0) -> None:
    # Where there is but one batch, only the first time comes.
    few = step in {"create", "created"} or scenario.backlog <= scenario.scene.options["trigger"]["max_offsets"]
    kill = {"on": step, "nth": 1 if few else chance.randint(1, 2), "who": who, "delay_s": delay_s}
    follow = chance.random() < 0.5
    child = scenario.processes.run(scenario.scene, own_jvm=who != "python", follow=follow, kill=kill)
    scenario.hit = child.code == (1 if who == "jvm" else -signal.SIGKILL)
    scenario.kills += scenario.hit
    if not scenario.hit and child.code != 0 and not child.error:
        raise EnvironmentBroken(f"a process ended with {child.code}: {child.said()[-300:]}")
    scenario.drained = child.code == 0 and not follow


for _step in STEPS:
    FAULTS[f"kill:{_step}"] = partial(_killed, step=_step, who="python")


@fault("kill:jvm")
def _kill_jvm(scenario: Scenario, chance: random.Random) -> None:
    _killed(scenario, chance, step=chance.choice(STEPS[2:]), who="jvm")


@fault("kill:both")
def _kill_both(scenario: Scenario, chance: random.Random) -> None:
    _killed(scenario, chance, step=chance.choice(STEPS[2:]), who="both")


@fault("kill:any_moment")
def _kill_at_any_moment(scenario: Scenario, chance: random.Random) -> None:
    _killed(scenario, chance, step="ledger", who="python", delay_s=chance.uniform(0.01, 1.5))


@fault("freeze:jvm")
def _frozen(scenario: Scenario, chance: random.Random) -> Callable[[], None] | None:
    """A writer is stopped in the middle of its commit and goes on when another has taken its place."""
    place = scenario.scene.table if chance.random() < 0.7 else scenario.scene.dead_letters
    step = "write" if place == scenario.scene.table else "write_dead_letters"
    kill = {"on": step, "nth": 1, "who": "python", "freeze_jvm": True, "keep_jvm": True, "once_writing": str(place)}
    child = scenario.processes.run(scenario.scene, own_jvm=True, kill=kill)
    scenario.hit = child.code < 0
    scenario.kills += scenario.hit
    if not scenario.hit:
        return None

    def thaw() -> None:
        child.resume_jvm()
        child.wait_until_its_jvm_rests()

    return thaw


# --- broker and network ---


@fault("broker:killed")
def _broker_killed(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow:
        scenario.hit = flow.wait_for(chance.choice(("read", "write", "BatchDone")))
        scenario.environment.kill_broker()
        time.sleep(chance.uniform(0.1, 2))
        scenario.environment.restart_broker()
        scenario.produce(300, chance)
        flow.wait_for("BatchDone", 3)


@fault("broker:stopped")
def _broker_stopped(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow:
        scenario.hit = flow.wait_for(chance.choice(("read", "write", "BatchDone")))
        scenario.environment.broker.pause()
        time.sleep(chance.uniform(0.5, 5))
        scenario.environment.broker.resume()
        scenario.produce(300, chance)
        flow.wait_for("BatchDone", 3)


@fault("network:reset")
def _reset(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow, _disturbed(scenario):
        for _ in range(chance.randint(1, 5)):
            flow.wait_for("read")
            scenario.environment.proxy.cut()
            scenario.produce(100, chance)
            time.sleep(chance.uniform(0.05, 0.5))
        flow.wait_for("BatchDone", 3)


@fault("network:refused")
def _refused(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow, _disturbed(scenario):
        flow.wait_for(chance.choice(("ledger", "read", "BatchDone")))
        scenario.environment.proxy.refuses = True
        scenario.environment.proxy.cut()
        scenario.produce(300, chance)
        time.sleep(chance.uniform(0.5, 4))
        scenario.environment.proxy.mend()
        flow.wait_for("BatchDone", 3)


@fault("network:held")
def _held(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow, _disturbed(scenario):
        flow.wait_for(chance.choice(("ledger", "read", "BatchDone")))
        scenario.environment.proxy.holds = True
        scenario.produce(300, chance)
        time.sleep(chance.uniform(0.5, 4))
        scenario.environment.proxy.mend()
        flow.wait_for("BatchDone", 2)


@fault("network:slow")
def _slow(scenario: Scenario, chance: random.Random) -> None:
    with _disturbed(scenario):
        scenario.environment.proxy.delay_s = chance.uniform(0.01, 0.1)
        with scenario.following() as flow:
            flow.wait_for("BatchDone", 2)


@contextmanager
def _disturbed(scenario: Scenario) -> Iterator[None]:
    before = scenario.environment.proxy.hits
    try:
        yield
    finally:
        scenario.environment.proxy.mend()
        scenario.hit = scenario.environment.proxy.hits > before


# --- commits ---


def _committing(scenario: Scenario, chance: random.Random, *, to: str, lands: bool) -> None:
    """One commit fails, before it lands or after."""
    few = to == "dead_letters" or scenario.backlog <= scenario.scene.options["trigger"]["max_offsets"]
    nth = 1 if few else chance.randint(1, 2)
    places = scenario.scene.places
    place = places.table if to == "table" else places.dead_letter_table
    # A keyed table is merged into, though an entry without records is still appended.
    room, name = (_merging, "merge") if scenario.keyed and to == "table" else (delta_append, "append")
    honest = getattr(room, name)
    seen = 0

    def commit(*what: Any, **how: Any) -> Any:
        nonlocal seen
        # The frame and, of a merge, the number of its changes stand before it.
        here = place in what[1:3]
        seen += here
        if here and seen == nth and not lands:
            raise OSError("no room on the disk")
        done = honest(*what, **how)
        if here and seen == nth and lands:
            raise OSError("the answer is lost")
        return done

    with mock.patch.object(room, name, commit):
        follow = chance.random() < 0.5
        if follow:
            with scenario.following() as flow:
                flow.wait_for("BatchDone", nth + 1)
        else:
            scenario.recover(follow=False)
            scenario.drained = True
    scenario.hit = seen >= nth


for _to in ("table", "dead_letters"):
    FAULTS[f"answer_lost:{_to}"] = partial(_committing, to=_to, lands=True)
    FAULTS[f"commit_refused:{_to}"] = partial(_committing, to=_to, lands=False)


# --- the checkpoint ---


def _two_batches(scenario: Scenario, chance: random.Random) -> bool:
    """Sees to it that there is a checkpoint with two batches done, and records for a third."""
    scenario.finish_transactions()
    while len(_numbers(scenario, "commits")) < 2:
        before = len(_numbers(scenario, "commits"))
        scenario.produce(60, chance)
        scenario.finish_transactions()
        with scenario.following() as flow:
            deadline = time.monotonic() + 30
            while len(_numbers(scenario, "commits")) == before and time.monotonic() < deadline:
                flow.wait_for("nothing", patience_s=0.1)
        if len(_numbers(scenario, "commits")) == before:
            return False
    scenario.produce(200, chance)
    return True


def _numbers(scenario: Scenario, folder: str) -> list[int]:
    return sorted(int(path.name) for path in scenario.scene.checkpoint.glob(f"{folder}/[0-9]*"))


def _damaged(scenario: Scenario, chance: random.Random, *, file: str, damage: str) -> None:
    scenario.hit = _two_batches(scenario, chance)
    if damage == "older_copy" and scenario.hit:
        _aged(scenario, chance, file)
        return
    path = scenario.scene.checkpoint / _place(file, _numbers(scenario, "offsets"))
    content = path.read_bytes() if path.exists() else None
    if content is not None:
        DAMAGES[damage](path)
    scenario.hit = content is not None and (not path.exists() or path.read_bytes() != content)


def _aged(scenario: Scenario, chance: random.Random, file: str) -> None:
    """The file becomes what it was a batch before; some say the same in each batch."""
    older, numbers = scenario.folder / "older", _numbers(scenario, "offsets")
    shutil.rmtree(older, ignore_errors=True)
    shutil.copytree(scenario.scene.checkpoint, older)
    scenario.recover(follow=True)
    then, now = older / _place(file, numbers), scenario.scene.checkpoint / _place(file, _numbers(scenario, "offsets"))
    scenario.hit = then.exists()
    for source, target in ((then, now), (_sum_of(then), _sum_of(now))):
        if source.exists():
            shutil.copy(source, target)
    scenario.produce(200, chance)


def _place(file: str, numbers: Sequence[int]) -> str:
    """Where it is in a checkpoint with these batches."""
    before, last = [*(numbers[:1] or [0, 0]), *numbers][-2:]
    return file.replace("last", str(last)).replace("before", str(before))


def _sum_of(path: Path) -> Path:
    return path.with_name(f".{path.name}.crc")


for _file in CHECKPOINT_FILES:
    for _damage in (*DAMAGES, "older_copy"):
        FAULTS[f"checkpoint:{_file}:{_damage}"] = partial(_damaged, file=_file, damage=_damage)


@fault("checkpoint:all:deleted")
def _without_checkpoint(scenario: Scenario, chance: random.Random) -> None:
    scenario.hit = _two_batches(scenario, chance)
    shutil.rmtree(scenario.scene.checkpoint, ignore_errors=True)


@fault("checkpoint:all:older_copy")
def _older_checkpoint(scenario: Scenario, chance: random.Random) -> None:
    scenario.hit = _two_batches(scenario, chance)
    if not scenario.hit:
        return
    kept = scenario.folder / "older-whole"
    shutil.copytree(scenario.scene.checkpoint, kept)
    scenario.recover(follow=True)
    shutil.rmtree(scenario.scene.checkpoint, ignore_errors=True)
    shutil.move(kept, scenario.scene.checkpoint)
    scenario.produce(200, chance)


# --- topics ---


def _anew(scenario: Scenario, chance: random.Random, *, more: int) -> None:
    if chance.random() < 0.5:
        scenario.recover(follow=chance.random() < 0.5)
    there = sum(1 for key in scenario.truth.records if key[0] == scenario.topic)
    scenario.hit = True
    scenario.make_topic_anew(max(1, scenario.partitions + (chance.randint(-1, 1) if more else 0)))
    scenario.produce(max(20, there + more * chance.randint(20, 300)) if more >= 0 else max(20, there // 4), chance)


for _name, _more in (("fewer", -1), ("equal", 0), ("more", 1)):
    FAULTS[f"topic_anew:{_name}"] = partial(_anew, more=_more)


@fault("retention")
def _retention(scenario: Scenario, chance: random.Random) -> None:
    scenario.hit = scenario.drop_before(chance)


@fault("partition_added")
def _partition_added(scenario: Scenario, chance: random.Random) -> None:
    with scenario.following() as flow:
        flow.wait_for("read")
        scenario.add_partition()
        scenario.produce(300, chance)
        scenario.hit = flow.wait_for("BatchDone", 2)


# --- others ---


@fault("second_instance")
def _second_instance(scenario: Scenario, chance: random.Random) -> None:
    job = {"follow": True, "stay": True}
    with scenario.processes.running(scenario.scene, own_jvm=False, **job) as child:
        deadline = time.monotonic() + 60
        while not child.events and time.monotonic() < deadline:
            time.sleep(0.05)
        outcome = scenario.recover(follow=chance.random() < 0.5)
        scenario.hit = isinstance(outcome.error, TableBusy)
        scenario.produce(200, chance)
    scenario.kills += 1


@fault("clock")
def _clock(scenario: Scenario, chance: random.Random) -> None:
    """The clock by which leases, decisions and retries go is an hour or a day wrong, there and back."""
    honest, shift_s = time.time, chance.choice((-86400, -3600, 3600, 86400))
    with mock.patch.object(time, "time", side_effect=lambda: honest() + shift_s) as wrong:
        scenario.recover(follow=chance.random() < 0.5)
        scenario.hit = wrong.called
    scenario.produce(200, chance)
