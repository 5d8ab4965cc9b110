"""``format: avro`` at the command line: each framing from a topic into a table, and what is refused on the way."""

from __future__ import annotations

import io
import json
import struct
import threading
import time

import fastavro
import pytest
from tests.doors.one_topic import OneTopic
from tests.ports.schema_registry import PASSWORD, USERNAME, SchemaRegistry

from rivermouth import Project
from rivermouth.engine.events import Replayed
from rivermouth.project.commands import managed_session, run_flows

FIRST = {
    "type": "record",
    "name": "Order",
    "namespace": "shop",
    "fields": [
        {"name": "id", "type": "int"},
        {"name": "note", "type": "string"},
        {"name": "gone", "type": {"type": "array", "items": "string"}},
    ],
}
# Promoted, removed, added with a default.
SECOND = {
    **FIRST,
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": "string"},
        {"name": "tag", "type": ["null", "string"], "default": None},
    ],
}
THIRD = {**SECOND, "fields": [*SECOND["fields"], {"name": "more", "type": "double"}]}
WRONG = [{"name": "id", "type": "boolean"}, {"name": "note", "type": "string"}]
FOREIGN = {"type": "record", "name": "Order", "namespace": "shop", "fields": WRONG}
RECORDS = [
    (FIRST, {"id": 1, "note": "ä", "gone": ["x", "y"]}),
    (SECOND, {"id": 1 << 40, "note": "", "tag": "new"}),
    (FIRST, {"id": 2, "note": "b", "gone": []}),
    (SECOND, {"id": 3, "note": "c", "tag": None}),
]
ROWS = [(0, 1, "ä", None), (1, 1 << 40, "", "new"), (2, 2, "b", None), (3, 3, "c", None)]


def encoded(schema, record):
    """A record in Avro's binary encoding."""
    content = io.BytesIO()
    fastavro.schemaless_writer(content, fastavro.parse_schema(schema), record)
    return content.getvalue()


def framed(number, content):
    """A record in Confluent's framing."""
    return struct.pack(">bI", 0, number) + content


class Records(OneTopic):
    def write(self, form, registry=""):
        self.save(f"""\
lake: ./lake
kafka: {{bootstrap_servers: "{self.servers}"}}
{registry}
flows:
  orders:
    topics: [{self.topic}]
    format: {form}
    table: silver.orders
""")

    def rows(self):
        return [(row["kafka_offset"], row["id"], row["note"], row["tag"]) for row in self.kept("orders")]

    def letters(self, *, status="open"):
        columns = ("kafka_offset", "reason", "field", "message", "status")
        told = [[row[name] for name in columns] for row in self.kept("orders__dead_letters")]
        return [tuple(row[:-1]) for row in told if row[-1] == status]


@pytest.fixture
def project(tmp_path, monkeypatch, capsys, broker, topic, spark):
    """A project with one flow of the format: ``send`` puts values into its topic, ``say`` runs a command over it."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "first.avsc").write_text(json.dumps(FIRST))
    (tmp_path / "second.avsc").write_text(json.dumps(SECOND))
    return Records(tmp_path, capsys, broker.bootstrap_servers, topic())


def test_plain_records_with_a_schema_file(project):
    project.write("{type: avro, schema: second.avsc, writer_schemas: [first.avsc]}")
    good = [encoded(FIRST, record) for schema, record in RECORDS if schema is FIRST]
    project.send(good[0], good[1], good[0][:-1], good[0] + b"\x00", None)
    assert project.say("run")[0] == 0
    assert project.rows() == [(0, 1, "ä", None), (1, 2, "b", None)]
    assert project.letters() == [
        (2, "TRUNCATED", "gone", "the value ends before what its schema announces"),
        (3, "TRAILING_BYTES", None, "bytes follow the record"),
    ]


def test_records_of_two_writers_and_of_one_that_nobody_knows(project):
    with SchemaRegistry() as registry:
        ids = {json.dumps(schema): registry.register(f"{project.topic}-value", schema) for schema in (FIRST, SECOND)}
        foreign = registry.register("other", FOREIGN)
        form = f"{{type: avro, framing: confluent, subject: {project.topic}-value, version: 2}}"
        project.write(form, f'schema_registry: {{url: "{registry.url}"}}')
        good = [framed(ids[json.dumps(schema)], encoded(schema, record)) for schema, record in RECORDS]
        project.send(*good, b"", framed(foreign, b"\x01"), framed(foreign + 1, b"\x00"))
        code, said = project.say("run")
        assert code == 0, said
        assert project.rows() == ROWS
        assert [letter[:3] for letter in project.letters()] == [
            (4, "WRONG_MAGIC", None),
            (5, "SCHEMA_MISMATCH", "id"),
            (6, "UNKNOWN_SCHEMA", None),
        ]
        # Each schema is asked for once, however many records and tasks there are.
        assert registry.asked[f"/schemas/ids/{ids[json.dumps(FIRST)]}"] == 1


@pytest.mark.long
def test_records_of_several_writers_in_one_topic(project):
    with SchemaRegistry(login=True) as registry:
        ids = {json.dumps(schema): registry.register(f"{project.topic}-value", schema) for schema in (FIRST, SECOND)}
        foreign = registry.register("other", FOREIGN)
        protobuf = registry.register("other", "syntax = ...", kind="PROTOBUF")
        form = f"{{type: avro, framing: confluent, subject: {project.topic}-value, version: 2}}"
        login = f'schema_registry: {{url: "{registry.url}", username: {USERNAME}, password: "${{WORD}}"}}'
        project.write(form, login)
        assert project.say("run")[1].startswith("[ENVIRONMENT_MISSING] environment variable WORD is not set")
        project.write(form, login.replace("${WORD}", PASSWORD))

        good = [framed(ids[json.dumps(schema)], encoded(schema, record)) for schema, record in RECORDS]
        later = protobuf + 1
        last = encoded(THIRD, {"id": 9, "note": "later", "tag": None, "more": 0.5})
        bad = [b"", b"\x01" + good[0][1:], framed(foreign, b"\x01"), framed(protobuf, b"\x00"), framed(later, last)]
        project.send(*good, *bad)
        code, said = project.say("run")
        assert code == 0, said
        assert PASSWORD not in said
        assert project.rows() == ROWS
        mismatch = "the writer's schema does not resolve: Found boolean, expecting long"
        magic = "the value does not begin with a zero and the id of a schema, and no header __value_schema_id has one"
        unknown = "the schema registry has no Avro schema with the id {}"
        assert project.letters() == [
            (4, "WRONG_MAGIC", None, magic),
            (5, "WRONG_MAGIC", None, magic),
            (6, "SCHEMA_MISMATCH", "id", mismatch),
            (7, "UNKNOWN_SCHEMA", None, unknown.format(protobuf)),
            (8, "UNKNOWN_SCHEMA", None, unknown.format(later)),
        ]
        # Each schema is asked for once, however many records and tasks there are.
        assert registry.asked[f"/schemas/ids/{ids[json.dumps(FIRST)]}"] == 1

        again = ("dead-letters", "replay", "orders", "--reason", "UNKNOWN_SCHEMA")
        registry.order("redirect")
        code, said = project.say(*again)
        assert code == 1
        assert said.startswith("[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: it sends elsewhere")
        registry.order("", times=0)
        assert registry.register(f"{project.topic}-value", THIRD) == later
        assert project.say(*again)[0] == 0
        assert project.rows() == [*ROWS, (8, 9, "later", None)]
        assert [letter[0] for letter in project.letters()] == [4, 5, 6, 7]
        assert [letter[0] for letter in project.letters(status="replayed")] == [8]


@pytest.mark.long
def test_records_whose_schema_comes_later_are_tried_again_by_themselves(project):
    with SchemaRegistry() as registry:
        second = registry.register("orders", SECOND)
        settings = f'{{url: "{registry.url}", timeout_s: 3}}'
        project.write("{type: avro, framing: confluent, schema: second.avsc}", f"schema_registry: {settings}")
        record = encoded(THIRD, {"id": 9, "note": "later", "tag": None, "more": 0.5})
        project.send(framed(second, encoded(*RECORDS[3])), framed(second + 1, record), framed(second + 2, record))
        code, said = project.say("run")
        assert (code, [letter[0] for letter in project.letters()]) == (0, [1, 2])

        # A run that finds nothing new asks all the same, and counts no try.
        registry.order("500")
        code, said = project.say("run")
        assert code == 0, said
        assert (
            "orders: warning: dead letters with UNKNOWN_SCHEMA were not tried again: "
            "the schema registry does not serve: it answers with status 500, for 3.0 s; no record was refused for it\n"
        ) in said
        registry.order("", times=0)
        assert registry.register("orders", THIRD) == second + 1
        code, said = project.say("run")
        assert code == 0, said
        assert "orders: 2 dead letters tried, 1 moved into the table, 1 still fail\n" in said
        assert project.rows() == [(0, 3, "c", None), (1, 9, "later", None)]
        assert [(row["kafka_offset"], row["attempt"]) for row in project.kept("orders__dead_letters")] == [
            (1, 1),
            (2, 2),
        ]

        assert registry.register("orders", {**THIRD, "doc": "another"}) == second + 2
        stop, seen = managed_session.Stop(), []
        hooks = managed_session.RunHooks(listener=seen.append, stop=stop)
        run = threading.Thread(
            target=run_flows.run, args=(Project.load("rivermouth.yml"),), kwargs={"follow": True, "hooks": hooks}
        )
        run.start()
        try:
            deadline = time.monotonic() + 60
            while not any(isinstance(event, Replayed) for event in seen):
                assert time.monotonic() < deadline, seen
                time.sleep(0.1)
        finally:
            stop.ask()
            run.join(60)
        assert [row[:2] for row in project.rows()] == [(0, 3), (1, 9), (2, 9)]
        assert project.letters() == []


def test_a_registry_that_does_not_serve_stops_the_flow_and_refuses_no_record(project):
    with SchemaRegistry() as registry:
        number = registry.register("orders", SECOND)
        settings = f'{{url: "{registry.url}", timeout_s: 0.5}}'
        project.write("{type: avro, framing: confluent, schema: second.avsc}", f"schema_registry: {settings}")
        project.send(framed(number, encoded(SECOND, RECORDS[1][1])))
        registry.order("500")
        code, said = project.say("run")
        assert code == 1
        assert (
            "[SCHEMA_REGISTRY_FAILED] the schema registry does not serve: it answers with status 500, for 0.5 s; "
            "no record was refused for it\n"
            "  at: rivermouth.yml:5\n"
            "  hint: see schema_registry in the project, and whether the registry serves: curl -sS URL/subjects"
        ) in said
        assert project.rows() == project.letters() == []
        registry.order("500", times=2)
        assert project.say("run")[0] == 0
        assert project.rows() == [(0, 1 << 40, "", "new")]
        assert project.letters() == []
