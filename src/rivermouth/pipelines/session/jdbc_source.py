"""Tables of other databases as sources: what Spark's JDBC source is asked, and what its errors mean."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors.exceptions.captured import CapturedException
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.jvm.java_objects import java_class, java_error
from rivermouth.errors import JdbcSourceInvalid, JdbcSourceUnreadable

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JDBC: Final = "jdbc"
STREAM: Final = "rivermouth.internals.jdbc.IncrementalProvider"
COLUMN: Final = "incrementalColumn"
DELAY: Final = "incrementalDelay"

_TIMES: Final = (T.TimestampType, T.TimestampNTZType)
_GROWING: Final = (T.IntegralType, T.DecimalType, T.DateType, *_TIMES)
_EXAMPLE: Final = f'.option("{COLUMN}", "id")'
_HOST: Final = re.compile(r"^jdbc:[\w:]+//([^/;?,]+)")
# The class of each driver, and the package that has it.
_DRIVERS: Final = {
    "postgresql": ("org.postgresql.Driver", "org.postgresql:postgresql:42.7.7"),
    "mariadb": ("org.mariadb.jdbc.Driver", "org.mariadb.jdbc:mariadb-java-client:3.5.3"),
    "mysql": ("com.mysql.cj.jdbc.Driver", "com.mysql:mysql-connector-j:9.3.0"),
    "sqlserver": ("com.microsoft.sqlserver.jdbc.SQLServerDriver", "com.microsoft.sqlserver:mssql-jdbc:12.10.0.jre11"),
    "oracle": ("oracle.jdbc.OracleDriver", "com.oracle.database.jdbc:ojdbc17:23.8.0.25.04"),
}
_UNKNOWN_DRIVER: Final = ("", "GROUP:ARTIFACT:VERSION")
_TABLE: Final = "rivermouth.internals.jdbc.IncrementalTable"
_FAILURE: Final = "rivermouth.internals.jdbc.Failure"
_MARIADB: Final = "rivermouth.internals.jdbc.MariaDb"
_NO_DRIVER: Final = "driver"
# Of standard SQL: the class of a state is its first two letters.
_NO_CONNECTION: Final = "08"
_NO_LOGIN: Final = "28"
_NO_TABLE: Final = ("42P01", "42S02")


def named(options: Mapping[str, str]) -> str:
    """What a read is called in messages: the table, never the address or the login."""
    found = {key.lower(): value for key, value in options.items()}
    return "a query of a database (jdbc)" if "query" in found else f"jdbc table {found.get('dbtable', '')}".strip()


def driver_options(options: Mapping[str, str]) -> dict[str, str]:
    """The class of the driver, where the options do not say it.

    Java finds a driver by the address alone only if it is on the class path at the start, and not if it is in
    ``spark.jars`` or ``spark.jars.packages``.
    """
    if "driver" in {key.lower() for key in options}:
        return {}
    name, _ = _DRIVERS.get(_kind(options), _UNKNOWN_DRIVER)
    return {"driver": name} if name else {}


def _kind(options: Mapping[str, str]) -> str:
    url = next((value for key, value in options.items() if key.lower() == "url"), "")
    return url.removeprefix("jdbc:").partition(":")[0].lower()


def check_stream(options: Mapping[str, str]) -> None:
    """Checks that the options name the column by which new rows are found.

    Raises:
        JdbcSourceInvalid: They name none.
    """
    if COLUMN.lower() not in {key.lower() for key in options}:
        detail = "it is not known which column grows with each new row"
        raise JdbcSourceInvalid(source=named(options), detail=detail, fix=_EXAMPLE)


def check_columns(spark: SparkSession, options: Mapping[str, str], columns: T.StructType) -> None:
    """Checks that new rows can be found by the column.

    Drivers write a time as the JVM's clock shows it. Where that shows an hour twice in a year, rows could be lost.

    Raises:
        JdbcSourceInvalid: There is no such column, its type has no order that all databases share, or it has times and
            the JVM's zone has summer time.
    """
    given = {key.lower(): value for key, value in options.items()}
    column, delay = given[COLUMN.lower()], given.get(DELAY.lower())
    types = {each.name: each.dataType for each in columns}
    if column not in types:
        fix = f'.option("{COLUMN}", ...) with one of its columns: {", ".join(types)}'
        raise JdbcSourceInvalid(source=named(options), detail=f"it has no column {column}", fix=fix)
    if not isinstance(types[column], _GROWING):
        kind = types[column].simpleString()
        detail = f"column {column} is {kind}; whole numbers, decimals, dates and timestamps are known to grow"
        raise JdbcSourceInvalid(source=named(options), detail=detail, fix=_EXAMPLE)
    zone = java_class(spark, "java.time.ZoneId").systemDefault()
    if isinstance(types[column], _TIMES) and not zone.getRules().isFixedOffset():
        detail = f"column {column} has times, and the clock of Spark's JVM ({zone.getId()}) shows an hour twice a year"
        raise JdbcSourceInvalid(source=named(options), detail=detail, fix="TZ=UTC rivermouth run")
    if delay is not None and not isinstance(types[column], _TIMES):
        detail = f"{DELAY} needs a column of times, and {column} is {types[column].simpleString()}"
        raise JdbcSourceInvalid(source=named(options), detail=detail, fix=f"remove {DELAY}")
    if delay is not None and not java_class(spark, _TABLE).isInterval(delay):
        fix = f'.option("{DELAY}", "10 seconds")'
        raise JdbcSourceInvalid(source=named(options), detail=f"{DELAY} is no interval: {delay}", fix=fix)


@contextmanager
def errors_of(spark: SparkSession, options: Mapping[str, str]) -> Iterator[None]:
    """Errors of a database or its driver within the block become typed ones.

    Raises:
        JdbcSourceUnreadable: The database gives no answer, or refuses.
    """
    java_class(spark, _MARIADB).register()
    try:
        yield
    except (Py4JJavaError, CapturedException) as error:
        state = java_class(spark, _FAILURE).state(java_error(error))
        if state is None:
            raise
        detail, fix = _meaning(state, options)
        raise JdbcSourceUnreadable(source=named(options), detail=detail, fix=fix) from error


def _meaning(state: str, options: Mapping[str, str]) -> tuple[str, str]:
    """Detail and hint of a state of SQL, or of a driver that is missing."""
    url = next((value for key, value in options.items() if key.lower() == "url"), "")
    host = found[1] if (found := _HOST.match(url)) else "the database"
    if state == _NO_DRIVER:
        _, package = _DRIVERS.get(_kind(options), _UNKNOWN_DRIVER)
        return f"Spark has no driver for jdbc:{_kind(options)}", f"spark: {{conf: {{spark.jars.packages: {package}}}}}"
    if state.startswith(_NO_CONNECTION):
        return f"there is no connection to {host}", f"nc -zv {host.replace(':', ' ')}"
    if state.startswith(_NO_LOGIN):
        return f"{host} refuses the login", '.option("user", ...).option("password", dbutils.secrets.get(...))'
    if state in _NO_TABLE:
        return "there is no such table", '.option("dbtable", "schema.table")'
    return f"{host} refuses it with SQLSTATE {state or 'unknown'}", "correct dbtable or query"
