"""Logs of cameras from Kafka: archive, sightings with their places, counts an hour back into Kafka, report, alarms.

One read of Kafka feeds all of it. What comes out is held against plain Python.
"""

import datetime as dt
import json
from collections import Counter

import pyarrow.dataset as ds
import pytest
from confluent_kafka import Producer
from tests.pipelines.conftest import records

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql.functions import col, explode, from_json, json_tuple, struct, to_json, window
from pyspark.sql.types import *

SERVERS = spark.conf.get("servers")
LOGS, STATS = spark.conf.get("logs"), spark.conf.get("stats")

event = StructType().add("has_person", BooleanType()).add("start_time", TimestampType())
camera_type = (
    StructType()
    .add("device_id", StringType())
    .add("name", StringType())
    .add("is_online", BooleanType())
    .add("last_event", event)
)
schema = (
    StructType()
    .add("metadata", StructType().add("access_token", StringType()).add("client_version", IntegerType()))
    .add("devices", StructType().add("cameras", MapType(StringType(), camera_type)))
)

# All others read this table, so Kafka is read once.
@dp.table
@dp.expect_or_dead_letter("is_camera", "device_id IS NOT NULL")
def camera():
    options = {"timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSS'Z'"}
    parsed = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", LOGS)
        .option("startingOffsets", "earliest")
        .load()
        .select(from_json(col("value").cast("string"), schema, options).alias("parsed_value"))
    )
    return parsed.select(explode("parsed_value.devices.cameras")).select("value.*")

@dp.table
def sightings():
    seen = spark.readStream.table("camera").select("device_id", "last_event.has_person", "last_event.start_time")
    locations = spark.table("device_locations").select("device_id", "zip_code")
    return seen.where(col("has_person") == True).join(locations, "device_id")

dp.create_sink("stats", "kafka", {"kafka.bootstrap.servers": SERVERS, "topic": STATS})

@dp.append_flow(target="stats")
def hourly():
    return (
        spark.readStream.table("sightings")
        .groupBy("zip_code", window("start_time", "1 hour"))
        .count()
        .select(to_json(struct("zip_code", "window")).alias("key"), col("count").cast("string").alias("value"))
    )

dp.create_sink("archive", "parquet", {"path": "archive"})

@dp.append_flow(target="archive")
def archived():
    return spark.readStream.table("camera")

@dp.materialized_view
def report():
    return (
        spark.read.format("kafka")
        .option("kafka.bootstrap.servers", SERVERS)
        .option("subscribe", STATS)
        .load()
        .select(
            json_tuple(col("key").cast("string"), "zip_code", "window").alias("zip_code", "window"),
            col("value").cast("string").cast("integer").alias("count"),
        )
        .where("count > 2")
        .select("zip_code", "window")
    )

@dp.foreach_batch_sink(name="offline")
def notify(frame, batch_id):
    with open(spark.conf.get("alarms"), "a") as file:
        file.write("".join(f"{row.device_id} is offline\\\\n" for row in frame.collect()))

@dp.append_flow(target="offline")
def offline_cameras():
    return spark.readStream.table("camera").where("NOT is_online").select("device_id")
""".replace("\\\\n", "\\n")
SQL = """
CREATE MATERIALIZED VIEW device_locations AS
SELECT * FROM VALUES ('d1', '94107'), ('d2', '94107'), ('d3', '10001') AS t(device_id, zip_code);
"""
START = dt.datetime(2026, 1, 31, 9, 30, tzinfo=dt.UTC)


def log(*cameras):
    """A record with the state of some cameras: device, minutes since the start, person seen, online."""
    return {
        "metadata": {"access_token": "x", "client_version": 1},
        "devices": {
            "cameras": {
                device: {
                    "device_id": device,
                    "name": f"camera {device}",
                    "is_online": online,
                    "last_event": {
                        "has_person": person,
                        "start_time": (START + dt.timedelta(minutes=minute)).strftime("%Y-%m-%dT%H:%M:%S.000Z"),
                    },
                }
                for device, minute, person, online in cameras
            }
        },
    }


FIRST = [
    log(("d1", 0, True, True), ("d2", 10, True, True)),
    log(("d1", 20, True, True), ("d3", 25, False, True)),
    log(("d4", 1, True, False)),
]
SECOND = [log(("d2", 29, True, False)), log(("d1", 31, True, True), ("d3", 40, True, True))]
PLACES = {"d1": "94107", "d2": "94107", "d3": "10001"}


def cameras_of(logs):
    return [each for one in logs for each in one["devices"]["cameras"].values()]


def hourly_counts(logs):
    """By zip code and hour how often a person was seen, computed apart."""
    seen = [each for each in cameras_of(logs) if each["last_event"]["has_person"] and each["device_id"] in PLACES]
    return Counter((PLACES[each["device_id"]], each["last_event"]["start_time"][:13]) for each in seen)


def newest_of(servers, topic):
    """By key the newest value of a topic: what its compaction leaves."""
    found = {}
    for text, value, _ in records(servers, topic):
        key = json.loads(text)
        found[key["zip_code"], key["window"]["start"][:13]] = int(value)
    return found


@pytest.mark.long
def test_one_read_becomes_archive_counts_report_and_alarms(folder, topic, broker):
    logs, stats = topic(), topic(**{"cleanup.policy": "compact"})
    servers = broker.bootstrap_servers
    folder.write(
        "pipeline.yml",
        "name: cameras\nlibraries:\n  - glob: {include: src/**}\nconfiguration:\n"
        f"  servers: {servers}\n  logs: {logs}\n  stats: {stats}\n  alarms: {folder.folder}/alarms.txt\n",
    )
    folder.write("src/a.py", PYTHON)
    folder.write("src/b.sql", SQL)
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    sent = []
    for part in (FIRST, SECOND):
        for each in part:
            producer.produce(logs, json.dumps(each))
        producer.flush(30)
        sent += part
        found = folder.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
        assert newest_of(servers, stats) == hourly_counts(sent)
    assert found["camera"].counts.read == len(cameras_of(SECOND))

    wanted = sorted(each["device_id"] for each in cameras_of(sent))
    assert [row[0] for row in folder.rows("default.camera", "device_id")] == wanted
    archive = ds.dataset(folder.folder / "archive", format="parquet", exclude_invalid_files=True).to_table()
    assert sorted(archive["device_id"].to_pylist()) == wanted
    busy = {zip_code for (zip_code, _), count in hourly_counts(sent).items() if count > 2}
    assert {row[0] for row in folder.rows("default.report", "zip_code")} == busy
    alarms = (folder.folder / "alarms.txt").read_text().split("\n")
    assert sorted(filter(None, alarms)) == ["d2 is offline", "d4 is offline"]
