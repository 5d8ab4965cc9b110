"""A keyed table is what its change log comes to, however the log is cut into batches, against a fold in plain Python.

Hundreds of small histories lie side by side in one table: the number of a history is a part of the key.
"""

from __future__ import annotations

import dataclasses

import pytest
from tests.laws import _table
from tests.laws._table import Change, batches_of

# Of each kind; together the long ones fold more than two thousand.
FEW, SHORT, LONG = 30, 200, 700


@dataclasses.dataclass(frozen=True)
class Record(Change):
    """A change of one value."""

    value: int = 0

    @property
    def body(self):
        return {"v": self.value}


class Table(_table.Table):
    def __init__(self, spark, folder, **sink):
        form = {"type": "json", "schema": "h int, k int, v int, seq int, op string"}
        sink = {"type": "upsert", "keys": ["h", "k"], "apply_as_deletes": "op = 'delete'", **sink}
        super().__init__(spark, folder, form, sink)

    def rows(self):
        """The rows by key; a key that is there twice fails."""
        found = self.read("h, k, v, seq, kafka_partition, kafka_offset")
        told = {(h, k): tuple(rest) for h, k, *rest in found}
        assert len(told) == len(found)
        return told


# --- the oracle ------------------------------------------------------------------------------------


def fold(records, *, sequenced):
    """The rows by key: of each the newest change, unless that deletes or a truncation is newer."""
    told = _with_sequences(records) if sequenced else records
    truncated = max((each.sequence for each in told if each.op == "truncate"), default=None)
    newest = {}
    for each in told:
        if each.op == "truncate":
            continue
        rival = newest.get(each.key)
        if rival is None or _is_newer(each, rival, sequenced=sequenced):
            newest[each.key] = each
    return {
        key: (each.value, each.sequence, each.partition, each.offset)
        for key, each in newest.items()
        if each.op == "upsert" and (truncated is None or each.sequence >= truncated)
    }


def _with_sequences(records):
    """A tombstone has the place of the newest record of its key before it."""
    best = {}
    told = []
    for each in records:
        if each.op == "tombstone":
            told.append(dataclasses.replace(each, sequence=best.get(each.key)))
            continue
        told.append(each)
        if each.op != "truncate":
            best[each.key] = max(each.sequence, best.get(each.key, each.sequence))
    return told


def _is_newer(one, other, *, sequenced):
    if sequenced:
        mine, its = (-1 if each.sequence is None else each.sequence for each in (one, other))
        if mine != its:
            return mine > its
    if one.partition == other.partition:
        return one.offset > other.offset
    return (one.at, one.partition) > (other.at, other.partition)


# --- the laws ---------------------------------------------------------------------------------------


# Sequence, truncations.
CASES = {
    "sequence": ("seq", False),
    "truncates": ("seq", True),
    "list": (["seq", "0"], False),
    "kafka": ([], False),
}


@pytest.mark.parametrize(
    ("case", "histories"),
    [
        ("kafka", FEW),
        *(pytest.param(case, SHORT, marks=pytest.mark.long) for case in ("kafka", "truncates")),
        *(pytest.param(case, LONG, marks=pytest.mark.long) for case in CASES),
    ],
)
def test_the_table_is_what_the_log_comes_to(case, histories, chance, spark, tmp_path):
    sequence_by, truncates = CASES[case]
    sequenced, few = bool(sequence_by), histories == FEW
    sink = {"sequence_by": sequence_by}
    if truncates:
        sink["apply_as_truncates"] = "op = 'truncate'"
    table = Table(spark, tmp_path, **sink)

    def make(place, key, op, sequence):
        return Record(*place, key, op, sequence, chance.randint(0, 99))

    ops, truncations = ["upsert"] * 6 + ["delete"] * 2, truncates * 1.4 / histories
    log = _table.log_of(chance, histories, ops, make, sequences=6, truncations=truncations, tombstones=2)
    batches = batches_of(log, chance, 2 if histories <= SHORT else chance.randint(2, 3), again=1 if few else None)
    for batch in batches[:2] if few else batches:
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold(log, sequenced=sequenced)


@pytest.mark.long
@pytest.mark.parametrize(
    ("remembered", "brings_back"), [("1 ms", True), pytest.param("7 days", False, marks=pytest.mark.long)]
)
def test_a_deleted_key_is_remembered_for_so_long_and_then_forgotten(remembered, brings_back, spark, tmp_path):
    table = Table(spark, tmp_path, sequence_by="seq", remember_deletes=remembered)
    table.take([Record(0, 1, 1, (0, 0), "upsert", 1), Record(0, 2, 2, (0, 0), "delete", 5)])
    # Another process looks for what is old, unless that was done within the hour.
    table.remember_anew()
    table.take([Record(0, 3, 3, (9, 9), "delete", 1), Record(0, 4, 4, (0, 0), "upsert", 3, 7)])
    assert table.rows() == {}
    table.an_hour_passes()
    table.take([Record(0, 5, 5, (9, 9), "delete", 2), Record(0, 6, 6, (0, 0), "upsert", 3, 7)])
    assert table.rows() == ({(0, 0): (7, 3, 0, 6)} if brings_back else {})
