"""What others do to the table, its log and the ledger's side file, and what the flow makes of it."""

from __future__ import annotations

import datetime as dt
import itertools
import json
import shutil

import pytest
from delta.tables import DeltaTable
from pyspark.sql.functions import lit
from tests.crashes import oracle
from tests.crashes.deciding import GOOD, NOBODY, decided
from tests.crashes.scene import RULES, Scene

from rivermouth.domain.ledger.ledger import FORMAT
from rivermouth.engine.events import BatchDone, BatchSkipped, StepReached
from rivermouth.engine.run.drain import write_ranges

LONG = pytest.mark.long


@pytest.fixture(scope="module")
def drained(broker, spark, tmp_path_factory):
    """A flow that has drained its topic twice; with a copy of its side file from between."""
    folder = tmp_path_factory.mktemp("drained")
    scene = Scene.make(broker, folder, partitions=2)
    scene.produce(900)
    assert scene.drain(spark).error is None
    shutil.copy(scene.side_file, folder / "older.json")
    scene.produce(300, seed=2)
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean
    # What the flow finds when it comes back.
    scene.produce(300, seed=3)
    return scene


@pytest.fixture
def scene(drained, tmp_path):
    return drained.copy(tmp_path)


@pytest.fixture(scope="module")
def drained_once(broker, spark, tmp_path_factory):
    """The same of few records, where nothing hangs on how many there are."""
    scene = Scene.make(broker, tmp_path_factory.mktemp("once"), partitions=1)
    scene.send(GOOD, NOBODY)
    assert scene.drain(spark).error is None
    scene.send(GOOD, NOBODY)
    return scene


@pytest.fixture
def small(drained_once, tmp_path):
    return drained_once.copy(tmp_path)


def go_on(scene, spark):
    outcome = scene.drain(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)


def refused(scene, spark):
    """The text with which the flow ends, having written nothing."""
    before = sorted(scene.table.glob("_delta_log/*.json"))
    outcome = scene.drain(spark)
    assert outcome.error is not None
    assert sorted(scene.table.glob("_delta_log/*.json")) == before
    return str(outcome.error)


def versions(location):
    return sorted(int(path.stem) for path in location.glob("_delta_log/*.json"))


# --- the reader is right -----------------------------------------------------------------------------


@pytest.mark.long
def test_what_plain_spark_writes_is_what_the_oracle_reads(spark, tmp_path):
    rows = [
        (1, 2.5, "grüße", dt.datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=dt.UTC), b"\x00\xff", ["a", None]),
        (2**62, -0.0, "", None, b"", []),
        (None, None, None, None, None, None),
    ]
    location = str(tmp_path / "known")
    schema = "i bigint, d double, s string, t timestamp, b binary, a array<string>"
    spark.createDataFrame(rows[:2], schema).coalesce(1).write.format("delta").save(location)
    spark.createDataFrame(rows[2:], schema).write.format("delta").mode("append").save(location)
    DeltaTable.forPath(spark, location).update("i = 1", {"s": "upper(s)"})
    DeltaTable.forPath(spark, location).delete("d = 0")
    found = sorted(oracle.rows_of(location), key=lambda row: row["i"] or 0)
    assert [tuple(row.values()) for row in found] == [rows[2], (1, 2.5, "GRÜSSE", *rows[0][3:])]
    assert oracle.rows_of(tmp_path / "nothing") == []


@pytest.mark.long
def test_the_audit_finds_what_is_lost_doubled_made_up_and_wrong(drained, scene, spark):
    records = scene.records()
    lost, doubled, wrong, *_rest = sorted(at_of(row) for row in oracle.rows_of(scene.table))
    location = str(scene.table)
    table, frame = DeltaTable.forPath(spark, location), spark.read.format("delta").load(location)
    twice = frame.where(only(doubled)).localCheckpoint()
    twice.union(twice.withColumn("kafka_offset", lit(10**6).cast("bigint"))).write.format("delta").mode("append").save(
        location
    )
    table.delete(only(lost))
    table.update(only(wrong), {"name": "'someone else'"})
    letter = next(at_of(row) for row in oracle.rows_of(scene.dead_letters))
    DeltaTable.forPath(spark, str(scene.dead_letters)).delete(only(letter))
    carried = oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["next"]
    known = {at: record for at, record in records.items() if at[2] < carried[str(at[1])]}
    found = oracle.audit(known, RULES, table=scene.table, dead_letters=scene.dead_letters)
    assert set(found.lost) == {("table", lost), ("dead_letter", letter)}
    assert found.doubled == [("table", doubled, 2)]
    assert found.phantom == [("table", (*doubled[:2], 10**6))]
    assert found.wrong == [("table", wrong, "name")]
    assert not found.is_clean


def at_of(row):
    return row["kafka_topic"], row["kafka_partition"], row["kafka_offset"]


def only(at):
    return f"kafka_partition = {at[1]} AND kafka_offset = {at[2]}"


# --- the side file -----------------------------------------------------------------------------------


NEWER = b'{"entry": "{\\"rivermouth\\":99}", "version": 1, "counts": null}'


@pytest.mark.long
@pytest.mark.parametrize("content", [pytest.param(None, marks=LONG), b"\xff\xfe\x00", pytest.param(NEWER, marks=LONG)])
def test_a_side_file_that_is_gone_or_damaged(content, scene, spark):
    scene.side_file.unlink()
    if content is not None:
        scene.side_file.write_bytes(content)
    go_on(scene, spark)


@pytest.mark.long
def test_a_side_file_that_is_older_than_the_table(scene, spark):
    shutil.copy(scene.folder / "older.json", scene.side_file)
    letters = versions(scene.dead_letters)
    steps = []
    assert scene.drain(spark, lambda event: steps.append(getattr(event, "step", None))).error is None
    assert steps.index("recover") < steps.index("write")
    assert scene.audit().is_clean
    # The dead letters of the batch that was counted again were there: only the new batch added some.
    assert len(versions(scene.dead_letters)) == len(letters) + 1


# --- others' commits ---------------------------------------------------------------------------------


@pytest.mark.long
def test_optimize_and_vacuum_by_someone_else_are_harmless(scene, spark):
    table = DeltaTable.forPath(spark, str(scene.table))
    table.optimize().executeCompaction()
    table.vacuum()
    spark.sql(f"ALTER TABLE delta.`{scene.table}` SET TBLPROPERTIES ('team' = 'sales')")
    assert len(versions(scene.table)) > len(oracle.ledger_of(scene.table))
    go_on(scene, spark)


CHANGES = (
    pytest.param("DELETE", lambda table, _frame: table.delete("id % 2 = 0"), marks=LONG),
    pytest.param("UPDATE", lambda table, _frame: table.update("id % 2 = 0", {"name": "'x'"}), marks=LONG),
    pytest.param("RESTORE", lambda table, _frame: table.restoreToVersion(1), marks=LONG),
    ("WRITE", lambda _table, frame: frame.write.format("delta").mode("overwrite")),
    pytest.param("WRITE", lambda _table, frame: frame.write.format("delta").mode("append"), marks=LONG),
)


@pytest.mark.long
@pytest.mark.parametrize(("operation", "change"), CHANGES)
def test_a_change_of_data_by_someone_else_makes_the_ledger_void_until_it_is_undone(operation, change, scene, spark):
    location = str(scene.table)
    last, entries = versions(scene.table)[-1], oracle.ledger_of(scene.table)
    entry, kept = entries[-1]["entry"], entries[1 if operation == "RESTORE" else -1]["topics"][scene.topic]["next"]
    # A table that was restored goes on where that version stood, in all partitions; else one word is enough.
    rewinds = [f"--rewind {scene.topic}-{partition}:{offset}" for partition, offset in kept.items()]
    options = " ".join(rewinds if operation == "RESTORE" else rewinds[:1])
    writer = change(DeltaTable.forPath(spark, location), spark.read.format("delta").load(location).limit(3))
    if operation == "WRITE":
        writer.save(location)
    assert refused(scene, spark) == (
        f"[LEDGER_VOID] table {location}: version {last + 1} ({operation}) changed its data after ledger entry "
        f"{entry}; nothing was written\n"
        f"  hint: RESTORE TABLE delta.`{location}` TO VERSION AS OF {last}; or keep the table as it is: "
        f'rivermouth run shop {options} --why "REASON"'
    )
    DeltaTable.forPath(spark, location).restoreToVersion(last)
    go_on(scene, spark)


def test_a_change_of_data_while_the_flow_runs_stops_it_before_the_next_batch(make_scene, spark):
    scene = make_scene(trigger={"max_offsets": 300})
    scene.produce(600)

    def disturb(event):
        if isinstance(event, BatchDone) and len(scene.told(BatchDone)) == 1:
            DeltaTable.forPath(spark, str(scene.table)).delete("id % 2 = 0")

    outcome = scene.drain(spark, disturb)
    assert outcome.batches == 1
    stood = oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["next"]["0"]
    assert str(outcome.error) == (
        f"[LEDGER_VOID] table {scene.table}: version 2 (DELETE) changed its data after ledger entry 1; "
        "nothing was written\n"
        f"  hint: RESTORE TABLE delta.`{scene.table}` TO VERSION AS OF 1; or keep the table as it is: "
        f'rivermouth run shop --rewind {scene.topic}-0:{stood} --why "REASON"'
    )


@pytest.mark.long
@pytest.mark.parametrize("undone", [False, True])
def test_a_change_of_data_while_a_batch_is_written_stops_the_flow_until_that_is_decided(undone, small, spark):
    table, before = DeltaTable.forPath(spark, str(small.table)), versions(small.table)[-1]

    def disturb(event):
        if isinstance(event, StepReached) and event.step == "write":
            table.delete("kafka_offset = 0")

    again, on = (f"rivermouth run shop --rewind {small.topic}-0:{offset} --why" for offset in (2, 4))
    expected = (
        f"[LEDGER_VOID] table {small.table}: version {before + 1} (DELETE) changed its data after ledger entry 1; "
        "the rows of ledger entry 2 were added to it, and nothing was written after that\n"
        f"  hint: RESTORE TABLE delta.`{small.table}` TO VERSION AS OF {before}, then "
        f'{again} "REASON"; or keep the table as it is: {on} "REASON"'
    )
    assert str(small.drain(spark, disturb).error) == expected
    assert refused(small, spark) == expected
    if undone:
        table.restoreToVersion(before)
        assert str(small.drain(spark).error).endswith(f'{again} "REASON"')
    outcome = decided(small, spark, rewind=[f"{small.topic}-0:{2 if undone else 4}"])
    assert outcome.error is None, str(outcome.error)
    assert sorted(row["kafka_offset"] for row in oracle.rows_of(small.table)) == ([0, 2] if undone else [2])
    assert sorted(row["kafka_offset"] for row in oracle.rows_of(small.dead_letters)) == [1, 3]
    assert small.drain(spark).error is None
    assert not undone or small.audit().is_clean


# --- the log -----------------------------------------------------------------------------------------


def clean_log(spark, location):
    """What Delta does to a log that is older than its retention: no commit before the newest checkpoint is kept.

    Someone's harmless commit was the last one before that checkpoint.
    """
    jvm = spark._jvm
    spark.sql(f"ALTER TABLE delta.`{location}` SET TBLPROPERTIES ('team' = 'sales')")
    jvm.org.apache.spark.sql.delta.DeltaLog.forTable(spark._jsparkSession, str(location)).checkpoint()
    for version in versions(location)[:-1]:
        for path in location.glob(f"_delta_log/*{version:020d}.*"):
            path.unlink()
    assert oracle.ledger_of(location) == []
    jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.mark.long
def test_with_a_cleaned_log_the_side_file_is_used(small, spark):
    clean_log(spark, small.table)
    go_on(small, spark)


@pytest.mark.parametrize("side_file", ["gone", "older"])
@pytest.mark.long
def test_without_log_and_without_the_newest_side_file_the_ledger_is_lost(side_file, scene, spark):
    entry = oracle.ledger_of(scene.table)[-1]["entry"]
    clean_log(spark, scene.table)
    if side_file == "gone":
        scene.side_file.unlink()
    else:
        shutil.copy(scene.folder / "older.json", scene.side_file)
    assert refused(scene, spark) == (
        f"[LEDGER_LOST] table {scene.table}: its state names ledger entry {entry}, but the log no longer holds it; "
        "nothing was written\n"
        f"  hint: restore {scene.side_file} from a backup"
    )


@pytest.mark.long
def test_a_failure_of_the_first_batch_after_a_cleaned_log_is_judged_by_the_side_file(scene, spark):
    clean_log(spark, scene.table)

    def fail_once(event):
        if isinstance(event, StepReached) and event.step == "write" and not failed:
            failed.append(event)
            raise OSError("the disk was full for a moment")

    failed = []
    assert scene.drain(spark, fail_once).error is None
    assert failed
    assert scene.audit().is_clean


# --- tables that are not the flow's ------------------------------------------------------------------


def test_the_table_of_another_flow_is_refused(small, spark):
    small.options["name"] = "other"
    assert refused(small, spark) == (
        f"[TABLE_FOREIGN] flow other: table {small.table} exists and has no ledger of this flow "
        "(its ledger is that of flow 'shop'); nothing was written\n"
        "  hint: name another table, or move this one away"
    )


@pytest.mark.long
def test_a_renamed_flow_goes_on_and_needs_its_old_name_only_once(scene, spark):
    scene.options |= {"name": "shop_2", "previously": "shop"}
    outcome = scene.drain(spark)
    assert outcome.error is None
    assert outcome.batches > 0
    del scene.options["previously"]
    scene.produce(100, seed=4)
    go_on(scene, spark)


def test_a_table_without_a_ledger_is_refused(make_scene, spark):
    scene = make_scene()
    schema = "id bigint, amount double, name string, at timestamp, kafka_topic string, kafka_partition int"
    schema += ", kafka_offset bigint, kafka_timestamp timestamp, kafka_key string, ingested_at timestamp"
    spark.createDataFrame([], schema).write.format("delta").save(str(scene.table))
    assert refused(scene, spark) == (
        f"[TABLE_FOREIGN] flow shop: table {scene.table} exists and has no ledger of this flow "
        "(no entry in its log); nothing was written\n"
        "  hint: name another table, or take this one over: rivermouth run shop --adopt CHECKPOINT"
    )


def test_a_ledger_of_a_newer_format_is_refused(small, spark):
    newest = small.table / "_delta_log" / f"{versions(small.table)[-1]:020d}.json"
    lines = [json.loads(line) for line in newest.read_text().splitlines()]
    for line in lines:
        if "commitInfo" in line:
            entry = json.loads(line["commitInfo"]["userMetadata"]) | {"rivermouth": FORMAT + 1}
            line["commitInfo"]["userMetadata"] = json.dumps(entry)
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_text("\n".join(map(json.dumps, lines)) + "\n")
    assert refused(small, spark) == (
        f"[LEDGER_TOO_NEW] table {small.table}: its ledger has format {FORMAT + 1}, "
        f"this rivermouth reads up to {FORMAT}; nothing was written\n"
        "  hint: pip install --upgrade rivermouth"
    )


# --- failures of a batch, in this process ------------------------------------------------------------


SHORT = {("write", 4)}
FAILURES = [
    pytest.param(step, times, marks=() if (step, times) in SHORT else LONG)
    for step, times in itertools.product(
        ("ledger", "write", "written", "write_dead_letters", "dead_letters_written", "complete"), (1, 4)
    )
]


@pytest.mark.parametrize(("step", "times"), FAILURES)
def test_a_batch_that_fails_at(step, times, make_scene, spark):
    """Once: it is tried again. Four times: it is tried in halves. Either way nothing is lost or doubled."""
    scene = make_scene()
    scene.produce(400)

    def fail(event):
        if isinstance(event, StepReached) and event.step == step and len(failures) < times:
            failures.append(event)
            raise OSError("the disk was full for a moment")

    failures = []
    outcome = scene.drain(spark, fail)
    assert outcome.error is None, str(outcome.error)
    # After the table's commit there is no second time: the batch is there, and only the rest is made up for.
    assert len(failures) == (times if step in {"ledger", "write", "write_dead_letters", "dead_letters_written"} else 1)
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_a_batch_that_always_fails_ends_with_its_range(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(b'{"id": 1}', b'{"id": 2}')

    def fail(event):
        if isinstance(event, StepReached) and event.step == "write":
            raise OSError("the disk is full")

    outcome = scene.drain(spark, fail)
    assert str(outcome.error) == (
        f"[BATCH_FAILED] flow shop: offsets {scene.topic}-0:0..1 failed 4 times: the disk is full; "
        "they were not written\n"
        "  hint: rivermouth run shop, after the cause is corrected; nothing before these offsets is affected"
    )
    assert scene.drain(spark).error is None
    assert scene.audit().is_clean


# --- the same offsets planned twice ------------------------------------------------------------------


@pytest.mark.long
def test_ranges_that_the_table_has_are_skipped_and_of_an_overlap_the_rest_is_written(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.produce(200, partitions=1)
    assert scene.drain(spark).error is None
    middle = end_of(scene)
    scene.produce(200, partitions=1, seed=2)
    last = max(at[2] for at in scene.records()) + 1

    def plan_again(run):
        if not planned:
            planned.append(write_ranges({scene.topic: {0: (0, middle)}}, run))
            planned.append(write_ranges({scene.topic: {0: (middle // 2, last)}}, run))
        run.stopping.set()

    planned = []
    outcome = scene.follow(spark, until=lambda _event: False, between_batches=plan_again)
    assert outcome.error is None, str(outcome.error)
    assert planned
    assert [event.ranges for event in scene.told(BatchSkipped)][:1] == [{scene.topic: {0: (0, middle)}}]
    assert end_of(scene) >= last
    found = scene.audit()
    assert found.is_clean, str(found)


def test_ranges_that_begin_behind_the_ledger_are_a_stop(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.produce(200, partitions=1)
    assert scene.drain(spark).error is None
    end = end_of(scene)

    def plan_too_late(run):
        write_ranges({scene.topic: {0: (end + 5, end + 6)}}, run)

    outcome = scene.follow(spark, until=lambda _event: False, between_batches=plan_too_late)
    assert str(outcome.error) == (
        f"[LEDGER_GAP] flow shop: topic {scene.topic} partition 0: no batch has the offsets {end} to {end + 5} "
        "(exclusive); nothing was written\n"
        "  hint: rivermouth run shop"
    )


def end_of(scene):
    return oracle.ledger_of(scene.table)[-1]["topics"][scene.topic]["next"]["0"]
