"""The laws of decisions, over random vectors of offsets: exactly what is gone can be called lost, and all of it."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rivermouth.domain.ledger import decisions, offset_ranges
from rivermouth.domain.ledger.data_loss import KafkaState, LossDecision, deleted_ranges, problem, undecided
from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.errors import DecisionRefused, OffsetsExpired, RivermouthError

OFFSET = st.integers(0, 30)
PARTITIONS = st.dictionaries(st.integers(0, 3), st.tuples(OFFSET, OFFSET, OFFSET), min_size=1, max_size=4)


def cells(ranges):
    return {(topic, p, offset) for topic, p, start, end in offset_ranges.flat(ranges) for offset in range(start, end)}


def a_flow(parts):
    """A ledger, what it needs (at most its next offsets) and what Kafka holds, which ends behind all of it."""
    entry = first_entry("shop", {"t": {p: stood for p, (stood, _settled, _first) in parts.items()}}, {"t": "id"})
    needed = {"t": {p: min(stood, settled) for p, (stood, settled, _first) in parts.items()}}
    first = {"t": {p: kept for p, (_stood, _settled, kept) in parts.items()}}
    return entry, needed, KafkaState({"t": "id"}, first, {"t": dict.fromkeys(parts, 100)})


@given(PARTITIONS)
def test_what_is_gone_is_what_is_needed_and_lies_before_what_kafka_holds(parts):
    entry, needed, found = a_flow(parts)
    lacking = deleted_ranges(needed, found.first)
    expected = {("t", p, o) for p, kept in found.first["t"].items() for o in range(needed["t"][p], kept)}
    assert cells(lacking) == expected
    stopped = problem("shop", entry, needed, found)
    assert isinstance(stopped, OffsetsExpired) if lacking else stopped is None


@given(PARTITIONS)
def test_all_that_is_gone_called_lost_moves_the_ledger_behind_it_and_no_further(parts):
    entry, needed, found = a_flow(parts)
    lacking = deleted_ranges(needed, found.first)
    ruling = decisions.rule("shop", entry, needed, found, LossDecision(losses=lacking))
    if not lacking:
        assert ruling is None
        return
    after = ruling.entry_after(entry, Counts())
    for p, stood in entry.next_offsets["t"].items():
        assert after.next_offsets["t"][p] == max(stood, found.first["t"][p] if p in lacking["t"] else stood)
    # What was never read is lost by the decision itself; what was read is counted with its batch.
    unread = {cell for cell in cells(lacking) if cell[2] >= entry.next_offsets["t"][cell[1]]}
    assert after.totals == Counts(lost=len(unread))
    assert after.unsettled == {}
    assert problem("shop", after, after.next_offsets, found) is None
    assert decisions.rule("shop", after, after.next_offsets, found, LossDecision(losses=lacking)) is None


@given(PARTITIONS, st.data())
def test_less_than_all_that_is_gone_and_anything_else_is_refused(parts, data):
    entry, needed, found = a_flow(parts)
    lacking = deleted_ranges(needed, found.first).get("t", {})
    p = data.draw(st.sampled_from(sorted(parts)))
    start, end = sorted(data.draw(st.tuples(OFFSET, st.integers(31, 60))))
    with pytest.raises(DecisionRefused):
        decisions.rule("shop", entry, needed, found, LossDecision(losses={"t": {**lacking, p: (start, end)}}))
    if len(lacking) > 1:
        part = dict(sorted(lacking.items())[1:])
        with pytest.raises(OffsetsExpired):
            decisions.rule("shop", entry, needed, found, LossDecision(losses={"t": part}))


PARTS = st.dictionaries(st.integers(0, 2), st.tuples(OFFSET, OFFSET, OFFSET, OFFSET, st.booleans()), min_size=1)
TOPICS = st.dictionaries(st.sampled_from("abc"), st.tuples(st.sampled_from(["one", "two", None]), PARTS), min_size=1)


def a_broken_flow(topics):
    """Topics created again, partitions that are missing, logs that were cut or have a gap, all at once."""
    stood = {topic: {p: part[0] for p, part in parts.items()} for topic, (_id, parts) in topics.items()}
    needed = {t: {p: min(part[:2]) for p, part in parts.items()} for t, (_id, parts) in topics.items()}
    there = {t: {p: part for p, part in parts.items() if part[4]} for t, (_id, parts) in topics.items()}
    first = {t: {p: min(part[2:4]) for p, part in parts.items()} for t, parts in there.items()}
    end = {t: {p: max(part[2:4]) for p, part in parts.items()} for t, parts in there.items()}
    entry = first_entry("shop", stood, dict.fromkeys(topics, "one"))
    return replace(entry, settled=needed), needed, KafkaState({t: each[0] for t, each in topics.items()}, first, end)


@given(TOPICS)
def test_what_the_hint_names_settles_all_that_stops_a_flow(topics):
    entry, needed, found = a_broken_flow(topics)
    wanted = undecided(entry, needed, found)
    stopped = problem("shop", entry, needed, found)
    assert bool(wanted) == (stopped is not None)
    if stopped is not None:
        assert stopped.next_step.endswith(wanted.command("shop"))
        ruling = decisions.rule("shop", entry, needed, found, wanted)
        after = ruling.entry_after(entry, Counts())
        assert problem("shop", after, after.next_offsets, found) is None
        # What of the last batch is left to be read once more, Kafka has.
        rest = offset_ranges.without(entry.unsettled, ruling.unsettled)
        for topic, p, start, stop in offset_ranges.flat(rest):
            assert found.first[topic][p] <= start < stop <= found.end[topic][p]


@given(TOPICS, st.data())
def test_whatever_part_of_it_is_typed_the_next_hint_is_the_whole(topics, data):
    entry, needed, found = a_broken_flow(topics)
    whole = undecided(entry, needed, found)
    part = LossDecision(
        losses={topic: parts for topic, parts in whole.losses.items() if data.draw(st.booleans())},
        epochs=tuple(topic for topic in whole.epochs if data.draw(st.booleans())),
        rewinds={topic: parts for topic, parts in whole.rewinds.items() if data.draw(st.booleans())},
    )
    if part and part != whole:
        with pytest.raises(RivermouthError) as caught:
            decisions.rule("shop", entry, needed, found, part)
        assert caught.value.next_step.endswith(whole.command("shop"))


@given(PARTITIONS, st.integers(1, 4))
def test_each_new_epoch_is_one_more_in_every_partition_and_starts_at_its_beginning(parts, times):
    entry, _needed, found = a_flow(parts)
    for index in range(times):
        anew = KafkaState({"t": f"id-{index}"}, found.first, found.end)
        wanted = LossDecision(epochs=("t",))
        entry = decisions.rule("shop", entry, entry.next_offsets, anew, wanted).entry_after(entry, Counts())
        assert decisions.rule("shop", entry, entry.next_offsets, anew, wanted) is None
    assert entry.next_offsets == found.first
    assert entry.begun == {("t", p): tuple(range(1, times + 1)) for p in parts}


@given(PARTITIONS)
def test_without_takes_a_beginning_away_and_nothing_else(parts):
    ranges = {"t": {p: tuple(sorted((a, b))) for p, (a, b, _c) in parts.items()}}
    away = {
        "t": {
            p: (a, min(max(a, c), b))
            for (p, (a, b)), (_a, _b, c) in zip(ranges["t"].items(), parts.values(), strict=True)
        }
    }
    assert cells(offset_ranges.without(ranges, away)) == cells(ranges) - cells(away)
