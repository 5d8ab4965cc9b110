"""Since when a flow reads a column that came later, or again."""

from __future__ import annotations

import dataclasses

from rivermouth.domain.ledger.ledger import Decision, first_entry
from rivermouth.rows.keyed.column_starts import ColumnStarts, Start

ENTRY = dataclasses.replace(first_entry("f", {"t": {0: 5, 1: 7}}, {"t": "id"}), number=3)
LATER = dataclasses.replace(ENTRY, number=9, next_offsets={"t": {0: 50, 1: 70}})


def test_a_column_begins_where_the_flow_stands_when_it_comes():
    known = ColumnStarts().now(["a", "B"], ["a"], [], ENTRY)
    assert known == ColumnStarts((), (Start(("b",), 3, {"t": {0: 5, 1: 7}}),))
    assert ColumnStarts.from_json(known.to_json()) == known
    assert known.now(["a", "b"], ["a", "b"], [], LATER) == known


def test_a_column_that_comes_again_begins_anew():
    known = ColumnStarts().now(["a", "b"], ["a"], [], ENTRY)
    away = known.now(["a"], ["a", "b"], ["b"], LATER)
    assert (away.without, away.starts) == (("b",), known.starts)
    assert away.now(["a", "b"], ["a", "b"], [], LATER) == ColumnStarts((), (Start(("b",), 9, LATER.next_offsets),))


def test_what_is_read_again_or_of_a_later_epoch_was_read_with_it():
    (start,) = ColumnStarts().now(["b"], ["a"], [], ENTRY).starts
    assert start.ends(ENTRY) == {"t-0": 5, "t-1": 7}
    rewound = dataclasses.replace(ENTRY, decisions=(Decision("rewind", 4, "t", {0: (9, 2)}),))
    assert start.ends(rewound) == {"t-0": 2, "t-1": 7}
    rebuilt = dataclasses.replace(ENTRY, decisions=(Decision("rebuild", 4, "t", {0: (9, 2), 1: (9, 0)}),))
    assert start.ends(rebuilt) == {"t-0": 2, "t-1": 0}
    before = dataclasses.replace(ENTRY, decisions=(Decision("rewind", 3, "t", {0: (9, 2)}),))
    assert start.ends(before) == {"t-0": 5, "t-1": 7}
    begun = dataclasses.replace(ENTRY, epochs={"t": {1: (4,)}})
    assert start.ends(begun) == {"t-0": 5}


def test_a_table_without_the_property_has_read_all_columns():
    assert ColumnStarts.from_json(None) == ColumnStarts()
