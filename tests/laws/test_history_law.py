"""A table with the history of its keys is what their change log comes to, against a fold in plain Python.

However the log is cut into batches, whatever comes again, and in any order of arrival. Hundreds of small histories lie
side by side in one table: the number of a history is a part of the key.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import random
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from hypothesis import Phase, given, settings
from hypothesis import strategies as st
from tests.ways import WAYS, merging_by

from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.batch.pipeline import transform
from rivermouth.engine.table.flow_table import create_table, table_shape
from rivermouth.names import DEFAULT_METADATA_COLUMNS
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.spark.session import for_flow
from rivermouth.rows import envelope
from rivermouth.rows.keyed import change_order
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.sinks._target import Target
from rivermouth.spec import Flow, ProjectSpec

# Of each kind.
HISTORIES = 700
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
JSON = {"type": "json", "schema": "h int, k int, c int, v int, seq int, op string"}


@dataclasses.dataclass(frozen=True)
class Record:
    """What is in Kafka; ``offset`` is that within its partition, ``at`` counts seconds over all of them."""

    partition: int
    offset: int
    at: int
    key: tuple[int, int]
    op: str
    sequence: int | None = None
    color: int = 0
    value: int = 0

    @property
    def sent(self):
        h, k = self.key
        body = {"h": h, "k": k, "op": self.op, "seq": self.sequence, "c": self.color, "v": self.value}
        key = json.dumps({"h": h, "k": k}).encode()
        value = None if self.op == "tombstone" else json.dumps(body).encode()
        return ("t", self.partition, self.offset, START + dt.timedelta(seconds=self.at), 0, key, value)


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


# --- histories -------------------------------------------------------------------------------------


def log_of(chance, *, truncates, tombstones):
    """A change log of many histories, interleaved."""
    partitions = chance.choice((1, 2, 3))
    # Whoever sends tombstones sends all records of a key to one partition, as Kafka's own partitioner does.
    faithful = {h: tombstones and chance.random() < 0.7 for h in range(HISTORIES)}
    steps = [h for h in range(HISTORIES) for _ in range(chance.randint(1, 9))]
    chance.shuffle(steps)
    offsets = dict.fromkeys(range(partitions), 0)
    records = []
    for at, h in enumerate(steps):
        k = chance.randint(0, 1)
        ops = ["upsert"] * 7 + ["delete"] * 2 + ["tombstone"] * 2 * faithful[h]
        op = "truncate" if truncates and chance.random() < 0.001 else chance.choice(ops)
        partition = (h + k) % partitions if faithful[h] else chance.randrange(partitions)
        offsets[partition] += chance.randint(1, 2)
        sequence = None if op == "tombstone" else chance.randint(0, 9)
        color, value = chance.randint(0, 1), chance.randint(0, 99)
        records.append(Record(partition, offsets[partition], at, (h, k), op, sequence, color, value))
    return records


def batches_of(records, chance):
    """The log cut anywhere; now and then a batch comes again."""
    cuts = sorted(chance.sample(range(1, len(records)), chance.randint(2, 3)))
    cut = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    if chance.random() < 0.5:
        cut.insert(chance.randint(1, len(cut)), chance.choice(cut[:1]))
    return cut


# --- the table -------------------------------------------------------------------------------------


class Table:
    """A table in a folder of its own, written batch by batch by the sink, in the steps of a flow."""

    def __init__(self, spark, folder: Path, form=JSON, columns=DEFAULT_METADATA_COLUMNS, **sink):
        if form is JSON:
            sink = {"keys": ["h", "k"], "apply_as_deletes": "op = 'delete'", **sink}
        sink = {"type": "history", **sink}
        self.flow = Flow(name="f", topics=("t",), format=form, table="silver.t", sink=sink, metadata_columns=columns)
        places = resolve(ProjectSpec(lake=str(folder)), self.flow, base=folder, environ={})
        self.spark, self.places = for_flow(spark), places
        shape = table_shape(spark, self.flow)
        self.columns = shape.columns.names
        self.entry = first_entry("f", {"t": {0: 0, 1: 0, 2: 0}}, {"t": "id"})
        create_table(spark, self.flow, places, shape, self.entry)
        self.table_id = delta_table.table_state(spark, places.table).table_id
        self.ledger = TableLedger(LocalFiles(), places.table, places.ledger_file, flow="f")
        self.tombstones = Tombstones(LocalFiles(), places.tombstones, self.flow.keyed.remember_deletes)
        self.version = 0

    def take(self, records):
        """One batch."""
        kinds = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
        sent = self.spark.createDataFrame([each.sent for each in records], f"{kinds}, key binary, value binary")
        routed = transform(envelope.read(sent), self.flow)
        way = ["__delete", "__truncate", "__sequence", *(["__ordinal"] if self.flow.splits else [])]
        kept = routed.where("__route = 'table'").select(*dict.fromkeys([*self.columns, *way]))
        self.entry = self.entry.after_batch({}, Counts(), {})
        order = change_order.order_of(self.flow, self.columns)
        target = Target(self.ledger, self.table_id, self.version, order, self.tombstones)
        # In each way in turn.
        with merging_by([*WAYS][self.entry.number % len(WAYS)]):
            commit = self.flow.sink.write(kept, target, self.entry)
        self.version = commit.version
        return commit

    def rows(self):
        """What a reader without Spark finds: versions by key, in their order."""
        part = "" if self.flow.sink.sequence_by == ("seq",) else "['_1']"
        start, end = f'"__START_AT"{part}', f'"__END_AT"{part}'
        query = f"SELECT h, k, {start} AS s, {end} AS e, c, v, kafka_partition, kafka_offset FROM t"
        found = QueryBuilder().register("t", DeltaTable(self.places.table)).execute(query).read_all()
        rows = [tuple(column.to_pylist()) for column in found.columns]
        told = {}
        for h, k, *rest in zip(*rows, strict=True):
            told.setdefault((h, k), []).append(tuple(rest))
        return {key: sorted(versions) for key, versions in told.items()}

    def files(self):
        """The files with the table's rows: a commit that changes a row makes another one."""
        return sorted(DeltaTable(self.places.table).file_uris())


@pytest.mark.parametrize(
    ("sequence_by", "truncates", "tracked", "in_order"),
    [
        pytest.param("seq", True, False, True, id="truncates"),
        pytest.param("seq", True, True, False, id="tracked, truncates, any order", marks=pytest.mark.long),
        pytest.param("seq", True, True, True, id="tracked, truncates", marks=pytest.mark.long),
        pytest.param("seq", False, True, True, id="tracked", marks=pytest.mark.long),
        pytest.param("seq", True, False, False, id="truncates, any order", marks=pytest.mark.long),
        pytest.param(["seq", "0"], False, False, True, id="list", marks=pytest.mark.long),
    ],
)
@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_the_table_is_what_the_log_comes_to(sequence_by, truncates, tracked, in_order, seed, spark, tmp_path_factory):
    chance = random.Random(seed)
    sink = {"sequence_by": sequence_by}
    if truncates:
        sink["apply_as_truncates"] = "op = 'truncate'"
    if tracked:
        sink["track_history_columns"] = ["c"]
    table = Table(spark, tmp_path_factory.mktemp("lake"), **sink)
    # Where a tombstone stands is a matter of what came before it.
    log = log_of(chance, truncates=truncates, tombstones=in_order)
    arriving = log if in_order else chance.sample(log, len(log))
    for batch in batches_of(arriving, chance):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold(log, tracked=tracked)


@dataclasses.dataclass(frozen=True)
class Message:
    """A record of Canal with several rows, and the changes that it tells."""

    sent: tuple
    changes: list[Record]


def messages_of(chance, *, tombstones):
    """Messages of many histories, interleaved; their rows have places of their own, and may be of one key."""
    partitions = chance.choice((1, 2, 3))
    offsets, found = dict.fromkeys(range(partitions), 0), []
    for at in range(2 * HISTORIES):
        h = chance.randrange(HISTORIES)
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


@pytest.mark.parametrize(
    ("tracked", "in_order"),
    [
        pytest.param(False, True, id="every change"),
        pytest.param(True, False, id="tracked, any order", marks=pytest.mark.long),
    ],
)
@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_records_with_several_changes_come_to_what_their_changes_do(tracked, in_order, seed, spark, tmp_path_factory):
    chance = random.Random(seed)
    sink = {"keys": ["h", "k"], "sequence_by": "seq", **({"track_history_columns": ["c"]} if tracked else {})}
    form = {"type": "canal", "schema": "h int, k int, c int, v int, seq int"}
    table = Table(spark, tmp_path_factory.mktemp("lake"), form, **sink)
    log = messages_of(chance, tombstones=in_order)
    for batch in batches_of(log if in_order else chance.sample(log, len(log)), chance):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold([change for each in log for change in each.changes], tracked=tracked)


@pytest.mark.long
def test_a_batch_that_comes_again_changes_nothing(spark, tmp_path):
    chance = random.Random(7)
    table = Table(spark, tmp_path, sequence_by="seq", track_history_columns=["c"], apply_as_truncates="op='truncate'")
    log = log_of(chance, truncates=True, tombstones=True)[:500]
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
    table.tombstones = Tombstones(LocalFiles(), table.tombstones.location, 3600.0)
    table.take([records[0], records[2]])
    late = Record(0, 4, 4, (0, 0), "upsert", 25, 0, 4)
    table.take([late])
    assert table.rows() == fold([records[0], records[2], late], tracked=True)


def test_a_truncation_keeps_its_coordinates_where_they_are_the_key(spark, tmp_path):
    sink = {"keys": "kafka_partition", "sequence_by": "seq", "apply_as_truncates": "op = 'truncate'"}
    table = Table(spark, tmp_path, **sink)
    table.take([Record(2, 1, 1, (0, 0), "upsert", 1), Record(2, 2, 2, (0, 0), "truncate", 5)])
    order = change_order.order_of(table.flow, table.columns)
    [mark] = table.tombstones.frame(spark, order).where("__truncate").collect()
    assert (mark["kafka_topic"], mark["kafka_partition"], mark["kafka_offset"]) == ("t", 2, 2)


def stopped(*_arguments, **_named):
    raise OSError("the machine is going down")
