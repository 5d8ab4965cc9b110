"""One episode's topics, lake and flow; what was produced, what became of it, and who runs the flow."""

from __future__ import annotations

import contextlib
import json
import random
import shutil
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import NewTopic
from tests.audit import disks, keyed
from tests.audit.disks import Disk
from tests.audit.environment import Environment
from tests.audit.plan import Plan
from tests.audit.truth import Key, Truth
from tests.crashes import oracle
from tests.crashes.mirror import Mirror
from tests.crashes.scene import RULES, SCHEMA, CaughtUp, Scene, a_record, fits

from rivermouth.engine.events import Event, StepReached
from rivermouth.engine.flow.jobs import FlowOutcome
from rivermouth.engine.run.requests import handle_pending
from rivermouth.engine.run.supervisor import Supervisor

PATIENCE_S = 120.0
_LOOK_EVERY_S = 0.5
_COMPACTED = {
    "cleanup.policy": "compact",
    "segment.ms": "500",
    "min.cleanable.dirty.ratio": "0.01",
    "max.compaction.lag.ms": "1000",
}
# The longest that the broker allows: no transaction shall end by itself.
_HANGING_MS = 900_000
_PRODUCER_COLUMNS = {"producer": str, "sequence": int, "op": str}


_RULES = replace(RULES, columns={**RULES.columns, **{name: fits(kind) for name, kind in _PRODUCER_COLUMNS.items()}})


class EnvironmentBroken(Exception):
    """Something that all episodes share is not usable any more."""


class Scenario:
    """Made for one plan; ``close`` ends what is still open.

    Attributes:
        scene: The flow and its places.
        processes: Brings up processes that run the flow.
        disks: Where a place has a disk of its own that can be full: lake, checkpoint, spark.
        spark_conf: What a project would say of the store under ``spark: conf``.
        sink: The flow's.
        truth: What a reader of committed records has seen.
        uncertain: Records that were destroyed before the ledger had settled them: in their place, or recorded as lost.
        pinned: Records of the compacted topic that Kafka still held when the flow had read everything.
        excused: Records of that topic that it took away before.
        rewound: Whether records were read again, so that the sums of the counts hold them twice.
        kafka_holds_all: Whether nothing was destroyed yet; compaction aside.
        drained: Whether the last run of the fault said that it has carried all that there is.
        backlog: Records of the last production, about as many as the next run finds.
        hit: Whether the fault of this round did harm, as far as that can be seen.
        produced: Records that were sent, committed or not.
        outcomes: Of the runs in this process, since they were last looked at.
    """

    def __init__(self, environment: Environment, plan: Plan, folder: Path) -> None:
        self.environment = environment
        self.folder = folder
        orders, facts = (f"{name}-{uuid.uuid4().hex[:8]}" for name in ("orders", "facts"))
        columns = ", ".join(
            f"{name} {'bigint' if kind is int else 'string'}" for name, kind in _PRODUCER_COLUMNS.items()
        )
        options = {
            "format": {"type": "json", "schema": f"{SCHEMA}, {columns}"},
            "trigger": {"every": "100 ms", "max_offsets": plan.max_offsets},
        }
        self.sink = plan.sink
        if self.keyed:
            options["sink"] = keyed.sink_of(plan.sink)
        self.scene = Scene(environment.servers, folder, [orders, facts], options)
        self._direct = Scene(environment.direct, folder, [orders, facts])
        self._mirror: Mirror | None = None
        self.processes, self.spark_conf = environment.processes, {}
        self.disks: dict[str, Disk] = {"spark": environment.disk} if environment.disk is not None else {}
        self._own_disks: list[Disk] = []
        if disks.can_be_made() and not plan.on_s3:
            for name, place in (("lake", Path(self.scene.places.lake)), ("checkpoint", self.scene.checkpoint.parent)):
                self.disks[name] = environment.make_disk(place)
                self._own_disks.append(self.disks[name])
        if plan.on_s3:
            self.scene.lake = f"s3a://{environment.store.make_bucket(environment.spark)}/lake"
            self._mirror = self.scene.mirror(lambda: environment.store.server.store)
            self.processes, self.spark_conf = environment.nursery_on_s3, environment.store.conf
        self._make_topic(orders, plan.partitions)
        self._make_topic(facts, 1, **_COMPACTED)
        rule = keyed.expected if self.keyed else oracle.expected
        self.truth = Truth(environment.direct, self.scene.topics, partial(rule, rules=_RULES))
        self.uncertain: set[Key] = set()
        self.pinned: set[Key] = set()
        self.excused = 0
        self.rewound = False
        self.kafka_holds_all = True
        self.hit = False
        self.drained = False
        self.backlog = 0
        self.kills = 0
        self.produced = 0
        self.outcomes: list[FlowOutcome] = []
        self._hanging: Producer | None = None

    def look(self) -> Scene:
        """The scene as plain readers find it on this machine: where the lake lies on S3, over a copy."""
        if self._mirror is None:
            return self.scene
        self._mirror.fetch()
        return replace(self.scene, lake="")

    @property
    def keyed(self) -> bool:
        """Whether the table has its rows by key."""
        return self.sink in keyed.SINKS

    # --- topics ---

    @property
    def topic(self) -> str:
        """The one that is not compacted."""
        return self.scene.topic

    @property
    def partitions(self) -> int:
        return len(self._direct.admin.list_topics(self.topic, timeout=10).topics[self.topic].partitions)

    def add_partition(self) -> None:
        self._direct.add_partitions(self.partitions + 1)

    def drop_before(self, chance: random.Random) -> bool:
        """Takes the beginning of one partition away, as retention would, read or not; False if nothing is there."""
        self.truth.catch_up()
        partition = chance.randrange(self.partitions)
        mine = sorted(key[3] for key in self.truth.records if key[:3] == (self.topic, self._epoch, partition))
        if mine:
            offset = chance.choice(mine) + 1
            self._destroyed(lambda key: key[2] == partition and key[3] < offset)
            self._direct.drop_before(offset, partition)
        return bool(mine)

    def make_topic_anew(self, partitions: int) -> None:
        """Deletes the topic, read or not, and makes another of its name."""
        self.finish_transactions(commit=False)
        self.truth.catch_up()
        begun = bool(oracle.ledger_of(self.look().table))
        if begun:
            self._destroyed(lambda _key: True)
        self._direct.make_topic_anew(partitions)
        self._wait_for(self.topic)
        if begun:
            self.truth.begin_anew(self.topic)
        else:
            self.truth.forget(self.topic)

    @property
    def _epoch(self) -> int:
        return self.truth.epochs[self.topic]

    def _destroyed(self, which: Callable[[Key], bool]) -> None:
        """Of the records that ``which`` names, those that the ledger has not settled may be lost, if it says so."""
        settled = self._settled()
        self.kafka_holds_all = False
        self.uncertain |= {
            key
            for key in self.truth.records
            if key[:2] == (self.topic, self._epoch) and which(key) and key[3] >= settled.get(str(key[2]), 0)
        }

    def _settled(self) -> dict[str, int]:
        here = self.look()
        entries = oracle.ledger_of(here.table)
        if not entries:
            return {}
        there = entries[-1]["topics"].get(self.topic, {"settled": {}, "next": {}})
        # The ledger does not know the new topic yet.
        if there.get("id") != self._direct.topic_id:
            return {}
        done = oracle.settled_counts(entries[-1], here.side_file) is not None
        settled: dict[str, int] = there["next" if done else "settled"]
        return settled

    def _make_topic(self, name: str, partitions: int, **config: str) -> None:
        admin = self._direct.admin
        admin.create_topics([NewTopic(name, partitions, 1, config=config)])[name].result(30)
        self._wait_for(name)

    def _wait_for(self, topic: str) -> None:
        admin = self._direct.admin
        while admin.list_topics(topic, timeout=30).topics[topic].error is not None:
            time.sleep(0.02)

    # --- records ---

    def produce(self, records: int, chance: random.Random) -> None:
        """Sends records to both topics: plain, in transactions that end well, badly, or not yet."""
        self.finish_transactions(commit=chance.random() < 0.5)
        partitions, left = self.partitions, records
        # Not longer: to a producer a topic that was created again is still the old one.
        producers: dict[str, Producer] = {}
        while left > 0:
            size = min(left, chance.randint(20, 400))
            ending = chance.choices(("plain", "commit", "abort", "hang"), (3, 5, 2, 1))[0]
            self._burst(size, ending, partitions, chance, producers)
            left -= size
        self.truth.catch_up()
        self.backlog = records

    def finish_transactions(self, *, commit: bool = True) -> None:
        """Ends the transaction that was left open, if there is one."""
        if self._hanging is not None:
            producer, self._hanging = self._hanging, None
            producer.commit_transaction(30) if commit else producer.abort_transaction(30)
            self.truth.catch_up()

    @property
    def hangs(self) -> bool:
        """Whether a transaction is open, so that nothing behind it is visible."""
        return self._hanging is not None

    def _producer(self, *, transactional: bool) -> Producer:
        settings: dict[str, Any] = {"bootstrap.servers": self.environment.direct, "linger.ms": 5}
        if not transactional:
            return Producer(settings)
        settings |= {"transactional.id": uuid.uuid4().hex, "transaction.timeout.ms": _HANGING_MS}
        producer = Producer(settings)
        producer.init_transactions(30)
        return producer

    def _burst(
        self, size: int, ending: str, partitions: int, chance: random.Random, producers: dict[str, Producer]
    ) -> None:
        if ending == "hang" and self._hanging is not None:
            ending = "abort"
        name, kind = uuid.uuid4().hex, "plain" if ending == "plain" else "transactional"
        producer = producers.setdefault(kind, producers.get(kind) or self._producer(transactional=ending != "plain"))
        if ending != "plain":
            producer.begin_transaction()
        for sequence in range(size):
            key, value = self._record(name, sequence, chance)
            if chance.random() < 0.1:
                producer.produce(self.scene.topics[1], value=value, key=self._of("f", key or b"none"), partition=0)
            else:
                at = chance.randrange(partitions)
                producer.produce(self.topic, value=value, key=self._of(str(at), key), partition=at)
            producer.poll(0)
        assert producer.flush(30) == 0
        self.produced += size
        if ending == "commit":
            producer.commit_transaction(30)
        elif ending == "abort":
            producer.abort_transaction(30)
        elif ending == "hang":
            self._hanging = producers.pop(kind)

    def _of(self, partition: str, key: bytes | None) -> bytes | None:
        """The key of a record of that partition: in a keyed table each has keys of its own."""
        return key + f"@{partition}".encode() if self.keyed and key is not None else key

    @staticmethod
    def _record(producer: str, sequence: int, chance: random.Random) -> tuple[bytes | None, bytes | None]:
        key, value = a_record(chance, sequence)
        if value is not None and value.startswith(b'{"id":') and value.endswith(b'Z"}'):
            mark = {"producer": producer, "sequence": sequence, "op": chance.choice("cud")}
            value = value[:-1] + b", " + json.dumps(mark).encode()[1:]
        return key, value

    # --- runs ---

    def recover(self, *, follow: bool) -> FlowOutcome:
        """Runs the flow once more until it has all that is visible, stops, or has had all the time it gets."""
        with self.following(until_done=True, follow=follow) as run:
            run.wait_until_ended(self.environment.bound_s)
        return self.outcomes[-1]

    @contextlib.contextmanager
    def following(self, *, until_done: bool = False, follow: bool = True) -> Iterator[Following]:
        """The flow at work in a thread; it is stopped at the end and its outcome kept.

        With ``until_done`` it ends when it has all that is visible.
        """
        caught_up = CaughtUp(self.scene, self.look) if until_done and follow else None
        following = Following(self, caught_up, follow=follow and not (caught_up and caught_up.is_done()))
        try:
            yield following
        finally:
            self.outcomes.append(following.stop())

    def has_caught_up(self) -> bool:
        """Whether the flow has read all that was visible when the truth was last read: no batch comes any more."""
        now = [
            (topic, partition, at) for topic, epoch, partition, at in self.truth.records if self._is_now(topic, epoch)
        ]
        return CaughtUp(self.scene, self.look, now).is_done()

    def _is_now(self, topic: str, epoch: int) -> bool:
        return epoch == self.truth.epochs[topic]

    def close(self) -> None:
        self.finish_transactions(commit=False)
        self.processes.cleanup()
        if self._mirror is not None:
            self._mirror.forget()
        admin = self._direct.admin
        for done in admin.delete_topics(self.scene.topics).values():
            done.result(30)
        for disk in reversed(self._own_disks):
            disk.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Following:
    """A flow that follows in a thread of this process."""

    def __init__(self, scenario: Scenario, caught_up: CaughtUp | None, *, follow: bool) -> None:
        self._seen: Counter[str] = Counter()
        self._changed = threading.Condition()
        self._world = scenario
        self._caught_up = caught_up
        self._supervisor = Supervisor(scenario.environment.spark, self._hear, handle_pending)
        self._outcome: FlowOutcome | None = None
        self._thread = threading.Thread(
            target=self._run, args=[scenario.scene.order, follow], name="following", daemon=True
        )
        self._thread.start()

    def saw(self, event: str) -> bool:
        """Whether the flow has told it."""
        return self._seen[event] > 0

    def wait_for(self, event: str, times: int = 1, patience_s: float = 30.0) -> bool:
        """Until the flow has told it so often, has ended, or has nothing left to do; whether it has told it."""
        deadline = time.monotonic() + patience_s
        while self._seen[event] < times and self._outcome is None and time.monotonic() < deadline:
            with self._changed:
                self._changed.wait_for(lambda: self._seen[event] >= times or self._outcome is not None, _LOOK_EVERY_S)
            if self._seen["BatchDone"] and self._seen[event] < times and self._world.has_caught_up():
                break
        return self._seen[event] >= times

    def wait_until_ended(self, patience_s: float) -> None:
        """Until the flow has ended, or for so long."""
        with self._changed:
            self._changed.wait_for(lambda: self._outcome is not None, patience_s)

    def stop(self) -> FlowOutcome:
        self._supervisor.stop()
        self._thread.join(PATIENCE_S)
        if self._outcome is None:
            raise EnvironmentBroken(f"the flow did not stop within {PATIENCE_S:g} s")
        return self._outcome

    def _run(self, order: Any, follow: bool) -> None:
        outcome = self._supervisor.run([order], keep_following=follow)[0]
        with self._changed:
            self._outcome = outcome
            self._changed.notify_all()

    def _hear(self, event: Event) -> None:
        name = event.step if isinstance(event, StepReached) else type(event).__name__
        with self._changed:
            self._seen[name] += 1
            self._changed.notify_all()
        if self._caught_up is not None and self._caught_up(event):
            self._supervisor.stop()
