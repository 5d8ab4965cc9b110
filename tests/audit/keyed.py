"""What a keyed table must hold, in plain Python: the fold of what the flow was given, key by key."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

from tests.audit.truth import Key, Truth
from tests.crashes import oracle
from tests.crashes.oracle import Expected, Record, Rules

SINKS = ("upsert", "history")

Span = tuple[int, int | None]
"""From which sequence on a version is valid, and up to which; without the latter it is the current one."""


def sink_of(kind: str) -> dict[str, str]:
    """The sink as in the YAML: Kafka's key, a sequence that often comes late and often twice, and deletions."""
    return {"type": kind, "sequence_by": "sequence", "apply_as_deletes": "op = 'd'"}


def expected(record: Record, rules: Rules) -> Expected:
    """Where a change must be; those that delete count as in the table, which they change."""
    found = oracle.expected(record, replace(rules, null_values="keep"))
    decoded, row = oracle._decoded(record.value, rules)
    if found.stage == "decode" and found.place == "dead_letter":
        return found
    assert decoded
    if record.key is None or (row is not None and row["sequence"] is None):
        return Expected("dead_letter", stage="conform")
    if row is None or row["op"] == "d":
        return Expected("table", row={} if row is None else {**row, "kafka_key": record.key.decode()})
    return found


@dataclass(frozen=True)
class _Change:
    key: Key
    sequence: int | None
    kind: str


def logs(truth: Truth) -> dict[bytes, list[Key]]:
    """By key of Kafka the records that change its rows, in their order: each key is in one partition alone."""
    found: dict[bytes, list[Key]] = {}
    for key in sorted(truth.places):
        record = truth.records[key]
        if truth.places[key].place == "table" and record.key is not None:
            found.setdefault(record.key, []).append(key)
    return found


def fold(truth: Truth, log: Sequence[Key], sink: str) -> dict[Key, Span]:
    """The records whose rows must be there of one key, and from when to when each is valid."""
    changes = list(_changes(truth, log))
    return _newest(changes) if sink == "upsert" else _versions(changes)


def _changes(truth: Truth, log: Sequence[Key]) -> Iterator[_Change]:
    """A tombstone has the place of the newest record of its key before it."""
    best: int | None = None
    for key in log:
        if truth.records[key].value is None:
            yield _Change(key, best, "tombstone")
            continue
        row = truth.places[key].row
        assert row is not None
        best = row["sequence"] if best is None else max(best, row["sequence"])
        yield _Change(key, row["sequence"], "delete" if row["op"] == "d" else "row")


def _newest(changes: Sequence[_Change]) -> dict[Key, Span]:
    newest: _Change | None = None
    for each in changes:
        # Of equals the later one wins.
        if newest is None or _place(each) >= _place(newest):
            newest = each
    if newest is None or newest.kind != "row" or newest.sequence is None:
        return {}
    return {newest.key: (newest.sequence, None)}


def _place(change: _Change) -> int:
    return -1 if change.sequence is None else change.sequence


def _versions(changes: Sequence[_Change]) -> dict[Key, Span]:
    places: dict[int, _Change] = {}
    ended: set[int] = set()
    for each in changes:
        if each.sequence is None:
            continue
        if each.kind == "tombstone":
            ended.add(each.sequence)
        else:
            # One that comes after a tombstone of its place begins there again.
            ended.discard(each.sequence)
            places[each.sequence] = each
    order = sorted(places)
    following = dict(pairwise(order))
    return {places[at].key: (at, at if at in ended else following.get(at)) for at in order if places[at].kind == "row"}


def compared(
    truth: Truth, rows: Mapping[Key, Sequence[Mapping[str, Any]]], doubtful: set[Key], sink: str
) -> tuple[set[Key], list[Any], list[Any]]:
    """Which records the table accounts for, rows that have no business there, and rows with a wrong validity.

    Args:
        truth: What was visible.
        rows: By record.
        doubtful: Records that the flow may or may not have got: their keys are not compared.
        sink: upsert or history.
    """
    accounted: set[Key] = set()
    raised: list[Any] = []
    wrong: list[Any] = []
    for name, log in logs(truth).items():
        accounted |= {*log}
        if doubtful & {*log}:
            continue
        must = fold(truth, log, sink)
        accounted -= must.keys() - rows.keys()
        there = {key for key in log if key in rows}
        raised += [(name, key) for key in sorted(there - must.keys())]
        if sink == "history":
            for key in sorted(there & must.keys()):
                span = tuple(rows[key][0][column] for column in ("__START_AT", "__END_AT"))
                wrong += [("validity", key, span, must[key])] if span != must[key] else []
    return accounted, raised, wrong


def deletes(truth: Truth, key: Key) -> bool:
    """Whether a record deletes its key, and so is never a row."""
    row = truth.places[key].row
    return truth.records[key].value is None or (row is not None and row.get("op") == "d")


def twice(rows: Mapping[Key, Sequence[Mapping[str, Any]]]) -> Iterator[tuple[str, Any]]:
    """Keys, and in a history keys and starts, that two rows have."""
    seen: set[Any] = set()
    for copies in rows.values():
        for row in copies:
            of = (row["kafka_key"], row.get("__START_AT"))
            if of in seen:
                yield "key", of
            seen.add(of)
