"""The one-liner: strict arguments, the derived project, and its printout."""

from __future__ import annotations

import json
import re

import pytest

from rivermouth.cli.options import format_with
from rivermouth.domain.ledger.ledger import first_entry
from rivermouth.errors import ArgumentInvalid, LakeNotReadable, RivermouthError, TopicNameEmpty, TopicNameInvalid
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.project.commands.schema import ingest_project
from rivermouth.project.commands.topic_flow import in_lake
from rivermouth.project.file import yaml_source
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.file.validation import validate_document
from rivermouth.project.resolved.one_topic import derived, derived_text, ingest_spec, parse_switch
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.rows.columns.table_columns import key_columns
from rivermouth.spec import Maintenance


def test_without_a_schema_it_is_inferred():
    flow = ingest_spec("orders", lake="/lake").flow("orders")

    assert (flow.format.type, flow.format.declared, flow.format.infers) == ("json", "infer", True)
    assert flow.table.name == "silver.orders"
    assert "format: {type: json, schema: infer}" in to_yaml(ingest_spec("orders").spec)


def test_raw_values_are_kept_as_bytes():
    project = ingest_spec("shop.orders-v1", lake="/lake", format="raw")
    flow = project.flow("shop_orders_v1")

    assert flow.topics == ("shop.orders-v1",)
    assert (flow.format.type, flow.table.name) == ("raw", "bronze.shop_orders_v1")
    assert flow.starting_offsets.text() == "earliest"
    assert (project.follow, project.debug) == (False, False)


def test_with_a_schema_the_values_are_json():
    project = ingest_spec("orders", lake="/lake", schema="id bigint", key_format="raw", starting_offsets="latest")
    flow = project.flow("orders")

    assert (flow.format.type, flow.table.name) == ("json", "silver.orders")
    assert flow.key_as_text is False
    assert flow.starting_offsets.text() == "latest"


def test_a_text_topic_is_decoded():
    assert ingest_spec("orders", format="text").flow("orders").table.name == "silver.orders"


def test_a_format_may_have_options_of_its_own(tmp_path):
    options = format_with("python", ("function=decode:orders", "arrow=true", "timeout_s=5"))
    flow = ingest_spec("orders", format=options, schema="id bigint", base=tmp_path).flow("orders")
    assert (flow.format.function, flow.format.arrow, flow.format.timeout_s) == ("decode:orders", True, 5.0)
    options = {"type": "protobuf", "message": "shop.Order", "descriptor": "shop.desc"}
    project = ingest_spec("orders", format=options)
    assert "format: {type: protobuf, descriptor: shop.desc, message: shop.Order}" in to_yaml(project.spec)


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            "function",
            "an option of a format is written as NAME=VALUE; nothing was run\n  hint: --format-option function=",
        ),
        ("type=csv", "the name of a format is none of its options; nothing was run\n  hint: --format csv"),
    ],
)
def test_what_is_no_option_of_a_format(option, told):
    with pytest.raises(ArgumentInvalid) as caught:
        format_with("python", (option,))
    assert str(caught.value).startswith(f"[ARGUMENT_INVALID] --format-option: {told}")


def test_a_table_can_be_named():
    assert ingest_spec("orders", table="x.y").flow("orders").table.name == "x.y"


@pytest.mark.parametrize(
    ("topic", "flow"),
    [("7days", "topic_7days"), ("__internal", "topic_internal"), ("..." + "x" * 200, "topic_" + "x" * 94)],
)
def test_any_topic_makes_a_legal_flow(topic, flow):
    project = ingest_spec(topic, lake="/lake")

    assert list(project.spec.flows) == [flow]
    validate_static(project)


@pytest.mark.parametrize("value", [True, "true", "TRUE", "Yes", "yes", "1", 1, " True "])
def test_true_in_the_ways_that_people_write_it(value):
    assert parse_switch("debug", value) is True
    assert ingest_spec("orders", debug=value).debug is True


@pytest.mark.parametrize("value", [False, "false", "False", "NO", "no", "0", 0])
def test_false_in_the_ways_that_people_write_it(value):
    assert parse_switch("debug", value) is False
    assert ingest_spec("orders", debug=value).debug is False


@pytest.mark.parametrize("value", ["", "y", "on", "2", "tru", "null"])
@pytest.mark.parametrize("argument", ["debug", "follow", "once", "streaming", "update_schema"])
def test_anything_else_is_told_in_whole(argument, value):
    with pytest.raises(ArgumentInvalid) as caught:
        ingest_spec("orders", **{argument: value})

    assert str(caught.value) == (
        f"[ARGUMENT_INVALID] {argument}: {value!r} is none of true, yes, 1, false, no, 0; nothing was run\n"
        f"  hint: {argument}=true"
    )


@pytest.mark.parametrize(
    ("switches", "follow"),
    [
        ({}, False),
        ({"once": "yes"}, False),
        ({"once": "no"}, True),
        ({"streaming": "1"}, True),
        ({"follow": True, "streaming": "true", "once": "false"}, True),
        ({"follow": "no", "once": "1"}, False),
    ],
)
def test_once_and_streaming_say_whether_to_follow(switches, follow):
    assert ingest_spec("orders", **switches).follow is follow


def test_switches_that_contradict_each_other_are_told_in_whole():
    with pytest.raises(ArgumentInvalid) as caught:
        ingest_spec("orders", once="yes", streaming="yes")

    assert str(caught.value) == (
        "[ARGUMENT_INVALID] once and streaming: they contradict each other (once=true, streaming=true); "
        "nothing was run\n  hint: give one"
    )


@pytest.mark.parametrize("topic", ["", "  "])
def test_an_empty_topic_is_told_in_whole(topic):
    with pytest.raises(TopicNameEmpty) as caught:
        ingest_spec(topic)

    assert str(caught.value) == (
        "[TOPIC_NAME_EMPTY] topic: the name of a topic is empty; nothing was run\n"
        "  hint: name a topic, for example: orders"
    )


def test_an_illegal_topic_is_told_in_whole():
    with pytest.raises(TopicNameInvalid) as caught:
        ingest_spec("my orders")

    assert str(caught.value) == (
        "[TOPIC_NAME_INVALID] topic: 'my orders' is no name of a Kafka topic: only letters, digits, '.', '_' and '-' "
        "are allowed; nothing was run\n  hint: name a topic, for example: orders"
    )


def test_only_an_inferred_schema_is_updated():
    with pytest.raises(ArgumentInvalid) as caught:
        ingest_spec("orders", update_schema="yes", schema="id bigint")

    assert str(caught.value) == (
        "[ARGUMENT_INVALID] update_schema: the schema is given, or there is none, so it is not inferred; "
        "nothing was run\n  hint: no --schema and no --format"
    )
    assert ingest_spec("orders", update_schema="no", schema="id bigint").spec.flows != {}
    assert ingest_spec("orders", update_schema="yes").spec.flows != {}


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        pytest.param(
            {"format": "canal"},
            "[ARGUMENT_INVALID] schema: canal needs the schema of the rows that its envelopes tell of; nothing was "
            'run\n  hint: --schema "id bigint, at timestamp"',
            id="envelopes without schema",
        ),
        pytest.param(
            {"format": "csv"},
            "[ARGUMENT_INVALID] schema: csv needs the schema of what its values hold; nothing was run\n"
            '  hint: --schema "id bigint, at timestamp"',
            id="lines without schema",
        ),
        pytest.param(
            {"format": "regex", "schema": "id bigint"},
            "[ARGUMENT_INVALID] format: regex needs pattern; nothing was run\n"
            "  hint: --format-option pattern='(?<id>[0-9]+) (?<text>.*)'",
            id="lines without a pattern",
        ),
        pytest.param(
            {"sink": "history", "schema": "id bigint"},
            "[ARGUMENT_INVALID] sequence_by: a history needs to know from when a record is valid; nothing was run\n"
            "  hint: --sequence-by updated_at, or Kafka's own time: --sequence-by kafka_timestamp",
            id="a history without its order",
        ),
        pytest.param(
            {"format": "raw", "schema": "id bigint"},
            "[ARGUMENT_INVALID] schema: format raw has no schema; nothing was run\n"
            "  hint: --format json, or no --schema",
            id="raw with a schema",
        ),
        pytest.param(
            {"format": "jsn", "schema": "id bigint"},
            "[UNKNOWN_KIND] unknown format 'jsn'; nothing was run\n  hint: did you mean 'json'?",
            id="a slip in the format",
        ),
        pytest.param(
            {"format": "protobuf"},
            "[ARGUMENT_INVALID] format: protobuf needs message; nothing was run\n"
            "  hint: --format-option message=shop.Order",
            id="a message without its name",
        ),
        pytest.param(
            {"format": {"type": "protobuf", "message": "shop.Order"}},
            "[PROJECT_INVALID] flows.orders.format: the table's schema is one of two; nothing was run\n"
            "  hint: descriptor: shop.desc, or subject and version",
            id="a message without its file",
        ),
        pytest.param(
            {"format": "protobuf", "schema": "id bigint"},
            "[ARGUMENT_INVALID] schema: format protobuf has no schema; nothing was run\n"
            "  hint: --format json, or no --schema",
            id="a message with a schema",
        ),
        pytest.param(
            {"format": "python", "schema": "id bigint"},
            "[ARGUMENT_INVALID] format: python needs function; nothing was run\n"
            "  hint: --format-option function=decode:orders",
            id="python without its function",
        ),
        pytest.param(
            {"format": "python"},
            "[ARGUMENT_INVALID] schema: python needs the schema of what its values hold; nothing was run\n"
            '  hint: --schema "id bigint, at timestamp"',
            id="python without a schema",
        ),
        pytest.param(
            {"format": {"function": "decode:orders"}, "schema": "id bigint"},
            "[ARGUMENT_INVALID] format: its options are there, and not its name; nothing was run\n"
            "  hint: --format python --format-option function=decode:orders",
            id="options of a format without name",
        ),
        pytest.param(
            {"format": {"type": "json", "schema": "id int"}, "schema": "id bigint"},
            "[ARGUMENT_INVALID] schema: it is given twice, as an option of the format, too; nothing was run\n"
            "  hint: one of them",
            id="two schemas",
        ),
        pytest.param(
            {"format": {"type": "python", "function": "decode:orders", "speed": "5"}, "schema": "id bigint"},
            "[UNKNOWN_KEY] unknown key 'speed' in flows.orders.format; nothing was run\n"
            "  hint: known: arrow, function, schema, timeout_s, timestamp_precision, type",
            id="an option that a format lacks",
        ),
        pytest.param(
            {"sink": "append", "keys": ["id"]},
            "[ARGUMENT_INVALID] keys: an append has a row for each record, whatever its key; nothing was run\n"
            "  hint: --sink upsert, or no --keys",
            id="keys of an append",
        ),
        pytest.param(
            {"sink": "append", "sequence_by": "at"},
            "[ARGUMENT_INVALID] sequence_by: an append has a row for each record, whatever its key; nothing was run\n"
            "  hint: --sink upsert, or no --sequence-by",
            id="a sequence of an append",
        ),
        pytest.param(
            {"sink": "upsrt"},
            "[UNKNOWN_KIND] unknown sink 'upsrt'; nothing was run\n  hint: did you mean 'upsert'?",
            id="a slip in the sink",
        ),
        pytest.param(
            {"maintenance": "after"},
            "[PROJECT_INVALID] flows.orders.maintenance: 'after' is no maintenance; nothing was run\n"
            "  hint: write after_run, or a mapping: {optimize: daily, vacuum: weekly}",
            id="no maintenance",
        ),
        pytest.param(
            {"table": "orders"},
            "[PROJECT_INVALID] flows.orders.table: 'orders' is no table name (schema.table or catalog.schema.table); "
            "nothing was run\n"
            "  hint: table: bronze.orders",
            id="a table without schema",
        ),
        pytest.param(
            {"key_format": "hex"},
            "[UNKNOWN_KIND] unknown format 'hex'; nothing was run\n"
            "  hint: known: avro, canal, connect_json, csv, debezium, int, json, jvm, key_value, long, maxwell, "
            "msgpack, ogg, protobuf, python, raw, regex, text, xml",
            id="an unknown key_format",
        ),
    ],
)
def test_arguments_that_do_not_fit_are_told_in_whole(arguments, told):
    with pytest.raises(RivermouthError) as caught:
        ingest_spec("orders", **arguments)

    assert str(caught.value) == told


def test_the_printout_shows_all_that_was_derived_and_no_secret():
    project = ingest_spec(
        "orders",
        lake="s3a://lake/${STAGE}",
        bootstrap_servers="${BROKERS}",
        kafka_options={"security.protocol": "SSL", "ssl.key.password": "hunter2"},
        schema="id bigint",
        debug="yes",
        streaming="yes",
        environ={"STAGE": "dev", "BROKERS": "hidden:9092"},
    )

    assert derived_text(project) == (
        "mode:              follow\n"
        "debug:             true\n"
        "bootstrap_servers: ${BROKERS}\n"
        "kafka options:     security.protocol, ssl.key.password\n"
        "flow:              orders\n"
        "topics:            orders\n"
        "starting_offsets:  earliest\n"
        "format:            json\n"
        "key_format:        text\n"
        "sink:              upsert\n"
        "keys:              kafka_key\n"
        "sequence_by:       Kafka's own order\n"
        "table:             silver.orders_debug at s3a://lake/dev/silver/orders_debug\n"
        "dead letters:      s3a://lake/dev/silver/orders__dead_letters_debug\n"
        "checkpoint:        s3a://lake/dev/_rivermouth_debug/checkpoints/silver.orders\n"
        "state:             s3a://lake/dev/_rivermouth_debug\n"
        "maintenance:       after_run"
    )


def test_what_is_saved_is_the_same_project():
    project = ingest_spec("shop.orders", lake="./lake", schema="id bigint, at timestamp")
    text = to_yaml(project.spec)
    loaded, problems = validate_document(yaml_source.read(text, "rivermouth.yml"), "rivermouth.yml")

    assert problems == []
    assert loaded == project.spec
    assert text == (
        "name: rivermouth\n"
        "lake: ./lake\n"
        "flows:\n"
        "  shop_orders:\n"
        "    topics: [shop.orders]\n"
        "    format: {type: json, schema: 'id bigint, at timestamp'}\n"
        "    table: silver.shop_orders\n"
        "    sink: upsert\n"
        "    maintenance: after_run\n"
    )


def test_the_table_is_looked_after_unless_it_is_not_wanted():
    project = ingest_spec("orders", lake="/lake")
    assert project.spec.flows["orders"].maintenance == Maintenance.model_validate("after_run")
    assert derived(project)[-1] == ("maintenance", "after_run")

    project = ingest_spec("orders", lake="/lake", maintenance="never")
    assert project.spec.flows["orders"].maintenance is None
    assert derived(project)[-1][0] == "state"


def test_the_table_has_one_row_a_key_unless_it_shall_not():
    flow = ingest_spec("orders", lake="/lake").flow("orders")
    assert (flow.sink.type, key_columns(flow)) == ("upsert", ["kafka_key"])

    flow = ingest_spec("orders", schema="id bigint, at timestamp", keys="id", sequence_by="at", sink="history").flow(
        "orders"
    )
    assert (flow.sink.type, flow.keyed.keys, flow.keyed.sequence_by) == ("history", ("id",), ("at",))

    project = ingest_spec("orders", lake="/lake", sink="append")
    assert ("sink", "append") in derived(project)
    assert "sink" not in to_yaml(project.spec)


def carried(lake, topic, table, **arguments):
    """As a first run leaves it: the table's log with its first ledger entry, the copy of that, and a kept schema."""
    project = in_lake(ingest_spec(topic, lake=str(lake), table=table, **arguments), LocalFiles())
    (flow,) = project.flows()
    places = project.places(flow.name)
    entry = first_entry(flow.name, {topic: {0: 0}}, {topic: None})
    log = f"{places.table}/_delta_log/{0:020d}.json"
    LocalFiles().write(log, json.dumps({"commitInfo": {"userMetadata": entry.to_json(), "operation": "CREATE TABLE"}}))
    LocalFiles().write(places.ledger_file, json.dumps({"entry": entry.to_json(), "version": 0, "counts": None}))
    LocalFiles().write(f"{places.schemas()}/1.json", "{}")
    return flow.name


@pytest.mark.parametrize("first", ["orders-eu", "orders.eu"])
@pytest.mark.parametrize("form", [{"schema": "id bigint"}, {"format": "raw"}])
def test_two_topics_whose_tables_are_called_alike_are_not_mixed(tmp_path, first, form):
    table = f"{'bronze' if 'format' in form else 'silver'}.orders_eu"
    assert carried(tmp_path, first, None, **form) == "orders_eu"
    project, _ = ingest_project(first, lake=str(tmp_path), **form)
    assert [each.name for each in project.flows()] == ["orders_eu"]

    with pytest.raises(ArgumentInvalid) as caught:
        ingest_project("orders_eu", lake=str(tmp_path), **form)

    assert str(caught.value) == (
        f"[ARGUMENT_INVALID] table: table {table} is there already, and holds topic {first}; nothing was run\n"
        f"  hint: --table {table}_2"
    )
    project, _ = ingest_project("orders_eu", lake=str(tmp_path), table=f"{table}_2", **form)
    assert [each.topics for each in project.flows()] == [("orders_eu",)]


def test_two_topics_of_one_flow_name_have_kept_schemas_of_their_own(tmp_path):
    """Their tables are called differently, or were named."""
    long = "x" * 100
    pairs = [("2024", "_2024", None), (f"{long}1", f"{long}2", None), ("orders-eu", "orders.eu", "silver.other")]
    for number, (first, second, table) in enumerate(pairs):
        lake = tmp_path / str(number)
        name = carried(lake, first, None)
        other = carried(lake, second, table)
        assert re.fullmatch(re.escape(name[:91]) + "_[0-9a-f]{8}", other)
        assert [carried(lake, first, None), carried(lake, second, table)] == [name, other]
        # The same topic in another table is still the same flow.
        assert carried(lake, first, "silver.again") == name


def test_a_lake_that_only_spark_reads_is_left_to_spark():
    class Closed(LocalFiles):
        def names(self, folder):
            raise LakeNotReadable(place=folder, detail="no")

    project = ingest_spec("orders", lake="/lake")
    assert in_lake(project, Closed()) is project
