"""What people do with Kafka, Delta and Structured Streaming, side by side in one pipeline; and Spark's own examples."""

import json
from collections import Counter

import pytest
from confluent_kafka import Producer
from tests.pipelines.conftest import records, values

PATTERNS = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StringType, StructType

FOLDER = "{folder}"
# Credentials come from a scope of secrets.
SERVERS = dbutils.secrets.get("kafka-scope", "bootstrap-servers")
SCHEMA = StructType().add("id", LongType()).add("shop", StringType()){more}

def topic(**options):
    reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS)
    return reader.option("startingOffsets", "earliest").option("minPartitions", "2").options(**options).load()

def fields(frame):
    return F.from_json(F.col("value").cast("string"), SCHEMA)

# Quick start, and a schema that grows.
@dp.table
def events():
    records = topic(subscribe="{first}")
    parsed = records.select(
        F.col("key").cast("string"), fields(records).alias("data"), "topic", "partition", "offset",
        F.col("timestamp").alias("kafka_timestamp"))
    return parsed.select("key", "data.*", "topic", "partition", "offset", "kafka_timestamp")

# Bronze: as it was sent, in small batches.
@dp.table
def bronze():
    return topic(subscribe="{first}", maxOffsetsPerTrigger="2").select(
        F.col("key").cast("string"), F.col("value").cast("string"), "topic", "partition", "offset",
        F.col("timestamp").alias("kafka_timestamp"), F.current_timestamp().alias("ingestion_timestamp"))

# Several topics.
@dp.table
def listed():
    return topic(subscribe="{first},{second}").select("topic", F.col("value").cast("string"), "offset")

@dp.table
def matched():
    return topic(subscribePattern="{prefix}.*").select("topic", F.col("value").cast("string"), "offset")

# Dead letters by hand, and one batch into several tables: again with the same number, a batch writes nothing.
@dp.foreach_batch_sink(name="with_letters")
def with_letters(batch, batch_id):
    parsed = batch.withColumn("parsed", F.from_json(F.col("value").cast("string"), SCHEMA, {{"mode": "PERMISSIVE"}}))
    good = F.col("parsed.id").isNotNull()
    for name, rows in (
        ("valid", parsed.where(good).select("key", "parsed.*", "topic", "partition", "offset")),
        ("invalid", parsed.where(~good).select("value", "topic", "offset", F.lit("PARSE_ERROR").alias("reason"))),
    ):
        writer = rows.write.format("delta").mode("append").option("mergeSchema", "true")
        writer.option("txnVersion", batch_id).option("txnAppId", name).save(FOLDER + "/by_hand/" + name)

@dp.append_flow(target="with_letters")
def into_two_tables():
    return topic(subscribe="{first}")

# From topic to topic.
dp.create_sink("upper", "kafka", {{"kafka.bootstrap.servers": SERVERS, "topic": "{copies}"}})

@dp.append_flow(target="upper")
def to_upper():
    return topic(subscribe="{second}").select("key", F.upper(F.col("value").cast("string")).alias("value"))

# A stream and a table.
@dp.table
def with_shops():
    return spark.readStream.table("events").join(spark.read.table("silver.shops"), "shop", "left").select("id", "city")

# Spark's examples: words counted, and rows that nobody keeps.
@dp.table
def words():
    lines = topic(subscribe="{first}").selectExpr("CAST(value AS STRING)")
    return lines.select(F.explode(F.split(lines.value, '"')).alias("word")).groupBy("word").count()

dp.create_sink("nowhere", "noop")

@dp.append_flow(target="nowhere")
def ticks():
    return spark.readStream.format("rate").load()
"""
ALL = ("events", "bronze", "listed", "matched", "with_letters", "upper", "with_shops", "words", "nowhere")


@pytest.fixture
def shop(folder, topic, broker, spark, monkeypatch):
    monkeypatch.setenv("KAFKA_SCOPE_BOOTSTRAP_SERVERS", broker.bootstrap_servers)
    first, copies = topic(), topic()
    second = topic(name=f"{first}-more")
    folder.topics = {"first": first, "second": second, "copies": copies, "prefix": first}
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers, "enable.idempotence": True})

    def send(name, *sent):
        for each in sent:
            producer.produce(folder.topics[name], each if isinstance(each, str) else json.dumps(each), key="k")
        assert producer.flush(30) == 0

    def define(more=""):
        folder.write("src/a.py", PATTERNS.format(**folder.topics, folder=folder.folder, more=more))

    spark.createDataFrame([("north", "Oslo")], "shop string, city string").write.format("delta").save(
        f"{folder.folder}/lake/silver/shops"
    )
    folder.send, folder.define, folder.servers = send, define, broker.bootstrap_servers
    return folder


def by_hand(spark, folder, name):
    return spark.read.format("delta").load(f"{folder.folder}/by_hand/{name}")


@pytest.mark.long
def test_each_pattern_of_kafka_to_delta_runs_as_a_pipeline(shop, spark):
    def carry():
        found = shop.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(ALL)
        return found

    shop.define()
    shop.send("first", {"id": 1, "shop": "north"}, {"id": 2, "shop": "south"}, "no JSON")
    shop.send("second", {"id": 10})
    carry()
    # The schedule runs it again; meanwhile the schema has a field more.
    shop.define('.add("price", LongType())')
    shop.send("first", {"id": 3, "shop": "north", "price": 7})
    shop.send("second", {"id": 11})
    carry()
    assert {each.counts.read for name, each in carry().items() if name != "nowhere"} == {0}

    wanted = [(1, "north", None), (2, "south", None), (3, "north", 7), (None, None, None)]
    assert sorted(shop.rows("default.events", "id, shop, price"), key=repr) == sorted(wanted, key=repr)
    bronze = shop.rows("default.bronze", '"offset", value, kafka_timestamp <= ingestion_timestamp')
    assert [row[0] for row in bronze] == [0, 1, 2, 3]
    assert {row[2] for row in bronze} == {True}
    both = {shop.topics["first"]: 4, shop.topics["second"]: 2}
    for name in ("listed", "matched"):
        assert Counter(row[0] for row in shop.rows(f"default.{name}", "topic")) == both, name
    assert sorted(row.id for row in by_hand(spark, shop, "valid").collect()) == [1, 2, 3]
    assert [(row.offset, row.reason) for row in by_hand(spark, shop, "invalid").collect()] == [(2, "PARSE_ERROR")]
    assert sorted(values(shop.servers, shop.topics["copies"])) == [b'{"ID": 10}', b'{"ID": 11}']
    assert {key for key, _, _ in records(shop.servers, shop.topics["copies"])} == {"k"}
    joined = [(1, "Oslo"), (2, None), (3, "Oslo"), (None, None)]
    assert sorted(shop.rows("default.with_shops"), key=repr) == sorted(joined, key=repr)
    counted = dict(shop.rows("default.words"))
    assert (counted["north"], counted["south"], counted["id"], counted["no JSON"]) == (2, 1, 3, 1)
