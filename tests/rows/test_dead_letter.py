"""A dead letter holds the whole record and says why; as an envelope it can be tried again."""

from __future__ import annotations

import datetime as dt
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import functions as F

from rivermouth import names
from rivermouth.rows import checks, conform, dead_letter, envelope, partition_values, routing
from rivermouth.rows.dead_letter import DeadLetterFilter
from rivermouth.rows.keyed import changes
from rivermouth.spec import Flow

SOURCE = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, timestampType int, "
    "headers array<struct<key:string,value:binary>>"
)
AT = dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
HEADERS = [("h", b"\x00")]


def a_flow(**fields):
    body = {
        "name": "f",
        "topics": ["t"],
        "format": {"type": "json", "schema": "id bigint"},
        "table": "s.t",
        "null_values": "dead_letter",
        "expectations": [
            {"name": "small", "condition": "id < 100", "action": "dead_letter"},
            {"name": "even", "condition": "id % 2 = 0", "action": "warn"},
            {"name": "tiny", "condition": "id < 10", "action": "drop"},
        ],
        **fields,
    }
    return Flow.model_validate(body)


def letters(spark, flow, *records):
    source = [(key, value, "t", 0, offset, AT, 0, HEADERS) for offset, (key, value) in enumerate(records)]
    rows = envelope.decode(envelope.read(spark.createDataFrame(source, SOURCE)), flow)
    rows = checks.check(partition_values.check(conform.conform(rows, flow), flow), flow.expectations)
    return dead_letter.dead_letters(
        routing.route(rows, flow), flow, target="s.t", entry=7, topic_ids={"t": "id-of-t", "other": None}
    )


RECORDS = (
    (b"k", b'{"id": 2}'),  # fits
    (b"k", b'{"id": 12}'),  # dropped
    (b"k", b'{"id": 101}'),
    (b"k", b"{bad"),
    (b"\xff", b'{"id": 2}'),
    (b"k", None),
    (b"k", b'{"id": "x"}'),
)


@pytest.fixture(scope="module")
def of_records(spark):
    """The dead letters of RECORDS, made once."""
    made = letters(spark, a_flow(), *RECORDS)
    return spark.createDataFrame(made.collect(), made.schema)


def test_each_dead_letter_says_where_it_failed_and_why(of_records):
    found = of_records.orderBy("kafka_offset").collect()
    assert [(row["kafka_offset"], row["stage"], row["reason"], row["field"]) for row in found] == [
        (2, "expectation", "EXPECTATION", None),
        (3, "decode", "INVALID_JSON", None),
        (4, "decode", "KEY_INVALID_UTF8", "kafka_key"),
        (5, "decode", "NULL_VALUE", None),
        (6, "decode", "FIELD_TYPE", "id"),
    ]
    assert [row["message"] for row in found if row["stage"] == "expectation"] == ["failed: small, even, tiny"]
    assert [row["message"] for row in found if row["reason"] in {"KEY_INVALID_UTF8", "NULL_VALUE"}] == [
        "the key is not valid UTF-8; key_format: raw keeps the bytes, and avro, protobuf, jvm and others read them",
        "the value is null",
    ]
    assert [row["failed_expectations"] for row in found] == [["small", "even", "tiny"], [], [], [], []]


def test_it_holds_the_whole_record(spark):
    found = letters(spark, a_flow(), (b"\xff\x00", b"\xfe{bad"))
    assert [(field.name, field.dataType) for field in found.schema] == [
        (field.name, field.dataType) for field in dead_letter.COLUMNS
    ]
    row = found.collect()[0].asDict(recursive=True)
    assert row["dead_lettered_at"] is not None
    assert {name: row[name] for name in dead_letter.COLUMNS.names[:11]} == {
        "kafka_topic": "t",
        "kafka_partition": 0,
        "kafka_offset": 0,
        "kafka_timestamp": AT.replace(tzinfo=None),
        "kafka_timestamp_type": 0,
        "kafka_key": b"\xff\x00",
        "kafka_value": b"\xfe{bad",
        "kafka_headers": [{"key": "h", "value": b"\x00"}],
        "topic_id": "id-of-t",
        "flow": "f",
        "target": "s.t",
    }
    rest = {"schema_version": 1, "batch": 7, "attempt": 1, "status": "open"}
    assert {name: row[name] for name in rest} == rest


def test_a_record_that_passes_by_now_says_so(spark):
    flow = a_flow(expectations=[])
    source = [(b"k", b'{"id": 2}', "t", 0, 0, AT, 0, None)]
    rows = envelope.decode(envelope.read(spark.createDataFrame(source, SOURCE)), flow)
    rows = checks.check(conform.conform(rows, flow), ())
    routed = rows.withColumn(names.ROUTE, F.lit(routing.DEAD_LETTER))
    found = dead_letter.dead_letters(routed, flow, target="s.t", entry=1, topic_ids={}).collect()
    assert [(row["stage"], row["reason"], row["message"], row["topic_id"]) for row in found] == [
        ("expectation", "RULES_CHANGED", "it passes the flow's rules now, and did not when its batch was written", None)
    ]


def test_as_an_envelope_it_is_the_record_again(spark):
    flow = a_flow()
    again = dead_letter.as_envelope(letters(spark, flow, *RECORDS))
    source = [(key, value, "t", 0, offset, AT, 0, HEADERS) for offset, (key, value) in enumerate(RECORDS)]
    first = envelope.read(spark.createDataFrame(source, SOURCE)).where(f"{names.OFFSET} >= 2")
    assert again.select(*names.ENVELOPE).orderBy(names.OFFSET).collect() == first.orderBy(names.OFFSET).collect()


TIMES = st.none() | st.datetimes(timezones=st.just(dt.UTC))
FILTERS = st.builds(
    DeadLetterFilter,
    status=st.sampled_from([None, "open", "replayed", "discarded"]),
    reason=st.none() | st.text(max_size=5),
    stage=st.none() | st.just("decode"),
    field=st.none() | st.text(max_size=5),
    expectation=st.none() | st.text(max_size=5),
    topic=st.none() | st.text(max_size=5),
    partition=st.none() | st.integers(0, 9),
    first_offset=st.none() | st.integers(0, 2**40),
    last_offset=st.none() | st.integers(0, 2**40),
    since=TIMES,
    until=TIMES,
)


@given(FILTERS)
def test_a_filter_is_the_same_after_it_was_json(wanted):
    assert DeadLetterFilter.from_json(json.loads(json.dumps(wanted.to_json()))) == wanted


@pytest.mark.parametrize(
    ("wanted", "offsets"),
    [
        (DeadLetterFilter(), [2, 3, 4, 5, 6]),
        (DeadLetterFilter(status=None), [2, 3, 4, 5, 6]),
        (DeadLetterFilter(status="discarded"), []),
        (DeadLetterFilter(reason="NULL_VALUE"), [5]),
        (DeadLetterFilter(stage="decode", first_offset=4, last_offset=5), [4, 5]),
        (DeadLetterFilter(field="id"), [6]),
        (DeadLetterFilter(expectation="even"), [2]),
        (DeadLetterFilter(topic="t", partition=0), [2, 3, 4, 5, 6]),
        (DeadLetterFilter(topic="t", partition=1), []),
        (DeadLetterFilter(since=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)), [2, 3, 4, 5, 6]),
        (DeadLetterFilter(until=dt.datetime(2020, 1, 1, tzinfo=dt.UTC)), []),
    ],
)
def test_a_filter_means_those_that_fit_every_part(wanted, offsets, of_records):
    found = of_records.where(wanted.condition())
    assert sorted(row["kafka_offset"] for row in found.collect()) == offsets


OUT_OF_RANGE = [253_402_300_800_000_000, -12_219_292_800_000_001, 2**63 - 1, -(2**63)]
IN_RANGE = [253_402_300_799_999_999, -12_219_292_800_000_000, -1000, 0]


def routed_at(spark, flow, values, micros):
    """Judged rows of one value each at those timestamps, in microseconds."""
    cases = [(value, at) for value in values for at in micros]
    rows = [(b"k", value, "t", 0, offset, at, 0, HEADERS) for offset, (value, at) in enumerate(cases)]
    source = spark.createDataFrame(rows, SOURCE.replace("timestamp timestamp", "timestamp bigint"))
    source = source.selectExpr("* EXCEPT (timestamp)", "timestamp_micros(timestamp) AS timestamp")
    rows = envelope.decode(envelope.read(source), flow)
    rows = partition_values.check(conform.conform(rows, flow), flow)
    return routing.route(checks.check(rows, flow.expectations), flow)


@pytest.mark.parametrize("form", ["raw", {"type": "json", "schema": "id bigint"}])
def test_a_kafka_timestamp_that_no_reader_can_read_is_a_dead_letter_without_it(spark, form):
    flow = a_flow(format=form, expectations=[], table={"name": "s.t", "partition_by": ["date(kafka_timestamp)"]})
    values = [b'{"id": 1}', b"{bad", None]
    routed = routed_at(spark, flow, values, [*IN_RANGE, *OUT_OF_RANGE])
    told = {"target": "s.t", "entry": 1, "topic_ids": {}}
    found = dead_letter.dead_letters(routed, flow, **told).where("reason = 'KAFKA_TIMESTAMP_RANGE'").collect()
    assert {row["kafka_offset"] % 8 for row in found} == {4, 5, 6, 7}
    assert len(found) == 4 * len(values)
    assert {(row["stage"], row["field"], row["kafka_timestamp"], row["kafka_timestamp_type"]) for row in found} == {
        ("decode", "kafka_timestamp", None, 0)
    }
    message = (
        "Kafka's timestamp of the record is before 1582-10-15 or after the year 9999: does its producer count "
        "microseconds where Kafka counts milliseconds? metadata_columns without kafka_timestamp takes the record"
    )
    assert {row["message"] for row in found} == {message}
    assert routed.where("__route = 'table'").count() == 4 * (2 if form == "raw" else 1)


def test_replay_refuses_such_a_timestamp_again_unless_the_table_lacks_it(spark):
    flow = a_flow(expectations=[])
    letters = dead_letter.dead_letters(
        routed_at(spark, flow, [b'{"id": 1}'], OUT_OF_RANGE), flow, target="s.t", entry=1, topic_ids={}
    )
    again = dead_letter.as_envelope(letters)
    without = a_flow(expectations=[], metadata_columns=["kafka_topic", "kafka_partition", "kafka_offset"])
    routes = []
    for each in (flow, without):
        rows = checks.check(conform.conform(envelope.decode(again, each), each), ())
        routes.append({row[names.ROUTE] for row in routing.route(rows, each).select(names.ROUTE).collect()})
    assert routes == [{"dead_letter"}, {"table"}]


@pytest.mark.parametrize(
    ("fields", "column"),
    [
        ({"table": {"name": "s.t", "partition_by": [{"day": "date(timestamp_millis(id))"}]}}, "day"),
        ({"select": ["id", "array(named_struct('at', timestamp_seconds(id div 1000))) AS many"]}, "many"),
        ({"select": ["id", "map('k', CAST(timestamp_seconds(id div 1000) AS timestamp_ntz)) AS named"]}, "named"),
        ({"select": ["id AS day", "date_add(DATE '1970-01-01', CAST(id div 86400000 AS int)) AS `a b`"]}, "a b"),
    ],
)
def test_a_time_that_an_expression_makes_is_in_the_years_1_to_9999_or_the_record_is_a_dead_letter(
    spark, fields, column
):
    flow = a_flow(expectations=[], **fields)
    ids = [0, 253_402_300_799_999, 253_402_300_800_000, -62_135_596_800_000, -62_135_683_200_000, None]
    values = [b'{"id": %s}' % str("null" if each is None else each).encode() for each in ids]
    found = letters(spark, flow, *((b"k", value) for value in values)).collect()
    assert sorted(
        (row["kafka_offset"], row["stage"], row["reason"], row["field"], row["message"]) for row in found
    ) == [
        (
            place,
            "decode",
            "TIME_RANGE",
            column,
            f"its column {column} would be a date or a time that is not in the years 1 to 9999",
        )
        for place in (2, 4)
    ]


THROWS = {
    "timestamp_millis(n)": 1_767_225_600_000_000_000,
    "timestamp_seconds(n)": -(10**18),
    "date(timestamp_millis(n))": 1_767_225_600_000_000_001,
    "DATE '2026-01-01' + make_interval(IF(n = 20, 150000000, 0))": 20,
    "CAST(parse_json(IF(n = 1, '{', '{}')) AS string)": 1,
    "assert_true(n IS NULL OR n <> 2) IS NULL": 2,
    "IF(n = 3, raise_error('no'), n)": 3,
    "element_at(array(1), IF(n = 4, 0, 1))": 4,
    "to_number(IF(n = 5, 'x', '1'), '9')": 5,
    "transform(array(n), x -> element_at(array(1), IF(x = 6, 0, 1)))[0]": 6,
    "map_from_arrays(array(1, IF(n = 7, 1, 2)), array('a', 'b'))[1]": 7,
    "sequence(1, 5, IF(n = 8, -1, 1))[0]": 8,
    "nullif(element_at(array(1), IF(n BETWEEN 9 AND 9, 0, 1)), 2)": 9,
}
"""Expressions, and a number for which each of them throws whatever ANSI mode says."""


def test_an_expression_that_throws_refuses_its_record_and_not_the_batch(spark):
    """What several of them have in common is not computed before them."""
    select = ["id", "n + 1 AS more", *(f"{sql} AS c{number}" for number, sql in enumerate(THROWS))]
    form = {"type": "json", "schema": "id bigint, n bigint"}
    flow = a_flow(format=form, expectations=[], select=select, null_values="drop")
    numbers = [*THROWS.values(), 1000, None]
    values = [json.dumps({"id": place, "n": number}).encode() for place, number in enumerate(numbers)]
    found = letters(spark, flow, *((b"k", value) for value in values), (b"k", None), (b"k", b"{")).collect()
    said = {row["kafka_offset"]: (row["stage"], row["reason"], row["field"], row["message"]) for row in found}
    assert said.pop(len(numbers) + 1)[1] == "INVALID_JSON"
    expected = {}
    for place, number in enumerate(THROWS.values()):
        # Numbers that are too large throw in the first expression that takes them.
        first = 0 if abs(number) > 10**15 else place
        message = f"the expression of c{first} cannot be computed for the record: a function in it throws"
        expected[place] = ("decode", "EXPRESSION_FAILED", f"c{first}", message)
    assert said == expected


@pytest.mark.parametrize(
    ("fields", "field"),
    [
        ({"table": {"name": "s.t", "partition_by": [{"day": "date(timestamp_millis(id))"}]}}, "day"),
        ({"select": ["timestamp_millis(id) AS `a b`"], "null_values": "keep"}, "a b"),
    ],
)
def test_a_partition_that_throws_refuses_its_record_and_a_time_keeps_its_own_reason(spark, fields, field):
    flow = a_flow(**{"expectations": [], "null_values": "drop", **fields})
    values = [b'{"id": 1}', b'{"id": 1767225600000000000}', b'{"id": 253402300800000}', b'{"id": null}', None]
    found = letters(spark, flow, *((b"k", value) for value in values)).collect()
    assert {row["kafka_offset"]: (row["reason"], row["field"]) for row in found} == {
        1: ("EXPRESSION_FAILED", field),
        2: ("TIME_RANGE", field),
    }


def test_a_sequence_that_is_no_time_of_a_table_is_none(spark):
    sink = {"type": "upsert", "keys": ["id"], "sequence_by": "timestamp_millis(at)"}
    form = {"type": "json", "schema": "id bigint, at bigint"}
    flow = Flow.model_validate({"name": "f", "topics": ["t"], "format": form, "table": "s.t", "sink": sink})
    ats = (253_402_300_799_999, 253_402_300_800_000, 1_767_225_600_000_000_000, -(10**18))
    values = [b'{"id": 1, "at": %d}' % at for at in ats]
    source = [(b"k", value, "t", 0, offset, AT, 0, HEADERS) for offset, value in enumerate(values)]
    rows = envelope.decode(envelope.read(spark.createDataFrame(source, SOURCE)), flow)
    told = changes.with_changes(conform.conform(rows, flow), flow)
    assert {row[0]: row[1] for row in told.select(names.OFFSET, names.PROBLEM).collect()} == {
        0: None,
        **dict.fromkeys((1, 2, 3), "SEQUENCE_NULL"),
    }
