"""Decisions about data that is gone: only what fits is recorded, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rivermouth.errors import (
    DecisionRefused,
    OffsetsBeyondEnd,
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    TopicRecreated,
)
from rivermouth.rows import decisions
from rivermouth.rows.decisions import EARLIEST, Found, Wanted
from rivermouth.rows.ledger import Counts, first_entry

BEGUN = first_entry("shop", {"t": {0: 0, 1: 0}}, {"t": "one"})
ENTRY = BEGUN.after_batch({"t": {0: (0, 10), 1: (0, 20)}}, Counts(), {"t": "one"})
FOUND = Found({"t": "one"}, {"t": {0: 0, 1: 0}}, {"t": {0: 50, 1: 50}})
GONE = replace(FOUND, first={"t": {0: 25, 1: 0}})
ANEW = Found({"t": "two"}, {"t": {0: 0}}, {"t": {0: 5}})
ANN = {"who": "ann@host", "at": "2026-01-31T12:00:00+00:00", "why": "known", "mark": "m1"}


def problem(entry, found, needed=None):
    return decisions.problem("shop", entry, needed or entry.next_offsets, found)


def rule(wanted, found, entry=ENTRY, needed=None, **options):
    return decisions.rule("shop", entry, needed or entry.next_offsets, found, wanted, **options)


def recorded(wanted, found, entry=ENTRY, needed=None, counts=None, **options):
    return rule(wanted, found, entry, needed, **options).entry_after(entry, counts or Counts())


def refusal(wanted, found, entry=ENTRY, **options):
    with pytest.raises(DecisionRefused) as caught:
        rule(wanted, found, entry, **options)
    return str(caught.value)


def test_a_ledger_that_agrees_with_its_topics_has_no_problem():
    assert problem(ENTRY, FOUND) is None
    assert problem(ENTRY, Found({"t": None}, FOUND.first, FOUND.end)) is None


@pytest.mark.parametrize(
    ("found", "error", "text"),
    [
        (
            GONE,
            OffsetsExpired,
            (
                "[OFFSETS_EXPIRED] flow shop: topic t partition 0: offsets 10 to 25 (exclusive) are no longer in "
                "Kafka; "
                'nothing was written\n  hint: rivermouth run shop --accept-loss t-0:10-25 --why "REASON"'
            ),
        ),
        (
            replace(FOUND, first={"t": {0: 25, 1: 30}}),
            OffsetsExpired,
            (
                "[OFFSETS_EXPIRED] flow shop: topic t partition 0: offsets 10 to 25 (exclusive) are no longer in "
                "Kafka; "
                "nothing was written\n"
                '  hint: rivermouth run shop --accept-loss t-0:10-25 --accept-loss t-1:20-30 --why "REASON"'
            ),
        ),
        (
            ANEW,
            TopicRecreated,
            (
                "[TOPIC_RECREATED] flow shop: topic t was deleted and created again: its id is two, the ledger knows "
                "one; "
                'nothing was written\n  hint: rivermouth run shop --new-epoch t --why "REASON"'
            ),
        ),
        (
            replace(ANEW, ids={"t": None}),
            PartitionsFewer,
            (
                "[PARTITIONS_FEWER] flow shop: topic t was deleted and created again: the ledger knows 2 partitions, "
                "it "
                'has 1; nothing was written\n  hint: rivermouth run shop --new-epoch t --why "REASON"'
            ),
        ),
        (
            replace(FOUND, end={"t": {0: 7, 1: 50}}),
            OffsetsBeyondEnd,
            (
                "[OFFSETS_BEYOND_END] flow shop: topic t partition 0: the ledger expects offset 10, the topic ends "
                "at 7; nothing was written\n"
                "  hint: check that bootstrap_servers names the right cluster; if the topic was cut: "
                'rivermouth run shop --rewind t-0:7 --why "REASON"'
            ),
        ),
    ],
)
def test_what_stops_a_flow_names_the_command_that_decides(found, error, text):
    told = problem(ENTRY, found)
    assert type(told) is error
    assert str(told) == text


def test_a_flow_that_assigns_partitions_does_not_miss_the_others():
    assert problem(ENTRY, replace(FOUND, first={"t": {0: 0}}, end={"t": {0: 50}}, whole=False)) is None


# --- accepted losses ---------------------------------------------------------------------------------


def test_exactly_what_is_gone_can_be_called_lost():
    entry = recorded(Wanted(losses={"t": {0: (10, 25)}}, **ANN), GONE, counts=Counts(consumed=30, written=30))
    assert (entry.number, entry.kind, entry.unsettled) == (2, "decision", {})
    assert entry.next_offsets == {"t": {0: 25, 1: 20}}
    assert entry.totals == Counts(consumed=30, written=30, lost=15)
    (decision,) = entry.decisions
    assert (decision.kind, decision.entry, decision.topic, decision.moves) == ("accept_loss", 2, "t", {0: (10, 25)})
    assert (decision.who, decision.at, decision.why, decision.mark) == tuple(ANN.values())
    assert problem(entry, GONE) is None
    assert entry.epochs == {}


@pytest.mark.parametrize("wanted", [(10, 24), (11, 25), (0, 25), (10, 26)])
def test_another_range_is_refused_with_what_is_gone(wanted):
    assert refusal(Wanted(losses={"t": {0: wanted}}), GONE) == (
        f"[DECISION_REFUSED] flow shop: --accept-loss t-0:{wanted[0]}-{wanted[1]} is refused: what is gone is "
        "t-0:10-25; nothing was recorded\n"
        '  hint: rivermouth run shop --accept-loss t-0:10-25 --why "REASON"'
    )


def test_nothing_is_lost_that_is_there():
    assert refusal(Wanted(losses={"t": {0: (10, 25)}}), FOUND) == (
        "[DECISION_REFUSED] flow shop: --accept-loss t-0:10-25 is refused: nothing of t-0 is gone; nothing was "
        "recorded\n  hint: rivermouth run shop"
    )


@pytest.mark.parametrize(
    ("wanted", "option", "source"),
    [
        (Wanted(losses={"u": {0: (1, 2)}}), "--accept-loss u-0:1-2", "topic u"),
        (Wanted(losses={"t": {7: (1, 2)}}), "--accept-loss t-7:1-2", "partition 7 of topic t"),
        (Wanted(epochs=("u",)), "--new-epoch u", "topic u"),
        (Wanted(rewinds={"u": {0: EARLIEST}}), "--rewind u-0:earliest", "topic u"),
    ],
)
def test_what_the_flow_does_not_read_cannot_be_decided(wanted, option, source):
    assert refusal(wanted, GONE) == (
        f"[DECISION_REFUSED] flow shop: {option} is refused: the flow does not read {source}; nothing was recorded\n"
        "  hint: rivermouth plan shop"
    )


def test_a_decision_is_whole_or_nothing_of_it_is_recorded():
    found = replace(FOUND, first={"t": {0: 25, 1: 30}})
    with pytest.raises(OffsetsExpired) as caught:
        rule(Wanted(losses={"t": {0: (10, 25)}}), found)
    assert "--accept-loss t-1:20-30" in caught.value.next_step
    both = Wanted(losses={"t": {0: (10, 25), 1: (20, 30)}})
    assert recorded(both, found).totals.lost == 25


def test_what_was_recorded_is_not_recorded_again():
    wanted = Wanted(losses={"t": {0: (10, 25)}}, **ANN)
    entry = recorded(wanted, GONE)
    assert rule(wanted, GONE, entry) is None
    assert rule(replace(wanted, mark="m2"), GONE, entry) is None


def test_a_batch_that_was_not_settled_loses_only_what_is_gone_of_it():
    entry = ENTRY.after_batch({"t": {0: (10, 40)}}, Counts(), {})
    assert problem(entry, GONE, entry.settled).facts["options"] == "--accept-loss t-0:10-25"
    ruling = rule(Wanted(losses={"t": {0: (10, 25)}}), GONE, entry, entry.settled)
    assert (ruling.unsettled, ruling.unread, ruling.next_offsets) == ({"t": {0: (10, 25)}}, {}, entry.next_offsets)
    later = replace(FOUND, first={"t": {0: 45, 1: 0}})
    ruling = rule(Wanted(losses={"t": {0: (10, 45)}}), later, entry, entry.settled)
    assert (ruling.unsettled, ruling.unread) == ({"t": {0: (10, 40)}}, {"t": {0: (40, 45)}})
    assert ruling.next_offsets == {"t": {0: 45, 1: 20}}


# --- new epochs --------------------------------------------------------------------------------------


def test_a_new_epoch_begins_at_the_beginning_with_the_new_id():
    entry = recorded(Wanted(epochs=("t",), **ANN), ANEW)
    assert (entry.next_offsets, entry.settled) == ({"t": {0: 0}}, {"t": {0: 0}})
    assert entry.topic_ids == {"t": "two"}
    # Partition 1 may come back, and its offsets would be those of other records too.
    assert entry.epochs == {"t": {0: (2,), 1: (2,)}}
    assert entry.begun == {("t", 0): (2,), ("t", 1): (2,)}
    assert problem(entry, ANEW) is None
    again = recorded(Wanted(epochs=("t",)), replace(ANEW, ids={"t": "three"}), entry)
    assert again.epochs == {"t": {0: (2, 3), 1: (2,)}}
    assert rule(Wanted(epochs=("t",), mark="m2"), ANEW, entry) is None


def test_a_topic_that_the_ledger_knows_begins_no_epoch():
    assert refusal(Wanted(epochs=("t",)), FOUND) == (
        "[DECISION_REFUSED] flow shop: --new-epoch t is refused: t is the topic that the ledger knows, with the id "
        "one; nothing was recorded\n  hint: rivermouth plan shop"
    )


def test_where_topics_have_no_ids_the_user_knows_and_it_is_recorded_once():
    found, entry = replace(FOUND, ids={"t": None}), replace(ENTRY, topic_ids={"t": None})
    after = recorded(Wanted(epochs=("t",), **ANN), found, entry)
    assert after.next_offsets == {"t": {0: 0, 1: 0}}
    assert rule(Wanted(epochs=("t",), mark="m2"), found, after) is None


@pytest.mark.parametrize("wanted", [Wanted(losses={"t": {0: (10, 25)}}), Wanted(rewinds={"t": {0: 0}})])
def test_of_another_topic_neither_losses_nor_rewinds_can_be_told(wanted):
    assert "is refused: topic t was deleted and created again; nothing was recorded" in refusal(wanted, ANEW)
    assert refusal(wanted, ANEW).endswith('  hint: rivermouth run shop --new-epoch t --why "REASON"')


# --- rewinds -----------------------------------------------------------------------------------------


def test_a_rewind_goes_back_and_says_what_the_table_must_not_have():
    ruling = rule(Wanted(rewinds={"t": {0: 4, 1: EARLIEST}}), FOUND)
    assert (ruling.next_offsets, ruling.again) == ({"t": {0: 4, 1: 0}}, {"t": {0: (4, 10), 1: (0, 20)}})
    entry = ruling.entry_after(ENTRY, Counts())
    assert (entry.epochs, entry.totals.lost) == ({}, 0)
    assert [each.moves for each in entry.decisions] == [{0: (10, 4)}, {1: (20, 0)}]


@pytest.mark.parametrize(
    ("found", "offset", "detail", "fix"),
    [
        (FOUND, 11, "the ledger stands at 10, and a rewind goes back", "rivermouth plan shop"),
        (
            replace(FOUND, first={"t": {0: 6, 1: 0}}),
            4,
            "Kafka holds t-0 from 6 on",
            'rivermouth run shop --rewind t-0:6 --why "REASON"',
        ),
        (
            replace(FOUND, end={"t": {0: 7, 1: 50}}),
            8,
            "t-0 ends at 7, before the ledger's 10",
            'rivermouth run shop --rewind t-0:7 --why "REASON"',
        ),
    ],
)
def test_rewinds_that_cannot_be(found, offset, detail, fix):
    assert refusal(Wanted(rewinds={"t": {0: offset}}), found) == (
        f"[DECISION_REFUSED] flow shop: --rewind t-0:{offset} is refused: {detail}; nothing was recorded\n  hint: {fix}"
    )


@pytest.mark.parametrize("offset", [7, 5])
def test_a_log_that_was_cut_goes_on_where_the_user_says_with_other_records(offset):
    found = replace(FOUND, end={"t": {0: 7, 1: 50}})
    ruling = rule(Wanted(rewinds={"t": {0: offset}}), found)
    assert (ruling.next_offsets, ruling.again) == ({"t": {0: offset, 1: 20}}, {})
    entry = ruling.entry_after(ENTRY, Counts())
    assert entry.epochs == {"t": {0: (2,)}}
    assert problem(entry, found) is None


def test_a_rewind_that_moves_nothing_only_says_that_a_changed_table_is_fine():
    wanted = Wanted(rewinds={"t": {0: 10}})
    assert rule(wanted, FOUND) is None
    assert rule(wanted, FOUND, void=True).next_offsets == ENTRY.next_offsets


# --- decided beforehand ------------------------------------------------------------------------------


def by_setting(entry, found):
    return decisions.by_setting(entry, entry.next_offsets, found, at="now")


def test_the_setting_records_gaps_and_topics_made_anew_and_nothing_else():
    assert not by_setting(ENTRY, FOUND)
    assert by_setting(ENTRY, GONE).losses == {"t": {0: (10, 25)}}
    assert (by_setting(ENTRY, ANEW).epochs, by_setting(ENTRY, ANEW).losses) == (("t",), {})
    cut = replace(FOUND, end={"t": {0: 7, 1: 50}})
    assert not by_setting(ENTRY, cut)
    assert isinstance(problem(ENTRY, cut), RivermouthError)


def test_of_many_automatic_decisions_the_sum_remains_and_of_a_users_each():
    entry = recorded(Wanted(losses={"t": {0: (10, 25)}}, **ANN), GONE)
    for start in range(25, 25 + 2 * decisions.MAX_AUTOMATIC, 1):
        found = replace(FOUND, first={"t": {0: start + 1, 1: 0}}, end={"t": {0: 999, 1: 50}})
        entry = recorded(by_setting(entry, found), found, entry)
    assert entry.totals.lost == 15 + 2 * decisions.MAX_AUTOMATIC
    assert len(entry.decisions) == 1 + decisions.MAX_AUTOMATIC
    assert entry.decisions[0].who == "ann@host"
    assert entry.decisions[-1].moves == {0: (224, 225)}
