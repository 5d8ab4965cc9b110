"""``spark.catalog`` of a pipeline knows the tables of the lake."""

import pyarrow as pa
from deltalake import write_deltalake


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
