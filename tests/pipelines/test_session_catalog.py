"""``spark.catalog`` of a pipeline knows the tables of the lake."""

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from tests.pipelines.conftest import refusal


def test_tables_exist_by_each_of_their_names_once_they_are_in_the_lake(folder):
    lake = folder.folder / "lake"
    write_deltalake(str(lake / "default/orders"), pa.table({"id": [1]}))
    write_deltalake(str(lake / "silver/customers"), pa.table({"id": [1]}))
    folder.write(
        "src/a.py",
        """
from pyspark import pipelines as dp

NAMES = "orders LIVE.orders default.orders silver.customers view TEMPORARY customers later told".split()

@dp.temporary_view
def view():
    return spark.range(1)

@dp.materialized_view
def orders():
    return spark.range(2)

@dp.materialized_view
def later():
    return spark.range(3)

@dp.materialized_view
def told():
    spark.range(1).createTempView("temporary")
    found = [(each, spark.catalog.tableExists(each)) for each in NAMES]
    found.append(("by schema", spark.catalog.tableExists("customers", "silver")))
    return spark.createDataFrame(found, "name string, there boolean")
""",
    )
    done = folder.run(refresh=("told",))
    assert done["told"].result == "completed"
    assert [name for name, there in folder.rows("default.told") if there] == sorted(
        ["LIVE.orders", "TEMPORARY", "by schema", "default.orders", "later", "orders", "silver.customers", "view"]
    )


@pytest.mark.long
def test_the_schemas_and_tables_of_the_lake_are_listed(folder, spark):
    of_spark = {each.tableName for each in spark.sql("SHOW TABLES IN default").collect()}
    lake = folder.folder / "lake"
    for table in ("raw/orders", "raw/customers", "raw/orders__dead_letters", "silver/items"):
        write_deltalake(str(lake / table), pa.table({"id": [1]}))
    (lake / "raw/empty").mkdir()
    (lake / "none").mkdir()
    folder.write(
        "src/a.py",
        """
from pyspark import pipelines as dp

# Spark's interpreter cannot make the objects of its catalog.
spark.conf.set("spark.sql.codegen.factoryMode", "FALLBACK")
AT_FIRST = [each.name for each in spark.catalog.listTables()]
spark.sql("USE SCHEMA silver")
IN_USE = [each.name for each in spark.catalog.listTables()]
IN_USE += [each.tableName for each in spark.sql("show tables").collect()]
spark.sql("USE SCHEMA default")

@dp.materialized_view
def rows_of_each():
    names = sorted(each.name for each in spark.catalog.listTables("raw"))
    counts = [(name, spark.read.table(f"raw.{name}").count()) for name in names]
    return spark.createDataFrame(counts, "name string, rows bigint")

@dp.materialized_view(name="gold.far", path="far/away")
def far():
    return spark.range(1)

@dp.materialized_view(name="silver.told")
def told():
    spark.read.table("gold.far")
    found = [("at first", each) for each in AT_FIRST] + [("in use", each) for each in IN_USE]
    for name in ("raw", "silver", "default", "gold", "none"):
        found += [(name, each.name) for each in spark.catalog.listTables(name)]
    for text in ("SHOW TABLES IN raw", "SHOW TABLES IN raw LIKE 'ord*'", "SHOW TABLES", "SHOW TABLES LIKE '*each'"):
        found += [(text, each.tableName) for each in spark.sql(text).collect()]
    found += [("SHOW SCHEMAS", each.namespace) for each in spark.sql("SHOW SCHEMAS").collect()]
    found += [("schemas", each.name) for each in spark.catalog.listDatabases()]
    asked = ("raw", "gold", "none", "other", "`a:b`")
    found += [("there", each) for each in asked if spark.catalog.databaseExists(each)]
    try:
        spark.sql("DROP SCHEMA IF EXISTS raw CASCADE")
    except Exception as error:
        found.append(("dropped", str(error)))
    return spark.createDataFrame(found, "asked string, name string")
""",
    )
    done = {name: each.error for name, each in folder.run().items()}
    assert done == dict.fromkeys(("rows_of_each", "gold.far", "silver.told"))
    assert folder.rows("default.rows_of_each") == [("customers", 1), ("orders", 1)]
    found = {}
    for asked, name in folder.rows("silver.told"):
        if name not in of_spark:
            found.setdefault(asked, []).append(name)
    (refused,) = found.pop("dropped")
    assert refused.endswith("/lake/raw is not dropped: it is one of the lake")
    schemas = ["default", "gold", "none", "raw", "silver"]
    assert found == {
        "in use": ["items", "items"],
        "raw": ["customers", "orders"],
        "silver": ["items", "told"],
        "default": ["rows_of_each"],
        "gold": ["far"],
        "SHOW TABLES IN raw": ["customers", "orders"],
        "SHOW TABLES IN raw LIKE 'ord*'": ["orders"],
        "SHOW TABLES": ["rows_of_each"],
        "SHOW TABLES LIKE '*each'": ["rows_of_each"],
        "SHOW SCHEMAS": schemas,
        "schemas": schemas,
        "there": ["gold", "none", "raw"],
    }


def test_use_in_the_query_of_a_dataset_is_refused(folder):
    folder.write(
        "src/a.py",
        "from pyspark import pipelines as dp\n\n"
        "@dp.materialized_view\ndef a():\n    spark.sql('use silver')\n    return spark.range(1)\n",
    )
    assert refusal(folder.plan) == (
        "[SQL_NOT_SUPPORTED] USE in the query of a dataset is not supported, and without it the results would be "
        "different; nothing was run\n"
        "  at: src/a.py:5\n"
        "  hint: write USE above the definitions, or the names with their schemas"
    )
