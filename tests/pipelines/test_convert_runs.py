"""A flow and the pipeline that it was converted to, over the same topic: equal rows; and Python read back as flows."""

import json

import pytest
import yaml
from confluent_kafka import Producer
from deltalake import DeltaTable, QueryBuilder

from rivermouth import Project
from rivermouth.cli.main import invoke
from rivermouth.errors import TableOfFlow
from rivermouth.pipelines import commands
from rivermouth.pipelines.convert.conversions import to_flows
from rivermouth.pipelines.convert.load import read
from rivermouth.pipelines.convert.python_columns import function
from rivermouth.pipelines.running.plan import plan
from rivermouth.pipelines.selection import Selection
from rivermouth.project.file.dump import flow_body

FLOWS = """\
lake: ./{lake}
kafka: {{bootstrap_servers: "{servers}"}}
flows:
  orders:
    topics: [{orders}]
    format: {{type: json, schema: "id bigint, amount decimal(10,2), at timestamp, items array<struct<sku: string>>"}}
    select: ["* EXCEPT (items)", "size(items) AS n"]
    expectations:
      - {{name: positive, condition: amount > 0, action: drop}}
    table: {{name: silver.orders, partition_by: [{{day: date(at)}}]}}
  items:
    topics: [{orders}]
    format: {{type: json, schema: "id bigint, items array<struct<sku: string>>"}}
    explode: items AS item
    select: [id, item.sku AS sku]
    table: silver.items
  plain:
    topics: [{orders}, {customers}]
    format: {{type: json, schema: "id bigint, amount double"}}
    null_values: dead_letter
    table: silver.plain
  customers:
    topics: [{customers}]
    format: {{type: json, schema: "id bigint, name string, version int, gone boolean"}}
    sink: {{type: upsert, keys: [id], sequence_by: version, apply_as_deletes: gone, except_columns: [gone], \
tombstones: ignore}}
    table: silver.customers
  history:
    topics: [{customers}]
    format: {{type: json, schema: "id bigint, name string, version int, gone boolean"}}
    sink: {{type: history, keys: [id], sequence_by: version, apply_as_deletes: gone, tombstones: ignore}}
    table: silver.history
  latest:
    topics: [{customers}]
    format: {{type: json, schema: "name string"}}
    sink: upsert
    table: silver.latest
  raw:
    topics: [{customers}]
    format: raw
    table: bronze.customers
"""
ORDERS = [
    {"id": 1, "amount": 2.5, "at": "2026-01-31T09:15:00Z", "items": [{"sku": "a"}, {"sku": "b"}]},
    {"id": 2, "amount": -1, "at": "2026-02-01T10:00:00Z", "items": []},
    {"id": 3, "amount": 4, "at": "2026-02-01T11:00:00Z"},
    {"other": 1},
    "no document {",
]
CUSTOMERS = [
    ("1", {"id": 1, "name": "old", "version": 1}),
    ("2", {"id": 2, "name": "b", "version": 1}),
    ("1", {"id": 1, "name": "newest", "version": 3}),
    ("1", {"id": 1, "name": "late", "version": 2}),
    ("2", {"id": 2, "version": 2, "gone": True}),
    ("3", {"name": "keyless", "version": 1}),
    ("3", "no document {"),
    ("4", {"id": 4, "name": "d", "version": 1}),
    ("4", None),
]
TABLES = {
    "silver/plain": "id, amount, kafka_topic, kafka_offset",
    "silver/orders": "id, amount, at, n, day, kafka_offset, kafka_timestamp",
    "silver/items": "id, sku, kafka_position, kafka_offset",
    "silver/customers": "id, name, version, kafka_offset",
    "silver/history": "id, name, version, gone, __START_AT, __END_AT",
    "silver/latest": "kafka_key, name",
    "bronze/customers": "value, kafka_key, kafka_offset, kafka_timestamp",
}
DEAD_LETTERS = {"silver/orders": 2, "silver/plain": 5, "silver/customers": 2, "silver/history": 2}
PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from pyspark.sql.functions import col, from_json
from pyspark.sql.types import LongType, StringType, StructField, StructType

SERVERS = spark.conf.get("servers", "b:9092")
ORDER = StructType([StructField("id", LongType()), StructField("name", StringType())])
records = spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS).option("subscribe", "made").load()

@dp.table
def raw():
    return records

def topic(name):
    return (spark.readStream.format("kafka").option("kafka.bootstrap.servers", SERVERS)
            .options(subscribe=name, startingOffsets="earliest").load())

def make(name):
    @dp.table(name=f"bronze.{name}", partition_cols=["day"])
    @dp.expect_or_fail("has id", "id IS NOT NULL")
    def made():
        decoded = topic(name).select(from_json(F.col("value").cast("string"), ORDER).alias("v"), "timestamp")
        return (decoded.select("v.*", col("timestamp").alias("at"))
                .filter((col("id") > 5) & col("name").isNotNull())
                .withColumn("day", F.to_date("at")))

for each in ("first", "second"):
    make(each)

@dp.view
def changes():
    return dp.read_stream("bronze.first") if False else topic("changes").selectExpr(
        "from_json(CAST(value AS STRING), 'id bigint, v int') AS c").select("c.*")

@dp.table
def counted():
    return topic("x").groupBy("key").count()

@dp.table
def rated():
    return spark.readStream.format("rate").load()

@dp.table
def looped():
    for _ in range(2):
        pass
    return topic("x")

dp.create_streaming_table("target")
dp.create_auto_cdc_flow("target", "changes", ["id"], F.col("v"))

chosen = topic("a")
if SERVERS:
    chosen = topic("b")

@dp.table
def moved():
    return chosen
"""


def _fields(lake, table):
    return sorted((each.name, str(each.type)) for each in DeltaTable(str(lake / table)).schema().fields)


def _rows(lake, table, columns):
    read = QueryBuilder().register("t", DeltaTable(str(lake / table)))
    quoted = ", ".join(f'"{name.strip()}"' for name in columns.split(","))
    found = read.execute(f"SELECT {quoted} FROM t").read_all()
    return sorted(zip(*(found.column(i).to_pylist() for i in range(found.num_columns)), strict=True), key=repr)


@pytest.mark.long
def test_a_flow_and_its_pipeline_make_equal_tables(spark, tmp_path, monkeypatch, topic, broker):
    servers, monkey = broker.bootstrap_servers, monkeypatch
    orders, customers = topic(), topic()
    producer = Producer({"bootstrap.servers": servers, "enable.idempotence": True})
    for value in ORDERS:
        producer.produce(orders, value if isinstance(value, str) else json.dumps(value))
    for key, value in CUSTOMERS:
        producer.produce(customers, value if value is None or isinstance(value, str) else json.dumps(value), key=key)
    producer.flush(30)
    monkey.chdir(tmp_path)
    given = {"servers": servers, "orders": orders, "customers": customers}
    (tmp_path / "flows.yml").write_text(FLOWS.format(lake="flows", **given))
    Project.load(tmp_path / "flows.yml").run()

    (tmp_path / "rivermouth.yml").write_text(FLOWS.format(lake="pipelines", **given))
    names = yaml.safe_load(FLOWS.format(lake="flows", **given))["flows"]
    files = [f"{name}.{'sql' if number % 2 else 'py'}" for number, name in enumerate(names)]
    for name, file in zip(names, files, strict=True):
        assert invoke(["convert", name, "-o", file, "--leave-out", "dead_letters"]) == 0
    [pipeline] = commands.pipelines(files=files)
    outcomes = commands.run(pipeline)
    assert {each.dataset: each.error and str(each.error) for each in outcomes} == dict.fromkeys(
        each.dataset for each in outcomes
    )
    for table, columns in TABLES.items():
        wanted = _rows(tmp_path / "flows", table, columns)
        assert _rows(tmp_path / "pipelines", table, columns) == wanted, table
        assert wanted, table
        fields = [_fields(tmp_path / lake, table) for lake in ("pipelines", "flows")]
        assert fields[0] == fields[1], table
    for table, count in DEAD_LETTERS.items():
        found = [DeltaTable(str(tmp_path / lake / f"{table}__dead_letters")) for lake in ("pipelines", "flows")]
        assert [each.count() for each in found] == [count, count], table
    letters = "kafka_topic, kafka_offset, kafka_key, kafka_value, kafka_headers, reason, field, message"
    for table in ("silver/orders", "silver/plain"):
        found = [_rows(tmp_path / lake, f"{table}__dead_letters", letters) for lake in ("pipelines", "flows")]
        assert found[0] == found[1], table

    # The rows of a flow are not written again by a pipeline.
    (tmp_path / "rivermouth.yml").write_text(FLOWS.format(lake="flows", **given))
    before = DeltaTable(str(tmp_path / "flows/bronze/customers")).version()
    [other] = commands.pipelines(files=["raw.py"])
    cleared = Selection(full_refresh=("bronze.customers",))
    with pytest.raises(TableOfFlow):
        commands.run(other, commands.UpdateOptions(cleared))
    [outcome] = commands.run(other)
    for selection in (Selection(), cleared):
        with commands.opened(other, writes=False) as loaded, pytest.raises(TableOfFlow) as planned:
            plan(loaded, selection)
        assert str(planned.value) == str(outcome.error)
    table = f"{tmp_path}/flows/bronze/customers"
    assert str(outcome.error) == (
        f"[TABLE_OF_FLOW] dataset bronze.customers: the table {table} has rows of flow raw of "
        "a project file, whose offsets the pipeline does not know; nothing was written to it\n  at: raw.py:8\n"
        "  hint: name another table, or remove the flow from the project file and move its table away"
    )
    assert DeltaTable(table).version() == before

    # Back again: Python and SQL in one pipeline give the flows from which they were made.
    with read(pipeline) as known:
        back = to_flows(known, "back", "./lake")
    assert [*map(str, back.no_flows)] == []
    flows = yaml.safe_load(back.text)["flows"]
    own = {name: yaml.safe_load(yaml.safe_dump(flow_body(each))) for name, each in pipeline.project.spec.flows.items()}
    assert {each["table"] if isinstance(each["table"], str) else each["table"]["name"] for each in flows.values()} == {
        each["table"] if isinstance(each["table"], str) else each["table"]["name"] for each in own.values()
    }
    for name in ("items", "plain", "history", "latest", "customers"):
        assert flows[name] == own[name], name


_COLUMNS = (
    "s string, t string, i int, d double, ts timestamp, dt date, bin binary, arr array<string>, m map<string, int>"
)
_CALLS = {
    "": "current_date current_timestamp",
    "s": "upper lower trim ltrim rtrim length reverse initcap base64 md5 sha1 to_date to_timestamp hex unix_timestamp",
    "s t": "trim ltrim rtrim nvl coalesce nullif ifnull contains startswith concat levenshtein greatest create_map",
    "s 'x'": "split instr to_date to_timestamp date_format get_json_object unix_timestamp decode encode",
    "'x' s": "date_trunc locate",
    "'x' s t": "concat_ws format_string",
    "s 'x' t": "regexp_replace",
    "s 'x' 'y'": "translate regexp_replace",
    "s 'x' 2": "substring_index regexp_extract split",
    "s 2": "repeat pow",
    "s 2 3": "substring conv",
    "s 5 'x'": "lpad rpad",
    "i": "hash xxhash64 bin negative isnull isnotnull",
    "i 2": "round bround pow pmod hypot shiftleft",
    "d": "abs ceil floor sqrt exp ln signum isnan",
    "ts": "year month dayofmonth dayofweek hour minute second quarter last_day unix_timestamp to_date",
    "ts 'x'": "date_format from_utc_timestamp to_utc_timestamp trunc",
    "dt 2": "date_add date_sub add_months",
    "dt ts": "datediff months_between",
    "s 256": "sha2",
    "arr": "size array_distinct array_sort array_max sort_array cardinality",
    "arr 'x'": "array_contains array_position array_remove array_join array_append",
    "arr 1": "element_at get",
    "arr 1 2": "slice",
    "m": "map_keys map_values map_entries size",
    "m 'x'": "map_contains_key element_at",
    "s i": "struct array",
    "bin": "length hex",
}
_SAME_VALUES = {"pow": "POWER"}
"""What PySpark calls a function in a plan that has the same values by its own name."""


def test_functions_of_pyspark_mean_the_same_in_sql(spark):
    from pyspark.sql import functions

    frame = spark.createDataFrame([], _COLUMNS)
    calls = []
    for arguments, names in _CALLS.items():
        given = [int(each) if each.isdecimal() else each.strip("'") for each in arguments.split()]
        calls += [(getattr(functions, name), given) for name in names.split()]
    pairs = [(called(*given).alias("x"), f"{function(called, given, {}).text} AS x") for called, given in calls]
    wanted = frame.select(*(column for column, _ in pairs))._jdf.queryExecution().analyzed().expressions()
    found = frame.selectExpr(*(text for _, text in pairs))._jdf.queryExecution().analyzed().expressions()
    for i, (called, _) in enumerate(calls):
        text = wanted.apply(i).sql()
        other = _SAME_VALUES.get(called.__name__)
        assert found.apply(i).sql() == (text if other is None else text.replace(other, called.__name__)), pairs[i][1]


def test_python_that_people_write_is_read(folder):
    folder.write("src/a.py", PYTHON)
    with read(folder.pipeline(servers="b:9092")) as known:
        found = to_flows(known, "shop", "./lake")
    assert [*map(str, found.no_flows)] == [
        "src/a.py:38: counted is no flow: a flow has nothing like .groupBy()",
        "src/a.py:42: rated is no flow: it reads rate, and not Kafka",
        "src/a.py:46: looped is no flow: its function has a statement for",
        "src/a.py:33: target is no flow: its function has an expression that is not read: IfExp",
        "src/a.py:59: moved is no flow: chosen is a frame that is made in more than one place",
    ]
    value = yaml.safe_load(found.text)
    made = value["flows"]["first"]
    assert value["kafka"] == {"bootstrap_servers": "b:9092"}
    assert [*value["flows"]] == ["raw", "first", "second"]
    assert value["flows"]["raw"]["format"] == "raw"
    assert value["flows"]["second"]["topics"] == ["second"]
    assert made == {
        "topics": ["first"],
        "format": {"type": "json", "schema": "id bigint, name string", "no_declared_field": "keep"},
        "metadata_columns": {
            "kafka_topic": "kafka_topic",
            "kafka_partition": "kafka_partition",
            "kafka_offset": "kafka_offset",
            "kafka_timestamp": "at",
        },
        "null_values": "keep",
        "expectations": [
            {
                "name": "has id",
                "condition": "(((id > 5) AND (name IS NOT NULL))) IS NOT TRUE OR (id IS NOT NULL)",
                "action": "fail",
            },
            {"name": "where", "condition": "((id > 5) AND (name IS NOT NULL))", "action": "drop"},
        ],
        "table": {"name": "bronze.first", "partition_by": [{"day": "to_date(at)"}]},
    }
