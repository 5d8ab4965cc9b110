"""What an entry looks like as text: older formats stay readable, newer ones are refused."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from rivermouth.domain.ledger import ledger, offset_ranges
from rivermouth.domain.ledger.ledger import Counts, Decision, Entry, first_entry
from rivermouth.errors import LedgerTooNew, LedgerUnreadable

# Each was written once by its format. Never change a golden file: a new format gets a new one next to it.
GOLDEN = Path(__file__).parent.parent / "data" / "ledger"

ENTRY = Entry(
    flow="orders",
    number=7,
    kind="batch",
    next_offsets={"orders": {0: 120, 1: 7, 10: 3}, "returns": {0: 0}},
    settled={"orders": {0: 100, 1: 7, 10: 3}, "returns": {0: 0}},
    topic_ids={"orders": "4Rf_dVVZRxGu-0kq3rNkYQ", "returns": None},
    totals=Counts(
        consumed=104,
        exploded=3,
        written=93,
        dropped=9,
        dead_lettered=5,
        null_values=4,
        no_elements=2,
        expectations={"positive_amount": 5},
        undeclared_fields=2,
        replayed=1,
        lost=3,
    ),
    attempt="3b241101e2bb42558caf4136c566a962",
    starting_offsets="earliest",
    epochs={"orders": {0: (3, 5), 10: (3,)}},
    decisions=(
        Decision(
            kind="accept_loss",
            entry=6,
            topic="orders",
            moves={1: (4, 7)},
            topic_id="4Rf_dVVZRxGu-0kq3rNkYQ",
            who="ann@host",
            at="2026-01-31T12:00:00+00:00",
            why="known",
            mark="9d5ed678fe57bcca610140957afab571",
        ),
    ),
    begins={"orders": {0: 20, 1: 0, 10: 0}},
)
# What older formats could say of it.
ENTRY_3 = replace(ENTRY, totals=replace(ENTRY.totals, exploded=0, written=90, no_elements=0))
ENTRY_2 = replace(ENTRY_3, begins={})
ENTRY_1 = replace(ENTRY_2, totals=replace(ENTRY_2.totals, lost=0), epochs={}, decisions=())


def test_format_1_is_read():
    text = (GOLDEN / "format_1.json").read_text()
    assert Entry.from_json(text, table="t", version=8) == ENTRY_1


def test_format_2_is_read():
    text = (GOLDEN / "format_2.json").read_text()
    assert Entry.from_json(text, table="t", version=8) == ENTRY_2


def test_format_3_is_read():
    text = (GOLDEN / "format_3.json").read_text()
    assert Entry.from_json(text, table="t", version=8) == ENTRY_3


def test_format_4_is_read():
    text = (GOLDEN / "format_4.json").read_text()
    assert Entry.from_json(text, table="t", version=8) == ENTRY


def test_the_newest_golden_file_is_what_is_written_today():
    assert ENTRY.to_json() + "\n" == (GOLDEN / f"format_{ledger.FORMAT}.json").read_text()


def test_there_is_a_golden_file_for_every_format():
    assert sorted(path.name for path in GOLDEN.iterdir()) == [f"format_{i}.json" for i in range(1, ledger.FORMAT + 1)]


def test_the_text_is_one_line_with_partitions_in_the_order_of_their_numbers():
    text = ENTRY.to_json()
    assert "\n" not in text
    assert list(json.loads(text)["topics"]["orders"]["next"]) == ["0", "1", "10"]


@pytest.mark.parametrize("text", ["", "no json", "[]", "{}", '"rivermouth"', '{"job": "someone else\'s"}', "7"])
def test_text_of_others_is_no_entry(text):
    assert Entry.from_json(text, table="t", version=1) is None


def test_a_newer_format_is_refused():
    body = json.loads(ENTRY.to_json()) | {"rivermouth": ledger.FORMAT + 1}
    with pytest.raises(LedgerTooNew) as caught:
        Entry.from_json(json.dumps(body), table="/lake/silver/orders", version=8)
    assert str(caught.value) == (
        "[LEDGER_TOO_NEW] table /lake/silver/orders: its ledger has format 5, this rivermouth reads up to 4; "
        "nothing was written\n"
        "  hint: pip install --upgrade rivermouth"
    )


def test_a_damaged_entry_is_refused_and_never_taken_for_none():
    body = json.loads(ENTRY.to_json())
    del body["topics"]["orders"]["next"]
    with pytest.raises(LedgerUnreadable) as caught:
        Entry.from_json(json.dumps(body), table="/lake/silver/orders", version=8)
    assert str(caught.value) == (
        "[LEDGER_UNREADABLE] table /lake/silver/orders: the ledger entry at version 8 cannot be read: "
        "KeyError at 'next'; nothing was written\n"
        "  hint: keep the table as it is and report the entry's format number"
    )


@pytest.mark.parametrize("damage", [{"entry": "x"}, {"topics": []}, {"totals": {"new": 1}}, {"topics": {"t": {}}}])
def test_every_kind_of_damage_has_the_one_error(damage):
    body = json.loads(ENTRY.to_json()) | damage
    with pytest.raises(LedgerUnreadable):
        Entry.from_json(json.dumps(body), table="t", version=8)


def test_an_erasure_says_how_many_records_it_erased_and_no_later_entry_does():
    erasure = ENTRY.successor("forget", Counts(), erases=4)
    read = Entry.from_json(erasure.to_json(), table="t", version=8)
    assert (read, read.erases) == (erasure, 4)
    for later in (
        read.successor("maintenance", Counts(erased=4)),
        read.after_batch({"orders": {0: (120, 121)}}, Counts(), {}),
    ):
        assert (later.erases, "erases" in later.to_json()) == (0, False)


def test_entry_0_is_settled_and_says_where_the_flow_began():
    entry = first_entry("orders", {"orders": {0: 5}}, {"orders": "id"}, starting_offsets="latest")
    assert (entry.number, entry.kind, entry.starting_offsets) == (0, "create", "latest")
    assert entry.next_offsets == entry.settled == {"orders": {0: 5}}
    assert entry.unsettled == {}


def test_topics_that_left_the_flow_keep_their_entry():
    entry = first_entry("orders", {"old": {0: 5}, "orders": {0: 0}}, {"old": "id-1", "orders": "id-2"})
    after = entry.after_batch({"orders": {0: (0, 9)}}, Counts(), {"orders": "id-2"})
    assert after.next_offsets == {"old": {0: 5}, "orders": {0: 9}}
    assert after.topic_ids == {"old": "id-1", "orders": "id-2"}


def test_a_partition_that_is_new_with_a_batch_is_unsettled_from_its_first_offset():
    entry = first_entry("orders", {"orders": {0: 0}}, {})
    after = entry.after_batch({"orders": {0: (0, 9), 1: (3, 4)}}, Counts(), {})
    assert after.unsettled == {"orders": {0: (0, 9), 1: (3, 4)}}


def test_ranges_as_text():
    assert offset_ranges.text({"b": {1: (0, 3)}, "a": {2: (5, 9), 0: (1, 2)}}) == "a-0:1..2, a-2:5..9, b-1:0..3"


def test_an_entry_says_from_where_on_the_table_is_answerable():
    entry = first_entry("f", {"t": {0: 5}}, {"t": "id"})
    assert entry.begins == {"t": {0: 5}}
    later = entry.after_batch({"t": {0: (5, 9), 1: (2, 4)}, "u": {0: (0, 1)}}, Counts(), {"t": "id", "u": None})
    assert later.begins == {"t": {0: 5, 1: 2}, "u": {0: 0}}
    again = later.after_batch({"t": {0: (9, 12), 1: (4, 8)}}, Counts(), {"t": "id"}).successor("replay", Counts())
    assert again.begins == later.begins
    # Of a ledger that was begun by an older version only what comes new is known.
    assert replace(entry, begins={}).after_batch({"t": {0: (5, 9), 1: (2, 4)}}, Counts(), {}).begins == {"t": {1: 2}}
