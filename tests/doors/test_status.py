"""Status: what flows' ledgers and Kafka say together, and what is left when one of them is silent."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import uuid
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewPartitions
from deltalake import CommitProperties, write_deltalake

from rivermouth.cli.output import plain
from rivermouth.cli.status import status_text
from rivermouth.domain.ledger.ledger import Counts, Decision, first_entry
from rivermouth.domain.project.locations import resolve
from rivermouth.engine.report.flow_status import PartitionStatus
from rivermouth.engine.report.status import project_status
from rivermouth.errors import LakeNotWritable
from rivermouth.ports.delta.table_ledger import LedgerPosition, TableLedger
from rivermouth.ports.dev.local_ports import free_port
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.lake.lease import TableLease
from rivermouth.spec import Flow, ProjectSpec

FIRST = Counts(consumed=10, written=7, dropped=1, dead_lettered=2)
SECOND = Counts(consumed=5, written=4, dead_lettered=1)
REPORT = {"finished_at": 1_700_000_000.5, "duration_s": 0.25, "rows_per_s": 20.0, "ranges": {}}


class Lake:
    """Real Delta tables whose commits carry ledger entries, without Spark."""

    def __init__(self, folder, kafka_address) -> None:
        self.project = ProjectSpec(lake=str(folder / "lake"))
        self.kafka_address = kafka_address
        self._folder = folder

    def flow(self, name="orders", **fields):
        flow = Flow.model_validate({"name": name, "format": "raw", "table": f"bronze.{name}", **fields})
        return flow, resolve(self.project, flow, base=self._folder, environ={})

    def commit(self, pair, entry):
        """One commit that adds a row, with ``entry`` in it; None for somebody else's."""
        metadata = {} if entry is None else {"userMetadata": entry.to_json()}
        properties = CommitProperties(custom_metadata=metadata)
        write_deltalake(pair[1].table, pa.table({"a": [1]}), mode="append", commit_properties=properties)

    def keep(self, pair, entry, version, counts=None, report=None):
        flow, places = pair
        ledger = TableLedger(LocalFiles(), places.table, places.ledger_file, flow=flow.name)
        ledger.keep(LedgerPosition(entry, version, counts, report))

    def two_batches(self, pair, topic, next_offsets, topic_id=None):
        """A table with the entries 0 to 2; the last one's counts are kept in the side file."""
        name = pair[0].name
        ids = {topic: topic_id}
        entries = [first_entry(name, {topic: dict.fromkeys(next_offsets, 0)}, ids)]
        half = {partition: (0, offset // 2) for partition, offset in next_offsets.items()}
        whole = {partition: (offset // 2, offset) for partition, offset in next_offsets.items()}
        entries.append(entries[0].after_batch({topic: half}, Counts(), ids))
        entries.append(entries[1].after_batch({topic: whole}, FIRST, ids))
        for entry in entries:
            self.commit(pair, entry)
        self.keep(pair, entries[2], 2, SECOND, REPORT)
        return entries

    def status(self, *pairs, **kwargs):
        settings = {"bootstrap_servers": self.kafka_address, "options": {}, **kwargs}
        return project_status(pairs, **settings)


@pytest.fixture
def lake(tmp_path, broker):
    return Lake(tmp_path, broker.bootstrap_servers)


@pytest.fixture
def filled(broker, topic):
    """Makes a topic with the given number of records in each partition."""

    def make(*counts):
        name = topic(partitions=len(counts))
        producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
        for partition, count in enumerate(counts):
            for _ in range(count):
                producer.produce(name, b"v", partition=partition)
        assert producer.flush(10) == 0
        return name

    return make


def unreachable():
    return f"127.0.0.1:{free_port()}"


def test_a_flow_that_never_ran_tells_where_it_would_start(lake, filled):
    name = filled(5, 3)
    pair = lake.flow(topics=[name], starting_offsets={name: {0: 4}})
    (status,) = lake.status(pair)
    assert status.message == f"never ran; would start at {{'{name}': {{0: 4}}}}"
    assert (status.flow, status.table) == ("orders", pair[1].table)
    assert (status.entry, status.code, status.writer, status.last_batch) == (None, None, None, None)
    assert status.partitions == (PartitionStatus(name, 0, 4, 5, 1), PartitionStatus(name, 1, 0, 3, 3))
    assert status.lag == 4


def test_a_flow_that_is_behind(lake, filled):
    name = filled(10, 40, 70)
    pair = lake.flow(topics=[name], trigger={"every": "30 seconds"})
    lake.two_batches(pair, name, {0: 10, 1: 20, 2: 8})
    (status,) = lake.status(pair)
    assert status.message == "82 offsets behind, and no process writes the table"
    assert (status.code, status.hint, status.entry, status.lag) == (None, "", 2, 82)
    assert status.partitions == (
        PartitionStatus(name, 0, 10, 10, 0),
        PartitionStatus(name, 1, 20, 40, 20),
        PartitionStatus(name, 2, 8, 70, 62),
    )
    assert status.furthest_behind == PartitionStatus(name, 2, 8, 70, 62)
    assert status.input_rate == 2.0
    assert (status.processing_rate, status.batch_duration_s, status.trigger_s) == (20.0, 0.25, 30.0)
    assert status.finished_at == 1_700_000_000.5
    assert (status.last_batch, status.pending) == (SECOND, False)
    assert (status.totals, status.dead_letters) == (FIRST + SECOND, 3)


def test_a_flow_that_has_everything(lake, filled):
    name = filled(4)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 4})
    (status,) = lake.status(pair)
    assert (status.message, status.lag, status.furthest_behind) == ("up to date", 0, None)


def test_a_flow_that_runs_names_its_writer(lake, filled):
    name = filled(9)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 4})
    with TableLease(LocalFiles(), pair[1].lease_file, flow="orders", table=pair[1].table):
        (status,) = lake.status(pair)
    assert status.writer == f"process {os.getpid()} on {socket.gethostname()}"
    assert status.message == "5 offsets behind"


def test_a_writer_that_falls_back_is_told(lake, filled):
    name = filled(600)
    pair = lake.flow(topics=[name], trigger={"every": "1 s"})
    entries = lake.two_batches(pair, name, {0: 20})
    lake.keep(pair, entries[2], 2, SECOND, {**REPORT, "duration_s": 2.5, "rows_per_s": 8.0})
    with TableLease(LocalFiles(), pair[1].lease_file, flow="orders", table=pair[1].table):
        (status,) = lake.status(pair)
    assert status.message == "580 offsets behind and falling back: records come faster than they are written"


def test_counts_of_a_batch_that_was_cut_off_are_pending(lake, filled):
    name = filled(20)
    pair = lake.flow(topics=[name])
    entries = lake.two_batches(pair, name, {0: 10})
    lake.commit(pair, entries[2].after_batch({name: {0: (10, 15)}}, SECOND, {}))
    (status,) = lake.status(pair)
    assert status.message == "the counts of the last batch are pending: the next start completes them"
    assert (status.entry, status.pending, status.last_batch) == (3, True, None)
    assert status.partitions == (PartitionStatus(name, 0, 15, 20, 5),)
    assert (status.totals, status.dead_letters) == (FIRST + SECOND, 3)
    assert (status.processing_rate, status.batch_duration_s, status.finished_at) == (None, None, None)
    assert "    its counts are pending until the next start\n" in status_text(status)


def test_counts_are_pending_while_the_writer_settles_its_batch(lake, filled):
    name = filled(20)
    pair = lake.flow(topics=[name])
    entries = lake.two_batches(pair, name, {0: 10})
    lake.commit(pair, entries[2].after_batch({name: {0: (10, 15)}}, SECOND, {}))
    with TableLease(LocalFiles(), pair[1].lease_file, flow="orders", table=pair[1].table):
        (status,) = lake.status(pair)
    assert status.message == "the counts of the last batch are pending: its writer is completing it"
    assert "    its counts are pending until its writer has completed it\n" in status_text(status)


def test_a_log_without_entries_leaves_the_side_file(lake, filled):
    name = filled(20)
    pair = lake.flow(topics=[name])
    entry = first_entry("orders", {name: {0: 7}}, {name: None})
    lake.commit(pair, None)
    lake.keep(pair, entry, 0, Counts())
    (status,) = lake.status(pair)
    assert (status.code, status.entry, status.lag) == (None, 0, 13)


def test_a_new_partition_is_read_from_its_beginning(lake, filled, broker):
    name = filled(5)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 5})
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.create_partitions([NewPartitions(name, 2)])[name].result()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(name, b"v", partition=1)
    assert producer.flush(10) == 0
    (status,) = lake.status(pair)
    assert status.partitions == (PartitionStatus(name, 0, 5, 5, 0), PartitionStatus(name, 1, 0, 1, 1))


def test_assigned_partitions_alone_are_told(lake, filled):
    name = filled(5, 6, 7)
    pair = lake.flow(assign={name: [1]})
    lake.two_batches(pair, name, {1: 4})
    reached = lake.status(pair)[0].partitions
    silent = lake.status(pair, bootstrap_servers=unreachable(), timeout_s=0.2)[0].partitions
    assert reached == (PartitionStatus(name, 1, 4, 6, 2),)
    assert silent == (PartitionStatus(name, 1, 4),)


def test_topics_of_a_pattern(lake, filled):
    name = filled(5)
    pair = lake.flow(topic_pattern=f"{name[:-1]}.")
    lake.two_batches(pair, name, {0: 3})
    assert lake.status(pair)[0].partitions == (PartitionStatus(name, 0, 3, 5, 2),)


def test_an_unreachable_broker_is_shown_as_such_and_the_rest_still_told(lake, filled):
    name = filled(10)
    first, second = lake.flow("first", topics=[name]), lake.flow("second", topics=[name])
    lake.two_batches(first, name, {0: 6})
    address = unreachable()
    ran, never = lake.status(first, second, bootstrap_servers=address)
    text = f"no Kafka broker answered at {address} within 1 s: nothing listens there; nothing was read"
    hint = f"rivermouth dev kafka --port {address.partition(':')[2]}"
    assert (ran.code, ran.message, ran.hint) == ("BROKER_UNREACHABLE", text, hint)
    assert (never.code, never.message) == ("BROKER_UNREACHABLE", text)
    assert ran.partitions == (PartitionStatus(name, 0, 6, None, None),)
    assert (ran.lag, ran.furthest_behind, ran.input_rate) == (None, None, None)
    assert (ran.entry, ran.last_batch, ran.dead_letters, ran.processing_rate) == (2, SECOND, 3, 20.0)
    assert (never.entry, never.partitions) == (None, ())


def test_options_that_the_client_cannot_take_are_told(lake, filled):
    name = filled(1)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 1})
    (status,) = lake.status(pair, options={"security.protocol": "s3cret"})
    assert status.code == "KAFKA_OPTION_REFUSED"
    assert status.message == (
        "kafka option 'security.protocol' is refused: the client cannot use its value; nothing was run"
    )
    assert status.entry == 2


def test_a_topic_that_is_gone_leaves_what_the_ledger_knows(lake):
    name = f"gone-{uuid.uuid4().hex[:8]}"
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 6})
    (status,) = lake.status(pair)
    assert status.code == "TOPIC_MISSING"
    assert status.message == f"flow orders: topic '{name}' does not exist on the broker; nothing was read"
    assert status.partitions == (PartitionStatus(name, 0, 6),)


@pytest.mark.parametrize("stands", [6, 10, 12])
def test_a_topic_that_was_made_anew_has_no_lag_that_anybody_knows(stands, lake, filled):
    name = filled(10)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: stands}, topic_id="another")
    (status,) = lake.status(pair)
    assert status.code == "TOPIC_RECREATED"
    with Kafka(lake.kafka_address) as kafka:
        topic_id = kafka.describe([name])[name].id
    assert status.message == (
        f"flow orders: topic {name} was deleted and created again: its id is {topic_id}, the ledger knows another and "
        f"ends at {name}-0:{stands}; none of the 10 offsets that it holds now was read; nothing was written"
    )
    assert status.partitions == (PartitionStatus(name, 0, stands, 10, None),)
    assert (status.lag, status.furthest_behind) == (None, None)


def test_offsets_that_are_gone_or_not_there(lake, filled, broker):
    expired, ahead = filled(10), filled(10)
    place = TopicPartition(expired, 0, 8)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([place])[place].result()
    first, second = lake.flow("first", topics=[expired]), lake.flow("second", topics=[ahead])
    lake.two_batches(first, expired, {0: 6})
    lake.two_batches(second, ahead, {0: 12})
    lost, beyond = lake.status(first, second)
    assert (lost.code, beyond.code) == ("OFFSETS_EXPIRED", "OFFSETS_BEYOND_END")
    assert lost.message == (
        f"flow first: topic {expired} partition 0: offsets 6 to 8 (exclusive) are no longer in Kafka, which "
        "lacks 2 offsets in total; nothing was written"
    )
    assert beyond.message == (
        f"flow second: topic {ahead} partition 0: the ledger expects offset 12, the topic ends at 10; "
        "nothing was written"
    )


def test_what_the_next_run_records_by_itself_is_a_warning_and_no_stop(lake, filled, broker):
    name = filled(10)
    place = TopicPartition(name, 0, 8)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([place])[place].result()
    pair = lake.flow(topics=[name], on_data_loss="record")
    lake.two_batches(pair, name, {0: 6})
    (status,) = lake.status(pair)
    assert (status.code, status.message, status.lag) == (None, "how much is left to read is not known", None)
    assert f"a run records first: offsets 6 to 8 (exclusive) of {name}-0 are lost" in status.warnings


def test_a_batch_that_was_not_settled_and_whose_records_are_gone_is_a_stop(lake, filled, broker):
    name = filled(10)
    place = TopicPartition(name, 0, 5)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([place])[place].result()
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 8})
    Path(pair[1].ledger_file).write_text("{}")
    (status,) = lake.status(pair)
    assert status.code == "OFFSETS_EXPIRED"
    assert status.hint == (
        "set on_data_loss: record to accept this loss and later ones; or accept only this one: "
        f'rivermouth run orders --accept-loss {name}-0:4-5 --why "REASON"'
    )


def test_the_last_batch_of_a_flow_whose_state_was_deleted_is_not_asked_of_kafka(lake, filled, broker):
    name = filled(10)
    place = TopicPartition(name, 0, 5)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    admin.delete_records([place])[place].result()
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 8})
    Path(pair[1].ledger_file).unlink()
    (status,) = lake.status(pair)
    assert (status.code, status.lag, status.pending) == (None, 2, True)
    said = f"{pair[1].state} was deleted or emptied: the next run rebuilds what the table tells"
    assert status.warnings[0] == said


def test_a_flow_whose_records_are_about_to_expire_is_warned(lake, filled, broker):
    name = filled(100, 100)
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    for partition in (0, 1):
        place = TopicPartition(name, partition, 50)
        admin.delete_records([place])[place].result()
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 54, 1: 56})
    (status,) = lake.status(pair)
    assert status.code is None
    warning = (
        f"{name} partition 0 is about to lose unread records: the flow is 4 offsets behind the first of 50 that "
        "Kafka holds"
    )
    assert status.warnings == (warning,)
    assert f"  warning: {warning}\n" in status_text(status)


def test_recorded_losses_are_shown_for_ever(lake, filled):
    name = filled(10)
    pair = lake.flow(topics=[name])
    entries = lake.two_batches(pair, name, {0: 6})
    decision = Decision(
        "accept_loss", 3, name, {0: (6, 8)}, who="ann@host", at="2026-01-31T12:00:00+00:00", why="known"
    )
    totals = FIRST + SECOND + Counts(lost=2)
    lost = replace(entries[2], number=3, kind="decision", decisions=(decision,), totals=totals, attempt="x")
    lost = replace(lost, next_offsets={name: {0: 8}}, settled={name: {0: 8}})
    lake.commit(pair, lost)
    lake.commit(pair, lost.after_batch({name: {0: (8, 10)}}, Counts(), {}))
    (status,) = lake.status(pair)
    assert (status.lost, status.decisions) == (2, (decision,))
    assert (
        "  lost: 2 offsets\n"
        "  1 decision in the ledger:\n"
        f"    entry 3, 2026-01-31T12:00:00+00:00, ann@host: offsets 6 to 8 (exclusive) of {name}-0 are lost (known)\n"
    ) in status_text(status)
    assert plain(status)["decisions"][0]["moves"] == {"0": [6, 8]}


def test_a_table_that_somebody_else_changed_shows_the_last_known_standing(lake, filled):
    name = filled(10)
    pair = lake.flow(topics=[name])
    lake.two_batches(pair, name, {0: 6})
    lake.commit(pair, None)
    (status,) = lake.status(pair)
    assert status.code == "LEDGER_VOID"
    assert status.message == (
        f"table {pair[1].table}: version 3 (WRITE) changed its data after ledger entry 2; nothing was written"
    )
    assert (status.entry, status.lag, status.last_batch) == (2, 4, SECOND)


def test_a_table_of_another_flow_is_told(lake, filled):
    name = filled(1)
    other, places = lake.flow("orders", topics=[name])
    lake.two_batches((replace_name(other, "older"), places), name, {0: 1})
    (status,) = lake.status((other, places))
    assert (status.code, status.entry, status.partitions) == ("TABLE_FOREIGN", None, ())
    renamed = other.model_copy(update={"previously": "older"})
    assert lake.status((renamed, places))[0].entry == 2


def replace_name(flow, name):
    return flow.model_copy(update={"name": name})


def test_a_lake_that_cannot_be_reached_spoils_no_other_flow(lake, filled):
    name = filled(3)
    near = lake.flow("near", topics=[name])
    lake.project = ProjectSpec(lake="s3a://bucket/lake")
    far = lake.flow("far", topics=[name])
    conf = {
        "spark.hadoop.fs.s3a.endpoint": f"http://{unreachable()}",
        "spark.hadoop.fs.s3a.access.key": "key",
        "spark.hadoop.fs.s3a.secret.key": "s3cret",
    }
    lake.two_batches(near, name, {0: 3})
    lost, told = lake.status(far, near, spark_conf=conf)
    assert (lost.code, lost.entry) == ("LAKE_NOT_READABLE", None)
    assert lost.message.startswith("cannot read s3a://bucket/lake/_rivermouth/leases/bronze.far.json: When ")
    assert lost.hint == "check the credentials and the address of the lake, in spark: conf for object stores"
    assert "s3cret" not in lost.message
    assert (told.code, told.message) == (None, "up to date")


def test_a_file_that_must_not_be_read_is_told(lake, filled):
    pair = lake.flow(topics=[filled(1)])
    log = Path(pair[1].table) / "_delta_log"
    log.mkdir(parents=True)
    (log / f"{0:020}.json").mkdir()
    (status,) = lake.status(pair)
    assert status.code == "LAKE_NOT_READABLE"
    assert status.message == f"cannot read {log}/{0:020}.json: [Errno 21] Is a directory: '{log}/{0:020}.json'"


def test_nothing_is_written_through_the_reader(tmp_path):
    reader = LakeReader({}, timeout_s=1)
    for write in (reader.write, reader.create, reader.rename):
        with pytest.raises(LakeNotWritable) as error:
            write(f"{tmp_path}/a", f"{tmp_path}/b")
        assert error.value.detail == "it was opened for reading only"
    with pytest.raises(LakeNotWritable):
        reader.delete(str(tmp_path))
    assert list(tmp_path.iterdir()) == []


def test_no_flows_no_status(lake):
    assert lake.status() == []


def test_it_is_told_without_spark():
    script = "import rivermouth.engine.report.status, sys; print([name for name in sys.modules if 'spark' in name])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_old_records_are_no_input(lake, filled, topic, broker):
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    now_ms = int(time.time() * 1000)
    for age_s in (300, 120, 90, 30, 10, 0):
        producer.produce(name, b"v", timestamp=now_ms - age_s * 1000)
    assert producer.flush(10) == 0
    assert lake.status(lake.flow(topics=[name]))[0].input_rate == round(3 / 60, 3)
