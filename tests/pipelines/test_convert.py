"""``rivermouth convert``: flows as files of a pipeline and back, as texts; nothing of this needs Spark."""

import json

import pytest
import yaml

from rivermouth.cli.main import invoke
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.convert.conversions import to_flows, to_pipeline
from rivermouth.pipelines.convert.drafts import Pipeline
from rivermouth.pipelines.convert.flow_in_file import flow_in_file
from rivermouth.pipelines.convert.to_python import literal
from rivermouth.pipelines.names import Names
from rivermouth.pipelines.python.decode import SETTINGS
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.python.user_modules import importing
from rivermouth.pipelines.spec import SourceLine
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.project.file.dump import flow_body
from rivermouth.project.file.reading import read_project

SHOP = """\
lake: ./lake
flows:
  orders:
    topics: [orders, returns]
    starting_offsets: 2026-01-31T12:00:00+00:00
    format: {type: json, schema: "id bigint, amount double, `a b` string"}
    expectations:
      - {name: positive, condition: amount > 0, action: dead_letter}
      - {name: has "id", condition: id <> 7}
    table:
      name: silver.orders
      partition_by: [{day: date(kafka_timestamp)}]
      properties: {delta.enableChangeDataFeed: true}
      comment: Paul's orders
    trigger: {every: 30 seconds, max_offsets: 500}
"""
PYTHON = '''\
"""Made by `rivermouth convert` of flow orders of rivermouth.yml."""

from pyspark import pipelines as dp

from rivermouth.pipelines import decode


@dp.table(
    name="silver.orders",
    comment="Paul's orders",
    table_properties={"delta.enableChangeDataFeed": "true"},
    partition_cols=["day"],
    spark_conf={"pipelines.trigger.interval": "30 seconds"},
)
@dp.expect_or_dead_letter("positive", "amount > 0")
@dp.expect('has "id"', "id <> 7")
def orders():
    records = (
        spark.readStream.format("kafka")
        .option("subscribe", "orders,returns")
        .option("startingTimestamp", "1769860800000")
        .option("startingOffsetsByTimestampStrategy", "latest")
        .option("includeHeaders", "true")
        .option("maxOffsetsPerTrigger", "500")
        .load()
    )
    rows = decode(records, format={"type": "json", "schema": "id bigint, amount double, `a b` string"})
    return rows.selectExpr("*", "date(kafka_timestamp) AS day")
'''
CUSTOMERS = """\
lake: ./lake
flows:
  customers:
    topics: [customers]
    format: {type: json, schema: "id bigint, name string, version int, gone boolean"}
    sink: {type: upsert, keys: [id], sequence_by: version, apply_as_deletes: gone, except_columns: [gone]}
    table: silver.customers
"""
SQL = """\
-- Made by `rivermouth convert` of flow customers of rivermouth.yml.
CREATE TEMPORARY VIEW customers_changes
AS SELECT record.*, kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, ingested_at
FROM (
  SELECT from_json(CAST(value AS STRING), 'id bigint, name string, version int, gone boolean') AS record, \
topic AS kafka_topic, partition AS kafka_partition, offset AS kafka_offset, timestamp AS kafka_timestamp, \
CAST(key AS STRING) AS kafka_key, current_timestamp() AS ingested_at
  FROM STREAM read_kafka(subscribe => 'customers', startingOffsets => 'earliest')
  WHERE value IS NOT NULL
);

CREATE OR REFRESH STREAMING TABLE silver.customers (
  CONSTRAINT has_key EXPECT (id IS NOT NULL) ON VIOLATION DEAD LETTER,
  CONSTRAINT has_sequence EXPECT ((version) IS NOT NULL) ON VIOLATION DEAD LETTER
)
TBLPROPERTIES ('pipelines.cdc.tombstoneGCThresholdInSeconds' = '604800');

CREATE FLOW customers_changes_flow AS AUTO CDC INTO silver.customers
FROM STREAM(customers_changes)
KEYS (id)
APPLY AS DELETE WHEN gone
SEQUENCE BY version
COLUMNS * EXCEPT (gone)
STORED AS SCD TYPE 1;
"""


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def _converted(folder, text, language="sql", leave_out=("dead_letters",)):
    """Each flow of a project as a file of a pipeline, by name."""
    (folder / "rivermouth.yml").write_text(text)
    spec, _ = read_project(folder / "rivermouth.yml", "rivermouth.yml", {})
    return {
        name: to_pipeline(flow_in_file("rivermouth.yml", name, {}), language, leave_out) for name in spec.flows
    }, spec


def _back(text):
    found = read_sql(text, SourceLine("shop.sql", 1))
    return to_flows(Pipeline(found, Names("default"), {"topic": "orders"}), "shop", "./lake")


def test_a_flow_becomes_python(here):
    found, _ = _converted(here, SHOP, "python")
    assert found["orders"].text == PYTHON
    assert found["orders"].differences == ()


def test_a_keyed_flow_becomes_sql(here):
    found, _ = _converted(here, CUSTOMERS)
    assert found["customers"].text == SQL
    assert str(found["customers"].differences[0]) == (
        "rivermouth.yml:6: sink: a record without a value is left out, and deletes no key"
    )


SAME = {
    "raw": "{topics: [t], format: raw, table: a.b}",
    "raw without null": "{topics: [t], format: raw, null_values: drop, table: a.b}",
    "raw without null as dead letters": "{topics: [t], format: raw, null_values: dead_letter, table: a.b}",
    "nulls as dead letters": '{topics: [t], format: {type: json, schema: "id bigint"}, null_values: dead_letter, '
    "table: a.b}",
    "text": "{topics: [t], format: text, starting_offsets: latest, table: a.b}",
    "json": '{topics: [t, u], format: {type: json, schema: "id bigint, n string"}, table: a.b}',
    "names": "{topics: [t], format: text, metadata_columns: [kafka_topic, kafka_partition, kafka_offset], table: a.b}",
    "renamed": '{topics: [t], format: {type: json, schema: "id bigint"}, table: a.b, metadata_columns: '
    "{kafka_topic: topic, kafka_partition: part, kafka_offset: place, kafka_timestamp: at}}",
    "headers": "{topics: [t], format: text, table: a.b, metadata_columns: [kafka_topic, kafka_partition, kafka_offset, "
    "kafka_timestamp_type, kafka_headers]}",
    "key bytes": '{topics: [t], format: {type: json, schema: "id bigint"}, key_format: raw, table: a.b}',
    "key text": "{topics: [t], format: raw, key_format: text, table: a.b}",
    "pattern": "{topic_pattern: t-.*, format: text, table: a.b}",
    "partitions": "{assign: {t: [0, 2]}, format: text, starting_offsets: {t: {0: 5, 2: -1}}, table: a.b}",
    "nulls and empty documents": '{topics: [t], format: {type: json, schema: "id bigint", no_declared_field: keep}, '
    "null_values: keep, table: a.b}",
    "times": '{topics: [t], format: {type: json, schema: "at timestamp, d date", timestamp_format: yyyy.MM.dd HH, '
    "date_format: dd.MM.yyyy}, table: a.b}",
    "select": '{topics: [t], format: {type: json, schema: "id bigint, o struct<x: int>"}, select: [id, o.x AS x, '
    '"id * 2 AS double"], table: a.b}',
    "select all": '{topics: [t], format: {type: json, schema: "id bigint"}, select: ["*", "id * 2 AS double"], '
    "table: a.b}",
    "select all but": '{topics: [t], format: {type: json, schema: "id bigint, n int"}, select: ["* EXCEPT (n)", '
    '"n + 1 AS m"], table: a.b}',
    "explode": '{topics: [t], format: {type: json, schema: "id bigint, items array<int>"}, explode: items, table: a.b}',
    "explode as": '{topics: [t], format: {type: json, schema: "id bigint, items array<struct<sku: string>>"}, '
    "explode: items AS item, select: [id, item.sku AS sku], table: a.b}",
    "explode a map": '{topics: [t], format: {type: json, schema: "id bigint, tags map<string, string>"}, '
    "explode: 'tags AS (name, tag)', table: a.b}",
    "array of documents": '{topics: [t], format: {type: json, schema: "id int, n string"}, explode: "*", table: a.b}',
    "expectations": '{topics: [t], format: {type: json, schema: "id bigint"}, expectations: [{name: a, condition: id > '
    "1, action: drop}, {name: b, condition: id < 9, action: fail}, {name: c, condition: id <> 3}], table: a.b}",
    "layout": '{topics: [t], format: {type: json, schema: "id bigint"}, table: {name: a.b, cluster_by: [id], '
    "properties: {delta.appendOnly: true, delta.logRetentionDuration: interval 3 days}, comment: it's}}",
    "partitioned": '{topics: [t], format: {type: json, schema: "id bigint, day date"}, table: {name: a.b, '
    'partition_by: [day, {hour: "hour(kafka_timestamp)"}]}}',
    "trigger": "{topics: [t], format: text, table: a.b, trigger: {every: 1 minute, max_offsets: 9, min_offsets: 2, "
    "max_delay: 5 seconds, min_partitions: 4}}",
    "upsert by kafka's key": '{topics: [t], format: {type: json, schema: "n string"}, sink: upsert, table: a.b}',
    "upsert": '{topics: [t], format: {type: json, schema: "id bigint, n string, v int, op string"}, table: a.b, sink: '
    "{type: upsert, keys: [id], sequence_by: v, apply_as_deletes: op = 'd', apply_as_truncates: op = 't', "
    "except_columns: [op], tombstones: ignore, remember_deletes: 3 days}}",
    "upsert of some columns": '{topics: [t], format: {type: json, schema: "id bigint, n string, v int"}, table: a.b, '
    "sink: {type: upsert, keys: [id], columns: [n], tombstones: ignore, ignore_null_updates: true}}",
    "history": '{topics: [t], format: {type: json, schema: "id bigint, n string, v int, w int"}, table: a.b, sink: '
    "{type: history, keys: [id], sequence_by: [v, w], tombstones: ignore, track_history_except_columns: [n]}}",
    "history by text key": "{topics: [t], format: text, table: a.b, sink: {type: history, sequence_by: kafka_offset, "
    "tombstones: ignore}}",
}


@pytest.mark.parametrize("name", SAME)
def test_a_flow_that_went_there_and_back_is_the_same(here, name):
    found, spec = _converted(here, f"lake: ./lake\nflows:\n  b: {SAME[name]}\n")
    back = _back(found["b"].text)
    assert [*map(str, back.no_flows)] == []
    assert yaml.safe_load(back.text)["flows"] == {"b": yaml.safe_load(yaml.safe_dump(flow_body(spec.flows["b"])))}


@pytest.mark.parametrize("name", SAME)
def test_a_flow_that_went_to_python_and_back_is_the_same(here, name):
    found, spec = _converted(here, f"lake: ./lake\nflows:\n  b: {SAME[name]}\n", "python")
    file, registry = here / f"made_{[*SAME].index(name)}.py", Registry(here)
    file.write_text(found["b"].text)
    with importable({}), importing(here, [file]):
        definitions = Evaluation(here, {"spark": None}, {}, registry).evaluate([file])
        back = to_flows(Pipeline(definitions, Names("default"), {}), "shop", "./lake")
    assert [*map(str, back.no_flows)] == []
    assert yaml.safe_load(back.text)["flows"] == {"b": yaml.safe_load(yaml.safe_dump(flow_body(spec.flows["b"])))}


LEFT_OUT = {
    "group_id: g": "group_id: a pipeline does not show its progress under a consumer group",
    "ending_offsets: latest": "ending_offsets: a pipeline reads to the end of the topic",
    "evolution: {on_new_column: evolve}": "evolution: from_json reads the declared columns alone: no column is added, "
    "widened, rescued or refused",
    "places: {table: 'elsewhere/{table}'}": "places: the table is at <lake>/<schema>/<table>",
    "maintenance: after_run": "maintenance: a run of a pipeline does not optimize or vacuum its tables",
    "previously: old": "previously: a table of a pipeline has no former name",
    "select: id\n    null_values: dead_letter": "null_values: a record without a value is left out, and no dead letter",
    "table: {name: a.b, column_comments: {id: the id}}": "table.column_comments: a converted table has no comments on "
    "its columns",
    "format: {type: json, schema: 'at timestamp', timestamp_precision: truncate}": "format.timestamp_precision: "
    "from_json cuts digits behind the microsecond off",
}
WITHOUT_DEAD_LETTERS = """\
lake: ./lake
flows:
  b: {topics: [t], format: {type: json, schema: "id bigint, n int"}, select: id, table: a.b}
"""
SAID = {
    "on_data_loss: record": "on_data_loss: records that are lost are passed over, and not written down",
    "starting_offsets: {t: {1: 5}}": "starting_offsets: Spark wants an offset for each partition of the topic",
    "table: main.a.b": "table.name: the table is a.b, and not registered in a catalog",
    "topics: ['${TOPIC:-t}']": "topics.0: the value that ${TOPIC} has now is written, and not the variable",
}


def _flow(setting):
    found = {"topics": "[t]", "format": "{type: json, schema: 'id bigint'}", "table": "a.b"}
    for line in setting.splitlines():
        name, _, value = line.strip().partition(": ")
        found[name] = value
    lines = "\n".join(f"    {name}: {value}" for name, value in found.items())
    return f"lake: ./lake\nflows:\n  b:\n{lines}\n", next(i for i, name in enumerate(found) if name in setting) + 4


@pytest.mark.parametrize("setting", LEFT_OUT)
def test_a_setting_that_a_pipeline_does_not_have_is_refused_unless_it_may_be_left_out(here, setting):
    text, _ = _flow(setting)
    name = LEFT_OUT[setting].partition(":")[0]
    at = 4 + [line.split(":")[0].strip() for line in text.splitlines()[3:]].index(name.partition(".")[0])
    with pytest.raises(RivermouthError) as refused:
        _converted(here, text, leave_out=["dead_letters"] if "select" in text else ())
    given = "dead_letters," if "select" in text else ""
    assert str(refused.value) == (
        "[FLOW_SETTINGS_NOT_CONVERTIBLE] flow b has settings that a pipeline does not have, and nothing was written:\n"
        f"  rivermouth.yml:{at}: {LEFT_OUT[setting]}\n"
        f"  hint: rivermouth convert b --leave-out {given}{name}"
    )
    found, _ = _converted(here, text, leave_out=[name, "dead_letters"])
    assert f"rivermouth.yml:{at}: {LEFT_OUT[setting]}" in [*map(str, found["b"].differences)]


@pytest.mark.parametrize("setting", SAID)
def test_what_is_different_is_named_with_its_line(here, setting):
    found, _ = _converted(here, _flow(setting)[0])
    assert SAID[setting] in [str(each).split(": ", 1)[1] for each in found["b"].differences]


def test_a_flow_whose_dead_letters_a_pipeline_cannot_have_is_refused(here):
    with pytest.raises(RivermouthError) as refused:
        _converted(here, WITHOUT_DEAD_LETTERS, leave_out=())
    assert str(refused.value) == (
        "[FLOW_SETTINGS_NOT_CONVERTIBLE] flow b has settings that a pipeline does not have, and nothing was written:\n"
        "  rivermouth.yml:3: dead_letters: a value that is no JSON is left out, and no dead letter\n"
        "  hint: rivermouth convert b --leave-out dead_letters"
    )


def test_what_a_project_says_of_all_its_flows_is_refused_too(here):
    text = "lake: ./lake\nmaintenance: after_run\nflows:\n  b: {topics: [t], format: text, group_id: g, table: a.b}\n"
    with pytest.raises(RivermouthError) as refused:
        _converted(here, text, leave_out=())
    assert str(refused.value).splitlines()[1:] == [
        "  rivermouth.yml:4: group_id: a pipeline does not show its progress under a consumer group",
        "  rivermouth.yml:2: maintenance: a run of a pipeline does not optimize or vacuum its tables",
        "  hint: rivermouth convert b --leave-out group_id,maintenance",
    ]


def test_every_setting_of_a_flow_is_carried_over_or_named():
    from rivermouth.pipelines.convert.from_flow import _LEFT_OUT, _REFUSED
    from rivermouth.sinks.history import History
    from rivermouth.sinks.upsert import Upsert
    from rivermouth.spec import Flow, Table, Trigger

    carried = {"name", "topics", "topic_pattern", "assign", "starting_offsets", "format", "metadata_columns", "explode"}
    carried |= {"null_values", "select", "expectations", "table", "sink", "trigger", "key_format", "on_data_loss"}
    assert {*Flow.model_fields} == carried | {*_LEFT_OUT} | {*_REFUSED}
    # max_tables is of families, which are refused.
    assert {*Table.model_fields} == {
        *("name", "max_tables", "partition_by", "cluster_by", "properties", "comment", "column_comments")
    }
    assert {*Trigger.model_fields} == {"every", "max_offsets", "min_offsets", "max_delay", "min_partitions"}
    # Snapshots, from_ and rows, are refused.
    keyed = {"type", "keys", "sequence_by", "apply_as_deletes", "apply_as_truncates", "tombstones", "remember_deletes"}
    keyed |= {"columns", "except_columns", "from_", "rows"}
    partial = {"ignore_null_updates", "ignore_null_updates_columns", "ignore_null_updates_except_columns"}
    assert {*Upsert.model_fields} == keyed | partial | {"columns_to_update"}
    assert {*History.model_fields} == keyed | {"track_history_columns", "track_history_except_columns"}


ODD = """\
lake: ./lake   # a comment
flows:
  odd-name_x:   # another
    topics: [t.1-c]
    format: {type: json, schema: "id bigint, `a'b` string, `we\\"ird` string"}
    select: ["*", "id -- the id\\n + 1 AS nxt", "'a\\nb' AS p -- of two lines"]
    expectations: [{name: "it's", condition: "id > 0 -- positive"}]
    table: {name: a.class, partition_by: [{part: "id % 2 -- two"}]}
  spark: {topic_pattern: '^ord\\.\\d+$', format: text, table: a.spark}
  order:
    topics: [t]
    format: {type: json, schema: "`order` string, `group` int, v int"}
    sink: {type: upsert, keys: [{k: "upper(`order`) -- x"}], sequence_by: [v], apply_as_deletes: "v < 0 -- gone", \
tombstones: ignore}
    table: b.order
  orders: {topics: [t], format: {type: json, schema: "v int"}, sink: upsert, table: c.order}
"""


def test_names_and_texts_that_are_odd_go_there_and_back(here):
    found, spec = _converted(here, ODD)
    back = _back("\n".join(each.text for each in found.values()))
    assert [*map(str, back.no_flows)] == []
    flows = yaml.safe_load(back.text)["flows"]
    assert [*flows] == ["class", "spark", "order", "order_2"]
    for (name, made), own in zip(flows.items(), spec.flows.values(), strict=True):
        before = json.dumps(flow_body(own), default=str)
        for comment in (" -- of two lines", " -- positive", " -- two", " -- x", " -- gone"):
            before = before.replace(comment, "")
        assert made == json.loads(before), name
    python, _ = _converted(here, ODD, "python")
    for each in python.values():
        compile(each.text, "made.py", "exec")
    assert "def class_():" in python["odd-name_x"].text
    assert "def spark_():" in python["spark"].text
    text = ODD.replace("'a\\nb'", "'$${x}'")
    with pytest.raises(RivermouthError) as refused:
        _converted(here, text)
    assert str(refused.value) == (
        "[FLOW_NOT_CONVERTIBLE] flow odd-name_x cannot be a table of a pipeline: it has a text with ${, which is a "
        "parameter in SQL; nothing was written\n"
        "  at: rivermouth.yml:3\n"
        "  hint: rivermouth convert odd-name_x"
    )
    assert "'${x}' AS p" in _converted(here, text, "python")[0]["odd-name_x"].text


REFUSED = {
    "topics: [t]\n    format: {type: avro, schema: '\"int\"'}": "Spark has no function that reads the format avro "
    "as it does",
    "source: {table: a.r}\n    format: text": "it reads no Kafka topic but table a.r",
    "topics: [t]\n    format: text\n    compression: gzip": "its values are compressed, and Spark has no function that "
    "reads them",
    "topics: [t]\n    format: text\n    sink: {type: files, format: parquet, path: ./archive}": "its rows are also "
    "written to an archive",
    "topics: [t]\n    format: text\n    sink: {type: kafka, topic: other}": "its rows are also written to a topic",
    "topics: [t]\n    format: {type: json, schema: infer}": "its schema is inferred: write the schema that `rivermouth "
    "schema` shows",
    "topics: [t]\n    format: text\n    key_format: long": "the pipeline has no key format long",
    "topics: [t]\n    format: text\n    starting_offsets: {group: g}": "Spark does not start at the offsets of a "
    "consumer group",
    "topics: [t]\n    format: {type: json, schema: 'at timestamp', timestamp_format: epoch_ms}": "from_json reads no "
    "times that are numbers",
    "topics: [t]\n    format: {type: json, schema: 'at timestamp', framing: confluent}": "from_json has nothing like "
    "framing",
}


@pytest.mark.parametrize("flow", REFUSED)
def test_a_flow_that_no_pipeline_can_be_is_refused(here, flow):
    with pytest.raises(RivermouthError) as refused:
        _converted(here, f"lake: ./lake\nflows:\n  b:\n    {flow}\n    table: a.b\n")
    assert (refused.value.code, refused.value.detail) == ("FLOW_NOT_CONVERTIBLE", REFUSED[flow])
    assert refused.value.at.startswith("rivermouth.yml:")


PIPELINE = """\
CREATE STREAMING TABLE raw AS SELECT * FROM STREAM read_kafka(
  bootstrapServers => 'b:9092', subscribe => '${topic}', `kafka.security.protocol` => 'SASL_SSL',
  `kafka.sasl.jaas.config` => secret('kafka', 'login'), `fetchOffset.numRetries` => 3);
CREATE STREAMING TABLE orders (CONSTRAINT ok EXPECT (id IS NOT NULL) ON VIOLATION DROP ROW)
TBLPROPERTIES ('quality' = 'silver')
AS SELECT o.*, ts AS sent_at
FROM (SELECT from_json(r.value::string, 'id bigint, amount double') AS o, timestamp ts FROM STREAM(LIVE.raw) AS r)
WHERE o.amount > 0;
CREATE MATERIALIZED VIEW totals AS SELECT count(*) AS n FROM orders;
CREATE STREAMING TABLE joined AS SELECT * FROM STREAM orders JOIN totals ON true;
CREATE STREAMING TABLE files AS SELECT * FROM STREAM read_files('x');
CREATE STREAMING TABLE two;
CREATE FLOW one AS INSERT INTO two BY NAME SELECT * FROM STREAM(raw);
CREATE FLOW other AS INSERT INTO two BY NAME SELECT * FROM STREAM(raw);
CREATE STREAMING TABLE batch AS SELECT * FROM read_kafka(subscribe => 't');
CREATE STREAMING TABLE grouped AS SELECT key, count(*) AS n FROM STREAM(raw) GROUP BY key;
CREATE STREAMING TABLE computed AS SELECT upper(CAST(value AS STRING)) AS value FROM STREAM(raw);
CREATE STREAMING TABLE whole AS SELECT from_json(CAST(value AS STRING), 'id bigint') AS doc FROM STREAM(raw);
CREATE STREAMING TABLE outside AS SELECT * FROM STREAM other.t;
CREATE STREAMING TABLE decoded AS SELECT id FROM STREAM read_kafka(subscribe => 'a', format => 'raw');
"""


STRICT = "what is no JSON, or does not fit its column, is a dead letter of the flow; from_json makes nulls of it"
SECRET = "it may hold a secret, and is left out: write it below kafka, with a reference"


def test_the_tables_that_are_flows_and_why_the_others_are_none():
    found = _back(PIPELINE)
    assert yaml.safe_load(found.text) == {
        "name": "shop",
        "lake": "./lake",
        "kafka": {"bootstrap_servers": "b:9092", "options": {"security.protocol": "SASL_SSL"}},
        "flows": {
            "raw": {
                "topics": ["orders"],
                "starting_offsets": "latest",
                "format": "raw",
                "metadata_columns": {
                    "kafka_topic": "topic",
                    "kafka_partition": "partition",
                    "kafka_offset": "offset",
                    "kafka_timestamp": "timestamp",
                    "kafka_timestamp_type": "timestampType",
                    "kafka_key": "key",
                },
                "table": "default.raw",
            },
            "orders": {
                "topics": ["orders"],
                "starting_offsets": "latest",
                "format": {"type": "json", "schema": "id bigint, amount double", "no_declared_field": "keep"},
                "metadata_columns": {
                    "kafka_topic": "kafka_topic",
                    "kafka_partition": "kafka_partition",
                    "kafka_offset": "kafka_offset",
                    "kafka_timestamp": "sent_at",
                },
                "null_values": "keep",
                "expectations": [
                    {"name": "ok", "condition": "id IS NOT NULL", "action": "drop"},
                    {"name": "where", "condition": "amount > 0", "action": "drop"},
                ],
                "table": "default.orders",
            },
        },
    }
    orders = [str(each) for each in found.differences if each.at == "shop.sql:4"]
    assert orders == [
        "shop.sql:4: fetchOffset.numRetries: a flow has no such option of the source; it is left out",
        "shop.sql:4: columns: the table of a flow has kafka_topic, kafka_partition, kafka_offset too",
        "shop.sql:4: quality: a flow's table has properties of Delta alone; it is left out",
        f"shop.sql:4: from_json: {STRICT}",
        "shop.sql:4: WHERE: a row that is filtered out is counted as dropped, by an expectation",
        "shop.sql:4: raw: the flow reads the topic itself, and not raw",
        f"shop.sql:4: kafka.sasl.jaas.config: {SECRET}",
    ]
    assert [*map(str, found.no_flows)] == [
        "shop.sql:9: totals is no flow: it is a materialized view, and a flow appends or merges",
        "shop.sql:10: joined is no flow: a flow has nothing like JOIN",
        "shop.sql:11: files is no flow: it reads read_files, and not Kafka",
        "shop.sql:12: two is no flow: it has several flows, and the table of a flow has one",
        "shop.sql:15: batch is no flow: it is a batch query over Kafka",
        "shop.sql:16: grouped is no flow: a flow has nothing like GROUP",
        "shop.sql:17: computed is no flow: a column is computed of Kafka's columns: upper(CAST(value AS STRING))",
        "shop.sql:18: whole is no flow: the document is one column, doc: select doc.*",
        "shop.sql:19: outside is no flow: it reads the table other.t, and not Kafka",
        "shop.sql:20: decoded is no flow: it decodes records within read_kafka",
    ]


def test_the_command(here, capsys):
    (here / "rivermouth.yml").write_text(SHOP)
    assert invoke(["convert", "orders"]) == 0
    shown = capsys.readouterr()
    assert shown.out == PYTHON
    assert shown.err == ""

    assert invoke(["convert", "orders", "-o", "orders.sql"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "orders.sql is written: silver.orders"
    assert (here / "orders.sql").read_text().startswith("-- Made by `rivermouth convert` of flow orders")
    written = (here / "orders.sql").read_bytes()
    assert invoke(["convert", "orders", "-o", "orders.sql"]) == 1
    assert capsys.readouterr().err == (
        "[CONVERTED_FILE_EXISTS] orders.sql is there already; it was not changed\n"
        "  hint: name another file with -o, or add --force\n"
    )
    assert invoke(["convert", "orders", "-o", "orders.sql", "--to", "sql", "--force"]) == 0
    assert (here / "orders.sql").read_bytes() == written
    capsys.readouterr()

    assert invoke(["convert", "orders.sql", "--output", "json"]) == 0
    value = json.loads(capsys.readouterr().out)
    assert (value["file"], value["made"], value["no_flows"]) == (None, ["orders"], [])
    assert {*value["differences"][0]} == {"at", "setting", "text"}
    assert yaml.safe_load(value["text"])["flows"]["orders"]["topics"] == ["orders", "returns"]

    (here / "view.sql").write_text("CREATE MATERIALIZED VIEW m AS SELECT 1 AS one;\n")
    assert invoke(["convert", "view.sql", "-o", "new.yml"]) == 1
    assert capsys.readouterr().err == (
        "[NOTHING_CONVERTED] no table of view.sql is a flow, and nothing was written:\n"
        "  view.sql:1: m is no flow: it is a materialized view, and a flow appends or merges\n"
        "  hint: rivermouth run view.sql\n"
    )
    assert not (here / "new.yml").exists()

    (here / "avro.yml").write_text(
        "lake: ./l\nflows:\n  a: {topics: [t], format: {type: avro, schema: '\"int\"'}, table: a.b}\n"
    )
    assert invoke(["convert", "a", "-f", "avro.yml", "-o", "a.sql"]) == 1
    assert capsys.readouterr().err == (
        "[FLOW_NOT_CONVERTIBLE] flow a cannot be a table of a pipeline: Spark has no function that reads the format "
        "avro as it does; nothing was written\n"
        "  at: avro.yml:3\n"
        "  hint: keep the flow; a query of a pipeline reads its table by name: FROM STREAM a.b\n"
    )


USAGE = {
    "view.sql --to sql": "--to is the language of a pipeline file, and files of a pipeline become flows.",
    "view.sql --leave-out group_id": "--leave-out is about settings of a flow.",
    "orders --profile prod": "--profile and --param are about pipelines, and orders is a flow.",
    "orders --param a=b": "--profile and --param are about pipelines, and orders is a flow.",
    "orders other": "orders is no source file: name source files, or one flow, folder or file with settings.",
    "pipeline.yml view.sql": "pipeline.yml is no source file: name source files, or one flow, folder or file with "
    "settings.",
    "view.sql orders": "orders is no source file: name source files, or one flow, folder or file with settings.",
    "orders/ view.sql": "orders/ is no source file: name source files, or one flow, folder or file with settings.",
}


def test_the_command_converts_one_thing(here, capsys):
    (here / "rivermouth.yml").write_text(f"{SHOP}spark: {{driver_memory: 1g}}\n")
    (here / "orders").mkdir()
    (here / "view.sql").write_text("CREATE STREAMING TABLE t AS SELECT * FROM STREAM read_kafka(subscribe => 't');\n")
    for command, said in USAGE.items():
        assert invoke(["convert", *command.split()]) == 2, command
        assert said in " ".join(capsys.readouterr().err.split()), command

    # A flow is meant, though a folder has its name.
    assert invoke(["convert", "orders"]) == 0
    assert capsys.readouterr().out == PYTHON
    assert invoke(["convert", "orders/"]) == 1
    assert capsys.readouterr().err.startswith("[ARGUMENT_INVALID] FILE: orders/ has no pipeline")

    assert invoke(["convert", "view.sql"]) == 0
    shown = capsys.readouterr()
    assert [*yaml.safe_load(shown.out)["flows"]] == ["t"]
    assert shown.err == "rivermouth.yml:16: spark: rivermouth.yml says it, and the new file does not: copy it\n"

    (here / "orders/t.sql").write_text((here / "view.sql").read_text())
    (here / "orders/rivermouth.yml").write_text("lake: ./l\npipelines:\n  p: {files: [t.sql], continuous: true}\n")
    assert invoke(["convert", "orders/"]) == 0
    assert capsys.readouterr().err == "rivermouth.yml:3: continuous: flows go on with rivermouth run --follow\n"


DECODED = {
    "a format": "topics: [t]\n    format: {type: avro, schema: '\"int\"'}\n    compression: gzip",
    "keys": "topics: [t]\n    format: text\n    key_format: long",
    "times": "topics: [t]\n    format: {type: json, schema: 'at timestamp', timestamp_format: epoch_ms}",
    "a keyed sink": "topics: [t]\n    format: {type: json, schema: 'id int'}\n    sink: {type: upsert, keys: [id], "
    "tombstones: ignore}",
}


@pytest.mark.parametrize("name", DECODED)
def test_python_reads_records_as_the_flow_does(here, name):
    found, spec = _converted(here, f"lake: ./lake\nflows:\n  b:\n    {DECODED[name]}\n    table: a.b\n", "python")
    own = {key: value for key, value in flow_body(spec.flows["b"]).items() if key in SETTINGS}
    assert f"decode(records, {', '.join(f'{key}={literal(value)}' for key, value in own.items())})" in found["b"].text
    assert not [each for each in found["b"].differences if each.setting in SETTINGS]


def test_python_refuses_a_schema_that_is_inferred(here):
    with pytest.raises(RivermouthError) as refused:
        _converted(
            here,
            "lake: ./lake\nflows:\n  b: {topics: [t], format: {type: json, schema: infer}, table: a.b}\n",
            "python",
        )
    assert str(refused.value) == (
        "[FLOW_NOT_CONVERTIBLE] flow b cannot be a table of a pipeline: its schema is inferred: write the schema that "
        "`rivermouth schema` shows; nothing was written\n"
        "  at: rivermouth.yml:3\n"
        "  hint: keep the flow; a query of a pipeline reads its table by name: FROM STREAM a.b"
    )


@pytest.mark.parametrize(
    ("written", "own"),
    [
        ("is_tombstone OR (n IN ('d'))", "n IN ('d')"),
        ("is_tombstone OR n IN ('d')", "n IN ('d')"),
        ("is_tombstone OR (n = ')' OR n = '(') AND (n > '')", "(n = ')' OR n = '(') AND (n > '')"),
        ("n IN ('d')", "n IN ('d')"),
    ],
)
def test_a_condition_on_deletions_comes_back_whole(here, written, own):
    body = '{topics: [t], format: {type: json, schema: "n string"}, sink: {type: upsert, apply_as_deletes: gone}'
    found, _ = _converted(here, f"lake: ./lake\nflows:\n  b: {body}, table: a.b}}\n")
    text = found["b"].text
    assert "AS DELETE WHEN is_tombstone OR (gone)\n" in text
    back = _back(text.replace("is_tombstone OR (gone)", written))
    assert yaml.safe_load(back.text)["flows"]["b"]["sink"]["apply_as_deletes"] == own
