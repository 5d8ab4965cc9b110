"""Every record has exactly one route, never null, and the counts say the same."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException
from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.domain.ledger.ledger import Counts
from rivermouth.errors import ExpectationFailed
from rivermouth.rows import routing
from rivermouth.rows.checks import failed_column
from rivermouth.spec import Flow

COLUMNS = "__topic string, __partition int, __offset bigint, __value binary, __decoded boolean, __key_valid boolean"
ACTIONS = ("warn", "drop", "dead_letter", "drop", "dead_letter")


def a_flow(actions=ACTIONS, **fields):
    rules = [{"name": f"rule_{i}", "condition": "true", "action": action} for i, action in enumerate(actions)]
    body = {"name": "f", "topics": ["t"], "format": "text", "table": "s.t", "expectations": rules, **fields}
    return Flow.model_validate(body)


def frame(spark, rows, flow):
    flags = "".join(f", {failed_column(i)} boolean" for i in range(len(flow.expectations)))
    return routing.route(spark.createDataFrame(rows, COLUMNS + flags), flow)


def oracle(flow, value, decoded, key_valid, failures):
    if not (decoded and key_valid):
        return "dead_letter"
    if value is None:
        return {"drop": "dropped", "keep": "table", "dead_letter": "dead_letter"}[flow.null_values]
    actions = {rule.action for rule, failed in zip(flow.expectations, failures, strict=True) if failed}
    if "dead_letter" in actions:
        return "dead_letter"
    return "dropped" if "drop" in actions else "table"


CASES = st.lists(
    st.tuples(
        st.none() | st.just(b"v"),
        st.booleans(),
        st.booleans(),
        st.tuples(*(st.booleans() for _action in ACTIONS)),
    ),
    min_size=1,
    max_size=200,
)


@settings(max_examples=5)
@given(cases=CASES, null_values=st.sampled_from(["drop", "keep", "dead_letter"]))
def test_the_strongest_action_wins_and_the_counts_add_up(spark, cases, null_values):
    flow = a_flow(null_values=null_values)
    # As the steps before leave it: what was not decoded, or has no value, has failed nothing.
    cases = [
        (value, decoded, valid, failures if decoded and valid and value else (False,) * len(ACTIONS))
        for value, decoded, valid, failures in cases
    ]
    rows = [("t", 0, offset, *case[:3], *case[3]) for offset, case in enumerate(cases)]
    routed = frame(spark, rows, flow)
    aggregates = [F.expr(each.sql).alias(name) for name, each in routing.counting(flow, 16).items()]
    seen = (
        routed.groupBy()
        .agg(*aggregates, F.sort_array(F.collect_list(F.struct(names.OFFSET, names.ROUTE))).alias("routes"))
        .collect()[0]
    )
    expected = [oracle(flow, *case) for case in cases]
    assert [route for _offset, route in seen["routes"]] == expected
    counts = routing.counted(flow, seen.asDict())
    assert counts.adds_up
    assert counts == Counts(
        consumed=len(cases),
        written=expected.count("table"),
        dropped=expected.count("dropped"),
        dead_lettered=expected.count("dead_letter"),
        null_values=sum(
            1 for case, place in zip(cases, expected, strict=True) if case[0] is None and place == "dropped"
        ),
        expectations={f"rule_{i}": sum(case[3][i] for case in cases) for i in range(len(ACTIONS))},
    )
    marks = {f"0:{offset // 16}:t" for offset, place in enumerate(expected) if place == "dead_letter"}
    assert {mark for mark in seen["blocks"].split(",") if mark} == marks


def test_a_failed_expectation_whose_action_is_fail_ends_the_job_with_its_coordinates(spark):
    flow = a_flow(("warn", "fail"))
    rows = [("a.b-c_d", 3, 41, b"v", True, True, True, False), ("a.b-c_d", 3, 42, b"secret", True, True, False, True)]
    with pytest.raises(PySparkException) as caught:
        frame(spark, rows, flow).collect()
    typed = routing.expectation_failure(flow, str(caught.value))
    assert isinstance(typed, ExpectationFailed)
    assert str(typed) == (
        "[EXPECTATION_FAILED] flow f: expectation 'rule_1' failed at a.b-c_d-3 offset 42; the batch was not written\n"
        "  hint: rivermouth run f, once the record is explained; or action: dead_letter"
    )


def test_fail_wins_over_the_others_and_passes_by_what_was_not_judged(spark):
    flow = a_flow(("dead_letter", "fail"))
    with pytest.raises(PySparkException):
        frame(spark, [("t", 0, 0, b"v", True, True, True, True)], flow).collect()
    rows = [("t", 0, 0, b"v", False, True, False, False), ("t", 0, 1, b"v", True, True, True, False)]
    assert [row[names.ROUTE] for row in frame(spark, rows, flow).collect()] == ["dead_letter", "dead_letter"]


def test_other_errors_are_not_taken_for_a_failed_expectation():
    assert routing.expectation_failure(a_flow(), "[DIVIDE_BY_ZERO] Division by zero") is None


def test_a_mark_tells_sets_of_coordinates_apart(spark):
    def mark(*offsets):
        rows = spark.createDataFrame([("t", 0, offset) for offset in offsets], "t string, p int, o bigint")
        return rows.agg(F.expr(routing.mark_of("t", "p", "o", among="o >= 0").sql)).collect()[0][0]

    assert mark(1, 2, 3) == mark(3, 1, 2)
    assert mark(1, 2, 3, -5) == mark(1, 2, 3)
    assert len({mark(1, 2, 3), mark(1, 2), mark(1, 2, 4), mark(2, 3)}) == 4
    assert mark(-1) is None


@pytest.mark.parametrize(
    ("offsets", "size"), [(0, 1), (1, 1), (2**17, 1), (2**17 + 1, 2), (2_000_000, 16), (2**21 + 1, 32), (10**9, 8192)]
)
def test_blocks_grow_with_the_batch_so_that_their_number_is_bounded(offsets, size):
    assert routing.block_size(offsets) == size
    assert offsets / size <= 2**17


@pytest.mark.parametrize(
    ("actions", "fields", "may"),
    [
        ((), {}, False),
        (("drop", "warn", "fail"), {}, False),
        (("warn", "dead_letter"), {}, True),
        ((), {"null_values": "dead_letter"}, True),
        ((), {"metadata_columns": ["kafka_key"], "key_format": "text"}, True),
        ((), {"key_format": "text"}, False),
        ((), {"metadata_columns": ["kafka_timestamp"]}, True),
        ((), {"table": {"name": "s.t", "partition_by": ["length(value)"]}}, True),
        ((), {"format": "text", "key_format": "raw"}, True),
        ((), {"explode": "sequence(1, length(value)) AS nth"}, True),
    ],
)
def test_a_flow_that_can_have_no_dead_letters_looks_for_none(actions, fields, may):
    flow = a_flow(actions, **{"format": "raw", "metadata_columns": ["kafka_offset"], **fields})
    assert routing.may_dead_letter(flow) == may
    looked_for = routing.counting(flow, 1).keys() & {"blocks", "dead_mark"}
    assert looked_for == ({"blocks", "dead_mark"} if may else set())
