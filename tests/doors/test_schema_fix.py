"""A declared schema that was wrong is corrected: the table follows, and the dead letters come back."""

from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql.types import StructType

from rivermouth.domain.project.locations import resolve
from rivermouth.engine.events import StepReached, Warned
from rivermouth.engine.flow.flow_inputs import OpenSource
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.open.open_flow import open_flow
from rivermouth.engine.open.sources import source_of
from rivermouth.engine.run.requests import Request, execute, handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.rows.dead_letter import DeadLetterFilter
from rivermouth.spec import Flow, ProjectSpec

VALUES = [b'{"id": 1}', b'{"id": 3000000000, "note": "big"}', b'{"id": "x"}', b'{"id": 2, "note": "small"}']


def order_of(topic, broker, lake, schema, **more):
    settings = {"format": {"type": "json", "schema": schema}, "table": "silver.fixed", "topics": [topic], **more}
    flow = Flow.model_validate({"name": "fixed", **settings})
    places = resolve(ProjectSpec(lake=str(lake)), flow, base=Path(lake), environ={})
    return FlowJob(flow, places, broker.bootstrap_servers, {}, at="rivermouth.yml:9")


def drain(spark, order):
    heard = []
    (outcome,) = Supervisor(spark, heard.append, handle_pending).run([order], keep_following=False)
    return outcome, heard


def replay(spark, order):
    with Kafka(order.bootstrap_servers, {}) as kafka:
        source = source_of(order.flow, order.bootstrap_servers, {})
        run = open_flow(spark, order, OpenSource(kafka, source), lambda _: None)
        done = execute(run, Request("replay", DeadLetterFilter()))
        return done["tried"], done["replayed"], done["remaining"]


@pytest.mark.long
def test_a_wider_type_and_a_new_column_bring_exactly_the_rows_back_that_now_fit(spark, broker, topic, tmp_path):
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in VALUES:
        producer.produce(name, value=value)
    assert producer.flush(30) == 0
    narrow = order_of(name, broker, tmp_path, "id int")
    outcome, _ = drain(spark, narrow)
    assert (outcome.counts.written, outcome.counts.dead_lettered) == (2, 2)

    wide = order_of(name, broker, tmp_path, "id bigint, note string")
    outcome, heard = drain(spark, wide)
    assert outcome.error is None
    assert [event.message for event in heard if isinstance(event, Warned)] == [
        "the declared schema adds column note string, widens id to bigint"
    ]
    assert replay(spark, wide) == (2, 1, 1)
    assert replay(spark, wide) == (1, 0, 1)
    table = spark.read.format("delta").load(wide.places.table)
    found = table.select("kafka_offset", "id", "note").orderBy("kafka_offset").collect()
    assert [tuple(row) for row in found] == [(0, 1, None), (1, 3000000000, "big"), (3, 2, None)]


def test_a_type_that_does_not_hold_the_old_values_is_refused(spark, broker, topic, tmp_path):
    name = topic()
    drain(spark, order_of(name, broker, tmp_path, "id bigint"))
    order = order_of(name, broker, tmp_path, "id string")
    outcome, _ = drain(spark, order)
    assert str(outcome.error) == (
        f"[TABLE_MISMATCH] flow fixed: table {order.places.table} does not fit the flow: "
        "its column id is bigint, the flow writes string; nothing was written\n"
        "  at: rivermouth.yml:9\n"
        "  hint: write into a new table, or declare the schema that the table has"
    )


def test_a_coordinate_that_gets_another_name_is_refused(spark, broker, topic, tmp_path):
    name = topic()
    drain(spark, order_of(name, broker, tmp_path, "id bigint"))
    order = order_of(name, broker, tmp_path, "id bigint", metadata_columns={"kafka_offset": "position"})
    outcome, _ = drain(spark, order)
    assert str(outcome.error) == (
        f"[TABLE_MISMATCH] flow fixed: table {order.places.table} does not fit the flow: "
        "it has no column position, in which the flow writes kafka_offset; nothing was written\n"
        "  at: rivermouth.yml:9\n"
        "  hint: write into a new table, or declare the schema that the table has"
    )


def test_a_schema_file_that_is_edited_meanwhile_is_for_the_next_run(spark, broker, topic, tmp_path):
    name = topic()
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for value in VALUES:
        producer.produce(name, value=value)
    assert producer.flush(30) == 0
    file = tmp_path / "schema.json"
    file.write_text(StructType.fromDDL("id int").json())
    order = order_of(name, broker, tmp_path, str(file))

    def edit(event):
        if isinstance(event, StepReached) and event.step == "write":
            file.write_text("no schema at all")

    outcome = Supervisor(spark, edit, handle_pending).run([order], keep_following=False)[0]
    assert (outcome.error, outcome.counts.written, outcome.counts.dead_lettered) == (None, 2, 2)
    letters = spark.read.format("delta").load(order.places.dead_letter_table).orderBy("kafka_offset")
    assert [tuple(row) for row in letters.select("reason", "field").collect()] == [("FIELD_TYPE", "id")] * 2
    outcome, _ = drain(spark, order)
    assert str(outcome.error) == (
        f"[SCHEMA_INVALID] flow fixed: the schema cannot be used: the schema file {file} is not JSON; nothing was run\n"
        "  at: rivermouth.yml:9\n"
        '  hint: put JSON into the file, or write the columns: schema: "id bigint, at timestamp"'
    )
