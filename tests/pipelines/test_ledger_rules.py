"""What entries of one flow must have in common: rules without Spark."""

import json
from dataclasses import replace
from types import SimpleNamespace

import pytest

from rivermouth.domain.query.kafka_size import kafka_size
from rivermouth.domain.query.ledger_rules import broken_rules
from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry, streams_moved
from rivermouth.engine.query.query_batch import check_counts
from rivermouth.errors import QueryCountsDisagree


def offsets(*sources):
    return ("{}", *("-" if each is None else json.dumps(each) for each in sources))


FIRST = QueryEntry("f", number=-1).after_batch("q", 0, offsets({"t": {"0": 5}}), fingerprint="", stateful=False)
FIRST = FIRST.counted(QueryCounts(read=5, written=3, dropped=1, dead_lettered=1))
SECOND = FIRST.after_batch("q", 1, offsets({"t": {"0": 7, "1": 2}}), fingerprint="", stateful=False)
SECOND = SECOND.counted(QueryCounts(read=4, written=4))
VIEW = SECOND.after_refresh("full", "", {"t": (3, "")}).counted(QueryCounts(read=2, written=2))
CLEARED = SECOND.after_reset(cleared=True)
RESET = SECOND.after_reset(cleared=False)
AGAIN = RESET.after_batch("r", 0, offsets({"t": {"0": 1}}), fingerprint="", stateful=False)


@pytest.mark.parametrize(
    ("entries", "said"),
    [
        ([], []),
        ([FIRST, SECOND], []),
        ([SECOND, VIEW], []),
        ([VIEW, VIEW.after_refresh("append", "", {"t": (4, "")}).counted(QueryCounts(read=1, written=1))], []),
        ([SECOND, CLEARED], []),
        ([SECOND, RESET, AGAIN.counted(QueryCounts(read=1, written=1))], []),
        ([FIRST, replace(SECOND, number=3)], ["entry 3 of f follows entry 0"]),
        (
            [FIRST, replace(SECOND, totals=FIRST.totals)],
            ["entry 1 of f: its totals are not those before and its counts"],
        ),
        (
            [replace(FIRST, counts=QueryCounts(read=6, written=3, dropped=1, dead_lettered=1))],
            ["entry 0 of f: 6 read, but 3 written, 1 dropped and 1 dead-lettered"],
        ),
        (
            [FIRST, replace(SECOND, offsets=offsets({"t": {"0": 4, "1": 2}}))],
            ["entry 1 of f: t-0 goes back from 5 to 4"],
        ),
        # Sources that are no Kafka, and one that had nothing yet.
        (
            [replace(FIRST, offsets=offsets(None, {"logOffset": 3})), replace(SECOND, offsets=offsets({"t": 1}, "x"))],
            [],
        ),
    ],
)
def test_a_ledger_adds_up_or_says_where_not(entries, said):
    assert list(broken_rules(entries)) == said


def test_a_batch_that_has_other_rows_than_were_counted_is_told():
    run = SimpleNamespace(entry=FIRST, context=SimpleNamespace(flow="f", dataset="t"))
    check_counts(3, run)
    check_counts(None, run)
    with pytest.raises(QueryCountsDisagree) as told:
        check_counts(4, run)
    assert str(told.value) == (
        "[QUERY_COUNTS_DISAGREE] flow f: ledger entry 0: its commit has 4 rows, and 3 were counted; the batch is in "
        "table t, and its counts may be wrong\n"
        "  hint: rivermouth run --full-refresh t, once the query gives the same rows each time; or report a bug"
    )


KAFKA = '{"t": {"0": 5, "1": 7}}'


@pytest.mark.parametrize(
    ("before", "offsets", "size"),
    [
        (('{"t": {"0": 2, "1": 7}}',), (KAFKA,), (3, 2)),
        (('{"t": {"0": 2, "1": 7}}', KAFKA), (KAFKA, '{"t": {"0": 6, "1": 7}}'), (4, 4)),
        ((), (KAFKA,), None),
        (('{"t": {"0": 2}}',), (KAFKA,), None),
        (("-",), (KAFKA,), None),
        (('{"logOffset": 1}',), ('{"logOffset": 2}',), None),
        ((KAFKA, '{"logOffset": 1}'), (KAFKA, '{"logOffset": 2}'), None),
        (('{"reservoirId": "a", "index": -1}',), ('{"reservoirId": "a", "index": -1}',), None),
    ],
)
def test_how_many_records_of_kafka_a_batch_reads(before, offsets, size):
    assert kafka_size(("{}", *before) if before else (), ("{}", *offsets)) == size


@pytest.mark.parametrize(
    ("before", "now", "moved"),
    [
        ((), ("kafka a",), False),
        (("kafka a", "kafka b"), ("kafka a", "kafka b"), False),
        (("kafka a", "kafka b"), ("kafka b", "kafka a"), True),
        (("kafka a", "kafka b"), ("kafka a", "kafka c"), False),
        (("kafka a", "kafka b"), ("kafka c", "kafka a"), True),
        (("kafka a",), ("kafka a", "kafka b"), True),
        (("kafka a", "kafka b"), ("kafka a",), True),
        (("kafka a",), (), True),
        # Earlier versions kept the topics of no stream.
        (("kafka", "kafka"), ("kafka a", "kafka b"), False),
        (("kafka", "text /in"), ("kafka a", "text /in"), False),
        (("kafka", "text /in"), ("text /in", "kafka a"), True),
        (("kafka", "rate"), ("rate", "kafka a"), True),
        (("kafka",), ("rate",), False),
    ],
)
def test_streams_with_other_numbers_are_known(before, now, moved):
    entry = replace(FIRST, streams=before)
    assert QueryEntry.from_json(entry.to_json(), table="t", version=1).streams_moved(now) == moved
    assert streams_moved(before, now) == moved
    assert not replace(entry, offsets=()).streams_moved(now)
