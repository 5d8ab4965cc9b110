"""What updates of a pipeline make of its tables: once each row, whatever is lost, restarted or asked for."""

import json
import re
import shutil
from functools import reduce

import pytest
from pyspark import SparkContext
from pyspark.sql import DataFrame
from tests.pipelines.conftest import kept_functions, refusal

from rivermouth.engine.query import query_events as ev
from rivermouth.errors import RivermouthError
from rivermouth.ports.internals.query_plans import streams_of
from rivermouth.side_tables.source_files import SourceFiles

PYTHON = """
import dlt
from pyspark.sql.functions import *

factor = int(spark.conf.get("factor", "2"))

@dlt.expect("small", "id < 3")
@dlt.table(comment="numbers")
@dlt.expect_or_drop("positive", "id >= 0")
@dlt.expect_or_dead_letter("not_four", "id <> 4")
def bronze():
    return spark.readStream.format("json").schema("id bigint, name string").load("in")

@dlt.view
def doubled():
    return dlt.read_stream("bronze").withColumn("twice", col("id") * factor)

@dlt.table
def silver():
    return dlt.read_stream("doubled").where("twice > 0")
"""
VIEW = """
CREATE OR REFRESH MATERIALIZED VIEW totals COMMENT 'by name' AS
SELECT silver.name, sum(twice) AS total FROM LIVE.silver GROUP BY silver.name;
"""
SQL = """
CREATE OR REFRESH STREAMING TABLE gold.named (CONSTRAINT has_name EXPECT (name IS NOT NULL) ON VIOLATION DROP ROW)
AS SELECT bronze.id, name FROM STREAM(LIVE.bronze);
"""
FIRST = ({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": -1, "name": "c"}, {"id": 4}, {"id": 5})


@pytest.fixture
def numbers(folder):
    folder.write("src/a.py", PYTHON)
    folder.write("src/b.sql", SQL)
    folder.feed("in/1.json", *FIRST)
    return folder


def test_rows_are_written_and_counted_and_a_run_without_new_rows_does_nothing(numbers):
    numbers.write("src/c.sql", VIEW)
    assert_first_run(numbers)
    assert_nothing_new(numbers, written=3 + 3 + 3 + 2, small=(3, 2))


@pytest.mark.long
def test_rows_are_written_once_and_counted_and_views_follow(numbers):
    numbers.write("src/c.sql", VIEW)
    assert_first_run(numbers)
    numbers.feed("in/2.json", {"id": 7, "name": "a"})
    found = numbers.run()
    assert found["bronze"].counts.written == 1
    assert numbers.rows("default.totals") == [("a", 16), ("b", 4), (None, 10)]
    assert_nothing_new(numbers, written=3 + 3 + 3 + 2 + 4, small=(3, 3))


def assert_first_run(numbers):
    planned = numbers.plan()
    assert {name: each.kind for name, each in planned.items()} == {
        "bronze": "streaming_table",
        "doubled": "view",
        "silver": "streaming_table",
        "totals": "materialized_view",
        "gold.named": "streaming_table",
    }
    assert planned["gold.named"].reads == ("bronze (stream)",)
    assert planned["bronze"].new_columns == ("id bigint", "name string")
    assert not (numbers.folder / "lake").exists()

    found = numbers.run()
    bronze = found["bronze"].counts
    assert (bronze.read, bronze.written, bronze.dropped, bronze.dead_lettered) == (5, 3, 1, 1)
    assert bronze.expectations == {"small": 2, "positive": 1, "not_four": 1}
    assert numbers.rows("default.bronze") == [(1, "a"), (2, "b"), (5, None)]
    assert numbers.rows("default.silver", "id, twice") == [(1, 2), (2, 4), (5, 10)]
    assert numbers.rows("default.totals") == [("a", 2), ("b", 4), (None, 10)]
    assert numbers.rows("gold.named") == [(1, "a"), (2, "b")]
    letters = numbers.rows("default.bronze__dead_letters", "flow, failed_expectations, status, row")
    assert letters == [("bronze", ["small", "not_four"], "open", {"id": 4, "name": None})]


def assert_lineage(details):
    """The log has what each flow reads and writes, and what each dataset is."""
    found = [each["flow_definition"] for each in details if "flow_definition" in each]
    flows = {each["output_dataset"]: each for each in found}
    assert {name: (each["input_datasets"], each["flow_type"]) for name, each in flows.items()} == {
        "bronze": ([], "APPEND"),
        "doubled": (["bronze"], "VIEW"),
        "silver": (["doubled"], "APPEND"),
        "totals": (["silver"], "MATERIALIZED_VIEW"),
        "gold.named": (["bronze"], "APPEND"),
    }
    assert flows["totals"]["schema"] == [
        {"name": "name", "data_type": "string"},
        {"name": "total", "data_type": "bigint"},
    ]
    kinds = [each["dataset_definition"] for each in details if "dataset_definition" in each]
    assert {each["dataset_name"]: (each["dataset_type"], each["num_flows"]) for each in kinds} == {
        **dict.fromkeys(["bronze", "silver", "gold.named"], ("STREAMING_TABLE", 1)),
        "doubled": ("VIEW", 1),
        "totals": ("MATERIALIZED_VIEW", 1),
    }


def jobs_so_far():
    return SparkContext._active_spark_context._jsc.sc().dagScheduler().numTotalJobs()


def assert_nothing_new(numbers, *, written, small):
    """Nothing is written, no query over tables is started, the view is not computed; the log has what was before."""
    before = jobs_so_far()
    found = numbers.run()
    assert jobs_so_far() == before
    assert {each.counts.read for each in found.values()} == {0}
    assert {name: each.reason for name, each in found.items()} == {
        "bronze": "",
        **dict.fromkeys(["silver", "gold.named"], "nothing that it reads has new rows"),
        "totals": "no table that it reads has new rows",
    }
    totals = numbers.plan()["totals"].flows[0]
    assert (totals.action, *totals.or_else) == ("groups", "full", "nothing")
    assert totals.reason == "what silver will get in this update decides"

    log = numbers.rows("_rivermouth/pipelines/shop/event_log", "event_type, level, message")
    assert ("update_progress", "INFO") in {each[:2] for each in log}
    assert ("flow_progress", "METRICS", "Flow 'bronze' is RUNNING.") in log
    details = [json.loads(text) for (text,) in numbers.rows("_rivermouth/pipelines/shop/event_log", "details")]
    assert_lineage([each for each in details if {"flow_definition", "dataset_definition"} & set(each)])
    figures = [each["flow_progress"] for each in details if "metrics" in each.get("flow_progress", {})]
    assert sum(each["metrics"]["num_output_rows"] for each in figures) == written
    found = [part for each in figures for part in each["data_quality"]["expectations"] if part["name"] == "small"]
    assert tuple(sum(each[f"{how}_records"] for each in found) for how in ("passed", "failed")) == small


class _Stop(Exception):
    """Ends a batch at a step."""


def test_a_run_that_ended_behind_its_commit_is_gone_on_with(folder):
    folder.write("src/a.py", PYTHON.partition("@dlt.view")[0])
    folder.feed("in/1.json", *FIRST)

    def step(name):
        if name == "written":
            raise _Stop(name)

    assert "written" in repr(folder.run(step=step)["bronze"].error)
    for _ in range(2):
        assert folder.run()["bronze"].result == "completed"
        assert folder.rows("default.bronze") == [(1, "a"), (2, "b"), (5, None)]
        assert len(folder.rows("default.bronze__dead_letters")) == 1


def test_a_flow_is_tried_again_as_often_as_its_settings_say(folder):
    folder.write("src/a.py", PYTHON.partition("@dlt.view")[0])
    folder.feed("in/1.json", *FIRST)
    failures = ["a", "b", "c"]

    def step(name):
        if name == "write" and failures:
            raise _Stop(failures.pop())

    def run(often):
        said = f"configuration: {{pipelines.maxFlowRetryAttempts: {often}, pipelines.trigger.intervall: 1 minute}}\n"
        folder.write("pipeline.yml", settings + said)
        return folder.run(step=step)["bronze"]

    settings = (folder.folder / "pipeline.yml").read_text()
    folder.write("pipeline.yml", f"{settings}configuration: {{pipelines.trigger.interval: often}}\n")
    assert refusal(folder.run) == (
        "[DEFINITION_INVALID] flow bronze: pipelines.trigger.interval is no duration; the pipeline was not run\n"
        "  at: src/a.py:8\n  hint: pipelines.trigger.interval: 10 seconds"
    )
    with pytest.raises(RivermouthError) as refused:
        run("often")
    assert str(refused.value) == (
        "[DEFINITION_INVALID] flow bronze: pipelines.maxFlowRetryAttempts is no number; the pipeline was "
        "not run\n  at: src/a.py:8\n  hint: pipelines.maxFlowRetryAttempts: 2"
    )
    assert [text for _, text in folder.pipeline().settings.notes] == [
        "pipelines.trigger.intervall has no effect here: did you mean 'pipelines.trigger.interval'?"
    ]
    assert (run("0").result, failures) == ("failed", ["a", "b"])
    found = run("2")
    assert (found.result, found.counts.read, found.counts.written, failures) == ("completed", 5, 3, [])
    assert folder.rows("default.bronze") == [(1, "a"), (2, "b"), (5, None)]


@pytest.mark.long
def test_ended_at_one_step_after_the_other_no_row_is_lost_or_doubled(numbers):
    for at in ("files", "check", "write", "written", "dead_letters"):

        def step(name, at=at):
            if name == at:
                raise _Stop(name)

        found = numbers.run(step=step)
        assert (found["bronze"].result, at in repr(found["bronze"].error)) == ("failed", True), found["bronze"].error
        assert found["silver"].result == "skipped"
    for _ in range(2):
        found = numbers.run()
        assert {each.result for each in found.values()} == {"completed"}
        assert numbers.rows("default.bronze") == [(1, "a"), (2, "b"), (5, None)]
        assert numbers.rows("default.silver", "id, twice") == [(1, 2), (2, 4), (5, 10)]
        assert len(numbers.rows("default.bronze__dead_letters")) == 1


@pytest.mark.long
@pytest.mark.parametrize(
    "losses", [("restored", "gone"), pytest.param(("restored", "damaged", "gone"), marks=pytest.mark.long)], ids=len
)
def test_with_a_lost_checkpoint_the_ledger_says_where_to_go_on(losses, numbers):
    checkpoints = numbers.folder / "lake/_rivermouth/pipelines/shop/checkpoints"

    def restored():
        shutil.rmtree(checkpoints)
        shutil.copytree(numbers.folder / "backup", checkpoints)

    def damaged():
        for file in checkpoints.glob("*/*/offsets/*"):
            file.write_text("nothing")

    numbers.run()
    shutil.copytree(checkpoints, numbers.folder / "backup")
    numbers.feed("in/2.json", {"id": 7, "name": "a"})
    numbers.run()
    ids = [(1,), (2,), (5,), (7,)]

    def gone():
        shutil.rmtree(numbers.folder / "lake/_rivermouth")

    lose = {"restored": restored, "damaged": damaged, "gone": gone}
    for number, loss in enumerate(losses):
        lose[loss]()
        numbers.feed(f"in/{number + 3}.json", {"id": number + 10, "name": "b"})
        found = numbers.run()
        assert found["bronze"].counts.read == 1
        assert {each.flow for each in numbers.events if isinstance(each, ev.CheckpointMade)} == {
            "bronze",
            "silver",
            "gold.named",
        }
        ids.append((number + 10,))
    if len(losses) == len(lose):
        numbers.run()
    assert numbers.rows("default.silver", "id") == sorted(ids, key=repr)
    assert numbers.rows("gold.named", "id") == sorted((each for each in ids if each != (5,)), key=repr)


NOT_ALLOWED = (
    "[RESET_NOT_ALLOWED] dataset bronze has pipelines.reset.allowed = false; it was not cleared\n"
    "  at: src/a.py:8\n"
    "  hint: remove the property, if its data may be deleted"
)
WOULD_LOSE = (
    "[REFRESH_WOULD_LOSE] dataset bronze: a full refresh would lose data: 1 of 1 files that it has read are gone; "
    "it was not cleared\n"
    "  at: src/a.py:8\n"
    "  hint: rivermouth run --full-refresh bronze --accept-data-loss"
)


def test_a_full_refresh_reads_all_again_unless_that_is_not_allowed_or_rows_are_gone(folder):
    text = PYTHON.partition("@dlt.view")[0]
    folder.write("src/a.py", text)
    folder.feed(file := "in/Orders Jan [1] 50%.json", *FIRST)
    folder.run()
    folder.write("src/a.py", text.replace("id >= 0", "id >= 2"))
    assert folder.plan(full_refresh=("bronze",))["bronze"].flows[0].action == "clear"
    assert folder.run(full_refresh=("bronze",))["bronze"].counts.read == 5
    assert folder.rows("default.bronze") == [(2, "b"), (5, None)]
    # What was refused before was read again: a replay would write it twice.
    assert folder.rows("default.bronze__dead_letters", "status") == [("discarded",), ("open",)]
    not_allowed = text.replace('comment="numbers"', 'table_properties={"pipelines.reset.allowed": "false"}')
    folder.write("src/a.py", not_allowed)
    assert str(refused_refresh(folder)) == NOT_ALLOWED
    folder.write("src/a.py", text)
    (folder.folder / file).unlink()
    assert str(refused_refresh(folder)) == WOULD_LOSE
    assert len(folder.rows("default.bronze")) == 2


def refused_refresh(folder):
    with pytest.raises(RivermouthError) as planned:
        folder.plan(full_refresh=("bronze",))
    with pytest.raises(RivermouthError) as refused:
        folder.run(full_refresh=("bronze",))
    assert str(planned.value) == str(refused.value)
    return refused.value


@pytest.mark.long
def test_full_refresh_and_reset_do_what_they_say(numbers):
    numbers.run()
    numbers.write("src/a.py", PYTHON.replace('"2"', '"3"'))
    found = numbers.run(refresh=("silver",))
    assert set(found) == {"silver"}
    assert [type(each) for each in numbers.events if isinstance(each, ev.QueryChanged)] == [ev.QueryChanged]
    assert numbers.rows("default.silver", "id, twice") == [(1, 2), (2, 4), (5, 10)]

    assert numbers.plan(full_refresh=("silver",))["silver"].flows[0].action == "clear"
    found = numbers.run(full_refresh=("silver",))
    assert set(found) == {"silver"}
    assert numbers.rows("default.silver", "id, twice") == [(1, 3), (2, 6), (5, 15)]

    numbers.run(reset_checkpoint=("silver",))
    assert numbers.rows("default.silver", "id") == [(1,), (1,), (2,), (2,), (5,), (5,)]

    numbers.write(
        "src/a.py", PYTHON.replace('comment="numbers"', 'table_properties={"pipelines.reset.allowed": "false"}')
    )
    assert str(refused_refresh(numbers)) == NOT_ALLOWED
    found = numbers.run(full_refresh_all=True)
    assert found["bronze"].counts.read == 0
    assert numbers.rows("default.silver", "id, twice") == [(1, 2), (2, 4), (5, 10)]

    numbers.write("src/a.py", PYTHON)
    (numbers.folder / "in/1.json").unlink()
    assert str(refused_refresh(numbers)) == WOULD_LOSE
    assert len(numbers.rows("default.bronze")) == 3
    numbers.feed("in/9.json", {"id": 9})
    numbers.run(full_refresh=("bronze",), accepts_loss=True)
    assert numbers.rows("default.bronze") == [(9, None)]
    # What was refused before was read again: a replay would write it twice.
    assert numbers.rows("default.bronze__dead_letters", "status") == [("discarded",)]


TWO_FLOWS = """
from pyspark import pipelines as dp

dp.create_streaming_table("both", spark_conf={"pipelines.trigger.interval": "1 second"})
for name, text in (("first", "'x'"), ("second", "'1'")):
    @dp.append_flow(target="both", name=name)
    def rows(text=text):
        return spark.readStream.schema("id bigint").json("in").selectExpr("id", f"raise_error('no') IS NULL AS ok"
            if text == "'x'" else "id > 0 AS ok")
"""


def test_a_flow_that_fails_leaves_the_others_of_its_table_to_run(folder):
    folder.write("src/a.py", TWO_FLOWS)
    folder.feed("in/1.json", {"id": 1})
    before = kept_functions()
    found = folder.run()["both"]
    assert not [each for each in kept_functions() if each not in before]
    assert (found.result, found.error.code, found.counts.written) == ("failed", "QUERY_FAILED", 1)
    assert folder.rows("default.both") == [(1, True)]


@pytest.fixture
def seen(folder):
    folder.write(
        "src/a.py",
        "from pyspark import pipelines as dp\n"
        "@dp.table\n"
        "def seen():\n"
        "    return spark.readStream.schema('id bigint').json('in').dropDuplicates(['id'])\n",
    )
    folder.feed("in/1.json", {"id": 1}, {"id": 1}, {"id": 2})
    assert folder.run()["seen"].counts.written == 2
    return folder


def of_folders(folder, *places):
    one = "SELECT id FROM STREAM read_files('{}', format => 'json', schema => 'id int')"
    text = " UNION ALL ".join(one.format(place) for place in places)
    folder.write("src/a.sql", f"CREATE STREAMING TABLE t AS {text};\n")


def streams_moved(folder, before, now):
    before, now = ("; ".join(f"text {folder.folder}/{each}" for each in places) for places in (before, now))
    return (
        f"[STREAMS_MOVED] flow t: its query read the streams {before}, and it reads {now}; Spark finds what each "
        "of them has read by its number, so the flow was not started\n"
        "  at: src/a.sql:1\n"
        "  hint: rivermouth run --full-refresh t, or write the streams in their former order"
    )


def test_two_streams_of_a_query_that_change_their_places_are_refused(folder):
    folder.feed("one/1.json", {"id": 0})
    folder.feed("two/1.json", {"id": 1})
    of_folders(folder, "one", "two")
    assert folder.run()["t"].error is None
    of_folders(folder, "two", "one")
    text = streams_moved(folder, ("one", "two"), ("two", "one"))
    assert str(folder.run()["t"].error) == refusal(folder.plan) == text
    assert folder.rows("default.t") == [(0,), (1,)]


@pytest.mark.long
def test_streams_of_a_query_that_change_their_places_are_refused(folder):
    for number, place in enumerate(("one", "two", "three")):
        folder.feed(f"{place}/1.json", {"id": number})
    of_folders(folder, "one", "two")
    assert folder.run()["t"].error is None
    for places in (("two", "one"), ("one", "two", "three"), ("one",)):
        of_folders(folder, *places)
        text = streams_moved(folder, ("one", "two"), places)
        assert str(folder.run()["t"].error) == refusal(folder.plan) == text
    # A stream of another folder in the place of one goes on with what is there.
    of_folders(folder, "one", "three")
    assert folder.run()["t"].error is None
    assert folder.rows("default.t") == [(0,), (1,), (2,)]
    of_folders(folder, "three", "one")
    assert folder.run(full_refresh=("t",))["t"].error is None
    assert folder.rows("default.t") == [(0,), (2,)]


INTO_SINKS = """
from pyspark import pipelines as dp

def rows(*folders):
    first, second = (spark.readStream.schema("id bigint").json(each) for each in folders)
    return first.unionByName(second)

@dp.foreach_batch_sink(name="collected")
def collect(frame, batch_id):
    with open("collected.txt", "a") as file:
        file.writelines(f"{row.id} " for row in frame.collect())

dp.create_sink("archive", "json", {"path": "archive"})

@dp.append_flow(target="archive")
def archived():
    return rows("one", "two")

@dp.append_flow(target="collected")
def kept():
    return rows("one", "two")
"""


@pytest.mark.long
def test_streams_into_sinks_that_change_their_places_are_refused(folder, monkeypatch):
    """By the ledger of the sink, and for one without a ledger by the mark on the checkpoint."""
    monkeypatch.chdir(folder.folder)
    folder.write("src/a.py", INTO_SINKS)
    for number, place in enumerate(("one", "two")):
        folder.feed(f"{place}/1.json", {"id": number})
    assert {each.error for each in folder.run().values()} == {None}
    folder.write("src/a.py", INTO_SINKS.replace('"one", "two"', '"two", "one"'))
    stream = f"json {folder.folder}/"
    text = (
        "[SINK_STREAMS_MOVED] flow {} into sink {}: its query read the streams "
        f"{stream}one; {stream}two, and it reads {stream}two; {stream}one; Spark finds what each of them has read by "
        "its number, so the flow was not started\n"
        "  at: src/a.py:{}\n"
        "  hint: write the streams in their former order, or send all rows again: rivermouth run --reset-checkpoint {}"
    )
    texts = {
        "archive": text.format("archived", "archive", 15, "archive"),
        "collected": text.format("kept", "collected", 19, "collected"),
    }
    planned = refusal(folder.plan)
    assert {name: str(each.error) for name, each in folder.run().items()} == texts
    assert planned in texts.values()
    again = folder.run(reset_checkpoint=("archive", "collected"))
    assert {name: (each.error, each.counts.written) for name, each in again.items()} == dict.fromkeys(texts, (None, 2))
    assert sorted((folder.folder / "collected.txt").read_text().split()) == ["0", "0", "1", "1"]


def test_streams_are_told_apart_by_what_names_their_sources(spark):
    def kafka(servers="one:9092", **options):
        reader = spark.readStream.format("kafka").option("kafka.bootstrap.servers", servers)
        return reader.options(**options).load().selectExpr("CAST(value AS STRING) AS value")

    def streams(*frames):
        return streams_of(reduce(DataFrame.unionByName, frames))

    rate = spark.readStream.format("rate").load().selectExpr("CAST(value AS STRING) AS value")
    assert streams(kafka(subscribe="a,b"), kafka(subscribePattern="c.*"), kafka(assign='{"d":[0]}'), rate) == (
        "kafka a,b",
        "kafka c.*",
        'kafka {"d":[0]}',
        "rate",
    )
    # Topics of one name in two clusters; no address is shown.
    here, there = kafka(subscribe="a"), kafka("two:9092", subscribe="a")
    one, two = streams(here, there)
    assert streams(there, here) == (two, one) != (one, two)
    assert re.fullmatch(r"kafka a #[0-9a-f]{8};kafka a #[0-9a-f]{8}", f"{one};{two}")
    assert streams(here, kafka(subscribe="b")) == ("kafka a", "kafka b")


def test_a_query_without_its_state_and_another_query_are_not_started(seen):
    text = (seen.folder / "src/a.py").read_text()
    seen.write("src/a.py", text.replace("dropDuplicates(['id'])", "groupBy('id').count().selectExpr('id')"))
    seen.feed("in/2.json", {"id": 2}, {"id": 3})
    assert str(seen.run()["seen"].error) == (
        "[QUERY_STATE_CHANGED] flow seen keeps state, and its query was changed in a way that this state does not "
        "allow: Streaming stateful operator name does not match with the operator in state metadata. Stateful "
        "operators in the metadata: [(OperatorId: 0 -> OperatorName: dedupe)]; Stateful operators in current batch: "
        "[(OperatorId: 0 -> OperatorName: stateStoreSave)]; the batch was not written\n"
        "  at: src/a.py:2\n"
        "  hint: write the query as it was; or, for a table, rivermouth run --full-refresh seen; or keep what was "
        "written and read the sources again: rivermouth run --reset-checkpoint seen"
    )
    seen.write("src/a.py", text)
    assert seen.run()["seen"].counts.written == 1
    assert_state_lost(seen)


def assert_state_lost(folder):
    checkpoint = folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints/default.seen/seen"
    shutil.rmtree(checkpoint)
    error = folder.run()["seen"].error
    assert str(error) == (
        f"[QUERY_STATE_LOST] flow seen keeps state, and its checkpoint {checkpoint} is not the one of table "
        f"{folder.folder}/lake/default/seen: there is none; the flow was not started\n"
        "  at: src/a.py:2\n"
        "  hint: restore the checkpoint, or rivermouth run --full-refresh seen, or keep the rows and read the sources "
        "again: rivermouth run --reset-checkpoint seen"
    )


@pytest.mark.long
def test_a_query_with_state_stops_where_its_state_is_lost(seen):
    seen.feed("in/2.json", {"id": 2}, {"id": 3})
    assert seen.run()["seen"].counts.written == 1
    assert_state_lost(seen)
    assert seen.run(full_refresh=("seen",))["seen"].counts.written == 3
    assert seen.rows("default.seen") == [(1,), (2,), (3,)]


@pytest.mark.long
def test_a_failed_expectation_writes_nothing_of_its_batch_and_others_go_on(folder):
    folder.write(
        "src/a.sql",
        "CREATE STREAMING TABLE strict (CONSTRAINT whole EXPECT (id > 0) ON VIOLATION FAIL UPDATE) AS\n"
        "SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT');\n"
        "CREATE STREAMING TABLE lenient AS\n"
        "SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id BIGINT');\n",
    )
    folder.feed("in/1.json", {"id": 1}, {"id": 0})
    found = folder.run()
    print(found["strict"], found["lenient"])
    assert str(found["strict"].error) == (
        "[ROW_EXPECTATION_FAILED] flow strict: expectation 'whole' failed for at least one row; "
        "the batch was not written\n"
        "  at: src/a.sql:1\n"
        "  hint: correct the rows or the expectation, then: rivermouth run"
    )
    assert folder.rows("default.strict") == []
    assert folder.rows("default.lenient", "id") == [(0,), (1,)]


RESTORED = """
from pyspark import pipelines as dp

@dp.table
def plain():
    return spark.readStream.schema("id bigint").json("in")

dp.create_streaming_table("keyed")
dp.create_auto_cdc_flow(target="keyed", source="plain", keys=["id"], sequence_by="id")

@dp.materialized_view
def total():
    return spark.read.table("plain").selectExpr("sum(id) AS ids")
"""


def taken_back(folder, name, version, line, entry=1):
    """The refusal where ``version`` of a table took it back behind ledger entry ``entry``."""
    place = f"{folder.folder}/lake/default/{name}"
    return (
        f"[TABLE_RESTORED] flow {name}: version {version} of table {place} (RESTORE) took it back "
        f"behind ledger entry {entry}; the flow would not read the missing rows again, and was stopped\n"
        f"  at: src/a.py:{line}\n"
        f"  hint: RESTORE TABLE delta.`{place}` TO VERSION AS OF {version - 1}; or rivermouth run "
        f"--full-refresh {name}; or keep the rows and read the sources again: "
        f"rivermouth run --reset-checkpoint {name}"
    )


def test_a_table_that_was_taken_back_behind_its_flow_is_refused_and_read_again_with_a_full_refresh(folder):
    folder.write("src/a.py", RESTORED)
    folder.feed("in/0.json", {"id": 0})
    assert folder.run(refresh=("plain",))["plain"].error is None
    newest = folder.table("plain").version()
    folder.table("plain").restore(newest - 1)
    assert refusal(lambda: folder.plan(refresh=("plain",))) == taken_back(folder, "plain", newest + 1, 4, entry=0)
    assert folder.run(full_refresh=("plain",), refresh=("plain",))["plain"].error is None
    assert folder.rows("default.plain") == [(0,)]


@pytest.mark.long
def test_tables_that_were_taken_back_lose_no_rows_silently(folder):
    folder.write("src/a.py", RESTORED)
    for number in range(2):
        folder.feed(f"in/{number}.json", {"id": number})
        folder.run()
    versions = {name: folder.table(name).version() for name in ("plain", "keyed", "total")}
    for name, version in versions.items():
        folder.table(name).restore(version - 1)
    folder.table("plain").restore(0)
    restored = {
        name: taken_back(folder, name, version + 1, line)
        for name, version, line in (("plain", versions["plain"], 4), ("keyed", versions["keyed"], 9))
    }
    assert refusal(folder.plan) == restored["plain"]
    folder.feed("in/2.json", {"id": 2})
    found = folder.run()
    assert str(found["plain"].error) == restored["plain"]
    assert str(folder.run(refresh=("keyed",))["keyed"].error) == restored["keyed"]
    folder.table("keyed").restore(versions["keyed"])
    assert folder.plan(full_refresh=("plain",))["keyed"].flows[0].action == "not selected"
    found = folder.run(full_refresh=("plain", "keyed"))
    assert {name: each.error for name, each in found.items()} == {"plain": None, "keyed": None}
    assert folder.rows("default.plain") == folder.rows("default.keyed") == [(0,), (1,), (2,)]
    assert folder.run()["total"].error is None
    assert folder.rows("default.total") == [(3,)]

    def restored_meanwhile(step):
        if step == "write":
            folder.table("plain").restore(0)

    folder.feed("in/3.json", {"id": 3})
    assert folder.run(step=restored_meanwhile, refresh=("plain",))["plain"].error.code == "TABLE_RESTORED"
    folder.table("plain").restore(folder.table("plain").version() - 1)
    assert folder.run(refresh=("plain",))["plain"].error is None
    assert folder.rows("default.plain") == [(0,), (1,), (2,), (3,)]


@pytest.mark.long
def test_a_table_that_was_taken_back_to_a_time_behind_its_flow_goes_on(folder, spark):
    folder.write("src/a.py", RESTORED)
    folder.feed("in/0.json", {"id": 0}, {"id": 1})
    folder.run(refresh=("plain",))
    table = f"delta.`{folder.folder}/lake/default/plain`"
    (time,) = spark.sql(f"DESCRIBE HISTORY {table}").selectExpr("CAST(max(timestamp) AS STRING)").first()
    spark.sql(f"DELETE FROM {table} WHERE id = 1")
    spark.sql(f"RESTORE TABLE {table} TO TIMESTAMP AS OF '{time}'")
    assert folder.plan()["plain"].flows[0].action == "continue"
    folder.feed("in/2.json", {"id": 2})
    assert folder.run(refresh=("plain",))["plain"].error is None
    assert folder.rows("default.plain") == [(0,), (1,), (2,)]


@pytest.mark.long
def test_a_full_refresh_that_ended_half_way_leaves_no_file_out(folder, monkeypatch):
    folder.write(
        "src/a.py",
        "from pyspark import pipelines as dp\n"
        "@dp.table\n"
        "def read():\n"
        "    return spark.readStream.schema('id bigint').option('maxFilesPerTrigger', 1).json('in')\n",
    )
    for number in range(2):
        folder.feed(f"in/{number}.json", {"id": number})
    assert folder.run()["read"].counts.written == 2

    def ended(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(SourceFiles, "forget", ended)
        with pytest.raises(KeyboardInterrupt):
            folder.run(full_refresh=("read",))
    assert folder.rows("default.read") == []

    def ended_at_second(step):
        if step == "write" and folder.rows("default.read"):
            raise RuntimeError(step)

    assert folder.run(step=ended_at_second)["read"].error.code == "QUERY_FAILED"
    shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")
    assert folder.run()["read"].error is None
    assert folder.rows("default.read") == [(0,), (1,)]
