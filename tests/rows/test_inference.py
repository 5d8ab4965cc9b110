"""What is inferred: types that keep every digit, text where nothing else holds, names that a table can have."""

from __future__ import annotations

import base64
import gzip
import itertools
import json
import random
from pathlib import Path

import pytest
from pyspark.sql import types as T

from rivermouth.decoding.declared.declared import names_in_ddl
from rivermouth.domain.ledger.sampling import SAMPLE_RECORDS, WINDOWS, spread, whole
from rivermouth.rows.conform import is_taken
from rivermouth.schemas import inferred_times
from rivermouth.schemas.evolution import difference
from rivermouth.schemas.inference import Corrupt, Limits, Shape, ShapesExplode, parsed
from rivermouth.schemas.inferred import SchemaTooWide, schema_of
from rivermouth.schemas.schema_versions import KeptSchema, file_name, versions_of
from rivermouth.sinks.append import Append
from rivermouth.spec import Flow

DATA = Path(__file__).parents[1] / "data"
SHIPPED = Path(__file__).parents[2] / "src/rivermouth/project/demo_data"


def shape_of(*documents, **limits):
    shape = Shape(Limits(**limits))
    for offset, document in enumerate(documents):
        shape.add(document if isinstance(document, bytes) else document.encode(), ("t", 0, offset))
    return shape


def inferred(*values, times=False, **limits):
    """The type of a field that had these values."""
    found = schema_of(shape_of(*(f'{{"f": {value}}}' for value in values), **limits), times=times)
    return found.schema["f"].dataType.simpleString()


@pytest.mark.parametrize(
    ("values", "wanted"),
    [
        (["1", "-2"], "bigint"),
        ([str(2**63 - 1), str(-(2**63))], "bigint"),
        ([str(2**63)], "decimal(38,0)"),
        (["9" * 38, "1"], "decimal(38,0)"),
        (["9" * 39], "string"),
        (["1", "2.5"], "double"),
        (["1e5"], "double"),
        ([str(2**53 + 1), "2.5"], "decimal(38,1)"),
        (["1234567890.12345678901"], "decimal(38,11)"),
        (["9" * 30 + "." + "1" * 9], "string"),  # no number keeps it
        (["1e-400"], "string"),
        (["1e400"], "string"),
        (["1.00000000000000000001e3"], "string"),
        (["0.1234567890123456", "1e22", "100000000000000000000000"], "double"),
        (["0.12345678901234567"], "decimal(38,17)"),
        (["true", "null"], "boolean"),
        (["null"], "string"),
        (["[]", "null"], "array<string>"),
        (["{}"], "map<string,string>"),
        (['[1, 2.5, "x"]'], "array<string>"),
        (['{"a": 1}', '{"b": [{"c": true}]}'], "struct<a:bigint,b:array<struct<c:boolean>>>"),
        (['{"a": 1, "A": 2.5}'], "map<string,double>"),
        (['{"": 1}'], "map<string,bigint>"),
        (["1", '"1"'], "string"),
        (["{}", "[]"], "string"),
        (["true", "1"], "string"),
        (['"2026-01-31"'], "string"),
    ],
)
def test_types(values, wanted):
    assert inferred(*values) == wanted
    assert inferred(*reversed(values)) == wanted


@pytest.mark.parametrize(
    ("texts", "wanted"),
    [
        (["2026-01-31", "2024-02-29"], "date"),
        (["2026-01-31", "2026-02-30"], "string"),
        (["2026-01-31T12:00:00Z", "2026-01-31 12:00:00.123456+02:00"], "timestamp"),
        (["2026-01-31T12:00:00.1234567Z"], "string"),  # a table would lose the last digit
        (["2026-01-31T12:00:00+19:00"], "string"),
        (["2026-01-31T12:00:00", "2026-01-31"], "timestamp_ntz"),
        (["2026-01-31T12:00:00", "2026-01-31T12:00:00Z"], "string"),
        (["2026-01-31", ""], "string"),
    ],
)
def test_times_only_where_all_are_and_only_if_asked(texts, wanted):
    values = [json.dumps(text) for text in texts]
    assert inferred(*values, times=True) == wanted
    assert inferred(*values) == "string"
    assert inferred_times.form_of("x") == inferred_times.OTHER


def test_conflicts_are_told_with_counts_and_the_first_record_of_each_kind():
    found = schema_of(shape_of('{"v": {"w": 1}}', '{"v": {"w": "x"}}', '{"v": {"w": 2}}', '{"v": null}'))
    (conflict,) = found.conflicts
    assert (conflict.path, conflict.type) == (("v", "w"), "string")
    assert {kind: (seen.count, seen.example) for kind, seen in conflict.kinds.items()} == {
        "number": (2, ("t", 0, 0)),
        "string": (1, ("t", 0, 1)),
    }
    assert [(field.path, field.records, field.share) for field in found.fields] == [
        (("v",), 4, 1.0),
        (("v", "w"), 3, 0.75),
    ]


def test_names_that_a_table_cannot_have_are_changed_and_remembered():
    shape = shape_of('{"id": 1, "ID": 2, "": 3, "kafka_offset": 4, "a.b": 5, "c d": 6}')
    found = schema_of(shape, is_taken=lambda name: name.lower() == "kafka_offset")
    named = {field.name: field.metadata.get("json_name", field.name) for field in found.schema}
    assert named == {
        "unnamed": "",
        "ID": "ID",
        "a.b": "a.b",
        "c d": "c d",
        "id_2": "id",
        "kafka_offset_2": "kafka_offset",
    }


def test_names_of_columns_that_the_table_makes_itself_are_taken():
    body = {
        "topics": ["t"],
        "format": {"type": "json", "schema": "infer"},
        "table": {"name": "silver.t", "partition_by": ["date(kafka_timestamp)", {"Month": "month(kafka_timestamp)"}]},
        "sink": {"type": "history", "keys": [{"who": "lower(kafka_key)"}], "sequence_by": "kafka_timestamp"},
    }
    flow = Flow.model_validate({"name": "t", **body})
    taken = ("DATE_kafka_timestamp", "month", "WHO", "Kafka_Epoch", "__fact", "__start_at", "__END_AT", "kafka_offset")
    free = ("date", "kafka_timestamp_2", "id", "epoch", "fact")
    assert [name for name in (*taken, *free) if is_taken(flow, name)] == list(taken)
    plain = flow.model_copy(update={"sink": Append(), "table": flow.table.model_copy(update={"partition_by": ()})})
    assert [name for name in taken if is_taken(plain, name)] == ["Kafka_Epoch", "kafka_offset"]


def test_objects_of_very_many_fields_are_maps_and_depth_ends_in_text():
    many = [json.dumps({"f": {f"k{i}{j}": j for j in range(3)}}) for i in range(3)]
    assert schema_of(shape_of(*many, max_fields=8)).schema["f"].dataType.simpleString() == "map<string,bigint>"
    assert len(schema_of(shape_of(*many, max_fields=9)).schema["f"].dataType.fields) == 9
    assert inferred("[[[[1]]]]", max_depth=2) == "array<array<string>>"


def test_shapes_that_explode_end_at_their_bounds(monkeypatch):
    monkeypatch.setattr("rivermouth.schemas.inference.MAX_NODES", 900)
    monkeypatch.setattr("rivermouth.schemas.inferred.MAX_COLUMNS", 50)
    with pytest.raises(ShapesExplode):
        shape_of(*(json.dumps({f"a{i}": {f"b{j}": 1 for j in range(30)}}) for i in range(30)))
    with pytest.raises(SchemaTooWide):
        schema_of(shape_of(*(json.dumps({f"a{i}": 1}) for i in range(600))))
    wide = json.dumps({f"k{i}": {"x": i} for i in range(6_000)})
    assert inferred(wide, wide) == "map<string,struct<x:bigint>>"
    assert shape_of(f'{{"f": {wide}}}').nodes == 3
    bomb = b'{"f": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert shape_of(bomb).corrupt["TOO_DEEP"].count == 1


@pytest.mark.long
def test_shapes_that_explode_end():
    documents = [json.dumps({f"a{i}": {f"b{j}": 1 for j in range(400)}}) for i in range(600)]
    with pytest.raises(ShapesExplode):
        shape_of(*documents)
    with pytest.raises(SchemaTooWide):
        schema_of(shape_of(*(json.dumps({f"a{i}": 1}) for i in range(6000))))
    # 60,000 keys below a field, and a bomb of brackets, are nothing.
    wide = json.dumps({f"k{i}": {"x": i} for i in range(60_000)})
    assert inferred(wide, wide) == "map<string,struct<x:bigint>>"
    assert shape_of(f'{{"f": {wide}}}').nodes == 3
    bomb = b'{"f": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    assert shape_of(bomb).corrupt["TOO_DEEP"].count == 1


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (b"", "INVALID_JSON"),
        (b"\xff{}", "INVALID_UTF8"),
        (b"\xef\xbb\xbf{}", "INVALID_JSON"),
        (b"{} {}", "INVALID_JSON"),
        (b'{"a": NaN}', "INVALID_JSON"),
        (b'{"a": "\\ud800"}', "LONE_SURROGATE"),
        (b'{"\\udc00": 1}', "LONE_SURROGATE"),
        (b'{"a": ' + b"1" * 1001 + b"}", "TOO_LONG"),
        (b'{"' + b"a" * 50_001 + b'": 1}', "TOO_LONG"),
        (b"[1]", "NOT_AN_OBJECT"),
        (b"null", "NOT_AN_OBJECT"),
    ],
)
def test_what_is_no_document(value, reason):
    with pytest.raises(Corrupt, match=f"^{reason}$"):
        parsed(value)


def test_the_suite_is_judged_as_the_format_judges_it():
    (file,) = (DATA / "json-test-suite").glob("*.jsonl*")
    read = gzip.open if file.suffix == ".gz" else open
    with read(file, "rb") as lines:
        cases = [json.loads(line) for line in lines]
    assert len(cases) > 300
    for case in cases:
        inside = b'{"v": ' + base64.b64decode(case["b64"]) + b"}"
        if case["expect"] == "reject" and "object" not in case["name"] and "structure" not in case["name"]:
            with pytest.raises(Corrupt):
                parsed(inside)
        elif case["expect"] == "accept":
            parsed(inside)


def test_fixtures_have_the_types_that_are_known_of_them():
    zeek = Shape()
    for file in sorted((SHIPPED / "zeek-wrccdc-2018").glob("*.gz")):
        for offset, line in enumerate(gzip.decompress(file.read_bytes()).splitlines()[:2000]):
            zeek.add(line, (file.stem, 0, offset))
    found = schema_of(zeek)
    types = {field.name: field.dataType.simpleString() for field in found.schema}
    assert (types["id.orig_h"], types["id.resp_p"], types["ts"], types["AA"]) == (
        "string",
        "bigint",
        "string",
        "boolean",
    )
    assert {conflict.path for conflict in found.conflicts} == {("version",)}
    assert zeek.corrupt_records == 0

    github = Shape()
    (file,) = (SHIPPED / "github-events").glob("*.gz")
    for offset, line in enumerate(gzip.decompress(file.read_bytes()).splitlines()):
        github.add(line, ("github", 0, offset))
    found = schema_of(github, times=True)
    assert (len(found.schema), len(found.fields), found.conflicts) == (8, 896, ())
    assert found.schema["created_at"].dataType == T.TimestampType()
    broken = [json.loads(line) for line in (SHIPPED / "json-test-suite/broken.jsonl").read_text().splitlines()]
    assert shape_of(*(base64.b64decode(each["b64"]) for each in broken)).corrupt_records == len(broken)

    hooks = Shape()
    for offset, line in enumerate(
        gzip.decompress((DATA / "github-webhooks/webhooks.jsonl.gz").read_bytes()).splitlines()
    ):
        hooks.add(line, ("hooks", 0, offset))
    found = schema_of(hooks, times=True)
    assert (hooks.sound_records, hooks.corrupt_records, found.schema.names) == (255, 0, ["event", "file", "payload"])
    # Of a push GitHub says the times of the repository in seconds, of all else as text.
    assert {".".join(conflict.path): conflict.type for conflict in found.conflicts} == {
        "payload.installation.created_at": "string",
        "payload.installation.updated_at": "string",
        "payload.package.package_version.body": "string",
        "payload.repository.created_at": "string",
        "payload.repository.pushed_at": "string",
    }
    issue = found.schema["payload"].dataType["issue"].dataType
    assert (issue["created_at"].dataType, issue["number"].dataType) == (T.TimestampType(), T.LongType())

    changes = Shape()
    for file in sorted((DATA / "change-envelopes/apache__paimon").glob("debezium__table__schemaevolution__*.txt")):
        for offset, line in enumerate(file.read_bytes().splitlines()):
            changes.add(line, (file.stem, 0, offset))
    row = schema_of(changes).schema["after"].dataType.simpleString()
    assert row == "struct<address:string,age:bigint,description:string,id:bigint,name:string,weight:double>"
    # Blank lines, and those of the licence.
    assert (changes.sound_records, list(changes.corrupt)) == (8, ["INVALID_JSON"])


def test_a_sample_is_spread_over_partitions_and_time():
    ranges = {"t": {0: (0, 9_000_000), 1: (500, 1_000_500), 2: (7, 7)}}
    rounds = spread(ranges, SAMPLE_RECORDS)
    windows = [window for part in rounds for window in part]
    assert len(rounds) == WINDOWS
    assert sum(window.records for window in windows) == SAMPLE_RECORDS
    for partition, (start, end) in {0: (0, 9_000_000), 1: (500, 1_000_500)}.items():
        mine = sorted((each for each in windows if each.partition == partition), key=lambda each: each.start)
        assert (mine[0].start, mine[-1].end, mine[-1].start + mine[-1].records) == (start, end, end)
        assert all(one.start + one.records <= one.end == two.start for one, two in itertools.pairwise(mine))
    assert spread(ranges, 20_000_000) == whole(ranges)


@pytest.mark.parametrize("offsets", [50_001, 50_031, 99_999, 10_000_000])
def test_windows_have_no_record_twice(offsets):
    windows = [window for part in spread({"t": {0: (0, offsets)}}, SAMPLE_RECORDS) for window in part]
    read = [offset for each in windows for offset in range(each.start, each.start + each.records)]
    assert len(set(read)) == len(read) == SAMPLE_RECORDS


@pytest.mark.parametrize(("live", "partitions"), [(50, 1), (5_000, 1), (3, 60)])
def test_offsets_without_a_record_use_nothing_of_a_sample_up(live, partitions):
    size = 10_000_000
    there = {size * number // live + 7 for number in range(live)}
    rounds = spread({"t": dict.fromkeys(range(partitions), (0, size))}, SAMPLE_RECORDS)
    found = 0
    for window in itertools.chain(*rounds):
        # As they are read: the next ones that are there, up to the window's end.
        found += min(window.records, sum(window.start <= offset < window.end for offset in there))
    assert found == live * partitions


def test_a_small_partition_among_large_ones_is_looked_at_from_its_beginning():
    windows = [each for part in spread({"t": {0: (0, 10**9), 1: (4, 9)}}, 1000) for each in part if each.partition == 1]
    assert [(each.start, each.end, each.records) for each in windows] == [(4, 9, 1)]


PLANTED = 1000
# The field that a record has, one of a thousand: each record has its own, or ten records in a row have the same.
PLANS = {
    "by chance": lambda offset, partition: random.Random(offset * 8 + partition).randrange(PLANTED),
    "in turns": lambda offset, _partition: offset % PLANTED,
    "ten in a row": lambda offset, partition: random.Random(offset // 10 * 8 + partition).randrange(PLANTED),
}


@pytest.mark.parametrize(
    "plan",
    [
        PLANS["by chance"],
        *(pytest.param(PLANS[name], marks=pytest.mark.long) for name in ("in turns", "ten in a row")),
    ],
    ids=PLANS,
)
def test_a_sample_finds_the_fields_that_one_record_in_a_thousand_has(plan):
    rounds = spread({"t": {0: (0, 7_000_000), 1: (90, 2_500_000), 2: (0, 500_000)}}, SAMPLE_RECORDS)
    shape = Shape()
    for window in itertools.chain(*rounds):
        for offset in range(window.start, window.start + window.records):
            planted = plan(offset, window.partition)
            shape.add(b'{"id": %d, "f%d": true}' % (offset, planted), ("t", window.partition, offset))
    assert shape.sound_records == pytest.approx(SAMPLE_RECORDS, abs=3)
    found = schema_of(shape).schema.names
    assert len(set(found) - {"id"}) >= 0.99 * PLANTED


def field(name, kind):
    return T.StructField(name, T.StructType.fromDDL(f"x {kind}")[0].dataType)


@pytest.mark.parametrize(
    ("kept", "found", "changes", "refused"),
    [
        ("bigint", "bigint", (), ()),
        ("string", "struct<a:bigint>", (), ()),
        ("double", "bigint", (), ()),
        ("decimal(38,2)", "bigint", (), ()),
        ("map<string,double>", "struct<a:bigint>", (), ()),
        ("struct<a:bigint,b:string>", "struct<a:bigint>", (), ()),
        ("bigint", "void", (), ()),
        ("bigint", "decimal(38,0)", ("widens v to decimal(38,0)",), ()),
        ("bigint", "string", (), ("column v is bigint, and there are values of string",)),
        ("bigint", "double", (), ("column v is bigint, and there are values of double",)),
        (
            "struct<a:bigint>",
            "struct<a:bigint,b:string>",
            ("adds v.b string",),
            (),
        ),
        ("array<int>", "array<bigint>", ("widens v[] to bigint",), ()),
        (
            "struct<a:bigint>",
            "struct<a:string,b:string>",
            ("adds v.b string",),
            ("column v is struct<a:bigint,b:string>, and there are values of struct<a:string,b:string>",),
        ),
        ("date", "timestamp", (), ("column v is date, and there are values of timestamp",)),
    ],
)
def test_what_a_newer_inference_changes(spark, kept, found, changes, refused):
    result = difference(T.StructType([field("v", kept)]), T.StructType([field("v", found), field("w", "void")]))
    # Of a field that has no value yet nothing is added.
    assert result.changes == changes
    assert result.refused == refused
    assert result.schema.names == ["v"]


@pytest.mark.parametrize(
    ("kept", "values", "told"),
    [
        (T.DecimalType(38, 2), ["1.25"], None),
        (T.DecimalType(38, 2), ["1", "-1.5"], None),
        (T.DecimalType(38, 2), ["7"], None),
        (T.DecimalType(38, 2), ["1.255"], "column v is decimal(38,2), and there are values of double"),
        (T.DecimalType(38, 2), ["1e1"], "column v is decimal(38,2), and there are values of double"),
        (T.DoubleType(), [str(2**53), str(2**60)], None),
        (
            T.DoubleType(),
            [str(2**53 + 1)],
            "column v is double, and there are whole numbers that do not fit a double exactly",
        ),
    ],
)
@pytest.mark.parametrize("within", ["{}", "[{}]", '{{"x": {}}}', '{{"x": {}, "X": null}}'])
def test_numbers_are_judged_by_their_digits_whatever_was_inferred_of_them(kept, values, told, within):
    documents = (f'{{"v": {within.format(value)}}}' for value in values)
    inferred = schema_of(shape_of(*documents))
    nested = {
        "{}": kept,
        "[{}]": T.ArrayType(kept),
        '{{"x": {}}}': T.StructType([T.StructField("x", kept)]),
        '{{"x": {}, "X": null}}': T.MapType(T.StringType(), kept),
    }[within]
    schema = T.StructType([T.StructField("v", nested)])
    result = difference(schema, inferred.found, numbers=inferred.numbers)
    assert (len(result.refused), result.changes) == (0 if told is None else 1, ())
    if within == "{}":
        assert result.refused == (() if told is None else (told,))
    pinned = difference(schema, inferred.found, numbers=inferred.numbers, pinned={"v"})
    assert (pinned.refused, pinned.changes, pinned.schema) == ((), (), schema)


@pytest.mark.parametrize(
    ("ddl", "names"),
    [
        ("", []),
        ("a int", ["a"]),
        ("a decimal(10,2), `b, ``c` struct<x: int, y: array<int>>,d: string", ["a", "b, `c", "d"]),
        ("a int COMMENT 'x, y int' NOT NULL,\n  E map<string,int>", ["a", "E"]),
    ],
)
def test_names_of_hints_are_read_without_spark(ddl, names):
    assert names_in_ddl(ddl) == names


def test_a_kept_schema_is_a_file_of_json():
    schema = T.StructType([T.StructField("id_2", T.LongType(), True, {"json_name": "ID"})])
    kept = KeptSchema("orders", 2, "2026-01-31T12:00:00+00:00", 10, 1, False, ("adds column x string",), schema)
    assert KeptSchema.from_text(kept.to_text()) == kept
    assert versions_of(["00010.json", file_name(2), "note.txt", ".00003.json.tmp"]) == [2, 10]
    for text, told in {
        "{": "it is not JSON",
        "[]": "it holds no kept schema",
        '{"format": 2}': "a newer rivermouth wrote it",
        '{"format": 1, "schema": 5}': "it holds no schema in Spark's JSON form",
    }.items():
        with pytest.raises(ValueError, match=f"^{told}$"):
            KeptSchema.from_text(text)
