"""The laws of the ledger, over random vectors of offsets. Pure Python; no Spark."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.domain.ledger.ledger import Counts, Decision, Entry, first_entry
from rivermouth.errors import LedgerGap

TOPICS = st.sampled_from(["orders", "clicks", "a.b-c_d"])
OFFSET = st.integers(0, 60)
OFFSETS = st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 3), OFFSET, min_size=1), max_size=3)
RANGE = st.tuples(OFFSET, OFFSET).map(lambda ends: (min(ends), max(ends)))
RANGES = st.dictionaries(TOPICS, st.dictionaries(st.integers(0, 3), RANGE, min_size=1), max_size=3)
COUNT = st.integers(0, 10**12)
COUNTS = st.builds(
    Counts,
    consumed=COUNT,
    written=COUNT,
    merged=COUNT,
    dropped=COUNT,
    dead_lettered=COUNT,
    null_values=COUNT,
    expectations=st.dictionaries(st.text(min_size=1, max_size=8), COUNT, max_size=3),
    undeclared_fields=COUNT,
    replayed=COUNT,
    lost=COUNT,
)
DECISIONS = st.builds(
    Decision,
    kind=st.sampled_from(["accept_loss", "new_epoch", "rewind"]),
    entry=st.integers(0, 10**9),
    topic=TOPICS,
    moves=st.dictionaries(st.integers(0, 3), RANGE, max_size=3),
    topic_id=st.none() | st.text(max_size=22),
    who=st.text(max_size=8),
    at=st.text(max_size=8),
    why=st.text(max_size=8),
    mark=st.text(max_size=8),
)
ENTRIES = st.builds(
    Entry,
    flow=st.text(min_size=1, max_size=8),
    number=st.integers(0, 10**9),
    kind=st.sampled_from(["create", "batch", "replay", "maintenance", "decision"]),
    next_offsets=OFFSETS,
    settled=st.just({}),
    topic_ids=st.dictionaries(TOPICS, st.none() | st.text(max_size=22), max_size=3),
    totals=COUNTS,
    attempt=st.text(max_size=8),
    starting_offsets=st.text(max_size=8),
    decisions=st.lists(DECISIONS, max_size=3).map(tuple),
).map(lambda entry: dataclasses.replace(entry, settled=entry.next_offsets))


def cells(ranges):
    """The single offsets in ranges: the plainest form that there is."""
    return {(topic, p, offset) for topic, p, start, end in offset_ranges.flat(ranges) for offset in range(start, end)}


def below(offsets):
    """All offsets before a vector."""
    return {(topic, p, i) for topic, parts in offsets.items() for p, end in parts.items() for i in range(end)}


def known(offsets):
    return {(topic, p) for topic, parts in offsets.items() for p in parts}


# --- judge -----------------------------------------------------------------------------------------


@given(OFFSETS, RANGES)
def test_judge_writes_exactly_the_offsets_that_the_table_lacks_or_stops_at_a_gap(next_offsets, planned):
    has_gap = any(
        start > next_offsets.get(topic, {}).get(p, start) for topic, p, start, _end in offset_ranges.flat(planned)
    )
    if has_gap:
        with pytest.raises(LedgerGap):
            ledger.remaining_ranges("f", next_offsets, planned)
        return
    written = ledger.remaining_ranges("f", next_offsets, planned)
    assert cells(written) == cells(planned) - below(next_offsets)
    assert all(start < end for _topic, _p, start, end in offset_ranges.flat(written))


@given(OFFSETS, RANGES)
def test_a_batch_that_was_written_is_skipped_when_it_comes_again(next_offsets, planned):
    try:
        written = ledger.remaining_ranges("f", next_offsets, planned)
    except LedgerGap:
        return
    after = offset_ranges.advanced(next_offsets, written)
    assert ledger.remaining_ranges("f", after, written) == {}
    again = ledger.remaining_ranges("f", after, planned)
    # A partition that is not in the ledger and has no records yet is new each time it is planned.
    assert cells(again) == set()


@given(OFFSETS, st.data())
def test_any_chain_of_batches_that_begin_where_the_ledger_stands_or_before_covers_each_offset_once(start, data):
    next_offsets, seen = start, []
    for _batch in range(data.draw(st.integers(0, 5))):
        planned = {
            topic: {
                p: (data.draw(st.integers(0, offset)), offset + data.draw(st.integers(0, 5)))
                for p, offset in parts.items()
            }
            for topic, parts in next_offsets.items()
        }
        written = ledger.remaining_ranges("f", next_offsets, planned)
        seen += list(cells(written))
        next_offsets = offset_ranges.advanced(next_offsets, written)
    assert len(seen) == len(set(seen))
    assert set(seen) == below(next_offsets) - below(start)


def test_equal_is_written_contained_is_skipped_and_of_an_overlap_the_rest_is_written():
    expected = {"t": {0: 10, 1: 0}}
    assert ledger.remaining_ranges("f", expected, {"t": {0: (10, 20), 1: (0, 5)}}) == {"t": {0: (10, 20), 1: (0, 5)}}
    assert ledger.remaining_ranges("f", expected, {"t": {0: (2, 10), 1: (0, 0)}}) == {}
    assert ledger.remaining_ranges("f", expected, {"t": {0: (2, 12)}}) == {"t": {0: (10, 12)}}


def test_the_ledger_is_a_vector_and_no_sum():
    planned = {"t": {0: (0, 10), 1: (0, 5)}}
    assert ledger.remaining_ranges("f", {"t": {0: 10, 1: 0}}, planned) == {"t": {1: (0, 5)}}
    assert ledger.remaining_ranges("f", {"t": {0: 4, 1: 5}}, planned) == {"t": {0: (4, 10)}}


def test_the_text_of_a_gap():
    with pytest.raises(LedgerGap) as caught:
        ledger.remaining_ranges("orders", {"t": {3: 10}}, {"t": {3: (12, 20)}})
    assert str(caught.value) == (
        "[LEDGER_GAP] flow orders: topic t partition 3: no batch has the offsets 10 to 12 (exclusive); "
        "nothing was written\n"
        "  hint: rivermouth run orders"
    )


# --- vectors ---------------------------------------------------------------------------------------


@given(OFFSETS, RANGES)
def test_advancing_never_goes_back_and_forgets_no_partition(offsets, ranges):
    after = offset_ranges.advanced(offsets, ranges)
    assert known(after) == known(offsets) | {(topic, p) for topic, p, _start, _end in offset_ranges.flat(ranges)}
    for topic, parts in offsets.items():
        for p, offset in parts.items():
            assert after[topic][p] >= offset
    assert below(after) >= below(offsets)


@given(OFFSETS, OFFSETS)
def test_between_is_what_lies_before_the_end_and_not_before_the_start(start, end):
    both = known(start) & known(end)
    expected = {cell for cell in below(end) - below(start) if cell[:2] in both}
    assert cells(offset_ranges.between(start, end)) == expected


@given(OFFSETS, OFFSETS)
def test_filled_adds_what_is_missing_and_changes_nothing(offsets, defaults):
    filled = offset_ranges.filled(offsets, defaults)
    assert known(filled) == known(offsets) | known(defaults)
    for topic, p in known(filled):
        source = offsets if (topic, p) in known(offsets) else defaults
        assert filled[topic][p] == source[topic][p]


@given(RANGES, st.integers(1, 300))
def test_limited_takes_the_beginning_of_each_range_and_starves_none(ranges, max_offsets):
    part = offset_ranges.limited(ranges, max_offsets)
    partitions = [item for item in offset_ranges.flat(ranges) if item[2] < item[3]]
    assert cells(part) <= cells(ranges)
    assert offset_ranges.size(part) <= max(max_offsets, len(partitions))
    for topic, p, start, end in partitions:
        first, last = part[topic][p]
        assert first == start
        assert start < last <= end


@given(RANGES)
def test_halving_parts_the_ranges_exactly_and_comes_to_an_end(ranges):
    halves = offset_ranges.halved(ranges)
    if offset_ranges.size(ranges) <= 1:
        assert halves is None
        return
    first, second = halves
    assert cells(first) | cells(second) == cells(ranges)
    assert cells(first) & cells(second) == set()
    assert cells(first)
    assert cells(second)
    # The earlier half of each partition comes first, or the second would leave a gap.
    written = ledger.remaining_ranges("f", offset_ranges.advanced(offset_ranges.starts(ranges), first), second)
    assert cells(written) == cells(second)


@given(RANGES, st.integers(1, 20))
def test_a_drain_in_limited_parts_covers_everything_once(ranges, max_offsets):
    goal, position, seen = offset_ranges.ends(ranges), offset_ranges.starts(ranges), []
    while rest := offset_ranges.between(position, goal):
        part = offset_ranges.limited(rest, max_offsets)
        seen += list(cells(part))
        position = offset_ranges.advanced(position, part)
    assert len(seen) == len(set(seen))
    assert set(seen) == cells(ranges)


# --- entries ---------------------------------------------------------------------------------------


@given(ENTRIES)
def test_an_entry_is_the_same_after_it_was_text(entry):
    found = Entry.from_json(entry.to_json(), table="t", version=1)
    # Ids are kept for the topics that have offsets.
    ids = {topic: entry.topic_ids.get(topic) for topic in entry.next_offsets}
    assert found == dataclasses.replace(entry, topic_ids=ids)


@given(OFFSETS, st.lists(st.tuples(RANGES, COUNTS), max_size=5))
def test_a_chain_of_entries_counts_up_settles_the_one_before_and_adds_up_its_counts(start, batches):
    entry = first_entry("f", start, {})
    assert entry.unsettled == {}
    total = Counts()
    for planned, counts in batches:
        try:
            ranges = ledger.remaining_ranges("f", entry.next_offsets, planned)
        except LedgerGap:
            continue
        after = entry.after_batch(ranges, counts, {})
        total += counts
        assert after.number == entry.number + 1
        # Also the records of a partition that is new with this batch are looked at again after a crash.
        assert cells(after.unsettled) == cells(ranges)
        assert after.totals == total
        assert after.attempt != entry.attempt
        entry = after
    carried = entry.successor("replay", Counts())
    assert carried.unsettled == {}
    assert carried.next_offsets == entry.next_offsets
    assert carried.number == entry.number + 1


@given(COUNTS, COUNTS, COUNTS)
def test_counts_add_up_in_any_order(one, two, three):
    assert (one + two) + three == one + (two + three)
    assert one + two == two + one
    assert dict((one + Counts()).expectations) == dict(one.expectations)


@given(COUNT, COUNT, COUNT, COUNT)
def test_counts_agree_only_if_every_record_is_in_one_place(written, merged, dropped, dead):
    parts = {"written": written, "merged": merged, "dropped": dropped, "dead_lettered": dead}
    assert Counts(consumed=written + merged + dropped + dead, **parts).adds_up
    assert not Counts(consumed=written + merged + dropped + dead + 1, **parts).adds_up
