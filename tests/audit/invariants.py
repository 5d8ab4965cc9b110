"""What must be true of a scenario: at any moment, and once a run has said that all went well."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

from tests.audit import keyed
from tests.audit.scenario import Scenario
from tests.audit.truth import Key
from tests.crashes import oracle
from tests.crashes.oracle import Audit
from tests.crashes.scene import Scene

from rivermouth.engine.report.status import project_status

Rows = Mapping[Key, Sequence[Mapping[str, Any]]]


def harmless(scenario: Scenario) -> Audit:
    """Nothing is doubled, made up or garbled at this moment, and the ledger never went back."""
    here = scenario.look()
    return _harmless(scenario, here, _rows(scenario, here), _letters(scenario, here))


def _harmless(scenario: Scenario, here: Scene, rows: Rows, letters: Rows) -> Audit:
    found = Audit()
    _compare(found, scenario, rows, letters)
    if scenario.keyed:
        found.doubled += list(keyed.twice(rows))
        found.phantom += [
            ("deletes", key) for key in rows if key in scenario.truth.places and keyed.deletes(scenario.truth, key)
        ]
    if not scenario.rewound:
        given_up = [each for each in oracle.rows_of(here.dead_letters) if each["status"] != "open"]
        found.phantom += [("given up", each["kafka_topic"], each["kafka_offset"]) for each in given_up]
    found.wrong += list(_ledger_went_back(oracle.ledger_of(here.table)))
    return found


def whole(scenario: Scenario, *, drained: bool) -> Audit:
    """Also: every visible record is in its place, or recorded as lost; and the counts and the status say so."""
    here = scenario.look()
    rows, letters = _rows(scenario, here), _letters(scenario, here)
    found = _harmless(scenario, here, rows, letters)
    superseded = _compacted_away(scenario)
    there = {"table": {*rows}, "dead_letter": {*letters}}
    if scenario.keyed:
        there["table"], raised, garbled = keyed.compared(
            scenario.truth, rows, scenario.uncertain | superseded, scenario.sink
        )
        found.phantom += raised
        found.wrong += garbled
    entries = oracle.ledger_of(here.table)
    began, decisions = entries[0]["topics"], entries[-1]["decisions"]
    for key, expected in scenario.truth.places.items():
        if expected.place == "dropped" or key in there[expected.place] or key in superseded:
            continue
        if key in scenario.uncertain and key[1] == 0 and key[3] < began[key[0]]["next"].get(str(key[2]), 0):
            continue  # the flow began at the earliest that there was
        if key not in scenario.uncertain or not _is_recorded_as_lost(key, decisions, scenario):
            found.lost.append((expected.place, key))
    if not scenario.rewound:
        found.wrong += list(_counts(scenario, here, rows, letters, superseded))
    [status] = project_status(
        [(scenario.scene.flow, scenario.scene.places)],
        bootstrap_servers=scenario.scene.bootstrap_servers,
        options={},
        spark_conf=scenario.spark_conf,
        timeout_s=15,
    )
    # Who follows is stopped at the last visible record: what an aborted transaction left behind it is not read yet.
    if status.code is not None or (drained and not scenario.hangs and status.lag != 0):
        found.wrong.append(("status", status.code, status.lag))
    return found


def _compacted_away(scenario: Scenario) -> set[Key]:
    """Superseded records of the compacted topic that Kafka does not hold any more; they are excused."""
    facts = scenario.scene.topics[1]
    held = {
        (topic, 0, partition, offset)
        for topic, partition, offset in oracle.visible(scenario.environment.direct, [facts])
    }
    gone = scenario.truth.superseded(facts) - held - scenario.pinned
    scenario.pinned |= {key for key in held if key in scenario.truth.records}
    scenario.excused = len(gone)
    return gone


def _rows(scenario: Scenario, here: Scene) -> Rows:
    entries = oracle.ledger_of(here.table)
    found: dict[Key, list[Mapping[str, Any]]] = {}
    for row in oracle.rows_of(here.table):
        found.setdefault(_key(scenario, entries, row, row.get("kafka_epoch") or 0), []).append(row)
    return found


def _key(scenario: Scenario, entries: Sequence[Mapping[str, Any]], row: Mapping[str, Any], epoch: int) -> Key:
    """Who the truth says that a row is, whose partition has this epoch for the flow.

    The flow counts a partition's epochs, and only from when it knew it; the truth counts the topics of a name.
    """
    topic, partition, offset = (row[f"kafka_{name}"] for name in ("topic", "partition", "offset"))
    decisions = entries[-1]["decisions"] if entries else ()
    anew = [0] + [each["entry"] for each in decisions if each["kind"] == "new_epoch" and each["topic"] == topic]
    begun = entries[-1]["topics"][topic].get("epochs", {}).get(str(partition), ()) if entries else ()
    epochs = [sum(1 for entry in begun if entry <= since) for since in anew]
    keys = [(topic, number, partition, offset) for number, each in enumerate(epochs) if each == epoch]
    # Of several topics with one epoch, the flow knew this partition in one of them alone.
    return next((key for key in reversed(keys) if key in scenario.truth.records), (topic, -1, partition, offset))


def _letters(scenario: Scenario, here: Scene) -> Rows:
    """The open ones: a rewind gives up those that it reads again."""
    letters = [each for each in oracle.rows_of(here.dead_letters) if each["status"] == "open"]
    entries = oracle.ledger_of(here.table)
    begun = {topic: part.get("epochs", {}) for topic, part in entries[-1]["topics"].items()} if entries else {}
    found: dict[Key, list[Mapping[str, Any]]] = {}
    for each in letters:
        topic, partition = each["kafka_topic"], each["kafka_partition"]
        epoch = sum(1 for entry in begun.get(topic, {}).get(str(partition), ()) if each["batch"] >= entry)
        found.setdefault(_key(scenario, entries, each, epoch), []).append(each)
    return found


def _compare(found: Audit, scenario: Scenario, rows: Rows, letters: Rows) -> None:
    for place, there in (("table", rows), ("dead_letter", letters)):
        differences = oracle._differences if place == "table" else oracle._letter_differences
        for key, copies in there.items():
            expected = scenario.truth.places.get(key)
            if expected is None or expected.place != place:
                found.phantom.append((place, key))
                continue
            if len(copies) > 1:
                found.doubled.append((place, key, len(copies)))
            record = scenario.truth.records[key]
            found.wrong += [(place, key, name) for name in differences(copies[0], record, expected)]
    found.doubled += [("both tables", key) for key in rows.keys() & letters.keys()]


def _ledger_went_back(entries: Sequence[Mapping[str, Any]]) -> Iterator[tuple[Any, ...]]:
    for before, after in pairwise(entries):
        if after["entry"] != before["entry"] + 1:
            yield "ledger", before["entry"], after["entry"]
        for topic, part in before["topics"].items():
            now = after["topics"].get(topic, {"next": {}})["next"]
            for partition, offset in part["next"].items():
                if after["kind"] != "decision" and now.get(partition, -1) < offset:
                    yield "ledger", after["entry"], topic, partition, offset, now.get(partition)


def _is_recorded_as_lost(key: Key, decisions: Sequence[Mapping[str, Any]], scenario: Scenario) -> bool:
    topic, epoch, partition, offset = key
    if epoch < scenario.truth.epochs[topic]:
        # The decision for the new topic says so of all that was not read of the old one.
        return sum(each["kind"] == "new_epoch" and each["topic"] == topic for each in decisions) > epoch
    for each in decisions:
        start, end = each["moves"].get(str(partition), (0, 0)) if each["topic"] == topic else (0, 0)
        if each["kind"] == "accept_loss" and start <= offset < end:
            return True
    return False


def _counts(
    scenario: Scenario, here: Scene, rows: Rows, letters: Rows, superseded: set[Key]
) -> Iterator[tuple[Any, ...]]:
    counts = oracle.counted(here.table, here.side_file)
    places = scenario.truth.places
    known = {key: each for key, each in places.items() if key not in scenario.uncertain and key not in superseded}
    exact = {"dead_lettered": len(letters), "erased": 0}
    if not scenario.keyed:
        exact |= {"written": len(rows), "merged": 0}
    exact["consumed"] = sum(counts[name] for name in ("written", "merged", "dropped", "dead_lettered"))
    counts["table"] = counts["written"] + counts["merged"]
    yield from (("count", name, counts[name], number) for name, number in exact.items() if counts[name] != number)
    least, most = (_sums(scenario, each) for each in (known, places))
    for name in most:
        have = counts[name] if name in counts else counts["expectations"].get(name, 0)
        if not least[name] <= have <= most[name]:
            yield "count", name, have, f"{least[name]} to {most[name]}"


def _sums(scenario: Scenario, places: Mapping[Key, oracle.Expected]) -> Counter[str]:
    dropped = [key for key, each in places.items() if each.place == "dropped"]
    nulls = sum(1 for key in dropped if scenario.truth.records[key].value is None)
    failures = Counter(name for each in places.values() for name in each.failed)
    table = sum(1 for each in places.values() if each.place == "table")
    sums = {"consumed": len(places), "table": table, "dropped": len(dropped), "null_values": nulls}
    return Counter(sums) + failures
