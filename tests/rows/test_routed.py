"""A flow for each value of a column: which value is whose, as names and as the conditions over the rows."""

import string

from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rivermouth.domain.project.table_per_topic import child_of, makes_table, reads
from rivermouth.domain.project.table_per_value import REST, found_of
from rivermouth.spec import Flow

FAMILY = Flow.model_validate(
    {
        "name": "zeek",
        "source": {"table": "bronze.zeek"},
        "format": {"type": "json", "schema": "id bigint"},
        "starting_offsets": "latest",
        "table": {"name": "zeek.{event}", "max_tables": 7},
    }
)


def test_a_child_has_the_rows_of_one_value():
    assert (FAMILY.is_family, FAMILY.is_found, FAMILY.routed_by) == (True, True, "event")
    child = child_of(FAMILY, "conn-1.x")
    assert (child.name, child.table.name, child.table.max_tables) == ("zeek.conn-1.x", "zeek.conn_1_x", 7)
    assert (child.source.table, child.source.where) == ("bronze.zeek", "CAST(`event` AS STRING) = 'conn-1.x'")
    assert (child.is_family, child.starting_offsets.kind, child.previously) == (False, "latest", None)
    assert child_of(FAMILY, "dns", is_late=True).starting_offsets.kind == "earliest"
    renamed = FAMILY.model_copy(update={"previously": "old"})
    assert child_of(renamed, "dns").previously == "old.dns"
    some = FAMILY.model_copy(update={"source": FAMILY.source.model_copy(update={"where": "a OR b"})})
    assert child_of(some, "dns").source.where == "(a OR b) AND CAST(`event` AS STRING) = 'dns'"


def test_values_that_name_no_table_are_the_rest():
    assert found_of(["b", "a", "b"]) == ("a", "b")
    assert found_of(["a", None, "", "ä", "a/b", "a b", "a\n", "-a", "_rest", "a" * 201]) == (REST, "a")
    assert found_of(["a" * 200, "0.-_"]) == ("0.-_", "a" * 200)
    assert found_of([]) == ()
    assert [reads(FAMILY, each) for each in ("a", REST, "a/b", "*")] == [True, True, False, False]
    assert makes_table(FAMILY, "zeek.conn")
    assert makes_table(FAMILY, "zeek._rest")
    assert not makes_table(FAMILY, "bronze.conn")


VALUES = st.none() | st.text(max_size=4) | st.text(string.ascii_letters + string.digits + "._-\n' \\", max_size=6)


def test_each_row_is_one_flows(spark):
    seen = []

    @settings(max_examples=200)
    @given(st.lists(VALUES, max_size=5))
    def gather(values):
        seen.extend(values)

    gather()
    values = [*{*seen}, *"a\nb", "A", "a", "a\n", "_rest", "__HIVE_DEFAULT_PARTITION__", "x" * 200, "x" * 201]
    # What no file of UTF-8 can hold is no value of Spark's.
    values = [each for each in values if each is None or each.isprintable() or "\n" in each]
    flows = found_of(values)
    assert REST in flows
    rows = spark.createDataFrame([(each,) for each in values], "event string")
    conditions = [F.expr(child_of(FAMILY, flow).source.where).alias(str(place)) for place, flow in enumerate(flows)]
    for value, *whose in rows.select("event", *conditions).collect():
        mine = [flow for flow, is_mine in zip(flows, whose, strict=True) if is_mine]
        assert mine == list(found_of([value])), repr(value)
