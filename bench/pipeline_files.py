"""The files of the pipelines that are measured."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from bench import records

_EVERY: Final = "20 ms"
_READ: Final = """
from pyspark import pipelines as dp
from rivermouth.pipelines import decode
from pyspark.sql.functions import col, count, from_json, max as newest, sum as total

SERVERS = "{servers}"
SCHEMA = "{schema}"


def kafka_of(topic):
    stream = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS).option("subscribe", topic)
    return stream.option("startingOffsets", "earliest").load()


def records_of(topic):
    return kafka_of(topic).select(
        "value",
        col("topic").alias("kafka_topic"),
        col("partition").alias("kafka_partition"),
        col("offset").alias("kafka_offset"),
        col("timestamp").alias("kafka_timestamp"),
        col("key").alias("kafka_key"),
    )


def orders_of(stream):
    parsed = from_json(col("value").cast("string"), SCHEMA).alias("data")
    return stream.select(parsed, "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key") \\
        .select("data.*", "kafka_topic", "kafka_partition", "kafka_offset", "kafka_timestamp", "kafka_key")
"""
_TWO: Final = """
@dp.table
def raw():
    return records_of("{topic}")


@dp.table
@dp.expect_all_or_drop({expectations})
def orders():
    return orders_of(spark.readStream.table("raw"))
"""
_DECODED: Final = """
@dp.table
def raw():
    return kafka_of("{topic}")


@dp.table
@dp.expect_all_or_dead_letter({expectations})
def orders():
    return decode(spark.readStream.table("raw"), format={{"type": "json", "schema": SCHEMA}})
"""
_ONE: Final = """
@dp.table
@dp.expect_all_or_drop({expectations})
def orders():
    return orders_of(records_of("{topic}"))
"""
_THIRTY: Final = """
def chain(number):
    @dp.table(name=f"raw_{{number}}")
    def raw():
        return records_of("{topic}")

    @dp.temporary_view(name=f"parsed_{{number}}")
    def parsed():
        return orders_of(spark.readStream.table(f"raw_{{number}}"))

    @dp.table(name=f"orders_{{number}}")
    @dp.expect_all_or_drop({expectations})
    def orders():
        return spark.readStream.table(f"parsed_{{number}}")

    dp.create_streaming_table(f"newest_{{number}}")
    dp.create_auto_cdc_flow(
        target=f"newest_{{number}}", source=f"parsed_{{number}}", keys=["order_id"], sequence_by="updated_at"
    )

    @dp.materialized_view(name=f"by_country_{{number}}")
    def by_country():
        rows = spark.read.table(f"orders_{{number}}")
        return rows.groupBy("country").agg(count("*").alias("orders"), total("amount").alias("amount"))

    @dp.materialized_view(name=f"by_sku_{{number}}")
    def by_sku():
        rows = spark.read.table(f"orders_{{number}}")
        return rows.groupBy("sku").agg(count("*").alias("orders"), newest("updated_at").alias("newest"))


for each in range(5):
    chain(each)
"""
FILES: Final = {"one": _ONE, "two": _TWO, "decoded": _DECODED, "thirty": _THIRTY}
"""Files of pipelines, by the number of their datasets. ``decoded`` has two, and decodes as flows do. ``thirty`` has
five chains of six: streaming tables, views, and AUTO CDC."""


def write(folder: Path, kind: str, servers: str, topic: str) -> None:
    """Puts the files of a pipeline into a folder."""
    folder.mkdir(parents=True)
    settings = "name: bench\nschema: main\nlibraries:\n  - file: {path: orders.py}\nconfiguration:\n"
    (folder / "pipeline.yml").write_text(f"{settings}  pipelines.trigger.interval: {_EVERY}\n")
    text = FILES[kind].format(topic=topic, expectations=dict(records.EXPECTATIONS))
    (folder / "orders.py").write_text(_READ.format(servers=servers, schema=records.SCHEMA) + text)
