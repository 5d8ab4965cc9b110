"""Several flows into one table, flows that run once, sinks, event hooks, and pipelines that go on."""

import json
import threading
import time
from itertools import pairwise

import pytest
from tests.pipelines.conftest import kept_functions

from rivermouth.engine.query.query_events import ViewDecided
from rivermouth.pipelines import commands
from rivermouth.pipelines.running import event_log
from rivermouth.project.commands.managed_session import RunHooks

SOURCE = """
from pyspark import pipelines as dp

EVENTS, BATCHES = [], []

dp.create_streaming_table("orders", partition_cols=["region"], table_properties={"quality": "silver"})

for region in ("north", "south"):
    @dp.append_flow(target="orders", name=f"orders_{region}")
    def regional(region=region):
        return spark.readStream.schema("id bigint").json(f"in/{region}").selectExpr("id", f"'{region}' AS region")

@dp.append_flow(target="orders", once=True)
def backfill():
    return spark.createDataFrame([(100, "past")], "id bigint, region string")

@dp.foreach_batch_sink(name="collected")
def collect(frame, batch_id):
    with open("collected.txt", "a") as file:
        file.write("".join(f"{batch_id} {row.id}\\\\n" for row in frame.collect()))

@dp.append_flow(target="collected")
def to_collected():
    return spark.readStream.table("orders").where("region = 'north'")

dp.create_sink("copied", "delta", {"path": "lake/copies"})

@dp.append_flow(target="copied", name="to_copied")
def copied():
    return spark.readStream.table("orders").select("id").where("id <> 2")

@dp.on_event_hook
def kept(event):
    with open("events.txt", "a") as file:
        file.write(event["event_type"] + "\\\\n")

@dp.on_event_hook(max_allowable_consecutive_failures=2)
def failing(event):
    raise ValueError("this hook fails")
""".replace("\\\\n", "\\n")


def test_flows_of_all_kinds_do_their_work(folder, monkeypatch):
    monkeypatch.chdir(folder.folder)
    folder.write("src/a.py", SOURCE)
    folder.feed("in/north/1.json", {"id": 1}, {"id": 2})
    folder.feed("in/south/1.json", {"id": 3})
    before = kept_functions()
    found = folder.run()
    assert not [each for each in kept_functions() if each not in before]
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert sorted((folder.folder / "collected.txt").read_text().split("\n")) == ["", "0 1", "0 2"]
    # A sink's count is that of the rows that it gets.
    assert folder.rows("copies") == [(1,), (100,), (3,)]
    assert found["copied"].counts.written == 3
    kinds = (folder.folder / "events.txt").read_text().split()
    assert {"create_update", "update_progress", "flow_progress"} <= set(kinds)
    failures = [each.message for each in folder.events if getattr(each, "message", "").startswith("event hook")]
    assert failures == ["event hook failing failed with ValueError: this hook fails"] * 2
    # The flow that runs once has run.
    folder.feed("in/south/2.json", {"id": 4})
    assert folder.run(refresh=("orders",))["orders"].counts.written == 1
    assert folder.rows("default.orders") == [(1, "north"), (100, "past"), (2, "north"), (3, "south"), (4, "south")]
    planned = folder.plan(reset_checkpoint=("orders_north",))["orders"].flows
    assert {each.flow: each.action for each in planned} == {
        "orders_north": "read again",
        "orders_south": "continue",
        "backfill": "nothing",
    }
    assert set(folder.run(reset_checkpoint=("orders_north",))) == {"orders"}
    again = [(1, "north"), (1, "north"), (100, "past"), (2, "north"), (2, "north"), (3, "south"), (4, "south")]
    assert folder.rows("default.orders") == again
    events = [json.loads(details) for (details,) in folder.rows("_rivermouth/pipelines/shop/event_log", "details")]
    asked = {"full_refresh": False, "refresh_selection": [], "full_refresh_selection": []}
    assert [each["create_update"] for each in events if "create_update" in each] == [
        asked | {"refresh_selection": ["orders"], "reset_checkpoint_selection": []},
        asked | {"reset_checkpoint_selection": ["orders_north"]},
        asked | {"reset_checkpoint_selection": []},
    ]


@pytest.mark.long
def test_flows_of_all_kinds_do_their_work_once(folder, monkeypatch):
    monkeypatch.chdir(folder.folder)
    folder.write("src/a.py", SOURCE)
    folder.feed("in/north/1.json", {"id": 1}, {"id": 2})
    folder.feed("in/south/1.json", {"id": 3})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert folder.rows("default.orders") == [(1, "north"), (100, "past"), (2, "north"), (3, "south")]
    folder.feed("in/south/2.json", {"id": 4})
    folder.run()
    assert folder.rows("default.orders") == [(1, "north"), (100, "past"), (2, "north"), (3, "south"), (4, "south")]
    assert sorted((folder.folder / "collected.txt").read_text().split("\n")) == ["", "0 1", "0 2"]
    assert (folder.folder / "default").exists() is False
    assert folder.rows("copies") == [(1,), (100,), (3,), (4,)]
    kinds = (folder.folder / "events.txt").read_text().split()
    assert {"create_update", "update_progress", "flow_progress"} <= set(kinds)
    failures = [each.message for each in folder.events if getattr(each, "message", "").startswith("event hook")]
    assert failures == ["event hook failing failed with ValueError: this hook fails"] * 2


@pytest.mark.long
def test_a_pipeline_that_goes_on_takes_rows_as_they_come_until_it_is_stopped(folder, monkeypatch):
    monkeypatch.setattr(event_log, "_EVERY_S", 1.0)
    folder.write(
        "src/a.py",
        "from pyspark import pipelines as dp\n"
        "@dp.table(spark_conf={'pipelines.trigger.interval': '1 second'})\n"
        "def numbers():\n    return spark.readStream.schema('id bigint').json('in')\n"
        "@dp.materialized_view(spark_conf={'pipelines.trigger.interval': '1 second'})\n"
        "def total():\n    return spark.read.table('numbers').selectExpr('sum(id) AS total')\n",
    )
    folder.feed("in/1.json", {"id": 1})
    hooks, outcomes, events = RunHooks(), [], []
    options = commands.UpdateOptions(follow=True, listener=events.append)
    work = threading.Thread(target=lambda: outcomes.extend(commands.run(folder.pipeline(), options, hooks)))
    work.start()
    _until(lambda: folder.has("default.total") and folder.rows("default.total") == [(1,)], work)
    folder.feed("in/2.json", {"id": 2})
    _until(lambda: folder.rows("default.total") == [(3,)], work)
    # Its events are in the table before it ends.
    state = "_rivermouth/pipelines/shop/event_log"
    _until(lambda: folder.has(state) and ("flow_progress",) in folder.rows(state, "event_type"), work)
    # The view looks at its table each second; that nothing is new is told once.
    _until(lambda: any(isinstance(each, ViewDecided) and each.refresh == "nothing" for each in list(events)), work)
    hooks.stop.ask()
    work.join(60)
    assert not work.is_alive()
    assert [(each.dataset, each.result) for each in outcomes] == [("numbers", "completed"), ("total", "completed")]
    assert outcomes[0].counts.written == 2
    told = [each for each in events if isinstance(each, ViewDecided)]
    assert {each.refresh for each in told} == {"full", "nothing"}
    assert not [each for each, behind in pairwise(told) if each == behind and each.refresh == "nothing"]


def _until(condition, work):
    deadline = time.monotonic() + 180
    while not condition():
        assert work.is_alive()
        assert time.monotonic() < deadline
        time.sleep(0.2)
