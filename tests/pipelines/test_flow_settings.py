"""Settings of Spark that a flow has: they hold for its query and for what it writes, and for no other flow."""

from __future__ import annotations

PYTHON = """
from pyspark import pipelines as dp

CODEC = "spark.sql.parquet.compression.codec"
ZONE = "spark.sql.session.timeZone"

def rows(reader):
    read = reader.format("json").schema("text string").load("in")
    return read.selectExpr("text", "current_timezone() AS zone")

def table(name, conf):
    @dp.table(name=name, spark_conf=conf)
    def query():
        return rows(spark.readStream)

table("gz", {CODEC: "gzip", ZONE: "Etc/GMT-5"})
table("snappy", {CODEC: "snappy", ZONE: "Etc/GMT+9"})
table("plain", None)

@dp.materialized_view(spark_conf={CODEC: "gzip", ZONE: "Etc/GMT-5"})
def view():
    return rows(spark.read)

dp.create_streaming_table("once")

@dp.append_flow(target="once", once=True, spark_conf={CODEC: "snappy"})
def once():
    return rows(spark.read)

dp.create_sink("out", "delta", {"tableName": "default.sent"})

@dp.append_flow(target="out", spark_conf={CODEC: "snappy", ZONE: "Etc/GMT+9"})
def out():
    return rows(spark.readStream)
"""
EXPECTED = {
    "gz": ("gz", "Etc/GMT-5"),
    "snappy": ("snappy", "Etc/GMT+9"),
    "plain": ("zstd", "UTC"),
    "view": ("gz", "Etc/GMT-5"),
    "once": ("snappy", "UTC"),
    "sent": ("snappy", "Etc/GMT+9"),
}


def test_each_flow_has_its_own_side_by_side(folder):
    folder.write("src/a.py", PYTHON)
    for number in (1, 2):
        folder.feed(f"in/{number}.json", {"text": str(number)})
        found = folder.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
        for name, (codec, zone) in EXPECTED.items():
            files = (folder.folder / f"lake/default/{name}").glob("*.parquet")
            assert (name, {each.suffixes[-2].lstrip(".") for each in files}) == (name, {codec})
            texts = ["1"] if name == "once" else ["1", "2"][:number]
            assert (name, folder.rows(f"default.{name}", "text, zone")) == (name, [(text, zone) for text in texts])
