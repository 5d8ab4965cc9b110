"""A schema that grows in the middle of a run that follows, and a process that is killed while it does."""

from __future__ import annotations

import io
import json
import signal
import struct

import fastavro
import pytest
from tests.crashes.oracle import rows_of
from tests.ports.schema_registry import SchemaRegistry
from tests.rows.avro_writers import record

from rivermouth.engine.events import FlowRestarted, SchemaEvolved

OPTIONS = {
    "format": {"type": "json", "schema": "id bigint, place struct<city: string>"},
    "evolution": {"on_new_column": "evolve"},
    "expectations": [],
    "trigger": {"every": "200 ms", "max_offsets": 60},
}
NUMBER = 300
# The first growth, a commit behind it, the second growth.
ENDS = ("SchemaEvolved", "written", "SchemaEvolved")


def document(number):
    """Old and new writers send side by side; what is new comes twice."""
    found = {"id": number, "place": {"city": "Ulm"}}
    if number >= 100 and number % 2:
        found["colour"] = f"c{number}"
    if number >= 200 and number % 3 == 0:
        found["place"]["zip"] = number
        found["tags"] = [{"a": number}]
    return found


def wanted(number):
    found = document(number)
    place = {"city": "Ulm", "zip": found["place"].get("zip")}
    return {"id": number, "place": place, "colour": found.get("colour"), "tags": found.get("tags")}


# What is computed of a schema that grows, with what grows as well.
SELECTED = {**OPTIONS, "select": ["*", "place.city AS city", "id + 1 AS next"]}


def in_json(number):
    return json.dumps(document(number)).encode()


def send(scene, numbers, encoded=in_json):
    for number in numbers:
        scene.send(encoded(number), partition=number % 2)


TYPES = {
    "id": "long",
    "colour": "string",
    "city": "string",
    "zip": "long",
    "tags": {"type": "array", "items": record(("a", "long"), name="Tag")},
}


def in_avro(registry):
    """Each document by a writer whose schema has its fields and no others."""

    def encoded(number):
        found = document(number)
        place = record(*((name, TYPES[name]) for name in found["place"]), name="Place")
        writer = record(*((name, place if name == "place" else TYPES[name]) for name in found))
        body = io.BytesIO()
        fastavro.schemaless_writer(body, fastavro.parse_schema(writer, {}, _force=True), found)
        return struct.pack(">bI", 0, registry.register("s", writer)) + body.getvalue()

    return encoded


def assert_whole(scene):
    rows = sorted(rows_of(scene.table), key=lambda row: row["id"])
    assert [{name: row[name] for name in ("id", "place", "colour", "tags")} for row in rows] == [
        wanted(number) for number in range(NUMBER)
    ]
    assert all((row["city"], row["next"]) == ("Ulm", row["id"] + 1) for row in rows if "next" in row)
    assert not scene.dead_letters.exists() or rows_of(scene.dead_letters) == []


@pytest.mark.long
def test_columns_come_in_the_middle_of_a_run_that_follows(make_scene, spark):
    scene = make_scene(**OPTIONS)
    send(scene, range(NUMBER))
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_whole(scene)
    changes = [change for each in scene.told(SchemaEvolved) for change in each.changes]
    assert sorted(changes) == [
        "adds column colour string",
        "adds column tags array<struct<a:bigint>>",
        "adds place.zip bigint",
    ]
    assert scene.told(FlowRestarted) == []
    assert outcome.counts.written == NUMBER


def assert_ended_and_whole(scene, end_at, spark, ends):
    for end in ends:
        assert end_at(scene, end, follow=True).count(end) == 1
        ids = [row["id"] for row in rows_of(scene.table)]
        assert len(ids) == len(set(ids))
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    assert_whole(scene)


@pytest.mark.long
def test_ended_while_the_schema_grows_no_record_is_lost_doubled_or_without_its_new_fields(make_scene, end_at, spark):
    scene = make_scene(**SELECTED)
    send(scene, range(NUMBER))
    assert_ended_and_whole(scene, end_at, spark, ENDS)
    assert "next" in rows_of(scene.table)[0]


@pytest.mark.long
def test_ended_while_it_grows_by_the_schemas_of_writers(make_scene, end_at, spark):
    with SchemaRegistry() as registry:
        declared = record(("id", "long"), ("place", record(("city", "string"), name="Place")))
        form = {"type": "avro", "schema": declared, "framing": "confluent"}
        scene = make_scene(**{**OPTIONS, "format": form, "registry": registry.url})
        send(scene, range(NUMBER), in_avro(registry))
        assert_ended_and_whole(scene, end_at, spark, ENDS[:1])


@pytest.mark.long
@pytest.mark.parametrize("who", ["jvm", "both"])
@pytest.mark.parametrize(("kill", "nth"), [("SchemaEvolved", 1), ("SchemaEvolved", 2), ("written", 3)])
def test_the_same_with_the_jvm(kill, nth, who, make_scene, children, spark):
    scene = make_scene(**OPTIONS)
    send(scene, range(NUMBER))
    child = children.run(scene, own_jvm=True, follow=True, kill={"on": kill, "nth": nth, "who": who})
    assert child.code in {-signal.SIGKILL, 1}, child.said()
    assert scene.follow(spark).error is None
    assert_whole(scene)
