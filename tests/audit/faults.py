"""The faults, each a function that does harm to a world; what follows must put it right or refuse with a reason.

A fault's name is ``class`` or ``class:detail``. It may run the flow itself; whatever it leaves behind, the round goes
on with one more run. It says in ``world.hit`` whether it did harm: a step that is not reached kills nobody.
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
from tests.audit.world import HouseBroken, World
from tests.crashes.test_checkpoint import DAMAGES
from tests.crashes.test_kills import STEPS

from rivermouth.errors import TableBusy
from rivermouth.ports.delta import delta_append
from rivermouth.sinks import _merging

Fault = Callable[[World, random.Random], Callable[[], None] | None]
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


def _killed(world: World, chance: random.Random, *, step: str, who: str, delay_s: float = 0.0) -> None:
    # Where there is but one batch, only the first time comes.
    few = step in {"create", "created"} or world.backlog <= world.scene.options["trigger"]["max_offsets"]
    kill = {"on": step, "nth": 1 if few else chance.randint(1, 2), "who": who, "delay_s": delay_s}
    follow = chance.random() < 0.5
    child = world.nursery.run(world.scene, own_jvm=who != "python", follow=follow, kill=kill)
    world.hit = child.code == (1 if who == "jvm" else -signal.SIGKILL)
    world.kills += world.hit
    if not world.hit and child.code != 0 and not child.error:
        raise HouseBroken(f"a process ended with {child.code}: {child.said()[-300:]}")
    world.drained = child.code == 0 and not follow


for _step in STEPS:
    FAULTS[f"kill:{_step}"] = partial(_killed, step=_step, who="python")


@fault("kill:jvm")
def _kill_jvm(world: World, chance: random.Random) -> None:
    _killed(world, chance, step=chance.choice(STEPS[2:]), who="jvm")


@fault("kill:both")
def _kill_both(world: World, chance: random.Random) -> None:
    _killed(world, chance, step=chance.choice(STEPS[2:]), who="both")


@fault("kill:any_moment")
def _kill_at_any_moment(world: World, chance: random.Random) -> None:
    _killed(world, chance, step="judge", who="python", delay_s=chance.uniform(0.01, 1.5))


@fault("freeze:jvm")
def _frozen(world: World, chance: random.Random) -> Callable[[], None] | None:
    """A writer is stopped in the middle of its commit and goes on when another has taken its place."""
    place = world.scene.table if chance.random() < 0.7 else world.scene.dead_letters
    step = "write" if place == world.scene.table else "bury"
    kill = {"on": step, "nth": 1, "who": "python", "freeze_jvm": True, "keep_jvm": True, "once_writing": str(place)}
    child = world.nursery.run(world.scene, own_jvm=True, kill=kill)
    world.hit = child.code < 0
    world.kills += world.hit
    if not world.hit:
        return None

    def thaw() -> None:
        child.resume_jvm()
        child.wait_until_its_jvm_rests()

    return thaw


# --- broker and network ---


@fault("broker:killed")
def _broker_killed(world: World, chance: random.Random) -> None:
    with world.following() as flow:
        world.hit = flow.wait_for(chance.choice(("read", "write", "BatchDone")))
        world.house.kill_broker()
        time.sleep(chance.uniform(0.1, 2))
        world.house.restart_broker()
        world.produce(300, chance)
        flow.wait_for("BatchDone", 3)


@fault("broker:stopped")
def _broker_stopped(world: World, chance: random.Random) -> None:
    with world.following() as flow:
        world.hit = flow.wait_for(chance.choice(("read", "write", "BatchDone")))
        world.house.broker.pause()
        time.sleep(chance.uniform(0.5, 5))
        world.house.broker.resume()
        world.produce(300, chance)
        flow.wait_for("BatchDone", 3)


@fault("network:reset")
def _reset(world: World, chance: random.Random) -> None:
    with world.following() as flow, _disturbed(world):
        for _ in range(chance.randint(1, 5)):
            flow.wait_for("read")
            world.house.proxy.cut()
            world.produce(100, chance)
            time.sleep(chance.uniform(0.05, 0.5))
        flow.wait_for("BatchDone", 3)


@fault("network:refused")
def _refused(world: World, chance: random.Random) -> None:
    with world.following() as flow, _disturbed(world):
        flow.wait_for(chance.choice(("judge", "read", "BatchDone")))
        world.house.proxy.refuses = True
        world.house.proxy.cut()
        world.produce(300, chance)
        time.sleep(chance.uniform(0.5, 4))
        world.house.proxy.mend()
        flow.wait_for("BatchDone", 3)


@fault("network:held")
def _held(world: World, chance: random.Random) -> None:
    with world.following() as flow, _disturbed(world):
        flow.wait_for(chance.choice(("judge", "read", "BatchDone")))
        world.house.proxy.holds = True
        world.produce(300, chance)
        time.sleep(chance.uniform(0.5, 4))
        world.house.proxy.mend()
        flow.wait_for("BatchDone", 2)


@fault("network:slow")
def _slow(world: World, chance: random.Random) -> None:
    with _disturbed(world):
        world.house.proxy.delay_s = chance.uniform(0.01, 0.1)
        with world.following() as flow:
            flow.wait_for("BatchDone", 2)


@contextmanager
def _disturbed(world: World) -> Iterator[None]:
    before = world.house.proxy.hits
    try:
        yield
    finally:
        world.house.proxy.mend()
        world.hit = world.house.proxy.hits > before


# --- commits ---


def _committing(world: World, chance: random.Random, *, to: str, lands: bool) -> None:
    """One commit fails, before it lands or after."""
    few = to == "dead_letters" or world.backlog <= world.scene.options["trigger"]["max_offsets"]
    nth = 1 if few else chance.randint(1, 2)
    places = world.scene.places
    place = places.table if to == "table" else places.dead_letter_table
    # A keyed table is merged into, though an entry without records is still appended.
    room, name = (_merging, "merge") if world.keyed and to == "table" else (delta_append, "append")
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
            with world.following() as flow:
                flow.wait_for("BatchDone", nth + 1)
        else:
            world.recover(follow=False)
            world.drained = True
    world.hit = seen >= nth


for _to in ("table", "dead_letters"):
    FAULTS[f"answer_lost:{_to}"] = partial(_committing, to=_to, lands=True)
    FAULTS[f"commit_refused:{_to}"] = partial(_committing, to=_to, lands=False)


# --- the checkpoint ---


def _two_batches(world: World, chance: random.Random) -> bool:
    """Sees to it that there is a checkpoint with two batches done, and records for a third."""
    world.finish_transactions()
    while len(_numbers(world, "commits")) < 2:
        before = len(_numbers(world, "commits"))
        world.produce(60, chance)
        world.finish_transactions()
        with world.following() as flow:
            deadline = time.monotonic() + 30
            while len(_numbers(world, "commits")) == before and time.monotonic() < deadline:
                flow.wait_for("nothing", patience_s=0.1)
        if len(_numbers(world, "commits")) == before:
            return False
    world.produce(200, chance)
    return True


def _numbers(world: World, folder: str) -> list[int]:
    return sorted(int(path.name) for path in world.scene.checkpoint.glob(f"{folder}/[0-9]*"))


def _damaged(world: World, chance: random.Random, *, file: str, damage: str) -> None:
    world.hit = _two_batches(world, chance)
    if damage == "older_copy" and world.hit:
        _aged(world, chance, file)
        return
    path = world.scene.checkpoint / _place(file, _numbers(world, "offsets"))
    content = path.read_bytes() if path.exists() else None
    if content is not None:
        DAMAGES[damage](path)
    world.hit = content is not None and (not path.exists() or path.read_bytes() != content)


def _aged(world: World, chance: random.Random, file: str) -> None:
    """The file becomes what it was a batch before; some say the same in each batch."""
    older, numbers = world.folder / "older", _numbers(world, "offsets")
    shutil.rmtree(older, ignore_errors=True)
    shutil.copytree(world.scene.checkpoint, older)
    world.recover(follow=True)
    then, now = older / _place(file, numbers), world.scene.checkpoint / _place(file, _numbers(world, "offsets"))
    world.hit = then.exists()
    for source, target in ((then, now), (_sum_of(then), _sum_of(now))):
        if source.exists():
            shutil.copy(source, target)
    world.produce(200, chance)


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
def _without_checkpoint(world: World, chance: random.Random) -> None:
    world.hit = _two_batches(world, chance)
    shutil.rmtree(world.scene.checkpoint, ignore_errors=True)


@fault("checkpoint:all:older_copy")
def _older_checkpoint(world: World, chance: random.Random) -> None:
    world.hit = _two_batches(world, chance)
    if not world.hit:
        return
    kept = world.folder / "older-whole"
    shutil.copytree(world.scene.checkpoint, kept)
    world.recover(follow=True)
    shutil.rmtree(world.scene.checkpoint, ignore_errors=True)
    shutil.move(kept, world.scene.checkpoint)
    world.produce(200, chance)


# --- topics ---


def _anew(world: World, chance: random.Random, *, more: int) -> None:
    if chance.random() < 0.5:
        world.recover(follow=chance.random() < 0.5)
    there = sum(1 for key in world.truth.records if key[0] == world.topic)
    world.hit = True
    world.make_topic_anew(max(1, world.partitions + (chance.randint(-1, 1) if more else 0)))
    world.produce(max(20, there + more * chance.randint(20, 300)) if more >= 0 else max(20, there // 4), chance)


for _name, _more in (("fewer", -1), ("equal", 0), ("more", 1)):
    FAULTS[f"topic_anew:{_name}"] = partial(_anew, more=_more)


@fault("retention")
def _retention(world: World, chance: random.Random) -> None:
    world.hit = world.drop_before(chance)


@fault("partition_added")
def _partition_added(world: World, chance: random.Random) -> None:
    with world.following() as flow:
        flow.wait_for("read")
        world.add_partition()
        world.produce(300, chance)
        world.hit = flow.wait_for("BatchDone", 2)


# --- others ---


@fault("second_instance")
def _second_instance(world: World, chance: random.Random) -> None:
    job = {"follow": True, "stay": True}
    with world.nursery.running(world.scene, own_jvm=False, **job) as child:
        deadline = time.monotonic() + 60
        while not child.events and time.monotonic() < deadline:
            time.sleep(0.05)
        outcome = world.recover(follow=chance.random() < 0.5)
        world.hit = isinstance(outcome.error, TableBusy)
        world.produce(200, chance)
    world.kills += 1


@fault("clock")
def _clock(world: World, chance: random.Random) -> None:
    """The clock by which leases, decisions and retries go is an hour or a day wrong, there and back."""
    honest, shift_s = time.time, chance.choice((-86400, -3600, 3600, 86400))
    with mock.patch.object(time, "time", side_effect=lambda: honest() + shift_s) as wrong:
        world.recover(follow=chance.random() < 0.5)
        world.hit = wrong.called
    world.produce(200, chance)
