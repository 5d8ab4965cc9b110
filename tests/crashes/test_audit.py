"""The audit that users run finds what the oracle finds: nothing where all is well, and every kind of accident."""

from __future__ import annotations

import dataclasses
import json
import shutil
import uuid

import pytest
from confluent_kafka import Producer, TopicPartition
from delta.tables import DeltaTable
from pyspark.sql.functions import col, lit
from tests.crashes import oracle
from tests.crashes.scene import RULES, Scene
from tests.crashes.test_ledger import at_of, only
from tests.crashes.test_replay import MENDED, replayed

from rivermouth.domain.ledger.audit_window import Tally
from rivermouth.engine.audit import audit as auditing
from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.audit.audit_sinks import SinkAudit
from rivermouth.engine.events import StepReached
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import ArgumentInvalid, AuditDisturbed
from rivermouth.ports.kafka.kafka_cluster import Kafka


@pytest.fixture(scope="module")
def drained(broker, spark, tmp_path_factory):
    scene = Scene.make(broker, tmp_path_factory.mktemp("audited"), partitions=2)
    scene.produce(900)
    assert scene.drain(spark).error is None
    scene.produce(300, seed=2)
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean
    return scene


@pytest.fixture
def scene(drained, tmp_path):
    return drained.copy(tmp_path)


def places_of(scene):
    """How many records the oracle wants in the table, in the dead letters and in neither."""
    places = [oracle.expected(record, RULES).place for record in scene.records().values()]
    return places.count("table"), places.count("dead_letter"), places.count("dropped")


def without_a_trace(scene, change):
    """Changes the table's data in a commit that claims, as OPTIMIZE does, that it changed none."""
    before = set(scene.table.glob("_delta_log/*.json"))
    change(str(scene.table))
    for commit in set(scene.table.glob("_delta_log/*.json")) - before:
        commit.with_name(f".{commit.name}.crc").unlink(missing_ok=True)
        commit.write_text(commit.read_text().replace('"dataChange":true', '"dataChange":false'))


def text_of(at):
    return f"{at[0]}-{at[1]}:{at[2]}"


@pytest.mark.long
def test_what_is_gone_doubled_or_made_up_is_found_and_nothing_before(make_scene, spark):
    """The short form of the next three: one flow, looked at before it is damaged and after."""
    scene = make_scene(partitions=1)
    scene.produce(150, partitions=1)
    assert scene.drain(spark).error is None
    table, letters, dropped = places_of(scene)
    found = audit_flow(spark, scene.order)
    assert found.problems == found.examples == ()
    assert found.found == Tally(table + letters + dropped, table, letters, dropped)
    assert found.counted.consumed == table + letters + dropped
    damage(scene, spark)
    shutil.rmtree(scene.dead_letters)
    found = audit_flow(spark, scene.order)
    gone = letters + dropped + 1
    assert letters > 0
    assert found.found == Tally(table + letters + dropped, table - 1, 0, gone, doubled=1, not_in_kafka=1)
    assert found.problems == (
        "there more than once: 1 record",
        "there, and not shown by Kafka: 1 record",
        f"in neither table: {gone:,} records; the ledger counted {dropped:,} dropped",
    )


@pytest.mark.long
def test_all_is_well(scene, spark):
    table, letters, dropped = places_of(scene)
    found = audit_flow(spark, scene.order)
    assert found.problems == found.examples == found.compacted == ()
    assert found.found == Tally(table + letters + dropped, table, letters, dropped)
    assert found.counted.consumed == table + letters + dropped
    assert (found.flow, found.table, found.since, found.not_audited) == ("shop", str(scene.table), 0, {})
    newest = oracle.ledger_of(scene.table)[-1]
    assert found.entry == found.until == newest["entry"]
    ends = newest["topics"][scene.topic]["next"]
    assert found.ranges == {scene.topic: {int(partition): (0, end) for partition, end in ends.items()}}


def damage(scene, spark):
    """Takes a row away, doubles another one and makes one up; the coordinates of the first two."""
    lost, doubled, *_rest = sorted(at_of(row) for row in oracle.rows_of(scene.table))

    def change(location):
        rows = spark.read.format("delta").load(location)
        twice = rows.where(only(doubled)).localCheckpoint()
        # Of an offset that a transaction's end takes, which no reader ever sees.
        seen = {(partition, offset) for _topic, partition, offset in scene.records()}
        hidden = next(offset for offset in range(900) if (doubled[1], offset) not in seen)
        made_up = twice.withColumn("kafka_offset", lit(hidden).cast("bigint"))
        twice.union(made_up).write.format("delta").mode("append").save(location)
        DeltaTable.forPath(spark, location).delete(only(lost))

    without_a_trace(scene, change)
    return lost, doubled


@pytest.mark.long
def test_rows_that_are_gone_doubled_or_made_up(scene, spark):
    table, letters, dropped = places_of(scene)
    lost, doubled = damage(scene, spark)
    found = audit_flow(spark, scene.order)
    everything = table + letters + dropped
    assert found.found == Tally(everything, table - 1, letters, dropped + 1, doubled=1, not_in_kafka=1)
    assert found.problems == (
        "there more than once: 1 record",
        "there, and not shown by Kafka: 1 record",
        f"in neither table: {dropped + 1:,} records; the ledger counted {dropped:,} dropped",
    )
    assert len(found.examples) == 3
    assert {text_of(lost), text_of(doubled)} < set(found.examples)


@pytest.mark.long
def test_dead_letters_that_are_gone(scene, spark):
    _table, letters, dropped = places_of(scene)
    shutil.rmtree(scene.dead_letters)
    found = audit_flow(spark, scene.order)
    assert (found.found.in_dead_letters, found.found.in_neither) == (0, letters + dropped)
    assert found.problems == (
        f"in neither table: {letters + dropped:,} records; the ledger counted {dropped:,} dropped",
    )
    known = {text_of(at) for at, record in scene.records().items() if oracle.expected(record, RULES).place != "dropped"}
    assert len(found.examples) == 5
    assert set(found.examples) < known


@pytest.mark.long
def test_records_of_aborted_transactions_are_made_up(make_scene, spark):
    scene = make_scene()
    scene.produce(400)
    careless = dataclasses.replace(scene.order, options={"isolation.level": "read_uncommitted"})
    outcome = Supervisor(spark, lambda _event: None, lambda _run: None).run([careless], keep_following=False)[0]
    assert outcome.error is None
    # The flow's own isolation level is no excuse.
    found = audit_flow(spark, careless)
    visible = len(scene.records())
    assert found.found.visible == visible
    assert found.found.not_in_kafka > 0
    assert f"there, and not shown by Kafka: {found.found.not_in_kafka:,} records" in found.problems
    assert f"shown by Kafka: {visible:,} records; the ledger counted {outcome.counts.consumed:,}" in found.problems


@pytest.mark.long
def test_a_batch_that_is_not_settled_is_left_out(make_scene, spark):
    scene = make_scene()
    scene.produce(200)
    assert scene.drain(spark).error is None
    scene.produce(200, seed=5)

    def fail(event):
        if isinstance(event, StepReached) and event.step in {"dead_letters", "recover"}:
            raise ArgumentInvalid(argument="test", detail="cut off", fix="")

    assert scene.drain(spark, fail).error is not None
    found = audit_flow(spark, scene.order)
    assert found.problems == ()
    settled = oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["settled"]
    assert {str(p): end for p, (_start, end) in found.ranges[scene.topic].items()} == settled
    assert scene.drain(spark).error is None
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_what_kafka_dropped_and_what_was_decided_is_said_and_left_out(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.produce(300, partitions=1)
    assert scene.drain(spark).error is None
    scene.drop_before(5)
    found = audit_flow(spark, scene.order)
    end = oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["next"]["0"]
    assert (found.since, found.ranges, found.not_audited) == (1, {}, {scene.topic: {0: (0, end)}})
    scene.make_topic_anew(1)
    scene.produce(300, partitions=1, seed=9)
    scene.decision = {"new_epoch": [scene.topic], "why": "made anew"}
    assert scene.drain(spark).error is None
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.since) == ((), 2)
    assert found.found.visible == len(scene.records())
    assert found.found.in_dead_letters > 0


@pytest.mark.long
def test_a_transaction_that_is_still_open_hides_no_made_up_rows(make_scene, spark):
    scene = make_scene(partitions=1)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "transactional.id": uuid.uuid4().hex})
    producer.init_transactions(30)
    producer.begin_transaction()
    for number in range(7):
        producer.produce(scene.topic, value=json.dumps({"id": number, "amount": 1}), partition=0)
    assert producer.flush(30) == 0
    careless = dataclasses.replace(scene.order, options={"isolation.level": "read_uncommitted"})
    outcome = Supervisor(spark, lambda _event: None, lambda _run: None).run([careless], keep_following=False)[0]
    assert outcome.error is None
    found = audit_flow(spark, careless)
    assert found.found == Tally(not_in_kafka=7)
    assert found.problems == (
        "there, and not shown by Kafka: 7 records",
        "shown by Kafka: 0 records; the ledger counted 7",
    )
    producer.abort_transaction(30)


@pytest.mark.long
def test_records_that_kafka_drops_meanwhile(make_scene, spark, monkeypatch):
    scene = make_scene(partitions=1)
    for seed in range(3):
        scene.produce(150, partitions=1, seed=seed)
        assert scene.drain(spark).error is None
    honest, times = auditing._compared, 2

    def compared_under_retention(run, window, told):
        nonlocal times
        if times > 0:
            times -= 1
            [(start, _end)] = window.ranges[scene.topic].values()
            scene.drop_before(start + 1)
        return honest(run, window, told)

    monkeypatch.setattr(auditing, "_compared", compared_under_retention)
    monkeypatch.setattr(auditing, "_WAITS_S", (0.0, 0.0))
    with pytest.raises(AuditDisturbed) as caught:
        audit_flow(spark, scene.order)
    assert str(caught.value) == (
        "[AUDIT_DISTURBED] flow shop: Kafka dropped records while its records were compared with Kafka (ledger entry "
        "3); its audit was given up\n"
        "  hint: rivermouth run shop, which finishes what was cut off, then: rivermouth audit shop"
    )
    found = audit_flow(spark, scene.order)
    assert (found.problems, found.since, found.until) == ((), 2, 3)
    assert found.found.visible > 0


@pytest.mark.long
def test_a_replay_moves_records_from_one_place_to_the_other(drained, tmp_path, spark, monkeypatch):
    scene = drained.copy(tmp_path, expectations=MENDED)
    before = audit_flow(spark, scene.order).found
    moved = replayed(scene, spark)["replayed"]
    assert moved > 0
    found = audit_flow(spark, scene.order)
    assert found.problems == ()
    assert found.found.in_table == before.in_table + moved
    assert found.found.in_dead_letters == before.in_dead_letters - moved
    # Its rows are in the table and its dead letters are not marked: as if it had been cut off there.
    side = json.loads(scene.side_file.read_text())
    scene.side_file.write_text(json.dumps(side | {"counts": None}))
    letters = DeltaTable.forPath(spark, str(scene.dead_letters))
    letters.update(col("status") == "replayed", {"status": lit("open")})
    monkeypatch.setattr(auditing, "_WAITS_S", (0.0, 0.0))
    with pytest.raises(AuditDisturbed) as caught:
        audit_flow(spark, scene.order)
    entry = oracle.ledger_of(scene.table)[-1]["entry"]
    assert str(caught.value) == (
        "[AUDIT_DISTURBED] flow shop: dead letters were replayed, records erased, or something was decided, while "
        f"its records were compared with Kafka (ledger entry {entry}); its audit was given up\n"
        "  hint: rivermouth run shop, which finishes what was cut off, then: rivermouth audit shop"
    )
    assert scene.drain(spark).error is None
    assert audit_flow(spark, scene.order).problems == ()


@pytest.mark.long
def test_an_archive_has_the_files_and_rows_that_its_manifests_and_the_ledger_say(broker, tmp_path, spark):
    scene = Scene.make(broker, tmp_path, partitions=1)
    options = {"header": "true"}
    sink = {"type": "files", "format": "csv", "path": "archive/shop", "options": options, "partition_by": ["id"]}
    scene.options |= {"sink": sink, "expectations": ()}
    archive = scene.folder / "lake/archive/shop"
    scene.send(b'{"id": 1, "name": "one\\nand more"}', b'{"id": 1}', b'{"id": 2}', b"no JSON", partition=0)
    assert scene.drain(spark).error is None
    scene.send(b'{"id": 3, "name": "x"}', b'{"id": 3}', partition=0)
    assert scene.drain(spark).error is None

    def sink_of():
        found = audit_flow(spark, scene.order)
        assert found.problems == found.sink.problems
        return found.sink

    whole = SinkAudit("files", str(archive), batches=3, files=3, rows=5)
    assert sink_of() == whole
    [file] = archive.glob("id=3/*.csv")
    lines = file.read_text().splitlines(keepends=True)
    file.write_text("".join(lines[:-1]))
    entry = oracle.ledger_of(scene.table)[-1]["entry"]
    fewer = f"archive: the files of ledger entry {entry} have 1 rows, and the ledger says 2"
    assert sink_of() == dataclasses.replace(whole, rows=4, problems=(fewer,))
    file.write_text("".join(lines))
    copy = file.with_name("shop-0000000009-00000.csv")
    shutil.copy(file, copy)
    stray = f"archive: files in no manifest: 1, such as id=3/{copy.name}"
    assert sink_of() == dataclasses.replace(whole, problems=(stray,))
    copy.unlink()
    [first] = archive.glob("_manifests/shop-0000000001.manifest")
    kept = first.read_text()
    first.unlink()
    assert sink_of().problems == (
        "archive: files in no manifest: 2, such as id=1/shop-0000000001-00000.csv, id=2/shop-0000000001-00001.csv",
        "archive: manifests missing: 1, such as 1",
        f"archive: the 3 rows of ledger entry {entry - 1} are in no manifest",
    )
    # Decided, and not in the manifest yet: the next run writes it.
    first.write_text(kept)
    [last] = archive.glob("_manifests/shop-0000000002.manifest")
    staged = archive / "_staged/shop/plan"
    staged.parent.mkdir(parents=True)
    body = json.loads(last.read_text())
    last.unlink()
    moves = {f"part-{number}": name for number, name in enumerate(body["files"])}
    staged.write_text(json.dumps({"number": 2, "moves": moves, "entry": body["entry"]}))
    waiting = f"the rows of ledger entries from {entry} on: the next run writes them into the archive"
    assert sink_of() == dataclasses.replace(whole, batches=2, files=2, rows=3, not_compared=(waiting,))


@pytest.mark.long
def test_a_topic_has_each_row_once_whose_headers_say_which_it_is(broker, tmp_path, topic, spark):
    scene, out = Scene.make(broker, tmp_path, partitions=2), topic()
    headers = {"from": "kafka_topic", "partition": "kafka_partition", "at": "kafka_offset"}
    scene.options |= {"sink": {"type": "kafka", "topic": out, "key": "name", "headers": headers}, "expectations": ()}
    for partition in (0, 1):
        scene.send(b'{"id": 1, "name": "x"}', b'{"id": 2}', b"no JSON", b'{"id": 3}', partition=partition)
    assert scene.drain(spark).error is None

    def sink_of():
        found = audit_flow(spark, scene.order)
        assert found.problems == found.sink.problems
        return found.sink

    whole = SinkAudit("kafka", out, rows=6)
    assert sink_of() == whole
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    producer.produce(out, b"of another program", headers=[("from", b"elsewhere")])
    producer.produce(out, b"again", headers=[("from", scene.topic.encode()), ("partition", b"1"), ("at", b"3")])
    assert producer.flush(30) == 0
    twice = f"topic {out}: rows there more than once: 1"
    assert sink_of() == dataclasses.replace(whole, rows=7, problems=(twice,))
    # As if the topic had never got them: rows of the table that no record names.
    without_a_trace(scene, lambda location: add_a_row(spark, location, like=("kafka_partition = 0", 2)))
    missing = f"topic {out}: rows missing: 1"
    found = audit_flow(spark, scene.order)
    assert found.sink == dataclasses.replace(whole, rows=7, problems=(twice, missing))
    admin, first = scene.admin, TopicPartition(out, 0, 1)
    admin.delete_records([first])[first].result(30)
    why = f"topic {out}: whether rows are missing, because Kafka has deleted the first ones of its records"
    assert audit_flow(spark, scene.order).sink.not_compared == (why,)


def add_a_row(spark, location, *, like):
    """Adds a copy of the first row of a condition, at another offset."""
    condition, offset = like
    row = spark.read.format("delta").load(location).where(condition).limit(1).localCheckpoint()
    row.withColumn("kafka_offset", lit(offset).cast("bigint")).write.format("delta").mode("append").save(location)


def test_a_flow_that_never_ran(make_scene, spark):
    scene = make_scene()
    assert audit_flow(spark, scene.order) == auditing.FlowAudit("shop", str(scene.table))
    assert not scene.table.exists()


@pytest.mark.long
def test_a_compacted_topic_is_known(broker, topic):
    compacted, plain = topic(**{"cleanup.policy": "compact"}), topic()
    with Kafka(broker.bootstrap_servers) as kafka:
        assert kafka.compacted([compacted, plain]) == {compacted}
