"""A flow, its topic and its lake, in which accidents happen; and what a plain reader finds afterwards."""

from __future__ import annotations

import datetime as dt
import json
import random
import shutil
import uuid
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions, NewTopic
from pyarrow.fs import FileSystem
from tests.crashes import oracle
from tests.crashes.mirror import Mirror
from tests.crashes.oracle import Audit, Coordinates, Record, Rule, Rules

from rivermouth.cli.decisions import decision
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.domain.ledger.ledger_rebuild import Rebuild
from rivermouth.domain.project.locations import FlowPlaces, resolve
from rivermouth.domain.project.snapshot_location import SnapshotPlace
from rivermouth.domain.project.source_table import SourceTable
from rivermouth.engine.events import Event, StepReached
from rivermouth.engine.flow.jobs import FlowJob, FlowOutcome, StartActions
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import ArgumentInvalid
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.spec import Flow, ProjectSpec

SCHEMA = "id bigint, amount double, name string, at timestamp"
EXPECTATIONS = (
    {"name": "odd_name", "condition": "name <> 'odd'", "action": "warn"},
    {"name": "positive_amount", "condition": "amount > 0", "action": "drop"},
    {"name": "known_name", "condition": "name <> 'nobody'", "action": "dead_letter"},
)


def fits(*kinds: type) -> Callable[[Any], Any]:
    """Takes a JSON value of one of these types, and refuses any other."""

    def fit(value: Any) -> Any:
        if type(value) not in kinds:
            raise ValueError(value)
        return value

    return fit


def _double(value: Any) -> float:
    return float(fits(int, float)(value))


def _timestamp(value: Any) -> dt.datetime:
    return dt.datetime.fromisoformat(fits(str)(value))


RULES = Rules(
    columns={"id": fits(int), "amount": _double, "name": fits(str), "at": _timestamp},
    expectations=(
        Rule("odd_name", lambda row: row["name"] and row["name"] != "odd", "warn"),
        Rule("positive_amount", lambda row: row["amount"] is not None and row["amount"] > 0, "drop"),
        Rule("known_name", lambda row: row["name"] and row["name"] != "nobody", "dead_letter"),
    ),
)

BROKEN = (
    b"{bad",
    b"",
    b'{"id": 1} {"id": 2}',
    b'{"id": 1}, ',
    b"{'id': 1}",
    b"[1, 2]",
    b'"text"',
    b'{"id": "seven"}',
    b'{"id": 1, "name": "\xff\xfe"}',
    b'{"id": NaN}',
    b'{"id": 1, "at": "no time"}',
)


@dataclass
class Scene:
    """One flow over topics of its own in a lake of its own.

    Attributes:
        bootstrap_servers: The broker.
        folder: Everything lies below it.
        topics: The flow's topics.
        options: Further fields of the flow, as in the YAML.
        events: What the runs in this process have told.
        decision: What the next runs decide, in the words of the command's options.
        lake: Where it lies, if not below ``folder``; its tables are then read from a copy there, see ``fetched``.
    """

    bootstrap_servers: str
    folder: Path
    topics: list[str]
    options: dict[str, Any] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    decision: dict[str, Any] = field(default_factory=dict)
    lake: str = ""

    @classmethod
    def make(cls, broker: Any, folder: Path, *, partitions: int = 2, **options: Any) -> Scene:
        topic = f"t-{uuid.uuid4().hex[:12]}"
        scene = cls(broker.bootstrap_servers, folder, [topic], options)
        scene.make_topic(topic, partitions)
        return scene

    # --- topics ---

    @property
    def topic(self) -> str:
        return self.topics[0]

    @property
    def admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self.bootstrap_servers})

    def make_topic(self, name: str, partitions: int = 2) -> None:
        admin = self.admin
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def make_topic_anew(self, partitions: int = 2) -> None:
        """Deletes the topic and makes another one of its name."""
        self.delete_topic()
        self.make_topic(self.topic, partitions)

    def delete_topic(self) -> None:
        admin = self.admin
        admin.delete_topics([self.topic])[self.topic].result(30)
        with Kafka(self.bootstrap_servers) as kafka:
            while kafka.describe([self.topic]):
                pass

    @property
    def topic_id(self) -> str | None:
        with Kafka(self.bootstrap_servers) as kafka:
            return kafka.describe([self.topic])[self.topic].id

    def drop_before(self, offset: int, partition: int = 0) -> None:
        """Takes the records before ``offset`` away, as retention would."""
        admin, place = self.admin, TopicPartition(self.topic, partition, offset)
        admin.delete_records([place])[place].result(30)

    def pretend_the_ledger_is_at(self, offset: int, *, instead_of: int) -> None:
        """Edits the ledger's own text, because no real broker can be made to lose records on demand."""
        newest = max(self.table.glob("_delta_log/*.json"))
        newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
        known, pretended = (rf"\"next\":{{\"0\":{number}}}" for number in (instead_of, offset))
        newest.write_text(newest.read_text().replace(known, pretended))
        self.side_file.write_text("{}")

    def add_partitions(self, total: int) -> None:
        admin = self.admin
        admin.create_partitions([NewPartitions(self.topic, total)])[self.topic].result(30)

    def produce(self, count: int, *, topic: str | None = None, partitions: int = 2, seed: int = 1) -> None:
        """Sends ``count`` records, some broken, in transactions; every third transaction is aborted."""
        producer = Producer(
            {"bootstrap.servers": self.bootstrap_servers, "transactional.id": uuid.uuid4().hex, "linger.ms": 5}
        )
        producer.init_transactions(30)
        source = random.Random(seed)
        name, sent, transactions = topic or self.topic, 0, 0
        while sent < count:
            producer.begin_transaction()
            size = min(count - sent, source.randint(20, 120))
            for index in range(sent, sent + size):
                key, value = a_record(source, index)
                producer.produce(name, value=value, key=key, partition=index % partitions)
            sent += size
            transactions += 1
            if transactions % 3 == 0:
                producer.flush(30)
                producer.abort_transaction(30)
            else:
                producer.commit_transaction(30)

    def send(self, *values: bytes | None, topic: str | None = None, partition: int = 0, key: bytes = b"k") -> None:
        """Sends single records outside of any transaction."""
        producer = Producer({"bootstrap.servers": self.bootstrap_servers})
        for value in values:
            producer.produce(topic or self.topic, value=value, key=key, partition=partition)
        assert producer.flush(30) == 0

    # --- the flow ---

    @property
    def flow(self) -> Flow:
        body: dict[str, Any] = {
            "name": "shop",
            "format": {"type": "json", "schema": SCHEMA},
            "expectations": EXPECTATIONS,
            "table": "silver.orders",
            "trigger": {"every": "200 ms", "max_offsets": 1000},
            **self.options,
        }
        if not body.keys() & {"topic_pattern", "assign", "source"}:
            body["topics"] = self.topics
        registry = body.pop("registry", None)
        flow = Flow.model_validate(body)
        if registry is None:
            return flow
        return flow.model_copy(update={"format": flow.format.with_registry(RegistryAccess(url=registry))})

    @property
    def places(self) -> FlowPlaces:
        project = ProjectSpec(lake=self.lake or str(self.folder / "lake"), flows={"shop": self.flow})
        return resolve(project, self.flow, base=self.folder, environ={})

    @property
    def order(self) -> FlowJob:
        options = {"accept_loss": [], "new_epoch": [], "rewind": [], "why": "", **self.decision}
        rebuild = Rebuild(why="we know") if options.pop("rebuild", False) else None
        return FlowJob(
            self.flow,
            self.places,
            self.bootstrap_servers,
            {},
            source=SourceTable(self.bronze.flow, self.bronze.places) if self._reads("table") else None,
            snapshots=self._snapshots() if self._reads("versions_of") else None,
            start=StartActions(decision(**options, flows=[self.flow.name]), rebuild=rebuild),
        )

    def _reads(self, kind: str) -> bool:
        return self.flow.source is not None and getattr(self.flow.source, kind) is not None

    def _snapshots(self) -> SnapshotPlace:
        source = self.flow.source
        return SnapshotPlace(source.versions_of, source.versions_of, is_table=True, max_bytes=source.max_bytes)

    @property
    def bronze(self) -> FlowJob:
        """The raw flow of the same topics, whose table the flow reads if it has a ``source``."""
        body = {"name": "raw", "topics": self.topics, "format": "raw", "null_values": "keep", "table": "bronze.orders"}
        flow = Flow.model_validate(body)
        places = resolve(ProjectSpec(lake=self.lake or str(self.folder / "lake")), flow, base=self.folder, environ={})
        return FlowJob(flow, places, self.bootstrap_servers, {})

    @property
    def table(self) -> Path:
        return Path(self.places.table)

    @property
    def dead_letters(self) -> Path:
        return Path(self.places.dead_letter_table)

    @property
    def checkpoint(self) -> Path:
        return Path(self.places.checkpoint)

    @property
    def side_file(self) -> Path:
        return Path(self.places.ledger_file)

    # --- runs in this process ---

    def drain(self, spark: Any, hear: Callable[[Event], None] | None = None) -> FlowOutcome:
        """Carries what there is; the outcome may hold an error."""
        return self._run(spark, hear, keep_following=False)

    def follow(
        self,
        spark: Any,
        *,
        until: Callable[[Event], bool] | None = None,
        between_batches: Callable[[Any], None] = lambda _run: None,
    ) -> FlowOutcome:
        """Follows until ``until`` says so of an event, or, without one, until nothing is left to carry."""
        caught_up = CaughtUp(self) if until is None else until
        supervisor: Supervisor

        def hear(event: Event) -> None:
            self.events.append(event)
            if caught_up(event):
                supervisor.stop()

        supervisor = Supervisor(spark, hear, between_batches)
        if until is None and caught_up.is_done():
            return self.drain(spark)
        return supervisor.run([self.order], keep_following=True)[0]

    def end_at(
        self,
        spark: Any,
        on: str,
        *,
        nth: int = 1,
        follow: bool = False,
        between_batches: Callable[[Any], None] = lambda _run: None,
    ) -> list[str]:
        """A run that ends at a step or event, as if its process was killed there: the names of what it told.

        An error of this kind is not tried again, and nothing is written after it.
        """
        told: list[str] = []

        def hear(event: Event) -> None:
            told.append(name_of(event))
            if told[-1] == on and told.count(on) == nth:
                raise ArgumentInvalid(argument="test", detail="the process ends here", fix="")

        def until(event: Event) -> bool:
            hear(event)
            return False

        if follow:
            outcome = self.follow(spark, until=until, between_batches=between_batches)
        else:
            outcome = self.drain(spark, hear)
        assert isinstance(outcome.error, ArgumentInvalid), f"{outcome.error}, not at {on} number {nth}: {told}"
        return told

    def _run(self, spark: Any, hear: Callable[[Event], None] | None, *, keep_following: bool) -> FlowOutcome:
        def listen(event: Event) -> None:
            self.events.append(event)
            if hear is not None:
                hear(event)

        return Supervisor(spark, listen, lambda _run: None).run([self.order], keep_following=keep_following)[0]

    # --- what is there ---

    def records(self) -> dict[Coordinates, Record]:
        return oracle.visible(self.bootstrap_servers, self.topics)

    def audit(self, rules: Rules = RULES, *, with_counts: bool = True, replayed_under: Rules | None = None) -> Audit:
        return oracle.audit(
            self.records(),
            rules,
            table=self.table,
            dead_letters=self.dead_letters,
            side_file=self.side_file if with_counts else None,
            replayed_under=replayed_under,
        )

    def copy(self, folder: Path, **options: Any) -> Scene:
        """The same flow over the same topics, in a copy of the lake."""
        shutil.copytree(self.folder, folder, dirs_exist_ok=True)
        return Scene(self.bootstrap_servers, folder, list(self.topics), {**self.options, **options})

    def fetched(self, store: FileSystem) -> Scene:
        """The same scene over a copy of the lake on this machine, for those who read files."""
        self.mirror(lambda: store).fetch()
        return replace(self, lake="")

    def mirror(self, connect: Callable[[], FileSystem]) -> Mirror:
        """The copy of the lake that ``fetched`` makes, to be made again and again."""
        return Mirror(self.lake, self.folder / "lake", connect)

    def told(self, kind: type[Event]) -> list[Any]:
        return [event for event in self.events if isinstance(event, kind)]

    def to_json(self) -> dict[str, Any]:
        return {
            "bootstrap_servers": self.bootstrap_servers,
            "folder": str(self.folder),
            "topics": self.topics,
            "options": self.options,
            "decision": self.decision,
            "lake": self.lake,
        }

    @classmethod
    def from_json(cls, body: Mapping[str, Any]) -> Scene:
        return cls(
            body["bootstrap_servers"],
            Path(body["folder"]),
            body["topics"],
            body["options"],
            decision=body["decision"],
            lake=body["lake"],
        )


def name_of(event: Event) -> str:
    """Name of the step, or of the class of the event."""
    return event.step if isinstance(event, StepReached) else type(event).__name__


class CaughtUp:
    """Whether the newest entry is at the end of what a reader of committed records can see.

    ``look`` gives the scene whose files a plain reader finds on this machine; without it, ``scene`` itself.
    ``records`` are those that such a reader of Kafka has found; without them it looks.
    """

    def __init__(
        self,
        scene: Scene,
        look: Callable[[], Scene] | None = None,
        records: Iterable[Coordinates] | None = None,
    ) -> None:
        self._look = look or (lambda: scene)
        self._last: dict[tuple[str, int], int] = {}
        for topic, partition, offset in scene.records() if records is None else records:
            self._last[topic, partition] = max(offset, self._last.get((topic, partition), -1))

    def __call__(self, event: Event) -> bool:
        return not isinstance(event, StepReached) and self.is_done()

    def is_done(self) -> bool:
        scene = self._look()
        entries = oracle.ledger_of(scene.table)
        # The dead letters of the newest entry are complete once its counts are known.
        if not entries or oracle.settled_counts(entries[-1], scene.side_file) is None:
            return False
        topics = entries[-1]["topics"]
        return all(
            topics.get(topic, {"next": {}})["next"].get(str(partition), 0) > offset
            for (topic, partition), offset in self._last.items()
        )


def a_record(source: random.Random, index: int) -> tuple[bytes | None, bytes | None]:
    """Key and value: of a hundred about 3 null, 5 broken, some against each expectation."""
    key = source.choice([f"key-{index % 50}".encode()] * 40 + [None, "schlüssel".encode(), b"", b"\xff\xfe"])
    luck = source.random()
    if luck < 0.03:
        return key, None
    if luck < 0.08:
        return key, source.choice(BROKEN)
    body: dict[str, Any] = {
        "id": index,
        "amount": source.choice([1, 2.5, 1e3, 7, 0.1, 12, -3, None]),
        "name": source.choice(["ann", "bob", "grüße", "odd", "nobody", 'a"b\\c', None] + ["eve"] * 9),
        "at": f"2026-01-{1 + index % 28:02d}T00:00:{index % 60:02d}Z",
    }
    if luck < 0.1:
        body["undeclared"] = {"deep": [1]}
    if luck > 0.98:
        del body["amount"]
    return key, json.dumps(body, ensure_ascii=source.random() < 0.5).encode()
