"""A raw table in the place of Kafka: what it says of its topics, and what it shows Spark."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from tests.crashes.scene import Scene

from rivermouth import LossDecision
from rivermouth.domain.ledger.sampling import Window
from rivermouth.domain.project.source_table import SourceTable
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import LedgerVoid, SourceBehind, SourceNotMade, SourceUnfit
from rivermouth.ports.kafka.kafka_source import KafkaSource
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.sources.table_source import TableSource


@pytest.fixture(scope="module")
def scene(broker, spark, tmp_path_factory):
    """Three batches, each a file of its own."""
    scene = Scene.make(broker, tmp_path_factory.mktemp("source"), partitions=2, source={"table": "bronze.orders"})
    for index in range(3):
        scene.send(*[str(number).encode() for number in range(10)], None)
        scene.send(*[b"x"] * 11, partition=1)
        run_bronze(scene, spark)
        assert len(list(bronze(scene).glob("*.parquet"))) == index + 1
    return scene


def bronze(scene):
    return scene.folder / "lake/bronze/orders"


def run_bronze(scene, spark):
    (outcome,) = Supervisor(spark, lambda _: None, lambda _: None).run([scene.bronze], keep_following=False)
    assert outcome.error is None, str(outcome.error)


def source_of(scene, spark=None):
    order = scene.bronze
    return TableSource(SourceTable(order.flow, order.places), LocalFiles(), reader="shop", spark=spark)


def test_it_tells_what_kafka_would(scene):
    source, topic = source_of(scene), scene.topic
    topics = source.topics(scene.flow)
    assert {name: (each.id, each.partitions) for name, each in topics.items()} == {topic: (scene.topic_id, (0, 1))}
    assert source.describe([topic, "other"]) == topics
    assert source.beginning_offsets(topics) == {topic: {0: 0, 1: 0}}
    assert source.end_offsets(topics) == {topic: {0: 33, 1: 33}}
    assert source.compacted([topic]) == set()
    starts = {"earliest": (0, 0), "latest": (33, 33)}
    for word, (first, second) in starts.items():
        flow = replace(scene, options={**scene.options, "starting_offsets": word}).flow
        assert source.resolve_starting(flow, topics) == {topic: {0: first, 1: second}}
    given = {**scene.options, "starting_offsets": {topic: {0: 4}}, "ending_offsets": {topic: {0: 9, 1: -1}}}
    flow = replace(scene, options=given).flow
    assert source.resolve_starting(flow, topics) == {topic: {0: 4, 1: 0}}
    assert source.resolve_ending(flow, topics) == {topic: {0: 9, 1: 33}}


def test_spark_sees_the_same_rows_and_reads_only_their_files(scene, spark):
    ranges = {scene.topic: {0: (13, 22), 1: (12, 13)}}
    source = source_of(scene, spark)
    found = source.batch(spark, ranges)
    columns = [name for name in found.columns if name != "headers"]
    kafka = KafkaSource(scene.bootstrap_servers).batch(spark, ranges)
    assert {name: found.schema[name].dataType for name in columns} == {
        name: kafka.schema[name].dataType for name in columns
    }
    # Timestamp types are no default of raw flows.
    told = [name for name in columns if name != "timestampType"]
    assert sorted(map(str, found.select(*told).collect())) == sorted(map(str, kafka.select(*told).collect()))
    assert found.count() == 10
    # The plan behind the one that is handed on.
    assert len(source._read(spark, ranges, None).inputFiles()) == 1


def test_it_weighs_the_rows_that_a_reader_picks(scene, spark):
    ranges = {scene.topic: {0: (0, 33), 1: (2, 12)}}
    order = scene.bronze
    picked = SourceTable(order.flow, order.places, where="kafka_offset < 11")
    # Ten records of a digit, one without a value, nine of a letter; each key is a letter.
    assert TableSource(picked, LocalFiles(), reader="shop", spark=spark).weight(ranges) == (20, 39)
    nothing = SourceTable(order.flow, order.places, where="kafka_offset < 0")
    assert TableSource(nothing, LocalFiles(), reader="shop", spark=spark).weight(ranges) == (0, 0)
    # All rows are the reader's: offsets tell as much.
    assert source_of(scene, spark).weight(ranges) is None
    assert TableSource(picked, LocalFiles(), reader="shop").weight(ranges) is None


@pytest.mark.long
def test_it_shows_what_was_there_at_the_last_look(scene, spark):
    source, all_of_it = source_of(scene, spark), {scene.topic: {0: (0, 33), 1: (0, 33)}}
    before = source.topics(scene.flow)
    frame = source.batch(spark, all_of_it)
    spark.sql(f"OPTIMIZE delta.`{bronze(scene)}`")
    assert source.end_offsets(source.topics(scene.flow)) == source.end_offsets(before)
    spark.sql(f"DELETE FROM delta.`{bronze(scene)}` WHERE kafka_offset = 5")
    # What others do is for the next look, which finds that nobody has decided about it.
    assert source.batch(spark, all_of_it).count() == frame.count() == 66
    with pytest.raises(LedgerVoid) as caught:
        source.topics(scene.flow)
    assert "(DELETE) changed its data after ledger entry 3" in str(caught.value)
    kept = LossDecision(rewinds={scene.topic: {0: 33}}, why="erased", mark="m")
    decided = scene.bronze.starting(decision=kept)
    (outcome,) = Supervisor(spark, lambda _: None, lambda _: None).run([decided], keep_following=False)
    assert outcome.error is None, str(outcome.error)
    assert source.topics(scene.flow) == before
    assert source.batch(spark, all_of_it).count() == 64
    # Where rows are gone, the next ones count, up to the window's end.
    windows = [Window(scene.topic, 0, 4, 33, 3), Window(scene.topic, 1, 0, 5, 3)]
    found = [(each.partition, each.offset) for each in source.records(windows)]
    assert found == [(0, 4), (0, 6), (1, 0), (1, 1), (1, 2), (0, 7)]


def test_what_the_table_does_not_hold_any_more_is_not_taken_for_nothing(scene, spark):
    """It was created again, and is not where it was before: a flow that was ahead of it has to wait."""
    with pytest.raises(SourceBehind) as caught:
        source_of(scene, spark).batch(spark, {scene.topic: {0: (30, 33), 1: (30, 40)}})
    assert str(caught.value) == (
        f"[SOURCE_BEHIND] flow shop: its source, table bronze.orders, ends at {scene.topic}-1:33 and does not hold "
        "what comes before 40; nothing of that was read\n"
        f"  hint: rivermouth run {scene.bronze.flow.name} shop"
    )


def test_a_table_that_cannot_stand_in(scene, spark, tmp_path):
    copy = scene.copy(tmp_path / "copy")
    log = max(bronze(copy).glob("_delta_log/*.json"))
    for crc in log.parent.glob(".*.crc"):
        crc.unlink()
    Path(copy.bronze.places.ledger_file).unlink()  # it is believed before the log
    text = log.read_text()
    for pretended, detail in (
        ('\\"epochs\\":{\\"0\\":[2]}', "it has records of topic {topic} from before it was created again or cut"),
        ('\\"begins\\":{}', "its log no longer tells where {topic}-0 begins"),
    ):
        name = pretended.partition(":")[0]
        start = text.index(name)
        log.write_text(text[:start] + pretended + text[text.index("}", start) + 1 :])
        if "begins" in pretended:
            # Entry 0 still tells it.
            assert source_of(copy).beginning_offsets(source_of(copy).topics(copy.flow)) == {copy.topic: {0: 0, 1: 0}}
            (log.parent / f"{0:020d}.json").unlink()
        with pytest.raises(SourceUnfit) as caught:
            source_of(copy).topics(copy.flow)
        assert str(caught.value) == (
            "[SOURCE_UNFIT] flow shop: its source, table bronze.orders, cannot be read in the place of Kafka: "
            f"{detail.format(topic=copy.topic)}; nothing was read\n"
            f"  hint: let the flow read what it reads itself: topics: [{copy.topic}] instead of source:"
        )
    assert json.loads(text.splitlines()[0])
    with pytest.raises(SourceNotMade):
        source_of(replace(copy, folder=tmp_path / "nowhere")).topics(copy.flow)
