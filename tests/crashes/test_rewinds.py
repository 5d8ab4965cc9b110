"""Back to an offset, and on from a table that others changed: nothing is doubled, and nothing passed over."""

from __future__ import annotations

import signal
from collections import Counter
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from tests.crashes import oracle
from tests.crashes.deciding import (
    GOOD,
    NOBODY,
    at_of,
    decided,
    epochs_of,
    hinted,
    settle,
    status_of,
)
from tests.crashes.test_replay import with_flow

from rivermouth.domain.ledger.erasure import ForgetRequest
from rivermouth.engine.run.requests import Request, execute
from rivermouth.engine.run.supervisor import Supervisor


@pytest.mark.long
def test_a_rewind_is_refused_while_the_table_has_the_rows_and_reads_them_again_when_they_are_taken_away(
    make_scene, spark
):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD, NOBODY] * 10)
    assert scene.drain(spark).error is None
    error = decided(scene, spark, rewind=[f"{scene.topic}-0:7"]).error
    condition = f"`kafka_topic` = '{scene.topic}' AND `kafka_partition` = 0 AND `kafka_offset` BETWEEN 8 AND 18"
    assert str(error) == (
        f"[REWIND_DUPLICATES] flow shop: table {scene.table} has 6 rows of topic {scene.topic} partition 0, offsets 8 "
        "to 18, that would be read again and be there twice; nothing was recorded\n"
        f"  hint: DELETE FROM delta.`{scene.table}` WHERE {condition}"
    )
    spark.sql(error.next_step)
    # Others changed the table now, so that the flow stops until that is decided too.
    assert "[LEDGER_VOID]" in str(scene.drain(spark).error)
    outcome = decided(scene, spark, rewind=[f"{scene.topic}-0:7"])
    assert outcome.error is None, str(outcome.error)
    assert Counter(row["kafka_offset"] for row in oracle.rows_of(scene.table)) == dict.fromkeys(range(0, 20, 2), 1)
    letters = Counter((each["kafka_offset"], each["status"]) for each in oracle.rows_of(scene.dead_letters))
    again = {(offset, status): 1 for offset in range(7, 20, 2) for status in ("open", "discarded")}
    assert letters == {(offset, "open"): 1 for offset in range(1, 7, 2)} | again
    assert scene.drain(spark).error is None


@pytest.mark.long
def test_a_table_that_others_restored_is_kept_by_the_command_in_the_hint(make_scene, spark):
    scene = make_scene(partitions=2)
    for _ in range(3):
        scene.send(*[GOOD] * 10)
        scene.send(*[GOOD] * 10, partition=1)
        assert scene.drain(spark).error is None
    DeltaTable.forPath(spark, str(scene.table)).restoreToVersion(1)
    error = scene.drain(spark).error
    assert str(error) == (
        f"[LEDGER_VOID] table {scene.table}: version 4 (RESTORE) changed its data after ledger entry 3; nothing was "
        "written\n"
        f"  hint: RESTORE TABLE delta.`{scene.table}` TO VERSION AS OF 3; or keep the table as it is: "
        f'rivermouth run shop --rewind {scene.topic}-0:10 --rewind {scene.topic}-1:10 --why "REASON"'
    )
    # Of the other partition rows went too: not to name it would lose them.
    assert str(decided(scene, spark, rewind=[f"{scene.topic}-0:10"]).error) == str(error)
    outcome = decided(scene, spark, **hinted(error))
    assert outcome.error is None, str(outcome.error)
    assert outcome.counts.written == 40
    rows = Counter(at_of(row) for row in oracle.rows_of(scene.table))
    assert rows == {(scene.topic, partition, offset): 1 for partition in (0, 1) for offset in range(30)}


@pytest.mark.long
def test_a_topic_that_was_cut_goes_on_there_and_its_new_records_are_others(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    scene.pretend_the_ledger_is_at(99, instead_of=10)
    decision = hinted(scene.drain(spark).error)
    assert decision["rewind"] == [f"{scene.topic}-0:10"]
    scene.send(*[GOOD] * 5)
    # Meanwhile there are more: what the ledger believes to have read there is not what is there now.
    assert decided(scene, spark, **decision).error is None
    epochs = Counter((row["kafka_epoch"] or 0) for row in oracle.rows_of(scene.table))
    assert epochs == {0: 10, 1: 5}


@pytest.mark.long
def test_of_a_topic_that_was_cut_nothing_is_read_again_that_the_table_or_its_dead_letters_have(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 9, NOBODY)
    assert scene.drain(spark).error is None
    scene.pretend_the_ledger_is_at(99, instead_of=10)
    error = decided(scene, spark, rewind=[f"{scene.topic}-0:4"]).error
    assert str(error) == (
        f"[DECISION_REFUSED] flow shop: --rewind {scene.topic}-0:4 is refused: of what Kafka holds of {scene.topic}-0 "
        "there, the table and its dead letters have 6 records, offsets 4 to 9; nothing was recorded\n"
        f'  hint: rivermouth run shop --rewind {scene.topic}-0:10 --why "REASON"'
    )
    assert decided(scene, spark, **hinted(error)).error is None
    scene.send(*[GOOD] * 5)
    assert scene.drain(spark).error is None
    expected = {(0, offset): 1 for offset in range(9)} | {(1, offset): 1 for offset in range(10, 15)}
    assert epochs_of(scene) == expected
    # Later, too, what lies before the cut is the table's: once the rows of the new epoch are away.
    doubles = decided(scene, spark, rewind=[f"{scene.topic}-0:4"]).error
    assert doubles.code == "REWIND_DUPLICATES"
    spark.sql(doubles.next_step)
    assert epochs_of(scene) == {(0, offset): 1 for offset in range(9)}
    error = decided(scene, spark, rewind=[f"{scene.topic}-0:4"]).error
    assert hinted(error)["rewind"] == [f"{scene.topic}-0:10"]
    assert decided(scene, spark, **hinted(error)).error is None
    assert epochs_of(scene) == expected


@pytest.mark.long
@pytest.mark.parametrize("erased", [pytest.param(False, marks=pytest.mark.long), True])
def test_without_timestamps_what_was_erased_counts_as_what_the_table_has(erased, make_scene, spark):
    columns = ["kafka_topic", "kafka_partition", "kafka_offset"]
    scene = make_scene(partitions=1, metadata_columns=columns)
    scene.send(*[GOOD] * 8, b'{"id": 3, "amount": 1, "name": "eve"}', GOOD)
    assert scene.drain(spark).error is None
    if erased:
        erasure = ForgetRequest(where="name = 'eve'", who="ann@host", at="2026-01-31T12:00:00+00:00", mark="7e1f")
        forget = Request("forget", erasure=erasure)
        assert with_flow(scene, spark, lambda run: execute(run, forget))["records"] == 1
    scene.pretend_the_ledger_is_at(99, instead_of=10)
    told = " (or had them, before they were erased)" if erased else ""
    assert str(decided(scene, spark, rewind=[f"{scene.topic}-0:4"]).error) == (
        f"[DECISION_REFUSED] flow shop: --rewind {scene.topic}-0:4 is refused: of what Kafka holds of {scene.topic}-0 "
        "there, the table and its dead letters have 6 records, offsets 4 to 9, as far as is known without "
        f"kafka_timestamp{told}; nothing was recorded\n"
        f'  hint: rivermouth run shop --rewind {scene.topic}-0:10 --why "REASON"'
    )


@pytest.mark.long
def test_records_that_came_after_a_cut_are_read_though_the_table_has_their_offsets(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    before = scene.topic_id
    scene.make_topic_anew(1)
    scene.send(*[GOOD] * 5)
    # The same topic, as far as the ledger knows, with other records at its offsets.
    newest = max(scene.table.glob("_delta_log/*.json"))
    newest.with_name(f".{newest.name}.crc").unlink(missing_ok=True)
    newest.write_text(newest.read_text().replace(before, scene.topic_id))
    scene.side_file.write_text("{}")
    assert "[OFFSETS_BEYOND_END]" in str(scene.drain(spark).error)
    outcome = decided(scene, spark, rewind=[f"{scene.topic}-0:0"])
    assert outcome.error is None, str(outcome.error)
    assert epochs_of(scene) == {(0, offset): 1 for offset in range(10)} | {(1, offset): 1 for offset in range(5)}


@pytest.mark.long
def test_a_table_that_was_restored_to_a_point_in_time_loses_nothing(make_scene, spark):
    scene = make_scene(partitions=1)
    for _ in range(3):
        scene.send(*[GOOD] * 10)
        assert scene.drain(spark).error is None
    # A version's time is that of its file.
    at = Path(scene.table, "_delta_log", f"{1:020d}.json").stat().st_mtime_ns // 1_000_000 + 1
    literal = spark.sql(f"SELECT CAST(timestamp_millis({at}) AS STRING)").collect()[0][0]
    spark.sql(f"RESTORE delta.`{scene.table}` TO TIMESTAMP AS OF '{literal}'")
    error = scene.drain(spark).error
    assert hinted(error)["rewind"] == [f"{scene.topic}-0:earliest"]
    doubles = decided(scene, spark, **hinted(error)).error
    assert (doubles.code, doubles.facts["first"], doubles.facts["last"]) == ("REWIND_DUPLICATES", 0, 9)
    assert decided(scene, spark, rewind=[f"{scene.topic}-0:10"]).error is None
    assert epochs_of(scene) == {(0, offset): 1 for offset in range(30)}


@pytest.mark.long
def test_a_delete_for_a_rewind_leaves_the_rows_of_other_epochs(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    scene.make_topic_anew(1)
    scene.send(*[GOOD] * 10)
    assert decided(scene, spark, new_epoch=[scene.topic]).error is None
    doubles = decided(scene, spark, rewind=[f"{scene.topic}-0:5"]).error
    assert doubles.next_step.endswith("`kafka_offset` BETWEEN 5 AND 9 AND coalesce(kafka_epoch, 0) = 1")
    spark.sql(doubles.next_step)
    assert decided(scene, spark, rewind=[f"{scene.topic}-0:5"]).error is None
    assert epochs_of(scene) == {(epoch, offset): 1 for epoch in (0, 1) for offset in range(10)}


@pytest.mark.long
def test_a_table_restored_to_before_its_epochs_gets_their_column_again(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    scene.make_topic_anew(1)
    scene.send(*[GOOD] * 5)
    assert decided(scene, spark, new_epoch=[scene.topic]).error is None
    DeltaTable.forPath(spark, str(scene.table)).restoreToVersion(1)
    assert settle(scene, spark) == 1
    assert epochs_of(scene) == {(0, offset): 1 for offset in range(10)} | {(1, offset): 1 for offset in range(5)}


@pytest.mark.long
def test_a_column_of_the_table_that_is_no_epoch_is_not_taken_for_one(make_scene, spark):
    scene = make_scene(partitions=1)
    scene.send(GOOD)
    assert scene.drain(spark).error is None
    spark.sql(f"ALTER TABLE delta.`{scene.table}` ADD COLUMNS (Kafka_Epoch string)")
    scene.make_topic_anew(1)
    assert str(decided(scene, spark, new_epoch=[scene.topic]).error) == (
        "[EPOCH_COLUMN_TAKEN] flow shop: rows of a new epoch have its number in the column kafka_epoch, and the "
        "table has one of that name that is no int; nothing was written\n"
        "  hint: write the topic as it is now into a new table, by another flow"
    )


@pytest.mark.long
def test_a_changed_table_of_a_topic_that_is_another_now_is_settled_by_the_hints(make_scene, spark):
    scene = make_scene(partitions=2)
    more = f"{scene.topic}-more"
    scene.make_topic(more, 1)
    scene.topics.append(more)
    scene.send(*[GOOD] * 4)
    scene.send(*[GOOD] * 4, topic=more)
    assert scene.drain(spark).error is None
    scene.send(*[GOOD] * 4)
    assert scene.drain(spark).error is None
    DeltaTable.forPath(spark, str(scene.table)).restoreToVersion(0)
    scene.make_topic_anew(1)
    scene.send(*[GOOD] * 3)
    assert settle(scene, spark) <= 3
    rows = Counter(at_of(row) for row in oracle.rows_of(scene.table))
    assert rows == {(scene.topic, 0, o): 1 for o in range(3)} | {(more, 0, o): 1 for o in range(4)}


def test_an_open_transaction_is_no_cut(make_scene, spark):
    """A ledger that read uncommitted records is ahead of the last stable offset; the topic's log still holds all."""
    scene = make_scene(partitions=1)
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers, "transactional.id": scene.topic})
    producer.init_transactions(30)
    producer.begin_transaction()
    for _ in range(5):
        producer.produce(scene.topic, value=GOOD)
    producer.flush(30)
    order = replace(scene.order, options={"isolation.level": "read_uncommitted"})
    (outcome,) = Supervisor(spark, lambda _: None, lambda _: None).run([order], keep_following=False)
    assert (outcome.error, outcome.counts.written) == (None, 5)
    later = scene.drain(spark)
    assert (later.error, later.batches) == (None, 0)
    assert status_of(scene).code is None
    producer.commit_transaction(30)
    scene.send(GOOD)
    later = scene.drain(spark)
    assert (later.error, later.counts.written) == (None, 1)


@pytest.mark.long
def test_a_changed_table_whose_last_batch_was_not_settled_and_whose_topic_is_another_now(make_scene, children, spark):
    scene = make_scene(partitions=2)
    scene.send(*[GOOD, NOBODY] * 5)
    scene.send(*[GOOD, NOBODY] * 5, partition=1)
    child = children.run(scene, own_jvm=False, kill={"on": "dead_letters", "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    spark.sql(f"DELETE FROM delta.`{scene.table}` WHERE kafka_offset = 0")
    scene.make_topic_anew(1)
    scene.send(*[GOOD] * 3)
    assert settle(scene, spark) <= 3
    assert Counter(row.get("kafka_epoch") or 0 for row in oracle.rows_of(scene.table)) == {0: 8, 1: 3}


@pytest.mark.long
def test_a_batch_that_was_not_settled_before_others_changed_the_table_is_read_again(make_scene, end_at, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD, NOBODY] * 5)
    end_at(scene, "dead_letters")
    spark.sql(f"DELETE FROM delta.`{scene.table}`")
    error = decided(scene, spark, rewind=[f"{scene.topic}-0:10"]).error
    assert str(error) == (
        "[DECISION_REFUSED] flow shop: --rewind is refused: the last batch was not complete when others changed the "
        "table, so it has to be read again; nothing was recorded\n"
        f'  hint: rivermouth run shop --rewind {scene.topic}-0:0 --why "REASON"'
    )
    assert decided(scene, spark, **hinted(error)).error is None
    found = scene.audit()
    assert found.is_clean, str(found)


@pytest.mark.long
def test_a_decision_that_is_refused_does_not_hide_what_others_did(make_scene, children, spark):
    scene = make_scene(partitions=1)
    scene.send(*[GOOD] * 10)
    assert scene.drain(spark).error is None
    scene.send(*[GOOD] * 20)
    scene.drop_before(25)
    scene.decision = {"why": "we know", "accept_loss": [f"{scene.topic}-0:10-25"]}
    child = children.run(scene, own_jvm=False, kill={"on": "decided", "who": "python"})
    assert child.code == -signal.SIGKILL, child.said()
    spark.sql(f"DELETE FROM delta.`{scene.table}` WHERE kafka_offset = 0")
    before = scene.side_file.read_text()
    assert decided(scene, spark, rewind=[f"{scene.topic}-0:99"]).error.code == "DECISION_REFUSED"
    assert scene.side_file.read_text() == before
    assert settle(scene, spark) == 1
    assert epochs_of(scene) == {(0, offset): 1 for offset in (*range(1, 10), *range(25, 30))}
