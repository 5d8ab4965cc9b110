"""A fitness tracker's events from Kafka, in Python and SQL, through two pipelines; one reads the other."""

import json
import shutil

import pytest
from confluent_kafka import Producer

from rivermouth.errors import RivermouthError

TRACKER = """
import dlt
from pyspark.sql.functions import *
from pyspark.sql.types import *

TOPIC = "{topic}"
KAFKA_BROKER = spark.conf.get("KAFKA_SERVER")

raw_kafka_events = (spark.readStream
    .format("kafka")
    .option("subscribe", TOPIC)
    .option("kafka.bootstrap.servers", KAFKA_BROKER)
    .option("startingOffsets", "earliest")
    .load()
)

@dlt.table(table_properties={{"pipelines.reset.allowed": "false"}})
def kafka_bronze():
    return raw_kafka_events

event_schema = StructType([
    StructField("time", TimestampType(), True),
    StructField("version", StringType(), True),
    StructField("model", StringType(), True),
    StructField("heart_bpm", IntegerType(), True),
    StructField("kcal", IntegerType(), True),
])

# A temporary table: other datasets of the pipeline read it.
@dlt.table(comment="real schema for Kafka payload", temporary=True)
@dlt.expect_or_dead_letter("is_event", "time IS NOT NULL")
def kafka_silver():
    return (
        dlt.read_stream("kafka_bronze")
        .select(col("timestamp"), from_json(col("value").cast("string"), event_schema).alias("event"))
        .select("timestamp", "event.*")
    )
"""
BESIDE = """
CREATE OR REPLACE STREAMING LIVE TABLE raw
AS SELECT * FROM cloud_files("dbfs:/data/devices", "json", map("cloudFiles.inferColumnTypes", "true"));

CREATE LIVE TABLE models
AS SELECT s.model, d.maker, count(*) AS events, max(heart_bpm) AS bpm
FROM LIVE.kafka_silver s LEFT JOIN LIVE.raw d ON s.model = d.model GROUP BY s.model, d.maker;
"""
SECOND = """
CREATE OR REFRESH STREAMING TABLE alarms AS
SELECT model, heart_bpm FROM STREAM(tracker.kafka_silver) WHERE heart_bpm > 150;
"""


@pytest.fixture
def tracker(folder, topic, broker):
    name = topic(partitions=2)
    servers = broker.bootstrap_servers
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})

    def send(*values):
        for value in values:
            producer.produce(name, json.dumps(value) if isinstance(value, dict) else value, key=str(len(str(value))))
        producer.flush(30)

    folder.send = send
    folder.write(
        "pipeline.yml",
        f"name: tracker\nschema: tracker\nlibraries:\n  - file: {{path: tracker.py}}\n  - file: {{path: beside.sql}}\n"
        f"configuration:\n  KAFKA_SERVER: {servers}\n  rivermouth.paths./data: ./data\n",
    )
    folder.write("tracker.py", TRACKER.format(topic=name))
    folder.write("beside.sql", BESIDE)
    folder.feed("data/devices/1.json", {"model": "m1", "maker": "Acme"})
    return folder


def _event(minute, model, bpm):
    return {"time": f"2026-01-31T10:{minute:02}:00Z", "version": "1", "model": model, "heart_bpm": bpm, "kcal": 3}


def test_events_reach_all_tables_and_come_once_after_a_lost_checkpoint(tracker):
    tracker.send(_event(1, "m1", 90), _event(2, "m2", 160), "no event")
    found = tracker.run()
    assert {each.error and str(each.error) for each in found.values()} == {None}
    assert found["kafka_silver"].counts.dead_lettered == 1
    assert tracker.rows("tracker.models") == [("m1", "Acme", 1, 90), ("m2", None, 1, 160)]
    tracker.send(_event(3, "m2", 170))
    shutil.rmtree(tracker.folder / "lake/_rivermouth/pipelines/tracker/checkpoints/tracker.kafka_bronze")
    assert tracker.run(refresh=("kafka_bronze",))["kafka_bronze"].counts.read == 1
    bronze = tracker.rows("tracker.kafka_bronze", "CAST(value AS VARCHAR) v")
    assert len(bronze) == 4
    assert [value for (value,) in bronze].count("no event") == 1


@pytest.mark.long
def test_events_reach_all_tables_once_also_after_a_lost_checkpoint(tracker):
    tracker.send(_event(1, "m1", 90), _event(2, "m2", 160), "no event")
    found = tracker.run()
    assert {each.error and str(each.error) for each in found.values()} == {None}
    assert found["kafka_bronze"].counts.written == 3
    assert found["kafka_silver"].counts.dead_lettered == 1
    assert tracker.rows("tracker.models") == [("m1", "Acme", 1, 90), ("m2", None, 1, 160)]
    bronze = tracker.rows("tracker.kafka_bronze", "CAST(value AS VARCHAR) v")
    assert [value for (value,) in bronze].count("no event") == 1

    tracker.send(_event(3, "m2", 170))
    shutil.rmtree(tracker.folder / "lake/_rivermouth/pipelines/tracker/checkpoints")
    assert tracker.run()["kafka_bronze"].counts.read == 1
    assert len(tracker.rows("tracker.kafka_bronze")) == 4
    assert tracker.rows("tracker.models") == [("m1", "Acme", 1, 90), ("m2", None, 2, 170)]

    # A second pipeline over the same lake goes on with the tables of the first.
    tracker.write("pipeline.yml", "name: alarms\nschema: alarms\nlibraries:\n  - file: {path: second.sql}\n")
    tracker.write("second.sql", SECOND)
    assert tracker.run()["alarms"].counts.written == 2
    assert tracker.rows("alarms.alarms") == [("m2", 160), ("m2", 170)]


def test_a_full_refresh_that_kafka_cannot_fill_is_refused(tracker, broker):
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient, OffsetSpec

    tracker.write("tracker.py", (tracker.folder / "tracker.py").read_text().replace('"false"', '"true"'))
    tracker.send(*(_event(minute, "m1", 90) for minute in range(6)))
    tracker.run(refresh=("kafka_bronze",))
    source = (tracker.folder / "tracker.py").read_text()
    topic = source.partition('TOPIC = "')[2].partition('"')[0]
    admin = AdminClient({"bootstrap.servers": broker.bootstrap_servers})
    ends = {number: admin.list_offsets({TopicPartition(topic, number): OffsetSpec.latest()}) for number in range(2)}
    full = next(number for number, found in ends.items() if next(iter(found.values())).result(30).offset > 1)
    for future in admin.delete_records([TopicPartition(topic, full, 1)]).values():
        future.result(30)
    with pytest.raises(RivermouthError) as refused:
        tracker.run(full_refresh=("kafka_bronze",))
    text = str(refused.value)
    assert text.startswith(
        "[REFRESH_WOULD_LOSE] dataset kafka_bronze: a full refresh would lose data: "
        f"{topic}-{full} begins at offset 1 now, and the table has rows from offset 0 on; it was not cleared"
    )
    assert len(tracker.rows("tracker.kafka_bronze")) == 6
