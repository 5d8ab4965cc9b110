"""Definitions that change: what a table takes at once, and what needs a full refresh or a table without rows."""

from __future__ import annotations

import pytest
from tests.pipelines.conftest import refusal

from rivermouth.pipelines.running import reset
from rivermouth.ports.internals.delta_snapshot import clustering_columns

ORDERS = """
CREATE STREAMING TABLE orders PARTITIONED BY (day) COMMENT 'one' TBLPROPERTIES ('quality' = 'bronze') AS
SELECT id, day, amount FROM STREAM read_files('{folder}/in', format => 'json',
  schema => 'id BIGINT, day STRING, amount INT');
"""
DOWNSTREAM = """
CREATE STREAMING TABLE silver AS SELECT id, amount FROM STREAM orders;
CREATE STREAMING TABLE newest;
CREATE FLOW newest AS AUTO CDC INTO newest FROM STREAM(orders) KEYS (id) SEQUENCE BY amount;
CREATE MATERIALIZED VIEW totals CLUSTER BY (day) AS SELECT day, max(id) AS id FROM orders GROUP BY day;
"""
TEXTS = (("SELECT id, day", "SELECT CAST(id AS STRING) AS id, day"), ("PARTITIONED BY (day)", "PARTITIONED BY (id)"))
PARTITIONS_CHANGED = (
    "[TABLE_PARTITIONS_CHANGED] dataset orders: the table is partitioned by day, and its definition says id; "
    "nothing was written\n"
    "  at: src/a.sql:2\n"
    "  hint: rivermouth run --full-refresh orders, or write the partition columns of the table"
)
SCHEMA_CHANGED = (
    "[TABLE_SCHEMA_CHANGED] dataset orders: column id is bigint in the table, and its query brings string; "
    "nothing was written\n"
    "  at: src/a.sql:2\n"
    "  hint: rivermouth run --full-refresh orders, or cast the column in the query"
)


def types(folder, name):
    return {each.name: str(each.type) for each in folder.table(name).schema().fields}


def results(folder, **selection):
    return {name: (each.result, each.error and str(each.error)) for name, each in folder.run(**selection).items()}


def completed(*names):
    return dict.fromkeys(names, ("completed", None))


def test_a_comment_properties_and_fewer_columns_are_taken_and_other_partitions_and_types_are_refused(folder):
    folder.define(ORDERS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5})
    assert results(folder) == completed("orders")
    folder.define(ORDERS, ("'one'", "'two'"), ("'bronze'", "'silver'"), ("SELECT id, day, amount", "SELECT id, day"))
    folder.feed("in/2.json", {"id": 2, "day": "a", "amount": 6})
    assert results(folder) == completed("orders")
    found = folder.table("orders").metadata()
    assert (found.description, found.configuration["quality"]) == ("two", "silver")
    assert folder.rows("default.orders", "id, day, amount") == [(1, "a", 5), (2, "a", None)]
    folder.define(ORDERS, *TEXTS)
    assert refusal(folder.plan) == PARTITIONS_CHANGED
    folder.define(ORDERS, TEXTS[0])
    assert refusal(folder.plan) == SCHEMA_CHANGED


@pytest.mark.long
def test_properties_comment_and_clustering_are_set_and_partitions_need_a_full_refresh(folder):
    folder.define(ORDERS)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5})
    assert results(folder) == completed("orders")
    more = "'silver', 'delta.appendOnly' = 'false', 'delta.minReaderVersion' = '1', 'own.it\\'s' = 'a\\\\b'"
    folder.define(ORDERS, ("'one'", "'it''s $two'"), ("'bronze'", more))
    assert results(folder) == completed("orders")
    found = folder.table("orders")
    assert found.metadata().description == "it's $two"
    expected = {"quality": "silver", "delta.appendOnly": "false", "own.it's": "a\\b"}
    assert found.metadata().configuration.items() >= expected.items()
    assert results(folder) == completed("orders")
    assert folder.table("orders").version() == found.version()

    for clusters, column, what in (
        ("id, is_new", "is_new", "which is boolean: Delta keeps no bounds of it"),
        ("idd", "idd", "which is no column"),
    ):
        flags = ("SELECT id, day", "SELECT amount > 1 AS is_new, id, day")
        folder.define(ORDERS, flags, ("PARTITIONED BY (day)", f"CLUSTER BY ({clusters})"))
        assert refusal(folder.plan) == (
            f"[DEFINITION_INVALID] dataset orders: its table is to be clustered by {column}, {what}; "
            "the pipeline was not run\n"
            "  at: src/a.sql:2\n"
            "  hint: cluster it by other columns: id, day, amount"
        )
    folder.define(ORDERS, *TEXTS)
    assert refusal(folder.run) == PARTITIONS_CHANGED
    assert refusal(folder.plan) == PARTITIONS_CHANGED
    folder.define(ORDERS, TEXTS[0])
    assert refusal(folder.run) == SCHEMA_CHANGED
    assert types(folder, "orders")["id"] == 'PrimitiveType("long")'
    planned = folder.plan(full_refresh=("orders",))["orders"]
    assert [(each.action, each.reason) for each in planned.flows] == [
        ("clear", "all rows are removed, and its sources read again")
    ]
    assert planned.new_columns == ("id string", "day string", "amount int")
    assert results(folder, full_refresh=("orders",)) == completed("orders")
    assert folder.rows("default.orders") == [("1", "a", 5)]


@pytest.mark.long
def test_a_full_refresh_gives_tables_and_those_that_read_them_their_new_definitions(folder, monkeypatch):
    folder.define(ORDERS + DOWNSTREAM)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5}, {"id": 2, "day": "b", "amount": 6})
    names = ("orders", "silver", "newest", "totals")
    assert results(folder) == completed(*names)

    def stopped(*_arguments):
        raise OSError("the process ended")

    # Ended between the commit that clears the table and the one that defines it.
    folder.define(ORDERS + DOWNSTREAM, *TEXTS, ("CLUSTER BY (day)", "CLUSTER BY (id, day)"))
    with monkeypatch.context() as ended:
        ended.setattr(reset, "redefine", stopped)
        with pytest.raises(OSError, match="the process ended"):
            folder.run(full_refresh_all=True)
    assert folder.rows("default.orders") == []
    assert refusal(folder.run) == PARTITIONS_CHANGED
    folder.feed("in/2.json", {"id": 1, "day": "a", "amount": 7})
    assert results(folder, full_refresh_all=True) == completed(*names)
    for _ in range(2):
        assert folder.rows("default.orders") == [("1", "a", 5), ("1", "a", 7), ("2", "b", 6)]
        assert folder.rows("default.silver") == [("1", 5), ("1", 7), ("2", 6)]
        assert folder.rows("default.newest") == [("1", "a", 7), ("2", "b", 6)]
        assert folder.rows("default.totals") == [("a", "1"), ("b", "2")]
        assert results(folder) == completed(*names)
    assert folder.table("orders").metadata().partition_columns == ["id"]

    folder.define(ORDERS, ("'quality' = 'bronze'", "'pipelines.reset.allowed' = 'false'"))
    assert "[RESET_NOT_ALLOWED]" in refusal(lambda: folder.run(full_refresh=("orders",)))
    assert len(folder.rows("default.orders")) == 3


REPLACED = """
CREATE MATERIALIZED VIEW totals PARTITIONED BY (day) AS SELECT day, max(id) AS id FROM orders GROUP BY day;
CREATE MATERIALIZED VIEW newest CLUSTER BY (day, id) AS SELECT day, max(id) AS id FROM orders GROUP BY day;
CREATE STREAMING TABLE counts PARTITIONED BY (day) AS SELECT day, count(*) AS n FROM STREAM orders GROUP BY day;
"""


@pytest.mark.long
def test_tables_whose_rows_are_replaced_keep_their_partitions_and_clustering(folder, spark):
    folder.define(ORDERS + REPLACED)
    names = ("orders", "totals", "newest", "counts")
    for number, day in enumerate("ab", start=1):
        folder.feed(f"in/{number}.json", {"id": number, "day": day, "amount": 5})
        assert results(folder) == completed(*names)
    assert folder.rows("default.counts") == [("a", 1), ("b", 1)]
    assert folder.rows("default.totals") == [("a", 1), ("b", 2)]
    assert [folder.table(name).metadata().partition_columns for name in ("totals", "counts")] == [["day"], ["day"]]
    place = str(folder.folder / "lake/default/newest")
    assert clustering_columns(spark, place) == ("day", "id")
    version = folder.table("newest").version()
    assert results(folder) == completed(*names)
    assert folder.table("newest").version() == version
    # In a session that prefers to replace partitions all rows go all the same.
    settings = "configuration: {spark.sql.sources.partitionOverwriteMode: dynamic}\n"
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + settings)
    folder.feed("in/3.json", {"id": 3, "day": "c", "amount": 5})
    folder.define(
        ORDERS + REPLACED,
        ("max(id)", "max(id + 0)"),
        ("totals PARTITIONED BY (day)", "totals PARTITIONED BY (id)"),
    )
    assert results(folder, full_refresh=("totals",)) == completed("totals")
    assert results(folder) == completed(*names)
    assert folder.rows("default.totals") == [("a", 1), ("b", 2), ("c", 3)]
    assert folder.rows("default.counts") == [("a", 1), ("b", 1), ("c", 1)]


@pytest.mark.long
def test_a_column_that_the_query_does_not_have_any_more_goes_from_a_view_at_once_and_from_others_with_a_full_refresh(
    folder,
):
    view = "CREATE MATERIALIZED VIEW newest AS SELECT day, max(id) AS id FROM orders GROUP BY day;"
    folder.define(ORDERS + view)
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5})
    assert results(folder) == completed("orders", "newest")
    fewer = (("SELECT id, day, amount", "SELECT day, amount"), ("max(id) AS id", "count(*) AS n"))
    folder.define(ORDERS + view, *fewer)
    assert results(folder) == completed("orders", "newest")
    assert folder.rows("default.orders", "*") == [(1, "a", 5)]
    assert folder.rows("default.newest", "*") == [("a", 1)]
    planned = folder.plan(full_refresh_all=True)
    assert [planned[name].new_columns for name in ("orders", "newest")] == [("day string", "amount int"), ()]
    assert results(folder, full_refresh_all=True) == completed("orders", "newest")
    assert folder.rows("default.orders", "*") == [("a", 5)]
    assert folder.rows("default.newest", "*") == [("a", 1)]


def test_a_table_that_never_had_rows_gets_its_definition(folder):
    folder.define(ORDERS + "CREATE STREAMING TABLE broken AS SELECT nothing FROM STREAM orders;")
    folder.feed("in/1.json", {"id": 1, "day": "a", "amount": 5})
    assert "[QUERY_INVALID]" in refusal(folder.run)
    assert types(folder, "orders")["id"] == 'PrimitiveType("long")'
    folder.define(ORDERS, *TEXTS)
    assert folder.plan()["orders"].new_columns == ("id string", "day string", "amount int")
    assert results(folder) == completed("orders")
    assert folder.rows("default.orders") == [("1", "a", 5)]
    assert folder.table("orders").metadata().partition_columns == ["id"]
