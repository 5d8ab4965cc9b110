"""Which batches an audit looks at, and what it calls wrong."""

from __future__ import annotations

import dataclasses

import pytest

from rivermouth.domain.ledger.audit_window import Tally, findings, whole, window
from rivermouth.domain.ledger.ledger import Counts, Decision, first_entry

IDS = {"t": "id"}


def ledger_of(*batches, start=None):
    """Entries of batches, each given as partition to end; every batch consumed ten and dropped one."""
    entries = [first_entry("shop", {"t": start or {0: 0}}, IDS)]
    for index, ends in enumerate(batches):
        known = entries[-1].next_offsets["t"]
        ranges = {"t": {p: (known.get(p, 0), end) for p, end in ends.items()}}
        counts = Counts() if index == 0 else Counts(consumed=10, written=9, dropped=1)
        entries.append(entries[-1].after_batch(ranges, counts, IDS))
    return entries


BATCH = Counts(consumed=10, written=9, dropped=1)


def test_all_of_it_while_kafka_holds_all():
    found = window(ledger_of({0: 10}, {0: 20}, {0: 30}), BATCH, {"t": {0: 0}})
    assert (found.since, found.until, found.ranges, found.before) == (0, 3, {"t": {0: (0, 30)}}, {})
    assert found.counts == Counts(consumed=30, written=27, dropped=3)


def test_the_whole_of_it_is_there_if_it_begins_at_the_first_offset_of_each_partition():
    entries = ledger_of({0: 10}, {0: 20, 1: 5}, {0: 30, 1: 7})
    assert whole(window(entries, BATCH, {"t": {0: 0, 1: 0}}), entries[-1])
    assert not whole(window(entries, BATCH, {"t": {0: 0, 1: 3}}), entries[-1])
    again = dataclasses.replace(entries[-1], epochs={"t": {0: (2,)}})
    assert not whole(window(entries, BATCH, {"t": {0: 0, 1: 0}}), again)
    later = ledger_of({0: 10}, start={0: 5})
    assert not whole(window(later, BATCH, {"t": {0: 5}}), later[-1])
    # A topic that left the flow, and is gone.
    left = dataclasses.replace(entries[-1], next_offsets={**entries[-1].next_offsets, "u": {0: 3}})
    assert not whole(window(entries, BATCH, {"t": {0: 0, 1: 0}}), left)


def test_a_batch_whose_counts_are_not_known_is_left_out():
    found = window(ledger_of({0: 10}, {0: 20}, {0: 30}), None, {"t": {0: 0}})
    assert (found.since, found.until, found.ranges) == (0, 2, {"t": {0: (0, 20)}})
    assert found.counts == Counts(consumed=20, written=18, dropped=2)


@pytest.mark.parametrize(("first", "since", "start"), [(1, 1, 10), (10, 1, 10), (11, 2, 20), (30, 3, 30), (99, 3, 30)])
def test_what_kafka_dropped_is_left_out_by_whole_batches(first, since, start):
    found = window(ledger_of({0: 10}, {0: 20}, {0: 30}), BATCH, {"t": {0: first}})
    assert found.since == since
    assert found.ranges == ({"t": {0: (start, 30)}} if start < 30 else {})
    assert found.before == {"t": {0: (0, start)}}
    assert found.counts.consumed == 10 * (3 - since)


def test_a_partition_that_came_later_begins_where_its_first_batch_did():
    entries = ledger_of({0: 10}, {0: 20, 1: 5}, {0: 30, 1: 7})
    found = window(entries, BATCH, {"t": {0: 0, 1: 0}})
    assert (found.since, found.ranges) == (0, {"t": {0: (0, 30), 1: (0, 7)}})
    assert window(entries, BATCH, {"t": {0: 0, 1: 3}}).since == 2


def test_it_begins_after_the_last_decision():
    entries = ledger_of({0: 10}, {0: 20}, {0: 30})
    decision = Decision("accept_loss", 2, "t", {0: (10, 20)})
    entries[2:] = [dataclasses.replace(entry, decisions=(decision,)) for entry in entries[2:]]
    found = window(entries, BATCH, {"t": {0: 0}})
    assert (found.since, found.ranges, found.before) == (2, {"t": {0: (20, 30)}}, {"t": {0: (0, 20)}})


def test_a_log_that_was_cleaned_leaves_its_last_entries():
    found = window(ledger_of({0: 10}, {0: 20}, {0: 30})[2:], BATCH, {"t": {0: 0}})
    assert (found.since, found.ranges, found.counts) == (2, {"t": {0: (20, 30)}}, BATCH)


def test_a_flow_without_batches_has_nothing():
    found = window(ledger_of(), Counts(), {"t": {0: 0}})
    assert (found.since, found.ranges, found.counts) == (0, {}, Counts())


WHOLE = Tally(visible=10, in_table=8, in_dead_letters=1, in_neither=1)
COUNTS = Counts(consumed=10, written=8, dead_lettered=1, dropped=1)


def changed(**fields):
    return dataclasses.replace(WHOLE, **fields)


@pytest.mark.parametrize(
    ("found", "problems"),
    [
        (WHOLE, ()),
        (changed(doubled=2), ("there more than once: 2 records",)),
        (changed(not_in_kafka=1234), ("there, and not shown by Kafka: 1,234 records",)),
        (changed(in_table=6, in_neither=3), ("in neither table: 3 records; the ledger counted 1 dropped",)),
        (changed(in_table=9, in_neither=0), ("in neither table: 0 records; the ledger counted 1 dropped",)),
        (changed(visible=11, in_table=9), ("shown by Kafka: 11 records; the ledger counted 10",)),
        (changed(visible=9, in_table=7), ("shown by Kafka: 9 records; the ledger counted 10",)),
    ],
)
def test_findings(found, problems):
    assert findings(found, COUNTS, compacted=False) == problems


def test_what_compaction_took_away_is_no_finding():
    compacted = Tally(visible=3, in_table=3, not_in_kafka=6)
    assert findings(compacted, COUNTS, compacted=True) == ()
    assert findings(compacted, COUNTS, compacted=False) != ()
    assert findings(changed(doubled=1), COUNTS, compacted=True) == ("there more than once: 1 record",)
    assert findings(changed(visible=11, in_neither=2), COUNTS, compacted=True) == (
        "in neither table: 2 records; the ledger counted 1 dropped",
        "shown by Kafka: 11 records; the ledger counted 10",
    )
