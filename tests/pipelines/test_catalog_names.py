"""Tables of a pipeline in the catalog of its project: found by name, and named by ``plan``."""

import uuid

import pytest

from rivermouth.cli.pipelines import plan_text
from rivermouth.errors import CatalogNameTwice
from rivermouth.pipelines import commands

SQL = """
CREATE STREAMING TABLE orders AS SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id bigint');
CREATE MATERIALIZED VIEW `by-id` AS SELECT id, count(*) AS n FROM orders GROUP BY id;
CREATE PRIVATE MATERIALIZED VIEW mine AS SELECT count(*) AS n FROM orders;
CREATE TEMPORARY VIEW seen AS SELECT * FROM orders;
"""
PROJECT = """
lake: ./lake
catalog: {{metastore: session, schema: "{prefix}_{{schema}}"}}
pipelines:
  shop: {{files: [src/a.sql]}}
"""


@pytest.fixture
def prefix(folder, spark):
    """A project whose tables are in the catalog of the suite's session, in schemas that begin so."""
    found = f"p{uuid.uuid4().hex[:8]}"
    (folder.folder / "pipeline.yml").unlink()
    folder.write("rivermouth.yml", PROJECT.format(prefix=found))
    folder.write("src/a.sql", SQL)
    folder.feed("in/1.json", {"id": 1}, {"id": 1}, {"id": 2})
    yield found
    spark.sql(f"DROP SCHEMA IF EXISTS {found}_default CASCADE")


def test_a_table_is_registered_under_the_name_that_it_has_in_the_lake(folder, spark):
    schema = f"p{uuid.uuid4().hex[:8]}"
    (folder.folder / "pipeline.yml").unlink()
    project = (
        "lake: ./lake\ncatalog: {{metastore: session}}\npipelines:\n  shop: {{schema: {schema}, files: [src/a.sql]}}\n"
    )
    folder.write("rivermouth.yml", project.format(schema=schema))
    folder.write("src/a.sql", "CREATE MATERIALIZED VIEW orders AS SELECT 1 AS id;\n")
    try:
        assert folder.run()["orders"].error is None
        assert [tuple(row) for row in spark.sql(f"SELECT id FROM {schema}.orders").collect()] == [(1,)]
    finally:
        spark.sql(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


@pytest.mark.long
def test_tables_are_found_by_name_and_a_name_that_is_taken_is_refused(folder, spark, prefix):
    planned = folder.plan()
    names = {name: each.registered for name, each in planned.items()}
    assert names == {
        "orders": f"spark_catalog.{prefix}_default.orders",
        "by-id": f"spark_catalog.{prefix}_default.by_id",
        "mine": None,
        "seen": None,
    }
    assert f"  in the catalog: {names['orders']}\n" in plan_text(folder.pipeline(), list(planned.values()))
    assert spark.sql(f"SHOW SCHEMAS LIKE '{prefix}_default'").collect() == []
    for _ in range(2):
        found = folder.run()
        assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    rows = spark.sql(f"SELECT id, n FROM {names['by-id']} ORDER BY id").collect()
    assert [tuple(row) for row in rows] == [(1, 2), (2, 1)]
    assert spark.table(f"{prefix}_default.orders").count() == 3
    # Dropped from the catalog: registered once more. Taken by another table: that dataset fails, and says where it is.
    spark.sql(f"DROP TABLE {names['orders']}")
    spark.sql(f"DROP TABLE {names['by-id']}")
    other = folder.folder / "other"
    spark.range(1).write.format("delta").save(str(other))
    spark.sql(f"CREATE TABLE {names['by-id']} USING delta LOCATION '{other}'")
    found = folder.run()
    assert spark.table(names["orders"]).count() == 3
    assert found["orders"].error is None
    assert str(found["by-id"].error) == (
        f"[TABLE_MISMATCH] flow by-id: table {names['by-id']} does not fit the flow: the catalog has it at "
        f"file:{other}, the flow writes to {folder.folder}/lake/default/by-id; nothing was written\n"
        "  at: src/a.sql:3\n"
        "  hint: write into a new table, or declare the schema that the table has"
    )


def test_two_tables_of_one_name_in_the_catalog_are_refused(folder, prefix):
    folder.write("src/a.sql", SQL + "CREATE MATERIALIZED VIEW by_id AS SELECT * FROM orders;\n")
    with pytest.raises(CatalogNameTwice) as refused:
        commands.validate(folder.pipeline())
    assert str(refused.value) == (
        f"[CATALOG_NAME_TWICE] tables by_id and by-id would both be spark_catalog.{prefix}_default.by_id in the "
        "catalog; nothing was run\n"
        "  at: src/a.sql:6\n"
        "  hint: give by_id another name, of letters, digits and _"
    )
