"""A keyed table is what its change log comes to, however the log is cut into batches, against a fold in plain Python.

Thousands of small histories lie side by side in one table: the number of a history is a part of the key.
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
from pyspark.sql import functions as F
from tests.ways import WAYS, merging_by

from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.table.flow_table import create_table, table_shape
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.rows import checks, conform, envelope, routing
from rivermouth.rows.keyed import change_order, changes, partial_updates
from rivermouth.side_tables.deleted_keys import Tombstones
from rivermouth.sinks._target import Target
from rivermouth.spec import Flow, ProjectSpec

# Of each kind; together the laws fold more than two thousand.
HISTORIES = 700
START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)


@dataclasses.dataclass(frozen=True)
class Record:
    """What is in Kafka; ``offset`` is that within its partition, ``at`` counts seconds over all of them."""

    partition: int
    offset: int
    at: int
    key: tuple[int, int]
    op: str
    sequence: int | None = None
    value: int = 0

    @property
    def sent(self):
        h, k = self.key
        body = {"h": h, "k": k, "op": self.op, "seq": self.sequence, "v": self.value}
        key = json.dumps({"h": h, "k": k}).encode()
        value = None if self.op == "tombstone" else json.dumps(body).encode()
        return ("t", self.partition, self.offset, START + dt.timedelta(seconds=self.at), 0, key, value)


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
    """A tombstone stands where the newest record of its key before it stands."""
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


# --- histories -------------------------------------------------------------------------------------


def log_of(chance, *, sequenced, truncates):
    """A change log of many histories, interleaved."""
    partitions = chance.choice((1, 2, 3))
    # Whoever sends tombstones sends all records of a key to one partition, as Kafka's own partitioner does.
    faithful = {h: chance.random() < 0.7 for h in range(HISTORIES)}
    steps = [h for h in range(HISTORIES) for _ in range(chance.randint(1, 9))]
    chance.shuffle(steps)
    offsets = dict.fromkeys(range(partitions), 0)
    records = []
    for at, h in enumerate(steps):
        k = chance.randint(0, 1)
        ops = ["upsert"] * 6 + ["delete"] * 2 + ["tombstone"] * 2 * faithful[h]
        op = "truncate" if truncates and chance.random() < 0.002 else chance.choice(ops)
        partition = (h + k) % partitions if faithful[h] else chance.randrange(partitions)
        offsets[partition] += chance.randint(1, 2)
        sequence = None if op == "tombstone" else chance.randint(0, 5)
        records.append(Record(partition, offsets[partition], at, (h, k), op, sequence, chance.randint(0, 99)))
    return records


def batches_of(records, chance):
    """The log cut anywhere; now and then a batch comes again."""
    cuts = sorted(chance.sample(range(1, len(records)), chance.randint(1, 2)))
    cut = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    if chance.random() < 0.5:
        cut.append(chance.choice(cut))
    return cut


# --- the table -------------------------------------------------------------------------------------


class Table:
    """A table in a folder of its own, written batch by batch by the sink, in the steps of a flow."""

    def __init__(self, spark, folder: Path, schema="h int, k int, v int, seq int, op string", kind="json", **sink):
        form = {"type": kind, "schema": schema}
        sink = {"type": "upsert", "keys": ["h", "k"], "apply_as_deletes": "op = 'delete'", **sink}
        self.flow = Flow(name="f", topics=("t",), format=form, table="silver.t", sink=sink)
        places = resolve(ProjectSpec(lake=str(folder)), self.flow, base=folder, environ={})
        self.spark, self.places = spark, places
        shape = table_shape(spark, self.flow)
        self.columns = shape.columns.names
        self.entry = first_entry("f", {"t": {0: 0, 1: 0, 2: 0}}, {"t": "id"})
        create_table(spark, self.flow, places, shape, self.entry)
        self.table_id = delta_table.table_state(spark, places.table).table_id
        self.ledger = TableLedger(LocalFiles(), places.table, places.ledger_file, flow="f")
        self.tombstones = Tombstones(LocalFiles(), places.tombstones, self.flow.keyed.remember_deletes)
        self.version = 0
        self.left_out = [] if self.flow.whole_columns is None else ["__places"]

    def take(self, records):
        """One batch."""
        kinds = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int"
        sent = self.spark.createDataFrame([each.sent for each in records], f"{kinds}, key binary, value binary")
        rows = changes.tell(conform.conform(envelope.decode(envelope.read(sent), self.flow), self.flow), self.flow)
        rows = partial_updates.tell(rows, self.flow)
        routed = routing.route(checks.check(rows, self.flow.expectations), self.flow)
        kept = routed.where(F.col("__route") == "table").select(
            *dict.fromkeys([*self.columns, "__delete", "__truncate", "__sequence", *self.left_out])
        )
        self.entry = self.entry.after_batch({}, Counts(), {})
        order = change_order.order_of(self.flow, self.columns)
        target = Target(self.ledger, self.table_id, self.version, order, self.tombstones)
        # In each way in turn.
        with merging_by([*WAYS][self.entry.number % len(WAYS)]):
            commit = self.flow.sink.write(kept, target, self.entry)
        self.version = commit.version
        return commit

    def rows(self, columns="v, seq, kafka_partition, kafka_offset"):
        """What a reader without Spark finds, by key; a key that is there twice fails."""
        query = f"SELECT h, k, {columns} FROM t"
        found = QueryBuilder().register("t", DeltaTable(self.places.table)).execute(query).read_all()
        rows = [tuple(column.to_pylist()) for column in found.columns] or [()] * (columns.count(",") + 3)
        told = {(h, k): rest for h, k, *rest in zip(*rows, strict=True)}
        assert len(told) == len(rows[0])
        return {key: tuple(rest) for key, rest in told.items()}


@pytest.mark.parametrize(
    ("sequence_by", "truncates"),
    [
        pytest.param("seq", False, id="sequence", marks=pytest.mark.long),
        pytest.param("seq", True, id="truncates"),
        pytest.param(["seq", "0"], False, id="list", marks=pytest.mark.long),
        pytest.param([], False, id="kafka"),
    ],
)
@settings(max_examples=1, phases=[Phase.generate])
@given(seed=st.integers(0, 2**32))
def test_the_table_is_what_the_log_comes_to(sequence_by, truncates, seed, spark, tmp_path_factory):
    chance, sequenced = random.Random(seed), bool(sequence_by)
    sink = {"sequence_by": sequence_by}
    if truncates:
        sink["apply_as_truncates"] = "op = 'truncate'"
    table = Table(spark, tmp_path_factory.mktemp("lake"), **sink)
    log = log_of(chance, sequenced=sequenced, truncates=truncates)
    for batch in batches_of(log, chance):
        assert table.take(batch).rows_written == len(batch)
    assert table.rows() == fold(log, sequenced=sequenced)


@pytest.mark.parametrize(
    ("remembered", "brings_back"), [pytest.param("1 ms", True, marks=pytest.mark.long), ("7 days", False)]
)
def test_a_deleted_key_is_remembered_for_so_long_and_then_forgotten(remembered, brings_back, spark, tmp_path):
    table = Table(spark, tmp_path, sequence_by="seq", remember_deletes=remembered)
    table.take([Record(0, 1, 1, (0, 0), "upsert", 1), Record(0, 2, 2, (0, 0), "delete", 5)])
    # Another writer looks at once for what is old.
    table.tombstones = Tombstones(LocalFiles(), table.places.tombstones, table.flow.keyed.remember_deletes)
    table.take([Record(0, 3, 3, (9, 9), "delete", 1)])
    late = Record(0, 4, 4, (0, 0), "upsert", 3, 7)
    table.take([late])
    assert table.rows() == ({(0, 0): (7, 3, 0, 4)} if brings_back else {})
