"""A table that is made of snapshots is what they come to, against a fold in plain Python.

However they are cut into batches, in whichever order they arrive, and whatever comes again.
"""

from __future__ import annotations

import dataclasses
import json
import random

import pytest
from tests.laws import _table
from tests.laws._table import batches_of

# A sixth of them is in a snapshot, or half, or all but a few.
KEYS = 60


@dataclasses.dataclass(frozen=True)
class Snapshot:
    """What is in Kafka; ``offset`` is that within its partition, ``at`` counts seconds over all of them."""

    partition: int
    offset: int
    at: int
    version: int
    rows: dict[int, tuple[int, int]]

    @property
    def sent(self):
        items = [{"k": k, "c": c, "v": v} for k, (c, v) in self.rows.items()]
        return _table.sent(self, b"x", json.dumps({"version": self.version, "items": items}).encode())


class Table(_table.Table):
    def __init__(self, spark, folder, **sink):
        form = {"type": "json", "schema": "version int, items array<struct<k int, c int, v int>>"}
        super().__init__(spark, folder, form, {"from": "snapshot", "rows": "items", "keys": ["k"], **sink})

    def rows(self):
        """The rows by key, in their order."""
        spans = '"__START_AT", "__END_AT", ' if self.flow.keyed.versions else ""
        told = {}
        for k, *rest in self.read(f"k, {spans}c, v, kafka_partition, kafka_offset"):
            told.setdefault(k, []).append(tuple(rest))
        return {key: sorted(each) for key, each in told.items()}


# --- the oracle ------------------------------------------------------------------------------------


def in_order(snapshots, *, sequenced):
    """Those that count, oldest first: of one version the newest message."""
    # Here timestamps never go back, so that Kafka's order is that of the clock.
    newest = {(each.version if sequenced else each.at): each for each in sorted(snapshots, key=lambda one: one.at)}
    return [newest[version] for version in sorted(newest)]


def newest_rows(snapshots, *, sequenced):
    """The rows by key: color, value, and the message."""
    last = in_order(snapshots, sequenced=sequenced)[-1]
    return {k: [(*row, last.partition, last.offset)] for k, row in last.rows.items()}


def versions(snapshots, *, tracked):
    """The versions by key: start, end, color, value, and the message that the row shows."""
    found = {}
    told = in_order(snapshots, sequenced=True)
    for before, now in zip([None, *told], told, strict=False):
        was = before.rows if before else {}
        for k in was.keys() - now.rows.keys():
            found[k][-1][1] = now.version
        for k, row in now.rows.items():
            shown = [*row, now.partition, now.offset]
            if k in was and row[:tracked] == was[k][:tracked]:
                found[k][-1][2:] = shown
                continue
            if k in was:
                found[k][-1][1] = now.version
            found.setdefault(k, []).append([now.version, None, *shown])
    return {k: [tuple(row) for row in rows] for k, rows in found.items()}


# --- snapshots -------------------------------------------------------------------------------------


def snapshots_of(chance, *, partitions, count):
    """Snapshots of a source whose rows come, change and go, some with a version that another one has."""
    offsets = dict.fromkeys(range(partitions), 0)
    made = []
    rows: dict[int, tuple[int, int]] = {}
    for at in range(count):
        rows = dict(rows)
        for k in chance.sample(range(KEYS), chance.choice((1, 5, KEYS // 2))):
            if chance.random() < 0.4:
                rows.pop(k, None)
            else:
                rows[k] = (chance.randint(0, 1), chance.randint(0, 3))
        if chance.random() < 0.1:
            rows = {}
        partition = chance.randrange(partitions)
        offsets[partition] += chance.randint(1, 2)
        version = max(0, 2 * at + chance.choice((0, 0, 0, 0, -2, -6)))
        made.append(Snapshot(partition, offsets[partition], at, version, rows))
    return made


# --- the laws ---------------------------------------------------------------------------------------


CASES = [
    pytest.param("upsert", {"sequence_by": "version"}, True, id="upsert", marks=pytest.mark.long),
    pytest.param("upsert", {}, True, id="upsert, Kafka's order", marks=pytest.mark.long),
    pytest.param("upsert", {"sequence_by": "version"}, False, id="upsert, any order", marks=pytest.mark.long),
    pytest.param("history", {"sequence_by": "version"}, True, id="history", marks=pytest.mark.long),
    pytest.param("history", {"sequence_by": "version", "track_history_columns": "c"}, True, id="history, tracked"),
    pytest.param("history", {"sequence_by": "version"}, False, id="history, any order", marks=pytest.mark.long),
]


@pytest.mark.long
@pytest.mark.parametrize(("kind", "sink", "in_turn"), CASES)
def test_the_table_is_what_the_snapshots_come_to(kind, sink, in_turn, chance, spark, tmp_path):
    table = Table(spark, tmp_path, type=kind, **sink)
    made = snapshots_of(chance, partitions=chance.choice((1, 3)) if in_turn else 1, count=30)
    # Those of one version keep their order: no later one says which of them is the newer.
    arriving = made if in_turn else chance.sample(made, len(made))
    for batch in batches_of(arriving, chance, 2 if "track_history_columns" in sink else 4):
        assert table.take(batch).rows_written == len(batch)
    if kind == "upsert":
        assert table.rows() == newest_rows(made, sequenced="sequence_by" in sink)
    else:
        assert table.rows() == versions(made, tracked=1 if "track_history_columns" in sink else 2)


@pytest.mark.long
def test_a_batch_that_comes_again_changes_nothing(spark, tmp_path):
    table = Table(spark, tmp_path, type="history", sequence_by="version")
    made = snapshots_of(random.Random(7), partitions=1, count=6)
    table.take(made)
    before = table.files()
    table.take(made[:3])
    assert table.files() == before


@pytest.mark.long
def test_the_newest_snapshot_is_never_forgotten(spark, tmp_path):
    table = Table(spark, tmp_path, type="upsert", sequence_by="version", remember_deletes="1 ms")
    table.take([Snapshot(0, 1, 1, 10, {1: (0, 0)}), Snapshot(0, 2, 2, 20, {})])
    # One that forgets with its first batch.
    table.an_hour_passes()
    table.take([Snapshot(0, 3, 3, 15, {1: (0, 0)})])
    assert table.rows() == {}
