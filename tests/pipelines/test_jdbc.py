"""Tables of PostgreSQL and MariaDB as sources: as streams of new rows, joined, and in views; whatever is lost."""

import shutil
from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from pyspark.sql.types import StructType
from tests.databases import mariadb, postgres

from rivermouth.errors import JdbcSourceInvalid, RivermouthError
from rivermouth.pipelines.session import jdbc_source

FILES = """
import dlt
from pyspark.sql.functions import col

def table(name, **more):
    login = {"user": "shop", "password": spark.conf.get("password")}
    return {"url": spark.conf.get("url"), **login, "dbtable": name, **more}

@dlt.table
@dlt.expect_or_drop("paid", "amount > 0")
def orders():
    parts = {"partitionColumn": "id", "lowerBound": 0, "upperBound": 1000, "numPartitions": 3}
    found = spark.readStream.format("jdbc").options(**table("orders", incrementalColumn="id", **parts)).load()
    customers = spark.read.format("jdbc").options(**table("customers")).load()
    return found.join(customers, found.customer == customers.id, "left").select(found.id, "name", "amount", "at")

@dlt.table
def recent():
    more = {"incrementalColumn": "at", "incrementalDelay": "1 hour"}
    return spark.readStream.format("jdbc").options(**table("orders", **more)).load().select("id", "at")

@dlt.table
def by_customer():
    read = spark.read.jdbc(spark.conf.get("url"), "orders", properties={
        "user": "shop", "password": spark.conf.get("password")})
    return read.groupBy("customer").sum("amount").toDF("customer", "amount")
"""
TABLES = """
CREATE TABLE customers (id bigint PRIMARY KEY, name varchar(20));
INSERT INTO customers VALUES (1, 'Ada'), (2, 'Ben');
CREATE TABLE orders (id bigint PRIMARY KEY, customer bigint, amount decimal(10, 2), at {time});
CREATE TABLE notes (number bigint, note varchar(20));
INSERT INTO notes VALUES (1, 'a'), (NULL, 'b'), (NULL, 'c');
"""
LONG_AGO = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture(
    scope="module",
    params=[pytest.param(postgres, id="postgresql"), pytest.param(mariadb, id="mariadb", marks=pytest.mark.long)],
)
def database(request):
    with request.param() as running:
        running.sql(TABLES.format(time=running.time))
        yield running


@pytest.fixture
def shop(folder, database):
    """A pipeline that reads the database."""
    folder.write(
        "pipeline.yml",
        "name: shop\nlibraries:\n  - file: {path: a.py}\n"
        f"configuration: {{url: '{database.url}', password: '{database.password}'}}\n",
    )
    folder.write("a.py", FILES)
    return folder


def order(number, customer, amount, at=LONG_AGO):
    return f"INSERT INTO orders VALUES ({number}, {customer}, {amount}, '{at:%Y-%m-%d %H:%M:%S.%f}');"


def ran(shop):
    """What was read, written and dropped."""
    outcomes = shop.run()
    assert {name: each.error for name, each in outcomes.items()} == dict.fromkeys(outcomes)
    counts = {name: each.counts for name, each in outcomes.items()}
    return {name: (each.read, each.written, each.dropped) for name, each in counts.items() if each}


def test_new_rows_come_once_joined_with_the_rows_of_now_whatever_is_lost(shop, database):
    assert shop.plan()["orders"].reads == ("jdbc table orders (stream)", "jdbc table customers")
    assert ran(shop)["orders"] == (0, 0, 0)
    database.sql("".join(order(*each) for each in ((1, 1, 5), (2, 2, "7.25"), (3, 9, 0))))
    assert ran(shop) == {"orders": (3, 2, 1), "recent": (3, 3, 0), "by_customer": (3, 3, 0)}
    first = [(1, "Ada", Decimal("5.00"), LONG_AGO), (2, "Ben", Decimal("7.25"), LONG_AGO)]
    assert shop.rows("default.orders") == first
    # What is younger than the delay waits.
    database.sql("INSERT INTO customers VALUES (9, 'Zoe');" + order(998, 9, 1, datetime.now(UTC)))
    assert ran(shop) == {"orders": (1, 1, 0), "recent": (0, 0, 0), "by_customer": (3, 3, 0)}
    # A lost checkpoint is made again of what the ledger says.
    shutil.rmtree(shop.folder / "lake/_rivermouth/pipelines/shop/checkpoints")
    database.sql(order(999, 1, 2, LONG_AGO + timedelta(days=1)))
    assert ran(shop) == {"orders": (1, 1, 0), "recent": (1, 1, 0), "by_customer": (3, 3, 0)}
    assert [row[:2] for row in shop.rows("default.orders")] == [(1, "Ada"), (2, "Ben"), (998, "Zoe"), (999, "Ada")]
    assert [row[0] for row in shop.rows("default.recent")] == [1, 2, 3, 999]
    totals = [(1, Decimal("7.00")), (2, Decimal("7.25")), (9, Decimal("1.00"))]
    assert shop.rows("default.by_customer") == totals


READING = """import dlt

@dlt.table
def t():
    return spark.{how}.format('jdbc').options(**{options!r}).load()
"""


def refused(folder, options, how="readStream"):
    folder.write("a.py", READING.format(how=how, options=options))
    with pytest.raises(RivermouthError) as error:
        folder.plan()
    return str(error.value)


def test_what_cannot_be_read_is_said(shop, database):
    at = f"localhost:{database.port}"
    table = {**database.options, "dbtable": "orders", "incrementalColumn": "id"}
    assert refused(shop, database.options | {"dbtable": "orders"}) == (
        "[JDBC_SOURCE_INVALID] jdbc table orders cannot be read as a stream: it is not known which column grows with "
        'each new row; nothing was read\n  at: a.py:5\n  hint: .option("incrementalColumn", "id")'
    )
    assert refused(shop, table | {"incrementalColumn": "ID"}) == (
        "[JDBC_SOURCE_INVALID] jdbc table orders cannot be read as a stream: it has no column ID; nothing was read\n"
        '  at: a.py:5\n  hint: .option("incrementalColumn", ...) with one of its columns: id, customer, amount, at'
    )
    assert refused(shop, table | {"dbtable": "customers", "incrementalColumn": "name"}) == (
        "[JDBC_SOURCE_INVALID] jdbc table customers cannot be read as a stream: column name is string; whole numbers, "
        "decimals, dates and timestamps are known to grow; nothing was read\n  at: a.py:5\n"
        '  hint: .option("incrementalColumn", "id")'
    )
    assert refused(shop, table | {"incrementalDelay": "1 hour"}) == (
        "[JDBC_SOURCE_INVALID] jdbc table orders cannot be read as a stream: incrementalDelay needs a column of times, "
        "and id is bigint; nothing was read\n  at: a.py:5\n  hint: remove incrementalDelay"
    )
    assert refused(shop, table | {"incrementalColumn": "at", "incrementalDelay": "soon"}) == (
        "[JDBC_SOURCE_INVALID] jdbc table orders cannot be read as a stream: incrementalDelay is no interval: soon; "
        'nothing was read\n  at: a.py:5\n  hint: .option("incrementalDelay", "10 seconds")'
    )
    for how in ("readStream", "read"):
        assert refused(shop, table | {"dbtable": "nowhere"}, how) == (
            "[JDBC_SOURCE_UNREADABLE] jdbc table nowhere cannot be read: there is no such table; nothing was read\n"
            '  at: a.py:5\n  hint: .option("dbtable", "schema.table")'
        )
        assert refused(shop, table | {"password": "wrong"}, how) == (
            f"[JDBC_SOURCE_UNREADABLE] jdbc table orders cannot be read: {at} refuses the login; nothing was read\n"
            '  at: a.py:5\n  hint: .option("user", ...).option("password", dbutils.secrets.get(...))'
        )
        assert refused(shop, table | {"url": database.url.replace(at, "localhost:1")}, how) == (
            "[JDBC_SOURCE_UNREADABLE] jdbc table orders cannot be read: there is no connection to localhost:1; nothing "
            "was read\n  at: a.py:5\n  hint: nc -zv localhost 1"
        )
        assert refused(shop, table | {"url": f"jdbc:sqlserver://{at}"}, how) == (
            "[JDBC_SOURCE_UNREADABLE] jdbc table orders cannot be read: Spark has no driver for jdbc:sqlserver; "
            "nothing was read\n"
            "  at: a.py:5\n"
            "  hint: spark: {conf: {spark.jars.packages: com.microsoft.sqlserver:mssql-jdbc:12.10.0.jre11}}"
        )
    query = {**database.options, "query": "SELECT wrong FROM orders", "incrementalColumn": "id"}
    state = "42703" if "postgresql" in database.url else "42S22"
    assert refused(shop, query) == (
        f"[JDBC_SOURCE_UNREADABLE] a query of a database (jdbc) cannot be read: {at} refuses it with SQLSTATE {state}; "
        "nothing was read\n  at: a.py:5\n  hint: correct dbtable or query"
    )


def test_rows_that_no_batch_would_bring_stop_the_flow(shop, database):
    options = {**database.options, "query": "SELECT * FROM notes", "incrementalColumn": "number"}
    shop.write("a.py", READING.format(how="readStream", options=options))
    assert str(shop.run()["t"].error) == (
        "[QUERY_FAILED] flow t failed with StreamingQueryException: 2 rows of the query have no value in number, and "
        "no batch would bring them; the batch was not written\n  at: a.py:3\n"
        "  hint: rivermouth run, after the cause is corrected; batches before it are in the table"
    )


def test_a_clock_that_shows_an_hour_twice_is_refused_for_times(spark):
    zones = spark._jvm.java.util.TimeZone
    usual = zones.getDefault()
    zones.setDefault(zones.getTimeZone("Europe/Berlin"))
    options = {"dbtable": "orders", "incrementalColumn": "at"}
    try:
        with pytest.raises(JdbcSourceInvalid) as error:
            jdbc_source.check_columns(spark, options, StructType().add("at", "timestamp"))
    finally:
        zones.setDefault(usual)
    assert str(error.value) == (
        "[JDBC_SOURCE_INVALID] jdbc table orders cannot be read as a stream: column at has times, and the clock of "
        "Spark's JVM (Europe/Berlin) shows an hour twice a year; nothing was read\n  hint: TZ=UTC rivermouth run"
    )
