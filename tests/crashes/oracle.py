"""Says in plain Python what a flow's tables must hold, and holds the tables against it.

Nothing of rivermouth and nothing of Spark is used here: a ``read_committed`` consumer of confluent-kafka says
which records there are, Python's own ``json`` what is in them, deltalake what is in the tables, and the log of
the table, read as text, what the ledger counted.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from confluent_kafka import Consumer, KafkaError, TopicPartition
from deltalake import DeltaTable, QueryBuilder

Coordinates = tuple[str, int, int]
"""Topic, partition, offset: who a record is."""


@dataclass(frozen=True)
class Record:
    topic: str
    partition: int
    offset: int
    key: bytes | None
    value: bytes | None
    timestamp_ms: int


@dataclass(frozen=True)
class Expected:
    """Where one record must be.

    Attributes:
        place: table, dead_letter or dropped.
        row: The payload columns, if it is in the table.
        stage: Of the dead letter.
        failed: Names of the expectations that it broke, in their order.
    """

    place: str
    row: Mapping[str, Any] | None = None
    stage: str | None = None
    failed: tuple[str, ...] = ()


@dataclass(frozen=True)
class Rule:
    """An expectation in Python: a condition that is not True, fails."""

    name: str
    condition: Callable[[Mapping[str, Any]], bool | None]
    action: str


@dataclass(frozen=True)
class Rules:
    """What a flow does with a record, told again.

    Attributes:
        columns: Payload column to a function that takes the JSON value and raises ValueError if it does not fit.
        expectations: In the flow's order.
        null_values: drop, keep or dead_letter.
    """

    columns: Mapping[str, Callable[[Any], Any]]
    expectations: Sequence[Rule] = ()
    null_values: str = "drop"


@dataclass
class Audit:
    """What is wrong with the tables: all four must be empty.

    Attributes:
        lost: Visible records that are not where they belong.
        doubled: Records that are there more than once, or in both tables.
        phantom: Rows of records that are not visible, or do not belong there.
        wrong: Rows whose columns do not say what the record says; counts that do not agree.
    """

    lost: list[Any] = field(default_factory=list)
    doubled: list[Any] = field(default_factory=list)
    phantom: list[Any] = field(default_factory=list)
    wrong: list[Any] = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.phantom or self.wrong)

    def __str__(self) -> str:
        parts = {name: getattr(self, name) for name in ("lost", "doubled", "phantom", "wrong")}
        return ", ".join(f"{len(found)} {name} {found[:3]}" for name, found in parts.items() if found) or "clean"


# --- what there is -----------------------------------------------------------------------------------


def visible(bootstrap_servers: str, topics: Sequence[str]) -> dict[Coordinates, Record]:
    """Every record that a reader of committed records sees, from the beginning to now."""
    with committed_reader(bootstrap_servers) as consumer:
        # -2 is the beginning, in the words of the protocol.
        parts = [TopicPartition(topic, partition, -2) for topic in topics for partition in partitions(consumer, topic)]
        return {(each.topic, each.partition, each.offset): each for each in to_the_end(consumer, parts)}


@contextlib.contextmanager
def committed_reader(bootstrap_servers: str) -> Iterator[Consumer]:
    """A consumer that sees committed records and says where a partition ends."""
    consumer = Consumer(
        {
            "bootstrap.servers": bootstrap_servers,
            "group.id": "oracle",
            "isolation.level": "read_committed",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
            "auto.offset.reset": "earliest",
            # So long the broker waits at the end of a partition before it says that this is the end.
            "fetch.wait.max.ms": 10,
        }
    )
    try:
        yield consumer
    finally:
        consumer.close()


def partitions(consumer: Consumer, topic: str) -> list[int]:
    """Numbers of the topic's partitions."""
    described = consumer.list_topics(topic, timeout=10).topics[topic]
    assert described.error is None, described.error
    return list(described.partitions)


def to_the_end(consumer: Consumer, parts: list[TopicPartition]) -> Iterator[Record]:
    """The records from the given offsets to what is now the end of each partition."""
    left = {(part.topic, part.partition) for part in parts}
    consumer.assign(parts)
    while left:
        message = consumer.poll(20)
        assert message is not None, f"no end of {left} within 20 s"
        error = message.error()
        if error is not None:
            assert error.code() == KafkaError._PARTITION_EOF, error
            left.discard((message.topic(), message.partition()))
            continue
        yield Record(
            message.topic(),
            message.partition(),
            message.offset(),
            message.key(),
            message.value(),
            message.timestamp()[1],
        )


# --- what must be ------------------------------------------------------------------------------------


def expected(record: Record, rules: Rules) -> Expected:
    """Where ``record`` must be under ``rules``."""
    decoded, row = _decoded(record.value, rules)
    if not decoded or not _is_text(record.key):
        return Expected("dead_letter", stage="decode")
    if record.value is None:
        place = {"drop": "dropped", "keep": "table", "dead_letter": "dead_letter"}[rules.null_values]
        return Expected(place, row=dict.fromkeys(rules.columns), stage="decode")
    assert row is not None
    row |= {"kafka_key": None if record.key is None else record.key.decode()}
    failed = [rule for rule in rules.expectations if rule.condition(row) is not True]
    actions = {rule.action for rule in failed}
    names = tuple(rule.name for rule in failed)
    if "dead_letter" in actions:
        return Expected("dead_letter", stage="expectation", failed=names)
    if "drop" in actions:
        return Expected("dropped", failed=names)
    return Expected("table", row=row, failed=names)


def moved(record: Record, rules: Rules, later: Rules | None) -> Expected:
    """Where ``record`` must be if its dead letter, if it is one, was replayed under the rules of ``later``."""
    first = expected(record, rules)
    if later is None or first.place != "dead_letter":
        return first
    second = expected(record, later)
    return second if second.place == "table" else first


def _decoded(value: bytes | None, rules: Rules) -> tuple[bool, dict[str, Any] | None]:
    if value is None:
        return True, None
    try:
        body = json.loads(value.decode(), parse_constant=_refused)
        if not isinstance(body, dict):
            return False, None
        row = {name: None if body.get(name) is None else fit(body[name]) for name, fit in rules.columns.items()}
    except ValueError:
        return False, None
    return True, row


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _is_text(key: bytes | None) -> bool:
    try:
        return key is None or key.decode() is not None
    except UnicodeDecodeError:
        return False


def expected_counts(places: Mapping[Coordinates, Expected], records: Mapping[Coordinates, Record]) -> dict[str, Any]:
    """The counts that the ledger must have reached, without those that an oracle cannot know."""
    by_place = Counter(each.place for each in places.values())
    nulls = sum(1 for at, each in places.items() if each.place == "dropped" and records[at].value is None)
    failures = Counter(name for each in places.values() for name in each.failed)
    return {
        "consumed": len(places),
        "written": by_place["table"],
        "merged": 0,
        "dropped": by_place["dropped"],
        "dead_lettered": by_place["dead_letter"],
        "null_values": nulls,
        "expectations": dict(failures),
    }


# --- what is -----------------------------------------------------------------------------------------


def rows_of(location: Path | str) -> list[dict[str, Any]]:
    """The rows of a Delta table, read by deltalake; nothing where there is no table, or none that got a commit."""
    if not any(Path(location, "_delta_log").glob("*.json")):
        return []
    reader = QueryBuilder().register("t", DeltaTable(str(location))).execute("SELECT * FROM t").read_all()
    names = reader.schema.names
    columns = [reader.column(index).to_pylist() for index in range(len(names))]
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)]


def files_of(location: Path) -> set[str]:
    """Names of all files that any version of the table ever had; for tables without partitions."""
    lines = [line for file in location.glob("_delta_log/*.json") for line in file.read_text().splitlines()]
    return {action["add"]["path"] for action in map(json.loads, lines) if "add" in action}


def commits_of(location: Path) -> list[tuple[int, dict[str, Any]]]:
    """What the log says of each commit that it has, oldest first."""
    commits = []
    for file in sorted(location.glob("_delta_log/*.json")):
        if file.stem.isdecimal():
            # Not by splitlines: texts in statistics may have line ends of other kinds in them.
            for line in filter(None, file.read_text("utf-8").split("\n")):
                commit = json.loads(line).get("commitInfo")
                if commit:
                    commits.append((int(file.stem), commit))
    return commits


def ledger_of(location: Path) -> list[dict[str, Any]]:
    """The ledger's entries in the table's log, oldest first, as the JSON says."""
    texts = [commit.get("userMetadata") for _version, commit in commits_of(location)]
    return [json.loads(text) for text in texts if text]


def settled_counts(newest: Mapping[str, Any], side_file: Path) -> dict[str, Any] | None:
    """The counts of the newest entry's own batch; None while its dead letters are not known to be complete."""
    if not side_file.exists():
        return None
    side = json.loads(side_file.read_text())
    return side["counts"] if json.loads(side["entry"])["attempt"] == newest["attempt"] else None


def counted(location: Path, side_file: Path) -> dict[str, Any]:
    """Sum of all batches' counts: what the newest entry carries and what the side file says of its own batch."""
    newest = ledger_of(location)[-1]
    counts = settled_counts(newest, side_file)
    assert counts is not None
    return _added(newest["totals"], counts)


def _added(one: dict[str, Any], two: dict[str, Any]) -> dict[str, Any]:
    names = one["expectations"] | two["expectations"]
    total = {name: one[name] + two[name] for name in one if name != "expectations"}
    return total | {"expectations": {n: one["expectations"].get(n, 0) + two["expectations"].get(n, 0) for n in names}}


# --- one against the other ---------------------------------------------------------------------------


def audit(
    records: Mapping[Coordinates, Record],
    rules: Rules,
    *,
    table: Path,
    dead_letters: Path,
    side_file: Path | None = None,
    replayed_under: Rules | None = None,
) -> Audit:
    """Holds both tables, and the ledger's counts if ``side_file`` is given, against the records.

    Dead letters that pass under ``replayed_under`` must be in the table, and marked.
    """
    found = Audit()
    places = {at: moved(record, rules, replayed_under) for at, record in records.items()}
    rows, letters = rows_of(table), rows_of(dead_letters)
    open_letters = [letter for letter in letters if letter["status"] != "replayed"]
    _audit_coordinates(found, places, rows, "table")
    _audit_coordinates(found, places, open_letters, "dead_letter")
    twice = Counter(map(_at, rows)).keys() & Counter(map(_at, open_letters)).keys()
    found.doubled += [("both tables", at) for at in sorted(twice)]
    for row in rows:
        at = _at(row)
        if at in records and places[at].place == "table":
            found.wrong += [("table", at, name) for name in _differences(row, records[at], places[at])]
    for letter in letters:
        at = _at(letter)
        if at in records and places[at].place == "dead_letter":
            found.wrong += [("dead letter", at, name) for name in _letter_differences(letter, records[at], places[at])]
    if side_file is not None:
        first = {at: expected(record, rules) for at, record in records.items()}
        wanted = expected_counts(first, records)
        wanted["replayed"] = sum(1 for at, each in first.items() if each.place != places[at].place)
        _audit_counts(found, counted(table, side_file), wanted)
    return found


def _audit_coordinates(
    found: Audit, places: Mapping[Coordinates, Expected], rows: Sequence[Mapping[str, Any]], place: str
) -> None:
    there = Counter(_at(row) for row in rows)
    wanted = {at for at, each in places.items() if each.place == place}
    found.lost += [(place, at) for at in sorted(wanted - there.keys())]
    found.phantom += [(place, at) for at in sorted(there.keys() - wanted)]
    found.doubled += [(place, at, times) for at, times in sorted(there.items()) if times > 1]


def _audit_counts(found: Audit, counts: Mapping[str, Any], wanted: Mapping[str, Any]) -> None:
    for name, number in wanted.items():
        have = counts[name]
        if name == "expectations":
            have = {rule: failures for rule, failures in have.items() if failures}
        if have != number:
            found.wrong.append(("count", name, f"{have} instead of {number}"))


def _at(row: Mapping[str, Any]) -> Coordinates:
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def _differences(row: Mapping[str, Any], record: Record, wanted: Expected) -> list[str]:
    assert wanted.row is not None
    key = None if record.key is None else record.key.decode()
    values = {**wanted.row, "kafka_key": key, "kafka_timestamp": _time(record)}
    return [name for name, value in values.items() if row[name] != value] + ["ingested_at"] * (not row["ingested_at"])


def _letter_differences(letter: Mapping[str, Any], record: Record, wanted: Expected) -> list[str]:
    values = {
        "kafka_key": record.key,
        "kafka_value": record.value,
        "kafka_timestamp": _time(record),
        "stage": wanted.stage,
        "failed_expectations": list(wanted.failed),
    }
    empty = [name for name in ("reason", "message", "flow", "target", "topic_id", "batch") if not letter[name]]
    return [name for name, value in values.items() if letter[name] != value] + empty


def _time(record: Record) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=record.timestamp_ms)
