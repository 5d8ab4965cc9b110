"""A table that another job merges by key becomes an upsert's: its rows are older than any record."""

from __future__ import annotations

import pytest
from confluent_kafka import Producer
from delta.tables import DeltaTable
from pyspark.sql import functions as F
from tests.crashes import oracle

from rivermouth.domain.ledger.adoption import Adoption
from rivermouth.engine.audit.audit import audit_flow
from rivermouth.engine.events import StepReached, Warned
from rivermouth.engine.report.plan import plan_flow
from rivermouth.engine.run.supervisor import Supervisor

COLUMNS = "id bigint, amount double"
# As the job calls what it keeps of Kafka; in the flow's words.
CALLED = {
    "kafka_topic": "kafka_topic",
    "kafka_partition": "kafka_partition",
    "kafka_offset": "kafka_offset",
    "kafka_timestamp": "kafka_ts",
    "kafka_key": "kafka_key",
}


class MergeJob:
    """The job that people have: ``foreachBatch`` merges the newest record of each key of a batch."""

    def __init__(self, scene, spark, folder):
        self.scene, self.checkpoint, self._spark = scene, folder / "job", spark

    def run(self, *, dies_after=None):
        """Carries what is there; ``dies_after`` is the number of a batch that is merged and not ended."""
        records = (
            self._spark.readStream.format("kafka")
            .option("kafka.bootstrap.servers", self.scene.bootstrap_servers)
            .option("subscribe", self.scene.topic)
            .option("startingOffsets", "earliest")
            .load()
            .where("value IS NOT NULL")
            .selectExpr(
                "CAST(key AS STRING) AS kafka_key",
                "offset AS kafka_offset",
                "timestamp AS kafka_ts",
                f"from_json(CAST(value AS STRING), '{COLUMNS}') AS body",
            )
            .select("kafka_key", "kafka_offset", "kafka_ts", "body.*")
        )

        def merge(batch, number):
            self._merged(batch)
            if number == dies_after:
                raise OSError("killed")

        query = records.writeStream.foreachBatch(merge).option("checkpointLocation", str(self.checkpoint))
        query.trigger(availableNow=True).start().awaitTermination(60)

    def _merged(self, batch):
        if not DeltaTable.isDeltaTable(self._spark, str(self.scene.table)):
            batch.limit(0).write.format("delta").save(str(self.scene.table))
        columns = F.struct(*batch.columns)
        newest = batch.groupBy("kafka_key").agg(F.max_by(columns, "kafka_offset").alias("row")).select("row.*")
        table = DeltaTable.forPath(batch.sparkSession, str(self.scene.table)).alias("t")
        merge = table.merge(newest.alias("s"), "s.kafka_key = t.kafka_key")
        merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


@pytest.fixture
def scene(make_scene):
    options = {"format": {"type": "json", "schema": COLUMNS}, "expectations": [], "sink": "upsert"}
    found = make_scene(partitions=2, **options)
    found.options["metadata_columns"] = CALLED
    return found


@pytest.fixture
def job(scene, spark, tmp_path):
    return MergeJob(scene, spark, tmp_path)


def send(scene, key, value, partition=0, **more):
    body = None if value is None else b'{"id": %d, "amount": %d}' % value
    producer = Producer({"bootstrap.servers": scene.bootstrap_servers})
    producer.produce(scene.topic, value=body, key=key, partition=partition, **more)
    assert producer.flush(30) == 0


def adopted(scene, spark, source, hear=lambda _event: None):
    """How the run ended, which a plan refuses for the same reason, and what it warned of."""
    order = scene.order.starting(adoption=Adoption(str(source), "ann@host", "2026-01-31T12:00:00+00:00"))
    foreseen, heard = plan_flow(spark, order), []

    def listen(event):
        heard.append(event)
        hear(event)

    outcome = Supervisor(spark, listen, lambda _run: None).run([order], keep_following=False)[0]
    assert foreseen.problem is None or str(foreseen.problem) == str(outcome.error)
    return outcome, [event.message for event in heard if isinstance(event, Warned)]


def rows_of(scene):
    rows = oracle.rows_of(scene.table)
    return {
        row["kafka_key"]: (row["id"], row["amount"], row["kafka_partition"], row["kafka_offset"]) for row in rows
    }, len(rows)


def is_sound(scene, spark):
    audit = audit_flow(spark, scene.order)
    assert audit.problems == ()
    return audit.found


@pytest.mark.long
def test_the_table_of_a_merge_job_goes_on_as_an_upserts(scene, job, spark):
    for key, value in (("a", (1, 1)), ("b", (2, 2)), ("a", (1, 3)), ("c", (3, 3)), ("d", (4, 4))):
        send(scene, key, value)
    job.run()
    # An update, an insert, a deletion, and a record of another partition, by a clock that is years behind.
    send(scene, "a", (1, 5))
    send(scene, "e", (5, 5))
    send(scene, "b", None)
    send(scene, "c", (3, 9), partition=1, timestamp=1_600_000_000_000)
    assert str(scene.drain(spark).error).startswith("[TABLE_FOREIGN]")
    outcome, warned = adopted(scene, spark, job.checkpoint)
    assert (outcome.error, outcome.counts.consumed, outcome.counts.merged) == (None, 4, 4)
    assert warned == [f"nothing in the table says that the query of checkpoint {job.checkpoint} wrote it"]
    expected = {"a": (1, 5.0, 0, 5), "c": (3, 9.0, 1, 0), "d": (4, 4.0, None, 4), "e": (5, 5.0, 0, 6)}
    assert rows_of(scene) == (expected, 4)
    assert (is_sound(scene, spark).visible, is_sound(scene, spark).in_table) == (4, 4)

    # From now on it is a flow's: late and repeated records change nothing, and keys come and go.
    send(scene, "b", (2, 7))
    send(scene, "d", None)
    send(scene, "a", (1, 8))
    outcome, warned = adopted(scene, spark, job.checkpoint)
    assert (outcome.error, warned) == (None, ["--adopt has no effect: the table has a ledger, and goes on at it"])
    expected |= {"a": (1, 8.0, 0, 10), "b": (2, 7.0, 0, 8)}
    del expected["d"]
    assert rows_of(scene) == (expected, 4)
    assert is_sound(scene, spark).in_table == 7


@pytest.mark.long
def test_a_batch_that_was_not_ended_is_merged_again(scene, job, spark):
    send(scene, "a", (1, 1))
    send(scene, "b", (2, 2))
    job.run()
    send(scene, "a", (1, 3))
    send(scene, "c", (3, 3))
    with pytest.raises(Exception, match="killed"):
        job.run(dies_after=1)
    send(scene, "b", None)
    called = {name: column for name, column in CALLED.items() if name != "kafka_timestamp"}
    scene.options["metadata_columns"] = called | {"kafka_timestamp": "kafka_timestamp"}
    outcome, warned = adopted(scene, spark, job.checkpoint)
    assert (outcome.error, outcome.counts.consumed) == (None, 3)
    doubt = f"nothing in the table says that the query of checkpoint {job.checkpoint} wrote it"
    assert warned == [
        f"{doubt}; its batch 1 was begun and not ended, so its records are merged again",
        "the flow does not write the table's columns kafka_ts: a row that a record replaces keeps theirs",
    ]
    assert rows_of(scene) == ({"a": (1, 3.0, 0, 2), "c": (3, 3.0, 0, 3)}, 2)
    assert is_sound(scene, spark).in_table == 3


@pytest.mark.long
def test_by_a_sequence_of_its_own_the_table_is_compared(scene, job, spark):
    scene.options["sink"] = {"type": "upsert", "keys": ["id"], "sequence_by": "amount"}
    for key, value in (("a", (1, 5)), ("b", (2, 5)), ("c", (3, 5))):
        send(scene, key, value)
    job.run()
    for key, value in (("a", (1, 4)), ("b", (2, 6)), ("c", None)):
        send(scene, key, value)
    send(scene, "3", None)
    reached = []

    def dies(event):
        if isinstance(event, StepReached) and (event.step == "dead_letters" or reached):
            reached.append(event)
            raise OSError("the machine is going down")

    # It dies after the first commit: what changed no row of the other job was merged all the same.
    outcome, _warned = adopted(scene, spark, job.checkpoint, dies)
    assert outcome.error is not None
    assert scene.drain(spark).error is None
    # The key "c" is no id.
    assert [(row["kafka_offset"], row["reason"]) for row in oracle.rows_of(scene.dead_letters)] == [(5, "KEY_NULL")]
    assert rows_of(scene) == ({"a": (1, 5.0, None, 0), "b": (2, 6.0, 0, 4)}, 2)
    assert is_sound(scene, spark).in_table == 3


@pytest.mark.long
def test_a_table_is_refused_whose_rows_the_keys_do_not_tell_apart(scene, job, spark):
    other = "in flow shop: sink: {type: upsert, keys: [...]}, with the columns that the old job merged by"
    for key, value in (("a", (1, 1)), ("b", (1, 2)), ("c", (2, 3))):
        send(scene, key, value)
    job.run()

    def told(source=job.checkpoint):
        outcome, _ = adopted(scene, spark, source)
        assert oracle.ledger_of(scene.table) == []
        text = str(outcome.error)
        begin = f"[ADOPTION_REFUSED] flow shop: its table cannot be taken over by --adopt {source}: "
        assert text.startswith(begin)
        return text.removeprefix(begin).split("; nothing was written\n  hint: ")

    scene.options["sink"] = {"type": "upsert", "keys": ["id"]}
    doubled = "1 values of id are in more than one of its rows, and the flow has one row for each"
    assert told() == [doubled, f"{other}; or remove the rows that are there twice"]
    spark.sql(f"UPDATE delta.`{scene.table}` SET id = NULL WHERE kafka_key < 'c'")
    assert told() == ["2 of its rows have no id, the key of the flow", other]
    scene.options["sink"] = {"type": "upsert", "keys": [{"part": "kafka_partition"}, "kafka_key"]}
    assert told() == ["the table has no column part, and the keys of the flow are part, kafka_key", other]
    scene.options["sink"] = "upsert"
    fix = "rivermouth run shop --adopt CHECKPOINT"
    assert told("table") == ["the table has no column kafka_topic, kafka_partition", fix]
    fill = "name another table, and let the flow fill it from the topic"
    for sink, why in (
        (
            {"type": "history", "sequence_by": "amount"},
            "sink history needs to know since when a row is valid, and another program's rows do not say",
        ),
        (
            {"type": "upsert", "ignore_null_updates": True},
            "a record updates parts of a row, and another program's rows do not say when each part was written",
        ),
        (
            {"type": "upsert", "keys": ["id"], "from": "snapshot", "sequence_by": "kafka_ts"},
            "the first snapshot replaces all rows, so there is nothing to go on with",
        ),
    ):
        scene.options["sink"] = sink
        assert told() == [why, fill]
