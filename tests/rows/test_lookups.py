"""Lookups: columns of another table by a key; each record stays one row, and goes to one place."""

from __future__ import annotations

import pytest

from rivermouth import Record, RivermouthError
from rivermouth.engine.flow.lookup_tables import LookupTables
from rivermouth.engine.report.plan import looked_up
from rivermouth.project.commands.checks.sample_verdicts import check_records
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.testing import run_flow as plain_run_flow

SCHEMA = "id bigint, customer_id bigint, shop struct<code: string>, amount double, op string"
FOUND = {1: ("Ada", "gold"), 2: ("Bo", "silver"), 3: (None, None)}


def project(lookup, **flow):
    body = {
        "topics": ["orders"],
        "format": {"type": "json", "schema": SCHEMA},
        "lookup": lookup,
        "table": "silver.orders",
        "metadata_columns": ["kafka_key", "kafka_timestamp"],
        **flow,
    }
    return {"name": "shop", "lake": "/nowhere/lake", "flows": {"orders": body}}


def lookup(missing="keep", **fields):
    columns = ["name", "tier"]
    return {"table": "silver.customers", "on": "customer_id", "columns": columns, "missing": missing, **fields}


@pytest.fixture(scope="module")
def customers(spark):
    rows = [(key, *FOUND[key]) for key in FOUND] + [(None, "Nobody", "none"), (None, "Nobody else", "none")]
    return spark.createDataFrame(rows, "customer_id bigint, name string, tier string")


def order(number, customer, **fields):
    return {"id": number, "customer_id": customer, "amount": 1.0, **fields}


ORDERS = [order(1, 1), order(2, 9), order(3, None), order(4, 3), b"{bad", None, order(5, 1), order(6, 2, amount=-1.0)]


def table(flow, *columns):
    return sorted((tuple(row) for row in flow.table().select(*columns).collect()), key=str)


@pytest.mark.parametrize(
    ("missing", "unmatched"),
    [
        ("keep", [(2, None, None), (3, None, None)]),
        pytest.param("drop", [], marks=pytest.mark.long),
        pytest.param("dead_letter", [], marks=pytest.mark.long),
    ],
)
def test_each_record_finds_its_row_and_one_without_a_row_goes_where_the_lookup_says(
    missing, unmatched, spark, customers, run_flow
):
    expectations = [{"name": "positive", "condition": "amount > 0 OR tier = 'gold'", "action": "drop"}]
    flow = run_flow(
        project(lookup(missing), expectations=expectations),
        "orders",
        ORDERS,
        spark=spark,
        tables={"silver.customers": customers},
    )
    found = [(1, "Ada", "gold"), (4, None, None), (5, "Ada", "gold")]
    assert table(flow, "id", "name", "tier") == sorted(found + unmatched, key=str)
    counts = flow.counts
    assert counts.adds_up
    assert counts.consumed == len(ORDERS)
    assert counts.expectations == {"positive": 1, "lookup silver.customers on customer_id": 2}
    letters = [tuple(row) for row in flow.dead_letters().select("stage", "reason", "field", "message").collect()]
    refused = ("lookup", "LOOKUP_MISSING", "customer_id", "no row of silver.customers has the record's customer_id")
    assert sorted(row for row in letters if row[1] != "INVALID_JSON") == (
        [refused] * 2 if missing == "dead_letter" else []
    )
    dropped = {"keep": {"null value": 1}, "dead_letter": {"null value": 1}}
    dropped["drop"] = {"lookup silver.customers on customer_id": 2, "null value": 1}
    assert flow.outcome.dropped_by == {"expectation positive": 1, **dropped[missing]}


SHOPS = [(1, "a", "north"), (1, "b", "south"), (2, "a", "east")], "customer bigint, code string, region string"
WEIGHTS = [("k1", 10), ("k2", None)], "k string, weight int"
BOTH = [
    {"table": "shops", "on": {"customer_id": "customer", "shop.code": "code"}, "columns": {"region": "area"}},
    {"table": "keys", "on": {"kafka_key": "k"}, "columns": ["weight"], "missing": "drop", "where": "k <> 'k9'"},
]
KEYED = [
    Record({"id": 1, "customer_id": 1, "shop": {"code": "b"}}, key="k1"),
    Record({"id": 2, "customer_id": 2, "shop": {"code": "b"}}, key="k2"),
    Record({"id": 3, "customer_id": 1, "shop": {"code": "a"}}, key="k3"),
    Record({"id": 4, "customer_id": 1, "shop": None}, key=None),
]
SELECT = ["id", "upper(area) AS area", "weight + 1 AS weight"]


@pytest.mark.long
def test_records_that_are_checked_find_rows_by_several_keys_fields_and_metadata_columns(tmp_path, spark):
    for name, told in (("shops", SHOPS), ("keys", WEIGHTS)):
        spark.createDataFrame(*told).coalesce(1).write.format("delta").save(str(tmp_path / "lake" / name))
    spec = {**project(BOTH, select=SELECT), "lake": str(tmp_path / "lake")}
    found = check_records(ResolvedProject.from_spec(spec), "orders", KEYED)
    assert [each.verdict for each in found] == ["table", "table", "dropped", "dropped"]
    assert [tuple(each.row[name] for name in ("id", "area", "weight")) for each in found[:2]] == [
        (1, "SOUTH", 11),
        (2, None, None),
    ]


@pytest.mark.long
def test_keys_may_be_several_have_other_names_or_be_fields_and_metadata_columns(spark, run_flow):
    tables = {"shops": spark.createDataFrame(*SHOPS), "keys": spark.createDataFrame(*WEIGHTS)}
    flow = run_flow(project(BOTH, select=SELECT), "orders", KEYED, spark=spark, tables=tables)
    assert table(flow, "id", "area", "weight") == [(1, "SOUTH", 11), (2, None, None)]
    assert flow.counts.dropped == 2
    assert flow.table().columns[:3] == ["id", "area", "weight"]


@pytest.mark.long
@pytest.mark.parametrize("sink", ["upsert", "history"])
def test_keyed_tables_take_deletions_whatever_the_lookup_finds(sink, spark, customers, run_flow):
    kind = {"type": sink, "keys": ["id"], "sequence_by": "amount", "apply_as_deletes": "op = 'D'"}
    flow = run_flow(
        project(lookup("dead_letter"), sink=kind),
        "orders",
        [
            *(Record(order(number, 1, amount=1.0), key=str(number)) for number in (1, 2, 3)),
            Record(order(1, 9, amount=2.0, op="D"), key="1"),
            Record(None, key="2"),
            Record(order(3, 9, amount=2.0), key="3"),
        ],
        spark=spark,
        tables={"silver.customers": customers},
    )
    rows = flow.table()
    rows = rows.where("__END_AT IS NULL") if sink == "history" else rows
    assert sorted(tuple(row) for row in rows.select("id", "name").collect()) == [(3, "Ada")]
    assert flow.counts.merged == 5
    assert [row.reason for row in flow.dead_letters().collect()] == ["LOOKUP_MISSING"]


@pytest.mark.long
def test_a_new_version_is_read_by_the_next_batch_and_dead_letters_pass_by_it(spark, customers, run_flow):
    flow = run_flow(
        project(lookup("dead_letter")), "orders", [order(1, 9)], spark=spark, tables={"silver.customers": customers}
    )
    assert flow.counts.dead_lettered == 1
    more = spark.createDataFrame([(9, "Cy", "gold")], "customer_id bigint, name string, tier string")
    flow.write_table("silver.customers", customers.unionByName(more)).update([order(2, 9)])
    assert table(flow, "id", "name") == [(2, "Cy")]


INVALID = """[LOOKUP_INVALID] flow orders: the lookup in table silver.customers cannot be used: {}; nothing was run
  hint: {}"""
KEYS_TWICE = """[LOOKUP_KEYS_TWICE] flow orders: version 0 of table silver.customers has 2 rows for 1 values of \
customer_id, so a record would find several; no record was read
  hint: SELECT `customer_id`, count(*) FROM delta.`{place}` GROUP BY `customer_id` HAVING count(*) > 1; \
of a table with history choose the newest rows by where: __END_AT IS NULL"""
TOO_LARGE = """[LOOKUP_TOO_LARGE] flow orders: version 0 of table silver.customers has 2 rows, and its lookup keeps at \
most 1; no record was read
  hint: max_rows: 2, if the driver has the memory; or a join in a pipeline, which needs no broadcast"""
OTHER_TYPE = INVALID.format(
    "'customer_id' of the records is bigint, and 'customer_id' of the table is string",
    "declare it with the table's type in the schema of the format: customer_id string",
)
NO_COLUMN = INVALID.format("the table has no column 'nam'", "did you mean 'name'?")
TAKEN = INVALID.format(
    "the flow has a column 'AMOUNT' already", "give it another name: columns: {{name: looked_up_name}}"
)
CHANGING = INVALID.format("it may be another at another time", "where: customer_id IS NOT NULL")


@pytest.mark.parametrize(
    ("rows", "fields", "text"),
    [
        ([(1, "Ada", "gold"), (1, "Bo", "gold")], {}, KEYS_TWICE),
        ([(1, "Ada", "gold"), (2, "Bo", "gold")], {"max_rows": 1}, TOO_LARGE),
        ([("1", "Ada", "gold")], {}, OTHER_TYPE),
        ([(1, "Ada", "gold")], {"columns": ["nam"]}, NO_COLUMN),
        ([(1, "Ada", "gold")], {"columns": {"name": "AMOUNT"}}, TAKEN),
        ([(1, "Ada", "gold")], {"where": "current_date() > DATE '2020-01-01'"}, CHANGING),
    ],
)
def test_a_lookup_that_cannot_be_used_is_refused(rows, fields, text, spark, run_flow):
    key = "bigint" if isinstance(rows[0][0], int) else "string"
    frame = spark.createDataFrame(rows, f"customer_id {key}, name string, tier string")
    with pytest.raises(RivermouthError) as raised:
        run_flow(project(lookup(**fields)), "orders", [order(1, 1)], spark=spark, tables={"silver.customers": frame})
    place = str(raised.value).partition("delta.`")[2].partition("`")[0]
    assert str(raised.value) == text.format(place=place)


@pytest.mark.long
def test_a_table_that_is_not_there_and_one_that_lost_a_column_stop_the_flow_and_nothing_is_lost(
    spark, customers, run_flow
):
    flow = run_flow(
        project(lookup("drop")), "orders", [order(1, 1)], spark=spark, tables={"silver.customers": customers}
    )
    flow.write_table("silver.customers", customers.drop("tier"))
    with pytest.raises(RivermouthError, match="the table has no column 'tier'"):
        flow.update([order(2, 1)])
    flow.write_table("silver.customers", customers).update()
    assert table(flow, "id", "tier") == [(1, "gold"), (2, "gold")]
    with pytest.raises(RivermouthError) as raised:
        plain_run_flow(project(lookup()), "orders", [order(1, 1)], spark=spark)
    place = str(raised.value).partition(" exist at ")[2].partition(";")[0]
    assert str(raised.value) == (
        "[LOOKUP_TABLE_MISSING] flow orders: table silver.customers of its lookup does not exist at "
        f"{place}; no record was read\n  hint: name a table that exists: lookup: {{table: schema.table, ...}}"
    )


@pytest.mark.parametrize(
    ("flows", "words"),
    [
        (
            {"orders": {"lookup": lookup(columns={"name": "kafka_key"})}},
            "lookup adds a column 'kafka_key', and the flow has one already",
        ),
        ({"orders": {"lookup": [lookup(), lookup(columns={"name": "other"})]}}, "is listed twice"),
        ({"orders": {"lookup": []}}, "lookup names no table"),
        ({"orders": {"lookup": lookup(columns={"name": "x", "tier": "x"})}}, "lookup gives two columns the name 'x'"),
        ({"orders": {"lookup": lookup(table="silver.orders")}}, "silver.orders is the flow's own table"),
        (
            {"orders": {"lookup": lookup()}, "customers": {"lookup": lookup(table="silver.orders")}},
            "flow customers, which writes silver.customers, itself reads the table of flow orders",
        ),
    ],
)
def test_what_the_file_alone_shows_is_refused_without_spark(flows, words):
    body = {
        name: {
            "topics": [name],
            "format": {"type": "json", "schema": "customer_id bigint"},
            "table": f"silver.{name}",
            **fields,
        }
        for name, fields in flows.items()
    }
    with pytest.raises(RivermouthError, match=words):
        validate_static(ResolvedProject.from_spec({"name": "shop", "lake": "/nowhere/lake", "flows": body}))


VERDICTS = [("keep", "table"), ("drop", "dropped"), ("dead_letter", "dead_letter")]


@pytest.mark.parametrize("wanted", [VERDICTS[1:2], pytest.param(VERDICTS, marks=pytest.mark.long)], ids=["drop", "all"])
def test_records_that_are_checked_find_their_rows_and_plan_tells_the_version(wanted, tmp_path, spark, customers):
    customers.write.format("delta").save(str(tmp_path / "lake/silver/customers"))
    flows = {
        missing: {**project(lookup(missing))["flows"]["orders"], "table": f"silver.{missing}"} for missing, _ in wanted
    }
    resolved = ResolvedProject.from_spec({"name": "shop", "lake": str(tmp_path / "lake"), "flows": flows})
    for missing, verdict in wanted:
        found = check_records(resolved, missing, [order(1, 1), order(2, 9)])
        assert [(each.verdict, each.row and each.row["tier"]) for each in found] == [
            ("table", "gold"),
            (verdict, None),
        ]
        assert found[1].reason == (None if missing == "keep" else "LOOKUP_MISSING")
    assert looked_up(spark, resolved.flow("drop")) == (
        "silver.customers on customer_id, version 0; a record without a row: drop",
    )


def test_a_lookup_is_written_as_it_is_read(tmp_path):
    text = """\
name: shop
lake: ./lake
flows:
  orders:
    topics: [orders]
    format: {type: json, schema: customer_id bigint}
    lookup:
      table: silver.customers
      'on': customer_id
      columns: [name]
      missing: drop
    table: silver.orders
  returns:
    topics: [returns]
    format: {type: json, schema: customer_id bigint}
    lookup:
      - table: silver.customers
        'on': {customer_id: id}
        columns: {name: customer}
      - table: silver.shops
        'on': kafka_key
        columns: [region]
    table: silver.returns
"""
    (tmp_path / "rivermouth.yml").write_text(text.replace("'on'", "on"))
    project = ResolvedProject.load(tmp_path / "rivermouth.yml")
    assert to_yaml(project.spec) == text
    assert [each.location for each in project.flow("returns").lookup] == [
        f"{tmp_path}/lake/silver/customers",
        f"{tmp_path}/lake/silver/shops",
    ]


def add_customers(spark, folder, number):
    """Appends a number of rows to the table of the lookup; returns the flow."""
    rows = spark.range(number).selectExpr("id AS customer_id", "'Ada' AS name", "'gold' AS tier")
    rows.coalesce(1).write.format("delta").mode("append").save(f"{folder}/lake/silver/customers")
    spec = {**project(lookup()), "lake": f"{folder}/lake"}
    return ResolvedProject.from_spec(spec, folder, {}).flow("orders")


@pytest.mark.long
def test_tables_that_are_looked_at_once_stay_out_of_memory(spark, tmp_path):
    flow = add_customers(spark, tmp_path, 3)
    for cached in (False, True):
        tables = LookupTables(cached=cached)
        (rows,) = tables.frames(spark, flow)
        assert rows.count() == 3
        assert [each.cached.is_cached for each in tables._loaded] == [cached]
        tables.close()


def test_a_table_is_in_memory_until_it_has_a_new_version(spark, tmp_path):
    flow, tables = add_customers(spark, tmp_path, 0), LookupTables()
    assert tables.refresh(spark, flow)
    assert not tables.refresh(spark, flow)
    assert ([each.cached.is_cached for each in tables._loaded], tables.versions) == ([True], (0,))
    add_customers(spark, tmp_path, 1)
    assert tables.refresh(spark, flow)
    (rows,) = tables.frames(spark, flow)
    assert (rows.count(), tables.versions) == (1, (1,))
    tables.close()
    once = LookupTables(cached=False)
    once.refresh(spark, flow)
    assert [each.cached.is_cached for each in once._loaded] == [False]
