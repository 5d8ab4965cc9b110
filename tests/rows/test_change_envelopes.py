"""The 463 change messages of other projects' tests: each has the rows that it tells, or the reason why not."""

from __future__ import annotations

import base64
import datetime as dt
import importlib.util
import json
from decimal import Decimal
from operator import itemgetter
from pathlib import Path

import pytest
from pyspark.sql import Row
from pyspark.sql import functions as F
from pyspark.sql.types import VariantVal

from rivermouth import names
from rivermouth.engine.batch.pipeline import transform
from rivermouth.extend import find_kind
from rivermouth.rows import envelope, split_changes
from rivermouth.spec import Flow

DATA = Path(__file__).parents[1] / "data" / "change-envelopes"
SOURCE = "topic string, partition int, offset long, timestamp timestamp, timestampType int, key binary, value binary"


def expectations():
    """Of each message what it is expected to be, with its key and value; keys stand with their values."""
    found, key = [], None
    for line in (DATA / "expected.jsonl").read_text().splitlines():
        each = json.loads(line)
        value = (DATA / each["file"]).read_text().splitlines()[each["line"] - 1].strip()
        if each.pop("is_key", False):
            key = value
            continue
        if "key" in each:
            value = value.removeprefix(each["key"] + "^")
        found.append({"key": key, **each, "value": value or None})
        key = None
    return found


def plain(value):
    """A stored value as ``expected.jsonl`` writes it, without what is null."""
    match value:
        case dict():
            return {name: plain(part) for name, part in value.items() if part is not None}
        case list():
            return [plain(part) for part in value]
        case bytes() | bytearray():
            return base64.b64encode(bytes(value)).decode()
        case Decimal():
            return f"{value:f}"
        case dt.date():
            return value.isoformat()
        case VariantVal():
            return value.toJson()
    return value


@pytest.fixture(scope="module")
def groups():
    """The settings and columns by group, as the file with the expectations was written for."""
    spec = importlib.util.spec_from_file_location("expect", DATA / "expect.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.GROUPS


def told(spark, settings, columns, messages):
    """What the format made of the messages: (number, ordinal, operation, row, reason, field)."""
    schema = ", ".join(f"`{name}` {kind}" for name, kind in columns.items())
    form = find_kind("formats", settings["type"]).model_validate({**settings, "schema": schema})
    sent = [tuple(text and text.encode() for text in (each["key"], each["value"])) for each in messages]
    rows = [("t", 0, number, dt.datetime(2026, 1, 1), 0, *each) for number, each in enumerate(sent)]
    decoded = form.decode(envelope.read(spark.createDataFrame(rows, SOURCE)))
    ordinal = F.col(names.ORDINAL) if form.splits else F.lit(0)
    explained = form.explain(decoded).select(
        names.OFFSET,
        ordinal.alias("nth"),
        names.OPERATION,
        F.when(F.col(names.DECODED), F.col(names.DATA)),
        F.when(~F.col(names.DECODED), F.col(names.REASON)),
        names.FIELD,
        names.PRIMARY_KEY,
    )
    # Put in order here: Spark would decode once more, to find out where to part the rows.
    return sorted((tuple(row) for row in explained.collect()), key=itemgetter(0, 1))


# One of each format, with few columns.
FEW_GROUPS = ("debezium customers", "canal upper", "maxwell", "ogg upper")


def test_messages_of_each_format_are_told_as_they_were_read_by_hand(spark, groups):
    messages = expectations()
    assert len(messages) == 482 - 8  # 8 of them are keys
    assert read_otherwise(spark, {name: groups[name] for name in FEW_GROUPS}, messages) == ([], 8 + 4 + 58 + 2)


@pytest.mark.long
def test_every_message_is_told_as_it_was_read_by_hand(spark, groups):
    messages = expectations()
    assert read_otherwise(spark, groups, messages) == ([], len(messages))


def read_otherwise(spark, groups, messages):
    """Those of the messages of groups that are not told as expected, and how many messages the groups have."""
    wrong, seen = [], 0
    for group, (settings, columns) in groups.items():
        mine = [each for each in messages if each["group"] == group]
        seen += len(mine)
        found = {}
        for number, _, operation, row, reason, field, _key in told(spark, settings, columns, mine):
            found.setdefault(number, []).append((operation, row, reason, field))
        for number, each in enumerate(mine):
            changes = [[operation, plain(row.asDict(True))] for operation, row, *_ in found[number] if row is not None]
            reasons = {(reason, field) for _, _, reason, field in found[number] if reason is not None}
            if "reason" in each:
                fine = reasons == {(each["reason"], each["field"])}
            else:
                fine = not reasons and changes == plain(each["changes"])
            if not fine:
                wrong.append((each["file"], each["line"], changes, reasons, each.get("changes"), each.get("reason")))
    return wrong, seen


def judged(spark, settings, records, sink, **fields):
    """Records as a keyed flow judges them: rows by offset and ordinal."""
    flow = Flow.model_validate(
        {
            "name": "f",
            "topics": ["t"],
            "format": settings,
            "table": "silver.t",
            "sink": {"type": "upsert", **sink},
            **fields,
        }
    )
    rows = [
        ("t", 0, offset, dt.datetime(2026, 1, 1), 0, key, value if value is None else json.dumps(value).encode())
        for offset, (key, value) in enumerate(records)
    ]
    found = transform(envelope.read(spark.createDataFrame(rows, SOURCE)), flow, ())
    order = [names.OFFSET, *([names.ORDINAL] if flow.splits else [])]
    return sorted((row.asDict() for row in found.collect()), key=itemgetter(*order))


def parts(rows, *columns):
    return [tuple(row[name] for name in columns) for row in rows]


def test_a_source_whose_columns_change_loses_no_change(spark):
    records = [
        (b'{"id": 1}', {"op": "u", "after": {"id": 1, "v": 1, "added": "x"}}),
        (b'{"id": 2}', {"op": "u", "after": {"id": 2}}),
        (b'{"id": 3}', {"op": "u", "after": {"id": 3, "v": 3_000_000_000}}),
        (b'{"id": 4}', {"op": "u", "after": {"id": 4, "v": "four"}}),
        (b'{"id": 5}', {"op": "d", "before": {"id": 5, "v": "five"}}),
        (b'{"key": 6}', {"op": "u", "after": {"key": 6, "v": 6}}),
        (b'{"key": 7}', {"op": "d", "before": {"key": 7, "v": 7}}),
        (b'{"id": "e"}', {"op": "u", "after": {"id": "e", "v": 8}}),
        (b'{"id": "n"}', {"op": "d", "before": {"id": "n", "v": 9}}),
    ]
    found = judged(spark, {"type": "debezium", "schema": "id bigint, v int"}, records, {"keys": ["id"]})
    assert parts(found, names.DELETE, names.ROUTE) == [
        (False, "table"),
        (False, "table"),
        (False, "dead_letter"),
        (False, "dead_letter"),
        (True, "dead_letter"),
        (False, "dead_letter"),
        (True, "dead_letter"),
        (False, "dead_letter"),
        (True, "dead_letter"),
    ]


def test_deletions_find_their_key_in_the_row_or_in_kafkas_key(spark):
    records = [
        (b'{"schema": {}, "payload": {"id": 7}}', None),
        (b'{"id": 7}', {"op": "d", "before": None}),
        (b'{"id": 8}', {"op": "d", "before": {"id": 8}}),
        (None, {"op": "d", "before": None}),
        (None, {"op": "t"}),
        (b'{"id": 9}', {"op": "u", "after": {"id": 9, "at": 5}}),
        (b"x", {"op": "m"}),
    ]
    form = {"type": "debezium", "schema": "id bigint, at bigint"}
    found = judged(spark, form, records, {"keys": ["id"], "sequence_by": "at"})
    assert parts(found, "id", names.DELETE, names.SEQUENCE, names.PROBLEM, names.ROUTE) == [
        (7, True, None, None, "table"),
        (7, True, None, None, "table"),
        (8, True, None, None, "table"),
        (None, True, None, "KEY_NULL", "dead_letter"),
        (None, False, None, "SEQUENCE_NULL", "dead_letter"),
        (9, False, 5, None, "table"),
        (None, False, None, None, "dropped"),
    ]
    found = judged(spark, form, records, {})
    assert parts(found, "primary_key", names.TRUNCATE, names.ROUTE) == [
        ('{"id":7}', False, "table"),
        ('{"id":7}', False, "table"),
        ('{"id":8}', False, "table"),
        (None, False, "dead_letter"),
        (None, True, "table"),
        ('{"id":9}', False, "table"),
        ("x", False, "dropped"),
    ]


def test_the_id_of_a_document_is_kafkas_key(spark):
    form = {"type": "debezium", "connector": "mongodb", "schema": "_id string"}
    ids = ['{"$oid": "67ab"}', '"67ac"', "5", '{"$numberLong": "6"}']
    gone = {"op": "d", "before": None, "after": None}
    records = [(json.dumps({"id": each}).encode(), gone) for each in ids]
    records.append((json.dumps({"schema": {}, "payload": {"id": ids[0]}}).encode(), None))
    found = judged(spark, form, records, {"keys": ["_id"]})
    assert parts(found, "_id", names.DELETE) == [(each, True) for each in ("67ab", "67ac", "5", "6", "67ab")]


# The id of a document, the declared type of ``_id``, and what it becomes; as an inserted row and as a deletion.
IDS = [
    ('{"$oid": "67ab"}', '{"$oid": "67ab"}', "string", "67ab"),
    ('"a\\"b"', '"a\\"b"', "string", 'a"b'),
    ('{"$numberLong": "1004"}', "1004", "string", "1004"),
    ('{"$numberLong": "1005"}', '{"$numberLong": "1005"}', "string", "1005"),
    ('{"year": 2026, "city": "x"}', '{"year": 2026, "city": "x"}', "string", '{"city":"x","year":2026}'),
    ("1.0", "1.0", "string", "1"),
    ('{"$numberLong": "1004"}', "1004", "bigint", 1004),
    ('{"$numberLong": "1005"}', '{"$numberLong": "1005"}', "bigint", 1005),
    ('{"$date": 1739321992000}', '{"$date": 1739321992000}', "timestamp", dt.datetime(2025, 2, 12, 0, 59, 52)),
    ('{"$binary": "AAEC", "$type": "04"}', '{"$binary": "AAEC", "$type": "04"}', "binary", b"\0\1\2"),
    ('{"$numberDecimal": "1.50"}', '{"$numberDecimal": "1.50"}', "decimal(9,2)", Decimal("1.50")),
    ('{"y": 1, "c": "x"}', '{"y": 1, "c": "x"}', "struct<y: int, c: string>", Row(y=1, c="x")),
]


@pytest.mark.long
def test_a_deletion_of_a_document_has_the_id_that_its_row_has(spark):
    wrong = []
    for kind in dict.fromkeys(kind for _, _, kind, _ in IDS):
        form = {"type": "debezium", "connector": "mongodb", "schema": f"_id {kind}, v int"}
        records, expected = [], []
        for sent, in_key, declared, value in IDS:
            if declared == kind:
                key = json.dumps({"id": in_key}).encode()
                records.append((key, {"op": "c", "after": f'{{"_id": {sent}, "v": 1}}'}))
                records += [(key, {"op": "d", "before": None, "after": None}), (key, None)]
                expected += [(value, False, None), (value, True, None), (value, True, None)]
        records.append((None, {"op": "d", "before": None, "after": None}))
        found = judged(spark, form, records, {"keys": ["_id"]})
        got = parts(found, "_id", names.DELETE, names.PROBLEM)
        pairs = zip(got, [*expected, (None, True, "KEY_NULL")], strict=True)
        wrong += [(kind, *pair) for pair in pairs if pair[0] != pair[1]]
    assert wrong == []


@pytest.mark.parametrize(
    ("sequence", "expected"),
    [
        ("at", None),
        pytest.param("source_position", "00000000000000000007", marks=pytest.mark.long),
        pytest.param("kafka_offset", 0, marks=pytest.mark.long),
    ],
)
def test_a_deletion_of_debezium_has_no_sequence_of_its_row_whose_columns_may_be_made_up(spark, sequence, expected):
    before = {"op": "d", "before": {"id": 1, "at": 0}, "source": {"connector": "postgresql", "lsn": 7}}
    form = {"type": "debezium", "schema": "id bigint, at bigint"}
    columns = ["kafka_timestamp", "source_position"]
    sink = {"keys": ["id"], "sequence_by": sequence}
    found = judged(spark, form, [(b'{"id": 1}', before)], sink, metadata_columns=columns)
    assert parts(found, names.DELETE, names.SEQUENCE, names.PROBLEM) == [(True, expected, None)]


@pytest.mark.parametrize(
    ("kind", "insert", "move", "same"),
    [
        (
            "maxwell",
            {"type": "insert", "data": {"id": 1, "v": 1}},
            {"type": "update", "data": {"id": 2, "v": -1}, "old": {"id": 1}},
            {"type": "update", "data": {"id": 2, "v": 3}, "old": {"v": 1}},
        ),
        pytest.param(
            "ogg",
            {"op_type": "I", "after": {"id": 1, "v": "1"}},
            {"op_type": "U", "before": {"id": 1, "v": 1}, "after": {"id": 2, "v": -1}},
            {"op_type": "U", "before": {"id": 2, "v": 1}, "after": {"id": 2, "v": 3}},
            marks=pytest.mark.long,
        ),
        (
            "canal",
            {"type": "INSERT", "data": [{"id": "1", "v": "1"}]},
            {"type": "UPDATE", "data": [{"id": "2", "v": "-1"}], "old": [{"id": "1"}]},
            {"type": "UPDATE", "data": [{"id": "2", "v": "3"}], "old": [{"v": "1"}]},
        ),
    ],
)
def test_an_update_of_a_key_is_two_changes_of_one_record(spark, kind, insert, move, same):
    form = {"type": kind, "schema": "id bigint, v int"}
    records = [(None, insert), (None, move), (None, same)]
    columns = ("id", "v", names.DELETE, names.ORDINAL, names.SEQUENCE, names.ROUTE)
    found = judged(spark, form, records, {"keys": ["id"], "sequence_by": "v"})
    assert parts(found, *columns) == [
        (1, 1, False, 0, 1, "table"),
        (1, -1, True, 0, -1, "table"),
        (2, -1, False, 1, -1, "table"),
        (2, 3, False, 0, 3, "table"),
    ]
    positive = {"name": "positive", "condition": "v > 0", "action": "dead_letter"}
    found = judged(spark, form, records, {"keys": ["id"]}, expectations=[positive])
    assert parts(found, names.OFFSET, names.ROUTE) == [(0, "table"), *2 * [(1, "dead_letter")], (2, "table")]


def test_changes_of_other_tables_are_dropped(spark):
    row = {"type": "insert", "database": "shop", "data": {"id": 1}}
    records = [(None, {**row, "table": table}) for table in ("orders", "customers")]
    form = {"type": "maxwell", "schema": "id bigint", "source_tables": ["shop.orders"]}
    found = judged(spark, form, records, {"keys": ["id"]})
    assert parts(found, names.ROUTE) == [("table",), ("dropped",)]


def test_a_change_that_does_not_name_its_table_is_refused_where_tables_are_listed(spark):
    events = [
        {"op": "c", "after": {"id": 1}},
        {"op": "c", "after": {"id": 1}, "source": {"db": "a", "table": "b"}},
        {"op": "c", "after": {"id": 1}, "source": {"schema": "A", "table": "B"}},
        {"op": "zz"},
        {"ts_ms": 1},
    ]
    form = {"type": "debezium", "source_tables": ["a.b"]}
    found = told(spark, form, {"id": "bigint"}, [{"key": None, "value": json.dumps(each)} for each in events])
    assert [each[4] or each[2] for each in found] == ["TABLE_MISSING", "insert", "skip", "OPERATION_UNKNOWN", "skip"]


def test_a_key_that_is_a_string_in_json_has_no_quotes(spark):
    records = [(b'"abc"', {"op": "c", "after": {"id": "abc"}}), (b'"abc"', None), (b'"abc"', {"op": "d"})]
    found = judged(spark, {"type": "debezium", "schema": "id string"}, records, {"keys": ["id"]})
    assert parts(found, "id", names.DELETE) == [("abc", False), ("abc", True), ("abc", True)]


def test_a_deletion_needs_nothing_but_its_key(spark):
    form = {"type": "maxwell", "schema": "id decimal(9,1), v decimal(3,1)"}
    rows = [{"id": 1, "v": 1000.5}, {"id": 1.25, "v": 1}, {"id": 2, "v": 1}]
    records = [(None, {"type": "delete", "data": each}) for each in rows]
    records.append((None, {"type": "insert", "data": rows[0]}))
    found = judged(spark, form, records, {"keys": ["id"]})
    assert parts(found, "id", "v", names.PROBLEM, names.ROUTE) == [
        (Decimal(1), None, None, "table"),
        (None, Decimal(1), "KEY_NULL", "dead_letter"),
        (Decimal(2), Decimal(1), None, "table"),
        (Decimal(1), None, None, "dead_letter"),
    ]


# A document, and of its columns those that it has, or the reason and field.
DOCUMENTS = [
    ('{"_id": 1, "a": [{"$numberLong": "5"}, 6]}', {"_id": "1", "a": [5, 6]}),
    ('{"_id": 2, "o": {"x": {"$numberInt": "5"}, "y": {"$oid": "0123456789abcdef01234567"}}}', None),
    ('{"_id": 3, "a": ["x"]}', ("FIELD_TYPE", "a")),
    ('{"_id": 4, "o": {"x": {"$date": 5}}}', ("FIELD_TYPE", "o")),
    ('{"_id": 5, "d": {"$numberDecimal": "1.5E+2"}}', {"_id": "5", "d": "150.00"}),
    ('{"_id": 6, "d": {"$numberDecimal": "1E-20"}}', ("FIELD_TYPE", "d")),
    ('{"_id": 7, "o": {"y": "{\\"$numberLong\\":\\"5\\"}"}}', {"_id": "7", "o": {"y": '{"$numberLong":"5"}'}}),
    ('{"_id": 8} x', ("ROW_MISSING", None)),
    ('{"_id": 9, "a": null, "o": null}', {"_id": "9"}),
]


def test_documents_are_read_with_what_is_in_them(spark):
    columns = {"_id": "string", "a": "array<bigint>", "o": "struct<x: bigint, y: string>", "d": "decimal(9,2)"}
    messages = [{"key": None, "value": json.dumps({"op": "c", "after": text})} for text, _ in DOCUMENTS]
    found = told(spark, {"type": "debezium", "connector": "mongodb"}, columns, messages)
    got = [each[4:6] if each[3] is None else plain(each[3].asDict(True)) for each in found]
    expected = [each for _, each in DOCUMENTS]
    expected[1] = {"_id": "2", "o": {"x": 5, "y": "0123456789abcdef01234567"}}
    assert [pair for pair in zip(expected, got, strict=True) if pair[0] != pair[1]] == []


def test_a_number_in_a_key_is_no_time(spark):
    micros = 1700000000000000
    form = {"type": "debezium", "schema": "at timestamp, v int", "time_precision": "micros"}
    key = json.dumps({"at": micros}).encode()
    text = (b'{"at": "2023-11-14T22:13:20Z"}', None)
    records = [(key, {"op": "c", "after": {"at": micros, "v": 1}}), (key, None), (key, {"op": "d"}), text]
    found = judged(spark, form, records, {"keys": ["at"]})
    at = dt.datetime(2023, 11, 14, 22, 13, 20)
    assert parts(found, "at", names.PROBLEM) == [(at, None), (None, "KEY_NULL"), (None, "KEY_NULL"), (at, None)]


def test_an_update_of_debezium_that_changes_another_key_than_its_own_is_refused(spark):
    form = {"type": "debezium", "schema": "id bigint, code string, v int"}
    row = {"id": 1, "code": "a", "v": 1}
    updates = [
        {"before": row, "after": {**row, "code": "b"}},
        {"before": row, "after": {**row, "v": 2}},
        {"before": None, "after": {**row, "code": "b"}},
        {"before": {"id": 1, "code": None}, "after": row},
    ]
    records = [(b'{"id": 1}', {"op": "u", **each}) for each in updates]
    found = judged(spark, form, records, {"keys": ["code"]})
    assert [problem for (problem,) in parts(found, names.PROBLEM)] == ["KEY_CHANGED", None, None, None]
    found = judged(spark, form, records, {})
    assert [problem for (problem,) in parts(found, names.PROBLEM)] == [None] * 4


POSITIONS = [
    ({"connector": "mysql", "file": "b.000003", "pos": 1442, "row": 2}, "b.0000000003:00000000000000001442:0000000002"),
    (
        {"connector": "mariadb", "file": "b-2.1000000", "pos": 4},
        "b-2.0001000000:00000000000000000004",
    ),
    ({"connector": "postgresql", "lsn": 23911624}, "00000000000023911624"),
    (
        {"connector": "sqlserver", "commit_lsn": "0:1:2", "change_lsn": "0:1:1", "event_serial_no": 1},
        "0:1:2:0:1:1:0000000001",
    ),
    ({"connector": "mongodb", "ts_ms": 1739321992000, "ord": 28}, "00000001739321992000:0000000028"),
    ({"connector": "db2", "commit_lsn": "1"}, None),
]


def test_where_a_change_stands_in_its_source(spark):
    records = [(b"k", {"op": "c", "after": {"id": 1}, "source": source}) for source, _ in POSITIONS]
    form = {"type": "debezium", "schema": "id bigint"}
    columns = ["kafka_timestamp", "source_position", "source_timestamp"]
    found = judged(spark, form, records, {"keys": ["id"]}, metadata_columns=columns)
    assert parts(found, "source_position") == [(position,) for _, position in POSITIONS]
    assert found[4]["source_timestamp"] == dt.datetime(2025, 2, 12, 0, 59, 52)


GONE = "__debezium_unavailable_value"
LONG = "0.12345678901234567890"
DECIMAL = {"type": "bytes", "name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}}
VARIABLE = {"type": "struct", "name": "io.debezium.data.VariableScaleDecimal"}
ZONED = {"type": "string", "name": "io.debezium.time.ZonedTimestamp"}


def array_of(items):
    return {"type": "array", "optional": True, "items": items}


# Settings, the declared type, the hint of the schema block, the value, and what it becomes.
VALUES = [
    (
        {},
        "decimal(5,2)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "2"}},
        "AMg=",
        "2.00",
    ),
    (
        {},
        "decimal(5,2)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
        "/zg=",
        "-200.00",
    ),
    (
        {},
        "decimal(5,2)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "4"}},
        "AQ==",
        "FIELD_TYPE",
    ),
    (
        {},
        "decimal(38,0)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
        base64.b64encode((10**38).to_bytes(16, "big")).decode(),
        "FIELD_TYPE",
    ),
    (
        {},
        "decimal(38,0)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
        base64.b64encode((10**38 - 1).to_bytes(16, "big")).decode(),
        "9" * 38,
    ),
    (
        {},
        "decimal(38,0)",
        {"name": "org.apache.kafka.connect.data.Decimal", "parameters": {"scale": "0"}},
        base64.b64encode((-(10**38) + 1).to_bytes(16, "big", signed=True)).decode(),
        "-" + "9" * 38,
    ),
    ({}, "decimal(9,2)", {"name": "io.debezium.data.VariableScaleDecimal"}, {"scale": 1, "value": "Dw=="}, "1.50"),
    ({}, "decimal(9,2)", None, {"scale": -2, "value": "Dw=="}, "1500.00"),
    ({}, "decimal(9,2)", {"type": "string"}, "1.50", "1.50"),
    ({}, "decimal(9,2)", {"type": "bytes"}, "1.50", "FIELD_TYPE"),
    ({}, "decimal(9,2)", None, "1.50", "FIELD_AMBIGUOUS"),
    ({"decimals": "string"}, "decimal(9,2)", None, "1.50", "1.50"),
    ({"decimals": "base64"}, "decimal(9,2)", None, "AMg=", "2.00"),
    ({"decimals": "base64"}, "decimal(9,2)", None, "1.50", "FIELD_TYPE"),
    ({}, "decimal(9,2)", None, 1e2, "100.00"),
    ({}, "decimal(9,2)", None, 1.005, "FIELD_TYPE"),
    ({}, "decimal(9,2)", None, True, "FIELD_TYPE"),
    ({}, "date", None, 19439, "2023-03-23"),
    ({}, "date", None, -1, "1969-12-31"),
    ({}, "date", None, 10**7, "FIELD_TYPE"),
    ({}, "date", {"name": "io.debezium.time.Timestamp"}, 19439, "FIELD_TYPE"),
    ({}, "date", None, "2023-02-29", "FIELD_TYPE"),
    ({}, "timestamp", {"name": "io.debezium.time.Timestamp"}, 1, "1970-01-01T00:00:00.001000"),
    ({}, "timestamp", {"name": "org.apache.kafka.connect.data.Timestamp"}, -1, "1969-12-31T23:59:59.999000"),
    ({}, "timestamp", {"name": "io.debezium.time.MicroTimestamp"}, 1, "1970-01-01T00:00:00.000001"),
    ({}, "timestamp", {"name": "io.debezium.time.NanoTimestamp"}, -1, "1969-12-31T23:59:59.999999"),
    ({}, "timestamp", {"name": "io.debezium.time.ZonedTimestamp"}, "2026-01-01T01:00:00+01:00", "2026-01-01T00:00:00"),
    ({}, "timestamp", {"name": "io.debezium.time.Timestamp"}, 2**62, "FIELD_TYPE"),
    ({}, "timestamp", {"name": "io.debezium.time.MicroTime"}, 1, "FIELD_TYPE"),
    ({}, "timestamp", None, 1, "FIELD_AMBIGUOUS"),
    ({"time_precision": "nanos"}, "timestamp_ntz", None, 1999, "1970-01-01T00:00:00.000001"),
    ({}, "timestamp_ntz", None, "2026-01-01T00:00:00Z", "FIELD_TYPE"),
    ({}, "bigint", {"name": "io.debezium.time.MicroTime"}, 36803000000, 36803000000),
    ({}, "boolean", None, 1, "FIELD_TYPE"),
    ({"decimals": "string"}, "array<decimal(9,2)>", None, ["1234"], ["1234.00"]),
    ({}, "binary", None, "deadbeef", base64.b64encode(base64.b64decode("deadbeef")).decode()),
    ({}, "binary", {"type": "bytes"}, "AAE=", "AAE="),
    ({}, "binary", {"type": "string"}, "AAE=", "FIELD_AMBIGUOUS"),
    ({"binaries": "base64"}, "binary", {"type": "string"}, "AAE=", "AAE="),
    ({"binaries": "hex"}, "binary", {"type": "string"}, "0001", "AAE="),
    ({"binaries": "hex"}, "binary", {"type": "bytes"}, "AAE=", "AAE="),
    ({"binaries": "hex"}, "binary", None, "0001", "AAE="),
    ({"binaries": "hex"}, "binary", None, "xy", "FIELD_TYPE"),
    ({"binaries": "hex"}, "binary", None, "001", "FIELD_TYPE"),
    ({"binaries": "base64"}, "binary", None, "AAE", "FIELD_TYPE"),
    ({}, "binary", None, 1, "FIELD_TYPE"),
    ({}, "string", None, "__debezium_unavailable_value", "VALUE_UNAVAILABLE"),
    ({}, "binary", None, "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ==", "VALUE_UNAVAILABLE"),
    ({}, "string", None, "b68a35a7-17ad-35b3-af2a-ae46edb4545a", "VALUE_UNAVAILABLE"),
    ({}, "string", None, {GONE: GONE}, "VALUE_UNAVAILABLE"),
    ({}, "array<string>", None, [GONE], "VALUE_UNAVAILABLE"),
    ({}, "array<string>", None, ["b68a35a7-17ad-35b3-af2a-ae46edb4545a"], "VALUE_UNAVAILABLE"),
    ({}, "array<string>", None, ["a", None], ["a", None]),
    ({}, "array<int>", None, list(GONE.encode()), "VALUE_UNAVAILABLE"),
    ({}, "array<bigint>", None, list(GONE.encode()), "VALUE_UNAVAILABLE"),
    ({}, "array<int>", None, [1, 2], [1, 2]),
    ({}, "array<binary>", None, ["X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="], "VALUE_UNAVAILABLE"),
    ({}, "map<string, string>", None, {GONE: GONE}, "VALUE_UNAVAILABLE"),
    ({}, "map<string, string>", None, {"a": "b"}, {"a": "b"}),
    ({}, "map<string, string>", None, json.dumps({GONE: GONE}), "VALUE_UNAVAILABLE"),
    # As hstore.handling.mode: json has it; the same text as an object is the same map.
    ({}, "map<string, string>", {"type": "string", "name": "io.debezium.data.Json"}, '{"a": "b"}', {"a": "b"}),
    ({}, "map<string, string>", None, ' {"a": "x\\ny", "b": null, "\u00e4": "\\u00e4"}\n', {"a": "x\ny", "ä": "ä"}),
    ({}, "map<string, string>", None, '{"a": "1", "a": "2"}', {"a": "2"}),
    ({}, "map<string, string>", None, f'{{"a": {LONG}, "b": {{"c": 1.10}}}}', {"a": LONG, "b": '{"c":1.10}'}),
    ({}, "map<string, string>", None, "{}", {}),
    *(
        ({}, "map<string, string>", None, text, "FIELD_TYPE")
        for text in (
            "",
            "null",
            "a",
            "[]",
            "{",
            '{"a": "b"} {}',
            '{"a": "b"}, {"c": "d"}',
            '{"a": "b"}], "x": [{}',
            '{"a": "b"}]}',
            "{'a': 'b'}",
            '"a"=>"b"',
            '{"a": "\\ud800"}',
            '{"a": "b",}',
        )
    ),
    ({}, "map<string, string>", None, 1, "FIELD_TYPE"),
    ({}, "map<string, string>", None, ["a"], "FIELD_TYPE"),
    ({}, "map<string, string>", {"type": "map", "values": DECIMAL}, {"a": "AwI="}, "FIELD_AMBIGUOUS"),
    ({}, "struct<wkb: binary>", None, {"wkb": "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="}, "VALUE_UNAVAILABLE"),
    ({}, "struct<wkb: binary, srid: int>", None, {"wkb": "AAE=", "srid": 1}, {"wkb": "AAE=", "srid": 1}),
    ({}, "string", None, base64.b64encode(GONE.encode()).decode(), "VALUE_UNAVAILABLE"),
    ({}, "string", None, GONE.encode().hex(), "VALUE_UNAVAILABLE"),
    ({}, "variant", {"name": "io.debezium.data.Json"}, GONE, "VALUE_UNAVAILABLE"),
    ({}, "array<variant>", None, [GONE], "VALUE_UNAVAILABLE"),
    ({}, "binary", {"type": "string"}, GONE.encode().hex(), "VALUE_UNAVAILABLE"),
    ({}, "decimal(9,2)", {"type": "string"}, GONE, "VALUE_UNAVAILABLE"),
    ({}, "array<date>", array_of({"name": "io.debezium.time.Date"}), list(GONE.encode()), "VALUE_UNAVAILABLE"),
    ({"unavailable_value_placeholder": "n/a"}, "string", None, "n/a", "VALUE_UNAVAILABLE"),
    ({"unavailable_value_placeholder": "n/a"}, "string", None, GONE, GONE),
    ({"unavailable_value_placeholder": "n/a"}, "binary", None, "bi9h", "VALUE_UNAVAILABLE"),
    ({"unavailable_value_placeholder": "n/a"}, "array<string>", None, ["n/a"], "VALUE_UNAVAILABLE"),
    ({"unavailable_value_placeholder": "n/ä"}, "array<int>", None, [110, 47, -61, -92], "VALUE_UNAVAILABLE"),
    ({}, "string", None, "n/a", "n/a"),
    # Inside of arrays, maps and structs the same rules hold, by their parts of the schema block.
    ({}, "array<decimal(9,2)>", array_of(DECIMAL), ["AwI=", None, "/w=="], ["7.70", None, "-0.01"]),
    ({}, "array<decimal(9,2)>", array_of({"type": "string"}), ["1.50"], ["1.50"]),
    ({}, "array<decimal(9,2)>", array_of({"type": "double"}), [1.5, 2], ["1.50", "2.00"]),
    ({}, "array<decimal(9,2)>", array_of({"type": "double"}), [1.005], "FIELD_TYPE"),
    ({}, "array<decimal(9,2)>", array_of(DECIMAL), ["AwI=", True], "FIELD_TYPE"),
    ({}, "array<decimal(9,2)>", array_of(VARIABLE), [{"scale": 1, "value": "Dw=="}], ["1.50"]),
    ({}, "array<decimal(9,2)>", None, [1.5, 2], ["1.50", "2.00"]),
    ({}, "array<decimal(9,2)>", None, [1, "1.50"], "FIELD_AMBIGUOUS"),
    ({"decimals": "base64"}, "array<decimal(9,2)>", None, ["AMg="], ["2.00"]),
    ({}, "array<date>", array_of({"name": "io.debezium.time.Date"}), [20484, None], ["2026-01-31", None]),
    ({}, "array<date>", array_of({"name": "io.debezium.time.Timestamp"}), [20484], "FIELD_TYPE"),
    ({}, "array<date>", None, [20484, "2026-01-31"], ["2026-01-31", "2026-01-31"]),
    ({}, "array<timestamp>", array_of({"name": "io.debezium.time.Timestamp"}), [1], ["1970-01-01T00:00:00.001000"]),
    (
        {},
        "array<timestamp_ntz>",
        array_of({"name": "io.debezium.time.MicroTimestamp"}),
        [1, None],
        ["1970-01-01T00:00:00.000001", None],
    ),
    (
        {},
        "array<timestamp>",
        array_of({"name": "io.debezium.time.NanoTimestamp"}),
        [-1],
        ["1969-12-31T23:59:59.999999"],
    ),
    ({}, "array<timestamp>", array_of(ZONED), ["2026-01-31T11:00:00.5+01:00"], ["2026-01-31T10:00:00.500000"]),
    ({}, "array<timestamp>", array_of(ZONED), ["yesterday"], "FIELD_TYPE"),
    ({}, "array<timestamp>", None, [1], "FIELD_AMBIGUOUS"),
    ({"time_precision": "micros"}, "array<timestamp>", None, [1], ["1970-01-01T00:00:00.000001"]),
    ({}, "array<binary>", array_of({"type": "bytes"}), ["AAE="], ["AAE="]),
    ({}, "array<binary>", array_of({"type": "string"}), ["AAE="], "FIELD_AMBIGUOUS"),
    ({"binaries": "hex"}, "array<binary>", None, ["0001"], ["AAE="]),
    ({}, "array<string>", array_of({"name": "io.debezium.data.Json"}), ['{"a": 1}'], ['{"a": 1}']),
    ({}, "array<string>", array_of(DECIMAL), ["AwI="], "FIELD_AMBIGUOUS"),
    (
        {},
        "array<array<date>>",
        array_of(array_of({"name": "io.debezium.time.Date"})),
        [[0], None],
        [["1970-01-01"], None],
    ),
    (
        {},
        "map<string, decimal(9,2)>",
        {"type": "map", "keys": {"type": "string"}, "values": DECIMAL},
        {"a": "AwI=", "b": None},
        {"a": "7.70"},
    ),
    (
        {},
        "struct<d: decimal(9,2), days: array<date>, n: int, s: string>",
        {"type": "struct", "fields": [{"field": "days", **array_of({})}, {"field": "d", **DECIMAL}]},
        {"d": "AwI=", "n": 1, "s": "x"},
        {"d": "7.70", "n": 1, "s": "x"},
    ),
    ({}, "struct<d: decimal(9,2), n: int>", None, {"d": "1.50", "n": 1}, "FIELD_AMBIGUOUS"),
    ({}, "struct<d: date NOT NULL, n: int>", None, {"n": 1}, "FIELD_TYPE"),
    ({}, "map<string, string>", None, {"a": None}, {}),
    ({}, "array<date>", None, "2026-01-31", "FIELD_TYPE"),
    ({}, "variant", {"name": "io.debezium.data.Json"}, '{"a": [1, 1.5]}', '{"a":[1,1.5]}'),
    ({}, "variant", None, {"a": [1, "x"]}, '{"a":[1,"x"]}'),
    ({}, "variant", None, "no JSON", "FIELD_TYPE"),
]


BLOCK_OF_TEXT = {"fields": [{"field": "after", "fields": [{"field": "s", **DECIMAL}]}]}
# What Debezium's format makes of events, besides rows that fit: operation, or the reason and field.
EVENTS = [
    ({"ts_ms": 1}, "skip"),
    ({"schema": {"type": "struct"}, "payload": {"ts_ms": 1}}, "skip"),
    ({"status": "BEGIN", "id": "571:1", "ts_ms": 1, "event_count": None, "data_collections": None}, "skip"),
    ({"source": {}, "ts_ms": 1, "ddl": "ALTER TABLE t"}, "skip"),
    ({"id": 10, "s": "x", "ts_ms": 1700000000000}, ("NOT_A_CHANGE", None)),
    ({"id": 11, "s": "x", "status": "END"}, ("NOT_A_CHANGE", None)),
    ({"id": 12, "s": "x", "ddl": "y"}, ("NOT_A_CHANGE", None)),
    ({"op": "u", "after": {"ID": 17, "S": "x"}}, ("NO_DECLARED_FIELD", None)),
    ({"op": "c", "after": {}}, ("NO_DECLARED_FIELD", None)),
    ({"op": "c", "after": {"id": None, "other": 1}}, "insert"),
    ({"op": "d", "before": {"ID": 17}}, "delete"),
    ({"op": "c", "after": {"ds": ["1234"]}}, ("FIELD_AMBIGUOUS", "ds")),
    ({"schema": BLOCK_OF_TEXT, "payload": {"op": "c", "after": {"s": "AMg="}}}, ("FIELD_AMBIGUOUS", "s")),
    ({"op": "c", "after": {"d": 1e-20}}, ("FIELD_TYPE", "d")),
]


def test_what_is_no_change_of_the_declared_columns_is_told(spark):
    columns = {"id": "bigint", "s": "string", "ds": "array<decimal(9,2)>", "d": "decimal(9,2)"}
    messages = [{"key": None, "value": json.dumps(event)} for event, _ in EVENTS]
    found = told(spark, {"type": "debezium"}, columns, messages)
    got = [each[2] if each[4] is None else each[4:6] for each in found]
    assert [pair for pair in zip(EVENTS, got, strict=True) if pair[0][1] != pair[1]] == []


NESTED_ROW = {"id": 1, "buyer": {"name": "a", "phone": 1}, "items": [{"x": 1, "p": 2}, None], "tags": {"k": {"w": 1}}}
NESTED_COLUMNS = {
    "id": "bigint",
    "buyer": "struct<name string>",
    "items": "array<struct<x int>>",
    "tags": "map<string, struct<y int>>",
}
NESTED_NAMES = ["buyer.phone", "items[].p", "tags[].w", "z"]
# Of each format a change whose row has fields that are not declared, and their names.
UNDECLARED = [
    ({"type": "debezium"}, {"op": "c", "after": {**NESTED_ROW, "z": 1}}, NESTED_NAMES),
    ({"type": "debezium"}, {"schema": {}, "payload": {"op": "d", "before": {**NESTED_ROW, "z": 1}}}, NESTED_NAMES),
    ({"type": "debezium"}, {"op": "c", "after": {"id": 1, "buyer": None}, "note": 1}, []),
    ({"type": "debezium"}, {"op": "t"}, None),
    (
        {"type": "debezium", "connector": "mongodb"},
        {"op": "c", "after": json.dumps({**NESTED_ROW, "id": {"$numberLong": "1"}, "z": 1})},
        NESTED_NAMES,
    ),
    ({"type": "maxwell"}, {"type": "insert", "table": "t", "data": {**NESTED_ROW, "z": 1}}, NESTED_NAMES),
    ({"type": "ogg"}, {"op_type": "I", "after": {**NESTED_ROW, "z": 1}}, NESTED_NAMES),
    ({"type": "ogg"}, {"op_type": "D", "before": {**NESTED_ROW, "z": 1}}, NESTED_NAMES),
    ({"type": "connect_json"}, {"schema": None, "payload": {**NESTED_ROW, "z": 1}}, NESTED_NAMES),
]


SETTINGS = [dict(each) for each in dict.fromkeys(tuple(settings.items()) for settings, *_ in UNDECLARED)]


@pytest.mark.parametrize(
    "settings",
    [each if each["type"] == "debezium" else pytest.param(each, marks=pytest.mark.long) for each in SETTINGS],
)
def test_undeclared_fields_within_structs_of_the_row_are_named_by_their_paths(spark, settings):
    cases = [each[1:] for each in UNDECLARED if each[0] == settings]
    format_ = {**settings, "schema": ", ".join(f"{name} {kind}" for name, kind in NESTED_COLUMNS.items())}
    keyed = {"topics": ["t"], "table": "silver.t", "sink": {"type": "upsert", "keys": ["id"]}}
    flow = Flow.model_validate({"name": "f", "format": format_, **keyed})
    rows = [("t", 0, n, dt.datetime(2026, 1, 1), 0, b"{}", json.dumps(v).encode()) for n, (v, _) in enumerate(cases)]
    routed = transform(envelope.read(spark.createDataFrame(rows, SOURCE)), flow)
    told = routed.where(split_changes.once(flow)).selectExpr(names.OFFSET, f"{flow.format.undeclared_names()} AS told")
    assert [each.told for each in told.orderBy(names.OFFSET).collect()] == [named for _, named in cases]


# A text and its declared type; none of them fits, for the line break at its end.
BROKEN_TEXTS = [("abc\u2028", "binary"), ("1\n", "int"), ("1.5\u2028", "decimal(9,2)"), ("1e3\r\n", "double")]


def test_a_line_break_at_the_end_of_a_text_belongs_to_it(spark):
    columns = {f"c{number}": kind for number, (_, kind) in enumerate(BROKEN_TEXTS)}
    messages = [{"type": "INSERT", "data": [{f"c{number}": text}]} for number, (text, _) in enumerate(BROKEN_TEXTS)]
    found = told(spark, {"type": "canal"}, columns, [{"key": None, "value": json.dumps(each)} for each in messages])
    assert [each[4:6] for each in found] == [("FIELD_TYPE", f"c{number}") for number in range(len(BROKEN_TEXTS))]


@pytest.mark.long
def test_values_mean_what_the_schema_block_or_a_setting_says(spark):
    wrong = []
    by_settings = {}
    for settings, declared, hint, value, expected in VALUES:
        by_settings.setdefault(json.dumps(settings), []).append((declared, hint, value, expected))
    # Spark's work grows with the square of the columns that one value has.
    parts = [(text, cases[at : at + 20]) for text, cases in by_settings.items() for at in range(0, len(cases), 20)]
    for text, cases in parts:
        columns = {f"c{number}": case[0] for number, case in enumerate(cases)}
        messages = []
        for number, (_, hint, value, _) in enumerate(cases):
            body = {"op": "c", "after": {f"c{number}": value}}
            if hint is not None:
                hinted = {"field": "after", "fields": [{"field": f"c{number}", **hint}]}
                body = {"schema": {"fields": [hinted]}, "payload": body}
            messages.append({"key": None, "value": json.dumps(body)})
        found = told(spark, {"type": "debezium", **json.loads(text)}, columns, messages)
        for number, _, _, row, reason, field, _ in found:
            expected = cases[number][3]
            got = reason if row is None else plain(row.asDict(True)).get(f"c{number}")
            if got != expected or (reason and field != f"c{number}"):
                wrong.append((cases[number], got, field))
    assert wrong == []


FULL = "1.0000000000000000000000000000000000000001"
OF_DOUBLE = "0.1000000000000000055511151231257827021181583404541015625"
ENVELOPES = {
    "debezium": '{{"op": "c", "after": {}}}',
    "maxwell": '{{"type": "insert", "data": {}}}',
    "canal": '{{"type": "INSERT", "data": [{}]}}',
    "ogg": '{{"op_type": "I", "after": {}}}',
}


@pytest.mark.parametrize(
    "kind",
    [kind if kind in {"debezium", "canal"} else pytest.param(kind, marks=pytest.mark.long) for kind in ENVELOPES],
)
def test_numbers_in_text_are_kept_as_they_were_sent_and_no_decimal_is_rounded(spark, kind):
    rows = [f'{{"s": {LONG}}}', '{"s": {"x": 1.10, "y": [1e400]}}', f'{{"d": {FULL}}}', f'{{"d": {OF_DOUBLE}}}']
    rows.append('{"d": 2.5, "s": "1.5"}')
    columns = {"s": "string", "d": "decimal(9,2)"}
    messages = [{"key": None, "value": ENVELOPES[kind].format(row)} for row in rows]

    def stored():
        found = told(spark, {"type": kind}, columns, messages)
        return [each[4:6] if each[3] is None else plain(each[3].asDict()) for each in found]

    last = {"s": "1.5", "d": "2.50"}
    if kind == "canal":
        columns["d"] = "string"
        texts = [{"s": LONG}, {"s": '{"x":1.10,"y":[1e400]}'}, {"d": FULL}, {"d": OF_DOUBLE}]
        assert stored() == [*texts, {"s": "1.5", "d": "2.5"}]
        return
    refused = ("FIELD_TYPE", "d")
    assert stored() == [{"s": LONG}, {"s": '{"x":1.10,"y":[1e400]}'}, refused, refused, last]


def test_decimals_in_documents_keep_their_digits_in_text(spark):
    text = json.dumps({"_id": 1, "o": {"p": {"$numberDecimal": LONG}}, "a": [{"$numberDecimal": "1.50"}]})
    columns = {"_id": "bigint", "o": "struct<p: string>", "a": "array<string>"}
    message = {"key": None, "value": json.dumps({"op": "c", "after": text})}
    ((_, _, _, row, *_),) = told(spark, {"type": "debezium", "connector": "mongodb"}, columns, [message])
    assert row.asDict(True) == {"_id": 1, "o": {"p": LONG}, "a": ["1.50"]}


def test_a_keyed_table_keeps_what_a_change_leaves_out_but_for_a_condition(spark):
    row = {"id": 1, "s": GONE, "t": [GONE]}
    records = [(b"1", {"op": "u", "after": row}), (b"2", {"op": "u", "after": {**row, "s": "x"}})]
    form = {"type": "debezium", "schema": "id bigint, s string, t array<string>"}
    # What a key, an order, a condition or a partition is made of must be told.
    found = judged(spark, form, records, {"keys": ["id"], "apply_as_deletes": "s = 'y'"})
    assert [each[names.ROUTE] for each in found] == ["dead_letter", "table"]
    assert sorted(found[1][names.PLACES]) == ["t"]


@pytest.mark.long
def test_keyed_tables_keep_what_a_change_leaves_out_but_not_where_each_must_tell_it(spark):
    marked = base64.b64encode(GONE.encode()).decode()
    row = {"id": 1, "s": GONE, "b": marked, "t": [GONE], "h": {GONE: GONE}, "d": "2026-01-31"}
    records = [
        (b"1", {"op": "u", "after": row}),
        (b"2", {"op": "u", "after": {**row, "s": "x", "t": ["x"]}}),
        (b"3", {"op": "u", "after": {**row, "d": GONE}}),
        (b"4", {"op": "d", "before": row}),
        (b"5", {"op": "u", "after": {"id": 1, "s": None}}),
    ]
    form = {
        "type": "debezium",
        "schema": "id bigint, s string, b binary, t array<string>, h map<string, string>, d date",
    }

    def kept(sink, **fields):
        found = judged(spark, form, records, sink, **fields)
        named = lambda row: None if row.get(names.PLACES) is None else sorted(row[names.PLACES])  # noqa: E731 - short
        return [(each[names.ROUTE], named(each)) for each in found]

    table, refused = [("table", None)] * 2, ("dead_letter", None)
    assert kept({"keys": ["id"]}) == [
        ("table", ["b", "h", "s", "t"]),
        ("table", ["b", "h"]),
        ("dead_letter", ["b", "h", "s", "t"]),
        *table,
    ]
    rules = [{"name": "short", "condition": "length(S) < 5", "action": "drop"}]
    assert [each[0] for each in kept({"keys": ["id"]}, expectations=rules)] == [
        "table",
        "table",
        "dead_letter",
        "table",
        "dropped",
    ]
    # What a key, an order, a condition or a partition is made of must be told.
    for sink in (
        {"keys": ["s"]},
        {"keys": ["id"], "sequence_by": "s"},
        {"keys": ["id"], "apply_as_deletes": "s = 'x'"},
    ):
        assert [each[0] for each in kept(sink)][:2] == ["dead_letter", "table"]
    assert kept({"keys": ["id"]}, table={"name": "silver.t", "partition_by": ["s"]})[0][0] == "dead_letter"
    # Each version has a row of its own.
    assert kept({"type": "history", "keys": ["id"], "sequence_by": "kafka_timestamp"})[:2] == [refused, refused]


ITEM = [
    {"type": "int32", "field": "id"},
    {"field": "price", **DECIMAL},
    {"type": "int32", "field": "day", "name": "org.apache.kafka.connect.data.Date"},
    {"type": "int64", "field": "at", "name": "org.apache.kafka.connect.data.Timestamp"},
    {"type": "array", "field": "days", "items": {"type": "int32", "name": "org.apache.kafka.connect.data.Date"}},
]
ITEMS = "id int, price decimal(10,2), day date, at timestamp, days array<date>"


def connect(fields, payload):
    return json.dumps({"schema": {"type": "struct", "fields": fields}, "payload": payload})


def test_rows_of_kafka_connect_mean_what_their_schema_says(spark):
    sent = {"id": 1, "price": "AwI=", "day": 20454, "at": 1767225600123, "days": [20454]}
    row = {"id": 1, "price": "7.70", "day": "2026-01-01", "at": "2026-01-01T00:00:00.123000", "days": ["2026-01-01"]}
    cases = [
        (connect(ITEM, sent), row),
        (connect(ITEM, {"id": 2}), {"id": 2}),
        (json.dumps({"schema": None, "payload": {"id": 3, "price": 1.5}}), {"id": 3, "price": "1.50"}),
        (json.dumps({"schema": None, "payload": {"id": 3, "price": "1.50"}}), ("FIELD_AMBIGUOUS", "price")),
        (connect(ITEM, {"id": "4"}), ("FIELD_TYPE", "id")),
        (connect(ITEM, {"id": 4, "price": "\u00e4"}), ("FIELD_TYPE", "price")),
        (connect(ITEM, {"other": 5}), ("NO_DECLARED_FIELD", None)),
        (connect(ITEM, {"op": "c", "after": sent}), ("NO_DECLARED_FIELD", None)),
        (connect(ITEM, None), ("ROW_MISSING", None)),
        (connect(ITEM, [1]), ("FIELD_TYPE", "payload")),
        (json.dumps(sent), ("NOT_CONNECT_JSON", None)),
        (json.dumps({"schema": {}, "payload": sent, "more": 1}), ("NOT_CONNECT_JSON", None)),
        ("[]", ("NOT_AN_OBJECT", None)),
        (None, {}),
    ]
    form = find_kind("formats", "connect_json").model_validate({"type": "connect_json", "schema": ITEMS})
    values = [("t", 0, n, dt.datetime(2026, 1, 1), 0, None, v and v.encode()) for n, (v, _) in enumerate(cases)]
    explained = form.explain(form.decode(envelope.read(spark.createDataFrame(values, SOURCE)))).collect()
    got = [
        plain(each[names.DATA].asDict(True)) if each[names.DECODED] else (each[names.REASON], each[names.FIELD])
        for each in sorted(explained, key=itemgetter(names.OFFSET))
    ]
    assert got == [expected for _, expected in cases]


def test_a_tombstone_of_kafka_connect_deletes_a_key_of_one_column(spark):
    keys = [connect([{"field": "price", **DECIMAL}], {"price": "AwI="}), '{"price": 1.5}', '{"id": 3}', None]
    form = {"type": "connect_json", "schema": "price decimal(10,2)"}
    found = judged(spark, form, [(key and key.encode(), None) for key in keys], {"keys": ["price"]})
    assert [(row["price"] and str(row["price"]), row[names.DELETE], row[names.PROBLEM]) for row in found] == [
        ("7.70", True, None),
        ("1.50", True, None),
        *[(None, True, "KEY_NULL")] * 2,
    ]


@pytest.mark.long
def test_a_tombstone_of_kafka_connect_deletes_the_key_that_its_own_key_says(spark):
    keys = [
        connect([{"field": "price", **DECIMAL}, {"type": "int32", "field": "id"}], {"price": "AwI=", "id": 1}),
        json.dumps({"id": 2, "price": 1.5}),
        json.dumps({"id": 3}),
        "4",
        None,
    ]
    form = {"type": "connect_json", "schema": ITEMS}
    records = [(key and key.encode(), None) for key in keys]
    found = judged(spark, form, records, {"keys": ["id", "price"]})
    assert [(row["id"], row["price"] and str(row["price"]), row[names.PROBLEM]) for row in found] == [
        (1, "7.70", None),
        (2, "1.50", None),
        (3, None, "KEY_NULL"),
        (None, None, "KEY_NULL"),
        (None, None, "KEY_NULL"),
    ]
    keys = [
        connect([{"type": "int32", "field": "id"}], {"id": 1}),
        '{"id": 2}',
        "3",
        '{"schema": {}, "payload": 4}',
        "x",
    ]
    records = [*((key.encode(), None) for key in keys), (b"5", {"schema": {"fields": ITEM}, "payload": {"id": 6}})]
    found = judged(spark, form, records, {"keys": ["id"]})
    assert parts(found, "id", names.DELETE, names.ROUTE) == [
        *((number, True, "table") for number in (1, 2, 3, 4)),
        (None, True, "dead_letter"),
        (6, False, "table"),
    ]
