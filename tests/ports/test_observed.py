"""Rows that are counted as they pass: the numbers are those that the same aggregates give on their own."""

from __future__ import annotations

from collections import Counter

import pytest
from pyspark.sql import functions as F
from tests.plans import plan_text

from rivermouth.ports.internals.observed import Observed, ObservedEach, ObservedStream
from rivermouth.rows.columns.aggregates import Aggregate, struct_of

AGGREGATES = {
    "all": Aggregate("count_if", "true"),
    "even": Aggregate("count_if", "id % 2 = 0"),
    "unknown": Aggregate("count_if", "id < 0 OR NULL"),
    "blocks": Aggregate("collect_set", "CASE WHEN id % 7 = 0 THEN concat('b', id DIV 50) END"),
    "mark": Aggregate("bit_xor", "CASE WHEN id % 3 = 0 THEN xxhash64(id) END"),
    "total": Aggregate("sum", "CASE WHEN id > 10 THEN CAST(id AS INT) END"),
    "named": Aggregate("count_each", "CASE WHEN id % 2 = 0 THEN array('n', concat('\\n', id % 5), NULL) END"),
}
# The code of a row has no room for all these: they go Spark's own way.
MANY = AGGREGATES | {f"c{number}": Aggregate("count_if", f"id = {number}") for number in range(70)}


def on_their_own(rows, aggregates):
    return told(rows.agg(F.expr(struct_of(aggregates))).first()[0].asDict())


def told(found):
    """The set has no order."""
    named = found["named"]
    if isinstance(named, str):
        named = Counter(filter(None, named.split("\0")))
    return found | {"blocks": set(found["blocks"].split(",")), "named": named}


@pytest.mark.parametrize("aggregates", [AGGREGATES, MANY], ids=["in generated code", "by observe"])
@pytest.mark.parametrize("count", [0, pytest.param(1, marks=pytest.mark.long), 1000])
def test_the_aggregates_are_those_of_the_rows(spark, aggregates, count):
    rows = spark.range(0, count, 1, 3)
    observed = Observed(rows, aggregates)
    assert sorted(row.id for row in observed.rows.collect()) == list(range(count))
    assert told(observed.get()) == on_their_own(rows, aggregates)


def test_rows_of_many_are_counted_apart(spark):
    rows = spark.range(0, 1000, 1, 3).selectExpr("id", "CAST(id % 4 AS INT) AS whose")
    observed = ObservedEach(rows, "whose", 5, AGGREGATES)
    assert observed.rows.count() == 1000
    for number in range(5):
        assert told(observed.get(number)) == on_their_own(rows.where(f"whose = {number}"), AGGREGATES)


def test_of_several_actions_the_one_that_reads_most_counts(spark):
    rows = spark.range(0, 1000, 1, 3).selectExpr("id", "id % 10 AS key")
    conditions = {name: AGGREGATES[name] for name in ("all", "even", "unknown")}
    observed = ObservedStream(rows, conditions)
    assert observed.rows.isEmpty() is False
    assert 0 < observed.get()["all"] < 1000
    for action in (
        observed.rows.count,
        observed.rows.coalesce(1).collect,
        observed.rows.groupBy("key").count().collect,
        observed.rows.join(observed.rows.groupBy("key").count(), "key").collect,
        observed.rows.limit(1).collect,
    ):
        action()
        assert observed.get() == {"all": 1000, "even": 500, "unknown": 0}
    observed.reset()
    assert observed.get() == dict.fromkeys(conditions, 0)
    observed.rows.where("id < 5").count()
    assert observed.get() == {"all": 1000, "even": 500, "unknown": 0}


def test_more_conditions_than_a_number_has_bits_are_refused_for_many(spark):
    with pytest.raises(ValueError, match="at most 63 conditions can be observed at a time"):
        ObservedEach(spark.range(1), "id", 1, MANY)


def test_what_comes_after_takes_nothing_from_the_count(spark):
    rows = spark.range(0, 1000, 1, 3).selectExpr("id", "id % 10 AS key")
    observed = Observed(rows, AGGREGATES)
    grouped = observed.rows.where("id < 100").groupBy("key").count()
    assert sum(row["count"] for row in grouped.collect()) == 100
    assert told(observed.get()) == on_their_own(rows, AGGREGATES)


def test_two_at_a_time_count_apart(spark):
    first, second = (Observed(spark.range(count), AGGREGATES) for count in (10, 20))
    first.rows.collect()
    second.rows.collect()
    assert (first.get()["all"], second.get()["all"]) == (10, 20)


def test_the_rows_stay_in_one_stage_of_generated_code(spark):
    rows = Observed(spark.range(10), AGGREGATES).rows.where("id > 3")
    plan = plan_text(rows, "executedPlan")
    assert "CollectMetrics" not in plan
    assert "*(1) Filter" in plan
    assert "*(2)" not in plan


def test_of_most_kinds_there_can_be_one(spark):
    two = {"one": Aggregate("sum", "id"), "other": Aggregate("sum", "id")}
    with pytest.raises(ValueError, match="at most one sum can be observed at a time"):
        Observed(spark.range(1), two)


def test_of_names_without_end_the_first_ones_are_counted(spark):
    rows = spark.range(5000)
    names = Aggregate("count_each", "CASE WHEN id % 2 = 0 THEN array('often', concat('k', id), repeat('x', 300)) END")
    for more in ({}, MANY):
        observed = Observed(rows, {**{name: each for name, each in more.items() if name != "named"}, "names": names})
        observed.rows.collect()
        found = observed.get()["names"]
        assert (len(found), found["often"], found["x" * 100]) == (100, 2500, 2500)
