"""Decisions about data that is gone: only what fits is recorded, and once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rivermouth.domain.ledger import data_loss, decisions, ledger_rebuild, loss_decision
from rivermouth.domain.ledger.data_loss import KafkaState, LossDecision
from rivermouth.domain.ledger.ledger import EARLIEST, Counts, first_entry
from rivermouth.domain.ledger.ledger_rebuild import Rebuild
from rivermouth.errors import (
    DecisionRefused,
    OffsetsBeyondEnd,
    OffsetsExpired,
    PartitionsFewer,
    RivermouthError,
    TopicRecreated,
)

BEGUN = first_entry("shop", {"t": {0: 0, 1: 0}}, {"t": "one"})
ENTRY = BEGUN.after_batch({"t": {0: (0, 10), 1: (0, 20)}}, Counts(), {"t": "one"})
FOUND = KafkaState({"t": "one"}, {"t": {0: 0, 1: 0}}, {"t": {0: 50, 1: 50}})
GONE = replace(FOUND, first={"t": {0: 25, 1: 0}})
ANEW = KafkaState({"t": "two"}, {"t": {0: 0}}, {"t": {0: 5}})
ANN = {"who": "ann@host", "at": "2026-01-31T12:00:00+00:00", "why": "known", "mark": "m1"}


RECORD = "set on_data_loss: record to accept this loss and later ones; or accept only this one: "
ANEW_HINT = f"check that bootstrap_servers names the right cluster; then {RECORD}"


def problem(entry, found, needed=None):
    return data_loss.problem("shop", entry, needed or entry.next_offsets, found)


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
    assert problem(ENTRY, KafkaState({"t": None}, FOUND.first, FOUND.end)) is None


def test_what_a_partition_lacks_that_a_known_topic_got_since_was_lost_unread():
    added = replace(FOUND, first={"t": {0: 0, 1: 0, 2: 7}}, end={"t": {0: 50, 1: 50, 2: 9}})
    assert str(problem(ENTRY, added)) == (
        "[OFFSETS_EXPIRED] flow shop: topic t partition 2: offsets 0 to 7 (exclusive) are no longer in Kafka, "
        "which lacks 7 offsets in total; nothing was written\n"
        f'  hint: {RECORD}rivermouth run shop --accept-loss t-2:0-7 --why "REASON"'
    )
    after = recorded(LossDecision(losses={"t": {2: (0, 7)}}, **ANN), added)
    assert after.next_offsets == {"t": {0: 10, 1: 20, 2: 7}}
    assert after.totals.lost == 7
    assert after.begins == {"t": {0: 0, 1: 0, 2: 0}}
    assert problem(after, added) is None
    assert rule(LossDecision(losses={"t": {2: (0, 7)}}), added, after) is None


def test_a_partition_that_is_new_and_whole_or_perhaps_not_new_is_no_problem():
    first, end = {"t": {0: 0, 1: 0, 2: 7}, "other": {0: 3}}, {"t": {0: 50, 1: 50, 2: 9}, "other": {0: 4}}
    ids = {"t": "one", "other": "new"}
    assert problem(ENTRY, KafkaState(ids, {**first, "t": {**first["t"], 2: 0}}, end)) is None
    # Somebody reads a partition more of a topic: it may have been there all the time.
    assert problem(ENTRY, KafkaState(ids, first, end, whole=False)) is None


@pytest.mark.parametrize(
    ("found", "error", "text"),
    [
        (
            GONE,
            OffsetsExpired,
            (
                "[OFFSETS_EXPIRED] flow shop: topic t partition 0: offsets 10 to 25 (exclusive) are no longer in "
                "Kafka, which lacks 15 offsets in total; nothing was written\n"
                f'  hint: {RECORD}rivermouth run shop --accept-loss t-0:10-25 --why "REASON"'
            ),
        ),
        (
            replace(FOUND, first={"t": {0: 25, 1: 30}}),
            OffsetsExpired,
            (
                "[OFFSETS_EXPIRED] flow shop: topic t partition 0: offsets 10 to 25 (exclusive) are no longer in "
                "Kafka, which lacks 25 offsets in total; nothing was written\n"
                f'  hint: {RECORD}rivermouth run shop --accept-loss t-0:10-25 --accept-loss t-1:20-30 --why "REASON"'
            ),
        ),
        (
            ANEW,
            TopicRecreated,
            (
                "[TOPIC_RECREATED] flow shop: topic t was deleted and created again: its id is two, the ledger knows "
                "one and ends at t-0:10, t-1:20; none of the 5 offsets that it holds now was read; nothing was "
                f'written\n  hint: {ANEW_HINT}rivermouth run shop --new-epoch t --why "REASON"'
            ),
        ),
        (
            replace(ANEW, ids={"t": None}),
            PartitionsFewer,
            (
                "[PARTITIONS_FEWER] flow shop: topic t was deleted and created again: the ledger knows 2 partitions "
                "and ends at t-0:10, t-1:20, it has 1; none of the 5 offsets that it holds now was read; nothing was "
                f'written\n  hint: {ANEW_HINT}rivermouth run shop --new-epoch t --why "REASON"'
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
    entry = recorded(LossDecision(losses={"t": {0: (10, 25)}}, **ANN), GONE, counts=Counts(consumed=30, written=30))
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
    assert refusal(LossDecision(losses={"t": {0: wanted}}), GONE) == (
        f"[DECISION_REFUSED] flow shop: --accept-loss t-0:{wanted[0]}-{wanted[1]} is refused: what is gone is "
        "t-0:10-25; nothing was recorded\n"
        '  hint: rivermouth run shop --accept-loss t-0:10-25 --why "REASON"'
    )


def test_nothing_is_lost_that_is_there():
    assert refusal(LossDecision(losses={"t": {0: (10, 25)}}), FOUND) == (
        "[DECISION_REFUSED] flow shop: --accept-loss t-0:10-25 is refused: nothing of t-0 is gone; nothing was "
        "recorded\n  hint: rivermouth run shop"
    )


@pytest.mark.parametrize(
    ("wanted", "option", "source"),
    [
        (LossDecision(losses={"u": {0: (1, 2)}}), "--accept-loss u-0:1-2", "topic u"),
        (LossDecision(losses={"t": {7: (1, 2)}}), "--accept-loss t-7:1-2", "partition 7 of topic t"),
        (LossDecision(epochs=("u",)), "--new-epoch u", "topic u"),
        (LossDecision(rewinds={"u": {0: EARLIEST}}), "--rewind u-0:earliest", "topic u"),
    ],
)
def test_what_the_flow_does_not_read_cannot_be_decided(wanted, option, source):
    assert refusal(wanted, FOUND) == (
        f"[DECISION_REFUSED] flow shop: {option} is refused: the flow does not read {source}; nothing was recorded\n"
        "  hint: rivermouth plan shop"
    )
    # What can be decided is left in the hint, and what has to be.
    more = replace(wanted, rewinds={**wanted.rewinds, "t": {1: 4}})
    assert refusal(more, GONE).endswith(
        '  hint: rivermouth run shop --accept-loss t-0:10-25 --rewind t-1:4 --why "REASON"'
    )


def test_a_decision_is_whole_or_nothing_of_it_is_recorded():
    found = replace(FOUND, first={"t": {0: 25, 1: 30}})
    with pytest.raises(OffsetsExpired) as caught:
        rule(LossDecision(losses={"t": {0: (10, 25)}}), found)
    whole = 'rivermouth run shop --accept-loss t-0:10-25 --accept-loss t-1:20-30 --why "REASON"'
    assert caught.value.next_step == RECORD + whole
    both = LossDecision(losses={"t": {0: (10, 25), 1: (20, 30)}})
    assert recorded(both, found).totals.lost == 25


def test_what_was_recorded_is_not_recorded_again():
    wanted = LossDecision(losses={"t": {0: (10, 25)}}, **ANN)
    entry = recorded(wanted, GONE)
    assert rule(wanted, GONE, entry) is None
    assert rule(replace(wanted, mark="m2"), GONE, entry) is None


def test_a_batch_that_was_not_settled_loses_only_what_is_gone_of_it():
    entry = ENTRY.after_batch({"t": {0: (10, 40)}}, Counts(), {})
    assert problem(entry, GONE, entry.settled).facts["options"] == "--accept-loss t-0:10-25"
    ruling = rule(LossDecision(losses={"t": {0: (10, 25)}}), GONE, entry, entry.settled)
    assert (ruling.unsettled, ruling.unread, ruling.next_offsets) == ({"t": {0: (10, 25)}}, {}, entry.next_offsets)
    later = replace(FOUND, first={"t": {0: 45, 1: 0}})
    ruling = rule(LossDecision(losses={"t": {0: (10, 45)}}), later, entry, entry.settled)
    assert (ruling.unsettled, ruling.unread) == ({"t": {0: (10, 40)}}, {"t": {0: (40, 45)}})
    assert ruling.next_offsets == {"t": {0: 45, 1: 20}}


def test_losses_of_one_topic_are_one_decision():
    found = replace(FOUND, first={"t": {0: 25, 1: 30}})
    entry = recorded(LossDecision(losses={"t": {0: (10, 25), 1: (20, 30)}}), found)
    assert [each.moves for each in entry.decisions] == [{0: (10, 25), 1: (20, 30)}]
    assert decisions.text(entry.decisions[0]) == (
        "offsets 10 to 25 (exclusive) of t-0, offsets 20 to 30 (exclusive) of t-1 are lost"
    )


def test_the_hint_names_all_that_has_to_be_decided():
    """Two topics created again, one that was cut, one with a gap: one command decides all, whatever is typed first."""
    topics = ["a", "b", "c", "d"]
    entry = first_entry("shop", {topic: {0: 10} for topic in topics}, dict.fromkeys(topics, "one"))
    first, end = {topic: {0: 0} for topic in topics}, {topic: {0: 50} for topic in topics}
    ids = {"a": "two", "b": "two", "c": "one", "d": "one"}
    found = KafkaState(ids, {**first, "d": {0: 25}}, {**end, "c": {0: 7}})
    command = 'rivermouth run shop --new-epoch a --new-epoch b --accept-loss d-0:10-25 --rewind c-0:7 --why "REASON"'
    assert problem(entry, found).next_step == ANEW_HINT + command
    for part in (LossDecision(epochs=("a",)), LossDecision(epochs=("b", "a")), LossDecision(rewinds={"c": {0: 7}})):
        with pytest.raises(RivermouthError) as caught:
            rule(part, found, entry)
        assert caught.value.next_step.endswith(command)
    assert refusal(LossDecision(losses={"d": {0: (10, 11)}}), found, entry).endswith(command)
    assert refusal(LossDecision(rewinds={"a": {0: 1}}), found, entry).endswith(command)
    whole = data_loss.undecided(entry, entry.next_offsets, found)
    assert problem(recorded(whole, found, entry), found) is None
    # What else was wanted stays in it.
    with pytest.raises(TopicRecreated) as caught:
        rule(LossDecision(epochs=("a",), rewinds={"c": {0: 5}}), found, entry)
    assert "--rewind c-0:5" in caught.value.next_step


# --- new epochs --------------------------------------------------------------------------------------


def test_a_new_epoch_begins_at_the_beginning_with_the_new_id():
    entry = recorded(LossDecision(epochs=("t",), **ANN), ANEW)
    assert (entry.next_offsets, entry.settled) == ({"t": {0: 0}}, {"t": {0: 0}})
    assert entry.topic_ids == {"t": "two"}
    # Partition 1 may come back, and its offsets would be those of other records too.
    assert entry.epochs == {"t": {0: (2,), 1: (2,)}}
    assert entry.begun == {("t", 0): (2,), ("t", 1): (2,)}
    assert problem(entry, ANEW) is None
    again = recorded(LossDecision(epochs=("t",)), replace(ANEW, ids={"t": "three"}), entry)
    assert again.epochs == {"t": {0: (2, 3), 1: (2,)}}
    assert rule(LossDecision(epochs=("t",), mark="m2"), ANEW, entry) is None


def test_a_topic_that_the_ledger_knows_begins_no_epoch():
    assert refusal(LossDecision(epochs=("t",)), FOUND) == (
        "[DECISION_REFUSED] flow shop: --new-epoch t is refused: t is the topic that the ledger knows, with the id "
        "one; nothing was recorded\n  hint: rivermouth plan shop"
    )


def test_where_topics_have_no_ids_the_user_knows_and_it_is_recorded_once():
    found, entry = replace(FOUND, ids={"t": None}), replace(ENTRY, topic_ids={"t": None})
    after = recorded(LossDecision(epochs=("t",), **ANN), found, entry)
    assert after.next_offsets == {"t": {0: 0, 1: 0}}
    assert rule(LossDecision(epochs=("t",), mark="m2"), found, after) is None


@pytest.mark.parametrize("wanted", [LossDecision(losses={"t": {0: (10, 25)}}), LossDecision(rewinds={"t": {0: 0}})])
def test_of_another_topic_neither_losses_nor_rewinds_can_be_told(wanted):
    assert refusal(wanted, ANEW) == (
        f"[DECISION_REFUSED] flow shop: {wanted.options} is refused: topic t was deleted and created again; nothing "
        'was recorded\n  hint: rivermouth run shop --new-epoch t --why "REASON"'
    )


@pytest.mark.parametrize("wanted", [LossDecision(losses={"t": {7: (10, 25)}}), LossDecision(rewinds={"t": {7: 0}})])
def test_of_a_partition_that_is_not_read_nothing_can_be_decided(wanted):
    assert refusal(wanted, FOUND) == (
        f"[DECISION_REFUSED] flow shop: {wanted.options} is refused: the flow does not read partition 7 of topic t; "
        "nothing was recorded\n  hint: rivermouth plan shop"
    )


def test_of_many_partitions_the_first_tell_where_the_ledger_stood():
    entry = first_entry("shop", {"t": dict.fromkeys(range(12), 5)}, {"t": "one"})
    places = ", ".join(f"t-{partition}:5" for partition in range(8))
    assert str(problem(entry, ANEW)) == (
        "[TOPIC_RECREATED] flow shop: topic t was deleted and created again: its id is two, the ledger knows one and "
        f"ends at {places}, 4 more; none of the 5 offsets that it holds now was read; nothing was written\n"
        f'  hint: {ANEW_HINT}rivermouth run shop --new-epoch t --why "REASON"'
    )


# --- rewinds -----------------------------------------------------------------------------------------


def test_a_rewind_goes_back_and_says_what_the_table_must_not_have():
    ruling = rule(LossDecision(rewinds={"t": {0: 4, 1: EARLIEST}}), FOUND)
    assert (ruling.next_offsets, ruling.again) == ({"t": {0: 4, 1: 0}}, {"t": {0: (4, 10), 1: (0, 20)}})
    entry = ruling.entry_after(ENTRY, Counts())
    assert (entry.epochs, entry.totals.lost) == ({}, 0)
    assert [each.moves for each in entry.decisions] == [{0: (10, 4)}, {1: (20, 0)}]


@pytest.mark.parametrize(
    ("found", "offset", "detail", "fix"),
    [
        (FOUND, 11, "the ledger is at 10, and a rewind goes back", "rivermouth plan shop"),
        (FOUND, 99, "the ledger is at 10, and a rewind goes back", "rivermouth plan shop"),
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
    assert refusal(LossDecision(rewinds={"t": {0: offset}}), found) == (
        f"[DECISION_REFUSED] flow shop: --rewind t-0:{offset} is refused: {detail}; nothing was recorded\n  hint: {fix}"
    )


@pytest.mark.parametrize(("offset", "suspect"), [(7, {}), (5, {"t": {0: (5, 7)}})])
def test_a_log_that_was_cut_goes_on_where_the_user_says_and_what_is_before_its_end_may_be_in_the_table(offset, suspect):
    found = replace(FOUND, end={"t": {0: 7, 1: 50}})
    ruling = rule(LossDecision(rewinds={"t": {0: offset}}), found)
    assert (ruling.next_offsets, ruling.again, ruling.suspect) == ({"t": {0: offset, 1: 20}}, {}, suspect)
    entry = ruling.entry_after(ENTRY, Counts())
    assert entry.epochs == {"t": {0: (2,)}}
    assert problem(entry, found) is None


def test_after_a_cut_what_lies_before_it_may_be_in_the_table_from_an_earlier_epoch():
    cut = recorded(LossDecision(rewinds={"t": {0: 7}}), replace(FOUND, end={"t": {0: 7, 1: 50}}))
    entry = cut.after_batch({"t": {0: (7, 30)}}, Counts(), {"t": "one"})
    for offset, again, suspect in ((12, (12, 30), None), (7, (7, 30), None), (3, (7, 30), (3, 7))):
        ruling = rule(LossDecision(rewinds={"t": {0: offset}}), FOUND, entry)
        assert ruling.again == {"t": {0: again}}
        assert ruling.suspect == ({"t": {0: suspect}} if suspect else {})
        assert ruling.fresh == {}
    # Another topic's records are none of those in the table.
    anew = recorded(LossDecision(epochs=("t",)), replace(FOUND, ids={"t": "two"}), entry)
    later = anew.after_batch({"t": {0: (0, 30)}}, Counts(), {"t": "two"})
    assert rule(LossDecision(rewinds={"t": {0: 3}}), replace(FOUND, ids={"t": "two"}), later).suspect == {}


def test_of_a_changed_table_the_hint_is_where_the_ledger_stands():
    assert refusal(LossDecision(rewinds={"t": {0: 99}}), FOUND, void=True).endswith(
        "is at 10, and a rewind goes back; nothing was recorded\n"
        '  hint: rivermouth run shop --rewind t-0:10 --why "REASON"'
    )


def test_a_changed_table_whose_unread_records_are_gone_is_decided_in_one_command():
    wanted = LossDecision(rewinds={"t": {0: 4}})
    told = refusal(wanted, GONE, void=True)
    assert told == (
        "[DECISION_REFUSED] flow shop: --rewind t-0:4 is refused: Kafka holds t-0 from 25 on; nothing was recorded\n"
        '  hint: rivermouth run shop --accept-loss t-0:10-25 --rewind t-0:25 --why "REASON"'
    )
    both = LossDecision(losses={"t": {0: (10, 25)}}, rewinds={"t": {0: 25}})
    assert rule(both, GONE, void=True).next_offsets == {"t": {0: 25, 1: 20}}


def test_a_rewind_that_moves_nothing_only_says_that_a_changed_table_is_fine():
    wanted = LossDecision(rewinds={"t": {0: 10}})
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
    entry = recorded(LossDecision(losses={"t": {0: (10, 25)}}, **ANN), GONE)
    for start in range(25, 25 + 2 * loss_decision.MAX_AUTOMATIC, 1):
        found = replace(FOUND, first={"t": {0: start + 1, 1: 0}}, end={"t": {0: 999, 1: 50}})
        entry = recorded(by_setting(entry, found), found, entry)
    assert entry.totals.lost == 15 + 2 * loss_decision.MAX_AUTOMATIC
    assert len(entry.decisions) == 1 + loss_decision.MAX_AUTOMATIC
    assert entry.decisions[0].who == "ann@host"
    assert entry.decisions[-1].moves == {0: (224, 225)}


def test_of_one_incident_each_automatic_decision_remains():
    topics = [f"t{number:03}" for number in range(150)]
    entry = first_entry("shop", {topic: {0: 10} for topic in topics}, dict.fromkeys(topics, "one"))
    found = KafkaState(dict.fromkeys(topics, "one"), {t: {0: 12} for t in topics}, {t: {0: 50} for t in topics})
    after = recorded(by_setting(entry, found), found, entry)
    assert [each.topic for each in after.decisions] == topics
    many = KafkaState({"t": "one"}, {"t": dict.fromkeys(range(150), 12)}, {"t": dict.fromkeys(range(150), 50)})
    entry = first_entry("shop", {"t": dict.fromkeys(range(150), 10)}, {"t": "one"})
    (decision,) = recorded(by_setting(entry, many), many, entry).decisions
    assert decision.moves == dict.fromkeys(range(150), (10, 12))


def test_what_a_run_would_record_is_foreseen_and_what_would_stop_it_told():
    def foreseen(entry, found, *, records):
        return decisions.foreseen("shop", entry, entry.next_offsets, found, records=records, at="now")

    assert foreseen(ENTRY, FOUND, records=True) is None
    assert [each.kind for each in foreseen(ENTRY, GONE, records=True).decisions] == ["accept_loss"]
    with pytest.raises(OffsetsExpired):
        foreseen(ENTRY, GONE, records=False)
    cut = replace(GONE, end={"t": {0: 50, 1: 7}})
    with pytest.raises(OffsetsBeyondEnd) as caught:
        foreseen(ENTRY, cut, records=True)
    assert caught.value.next_step.endswith('--accept-loss t-0:10-25 --rewind t-1:7 --why "REASON"')


def test_what_a_table_is_answerable_for_begins_anew_with_an_epoch_and_earlier_after_a_rewind():
    later = first_entry("shop", {"t": {0: 8, 1: 8}}, {"t": "one"})
    assert recorded(LossDecision(rewinds={"t": {0: 5}}, **ANN), FOUND, later).begins == {"t": {0: 5, 1: 8}}
    assert recorded(LossDecision(rewinds={"t": {0: 5}}, **ANN), FOUND, replace(later, begins={})).begins == {}
    after = ENTRY.after_batch({"t": {0: (10, 12)}}, Counts(), {"t": "one"})
    assert recorded(LossDecision(rewinds={"t": {0: 9}}, **ANN), FOUND, after).begins == {"t": {0: 0, 1: 0}}
    anew = replace(ANEW, first={"t": {0: 3}})
    assert recorded(LossDecision(epochs=("t",), **ANN), anew).begins == {"t": {0: 3, 1: 0}}


def test_a_rebuild_goes_back_to_where_the_source_begins():
    wanted = Rebuild(who="ann@host", at="2026-01-31T12:00:00+00:00", why="known", mark="m1")
    entry = ledger_rebuild.entry_after(ENTRY, {"t": {0: 3, 1: 0, 2: 0}}, {"t": "one"}, Counts(consumed=1), wanted)
    assert (entry.number, entry.kind, entry.totals) == (2, "decision", Counts(consumed=1))
    assert entry.next_offsets == entry.settled == entry.begins == {"t": {0: 3, 1: 0, 2: 0}}
    assert not entry.unsettled
    [decision] = entry.decisions
    assert (decision.kind, decision.entry, decision.topic, decision.topic_id) == ("rebuild", 2, "t", "one")
    assert decision.moves == {0: (10, 3), 1: (20, 0), 2: (0, 0)}
    assert {name: getattr(decision, name) for name in ANN} == ANN
    said = "the table was emptied, to be rebuilt: t-0 from 3 on, t-1 from 0 on, t-2 from 0 on"
    assert decisions.text(decision) == said
