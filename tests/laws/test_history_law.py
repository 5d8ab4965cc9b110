"""A table with the history of its keys is what their change log comes to, against a fold in plain Python.

However the log is cut into batches, whatever comes again, and in any order of arrival. Hundreds of small histories lie
side by side in one table: the number of a history is a part of the key.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random

import pytest
from tests.laws import _table
from tests.laws._table import START, Change, batches_of

# Of each kind.
SHORT, LONG = 200, 700
JSON = {"type": "json", "schema": "h int, k int, c int, v int, seq int, op string"}
OF_JSON = {"keys": ["h", "k"], "apply_as_deletes": "op = 'delete'"}


@dataclasses.dataclass(frozen=True)
class Record(Change):
    """A change of a value that has a color, which may be tracked."""

    color: int = 0
    value: int = 0

    @property
    def body(self):
        return {"c": self.color, "v": self.value}


class Table(_table.Table):
    def __init__(self, spark, folder, form=JSON, **sink):
        super().__init__(spark, folder, form, {"type": "history", **(OF_JSON if form is JSON else {}), **sink})

    def rows(self):
        """The versions by key, in their order."""
        part = "" if self.flow.sink.sequence_by == ("seq",) else "['_1']"
        start, end = f'"__START_AT"{part}', f'"__END_AT"{part}'
        told = {}
        for h, k, *rest in self.read(f"h, k, {start} AS s, {end} AS e, c, v, kafka_partition, kafka_offset"):
            told.setdefault((h, k), []).append(tuple(rest))
        return {key: sorted(versions) for key, versions in told.items()}


# --- the oracle ------------------------------------------------------------------------------------


def fold(records, *, tracked):
    """The versions by key: (start, end, color, value, partition, offset), in their order."""
    truncations = sorted({each.sequence for each in records if each.op == "truncate"})
    found = {}
    for key, log in _logs(records).items():
        versions = _versions(log, truncations, tracked=tracked)
        if versions:
            found[key] = versions
    return found


def _logs(records):
    """By key its records but for truncations, each tombstone with the greatest sequence before it, if any."""
    best, logs = {}, {}
    for each in (each for each in records if each.op != "truncate"):
        told = each
        if each.op == "tombstone":
            told = dataclasses.replace(each, sequence=best.get(each.key))
        else:
            best[each.key] = max(each.sequence, best.get(each.key, each.sequence))
        logs.setdefault(each.key, []).append(told)
    return logs


def _kafka(each):
    # Here timestamps never go back.
    return each.at


def _versions(log, truncations, *, tracked):
    places = {}
    for each in log:
        if each.op != "tombstone":
            rival = places.get(each.sequence)
            if rival is None or _kafka(each) > _kafka(rival):
                places[each.sequence] = each
    ended = {
        at
        for at, each in places.items()
        if any(t.op == "tombstone" and t.sequence == at and _kafka(t) > _kafka(each) for t in log)
    }
    bounds = sorted({*places, *truncations})
    rows = []
    for at in sorted(places):
        each = places[at]
        if each.op == "delete":
            continue
        end = at if at in ended else next((bound for bound in bounds if bound > at), None)
        shown = (each.color, each.value, each.partition, each.offset)
        goes_on = tracked and rows and rows[-1][1] == at and rows[-1][2] == each.color
        if goes_on and rows[-1][-1] not in ended and at not in truncations:
            rows[-1] = (rows[-1][0], end, *shown, at)
        else:
            rows.append((at, end, *shown, at))
    return [row[:-1] for row in rows]


# --- the laws ---------------------------------------------------------------------------------------


def log_of(chance, histories, *, truncates, tombstones):
    def make(place, key, op, sequence):
        return Record(*place, key, op, sequence, chance.randint(0, 1), chance.randint(0, 99))

    ops, truncations = ["upsert"] * 7 + ["delete"] * 2, truncates * 0.7 / histories
    told = 2 * tombstones
    return _table.log_of(chance, histories, ops, make, sequences=10, truncations=truncations, tombstones=told)


# Sequence, truncations, tracked columns, arrival in order.
CASES = {
    "truncates": ("seq", True, False, True),
    "tracked, truncates, any order": ("seq", True, True, False),
    "tracked, truncates": ("seq", True, True, True),
    "tracked": ("seq", False, True, True),
    "truncates, any order": ("seq", True, False, False),
    "list": (["seq", "0"], False, False, True),
}


@pytest.mark.parametrize(
    ("case", "histories"),
    [("truncates", SHORT), *((case, LONG) for case in CASES)],
)
@pytest.mark.long
def test_the_table_is_what_the_log_comes_to(case, histories, chance, spark, tmp_path):
    sequence_by, truncates, tracked, in_order = CASES[case]
    sink = {"sequence_by": sequence_by}
    if truncates:
        sink["apply_as_truncates"] = "op = 'truncate'"
    if tracked:
        sink["track_history_columns"] = ["c"]
    table = Table(spark, tmp_path, **sink)
    # The place of a tombstone depends on what came before it.
    log = log_of(chance, histories, truncates=truncates, tombstones=in_order)
    arriving = log if in_order else chance.sample(log, len(log))
    for batch in batches_of(arriving, chance, 2 if histories == SHORT else chance.randint(3, 4), again=0):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold(log, tracked=tracked)


@dataclasses.dataclass(frozen=True)
class Message:
    """A record of Canal with several rows, and the changes that it tells."""

    sent: tuple
    changes: list[Record]


def messages_of(chance, histories, *, tombstones):
    """Messages of many histories, interleaved; their rows have places of their own, and may be of one key."""
    partitions = chance.choice((1, 2, 3))
    offsets, found = dict.fromkeys(range(partitions), 0), []
    for at in range(2 * histories):
        h = chance.randrange(histories)
        partition = h % partitions
        offsets[partition] += chance.randint(1, 2)
        kind = chance.choice(("INSERT", "INSERT", "UPDATE", "DELETE"))
        rows, olds, told = [], [], []
        for nth in range(chance.randint(1, 3)):
            k, color, value = chance.randint(0, 1), chance.randint(0, 1), chance.randint(0, 99)
            sequence = None if kind == "DELETE" and tombstones and chance.random() < 0.5 else chance.randint(0, 9)
            rows.append({"h": h, "k": k, "c": color, "v": value, "seq": sequence})
            moved = kind == "UPDATE" and chance.random() < 0.5
            olds.append({"k": 1 - k} if moved else {"v": 0})
            op = {"DELETE": "delete" if sequence is not None else "tombstone"}.get(kind, "upsert")
            one = Record(partition, offsets[partition], (at, 2 * nth + 1), (h, k), op, sequence, color, value)
            told += [dataclasses.replace(one, at=(at, 2 * nth), key=(h, 1 - k), op="delete")] if moved else []
            told.append(one)
        texts = [{name: None if part is None else str(part) for name, part in row.items()} for row in rows]
        body = {"type": kind, "isDdl": False, "data": texts, "old": olds if kind == "UPDATE" else None}
        when = START + dt.timedelta(seconds=at)
        sent = ("t", partition, offsets[partition], when, 0, None, json.dumps(body).encode())
        # Of the deletions of one record those without a place are behind the others.
        found.append(Message(sent, sorted(told, key=lambda each: each.op == "tombstone")))
    return found


@pytest.mark.long
@pytest.mark.parametrize(
    ("tracked", "in_order", "histories"),
    [
        pytest.param(False, True, LONG, id="every change"),
        pytest.param(True, False, LONG, id="tracked, any order"),
    ],
)
def test_records_with_several_changes_come_to_what_their_changes_do(
    tracked, in_order, histories, chance, spark, tmp_path
):
    sink = {"keys": ["h", "k"], "sequence_by": "seq", **({"track_history_columns": ["c"]} if tracked else {})}
    form = {"type": "canal", "schema": "h int, k int, c int, v int, seq int"}
    table = Table(spark, tmp_path, form, **sink)
    log = messages_of(chance, histories, tombstones=in_order)
    arriving = log if in_order else chance.sample(log, len(log))
    for batch in batches_of(arriving, chance, chance.randint(3, 4), again=0):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold([change for each in log for change in each.changes], tracked=tracked)


@pytest.mark.long
def test_a_batch_that_comes_again_changes_nothing(spark, tmp_path):
    chance = random.Random(7)
    table = Table(spark, tmp_path, sequence_by="seq", track_history_columns=["c"], apply_as_truncates="op='truncate'")
    log = log_of(chance, LONG, truncates=True, tombstones=True)[:500]
    table.take(log)
    before = table.files()
    table.take(log)
    assert table.files() == before


@pytest.mark.long
def test_what_is_remembered_of_a_batch_that_was_never_committed_counts_for_nothing(spark, tmp_path, monkeypatch):
    table = Table(spark, tmp_path, sequence_by="seq", track_history_columns=["c"])
    records = [Record(0, offset, offset, (0, 0), "upsert", 10 * offset, 1, offset) for offset in (1, 2, 3)]
    with monkeypatch.context() as patch:
        patch.setattr("rivermouth.sinks._merging.merge", stopped)
        with pytest.raises(OSError, match="going down"):
            table.take(records)
    # By stricter rules the second is a dead letter.
    table.entry = dataclasses.replace(table.entry, number=table.entry.number - 1)
    table.remember_anew(3600.0)
    table.take([records[0], records[2]])
    late = Record(0, 4, 4, (0, 0), "upsert", 25, 0, 4)
    table.take([late])
    assert table.rows() == fold([records[0], records[2], late], tracked=True)


@pytest.mark.long
def test_a_truncation_parts_the_last_place_of_a_version_from_those_before(spark, tmp_path):
    table = Table(spark, tmp_path, sequence_by="seq", track_history_columns=["c"], apply_as_truncates="op = 'truncate'")
    log = [
        Record(0, 1, 1, (0, 0), "upsert", 3, 0, 1),
        Record(0, 2, 2, (0, 0), "upsert", 4, 0, 2),
        Record(0, 3, 3, (0, 0), "tombstone"),
        Record(0, 4, 4, (1, 0), "truncate", 4),
    ]
    table.take(log[:3])
    assert table.rows() == {(0, 0): [(3, 4, 0, 2, 0, 2)]}
    table.take(log[3:])
    assert table.rows() == fold(log, tracked=True) == {(0, 0): [(3, 4, 0, 1, 0, 1), (4, 4, 0, 2, 0, 2)]}


def test_a_truncation_keeps_its_coordinates_where_they_are_the_key(spark, tmp_path):
    sink = {"keys": "kafka_partition", "sequence_by": "seq", "apply_as_truncates": "op = 'truncate'"}
    table = Table(spark, tmp_path, **sink)
    table.take([Record(2, 1, 1, (0, 0), "upsert", 1), Record(2, 2, 2, (0, 0), "truncate", 5)])
    [mark] = table.tombstones.frame(spark, table.order).where("__truncate").collect()
    assert (mark["kafka_topic"], mark["kafka_partition"], mark["kafka_offset"]) == ("t", 2, 2)


def stopped(*_arguments, **_named):
    raise OSError("the machine is going down")
