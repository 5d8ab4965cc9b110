"""Flows that stand for many, one a topic: which children they have, and what a child is."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from rivermouth.domain.project.table_per_topic import (
    Kept,
    beyond,
    child_of,
    is_child,
    makes_table,
    named_topics,
    parted,
    reads,
)
from rivermouth.spec import Flow

TOPICS = st.from_regex(r"[A-Za-z0-9._-]{1,60}", fullmatch=True)
NAMES = st.from_regex(r"[A-Za-z][A-Za-z0-9_-]{0,20}", fullmatch=True)


def family(name="orders", **settings):
    settings = {"topic_pattern": "orders[.].*", "format": "text", "table": "bronze.{topic}", **settings}
    return Flow.model_validate({"name": name, **{key: value for key, value in settings.items() if value is not None}})


@given(NAMES, TOPICS)
def test_law_the_name_of_a_child_tells_its_family_and_its_topic(name, topic):
    child = child_of(family(name), topic)
    assert parted(child.name) == (name, topic)
    assert (is_child(child.name), is_child(name)) == (True, False)
    assert (child.topics, child.topic_pattern, child.is_family) == ((topic,), None, False)


@pytest.mark.parametrize(
    ("settings", "is_family"),
    [
        ({}, True),
        ({"table": "bronze.all_{topic}_v1"}, True),
        ({"table": "bronze.orders"}, False),
        ({"topic_pattern": None, "topics": ["a", "b"]}, True),
        ({"topic_pattern": None, "topics": ["a"]}, False),
        ({"topic_pattern": None, "assign": {"a": [0], "b": [1]}}, True),
    ],
)
def test_a_family_reads_several_topics_and_has_the_topic_in_its_tables_name(settings, is_family):
    assert family(**settings).is_family is is_family


def test_a_child_has_of_its_familys_offsets_those_of_its_topic():
    whole = family(
        topic_pattern=None,
        assign={"a": [0], "b": [1]},
        starting_offsets={"a": {0: 3}},
        ending_offsets={"b": {1: 9}},
        previously="old",
    )
    a, b = (child_of(whole, topic) for topic in named_topics(whole))
    assert (a.starting_offsets.text(), b.starting_offsets.text()) == (whole.starting_offsets.text(), "earliest")
    assert (a.ending_offsets.kind, b.ending_offsets.offsets) == ("latest", {"b": {1: 9}})
    assert (a.assign, b.assign, b.topics) == ({"a": (0,)}, {"b": (1,)}, ())
    assert (b.previously, child_of(family(), "orders.eu").previously) == ("old.b", "orders")


def test_a_topic_that_appeared_later_is_read_from_its_beginning():
    latest, kept = family(starting_offsets="latest"), Kept(("orders.eu",), frozenset({"orders.eu"}))
    starts = [child_of(latest, each, is_late=kept.is_late(each)) for each in ("orders.eu", "orders.us")]
    assert [each.starting_offsets.text() for each in starts] == ["latest", "earliest"]
    assert not Kept().is_late("orders.us")


def test_what_a_family_reads():
    pattern, named = family(), family(topic_pattern=None, topics=["b", "a"])
    assert [reads(pattern, each) for each in ("orders.eu", "orders", "my.orders.eu")] == [True, False, False]
    assert [reads(named, each) for each in ("a", "c")] == [True, False]
    assert (named_topics(named), named_topics(pattern)) == (("a", "b"), ())


def test_tables_are_bounded():
    two = family(table={"name": "bronze.{topic}", "max_tables": 2})
    assert beyond(two, ["a"], ["a", "b"]) == ()
    assert beyond(two, ["a"], ["c", "a", "b"]) == ("b", "c")
    assert beyond(two, ["a", "b", "c"], ["a", "b", "c"]) == ()


def test_which_tables_a_family_may_make():
    assert makes_table(family(table="bronze.{topic}_v1"), "bronze.orders_eu_v1")
    assert not makes_table(family(table="bronze.{topic}_v1"), "bronze.orders_eu")
    assert not makes_table(family(table="bronze.orders"), "bronze.orders")


def test_max_tables_is_for_families():
    with pytest.raises(ValidationError) as told:
        family(table={"name": "bronze.orders", "max_tables": 3})
    assert told.value.errors()[0]["msg"] == (
        "Value error, max_tables is for a flow with a table for each of its topics: write {topic} into the table's "
        "name, and topic_pattern, or remove it"
    )
