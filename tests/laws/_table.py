"""A keyed table that laws write batch by batch, its change records, and the cuts of a log into batches."""

from __future__ import annotations

import datetime as dt
import json
from dataclasses import dataclass
from pathlib import Path

from deltalake import DeltaTable, QueryBuilder
from tests.merge_strategies import WAYS, merging_by

from rivermouth.domain.ledger.ledger import Counts, first_entry
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.batch.pipeline import transform
from rivermouth.engine.table.flow_table import create_table, table_shape
from rivermouth.names import DEFAULT_METADATA_COLUMNS
from rivermouth.ports.delta.table_ledger import TableLedger
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.spark.session import for_flow
from rivermouth.rows import envelope
from rivermouth.rows.keyed import change_order
from rivermouth.side_tables.deleted_keys import FORGOTTEN, Tombstones
from rivermouth.sinks._target import Target
from rivermouth.spec import Flow, ProjectSpec

START = dt.datetime(2026, 1, 1, tzinfo=dt.UTC)
SENT = "topic string, partition int, offset bigint, timestamp timestamp, timestampType int, key binary, value binary"


@dataclass(frozen=True)
class Change:
    """A change record in Kafka; ``offset`` is that within its partition, ``at`` counts seconds over all of them."""

    partition: int
    offset: int
    at: int
    key: tuple[int, int]
    op: str
    sequence: int | None = None

    @property
    def body(self) -> dict:
        """What its document has besides key, operation and sequence."""
        return {}

    @property
    def sent(self) -> tuple:
        """The record as a row of ``SENT``."""
        h, k = self.key
        body = {"h": h, "k": k, "op": self.op, "seq": self.sequence, **self.body}
        value = None if self.op == "tombstone" else json.dumps(body).encode()
        return sent(self, json.dumps({"h": h, "k": k}).encode(), value)


def sent(each, key, value):
    """A record with these bytes, in the place of ``each``."""
    return ("t", each.partition, each.offset, START + dt.timedelta(seconds=each.at), 0, key, value)


def log_of(chance, histories, ops, make, *, sequences, truncations=0.0, tombstones=True):
    """A change log of ``histories`` keys, interleaved: ``make(place, key, op, sequence)`` makes each record.

    ``ops`` are drawn from, with a tombstone for each in ``tombstones``; ``truncations`` is how likely a record is one.
    """
    partitions = chance.choice((1, 2, 3))
    # A producer of tombstones sends all records of a key to one partition, as Kafka's own partitioner does.
    faithful = {h: tombstones > 0 and chance.random() < 0.7 for h in range(histories)}
    steps = [h for h in range(histories) for _ in range(chance.randint(1, 9))]
    chance.shuffle(steps)
    offsets = dict.fromkeys(range(partitions), 0)
    records = []
    for at, h in enumerate(steps):
        k = chance.randint(0, 1)
        op = chance.choice([*ops, *["tombstone"] * (tombstones * faithful[h])])
        op = "truncate" if chance.random() < truncations else op
        partition = (h + k) % partitions if faithful[h] else chance.randrange(partitions)
        offsets[partition] += chance.randint(1, 2)
        sequence = None if op == "tombstone" else chance.randrange(sequences)
        records.append(make((partition, offsets[partition], at), (h, k), op, sequence))
    return records


def batches_of(records, chance, number, again=None):
    """The log cut anywhere into ``number`` batches; one of them, the one named if any, comes again."""
    cuts = sorted(chance.sample(range(1, len(records)), number - 1))
    cut = [records[a:b] for a, b in zip([0, *cuts], [*cuts, len(records)], strict=True)]
    again = chance.randrange(len(cut)) if again is None else again
    cut.insert(chance.randint(again + 1, len(cut)), cut[again])
    return cut


class Table:
    """A table in a folder of its own, written batch by batch by the sink, in the steps of a flow."""

    def __init__(self, spark, folder: Path, form, sink, columns=DEFAULT_METADATA_COLUMNS):
        self.flow = Flow(name="f", topics=("t",), format=form, table="silver.t", sink=sink, metadata_columns=columns)
        places = resolve(ProjectSpec(lake=str(folder)), self.flow, base=folder, environ={})
        self.spark, self.places = for_flow(spark), places
        shape = table_shape(spark, self.flow)
        self.columns = shape.columns.names
        self.entry = first_entry("f", {"t": {0: 0, 1: 0, 2: 0}}, {"t": "id"})
        create_table(spark, self.flow, places, shape, self.entry)
        self.table_id = delta_snapshot.table_state(spark, places.table).table_id
        self.ledger = TableLedger(LocalFiles(), places.table, places.ledger_file, flow="f")
        self.version = 0
        self.remember_anew()

    def remember_anew(self, remember_s=None):
        """What is remembered of deleted keys is looked up by another process, in which nobody has looked yet."""
        remember_s = self.flow.keyed.remember_deletes if remember_s is None else remember_s
        self.tombstones = Tombstones(LocalFiles(), self.places.tombstones, remember_s)

    def an_hour_passes(self):
        """Nobody has looked lately for what is remembered no more."""
        (Path(self.places.tombstones) / FORGOTTEN).unlink()
        self.remember_anew()

    @property
    def order(self):
        return change_order.order_of(self.flow, self.columns)

    def take(self, records):
        """One batch."""
        frame = self.spark.createDataFrame([each.sent for each in records], SENT)
        routed = transform(envelope.read(frame), self.flow)
        way = ["__delete", "__truncate", "__sequence", *(["__ordinal"] if self.flow.splits else [])]
        way += [] if self.flow.whole_columns is None else ["__places"]
        kept = routed.where("__route = 'table'").select(*dict.fromkeys([*self.columns, *way]))
        self.entry = self.entry.after_batch({}, Counts(), {})
        target = Target(self.ledger, self.table_id, self.version, self.order, self.tombstones)
        # In each way in turn.
        with merging_by([*WAYS][self.entry.number % len(WAYS)]):
            commit = self.flow.sink.write(kept, target, self.entry)
        self.version = commit.version
        return commit

    def read(self, columns):
        """These columns of each row, as a reader without Spark finds them."""
        query = f"SELECT {columns} FROM t"
        found = QueryBuilder().register("t", DeltaTable(self.places.table)).execute(query).read_all()
        return list(zip(*(column.to_pylist() for column in found.columns), strict=True))

    def files(self):
        """The files with the table's rows: a commit that changes a row makes another one."""
        return sorted(DeltaTable(self.places.table).file_uris())
