"""A stream joined with a table: each batch sees its newest version, and one that is gone stops nothing for good."""

import os
import re
import shutil
import threading
import time

import pyarrow as pa
import pytest
from deltalake import write_deltalake

from rivermouth.pipelines import commands
from rivermouth.pipelines.status import status
from rivermouth.project.commands.managed_session import RunHooks

SOURCE = """
from pyspark import pipelines as dp

@dp.table(spark_conf={"pipelines.trigger.interval": "500 ms"})
def orders():
    stream = spark.readStream.schema("id bigint, customer bigint").json("in")
    return stream.join(spark.read.table("silver.customers"), "customer", "left").select("id", "name")

@dp.temporary_view
def prices():
    return spark.read.parquet("prices")

@dp.table(spark_conf={"pipelines.trigger.interval": "500 ms"})
def priced():
    stream = spark.readStream.schema("id bigint, day string").json("sales")
    rates = spark.read.schema("id bigint, rate int").csv("rates")
    joined = stream.join(spark.read.table("prices"), ["id", "day"], "left").join(rates, "id", "left")
    return joined.select("id", "price", "rate")
"""


MISSING = (
    "[STATIC_TABLE_MISSING] flow orders reads table silver.customers in each batch, and it is not at {} "
    "any more; the batch was not written\n"
    "  at: src/a.py:4\n"
    "  hint: rivermouth run, once the table is there again: the batch is read again"
)
BOTH = """
from pyspark import pipelines as dp

@dp.table
def orders():
    stream = spark.readStream.schema("id bigint, customer bigint").option("maxFilesPerTrigger", 1).json("in")
    rates = spark.read.schema("id bigint, rate int").csv("rates")
    named = stream.join(spark.read.table("silver.customers"), "customer", "left").join(rates, "id", "left")
    return named.select("id", "name", "rate")
"""


def test_each_batch_sees_the_table_and_the_files_of_now_and_a_table_that_is_gone_fails_it(folder):
    customers, aside = folder.folder / "lake/silver/customers", folder.folder / "aside"

    def write(name, rate):
        rows = pa.table({"customer": pa.array([1], pa.int64()), "name": [name]})
        write_deltalake(customers, rows, mode="overwrite")
        folder.write("rates/1.csv", f"1,{rate}\n2,{rate}\n")

    def step(reached):
        if reached == "written" and not done:
            done.append(write("Bo", 8))
        elif reached == "written":
            shutil.move(customers, aside)

    folder.write("src/a.py", BOTH)
    write("Ada", 7)
    for number in (1, 2, 3):
        folder.feed(f"in/{number}.json", {"id": number, "customer": 1})
        os.utime(folder.folder / f"in/{number}.json", (number, number))
    done = []
    assert str(folder.run(step=step)["orders"].error) == MISSING.format(customers)
    assert folder.rows("default.orders") == [(1, "Ada", 7), (2, "Bo", 8)]
    shutil.move(aside, customers)
    assert folder.run()["orders"].counts.read == 1
    assert folder.rows("default.orders") == [(1, "Ada", 7), (2, "Bo", 8), (3, "Bo", None)]
    (said,) = status(folder.pipeline()).datasets
    assert re.fullmatch(r"its last batch is ledger entry \d, with table customers at version 1", said.message)
    assert [*said.flows[0].joined.values()] == [1]
    (planned,) = folder.plan()["orders"].flows
    assert planned.reason.endswith("; with table silver.customers at version 1 or newer")


@pytest.mark.long
def test_each_batch_sees_the_newest_version_and_waits_for_a_table_that_is_gone(folder, spark):
    customers, aside = folder.folder / "lake/silver/customers", folder.folder / "aside"

    def write(*rows):
        frame = spark.createDataFrame(rows, "customer bigint, name string")
        frame.write.format("delta").mode("overwrite").save(str(customers))

    events, hooks, outcomes = [], RunHooks(), []
    folder.write("src/a.py", SOURCE.partition("@dp.temporary_view")[0])
    write((1, "Ada"))
    folder.feed("in/1.json", {"id": 1, "customer": 1}, {"id": 2, "customer": 2})
    options = commands.UpdateOptions(follow=True, listener=events.append)
    work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))

    def until(*rows):
        deadline = time.monotonic() + 180
        while not folder.has("default.orders") or folder.rows("default.orders") != list(rows):
            assert work.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.2)

    work.start()
    until((1, "Ada"), (2, None))
    write((1, "Ada"), (2, "Bo"))
    folder.feed("in/2.json", {"id": 3, "customer": 2})
    until((1, "Ada"), (2, None), (3, "Bo"))
    shutil.move(customers, aside)
    folder.feed("in/3.json", {"id": 4, "customer": 1})
    deadline = time.monotonic() + 60
    while not (said := [each.error for each in events if hasattr(each, "wait_s")]):
        assert work.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.1)
    shutil.move(aside, customers)
    until((1, "Ada"), (2, None), (3, "Bo"), (4, "Ada"))
    hooks.stop.ask()
    work.join(60)
    assert said[0] == MISSING.format(customers)
    assert [(each.dataset, each.result) for each in outcomes] == [("orders", "completed")]
    (said,) = status(folder.pipeline()).datasets
    assert re.fullmatch(r"its last batch is ledger entry \d, with table customers at version 1", said.message)
    assert [*said.flows[0].joined.values()] == [1]
    (planned,) = folder.plan()["orders"].flows
    assert planned.reason.endswith("; with table silver.customers at version 1 or newer")


@pytest.mark.long
def test_each_batch_and_each_update_reads_the_files_that_are_there(folder, spark):
    source, _, rest = SOURCE.partition("@dp.table")
    folder.write("src/a.py", source + "@dp.temporary_view" + rest.partition("@dp.temporary_view")[2])

    def prices(*rows, mode="overwrite"):
        frame = spark.createDataFrame(rows, "id bigint, price int, day string")
        frame.write.partitionBy("day").mode(mode).parquet(str(folder.folder / "prices"))

    hooks, outcomes, events, found = RunHooks(), [], [], []
    options = commands.UpdateOptions(follow=True, listener=events.append)
    work = threading.Thread(
        target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)), daemon=True
    )

    def until(holds):
        deadline = time.monotonic() + 120
        while not holds():
            assert work.is_alive()
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def sold(number, *wanted):
        folder.feed(f"sales/{number}.json", {"id": 1, "day": "mon"}, {"id": 2, "day": "tue"})
        found.extend(wanted)
        until(lambda: len(seen()) >= len(found))
        assert seen() == sorted(found, key=repr), number

    def waits():
        return [each.error for each in events if hasattr(each, "wait_s")]

    def seen():
        return folder.rows("default.priced") if folder.has("default.priced") else []

    prices((1, 10, "mon"))
    folder.write("rates/1.csv", "1,7\n")
    folder.feed("sales/0.json")
    work.start()
    sold(1, (1, 10, 7), (2, None, None))
    # a partition that is new, and a file
    prices((2, 20, "tue"), mode="append")
    folder.write("rates/2.csv", "2,8\n")
    sold(2, (1, 10, 7), (2, 20, 8))
    # other files, and those of before are gone
    prices((1, 11, "mon"), (2, 21, "tue"))
    folder.write("rates/2.csv", "2,9\n")
    sold(3, (1, 11, 7), (2, 21, 9))
    # a folder is gone, and comes back
    assert not waits()
    for name in ("prices", "rates"):
        shutil.move(folder.folder / name, folder.folder / "aside")
        folder.feed(f"sales/{name}.json", {"id": 1, "day": "mon"})
        until(waits)
        assert str(waits()[0]) == (
            f"[STATIC_TABLE_MISSING] flow priced reads table {name} in each batch, and it is not at "
            f"{folder.folder / name} any more; the batch was not written\n"
            "  at: src/a.py:8\n"
            "  hint: rivermouth run, once the table is there again: the batch is read again"
        )
        assert seen() == sorted(found, key=repr)
        shutil.move(folder.folder / "aside", folder.folder / name)
        found.append((1, 11, 7))
        until(lambda: seen() == sorted(found, key=repr))
        events.clear()
    hooks.stop.ask()
    work.join(60)
    assert [(each.dataset, each.result) for each in outcomes] == [("priced", "completed")]
    prices((1, 12, "mon"))
    folder.feed("sales/4.json", {"id": 1, "day": "mon"})
    assert folder.run()["priced"].counts.written == 1
    assert seen() == sorted([*found, (1, 12, 7)], key=repr)
