"""Sample records through a flow's rules: the verdicts are what a run makes of the same records."""

from __future__ import annotations

import base64
import datetime as dt
import gzip
import json
from decimal import Decimal

import pytest

import rivermouth
from rivermouth import Record
from rivermouth.cli.main import invoke
from rivermouth.errors import ArgumentInvalid, FlowUnknown, RivermouthError
from rivermouth.project.api import Project
from rivermouth.spec import ProjectSpec

AT = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC)
CANAL = {"isDdl": False, "pkNames": ["id"]}
EXPECTATIONS = [
    {"name": "positive", "condition": "amount > 0", "action": "dead_letter"},
    {"name": "small", "condition": "amount < 1000", "action": "drop"},
    {"name": "round", "condition": "amount % 1 = 0"},
]
FLOWS = {
    "orders": {
        "format": {"type": "json", "schema": "id bigint, amount decimal(10,2), at timestamp"},
        "expectations": EXPECTATIONS,
        "table": {"name": "silver.orders", "partition_by": [{"day": "date(at)"}]},
    },
    "raw": {"format": "raw", "table": "bronze.orders", "null_values": "dead_letter"},
    "inferred": {"format": {"type": "json", "schema": "infer"}, "table": "silver.inferred"},
    "grows": {
        "format": {"type": "json", "schema": "id bigint"},
        "evolution": {"on_new_column": "evolve"},
        "table": "silver.grows",
    },
    "keyed": {
        "format": {"type": "json", "schema": "id bigint, amount int"},
        "sink": {"type": "upsert", "keys": ["id"]},
        "table": "silver.keyed",
    },
    "exploded": {
        "format": {"type": "json", "schema": "id bigint, parts array<struct<a: int>>"},
        "explode": "parts AS part",
        "expectations": [{"name": "a", "condition": "part.a > 1", "action": "dead_letter"}],
        "table": "silver.exploded",
    },
    "canal": {
        "format": {"type": "canal", "schema": "id bigint, name string"},
        "sink": {"type": "upsert", "keys": ["id"]},
        "expectations": [{"name": "known", "condition": "name <> 'x'", "action": "dead_letter"}],
        "table": "silver.canal",
    },
    "family": {"format": "text", "table": "bronze.{topic}", "topics": ["one", "two"]},
    "stops": {
        "format": {"type": "json", "schema": "id bigint"},
        "expectations": [
            {"name": "known", "condition": "id < 9", "action": "fail"},
            {"name": "odd", "condition": "id % 2 = 1", "action": "drop"},
        ],
        "table": "silver.stops",
    },
    "snapshots": {
        "source": {"versions_of": "bronze.orders"},
        "format": {"type": "json", "schema": "id bigint"},
        "sink": {"type": "upsert", "keys": ["id"], "from": "snapshot"},
        "topics": [],
        "table": "silver.snapshots",
    },
}
# Of each flow records, and what is said of them: verdict, and reason, change or position.
CASES = {
    "orders": (
        [
            {"id": 1, "amount": 12.5, "at": "2026-01-31T09:15:00Z"},
            {"id": 2, "amount": 3, "at": "2026-01-31T09:15:00+02:00"},
            {"id": 3, "amount": -1},
            {"id": 4, "amount": 5000},
            {"id": "five", "amount": 1},
            "{bad",
            None,
        ],
        [
            ("table", None),
            ("table", None),
            ("dead_letter", "EXPECTATION"),
            ("dropped", "EXPECTATION"),
            ("dead_letter", "FIELD_TYPE"),
            ("dead_letter", "INVALID_JSON"),
            ("dropped", "NULL_VALUE"),
        ],
    ),
    "raw": ([b"\xff\x00", "text", None], [("table", None), ("table", None), ("dead_letter", "NULL_VALUE")]),
    "inferred": ([{"a": 1}, {"b": "x"}, "[]"], [("table", None), ("table", None), ("dead_letter", "NOT_AN_OBJECT")]),
    "keyed": (
        [Record({"id": 1, "amount": 2}, key="k"), Record(None, key="1"), {"amount": 2}],
        [("table", None), ("table", None), ("dead_letter", "KEY_NULL")],
    ),
    "exploded": (
        [{"id": 1, "parts": [{"a": 1}, {"a": 2}, {"a": 3}]}, {"id": 2, "parts": []}, "{bad"],
        [
            ("dead_letter", "EXPECTATION"),
            ("table", None),
            ("table", None),
            ("dropped", None),
            ("dead_letter", "INVALID_JSON"),
        ],
    ),
    "canal": (
        [
            {**CANAL, "type": "INSERT", "data": [{"id": "1", "name": "a"}, {"id": "2", "name": "b"}]},
            {**CANAL, "type": "INSERT", "data": [{"id": "3", "name": "a"}, {"id": "4", "name": "x"}]},
            {**CANAL, "type": "DELETE", "data": [{"id": "1", "name": "a"}]},
            {"isDdl": True},
        ],
        [("table", None), ("table", None), ("dead_letter", "EXPECTATION"), ("table", None), ("dropped", None)],
    ),
}


def project_of(folder, servers="localhost:1", topics=None):
    """A project with all flows, or with those that have topics of their own."""
    topics = topics or {name: name for name in FLOWS}
    flows = {name: {"topics": [topic], **FLOWS[name]} for name, topic in topics.items()}
    spec = ProjectSpec(lake="./lake", kafka={"bootstrap_servers": servers}, flows=flows)
    return Project.from_spec(spec, base=folder)


@pytest.fixture
def project(tmp_path, spark):
    """A project whose broker nobody can reach."""
    return project_of(tmp_path)


def told(verdicts):
    return [(each.verdict, each.reason) for each in verdicts]


@pytest.mark.long
def test_the_verdicts_of_each_kind_of_flow(project, tmp_path):
    found = {name: project.check_records(name, records) for name, (records, _) in CASES.items()}
    assert {name: told(each) for name, each in found.items()} == {name: wanted for name, (_, wanted) in CASES.items()}
    assert not (tmp_path / "lake").exists()


def test_a_verdict_has_the_row_in_pythons_types(project):
    first, second, refused, *_ = project.check_records("orders", CASES["orders"][0])
    assert first.failed_expectations == ("round",)
    assert (second.verdict, second.failed_expectations) == ("table", ())
    assert (first.row["id"], first.row["amount"]) == (1, Decimal("12.50"))
    assert second.row["at"] == dt.datetime(2026, 1, 31, 7, 15, tzinfo=dt.UTC)
    assert second.row["day"] == dt.date(2026, 1, 31)
    assert (second.row["kafka_topic"], second.row["kafka_partition"], second.row["kafka_offset"]) == ("orders", 0, 1)
    assert list(json.loads(second.row_json)) == list(second.row)
    assert (refused.field, refused.message, refused.row) == (None, "failed: positive", None)
    (whole,) = project.check_records(
        "raw", [Record(b"\xff", key=b"k", timestamp=AT, topic="other", partition=3, offset=7)]
    )
    assert {name: whole.row[name] for name in ("value", "kafka_key", "kafka_timestamp", "kafka_offset")} == {
        "value": b"\xff",
        "kafka_key": b"k",
        "kafka_timestamp": AT,
        "kafka_offset": 7,
    }


def test_a_record_that_would_stop_the_flow_is_told_and_nothing_of_no_record(project):
    stops = project.check_records("stops", [{"id": 1}, {"id": 2}, {"id": 10}])
    assert [(each.verdict, each.message) for each in stops] == [
        ("table", None),
        ("dropped", "failed: odd"),
        ("fail", "failed: known, odd"),
    ]
    assert project.check_records("orders", []) == []


def test_a_record_that_would_change_the_schema_is_told(project):
    grows = project.check_records("grows", [{"id": 1}, {"id": 1, "new": 2}])
    assert [each.changes_schema for each in grows] == [False, True]


@pytest.mark.long
def test_what_else_a_run_would_do(project):
    stops = project.check_records("stops", [{"id": 1}, {"id": 2}, {"id": 10}])
    assert [(each.verdict, each.message) for each in stops] == [
        ("table", None),
        ("dropped", "failed: odd"),
        ("fail", "failed: known, odd"),
    ]
    grows = project.check_records("grows", [{"id": 1}, {"id": 1, "new": 2}])
    assert [each.changes_schema for each in grows] == [False, True]
    (keyed, delete) = project.check_records(
        "canal", [CASES["canal"][0][2], {**CANAL, "type": "TRUNCATE", "data": None}]
    )
    assert (keyed.change, delete.change) == ("delete", "truncate")
    (child,) = project.check_records("family.two", ["line"])
    assert (child.row["value"], child.row["kafka_topic"]) == ("line", "two")
    assert project.check_records("orders", []) == []


@pytest.mark.parametrize(
    ("flow", "records", "error", "text"),
    [
        ("order", [], FlowUnknown, "did you mean 'orders'?"),
        ("family", [], ArgumentInvalid, "FLOW: family is a flow for each of its topics, and one is meant"),
        ("snapshots", [], ArgumentInvalid, "flow snapshots reads versions of a table or files, which are no records"),
        ("raw", [object()], ArgumentInvalid, "record 0: its value is no bytes, no text and no JSON document"),
        ("raw", [Record(b"", key=1)], ArgumentInvalid, "record 0: its key is neither bytes nor text"),
        (
            "raw",
            [b"", Record(b"", offset=0)],
            ArgumentInvalid,
            "record 1: another one is raw partition 0 offset 0, too",
        ),
        ("raw", [Record(b"", offset=-1)], ArgumentInvalid, "record 0: its offset is no whole number from 0"),
        ("raw", [Record(b"", timestamp=AT.replace(tzinfo=None))], ArgumentInvalid, "no datetime with a time zone"),
        ("raw", [Record(b"", headers=["x"])], ArgumentInvalid, "its headers are no pairs of a name and a value"),
        ("raw", [Record(b"", headers=[(1, b"")])], ArgumentInvalid, "the name of a header is no text"),
        ("raw", [b""] * 10_001, ArgumentInvalid, "there are more than 10,000, and all of them are kept in memory"),
    ],
)
def test_what_cannot_be_judged_is_refused_by_name(project, flow, records, error, text):
    with pytest.raises(error) as raised:
        project.check_records(flow, records)
    assert text in str(raised.value)
    assert isinstance(raised.value, RivermouthError)


YAML = """\
lake: ./lake
kafka: {bootstrap_servers: "${NOT_SET}"}
flows:
  orders:
    topics: [orders]
    format: {type: json, schema: "id bigint, amount int", headers: true}
    expectations: [{name: positive, condition: amount > 0, action: dead_letter}]
    metadata_columns: [kafka_topic, kafka_partition, kafka_offset, kafka_timestamp, kafka_key, kafka_headers]
    table: silver.orders
"""


@pytest.fixture
def say(tmp_path, monkeypatch, capsys, spark):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rivermouth.yml").write_text(YAML.replace(", headers: true", ""))

    def say(*arguments):
        code = invoke(["check-records", *arguments])
        out, err = capsys.readouterr()
        return code, out, err

    return say


def test_the_command_says_of_each_line_what_becomes_of_it(say, tmp_path):
    sample = tmp_path / "sample.jsonl"
    sample.write_text('{"id": 1, "amount": 2}\n\n{"id": 2, "amount": 0}\n{"id": "x"}\n')
    code, out, err = say("orders", "sample.jsonl")
    assert code == 1
    assert out == (
        "line  verdict      reason       field  message\n"
        "1     table        -            -      -\n"
        "3     dead_letter  EXPECTATION  -      failed: positive\n"
        "4     dead_letter  FIELD_TYPE   id     field id is declared bigint and holds a string\n"
        "3 records: 1 in the table, 2 dead letters\n"
    )
    assert err == (
        "[RECORDS_REFUSED] flow orders: 2 of 3 records would not reach the table; nothing was written\n"
        "  hint: correct the rules of flow orders, or what sends such records; then check again\n"
    )
    sample.write_text('{"id": 1, "amount": 2}\n')
    with gzip.open(tmp_path / "sample.gz", "wb") as packed:
        packed.write(sample.read_bytes())
    assert say("orders", "sample.gz")[0] == 0
    code, out, _ = say("orders", "sample.jsonl", "--output", "json")
    (line,) = out.splitlines()
    body = json.loads(line)
    row = body.pop("row")
    assert (code, row["id"], row["amount"], row["kafka_offset"]) == (0, 1, 2, 0)
    assert body == {
        "line": 1,
        "record": 0,
        "position": None,
        "verdict": "table",
        "reason": None,
        "field": None,
        "message": None,
        "failed_expectations": [],
        "change": None,
        "changes_schema": False,
    }
    assert not (tmp_path / "lake").exists()


def test_lines_may_describe_whole_records(say, tmp_path):
    sample = tmp_path / "sample.jsonl"
    encoded = base64.b64encode(b'{"id": 2, "amount": 2}').decode()
    lines = [
        {
            "value": {"id": 1, "amount": 2},
            "key": "k",
            "headers": [{"key": "h", "value_base64": "AAE="}, {"key": "i", "value": "j"}],
            "timestamp": "2026-01-31T12:00:00Z",
        },
        {"value_base64": encoded, "value": None, "key_base64": "a2V5", "partition": 1, "reason": "OF_A_LETTER"},
        {"value": None, "key": "k", "offset": 9},
    ]
    sample.write_text("\n".join(map(json.dumps, lines)))
    code, out, _ = say("orders", "sample.jsonl", "--lines", "records", "--output", "json")
    first, second, third = (json.loads(line) for line in out.splitlines())
    assert code == 0
    assert (first["row"]["kafka_key"], first["row"]["kafka_timestamp"]) == ("k", "2026-01-31T12:00:00.000000Z")
    assert first["row"]["kafka_headers"] == [{"key": "h", "value": "AAE="}, {"key": "i", "value": "ag=="}]
    assert (second["row"]["id"], second["row"]["kafka_key"], second["row"]["kafka_partition"]) == (2, "key", 1)
    assert (third["verdict"], third["reason"]) == ("dropped", "NULL_VALUE")


@pytest.mark.parametrize(
    ("line", "detail"),
    [
        ("[]", "line 1: it is no JSON object"),
        ("{", "line 1: it is no JSON object"),
        ('{"key": "k"}', "line 1: it has no value; a tombstone has the value null"),
        ('{"value": 1, "valeu": 2}', "line 1: it has a member 'valeu', which no record has"),
        ('{"value_base64": "%"}', "line 1: its value_base64 is no base64"),
        ('{"value": 1, "headers": [1]}', "line 1: its headers are no list of objects with key and value"),
        ('{"value": 1, "timestamp": "now"}', "line 1: its timestamp is no time, for example 2026-01-31T12:00:00Z"),
    ],
)
def test_a_line_that_describes_no_record_is_named(say, tmp_path, line, detail):
    (tmp_path / "sample.jsonl").write_text(line)
    code, out, err = say("orders", "sample.jsonl", "--lines", "records")
    assert (code, out) == (1, "")
    assert err == (
        f"[ARGUMENT_INVALID] FILE: {detail}; nothing was run\n"
        '  hint: a line such as {"key": "k1", "value": {"id": 1}}\n'
    )


def test_a_file_without_records_is_no_success(say, tmp_path):
    (tmp_path / "empty").write_text("\n\n")
    (tmp_path / "broken.gz").write_text("no gzip")
    (tmp_path / "long").write_text("1\n" * 10_001)
    for name, detail in {
        "empty": "empty holds no record",
        "broken.gz": "broken.gz cannot be read: Not a gzipped file (b'no')",
        "long": "it holds more than 10,000 records, and all of them are kept in memory",
    }.items():
        code, _, err = say("orders", name)
        assert (code, err.splitlines()[0]) == (1, f"[ARGUMENT_INVALID] FILE: {detail}; nothing was run")


def test_what_spark_cannot_judge_is_one_error_of_ours(project, monkeypatch, spark):
    # Of what Spark makes a map by chance, no second one is made in the place of one that failed.
    broken = "size(map_from_arrays(array(1, 1 + CAST(rand() AS int)), array(1, 2))) = 2"
    flow = {**FLOWS["stops"], "expectations": [{"name": "e", "condition": broken, "action": "drop"}]}
    spec = ProjectSpec(
        lake="./lake", kafka={"bootstrap_servers": "localhost:1"}, flows={"f": {"topics": ["t"], **flow}}
    )
    with pytest.raises(RivermouthError) as raised:
        rivermouth.Project.from_spec(spec, base=project.base).check_records("f", [{"id": 1}])
    assert str(raised.value).startswith("[RECORDS_NOT_CHECKED] flow f: the records could not be checked: ")
    assert raised.value.next_step == "rivermouth validate f"
