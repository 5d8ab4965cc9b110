"""Pipelines over Kinesis: each record once, whatever is lost, however shards change, wherever a run ends."""

import json
import shutil
import threading
import time

import pytest
from tests.kinesis.server import KEYS, gate, kinesis

import rivermouth
from rivermouth.cli.pipelines import plan_text
from rivermouth.errors import RivermouthError
from rivermouth.pipelines import commands
from rivermouth.testing import run_pipeline

FILES = """
import dlt

@dlt.table
@dlt.expect_or_drop("kept", "data <> 'dropped'")
def clicks():
    read = spark.readStream.format("kinesis").options(**{options!r}).load()
    return read.selectExpr("CAST(data AS STRING) AS data", "shardId", "sequenceNumber")
"""
SQL = """
CREATE OR REFRESH STREAMING TABLE by_sql AS
SELECT partitionKey, CAST(data AS STRING) AS data, stream, approximateArrivalTimestamp AS at
FROM STREAM read_kinesis(streamName => 'clicks', region => '{region}', endpoint => '{endpoint}',
  awsAccessKey => '{awsAccessKey}', awsSecretKey => '{awsSecretKey}', initialPosition => 'earliest',
  minFetchPeriod => '0ms', shardFetchInterval => '0ms')
"""
READING = """import dlt

@dlt.table
def t():
    return spark.{how}.format("kinesis").options(**{options!r}).load()
"""
STEPS = ("check", "write", "written", "BatchWritten")


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with kinesis(tmp_path_factory.mktemp("kinesis")) as running:
        yield running


@pytest.fixture
def behind(server):
    with gate(server) as found:
        yield found


class _End(Exception):
    """Ends a batch at a step."""


def ran(folder, **options):
    """What was read, written and dropped by each dataset."""
    outcomes = folder.run(**options)
    assert {name: each.error and str(each.error) for name, each in outcomes.items()} == dict.fromkeys(outcomes)
    return {name: (each.counts.read, each.counts.written, each.counts.dropped) for name, each in outcomes.items()}


def data(folder, table="clicks"):
    return sorted(row[0] for row in folder.rows(f"default.{table}", "data"))


@pytest.mark.long
def test_records_come_once_whatever_is_lost_and_however_shards_change(folder, server):
    server.create("clicks", 2)
    options = server.options("clicks")
    folder.write("src/a.py", FILES.format(options=options))
    folder.write("src/b.sql", SQL.format(**options))
    planned = folder.plan()
    note = "kinesis clicks: 2 open shards, keeps records for 1 day; what is older is gone"
    for each in planned.values():
        assert (each.reads, each.notes) == (("kinesis clicks (stream)",), (note,))
    assert f"  reads: kinesis clicks (stream)\n    {note}\n" in plan_text(folder.pipeline(), list(planned.values()))
    server.put("clicks", "1", "2", "dropped", "3", "4")
    assert ran(folder) == {"clicks": (5, 4, 1), "by_sql": (5, 5, 0)}
    assert ran(folder) == {"clicks": (0, 0, 0), "by_sql": (0, 0, 0)}
    # A lost checkpoint is made again of what the ledger says, also where shards are other ones now.
    shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")
    server.put("clicks", "5", "6")
    server.split("clicks", 0)
    server.put("clicks", "7", "8", "9")
    server.merge("clicks", 1)
    server.put("clicks", "10", "11", "12")
    assert ran(folder) == {"clicks": (8, 8, 0), "by_sql": (8, 8, 0)}
    assert data(folder) == sorted(str(number) for number in range(1, 13))
    rows = folder.rows("default.by_sql", "partitionKey, data, stream, at")
    assert sorted(row[1] for row in rows) == sorted([*data(folder), "dropped"])
    assert all(row[0] == row[1] and row[2] == "clicks" and row[3] is not None for row in rows)
    shards = {row[0] for row in folder.rows("default.clicks", "shardId")}
    assert len(shards) > 2
    # The ledger has the sequence numbers; keys are nowhere.
    ledger = "".join(path.read_text() for path in folder.folder.rglob("_delta_log/*.json"))
    newest = max(row[0] for row in folder.rows("default.clicks", "sequenceNumber"))
    assert newest in ledger
    for path in folder.folder.rglob("*"):
        if path.is_file() and "src" not in path.relative_to(folder.folder).parts:
            assert not any(secret.encode() in path.read_bytes() for secret in KEYS), path
    told = repr(folder.events) + json.dumps(planned, default=repr)
    assert not any(secret in told for secret in KEYS)


@pytest.mark.long
def test_a_run_that_ends_at_any_step_loses_and_doubles_nothing(folder, server):
    server.create("steps")
    folder.write("src/a.py", FILES.format(options=server.options("steps")).replace("def clicks", "def steps"))
    given = []
    for number, wanted in enumerate(STEPS):

        def step(name, wanted=wanted):
            if name == wanted:
                raise _End

        more = [f"{wanted}-{value}" for value in range(5)]
        server.put("steps", *more[:3])
        if number % 2 == 0:
            server.split("steps", 0)
        else:
            server.merge("steps", 0)
        server.put("steps", *more[3:])
        given += more
        if wanted == "BatchWritten":
            shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")
        error = folder.run(step=step)["steps"].error
        assert wanted == "BatchWritten" or "_End" in str(error)
    ran(folder)
    assert data(folder, "steps") == sorted(given)


@pytest.mark.long  # the source's part of it: test_a_query_that_goes_on_hears_of_new_records_and_shards
def test_records_come_as_they_are_put_until_it_is_stopped(folder, server):
    server.create("followed")
    options = server.options("followed", minFetchPeriod="100ms", initialPosition="latest")
    folder.write("src/a.py", FILES.format(options=options).replace("def clicks", "def followed"))
    server.put("followed", "old")
    time.sleep(2.1)  # Kinesis tells whole seconds of its clock
    stopping, outcomes, put = threading.Event(), [], []

    def follow():
        with commands.opened(folder.pipeline(), writes=True) as loaded:
            outcomes.extend(commands.updated(loaded, commands.UpdateOptions(follow=True), stopping))

    def wait(count):
        deadline = time.monotonic() + 90
        while not (table.exists() and len(data(folder, "followed")) >= count) and time.monotonic() < deadline:
            time.sleep(0.5)

    table = folder.folder / "lake/default/followed/_delta_log/00000000000000000001.json"
    thread = threading.Thread(target=follow)
    thread.start()
    try:
        wait(0)
        for number in range(3):
            put += [f"{number}-{place}" for place in range(4)]
            server.put("followed", *put[-4:])
            server.split("followed", 0)
            wait(len(put))
    finally:
        stopping.set()
        thread.join(60)
    assert [each.error and str(each.error) for each in outcomes] == [None]
    assert data(folder, "followed") == put


@pytest.mark.long
def test_throttling_fails_the_flow_by_name_and_the_next_run_has_all(folder, server, behind):
    server.create("busy")
    server.put("busy", "1", "2")
    options = {**server.options("busy"), "endpoint": behind.url, "retryTimeout": "1s"}
    folder.write("src/a.py", FILES.format(options=options).replace("def clicks", "def busy"))
    assert ran(folder) == {"busy": (2, 2, 0)}
    server.put("busy", "3", "4")
    behind.for_ever, behind.refusals = True, {"GetRecords": ["ProvisionedThroughputExceededException"]}
    text = str(folder.run()["busy"].error)
    tries = behind.calls.count("GetRecords") - 3
    assert text.partition(" tries")[0].rpartition("in ")[0] == (
        "[KINESIS_THROTTLED] kinesis busy: Kinesis refused GetRecords as too frequent for 1 s, "
    ), (text, tries)
    assert text.endswith("  at: src/a.py:4\n" + text.rpartition("\n")[2])
    behind.reset()
    # The task of a batch finds that records of it are gone.
    behind.trimmed = {"4"}

    def step(name):
        behind.trimmed = {"3", "4"} if name == "check" else behind.trimmed

    behind.trimmed = set()
    text = str(folder.run(step=step)["busy"].error)
    assert text.startswith(
        "[KINESIS_DATA_LOST] kinesis busy: shard shardId-000000000000 no longer has the last record of a batch that "
        "was planned; nothing was written\n"
    ), text
    behind.reset()
    assert ran(folder) == {"busy": (2, 2, 0)}
    assert data(folder, "busy") == ["1", "2", "3", "4"]
    # Rows that Kinesis could not bring again are not cleared.
    behind.ahead_s = 2 * 86400.0
    with pytest.raises(RivermouthError) as refused:
        folder.run(full_refresh=("busy",))
    assert "stream busy keeps records for 1 day, and the table may have older ones" in str(refused.value)
    assert data(folder, "busy") == ["1", "2", "3", "4"]


def refused_plan(folder, options, how="readStream"):
    folder.write("src/a.py", READING.format(how=how, options=options))
    with pytest.raises(RivermouthError) as error:
        folder.plan()
    return str(error.value).replace("\n  at: src/a.py:5\n", "\n")


def test_reads_that_no_server_is_asked_for_are_refused_at_their_line(folder):
    assert refused_plan(folder, {"streamName": "nowhere", "region": "eu-central-1"}, "read") == (
        "[KINESIS_SOURCE_INVALID] kinesis nowhere cannot be read: it is read as a stream only; nothing was read\n"
        "  hint: spark.readStream.format(\"kinesis\"), or STREAM read_kinesis(streamName => 'nowhere')"
    )
    without = {"region": "eu-central-1", "initialPosition": {"at_timestamp": "2026-01-31T12:00:00Z"}}
    assert refused_plan(folder, without) == (
        "[KINESIS_SOURCE_INVALID] kinesis cannot be read: option streamName is missing; nothing was read\n"
        '  hint: .option("streamName", "orders")'
    )


@pytest.mark.long  # the server's part of it: test_what_kinesis_refuses_is_said_without_secrets
def test_what_cannot_be_read_is_said_when_it_is_planned(folder, server):
    assert refused_plan(folder, server.options("nowhere")) == (
        "[KINESIS_SOURCE_UNREADABLE] kinesis nowhere cannot be read: there is no such stream; nothing was written\n"
        "  hint: aws kinesis create-stream --stream-name nowhere --shard-count 1"
    )
    server.create("planned")
    place = folder.folder / "plan.txt"
    shown = f"__import__('pathlib').Path({str(place)!r}).write_text(found._jdf.queryExecution().analyzed().toString())"
    text = READING.format(how="readStream", options=server.options("planned"))
    folder.write("src/a.py", text.replace("return spark", "found = spark") + f"    {shown}\n    return found\n")
    folder.plan()
    assert "kinesis" in place.read_text()
    assert not any(secret in place.read_text() for secret in KEYS)
    at = {"at_timestamp": "2026-01-31T12:00:00Z"}
    folder.write("src/a.py", READING.format(how="readStream", options=server.options("planned", initialPosition=at)))
    assert folder.plan()["t"].notes == (
        (
            "kinesis planned: 1 open shard, keeps records for 1 day; what is older is gone, also what came from "
            "2026-01-31 12:00:00 UTC on"
        ),
    )


def test_a_test_gives_records_of_a_stream_as_those_of_a_topic(tmp_path, spark):
    (tmp_path / "a.py").write_text(
        READING.format(how="readStream", options={"streamName": "orders", "initialPosition": "earliest"})
    )
    records = [rivermouth.Record("1", key="a"), rivermouth.Record("2", key="b")]
    ran = run_pipeline(tmp_path / "a.py", spark=spark, topics={"orders": records})
    table = ran.table("t")
    found = table.selectExpr("partitionKey", "CAST(data AS STRING)", "stream", "shardId", "sequenceNumber")
    assert sorted(map(tuple, found.collect())) == [
        ("a", "1", "orders", "shardId-000000000000", "0"),
        ("b", "2", "orders", "shardId-000000000000", "1"),
    ]
    assert table.schema.simpleString() == (
        "struct<partitionKey:string,data:binary,stream:string,shardId:string,sequenceNumber:string,"
        "approximateArrivalTimestamp:timestamp>"
    )
