"""Schemas inferred, kept and updated: the command line and Python, over a real broker."""

from __future__ import annotations

import datetime as dt
import json
import re
import threading
import time
from dataclasses import replace
from pathlib import Path

import pytest
from confluent_kafka import Producer
from pyspark.sql.types import LongType, StructField, StructType
from tests.crashes.oracle import rows_of

import rivermouth
from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.domain.ledger.sampling import Window
from rivermouth.domain.project.sample_records import Record as Sent
from rivermouth.domain.project.sample_records import placed
from rivermouth.engine.batch.shared_batch import SharedBatch
from rivermouth.engine.events import BatchDone, SchemaKept, Warned
from rivermouth.engine.flow.failures import FailureNotes, read_failure
from rivermouth.engine.flow.flow_inputs import OpenSource
from rivermouth.engine.flow.jobs import FlowJob
from rivermouth.engine.run import run_flow
from rivermouth.engine.run.run_state import RunState
from rivermouth.engine.schema import kept_schemas
from rivermouth.engine.schema.infer import SampleSpec, Seen, schema_of_seen, shape_of, without_values
from rivermouth.errors import (
    BrokerUnreachable,
    ColumnReserved,
    DocumentsTooWide,
    FlowsFailed,
    RivermouthError,
    SchemaEmpty,
    SchemaNotInferred,
    SchemaUpdateRefused,
)
from rivermouth.formats.debezium import Debezium
from rivermouth.formats.json import Json
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.sources.given_source import GivenSource
from rivermouth.ports.sources.table_source import TableSource
from rivermouth.project.commands import managed_session, run_flows
from rivermouth.project.commands.schema import ingest_project
from rivermouth.project.resolved.one_topic import ingest_spec
from rivermouth.schemas.inferred import schema_of
from rivermouth.schemas.schema_versions import KeptSchema
from rivermouth.spec import StartingOffsets

ID = StructType([StructField("id", LongType())])
RECORDS = [
    (b"a", b'{"id": 1, "at": "2026-01-31T12:00:00Z", "v": 1, "deep": {"x.y": 1, "s p": [1, 2.5]}, "kafka_offset": 1}'),
    (b"b", b'{"id": 2, "at": "2026-02-01T12:00:00Z", "v": "x", "ID": true, "": null, "big": 12345678901234567890}'),
    (b"a", b'{"id": 3, "at": "2026-02-01T12:00:00Z", "v": {"w": 1}}'),
    (b"c", b"not JSON"),
    (b"b", None),
]


class Shop:
    """A topic, a folder, and what the command line says there."""

    def __init__(self, folder, broker, topic, capsys):
        self.folder, self.broker, self.topic, self._capsys = folder, broker, topic, capsys
        self.place = ("--bootstrap-servers", broker.bootstrap_servers)

    def send(self, *records):
        producer = Producer({"bootstrap.servers": self.broker.bootstrap_servers})
        for key, value in records:
            producer.produce(self.topic, value, key=key)
        assert producer.flush(10) == 0

    def write(self, form="{type: json, schema: infer}", more=""):
        (self.folder / "rivermouth.yml").write_text(
            f"lake: ./lake\nkafka: {{bootstrap_servers: '{self.broker.bootstrap_servers}'}}\nflows:\n  orders:\n"
            f"    topics: [{self.topic}]\n    format: {form}\n    table: silver.orders\n{more}"
        )
        return Project.load("rivermouth.yml")

    def say(self, *arguments):
        code = invoke(arguments)
        return (code, *self._capsys.readouterr())

    def json(self, *arguments):
        code, out, err = self.say(*arguments, "--output", "json")
        assert code == 0, err
        return [json.loads(line) for line in out.splitlines()]


@pytest.fixture
def shop(broker, topic, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    return Shop(tmp_path, broker, topic(), capsys)


def test_a_topic_is_inferred_without_spark_and_without_a_trace(shop):
    shop.send(*RECORDS)
    code, out, err = shop.say("schema", "infer", shop.topic, *shop.place, "--infer-times", "--save", "orders.json")
    assert (code, err) == (0, "written: orders.json\n")
    lines = out.replace(shop.topic, "t").splitlines()
    assert [line.rstrip() for line in lines[:12]] == [
        "field         type           in",
        '""            string         33.33 %  column unnamed, only null',
        "ID            boolean        33.33 %",
        "at            timestamp      100 %",
        "big           decimal(38,0)  33.33 %",
        "deep          struct         33.33 %",
        "  s p         array<double>  33.33 %",
        "  x.y         bigint         33.33 %",
        "id            bigint         100 %    column id_2",
        "kafka_offset  bigint         33.33 %  column kafka_offset_2",
        "v             string         100 %    conflict: text",
        "",
    ]
    assert lines[12:16] == [
        "conflicts, kept as text:",
        "  v: number 1 (t-0 offset 0), object 1 (t-0 offset 2), string 1 (t-0 offset 1)",
        "",
        "corrupt, left out: INVALID_JSON 1, first t-0 offset 3",
    ]
    assert lines[16].startswith("topic t: 5 records read in ")
    assert lines[16].endswith(" s (all), 1 corrupt, 1 without a value")
    (told,) = shop.json("schema", "infer", shop.topic, *shop.place, "--infer-times", "--all")
    assert told["schema"] == json.loads((shop.folder / "orders.json").read_text())
    assert (told["records"], told["corrupt_records"], told["whole"]) == (5, 1, True)
    assert [each.name for each in shop.folder.iterdir()] == ["orders.json"]
    code, _, err = shop.say("schema", "infer", shop.topic, *shop.place, "--save", "orders.json")
    assert (code, err) == (
        1,
        (
            "[ARGUMENT_INVALID] --save: orders.json is there already, and stays as it is; nothing was run\n"
            "  hint: name another file\n"
        ),
    )


def test_the_newest_record_of_each_key_counts_if_that_is_asked_for(broker, topic, shop):
    name = topic(**{"cleanup.policy": "compact"})
    producer = Producer({"bootstrap.servers": broker.bootstrap_servers})
    for key, value in [(b"a", b'{"v": "old"}'), (b"b", b'{"w": 1}'), (b"a", b'{"v": 1}'), (b"b", None)]:
        producer.produce(name, value, key=key)
    assert producer.flush(10) == 0
    for latest, schema in ((None, "struct<v:string,w:bigint>"), (True, "struct<v:bigint>")):
        for whole in (False, True):
            asked = {"whole": whole, "latest_per_key": latest}
            found = rivermouth.infer_schema(name, bootstrap_servers=broker.bootstrap_servers, **asked)
            assert found.inferred.schema.simpleString() == schema
            assert (found.seen.read, found.seen.latest_per_key, found.seen.shape.without_value) == (4, bool(latest), 1)
    code, out, _ = shop.say("schema", "infer", name, *shop.place, "--latest-per-key")
    assert (code, re.sub(r"\d+\.\d s", "... s", out)) == (
        0,
        (
            "field  type    in\n"
            "v      bigint  100 %\n"
            "\n"
            f"topic {name}: 4 records read in ... s (all, the newest of each key), 0 corrupt, 1 without a value\n"
        ),
    )


def test_a_declared_schema_that_did_not_grow_has_no_versions(shop):
    shop.write('{type: json, schema: "id bigint"}', "    evolution: {on_new_column: evolve}\n")
    code, _, err = shop.say("schema", "show", "orders")
    assert (code, err) == (
        1,
        (
            "[SCHEMA_NOT_GROWN] flow orders: its schema is as declared, and nothing came that it grew by; nothing was "
            "done\n  at: rivermouth.yml:4\n  hint: rivermouth plan orders\n"
        ),
    )


@pytest.mark.long
def test_a_flow_infers_once_keeps_and_updates(spark, shop):
    shop.send(*RECORDS)
    stays = "    evolution: {on_new_column: ignore, on_type_change: dead_letter}\n"
    project = shop.write('{type: json, schema: infer, schema_hints: "v string, id_2 int"}', stays)
    project.validate()
    (plan,) = project.plan()
    assert dict(plan.columns)["id_2"] == "int"
    assert plan.warnings == ("the schema is inferred from 4 records, and kept by the first run",)
    assert not (shop.folder / "lake").exists()
    code, _, err = shop.say("schema", "show", "orders")
    assert (code, err) == (
        1,
        (
            "[SCHEMA_NOT_KEPT] flow orders: its schema is inferred by its first run, and it did not run yet; "
            "nothing was done\n  at: rivermouth.yml:4\n  hint: rivermouth run orders, or rivermouth schema infer "
            "orders --update\n"
        ),
    )
    heard = []
    (outcome,) = project.run(listener=heard.append)
    assert (outcome.counts.consumed, outcome.counts.written, outcome.counts.dead_lettered) == (5, 3, 1)
    (kept,) = [each for each in heard if isinstance(each, SchemaKept)]
    assert (kept.version, kept.is_new, kept.records, kept.corrupt, kept.conflicts) == (1, True, 4, 1, 1)
    rows = {row["kafka_offset"]: row for row in rows_of(shop.folder / "lake/silver/orders")}
    assert [rows[offset]["v"] for offset in range(3)] == ["1", "x", '{"w":1}']
    assert (rows[1]["ID"], rows[1]["id_2"], rows[0]["kafka_offset_2"]) == (True, 2, 1)
    assert rows[0]["deep"] == {"s p": [1.0, 2.5], "x.y": 1}

    # What came since is for the kept schema: nothing is inferred again unless it is asked for.
    shop.send((b"d", b'{"id": 4, "new": {"q r": 1}}'))
    heard.clear()
    project.run(listener=heard.append)
    assert not [each for each in heard if isinstance(each, SchemaKept)]
    shop.send((b"d", b'{"id": 5, "new": {"q r": 2}}'))
    project.run(update_schema=True, listener=heard.append)
    (kept,) = [each for each in heard if isinstance(each, SchemaKept)]
    assert (kept.version, kept.changes) == (2, ("adds column new struct<q r:bigint>",))
    assert [row["new"] for row in rows_of(shop.folder / "lake/silver/orders") if row["id_2"] == 5] == [{"q r": 2}]
    (audit,) = project.audit()
    assert audit.problems == ()

    shop.send((b"e", b'{"ID": "not a boolean"}'))
    with pytest.raises(FlowsFailed) as failure:
        project.run(update_schema=True)
    assert str(failure.value.__cause__) == (
        "[SCHEMA_UPDATE_REFUSED] flow orders: the kept schema cannot become what was inferred: column ID is boolean, "
        "and there are values of string; it is as before, and nothing was run\n  at: rivermouth.yml:4\n"
        "  hint: rivermouth run orders, without --update-schema: records that do not fit are dead letters"
    )
    code, out, _ = shop.say("schema", "show", "orders", "--history")
    assert code == 0
    assert [line.split()[0] for line in out.splitlines()] == ["version", "2", "1"]
    assert out.splitlines()[1].endswith("adds column new struct<q r:bigint>")
    (told,) = shop.json("schema", "show", "orders")
    assert (told["version"], told["changes"]) == (2, ["adds column new struct<q r:bigint>"])

    file = shop.folder / "lake/_rivermouth/schemas/orders/00002.json"
    file.write_text("{")
    with pytest.raises(FlowsFailed) as failure:
        project.run()
    assert str(failure.value.__cause__) == (
        f"[SCHEMA_FILE_BROKEN] flow orders: the kept schema {file} cannot be used: it is not JSON; nothing was run\n"
        f"  at: rivermouth.yml:4\n  hint: put back its text, or take it away, for the version before it: rm {file}"
    )


def test_ingest_alone_infers_keys_and_saves(spark, shop):
    shop.send((b"a", b'{"id": 1}'), (b"b", b'{"id": 2}'), (b"b", None), (b"x", b"no"))
    place = (*shop.place, "--lake", "./lake", "--maintenance", "never")
    code, _, err = shop.say("ingest", shop.topic, *place, "--save")
    assert code == 0, err
    assert "  format:            json: the schema is inferred\n" in err
    table = shop.folder / f"lake/silver/{shop.topic.replace('-', '_')}"
    assert [(row["kafka_key"], row["id"]) for row in rows_of(table)] == [("a", 1)]
    assert "format: {type: json, schema: infer}" in (shop.folder / "rivermouth.yml").read_text()


@pytest.mark.long
def test_ingest_alone_does_the_classic_job_and_again_on_the_next_day(spark, shop):
    shop.send((b"a", b'{"id": 1}'), (b"b", b'{"id": 2}'), (b"x", b"no"))
    place = (*shop.place, "--lake", "./lake", "--maintenance", "never")
    code, _, err = shop.say("ingest", shop.topic, *place, "--save")
    assert code == 0, err
    assert "  format:            json: the schema is inferred\n" in err
    table = shop.folder / f"lake/silver/{shop.topic.replace('-', '_')}"
    assert [(row["kafka_key"], row["id"]) for row in rows_of(table)] == [("a", 1), ("b", 2)]
    assert "format: {type: json, schema: infer}" in (shop.folder / "rivermouth.yml").read_text()
    shop.send((b"a", b'{"id": 3, "note": "x"}'), (b"b", None))
    code, _, err = shop.say("ingest", shop.topic, *place, "--update-schema=yes")
    assert code == 0, err
    assert "  format:            json: schema version 1, inferred at " in err
    assert "version 2 adds column note string\n" in err
    assert [(row["kafka_key"], row["id"], row["note"]) for row in rows_of(table)] == [("a", 3, "x")]


def test_a_topic_that_is_not_json_stays_bytes_today_and_tomorrow(spark, shop):
    shop.send(*((b"%d" % number, b"plain") for number in range(3)))
    place = (*shop.place, "--lake", "./lake", "--maintenance", "never")
    for why in (
        f"raw: 0 of 3 values are JSON objects, and {shop.topic}-0 offset 0 is not (INVALID_JSON)",
        "raw: its table is there already, without an inferred schema",
    ):
        code, _, err = shop.say("ingest", shop.topic, *place)
        assert code == 0, err
        assert f"  format:            {why}\n" in err
        shop.send(*((b"%d" % number, b"{}") for number in range(9)))
    assert len(rows_of(shop.folder / f"lake/bronze/{shop.topic.replace('-', '_')}")) == 9


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ({}, "its documents have no fields"),
        ({f"k{each}": 1 for each in range(6000)}, "its documents have more than 5,000 different fields of their own"),
    ],
)
def test_a_topic_of_which_no_schema_can_be_made_stays_bytes(shop, value, why):
    shop.send((b"a", json.dumps(value).encode()))
    project, told = ingest_project(shop.topic, bootstrap_servers=shop.broker.bootstrap_servers)
    assert ([flow.format.type for flow in project.flows()], told) == (["raw"], why)


@pytest.mark.parametrize("more", [(), ("--schema", "infer"), ("--table", "bronze.t")])
def test_a_table_that_was_made_with_a_declared_schema_is_not_taken_over(shop, more):
    shop.send((b"a", b'{"id": 1}'))
    table = "bronze.t" if "--table" in more else f"silver.{shop.topic.replace('-', '_')}"
    log = shop.folder / "lake" / table.replace(".", "/") / "_delta_log"
    log.mkdir(parents=True)
    fields = [{"name": name, "type": "long", "nullable": True, "metadata": {}} for name in ("id", "kafka_offset")]
    metadata = {"id": "x", "schemaString": json.dumps({"type": "struct", "fields": fields}), "partitionColumns": []}
    (log / f"{0:020d}.json").write_text(json.dumps({"metaData": metadata}))
    assert shop.say("ingest", shop.topic, *shop.place, "--lake", "./lake", *more) == (
        1,
        "",
        (
            f"[ARGUMENT_INVALID] schema: table {table} is there already, and its schema was not inferred; nothing "
            'was run\n  hint: the schema with which it was made: --schema "id bigint, at timestamp", or another '
            f"table: --table {table}_2\n"
        ),
    )


@pytest.mark.long
@pytest.mark.parametrize("start", ["earliest", "latest"])
def test_a_flow_that_follows_waits_for_the_first_records(spark, shop, start):
    project = shop.write(more=f"    starting_offsets: {start}\n")
    stop, heard, done = managed_session.Stop(), [], []
    hooks = managed_session.RunHooks(listener=heard.append, stop=stop)
    thread = threading.Thread(target=lambda: done.extend(run_flows.run(project, follow=True, hooks=hooks)))
    thread.start()
    try:
        until(lambda: any(isinstance(each, Warned) for each in heard))
        shop.send((b"a", b'{"id": 1}'))
        until(lambda: any(isinstance(each, BatchDone) for each in heard))
    finally:
        stop.ask()
        thread.join(60)
    assert done[0].error is None
    (warned,) = [each.message for each in heard if isinstance(each, Warned)]
    assert warned == (
        f"topic {shop.topic}: no schema can be inferred yet: there is no record; it waits for records".replace(
            "; ", "; "
        )
    )
    assert [row["id"] for row in rows_of(shop.folder / "lake/silver/orders")] == [1]


@pytest.mark.long
def test_a_flow_over_a_table_infers_from_its_rows(spark, shop):
    shop.send(*RECORDS)
    producer = Producer({"bootstrap.servers": shop.broker.bootstrap_servers})
    producer.produce(shop.topic, b'{"h": 1}', headers=[("__value_schema_id", b"\1" + bytes(16))])
    producer.produce(shop.topic, b'\0\0\0\0\7{"f": 1}', headers=[("other", b"")])
    assert producer.flush(10) == 0
    of_table = (
        "    source: {{table: silver.orders}}\n    table: silver.{}\n    format: {{type: json, schema: infer{}}}\n"
    )
    of_topic = f"    topics: [{shop.topic}]\n    format: {{type: json, schema: infer, framing: confluent}}\n"
    project = shop.write(
        "raw",
        "    metadata_columns: [kafka_topic, kafka_partition, kafka_offset, kafka_timestamp,"
        " kafka_key, kafka_headers]\n"
        "  silver:\n"
        + of_table.format("parsed", "")
        + "  framed:\n"
        + of_table.format("framed", ", framing: confluent")
        + "  topic:\n"
        + of_topic
        + "    table: silver.topic\n",
    )
    outcomes = {each.flow: each.counts for each in project.run()}
    assert (outcomes["silver"].written, outcomes["silver"].dead_lettered) == (4, 2)
    for name in ("framed", "topic"):
        # The ids of schemas are before values, or in headers of Kafka's, which the raw table has too.
        assert (outcomes[name].written, outcomes[name].dead_lettered) == (2, 4)
        assert {(row["f"], row["h"]) for row in rows_of(shop.folder / f"lake/silver/{name}")} == {(1, None), (None, 1)}
    assert sorted(row["id_2"] or 0 for row in rows_of(shop.folder / "lake/silver/parsed")) == [0, 1, 2, 3]
    found = project.infer_schema("silver")
    shape = found.seen.shape
    assert (found.seen.subject, shape.records, shape.corrupt_records) == ("table silver.orders", 6, 2)


def until(reached, bound_s=60):
    deadline = time.monotonic() + bound_s
    while not reached():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_that_keep_at_once_get_one_schema(shop):
    shop.send((b"a", b'{"id": 1}'))
    project = shop.write()
    flow, places, files = project.flow("orders"), project.places("orders"), LocalFiles()
    first = project.infer_schema("orders")
    shop.send((b"b", b'{"other": 1}'))
    second = project.infer_schema("orders")
    one = kept_schemas.keep(flow, files, places, first)
    # As a starter that looked before the first had kept its version.
    two = kept_schemas.keep(flow, Late(files), places, second)
    assert (one.kept.version, one.is_new) == (1, True)
    assert (two.kept.version, two.kept.changes) == (2, ("adds column other bigint",))
    assert kept_schemas.newest(flow, files, places) == two.kept


class Late(LocalFiles):
    """Files that the first look does not list."""

    def __init__(self, _files):
        self._looks = 0

    def names(self, folder):
        self._looks += 1
        return [] if self._looks <= 2 else super().names(folder)


class Opening:
    """What is kept, judged and told when a flow is opened, up to where Spark begins."""

    def __init__(self, project, name, refuses=None):
        self.files, self.flow, self.places = LocalFiles(), project.flow(name), project.places(name)
        self.judged, self.told, self.warned, self._refuses = [], [], [], refuses
        self._kafka = Kafka(project.bootstrap_servers, project.kafka_options())

    def judge(self, flow):
        self.judged.append(flow.format.schema_as_declared().simpleString())
        if self._refuses:
            raise self._refuses

    def columns(self, *, update=False):
        with self._kafka as kafka:
            flow = kept_schemas.ensured(
                None,
                self.flow,
                self.files,
                self.places,
                kafka,
                kept_schemas.SchemaHooks(self.judge, self.told.append, self.warned.append, update=update),
            )
        return flow.format.schema_as_declared().simpleString()

    def kept(self):
        return [each.name for each in sorted((self.places_folder() / self.flow.name).glob("*"))]

    def places_folder(self):
        return Path(self.places.schemas()).parent


def test_a_version_is_judged_before_it_is_kept(shop):
    shop.send((b"a", b'{"id": 1}'))
    project = shop.write()
    opening = Opening(project, "orders", refuses=ColumnReserved(flow="orders", column="id", owner="y", fix="x"))
    with pytest.raises(ColumnReserved):
        opening.columns()
    assert (opening.judged, opening.told, opening.kept()) == (["struct<id:bigint>"], [], [])
    assert Opening(project, "orders").columns() == "struct<id:bigint>"
    shop.send((b"a", b'{"new": 1}'))
    opening = Opening(project, "orders", refuses=ColumnReserved(flow="orders", column="new", owner="y", fix="x"))
    with pytest.raises(ColumnReserved):
        opening.columns(update=True)
    assert (opening.judged, opening.kept()) == (["struct<id:bigint,new:bigint>"], ["00001.json"])


def test_an_update_of_a_topic_that_is_empty_keeps_what_is_kept(shop):
    shop.send((b"a", None))
    opening = Opening(shop.write(), "orders")
    with pytest.raises(SchemaEmpty):
        opening.columns(update=True)
    kept = KeptSchema("orders", 1, "2026-01-31T12:00:00+00:00", 1, 0, True, (), ID)
    opening.files.create(f"{opening.places.schemas()}/00001.json", kept.to_text())
    assert opening.columns(update=True) == "struct<id:bigint>"
    assert opening.warned == [
        f"topic {shop.topic}: no schema can be inferred yet: no record has a value; version 1 of its schema stays"
    ]
    assert (opening.told, opening.kept()) == ([], ["00001.json"])


def test_hinted_columns_and_kept_decimals_are_no_reason_to_refuse_an_update(shop):
    files = LocalFiles()

    def kept(hints, more=""):
        project = shop.write(f"{{type: json, schema: infer, schema_hints: {hints}}}", more)
        found = project.infer_schema("orders")
        done = kept_schemas.keep(project.flow("orders"), files, project.places("orders"), found)
        return done.is_new, done.kept.version, done.kept.schema.simpleString()

    shop.send((b"a", b'{"id": 1, "total": 123456789012345678.25}'))
    first = (1, "struct<id:bigint,total:decimal(38,2)>")
    assert kept("id string") == (True, *first)
    shop.send((b"a", b'{"id": "x", "total": 1.25}'))
    latest = f"    starting_offsets: {{{shop.topic}: {{0: 1}}}}\n"
    assert kept("'a decimal(3,2), ID string'", latest) == (False, *first)
    with pytest.raises(SchemaUpdateRefused, match="column id is bigint, and there are values of string"):
        kept("a string", latest)


def test_a_flow_with_a_new_name_takes_its_schema_along(shop):
    shop.send((b"a", b'{"id": 1}'))
    old = Opening(shop.write(), "orders")
    assert old.columns() == "struct<id:bigint>"
    renamed = shop.write()
    text = (shop.folder / "rivermouth.yml").read_text()
    (shop.folder / "rivermouth.yml").write_text(text.replace("  orders:\n", "  sales:\n    previously: orders\n"))
    sales = Opening(Project.load("rivermouth.yml"), "sales")
    shop.send((b"a", b'{"new": 1}'))
    assert kept_schemas.newest(sales.flow, sales.files, sales.places).version == 1
    assert sales.kept() == []
    assert sales.columns() == "struct<id:bigint>"
    assert sales.columns(update=True) == "struct<id:bigint,new:bigint>"
    assert (sales.kept(), old.kept()) == (["00001.json", "00002.json"], ["00001.json", "00001.moved_to.sales"])
    assert [each.flow for each in kept_schemas.history(sales.flow, sales.files, sales.places)] == ["sales", "sales"]

    # Another flow that gets the old name.
    another = Opening(renamed, "orders")
    assert kept_schemas.newest(another.flow, another.files, another.places) is None
    assert another.columns() == "struct<id:bigint,new:bigint>"
    assert another.kept() == ["00001.json", "00001.moved_to.sales", "00002.json"]
    assert [each.version for each in kept_schemas.history(another.flow, another.files, another.places)] == [2]
    assert sales.columns() == "struct<id:bigint,new:bigint>"


@pytest.fixture
def opened_early(monkeypatch):
    monkeypatch.setattr(run_flow, "_EMPTY_S", 0.01)
    project = ingest_spec("orders")
    order = FlowJob(project.flow("orders"), project.places("orders"), "", {})

    def opened(*errors, waits=True, starting_offsets=None, failures=None, **wanted):
        told = []
        start = {"starting_offsets": starting_offsets} if starting_offsets else {}
        asked = replace(order, flow=order.flow.model_copy(update=start)).starting(**wanted)
        outcomes = iter(errors)

        def opens(_opening):
            error = next(outcomes, None)
            if error is not None:
                raise error
            return "open"

        monkeypatch.setattr(run_flow._Opening, "_opened", opens)
        state = RunState(None, print, print)
        state.failures = failures or state.failures
        source = TableSource.__new__(TableSource)  # it opens nothing, and is handed on as it is
        opening = run_flow._Opening(state, asked, OpenSource(None, source), None, told.append, SharedBatch())
        return opening.open(waits=waits), [each.message for each in told]

    return opened


def test_a_flow_that_waits_for_records_outlasts_garbage_and_brokers_that_are_away(opened_early):
    empty = SchemaEmpty(subject="topic t", detail="there is no record", fix="x")
    garbage = SchemaNotInferred(subject="topic t", detail="of 1 values none is a JSON object", fix="x")
    away = BrokerUnreachable(bootstrap_servers="b:1", timeout_s=1, reason="r", fix="f")
    assert opened_early(garbage, away, empty, away) == (
        "open",
        ["topic t: no schema can be inferred: of 1 values none is a JSON object; it waits for records"],
    )
    for errors, waits in (((away,), True), ((empty,), False), ((garbage,), False), ((wide(), empty), True)):
        with pytest.raises(type(errors[0])):
            opened_early(*errors, waits=waits)


def test_a_flow_that_waits_for_records_has_not_failed(opened_early, tmp_path):
    notes = FailureNotes(LocalFiles, pytest.fail)
    notes.folder = f"{tmp_path}/failures"
    empty = SchemaEmpty(subject="topic t", detail="there is no record", fix="x")
    notes.failed("orders", empty)
    assert opened_early(empty, failures=notes)[0] == "open"
    assert read_failure(LocalFiles(), notes.folder, "orders") is None


def test_a_run_that_ends_makes_nothing_of_a_topic_in_which_nothing_is_to_be_stored(opened_early):
    empty = SchemaEmpty(subject="topic t", detail="no record has a value", fix="x", has_values=False)
    told = ["topic t: no schema can be inferred yet: no record has a value; it waits for its first value"]
    assert opened_early(empty, waits=False) == (None, told)
    for more in (
        {"starting_offsets": StartingOffsets(kind="latest")},
        {"adoption": "a"},
        {"decision": "d"},
        {"rebuild": "r"},
    ):
        with pytest.raises(SchemaEmpty):
            opened_early(empty, waits=False, **more)


def test_a_header_with_the_id_of_the_schema_says_that_none_is_before_the_value():
    """What the flow reads counts, and what it refuses does not: one record of each kind."""
    flow = ingest_spec("orders", format={"type": "json", "framing": "confluent", "schema": "infer"}).flow("orders")
    header, other = ("__value_schema_id", b"\1" + bytes(16)), ("trace", b"1")
    given = [
        Sent(b'{"a": 1}', headers=[other, header]),
        Sent(b'\0\0\0\0\7{"b": 1}', headers=[other]),
        Sent(b'{"c": 1}'),
        Sent(b'\0\0\0\0\7{"d": 1}', headers=[header]),
        Sent(b'{"e": 1}', headers=[header, ("__value_schema_id", None)]),
    ]
    source = GivenSource(placed(given, "t", dt.datetime.now(dt.UTC)))
    windows = [Window("t", 0, 0, len(given), len(given))]
    shape = shape_of(flow, source.records(windows, headers=True), SampleSpec())
    assert schema_of(shape).schema.names == ["a", "b"]
    assert {reason: seen.count for reason, seen in shape.corrupt.items()} == {"WRONG_MAGIC": 2, "INVALID_JSON": 1}


def test_a_sample_without_values_is_not_taken_for_all_of_the_topic():
    flow = ingest_spec("orders").flow("orders")
    seen = Seen("topic t", shape_of(flow, [], SampleSpec()), 0, 9, whole=True, latest_per_key=False, seconds=0.1)
    for read, whole, detail in (
        (0, True, "there is no record"),
        (5, True, "no record has a value"),
        (5, False, "no record has a value, in a sample of 5"),
    ):
        with pytest.raises(SchemaEmpty) as caught:
            schema_of_seen(flow, replace(seen, read=read, whole=whole), times=False)
        assert str(caught.value) == (
            f"[SCHEMA_EMPTY] topic t: no schema can be inferred yet: {detail}; nothing was run\n"
            '  hint: wait for its first records, or declare the columns: schema: "id bigint"'
        )
        assert (without_values(flow, caught.value) is None) == (not whole)


def wide():
    return DocumentsTooWide(subject="topic t", detail="x", fix="x")


def test_what_another_flow_kept_in_the_folder_is_not_taken(shop):
    shop.send((b"a", b'{"id": 1}'))
    opening = Opening(shop.write(), "orders")
    kept = KeptSchema("sales", 4, "2026-01-31T12:00:00+00:00", 1, 0, True, (), ID)
    opening.files.create(f"{opening.places.schemas()}/00004.json", kept.to_text())
    assert opening.columns() == "struct<id:bigint>"
    assert opening.kept() == ["00004.json", "00005.json"]


@pytest.mark.parametrize(
    ("values", "told"),
    [
        (
            [],
            (
                "[SCHEMA_EMPTY] topic t: no schema can be inferred yet: there is no record; nothing was run\n"
                '  hint: wait for its first records, or declare the columns: schema: "id bigint"'
            ),
        ),
        (
            [None],
            (
                "[SCHEMA_EMPTY] topic t: no schema can be inferred yet: no record has a value; nothing was run\n"
                '  hint: wait for its first records, or declare the columns: schema: "id bigint"'
            ),
        ),
        (
            [b"{}"],
            (
                "[SCHEMA_EMPTY] topic t: no schema can be inferred yet: its documents have no fields; nothing was run\n"
                '  hint: wait for its first records, or declare the columns: schema: "id bigint"'
            ),
        ),
        (
            [b'{"x": null, "y": [{}]}'],
            (
                "[SCHEMA_EMPTY] topic t: no schema can be inferred yet: no field of its documents has a value; nothing "
                'was run\n  hint: wait for its first records, or declare the columns: schema: "id bigint"'
            ),
        ),
        (
            [b"x", b"[1]", b"y"],
            (
                "[SCHEMA_NOT_INFERRED] topic t: no schema can be inferred: of 3 values none is a JSON object "
                "(INVALID_JSON at t-0 offset 0); nothing was run\n  hint: format: raw, or format: text"
            ),
        ),
        (
            [json.dumps({f"k{number}": 1 for number in range(6000)}).encode()],
            (
                "[DOCUMENTS_TOO_WIDE] topic t: no schema can be inferred: its documents have more than 5,000 "
                "different fields of their own; nothing was run\n"
                '  hint: format: text, or declare the columns that you need: schema: "id bigint"'
            ),
        ),
        (
            [json.dumps({f"k{part}": {f"k{number}": 1 for number in range(400)} for part in range(20)}).encode()],
            (
                "[DOCUMENTS_TOO_WIDE] topic t: no schema can be inferred: its documents have more than 5,000 "
                "different fields; nothing was run\n"
                "  hint: max_fields: 100, for maps in place of wide objects; or format: text"
            ),
        ),
    ],
    ids=["empty", "tombstones", "no fields", "no values", "only corrupt", "wide", "wide below"],
)
def test_what_cannot_be_inferred_is_told_in_whole(shop, values, told):
    shop.send(*((b"k", value) for value in values))
    with pytest.raises(RivermouthError) as caught:
        rivermouth.infer_schema(shop.topic, bootstrap_servers=shop.broker.bootstrap_servers)
    assert str(caught.value).replace(shop.topic, "t") == told


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (
            ("schema", "infer", "orders", "--update"),
            (
                "[ARGUMENT_INVALID] FLOW: flow orders does not infer its schema, so none is kept; nothing was run\n"
                "  at: rivermouth.yml:6\n  hint: format: {type: json, schema: infer}\n"
            ),
        ),
        (
            ("schema", "infer", "nothing", "--update"),
            (
                "[ARGUMENT_INVALID] --update: there is no flow 'nothing' whose schema is kept; nothing was run\n"
                "  hint: rivermouth ingest TOPIC\n"
            ),
        ),
        (
            ("schema", "infer", "orders", "--all", "--sample", "5"),
            (
                "[ARGUMENT_INVALID] --all: all of the topic is no sample; nothing was run\n"
                "  hint: give --all, or --sample N\n"
            ),
        ),
        (
            ("schema", "infer", "orders", "--save", "x.txt"),
            "[ARGUMENT_INVALID] --save: a schema file ends in .json; nothing was run\n  hint: --save schema.json\n",
        ),
        (
            ("run", "--update-schema"),
            (
                "[ARGUMENT_INVALID] --update-schema: no flow that would run infers its schema; nothing was run\n"
                "  at: rivermouth.yml:4\n  hint: format: {type: json, schema: infer}\n"
            ),
        ),
    ],
)
def test_arguments_that_do_not_fit_are_told_in_whole(shop, arguments, told):
    shop.send((b"a", b'{"id": 1}'))
    shop.write("{type: json, schema: id bigint}")
    assert shop.say(*arguments) == (1, "", told)


@pytest.mark.parametrize(
    ("place", "detail", "hint"),
    [
        ("there.json", "there.json is there already, and stays as it is", "name another file"),
        ("no/x.json", "no/x.json cannot be written: there is no folder no", "name a file in a folder that is there"),
    ],
)
def test_where_a_schema_is_saved_is_looked_at_before_one_is_kept(shop, place, detail, hint):
    shop.send((b"a", b'{"id": 1}'))
    shop.write()
    (shop.folder / "there.json").write_text("{}")
    told = f"[ARGUMENT_INVALID] --save: {detail}; nothing was run\n  hint: {hint}\n"
    assert shop.say("schema", "infer", "orders", "--update", "--save", place) == (1, "", told)
    assert not (shop.folder / "lake").exists()


def test_a_topic_of_the_projects_cluster_needs_no_address(shop):
    shop.send((b"a", b'{"id": 1}'))
    shop.write()
    (told,) = shop.json("schema", "infer", shop.topic)
    assert [each["name"] for each in told["schema"]["fields"]] == ["id"]
    assert ingest_spec("orders").flow("orders").format.infers


def test_names_in_json_that_cannot_be_read_are_told():
    def of(*fields):
        return [{"name": name, "type": kind, "nullable": True, "metadata": read} for name, kind, read in fields]

    nested = {"type": "struct", "fields": of(("x", "long", {"json_name": "X"}))}
    for declared, told in {
        "two columns are read from the field 'b'": (("a", "long", {"json_name": "b"}), ("b", "long", {})),
        "column a.x: json_name is for columns of the table itself, in the format json": (("a", nested, {}),),
    }.items():
        with pytest.raises(ValueError, match=f"^{declared}$"):
            Json(schema={"type": "struct", "fields": of(*told)}).schema_as_declared()
    with pytest.raises(
        ValueError, match=r"^column a: json_name is for columns of the table itself, in the format json$"
    ):
        Debezium(schema={"type": "struct", "fields": of(("a", "long", {"json_name": "b"}))}).schema_as_declared()
