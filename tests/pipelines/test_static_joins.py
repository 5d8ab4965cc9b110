"""A stream joined with a table: each batch sees its newest version, and one that is gone stops nothing for good."""

import re
import shutil
import threading
import time

from rivermouth.pipelines import commands
from rivermouth.pipelines.status import status
from rivermouth.project.commands.managed_session import RunHooks

SOURCE = """
from pyspark import pipelines as dp

@dp.table(spark_conf={"pipelines.trigger.interval": "500 ms"})
def orders():
    stream = spark.readStream.schema("id bigint, customer bigint").json("in")
    return stream.join(spark.read.table("silver.customers"), "customer", "left").select("id", "name")
"""


def test_each_batch_sees_the_newest_version_and_waits_for_a_table_that_is_gone(folder, spark):
    customers, aside = folder.folder / "lake/silver/customers", folder.folder / "aside"

    def write(*rows):
        frame = spark.createDataFrame(rows, "customer bigint, name string")
        frame.write.format("delta").mode("overwrite").save(str(customers))

    events, hooks, outcomes = [], RunHooks(), []
    folder.write("src/a.py", SOURCE)
    write((1, "Ada"))
    folder.feed("in/1.json", {"id": 1, "customer": 1}, {"id": 2, "customer": 2})
    options = commands.UpdateOptions(follow=True, listener=events.append)
    work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))

    def until(*rows):
        deadline = time.monotonic() + 180
        while not (folder.folder / "lake/default/orders").exists() or folder.rows("default.orders") != list(rows):
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
    assert said[0] == (
        f"[STATIC_TABLE_MISSING] flow orders reads table silver.customers in each batch, and it is not at {customers} "
        "any more; the batch was not written\n"
        "  at: src/a.py:4\n"
        "  hint: rivermouth run, once the table is there again: the batch is read again"
    )
    assert [(each.dataset, each.result) for each in outcomes] == [("orders", "completed")]
    (said,) = status(folder.pipeline()).datasets
    assert re.fullmatch(r"its last batch is ledger entry \d, with table customers at version 1", said.message)
    assert [*said.flows[0].joined.values()] == [1]
    (planned,) = folder.plan()["orders"].flows
    assert planned.reason.endswith("; with table silver.customers at version 1 or newer")
