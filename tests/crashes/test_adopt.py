"""A table that a plain Structured Streaming query wrote becomes a flow's: no record twice, none left out."""

from __future__ import annotations

import re
import shutil
from collections import Counter

import pytest
from tests.crashes import oracle
from tests.crashes.deciding import decided, status_of
from tests.crashes.test_ledger import clean_log

from rivermouth.domain.ledger.adoption import Adoption
from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.events import Warned
from rivermouth.engine.open import adopt
from rivermouth.engine.report.plan import plan_flow
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import LakeNotReadable
from rivermouth.ports.lake.lake_files import PlacedFiles


@pytest.fixture
def scene(make_scene):
    return make_scene(partitions=2)


def good(*numbers):
    return [b'{"id": %d, "amount": 1, "name": "x"}' % number for number in numbers]


class Notebook:
    """The query that people have: Kafka's records, parsed, into a table; with a checkpoint of its own."""

    def __init__(self, scene, spark, folder):
        self.scene = scene
        self.checkpoint = folder / "notebook"
        self._spark = spark

    def run(self, *, coordinates=False, each_batch=None):
        records = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.scene.bootstrap_servers)
            .option("subscribe", ",".join(self.scene.topics))
            .option("startingOffsets", "earliest")
            .load()
        )
        columns = ["from_json(CAST(value AS string), 'id bigint, amount double, name string') AS body"]
        if coordinates:
            columns += ["topic AS kafka_topic", "partition AS kafka_partition", "offset AS kafka_offset"]
        rows = records.selectExpr(*columns, "1 AS extra").select("body.*", *[c.split(" AS ")[1] for c in columns[1:]])
        writer = rows.writeStream.option("checkpointLocation", str(self.checkpoint)).trigger(availableNow=True)
        if each_batch is not None:
            writer = writer.foreachBatch(each_batch)
            query = writer.start()
        else:
            query = writer.format("delta").start(str(self.scene.table))
        query.awaitTermination(60)


@pytest.fixture
def notebook(scene, spark, tmp_path):
    return Notebook(scene, spark, tmp_path)


def adopting(scene, source):
    return scene.order.starting(adoption=Adoption(str(source), "ann@host", "2026-01-31T12:00:00+00:00"))


def planned(scene, spark, source):
    """What a plan says of a run that takes the table over."""
    return plan_flow(spark, adopting(scene, source))


def adopted(scene, spark, source):
    """A run that takes the table over; its outcome and what it warned of."""
    heard = []
    order = adopting(scene, source)
    outcome = Supervisor(spark, heard.append, lambda _run: None).run([order], keep_following=False)[0]
    return outcome, [event.message for event in heard if isinstance(event, Warned)]


def refusal(scene, spark, source):
    foreseen = planned(scene, spark, source).problem
    outcome, _warned = adopted(scene, spark, source)
    assert oracle.ledger_of(scene.table) == []
    assert str(foreseen) == str(outcome.error)
    return str(outcome.error)


def ids_of(scene):
    return Counter(row["id"] for row in oracle.rows_of(scene.table))


def test_a_table_is_taken_over_behind_a_checkpoint_and_only_once(scene, notebook, spark):
    """The short form of the next one."""
    scene.send(*good(1, 2))
    notebook.run()
    scene.send(*good(3), b"{broken")
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert (outcome.counts.consumed, outcome.counts.written, outcome.counts.dead_lettered) == (2, 1, 1)
    assert warned == []
    [decision] = status_of(scene).decisions
    assert (decision.kind, decision.moves, decision.who) == ("adopt", {0: (2, 2), 1: (0, 0)}, "ann@host")
    scene.send(*good(4), partition=1)
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert (outcome.error, outcome.counts.consumed) == (None, 1)
    assert warned == ["--adopt has no effect: the table has a ledger, and goes on at it"]
    rows = {row["id"]: (row["kafka_partition"], row["kafka_offset"]) for row in oracle.rows_of(scene.table)}
    assert rows == {1: (None, None), 2: (None, None), 3: (0, 2), 4: (1, 0)}
    assert set(ids_of(scene).values()) == {1}


@pytest.mark.long
def test_behind_a_checkpoint_every_record_comes_once(scene, notebook, spark):
    scene.send(*good(1, 2, 3))
    scene.send(*good(4, 5), partition=1)
    notebook.run()
    scene.send(*good(6, 7), b"{broken")
    error = scene.drain(spark).error
    assert str(error) == (
        f"[TABLE_FOREIGN] flow shop: table {scene.table} exists and has no ledger of this flow "
        "(no entry in its log); nothing was written\n"
        "  hint: name another table, or take this one over: rivermouth run shop --adopt CHECKPOINT"
    )
    basis = f"checkpoint {notebook.checkpoint}, batch 0"
    foreseen = planned(scene, spark, notebook.checkpoint)
    assert foreseen.problem is None
    assert (foreseen.creates_table, foreseen.entry, foreseen.ranges) == (False, None, {scene.topic: {0: (3, 6)}})
    assert foreseen.start == f"what the table has, by {basis}: it would be taken over"
    [added] = foreseen.warnings
    assert added.startswith("taking it over adds column at timestamp, adds column kafka_topic string, ")
    assert oracle.ledger_of(scene.table) == []
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert (outcome.counts.consumed, outcome.counts.written, outcome.counts.dead_lettered) == (3, 2, 1)
    assert warned == []
    assert ids_of(scene) == dict.fromkeys(range(1, 8), 1)
    rows = {row["id"]: (row["kafka_partition"], row["kafka_offset"]) for row in oracle.rows_of(scene.table)}
    assert rows == dict.fromkeys(range(1, 6), (None, None)) | {6: (0, 3), 7: (0, 4)}
    [decision] = status_of(scene).decisions
    assert (decision.kind, decision.moves, decision.who, decision.why) == (
        "adopt",
        {0: (3, 3), 1: (2, 2)},
        "ann@host",
        basis,
    )
    # And from now on it is a flow like any other.
    scene.send(*good(8), partition=1)
    assert scene.follow(spark).error is None
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert (outcome.error, outcome.counts.consumed) == (None, 0)
    assert warned == ["--adopt has no effect: the table has a ledger, and goes on at it"]
    assert planned(scene, spark, notebook.checkpoint).warnings == tuple(warned)
    assert ids_of(scene) == dict.fromkeys(range(1, 9), 1)
    audit = audit_flow(spark, scene.order)
    assert (audit.problems, audit.found.visible, audit.ranges) == ((), 4, {scene.topic: {0: (3, 6), 1: (2, 3)}})


@pytest.mark.parametrize("landed", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_batch_that_was_begun_and_not_ended_is_judged_by_the_tables_own_transactions(landed, scene, notebook, spark):
    scene.send(*good(1, 2))
    notebook.run()
    scene.send(*good(3, 4))
    notebook.run()
    # As if it had been killed after its commit, or before.
    for name in ("1", ".1.crc"):
        (notebook.checkpoint / "commits" / name).unlink()
    if not landed:
        for path in scene.table.glob("_delta_log/*1.*"):
            path.unlink()
        spark._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    outcome, _warned = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert outcome.counts.consumed == (0 if landed else 2)
    assert ids_of(scene) == dict.fromkeys(range(1, 5), 1)


@pytest.mark.long
def test_of_foreach_batch_nobody_can_say_so(scene, notebook, spark):
    def write(rows, batch_id):
        rows.write.format("delta").mode("append").save(str(scene.table))
        if batch_id == 1:
            raise OSError("killed")

    scene.send(*good(1, 2))
    notebook.run(each_batch=write)
    scene.send(*good(3))
    with pytest.raises(Exception, match="killed"):
        notebook.run(each_batch=write)
    assert refusal(scene, spark, notebook.checkpoint) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {notebook.checkpoint}: batch 1 of "
        "its query was begun and not ended, so it is not known whether the table has it; nothing was written\n"
        "  hint: start the old query once more, let it end that batch, and stop it"
    )


@pytest.mark.long
def test_behind_the_rows_of_a_table_that_has_their_coordinates(scene, notebook, spark):
    scene.send(*good(1, 2, 3))
    notebook.run(coordinates=True)
    scene.send(*good(4))
    scene.send(*good(5), partition=1)
    outcome, _warned = adopted(scene, spark, "table")
    assert outcome.error is None, str(outcome.error)
    assert ids_of(scene) == dict.fromkeys(range(1, 6), 1)
    [decision] = status_of(scene).decisions
    assert (decision.moves, decision.why) == ({0: (3, 3), 1: (0, 0)}, "its rows")


@pytest.mark.long
def test_without_coordinates_its_rows_say_nothing(scene, notebook, spark):
    scene.send(*good(1))
    notebook.run()
    assert refusal(scene, spark, "table") == (
        "[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt table: the table has no column "
        "kafka_topic, kafka_partition, kafka_offset; nothing was written\n"
        "  hint: rivermouth run shop --adopt CHECKPOINT"
    )


def test_what_is_no_checkpoint_of_this_flow(scene, notebook, spark, tmp_path):
    outcome, _warned = adopted(scene, spark, notebook.checkpoint)
    assert str(outcome.error) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {notebook.checkpoint}: there is no "
        f"table at {scene.table}; nothing was written\n"
        "  hint: in flow shop: places: {table: ...}"
    )
    scene.send(*good(1))
    notebook.run()
    folder = "  hint: name the checkpointLocation of a query that reads Kafka alone and has ended a batch"
    assert refusal(scene, spark, tmp_path / "none") == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {tmp_path}/none: there is no such "
        f"folder; nothing was written\n{folder}"
    )
    assert refusal(scene, spark, scene.table) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {scene.table}: its query has not "
        f"ended a batch; nothing was written\n{folder}"
    )
    # The flow reads another topic than the query did.
    mine = scene.topics.pop()
    scene.topics.append(f"{mine}-other")
    scene.make_topic(f"{mine}-other")
    assert refusal(scene, spark, notebook.checkpoint) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {notebook.checkpoint}: its query did "
        f"not read topic {mine}-other; nothing was written\n"
        "  hint: let the flow read the topics that the table was made of"
    )


@pytest.mark.long
def test_what_another_query_read_is_no_start_of_this_flow(scene, notebook, spark):
    mine, other = scene.topic, f"{scene.topic}-other"
    scene.make_topic(other, 1)
    scene.topics.append(other)
    scene.send(*good(1, 2))
    scene.send(*good(3), partition=1)
    scene.send(*good(4), topic=other)
    notebook.run(coordinates=True)
    text = (
        "[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {}: {}; nothing was written\n"
        "  hint: {}"
    )
    topics = "let the flow read the topics that the table was made of"
    scene.topics.remove(other)
    assert refusal(scene, spark, notebook.checkpoint) == text.format(
        notebook.checkpoint, f"its query also read topic {other}, which the flow does not", topics
    )
    assert refusal(scene, spark, "table") == text.format(
        "table", f"it has rows of topic {other}, which the flow does not read", topics
    )
    scene.topics.append(other)
    scene.make_topic_anew(1)
    scene.send(*good(5, 6, 7))
    for source in (notebook.checkpoint, "table"):
        assert refusal(scene, spark, source) == text.format(
            source, f"it was read from partition 1 of topic {mine}, which is not there", topics
        )
    # As of a query over two topics that it joins: a line of offsets each.
    offsets = notebook.checkpoint / "offsets" / "0"
    offsets.with_name(".0.crc").unlink()
    offsets.write_text(offsets.read_text() + "\n" + offsets.read_text().splitlines()[-1])
    assert refusal(scene, spark, notebook.checkpoint) == text.format(
        notebook.checkpoint,
        "its query reads more than one source",
        "name the checkpointLocation of a query that reads Kafka alone and has ended a batch",
    )


CANNOT_READ = (
    "[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {}: {}; nothing was written\n"
    "  hint: rivermouth run shop --adopt CHECKPOINT, one that Spark and this user can read"
)


def test_a_checkpoint_that_cannot_be_read_is_told_by_what_keeps_it_from_that(scene, notebook, spark):
    scene.send(*good(1))
    notebook.run()
    metadata = notebook.checkpoint / "metadata"
    metadata.unlink()
    metadata.mkdir()
    detail = f"it cannot be read: [Errno 21] Is a directory: '{metadata}'"
    assert refusal(scene, spark, notebook.checkpoint) == CANNOT_READ.format(notebook.checkpoint, detail)
    java = "org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme"
    elsewhere = "elsewhere://host/notebook"
    assert refusal(scene, spark, elsewhere) == CANNOT_READ.format(
        elsewhere, f'cannot read {elsewhere}: {java} "elsewhere"'
    )


@pytest.mark.long
def test_a_checkpoint_in_a_bucket_that_is_not_there_is_told(scene, notebook, spark, bucket):
    scene.send(*good(1))
    notebook.run()
    source = f"s3a://{bucket(exists=False)}/notebook"
    with pytest.raises(LakeNotReadable) as caught:
        PlacedFiles(spark).names(source)
    told = [CANNOT_READ.format(source, caught.value.message), str(adopted(scene, spark, source)[0].error)]
    # Each request has an id of its own.
    assert len({re.sub(r"Request ID: \w+", "", each) for each in told}) == 1


@pytest.mark.long
def test_a_table_that_is_written_to_meanwhile_is_not_taken_over(scene, notebook, spark, monkeypatch):
    scene.send(*good(1))
    notebook.run()
    honest = adopt.adopting.entry_zero

    def while_another_writes(*arguments, **options):
        scene.send(*good(2))
        notebook.run()
        return honest(*arguments, **options)

    with monkeypatch.context() as busy:
        busy.setattr(adopt.adopting, "entry_zero", while_another_writes)
        outcome, _warned = adopted(scene, spark, notebook.checkpoint)
    assert str(outcome.error) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {notebook.checkpoint}: another "
        "program wrote to it meanwhile; nothing was written\n"
        "  hint: stop that program, then run this again"
    )
    assert oracle.ledger_of(scene.table) == []
    assert adopted(scene, spark, notebook.checkpoint)[0].error is None
    assert ids_of(scene) == {1: 1, 2: 1}


@pytest.mark.long
def test_an_old_copy_of_the_checkpoint_is_refused(scene, notebook, spark, tmp_path):
    scene.send(*good(1))
    notebook.run()
    shutil.copytree(notebook.checkpoint, tmp_path / "older")
    scene.send(*good(2))
    notebook.run()
    assert refusal(scene, spark, tmp_path / "older") == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {tmp_path}/older: the table has its "
        "query's batches up to 1, the checkpoint those up to 0; nothing was written\n"
        "  hint: name the newest checkpoint of the query that wrote the table last"
    )


@pytest.mark.long
def test_a_query_that_left_no_trace_in_the_table_is_warned_of(scene, notebook, spark):
    scene.send(*good(1))
    notebook.run(each_batch=lambda rows, _: rows.write.format("delta").mode("append").save(str(scene.table)))
    scene.send(*good(2))
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert warned == [f"nothing in the table says that the query of checkpoint {notebook.checkpoint} wrote it"]
    assert ids_of(scene) == {1: 1, 2: 1}


@pytest.mark.long
def test_a_plan_says_what_the_run_would_meet_after_it(scene, notebook, spark):
    scene.send(*good(1, 2))
    notebook.run()
    scene.send(*good(3, 4, 5))
    scene.drop_before(4)
    foreseen = planned(scene, spark, notebook.checkpoint)
    assert (foreseen.problem, foreseen.ranges) == (None, {scene.topic: {0: (2, 5)}})
    assert foreseen.warnings[-1] == (
        f"the run would take the table over, and then stop: flow shop: topic {scene.topic} partition 0: offsets 2 to 4 "
        "(exclusive) are no longer in Kafka, which lacks 2 offsets in total"
    )
    scene.options["on_data_loss"] = "record"
    foreseen = planned(scene, spark, notebook.checkpoint)
    assert foreseen.ranges == {scene.topic: {0: (4, 5)}}
    assert "2 to 4" in foreseen.warnings[-1]
    outcome, _ = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert ids_of(scene) == {1: 1, 2: 1, 5: 1}


@pytest.mark.long
def test_rows_without_coordinates_among_others_are_refused(scene, notebook, spark):
    scene.send(*good(1))
    notebook.run(coordinates=True)
    spark.sql(f"INSERT INTO delta.`{scene.table}` (id) VALUES (9)")
    assert refusal(scene, spark, "table") == (
        "[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt table: some of its rows have no "
        "kafka_topic, kafka_partition or kafka_offset; nothing was written\n"
        "  hint: rivermouth run shop --adopt CHECKPOINT"
    )


@pytest.mark.long
def test_a_topic_that_ends_before_the_table_is_another_one(scene, notebook, spark):
    scene.send(*good(1, 2, 3))
    notebook.run()
    scene.make_topic_anew()
    scene.send(*good(4))
    assert refusal(scene, spark, notebook.checkpoint) == (
        f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {notebook.checkpoint}: "
        f"{scene.topic}-0 was read up to 3, and ends at 1: is it another topic by now?; nothing was written\n"
        "  hint: let the flow read the topics that the table was made of"
    )


def test_a_column_that_takes_no_null_is_refused(scene, spark, notebook):
    columns = "id bigint, amount double, name string, day string NOT NULL"
    spark.sql(f"CREATE TABLE delta.`{scene.table}` ({columns}) USING delta")
    assert refusal(scene, spark, notebook.checkpoint) == (
        f"[TABLE_MISMATCH] flow shop: table {scene.table} does not fit the flow: its column day takes no null, and the "
        "flow does not write it; nothing was written\n"
        "  hint: write into a new table, or declare the schema that the table has"
    )


@pytest.mark.long
def test_nobody_reads_again_what_an_adopted_table_has_without_coordinates(scene, notebook, spark):
    scene.send(*good(1, 2, 3))
    notebook.run()
    assert adopted(scene, spark, notebook.checkpoint)[0].error is None
    scene.send(*good(4))
    assert scene.drain(spark).error is None
    assert str(decided(scene, spark, rewind=[f"{scene.topic}-0:earliest"]).error) == (
        f"[DECISION_REFUSED] flow shop: --rewind {scene.topic}-0:earliest is refused: the table was taken over at 3, "
        "and it is not known which earlier records it has; nothing was recorded\n"
        f'  hint: rivermouth run shop --rewind {scene.topic}-0:3 --why "REASON"'
    )
    assert ids_of(scene) == dict.fromkeys(range(1, 5), 1)


@pytest.mark.long
def test_an_adopted_table_whose_log_was_cleaned_is_not_adopted_again(scene, notebook, spark):
    scene.send(*good(1))
    notebook.run()
    assert adopted(scene, spark, notebook.checkpoint)[0].error is None
    scene.send(*good(2))
    assert scene.drain(spark).error is None
    clean_log(spark, scene.table)
    outcome, warned = adopted(scene, spark, notebook.checkpoint)
    assert outcome.error is None, str(outcome.error)
    assert warned == ["--adopt has no effect: the table has a ledger, and goes on at it"]
    assert planned(scene, spark, notebook.checkpoint).warnings == tuple(warned)
    assert ids_of(scene) == {1: 1, 2: 1}


def test_a_column_of_another_type_is_refused_and_nothing_is_added(scene, spark, tmp_path, notebook):
    scene.send(*good(1))
    notebook.run()
    columns = spark.read.format("delta").load(str(scene.table)).columns
    scene.options["format"] = {"type": "json", "schema": "id string, amount double, name string"}
    assert refusal(scene, spark, notebook.checkpoint) == (
        f"[TABLE_MISMATCH] flow shop: table {scene.table} does not fit the flow: its column id is bigint, the flow "
        "writes string; nothing was written\n"
        "  hint: write into a new table, or declare the schema that the table has"
    )
    assert spark.read.format("delta").load(str(scene.table)).columns == columns
