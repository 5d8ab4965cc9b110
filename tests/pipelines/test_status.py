"""``rivermouth status`` of pipelines: what their tables' ledgers tell, without Spark."""

from __future__ import annotations

import json
import os
import re
import socket
from pathlib import Path

import pytest
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewPartitions

from rivermouth.cli.main import invoke
from rivermouth.domain.kafka.read_topics import ReadTopics, read_topics
from rivermouth.engine.report.flow_status import PartitionStatus
from rivermouth.errors import RivermouthError
from rivermouth.pipelines import commands
from rivermouth.pipelines.session.kafka_clusters import KafkaClusters
from rivermouth.pipelines.status import status
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.lease import PipelineLease

PYTHON = """
from pyspark import pipelines as dp

LIMIT = 10

@dp.table
@dp.expect("noted", "status IS NOT NULL")
@dp.expect_or_drop("an id", "id > 0")
@dp.expect_or_dead_letter("small", f"amount <= {LIMIT}")
def orders():
    return spark.readStream.schema("id bigint, amount int, status string").json("data")

@dp.table
@dp.expect_or_fail("no refund", "amount > 0")
def strict():
    return spark.readStream.table("orders")

@dp.table
def behind():
    return spark.readStream.table("strict")

@dp.materialized_view
@dp.expect_or_dead_letter("few", "n < 2")
def totals():
    return spark.read.table("orders").groupBy("status").count().withColumnRenamed("count", "n")
"""


@pytest.fixture
def shop(tmp_path, monkeypatch, spark):
    (tmp_path / "code.py").write_text(PYTHON)
    (tmp_path / "pipeline.yml").write_text("name: shop\nlibraries: [{file: {path: code.py}}]\nschema: sales\n")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def send(folder, name, *rows):
    (folder / "data" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(arguments)
    out, err = capsys.readouterr()
    return code, re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>", out + err)


def answer(capsys, *arguments):
    capsys.readouterr()
    code = invoke([*arguments, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def run():
    (pipeline,) = commands.pipelines(".")
    return {each.dataset: each for each in commands.run(pipeline)}, pipeline


ORDERS = """orders: its last batch is ledger entry 0
  streaming table: {lake}/sales/orders
  last batch: done at <time>
    4 read, 2 written, 1 dropped, 1 dead-lettered
  so far: 4 read, 2 written, 1 dropped, 1 dead-lettered
    expectation  action       failed in the last batches  failed so far
    noted        warn         2 of 4                      2 of 4
    an id        drop         1 of 4                      1 of 4
    small        dead_letter  1 of 4                      1 of 4"""
TOTALS = """totals: its last refresh is ledger entry 0, full: it was not computed yet
  materialized view: {lake}/sales/totals
  last batch: done at <time>
    1 read, 0 written, 0 dropped, 1 dead-lettered
  so far: 1 read, 0 written, 0 dropped, 1 dead-lettered
    expectation  action       failed in the last batches  failed so far
    few          dead_letter  1 of 1                      1 of 1"""


def test_status_tells_what_batches_did_and_which_flow_failed(shop, capsys):
    send(shop, "1.json", {"id": 1, "amount": 5, "status": "new"}, {"id": 0, "amount": 5}, {"id": 2, "amount": 50})
    send(shop, "2.json", {"id": 3, "amount": -1, "status": "new"})
    outcomes, pipeline = run()
    assert outcomes["strict"].result == "failed"
    code, text = said(capsys, "status")
    datasets = text.split("\n\n")
    assert (code, datasets[0]) == (0, "pipeline shop: 1 of 4 datasets failed")
    lake = pipeline.project.lake
    assert (datasets[1], datasets[-1].rstrip()) == (ORDERS.format(lake=lake), TOTALS.format(lake=lake))
    code, body = answer(capsys, "status", "--max-dead-letters", "0", "--max-lag", "0")
    assert (code, [(each["flow"], each["rule"]) for each in body["check"]["broken"]]) == (
        1,
        [("orders", "max_dead_letters"), ("strict", "last_run"), ("totals", "max_dead_letters")],
    )
    by_name = {each["dataset"]: each for each in body["pipelines"][0]["datasets"]}
    # tables that read no topic have no lag
    assert {each["lag"] for each in by_name.values()} == {None}
    failure = by_name["strict"]["flows"][0]["failure"]
    assert (failure["code"], failure["flow"]) == ("ROW_EXPECTATION_FAILED", "strict")
    assert by_name["behind"]["flows"][0]["failure"] is None


def test_a_second_update_is_refused_and_status_names_the_process(shop, capsys):
    (pipeline,) = commands.pipelines(".")
    process = f"process {os.getpid()} on {socket.gethostname()}"
    refused = f"[PIPELINE_BUSY] pipeline shop is being updated by {process}; nothing was refreshed\n"
    with PipelineLease(LocalFiles(), pipeline.lease_file, "shop"):
        assert said(capsys, "run") == (1, f"{refused}  hint: rivermouth status\n")
        assert f"the pipeline is being updated by {process}: a run now would be refused\n" in said(capsys, "plan")[1]
        assert said(capsys, "status") == (0, f"pipeline shop: no update has run yet\n  updated by {process}\n")
        assert answer(capsys, "status")[1]["pipelines"][0]["writer"] == process
    # An update that fails gives the lease back.
    code, text = said(capsys, "run", "--refresh", "nothing")
    assert (code, text.split()[0]) == (1, "[DATASET_NOT_IN_PIPELINE]")
    assert not Path(pipeline.lease_file).exists()
    assert answer(capsys, "status")[1]["pipelines"][0]["writer"] is None


@pytest.mark.long
def test_status_of_a_pipeline(shop, capsys):
    assert said(capsys, "status") == (0, "pipeline shop: no update has run yet\n")

    send(shop, "1.json", {"id": 1, "amount": 5, "status": "new"}, {"id": 0, "amount": 5}, {"id": 2, "amount": 50})
    outcomes, pipeline = run()
    assert {name: each.result for name, each in outcomes.items()} == dict.fromkeys(outcomes, "completed")
    code, text = said(capsys, "status", "--check")
    lake = pipeline.project.lake
    assert (code, text) == (
        0,
        f"""pipeline shop: 4 datasets, no failure

orders: its last batch is ledger entry 0
  streaming table: {lake}/sales/orders
  last batch: done at <time>
    3 read, 1 written, 1 dropped, 1 dead-lettered
  so far: 3 read, 1 written, 1 dropped, 1 dead-lettered
    expectation  action       failed in the last batches  failed so far
    noted        warn         2 of 3                      2 of 3
    an id        drop         1 of 3                      1 of 3
    small        dead_letter  1 of 3                      1 of 3

strict: its last batch is ledger entry 0
  streaming table: {lake}/sales/strict
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered
    expectation  action  failed in the last batches  failed so far
    no refund    fail    0 of 1                      0 of 1

behind: its last batch is ledger entry 0
  streaming table: {lake}/sales/behind
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered

totals: its last refresh is ledger entry 0, full: it was not computed yet
  materialized view: {lake}/sales/totals
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered
    expectation  action       failed in the last batches  failed so far
    few          dead_letter  0 of 1                      0 of 1

check: passed
""",
    )

    # a failure stays until the flow works again; totals go on
    send(shop, "2.json", {"id": 3, "amount": -1, "status": "new"}, {"id": 4, "amount": 99, "status": "x"})
    outcomes, _ = run()
    assert outcomes["strict"].result == "failed"
    code, body = answer(capsys, "status")
    assert code == 0
    (found,) = body["pipelines"]
    by_name = {each["dataset"]: each for each in found["datasets"]}
    assert found["message"] == "1 of 4 datasets failed"
    assert by_name["orders"]["last_batch"]["dead_lettered"] == 1
    assert by_name["orders"]["totals"] == {
        "read": 5,
        "written": 2,
        "dropped": 1,
        "dead_lettered": 2,
        "late": 0,
        "views": {},
        "expectations": {"noted": 2, "an id": 1, "small": 2},
    }
    small = next(each for each in by_name["orders"]["expectations"] if each["name"] == "small")
    assert [(each["flow"], each["entry"], each["failed"], each["read"]) for each in small["batches"]] == [
        ("orders", 1, 1, 2),
        ("orders", 0, 1, 3),
    ]
    assert all(each["finished_at"] > 0 for each in small["batches"])
    (noted,) = (line.split("  ") for line in said(capsys, "status")[1].splitlines() if "noted" in line)
    assert [part.strip() for part in noted if part] == ["noted", "warn", "0 of 2, 2 of 3", "2 of 5"]
    failure = by_name["strict"]["flows"][0]["failure"]
    assert (failure["code"], failure["flow"]) == ("ROW_EXPECTATION_FAILED", "strict")
    assert by_name["behind"]["flows"][0]["failure"] is None
    code, body = answer(capsys, "status", "--max-dead-letters", "1")
    assert code == 1
    assert [(each["flow"], each["rule"]) for each in body["check"]["broken"]] == [
        ("orders", "max_dead_letters"),
        ("strict", "last_run"),
    ]
    assert body["check"]["broken"][0]["detail"] == "it has 2 dead letters, and at most 1 are allowed"
    # tables that read no topic have no lag
    assert {each["lag"] for each in by_name.values()} == {None}
    code, body = answer(capsys, "status", "--max-lag", "0", "--max-age", "1s")
    assert (code, [each["rule"] for each in body["check"]["broken"]]) == (1, ["last_run"])

    # a failed flow that works again has no failure any more
    (shop / "code.py").write_text(PYTHON.replace("amount > 0", "amount > -9"))
    outcomes, _ = run()
    assert (outcomes["strict"].result, outcomes["strict"].counts.read) == ("completed", 1)
    assert said(capsys, "status", "--check")[0] == 0

    # an update that ends before its first dataset
    (shop / "code.py").write_text(PYTHON + "\nnonsense")
    with pytest.raises(RivermouthError) as broken:
        run()
    found = status(pipeline)
    assert (found.failure.code, found.is_wrong) == (broken.value.code, False)
    code, body = answer(capsys, "status", "--check")
    assert (code, body["check"]["broken"]) == (
        1,
        [{"flow": "shop", "rule": "last_run", "detail": found.message}],
    )


KAFKA = """
from pyspark import pipelines as dp

SERVERS = {"kafka.bootstrap.servers": spark.conf.get("servers"), "startingOffsets": "earliest"}
# Outside of a query.
raw = spark.readStream.format("kafka").options(**SERVERS).option("subscribe", spark.conf.get("topic")).load()

@dp.table
def events():
    return raw.select("value", "offset")

dp.create_streaming_table("both")

@dp.append_flow(target="both", name="one")
def one():
    pattern = spark.conf.get("topic") + ".*"
    records = spark.readStream.format("kafka").options(**SERVERS).option("subscribePattern", pattern).load()
    return records.select("value")

@dp.append_flow(target="both", name="more")
def more():
    return spark.readStream.table("events").select("value")
"""


def of_tables(folder):
    return {each.dataset: each for each in status(folder.pipeline()).datasets}


def test_the_lag_of_queries_over_topics(folder, topic, broker, capsys, monkeypatch):
    servers, name = broker.bootstrap_servers, topic(partitions=2)
    other = topic(name=f"{name}-2")

    def produce(name, partition, many):
        producer = Producer({"bootstrap.servers": servers})
        for number in range(many):
            producer.produce(name, str(number), partition=partition)
        producer.flush(30)

    folder.write("src/a.py", KAFKA)
    folder.write(
        "pipeline.yml",
        "name: shop\nlibraries:\n  - glob: {include: src/**}\n"
        f"configuration:\n  servers: {servers}\n  topic: {name}\n",
    )
    produce(name, 0, 3)
    produce(other, 0, 1)
    assert {each.result for each in folder.run().values()} == {"completed"}
    found = of_tables(folder)
    assert {name: each.lag for name, each in found.items()} == {"events": 0, "both": 0}
    assert found["events"].furthest_behind is None
    produce(name, 0, 2)
    produce(name, 1, 4)
    produce(other, 0, 5)
    admin = AdminClient({"bootstrap.servers": servers})
    admin.create_partitions([NewPartitions(other, 2)])[other].result(30)
    produce(other, 1, 7)
    found = of_tables(folder)
    of_one = (PartitionStatus(name, 0, 3, 5, 2), PartitionStatus(name, 1, 0, 4, 4))
    of_other = (PartitionStatus(other, 0, 1, 6, 5), PartitionStatus(other, 1, 0, 7, 7))
    assert {each.flow: (each.lag, each.partitions) for table in found.values() for each in table.flows} == {
        "events": (6, of_one),
        "one": (18, of_one + of_other),
        "more": (None, ()),
    }
    monkeypatch.chdir(folder.folder)
    code, text = said(capsys, "status", "--max-lag", "17", "--max-age", "1h")
    assert code == 1
    assert text.endswith(
        f"""
  lag: 18 offsets, furthest behind is {other} partition 1
    {"topic".ljust(len(other))}  partition  next offset  end offset  lag
    {name}    0                    3           5    2
    {name}    1                    0           4    4
    {other}  0                    1           6    5
    {other}  1                    0           7    7

check: failed
  both: max_lag: its lag is 18, and at most 17 is allowed
"""
    )
    code, body = answer(capsys, "status")
    events, both = body["pipelines"][0]["datasets"]
    assert (events["lag"], events["furthest_behind"]) == (
        6,
        {"topic": name, "partition": 1, "next_offset": 0, "end_offset": 4, "lag": 4},
    )
    assert both["flows"][0]["furthest_behind"]["topic"] == other

    assert_unknown(folder, servers, name, capsys)
    admin.delete_topics([name])[name].result(30)
    topic(partitions=2, name=name)
    again = of_tables(folder)["events"]
    assert (again.code, again.lag, again.partitions[0]) == (None, None, PartitionStatus(name, 0, 3))


def assert_unknown(folder, servers, name, capsys):
    """What is not known is not said: of a cluster that is gone, and of one with a login that is not kept."""
    known = folder.folder / "lake/_rivermouth/pipelines/shop"
    (place,) = (each for each in known.rglob("*.json") if '"topics"' in each.read_text())
    kept = place.read_text()
    assert "sasl" not in kept
    place.write_text(kept.replace(servers, "localhost:1"))
    gone = of_tables(folder)["events"]
    assert (gone.code, gone.lag, gone.partitions[0]) == ("BROKER_UNREACHABLE", None, PartitionStatus(name, 0, 3))
    code, text = said(capsys, "status", "--check")
    assert (code, "both: error: [BROKER_UNREACHABLE] no Kafka broker answered at localhost:1" in text) == (1, True)
    place.write_text(kept.replace('"known": true', '"known": false'))
    assert (of_tables(folder)["events"].code, of_tables(folder)["events"].lag) == (None, None)
    code, body = answer(capsys, "status", "--max-lag", "99")
    assert [each["detail"] for each in body["check"]["broken"]] == [
        "its lag is not known, and at most 99 is allowed"
    ] * 2
    place.write_text(kept)


def test_which_cluster_can_be_asked_again():
    login = {"security.protocol": "SASL_SSL", "sasl.jaas.config": "password"}
    in_source = {f"kafka.{name}": value for name, value in login.items()}
    ours, other = {"kafka.bootstrap.servers": "ours:1"}, {"Kafka.Bootstrap.Servers": "other:1"}
    plain = {"kafka.security.protocol": "PLAINTEXT"}
    for options, of_project, wanted in (
        ({**ours, "subscribe": "a, b"}, {}, ReadTopics(subscribe="a, b")),
        ({**ours, **in_source, "subscribe": "a"}, login, ReadTopics(subscribe="a")),
        ({**ours, **plain, "subscribe": "a"}, {}, ReadTopics(subscribe="a")),
        ({**ours, **in_source, "subscribe": "a"}, {}, ReadTopics(subscribe="a", known=False)),
        ({**other, "subscribePattern": "a.*"}, login, ReadTopics("other:1", pattern="a.*")),
        ({**other, **in_source, "assign": '{"a": [0]}'}, login, ReadTopics(assign='{"a": [0]}', known=False)),
        (
            {**other, "kafka.isolation.level": "read_committed", "subscribe": "a"},
            {},
            ReadTopics("other:1", "a", isolation="read_committed"),
        ),
        ({**other, "topic": "a"}, {}, None),
    ):
        found = read_topics(options, "ours:1", of_project)
        assert found == wanted, options
        assert found is None or (found.has("a"), found.has("c")) == (True, False)


def test_options_of_a_query_that_is_evaluated_again_are_kept_once(shop):
    (pipeline,) = commands.pipelines(".")
    clusters, options = KafkaClusters(pipeline), {"kafka.bootstrap.servers": "other:9092", "subscribe": "a"}
    assert [clusters.options_for(options) for _ in range(3)] == [{}, {}, {}]
    assert clusters.options == [options]
