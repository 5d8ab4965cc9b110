"""What Delta says to who commits second, and what becomes of it."""

from __future__ import annotations

import itertools
from pathlib import Path
from types import SimpleNamespace

import pytest
from delta import exceptions
from pyspark.sql.types import LongType, StructField, StructType

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.engine.erasure import forget
from rivermouth.errors import ForgetRefused, MaintenanceConflict, MaintenanceFailed
from rivermouth.ports.delta import delta_append, delta_maintenance, delta_table
from rivermouth.ports.internals import delta_snapshot, delta_transaction

COLUMNS = StructType([StructField("id", LongType())])


@pytest.fixture
def location(spark, tmp_path):
    place = str(tmp_path / "t")
    delta_table.create(spark, place, delta_table.TableLayout(columns=COLUMNS), metadata="entry 0")
    spark.createDataFrame([(1,)], COLUMNS).write.format("delta").mode("append").save(place)
    return place


def by_another(spark, location):
    spark.newSession().sql(f"INSERT INTO delta.`{location}` VALUES (2)").collect()


@pytest.fixture
def come_second(spark, location, monkeypatch):
    """Appends to the table as it is, and somebody else's append comes first."""
    honest = delta_transaction._without_footers

    def written(*arguments):
        by_another(spark, location)
        return honest(*arguments)

    def append(*_, **__):
        rows = spark.createDataFrame([(3,)], COLUMNS)
        delta_transaction.append_onto(rows, location, 1, TableTransaction("a", 1, "m"), alone=True)

    monkeypatch.setattr(delta_transaction, "_without_footers", written)
    return append


def test_every_conflict_is_one():
    assert {each.__name__ for each in delta_table.conflicts()} == {
        name for name in dir(exceptions) if name.endswith("Exception")
    }


def test_an_append_that_shall_be_alone_is_not_where_somebody_comes_first(spark, location, come_second):
    assert come_second is not None
    rows = spark.createDataFrame([(3,)], COLUMNS)
    assert not delta_append.append_alone(rows, location, TableTransaction("a", 1, "m"), onto=1)
    assert sorted(row.id for row in spark.read.format("delta").load(location).collect()) == [1, 2]


@pytest.mark.long
def test_an_append_that_shall_be_alone_is_not_where_a_flow_says_something_without_rows(spark, location, monkeypatch):
    """As the commit that empties a table which has no rows."""
    nothing, honest = spark.createDataFrame([], COLUMNS), delta_transaction._without_footers
    numbers = itertools.count()
    delta_append.append(nothing, location, TableTransaction("flow", next(numbers), "entry"))

    def written(*arguments):
        monkeypatch.undo()
        delta_append.append(nothing, location, TableTransaction("flow", next(numbers), "entry"))
        return honest(*arguments)

    def come_second_by(append):
        monkeypatch.setattr(delta_transaction, "_without_footers", written)
        version = delta_snapshot.table_state(spark, location).version
        return append(spark.createDataFrame([(3,)], COLUMNS), location, TableTransaction("a", 1, "m"), onto=version)

    assert come_second_by(delta_append.append_alone) is False
    assert come_second_by(delta_append.append) is None
    assert sorted(row.id for row in spark.read.format("delta").load(location).collect()) == [1, 3]


def test_maintenance_that_misses_a_file_says_what_failed(spark, location):
    spark.createDataFrame([(2,)], COLUMNS).write.format("delta").mode("append").save(location)
    before = delta_snapshot.table_state(spark, location).version
    missing = spark.read.format("delta").load(location).inputFiles()[0].removeprefix("file:")
    Path(missing).unlink()
    with pytest.raises(MaintenanceFailed) as caught:
        delta_maintenance.optimize(spark.newSession(), "silver.t", location, where=None, zorder=[])
    assert str(caught.value) == (
        "[MAINTENANCE_FAILED] optimize of table silver.t failed: java.io.FileNotFoundException: "
        f"File file:{missing} does not exist; no row of it was changed\n"
        "  hint: rivermouth tables describe silver.t"
    )
    assert delta_snapshot.table_state(spark, location).version == before


def test_maintenance_that_comes_second_says_so(come_second):
    with pytest.raises(MaintenanceConflict) as caught, delta_maintenance._conflicts_refused("silver.t", "optimize"):
        come_second()
    assert str(caught.value) == (
        "[MAINTENANCE_CONFLICT] table silver.t: somebody committed a change of the same files first "
        "(ConcurrentAppendException); it is as they left it\n"
        "  hint: rivermouth tables optimize silver.t, once more; "
        "or let its writer do it: maintenance: {optimize: daily}"
    )


def test_an_erasure_that_comes_second_is_refused(come_second, monkeypatch):
    monkeypatch.setattr(forget, "delete", come_second)
    places, order = SimpleNamespace(name="silver.t", table="there"), SimpleNamespace(same_key=lambda *_: "true")
    entry = SimpleNamespace(flow="f", number=2, to_json=str)
    run = SimpleNamespace(places=places, table_id="id", flow=None, entry=entry)
    chosen = SimpleNamespace(matches=None)
    with pytest.raises(ForgetRefused) as caught:
        forget._delete(run, entry, chosen, order)
    assert str(caught.value) == (
        "[FORGET_REFUSED] table silver.t: somebody committed a change of the same files first "
        "(ConcurrentAppendException); nothing was erased\n"
        "  hint: rivermouth tables forget silver.t --where CONDITION"
    )
