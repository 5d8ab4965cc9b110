"""Files as sources of pipelines: formats, schemas, rescued data, each file once."""

from __future__ import annotations

import functools
import gzip
import json
import os
import shutil
from pathlib import Path

import fastavro
import pytest
from pyspark.errors import StreamingQueryException
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth.decoding.json.json_spark_parser import unguessable_key
from rivermouth.decoding.json.undeclared_fields import fields_tree
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.domain.query.query_entry import fingerprint
from rivermouth.errors import (
    FileColumnsNew,
    FileSchemaInvalid,
    FileSchemaNotInferred,
    FileSourceEmpty,
    FileSourceMissing,
    FileSourceUnreadable,
)
from rivermouth.pipelines.files import failures
from rivermouth.pipelines.files.paths import resolved
from rivermouth.pipelines.files.planning import FileSite
from rivermouth.pipelines.files.sources import read_files, stream_files
from rivermouth.pipelines.spec import SourceLine
from rivermouth.ports.internals.query_plans import analysed_plan
from rivermouth.spec import Evolution

LONG = 20_200_000
"""More characters than a string has for Jackson, where it is not told so."""


class Folder:
    """A source's folder, and how it is read in this test."""

    def __init__(self, spark, root: Path):
        self.spark, self.root = spark, root
        self.path = root / "files"
        self.path.mkdir()
        self.site = FileSite(str(root / "state"), at=SourceLine("orders.py", 7))

    def put(self, name, text, *, changed_s=None):
        file = self.path / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(text if isinstance(text, bytes) else text.encode())
        if changed_s is not None:
            os.utime(file, (changed_s, changed_s))
        return file

    def batch(self, options, schema=None, *, path=None):
        return read_files(self.spark, str(path or self.path), options, schema=schema, site=self.site)

    def stream(self, options, schema=None, *, path=None):
        return stream_files(self.spark, str(path or self.path), options, schema=schema, site=self.site)

    def run(self, frame, *, checkpoint="checkpoint"):
        """The rows that one start reads, as dicts."""
        rows = []
        query = (
            frame.writeStream.foreachBatch(lambda batch, _: rows.extend(texts_of(batch)))
            .option("checkpointLocation", str(self.root / checkpoint))
            .trigger(availableNow=True)
            .start()
        )
        query.awaitTermination()
        return [json.loads(row) for row in rows]


@pytest.fixture
def folder(spark, tmp_path):
    return Folder(spark, tmp_path)


def texts_of(frame):
    return [row.row for row in frame.selectExpr("to_json(struct(*)) AS row").collect()]


def rows_of(frame):
    found = [json.loads(row) for row in texts_of(frame)]
    return sorted(found, key=lambda row: json.dumps(row, sort_keys=True))


def rescued(row):
    return json.loads(row["_rescued_data"])


# --- what is read -------------------------------------------------------------------------------------


def test_json_columns_are_strings_unless_types_are_inferred(folder):
    folder.put("a.json", '{"id": 1, "at": {"city": "Ulm", "n": [1, 2]}, "ok": true}\n\n{"id": 2.50, "ok": null}\n')
    folder.put("b.json", '[{"id": 3, "more": "x"}, {"id": 4}]\n')
    texts = folder.batch({"format": "json", "inferColumnTypes": "false"})
    assert texts.schema.simpleString() == "struct<at:string,id:string,more:string,ok:string,_rescued_data:string>"
    assert rows_of(texts) == [
        {"at": '{"city":"Ulm","n":[1,2]}', "id": "1", "ok": "true"},
        {"id": "2.50"},
        {"id": "3", "more": "x"},
        {"id": "4"},
    ]
    typed = folder.batch({"FORMAT": "JSON", "schemaHints": "at.zip int, extra date"})
    assert typed.schema.simpleString() == (
        "struct<at:struct<city:string,n:array<bigint>,zip:int>,id:double,more:string,ok:boolean,extra:date,"
        "_rescued_data:string>"
    )
    assert rows_of(typed)[0] == {"at": {"city": "Ulm", "n": [1, 2]}, "id": 1.0, "ok": True}


def test_what_does_not_fit_is_rescued_with_its_file(folder):
    """Other types, fields that are no column, text that is no JSON: nothing is lost and nothing is guessed."""
    file = folder.put(
        "a.json",
        '{"id": 1, "name": "x"}\n'
        '{"id": "one", "at": {"zip": 7, "n": "y"}, "more": [1, {"a": 2}], "a/b": 1.50}\n'
        '{"id": 2\n'
        '{"ID": 3}\n'
        '[{"id": 4}, "id": 5]\n'
        '[{"id": 6}, {"id": 7,}]\n'
        ' [{"id": 8}, 9]\n'
        "[ ]\n"
        '[{"id": 10}, {"id": [11]}]\n',
    )
    options = {"format": "json", "rescuedDataColumn": "_rescued_data", "schemaEvolutionMode": "none"}
    schema = "id int, name string, at struct<n: int>"
    found = rows_of(folder.batch(options, schema))
    told = f"file:{file}"
    lost = [rescued(row) for row in found if "_rescued_data" in row]
    assert sorted(lost, key=str) == sorted(
        [
            {"id": "one", "more": [1, {"a": 2}], "a/b": 1.5, "at": {"zip": 7, "n": "y"}, "_file_path": told},
            {"_corrupt_record": '{"id": 2', "_file_path": told},
            {"ID": 3, "_file_path": told},
            {"_corrupt_record": '[{"id": 4}, "id": 5]', "_file_path": told},
            {"_corrupt_record": '[{"id": 6}, {"id": 7,}]', "_file_path": told},
            {"_corrupt_record": ' [{"id": 8}, 9]', "_file_path": told},
            {"id": [11], "_file_path": told},
        ],
        key=str,
    )
    assert {"id": 1, "name": "x"} in found
    assert {"id": 10} in found
    assert {"at": {}} in [{name: row[name] for name in row if name != "_rescued_data"} for row in found]
    quiet = rows_of(folder.batch({"format": "json"}, f"{schema}, _corrupt_record string"))
    assert {"_corrupt_record": '{"id": 2'} in quiet
    dropped = folder.batch({**options, "mode": "DROPMALFORMED"}, schema)
    assert len(rows_of(dropped)) == 5
    with pytest.raises(Exception, match=r"rivermouth.files") as raised:
        rows_of(folder.batch({**options, "mode": "failfast"}, schema))
    assert str(failures.found(raised.value, "orders.py:7")) == (
        f"[FILE_RECORD_MALFORMED] {told} has a record that is not json, and mode is FAILFAST; its batch was not "
        "written\n  at: orders.py:7\n  hint: set the option mode to PERMISSIVE: such records are kept in the rescued "
        "data column"
    )
    folder.spark.conf.set("spark.databricks.sql.rescuedDataColumn.filePath.enabled", "false")
    try:
        assert {"_rescued_data": '{"ID":3}'} in rows_of(folder.batch(options, schema))
    finally:
        folder.spark.conf.unset("spark.databricks.sql.rescuedDataColumn.filePath.enabled")


def test_csv_fields_are_found_by_the_header_of_each_file(folder):
    folder.put("a.csv", 'id,name,day\n1,Ada,2026-01-31\n2,"Bo, B",\n')
    folder.put("b.csv", "\ufeffname;more\r\nCy;2.5\r\n".replace(";", ","))
    texts = folder.batch({"format": "csv", "inferSchema": "false"})
    assert texts.schema.simpleString() == "struct<id:string,name:string,day:string,more:string,_rescued_data:string>"
    assert rows_of(texts) == [
        {"id": "1", "name": "Ada", "day": "2026-01-31"},
        {"id": "2", "name": "Bo, B"},
        {"name": "Cy", "more": "2.5"},
    ]
    typed = folder.batch({"format": "csv"})
    assert typed.schema.simpleString() == "struct<id:int,name:string,day:date,more:double,_rescued_data:string>"
    file = folder.put("c.csv", "id,name\nx,Di,9\n3\n")
    found = rows_of(folder.batch({"format": "csv", "rescuedDataColumn": "_rescued_data", "header": "true"}, "id int"))
    told = f"file:{file}"
    mine = [rescued(row) for row in found if told in row.get("_rescued_data", "")]
    assert sorted(mine, key=str) == [{"name": "Di", "_c2": "9", "id": "x", "_file_path": told}]
    assert {"id": 3} in found
    even = {"format": "csv", "header": "true", "mode": "DROPMALFORMED", "rescuedDataColumn": "_rescued_data"}
    assert {"id": 3} not in rows_of(folder.batch(even, "id int"))
    by_position = folder.batch({"format": "csv", "header": "true", "sep": ","}, "x string, y string")
    assert {"x": "Cy", "y": "2.5"} in rows_of(by_position)


def test_csv_in_the_dialect_of_its_options(folder):
    folder.put("a.csv", "# a comment\n1|'two\nlines'|31.01.2026|NA\n2|'x'|no|1.50\n")
    options = {"format": "csv", "sep": "|", "quote": "'", "comment": "#", "MULTILINE": "true", "header": "false"}
    options |= {"dateFormat": "dd.MM.yyyy", "nullValue": "NA", "rescuedDataColumn": "other"}
    found = rows_of(folder.batch(options, "id int, text string, day date, amount decimal(10,2)"))
    assert found[1] == {"id": 1, "text": "two\nlines", "day": "2026-01-31"}
    assert found[0]["amount"] == 1.5
    assert json.loads(found[0]["other"])["day"] == "no"


def _columns(spark):
    return spark.sql("SELECT 1 AS id, 'x' AS name, named_struct('a', 2) AS at")


FORMATS = [
    ("json", {}, {"id": 1, "name": "x", "at": {"a": 2}}),
    ("parquet", {}, {"id": 1, "name": "x", "at": {"a": 2}}),
    ("orc", {}, {"id": 1, "name": "x", "at": {"a": 2}}),
    ("avro", {}, {"id": 1, "name": "x", "at": {"a": 2}}),
    ("xml", {"rowTag": "row"}, {"id": 1, "name": "x", "at": {"a": 2}}),
    ("csv", {}, {"id": 1, "name": "x"}),
    ("text", {}, {"value": "x"}),
    ("binaryFile", {"maxBytesPerTrigger": "10g"}, {"length": 1}),
]


def test_every_format_as_a_stream_that_reads_each_file_once(spark, folder):
    """One query over all formats, started twice; ``_metadata`` can be selected."""

    def put():
        for kind, _, _ in FORMATS:
            if kind in {"text", "binaryFile"}:
                folder.put(f"{kind}/part-1.txt", "x")
                continue
            frame = _columns(spark) if kind != "csv" else _columns(spark).drop("at")
            options = {"rowTag": "row"} if kind == "xml" else {"header": "true"} if kind == "csv" else {}
            frame.coalesce(1).write.format(kind).options(**options).save(str(folder.path / kind))

    def frame():
        parts = []
        for kind, options, _ in FORMATS:
            given = {"cloudFiles.format": kind, "cloudFiles.inferColumnTypes": "true", **options}
            read = stream_files(spark, str(folder.path / kind), given, schema=None, site=folder.site)
            found = read.select("*", "_metadata.file_name", "_metadata.file_size")
            parts.append(found.selectExpr(f"'{kind}' AS kind", "to_json(struct(*)) AS row"))
        whole = parts[0]
        for each in parts[1:]:
            whole = whole.union(each)
        return whole

    put()
    first = {row["kind"]: json.loads(row["row"]) for row in folder.run(frame())}
    for kind, _, expected in FORMATS:
        assert {name: first[kind].get(name) for name in expected} == expected, kind
        assert first[kind]["file_size"] > 0
        assert first[kind]["file_name"]
        assert "_rescued_data" not in first[kind], kind
    assert folder.run(frame()) == []
    for file in folder.path.glob("*/part-*"):
        shutil.copy(file, file.with_name(f"again-{file.name}"))
    again = frame()
    assert sorted(row["kind"] for row in folder.run(again)) == sorted(kind for kind, _, _ in FORMATS)
    # The next process takes it for the same query.
    known = fingerprint(analysed_plan(again))
    unguessable_key.cache_clear()
    assert fingerprint(analysed_plan(frame())) == known


def test_a_field_within_a_value_is_rescued_alone(folder):
    """As Spark's own reader, which keeps the other fields of a struct; an array of values is rescued as a whole."""
    folder.put(
        "a.json",
        '{"id": 1, "wind": {"deg": 7, "speed": "fast", "at": {"h": true, "m": 3}}}\n'
        '{"id": 2, "all": [{"n": 1}, {"n": "many", "of": [1, "x"], "new": 1}, {"n": 3, "of": [1, 2]}]}\n'
        '{"id": 3, "all": [{"n": 1}, 5], "wind": 6, "kinds": {"a": {"n": "x"}, "b": {"n": 1}}}\n'
        '{"id": 4, "wind": {"deg": 1.5, "at": {"day": "2026-02-30", "m": 1}}}\n'
        '{"id": 5, "years": {"2024": "many", "2025": 1}}\n'
        '{"id": 6, "years": {"2024": "many"}, "years": 7}\n',
    )
    schema = (
        "id int, wind struct<deg: int, speed: double, at: struct<h: int, m: int, day: date>>, "
        "all array<struct<n: int, of: array<int>>>, kinds map<string, struct<n: int>>, "
        "years struct<`2024`: int, `2025`: int>"
    )
    options = {"format": "json", "rescuedDataColumn": "_rescued_data", "schemaEvolutionMode": "none"}
    frame = folder.batch(options, schema)
    found = {row["id"]: row for row in rows_of(frame)}
    lost = {key: rescued(row) for key, row in found.items()}
    for each in lost.values():
        del each["_file_path"]
    kept = {key: {name: each for name, each in row.items() if name[0] != "_"} for key, row in found.items()}
    assert kept == {
        1: {"id": 1, "wind": {"deg": 7, "at": {"m": 3}}},
        2: {"id": 2, "all": [{"n": 1}, {}, {"n": 3, "of": [1, 2]}]},
        3: {"id": 3},
        4: {"id": 4},
        5: {"id": 5, "years": {"2025": 1}},
        6: {"id": 6},
    }
    assert lost == {
        1: {"wind": {"speed": "fast", "at": {"h": True}}},
        2: {"all": {"1": {"n": "many", "of": [1, "x"], "new": 1}}},
        3: {"all": [{"n": 1}, 5], "wind": 6, "kinds": {"a": {"n": "x"}, "b": {"n": 1}}},
        4: {"wind": {"deg": 1.5, "at": {"day": "2026-02-30", "m": 1}}},
        5: {"years": {"2024": "many"}},
        6: {"years": 7},
    }
    strict = folder.batch({**options, "schemaEvolutionMode": "failOnNewColumns"}, schema)
    with pytest.raises(Exception, match=r"a\.json\|/all/1/new\|"):
        rows_of(strict)
    folder.put("a.json", '{"id": 5, "years": {"2024": "many"}}\n')
    assert rows_of(strict)[0]["id"] == 5  # what only does not fit is not new


def of_all(frames):
    """The rows of several frames as lists of dicts, by one job."""
    parts = [frame.selectExpr(f"{place} AS place", "to_json(struct(*)) AS row") for place, frame in enumerate(frames)]
    rows = functools.reduce(lambda one, other: one.union(other), parts).collect()
    return [[json.loads(each["row"]) for each in rows if each["place"] == place] for place in range(len(parts))]


def test_the_schema_is_inferred_with_the_options_that_rows_are_read_with(spark, folder):
    """Files that Spark leaves out, recursive fields, times in a form of their own, names in two spellings."""
    for kind in ("parquet", "avro"):
        _columns(spark).select("id").coalesce(1).write.format(kind).save(str(folder.path / f"{kind}/a"))
        folder.put(f"{kind}/b.{kind}", "")
    for kind, text in (("json", '{"id": 1}\n'), ("csv", "id\n1\n")):
        folder.put(f"{kind}/a.{kind}", text)
        folder.put(f"{kind}/b.{kind}.gz", gzip.compress(text.encode())[:12])
    kinds = ("parquet", "avro", "json", "csv")
    skipping = [folder.batch({"format": kind, "ignoreCorruptFiles": "true"}, path=folder.path / kind) for kind in kinds]

    node = {"name": "node", "type": "record", "fields": [{"name": "id", "type": "int"}]}
    node["fields"].append({"name": "next", "type": ["null", "node"]})
    with folder.put("nodes/a.avro", "").open("wb") as file:
        fastavro.writer(file, node, [{"id": 1, "next": {"id": 2, "next": {"id": 3, "next": None}}}])
    nodes = folder.batch({"format": "avro", "recursiveFieldMaxDepth": "2"}, path=folder.path / "nodes")

    folder.put("times/a.csv", "at\n31.01.2026 12:00\n")
    times = folder.batch({"format": "csv", "timestampFormat": "dd.MM.yyyy HH:mm"}, path=folder.path / "times")
    assert times.schema["at"].dataType.simpleString() == "timestamp"

    folder.put("names/a.json", '{"id": 1, "at": {"Zip": 1, "zip": 2}}')
    folder.put("names/b.json", '{"ID": 2, "items": [{"n": 1, "N": 2}]}')
    spellings = folder.batch({"format": "json"}, path=folder.path / "names")
    assert spellings.schema.simpleString() == (
        "struct<ID:bigint,at:struct<Zip:bigint>,items:array<struct<N:bigint>>,_rescued_data:string>"
    )

    found = of_all([*skipping, nodes, times, spellings])
    assert found[:4] == [[{"id": 1}]] * 4
    assert found[4] == [{"id": 1, "next": {"id": 2}}]
    assert [row.keys() for row in found[5]] == [{"at"}]
    lost = {row.get("ID"): rescued(row) for row in found[6]}
    assert (lost[None]["id"], lost[None]["at"]["zip"]) == (1, 2)
    assert lost[2]["items"]


def test_fields_within_typed_columns_are_rescued_too(spark, folder):
    """Of a struct the field alone; an array or a map as a whole."""
    declared = "id int, place struct<city: string>, items array<struct<n: int>>, kinds map<string, struct<n: int>>"
    wide = spark.sql(
        "SELECT 1 AS id, named_struct('city', 'Ulm', 'zip', 7, 'geo', named_struct('lat', 1)) AS place, "
        "array(named_struct('n', 1, 'm', CAST(NULL AS INT)), named_struct('n', 2, 'm', 3)) AS items, "
        "map('a', named_struct('n', 1, 'm', 4)) AS kinds, 5 AS `a/b`"
    )
    formats = ("parquet", "orc", "avro")
    for kind in formats:
        frame = wide if kind != "avro" else wide.drop("a/b")
        frame.coalesce(1).write.format(kind).save(str(folder.path / kind))
    spark.sql("SELECT 2 AS id, named_struct('city', 'Bonn', 'zip', CAST(NULL AS INT)) AS place").coalesce(
        1
    ).write.parquet(str(folder.path / "parquet/b"))
    rescue = {"schemaEvolutionMode": "rescue"}
    frames = [folder.batch({"format": kind, **rescue}, declared, path=folder.path / kind) for kind in formats]
    hinted = {"format": "parquet", "schemaHints": "place struct<city: string>", "pathGlobFilter": "*.parquet"}
    frames.append(folder.batch(hinted, path=folder.path / "parquet"))
    *typed, by_hint = of_all(frames)
    assert (
        frames[0].schema.simpleString().startswith("struct<id:int,place:struct<city:string>,items:array<struct<n:int")
    )
    for kind, rows in zip(formats, typed, strict=True):
        (row,) = [each for each in rows if each["id"] == 1]
        lost = rescued(row)
        del row["_rescued_data"], lost["_file_path"]
        assert row == {
            "id": 1,
            "place": {"city": "Ulm"},
            "items": [{"n": 1}, {"n": 2}],
            "kinds": {"a": {"n": 1}},
        }, kind
        assert lost == {
            "place": {"zip": 7, "geo": {"lat": 1}},
            "items": [{"n": 1}, {"n": 2, "m": 3}],
            "kinds": {"a": {"n": 1, "m": 4}},
            **({"a/b": 5} if kind != "avro" else {}),
        }, kind
    assert [row for row in typed[0] if row["id"] == 2] == [{"id": 2, "place": {"city": "Bonn"}}]
    assert {row["id"]: row.get("_rescued_data", "")[:12] for row in by_hint} == {1: '{"place":{"z', 2: ""}
    # A column that is rescued is new for failOnNewColumns all the same.
    strict = {"format": "parquet", "schemaEvolutionMode": "failOnNewColumns", "rescuedDataColumn": "other"}
    with pytest.raises(Exception, match=r"rivermouth\.files") as raised:
        rows_of(folder.batch(strict, f"{declared}, `a/b` int", path=folder.path / "parquet"))
    told = failures.found(raised.value)
    assert told.columns == "place.zip, place.geo, items.m, kinds.m"
    assert told.next_step == "add them to the schema or to schemaHints, or remove the file"


def test_a_file_with_another_type_stops_no_more_than_its_query(spark, folder):
    """Numbers get the wider type; a file that cannot be read so is named when it is read."""
    formats = ("parquet", "orc", "avro")
    for place, value in enumerate(("1", "2L")):
        for kind in formats:
            frame = spark.sql(f"SELECT {value} AS id, named_struct('n', {value}) AS at, {place} AS c{place}").coalesce(
                1
            )
            frame.write.format(kind).save(str(folder.path / f"{kind}/{place}"))
    frames = [folder.batch({"format": kind}, path=folder.path / kind) for kind in formats]
    found = "struct<id:bigint,at:struct<n:bigint>,c0:int,c1:int,_rescued_data:string>"
    assert [frame.schema.simpleString() for frame in frames] == [found] * 3
    rows = [{"id": 1, "at": {"n": 1}, "c0": 0}, {"id": 2, "at": {"n": 2}, "c1": 1}]
    assert [sorted(each, key=lambda row: row["id"]) for each in of_all(frames)] == [rows] * 3
    spark.sql("SELECT 'x' AS id").coalesce(1).write.parquet(str(folder.path / "parquet/z"))
    other = folder.batch({"format": "parquet"}, path=folder.path / "parquet")
    assert other.schema.simpleString() == found
    with pytest.raises(Exception, match=r"parquet/z/part-"):
        rows_of(other)


def test_strings_that_are_longer_than_jackson_takes_are_rescued(spark):
    tree = fields_tree(
        T.StructType().add("id", T.IntegerType()), Evolution(on_new_column="rescue"), frozenset({"rescue"})
    )
    documents = spark.range(1).selectExpr(
        f"""CAST(concat('{{"id":1,"text":"', repeat('x', {LONG}), '"}}') AS BINARY) AS v"""
    )
    undeclared = jvm_classes.made(spark, "json.Undeclared", json.dumps(tree)).found("v")
    pointers = f"""concat('{{"/{"n" * 60_000}":1,"/text":"', repeat('x', {LONG}), '"}}')"""
    rescued_text = jvm_classes.made(spark, "internals.files.Rescued").of(pointers, "'a.json'")
    lengths = [F.length(ClassicColumn(each)) for each in (undeclared, rescued_text)]
    assert documents.select(*lengths).collect() == [(LONG + len('{"/text":""}'), LONG + 60_038)]


# --- schemas over several starts ------------------------------------------------------------------------


def test_a_new_column_is_in_the_schema_from_the_next_start_on(folder):
    """What comes while a query goes on is rescued; a start infers over the files that came meanwhile."""
    options = {"cloudFiles.format": "json", "cloudFiles.schemaHints": "n int"}
    folder.put("a.json", '{"id": 1, "n": 1}\n')
    goes_on = folder.stream(options)
    folder.put("b.json", '{"id": 2, "n": 2, "more": true}\n')
    found = folder.run(goes_on)
    (late,) = [row for row in found if row["id"] == "2"]
    assert rescued(late)["more"] is True
    folder.put("c.json", '{"id": 3, "n": "three", "more": {"a": 1}}\n')
    grown = folder.stream(options)
    assert grown.schema.simpleString() == "struct<id:string,n:int,more:string,_rescued_data:string>"
    (row,) = folder.run(grown)
    assert (row["id"], row["more"], rescued(row)["n"]) == ("3", '{"a":1}', "three")
    # A mode without growth keeps what is kept.
    folder.put("d.json", '{"id": 4, "most": 1}\n')
    rescue = folder.stream({**options, "cloudFiles.schemaEvolutionMode": "rescue"})
    assert rescue.schema.names == ["id", "n", "more", "_rescued_data"]
    folder.put("e.json", '{"id": 5, "most": 1}\n')
    with pytest.raises(FileColumnsNew) as raised:
        folder.stream({**options, "cloudFiles.schemaEvolutionMode": "failOnNewColumns"})
    assert str(raised.value) == (
        f"[FILE_COLUMNS_NEW] {folder.path} has columns that the schema of its source does not have: most; its batch "
        "was not written\n  at: orders.py:7\n  hint: add them to schemaHints, or remove the file"
    )


def test_new_columns_that_a_query_cannot_keep_stop_it(spark, folder):
    """Parquet's reader passes over columns silently; so does failOnNewColumns stop while a query goes on."""
    _columns(spark).coalesce(1).write.parquet(str(folder.path / "one"))
    goes_on = folder.stream({"format": "parquet"})
    frame = _columns(spark).selectExpr("*", "id AS more")
    frame.coalesce(1).write.parquet(str(folder.path / "two"))
    with pytest.raises(StreamingQueryException) as raised:
        folder.run(goes_on)
    told = failures.found(raised.value)
    assert isinstance(told, FileColumnsNew)
    assert (told.columns, told.next_step) == ("more", "start it again: the schema is inferred at each start")
    found = folder.run(folder.stream({"format": "parquet"}))
    assert sorted(row.get("more", 0) for row in found) == [0, 1]
    kept = folder.stream({"format": "parquet", "schemaEvolutionMode": "rescue"}, "id int, at struct<a int>")
    read = folder.run(kept, checkpoint="other")
    assert sorted(json.loads(row["_rescued_data"]).get("more", 0) for row in read) == [0, 1]
    assert {json.loads(row["_rescued_data"])["name"] for row in read} == {"x"}
    options = {"format": "json", "schemaEvolutionMode": "failOnNewColumns", "pathGlobFilter": "*.json"}
    folder.put("a.json", '{"id": 1}\n')
    goes_on = folder.stream(options)
    folder.put("b.json", '{"id": 2, "new": 1}\n')
    with pytest.raises(StreamingQueryException) as raised:
        folder.run(goes_on, checkpoint="third")
    told = failures.found(raised.value)
    assert (told.columns, told.next_step) == ("new", "add them to the schema or to schemaHints, or remove the file")


def test_which_files_a_batch_reads(folder):
    assert_files_of_a_batch(folder)


@pytest.mark.long
def test_which_files_are_read(folder):
    assert_files_of_a_batch(folder)
    new = {"format": "json", "includeExistingFiles": "false", "maxFilesPerTrigger": "1", "inferColumnTypes": "true"}
    assert folder.run(folder.stream(new)) == []
    folder.put("day=2026-02-01/hour=1/2026-02-01T10:00:00.json", '{"id": 4}', changed_s=1_600_000_000)
    assert ids_of(folder.run(folder.stream({**new, "maxFilesPerTrigger": "2"}))) == [4]
    # A file that has this name already was there.
    assert ids_of(folder.run(folder.stream(new), checkpoint="fresh")) == [4]


def ids_of(found):
    return sorted(row["id"] for row in found)


def assert_files_of_a_batch(folder):
    folder.put("day=2026-01-31/hour=07/a.json", '{"id": 1}', changed_s=1_700_000_000)
    folder.put("day=2026-01-31/hour=08/b 12:30.json", '{"id": 2}', changed_s=1_700_000_100)
    folder.put("day=__HIVE_DEFAULT_PARTITION__/hour=9/c.txt", '{"id": 3}', changed_s=1_700_000_200)
    folder.put("_hidden/d.json", '{"id": 9}')
    every = folder.batch({"format": "json"})
    assert every.schema.simpleString() == "struct<id:bigint,day:string,hour:string,_rescued_data:string>"
    assert rows_of(every) == [
        {"id": 1, "day": "2026-01-31", "hour": "07"},
        {"id": 2, "day": "2026-01-31", "hour": "08"},
        {"id": 3, "hour": "9"},
    ]
    assert folder.batch({"format": "json", "partitionColumns": ""}).schema.names == ["id", "_rescued_data"]
    given = folder.batch({"format": "json"}, "id int, hour int")
    assert rows_of(given)[0] == {"id": 1, "hour": 7}
    assert ids_of(rows_of(folder.batch({"format": "json", "fileNamePattern": "*.json"}))) == [1, 2]
    assert ids_of(rows_of(folder.batch({"format": "json"}, path=f"{folder.path}/day=2026*/*"))) == [1, 2]
    times = {"modifiedAfter": "20231114T221320Z", "modifiedBefore": "2023-11-14T22:16:40+00:00"}
    assert ids_of(rows_of(folder.batch({"format": "json", **times}))) == [2]


def test_xml_elements_that_are_no_column_are_rescued(folder):
    folder.put("a.xml", "<r><o><id>1</id><more>m</more></o><o><id>x</id></o></r>")
    options = {"format": "xml", "rowTag": "o", "rescuedDataColumn": "_rescued_data"}
    found = rows_of(folder.batch(options, "id int"))
    assert found[0]["id"] == 1
    assert rescued(found[0])["_unknown_elements"] == ["m"]
    assert rescued(found[1])["id"] == "x"
    folder.put("b.xml", "<r><o><id>2</id></r>")
    broken = [row for row in rows_of(folder.batch(options, "id int")) if "_corrupt_record" in row["_rescued_data"]]
    assert len(broken) == 1


def test_a_source_on_s3(spark, bucket, folder):
    place = f"s3a://{bucket()}/in"
    spark.sql("SELECT 1 AS id").coalesce(1).write.json(f"{place}/a")
    _columns(spark).coalesce(1).write.parquet(f"{place.replace('/in', '/typed')}/a")
    site = FileSite(f"{place}-state")
    path = resolved("/Volumes/main/raw/a", {"/Volumes/main/raw": place})
    frame = stream_files(spark, path, {"format": "json", "inferColumnTypes": "true"}, schema=None, site=site)
    assert folder.run(frame) == [{"id": 1}]
    again = stream_files(spark, resolved(place.replace("s3a:", "s3:"), {}), {"format": "json"}, schema=None, site=site)
    assert folder.run(again, checkpoint="two") == [{"id": "1"}]
    typed = stream_files(spark, place.replace("/in", "/typed"), {"format": "parquet"}, schema=None, site=site)
    assert folder.run(typed, checkpoint="three")[0]["name"] == "x"


# --- what is refused --------------------------------------------------------------------------------------


def test_sources_that_cannot_be_read(folder):
    state = str(folder.path)

    def told(error, options, schema=None, path=state):
        with pytest.raises(error) as raised:
            stream_files(folder.spark, path, options, schema=schema, site=folder.site)
        return str(raised.value)

    assert told(FileSourceEmpty, {"format": "json"}) == (
        f"[FILE_SOURCE_EMPTY] source {state} has no file, so its schema cannot be inferred; nothing was read\n"
        "  at: orders.py:7\n  hint: give a schema, or put a file there"
    )
    assert folder.run(folder.stream({"format": "json"}, "id int")) == []
    assert told(FileSourceMissing, {"format": "json"}, "id int", f"{state}/no") == (
        f"[FILE_SOURCE_MISSING] source {state}/no does not exist; nothing was read\n"
        "  at: orders.py:7\n  hint: make the folder, or correct the path"
    )
    assert told(FileSourceUnreadable, {"format": "json"}, "id int", "nofs://x/y") == (
        "[FILE_SOURCE_UNREADABLE] source nofs://x/y cannot be listed: "
        'org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "nofs"; nothing was read'
        "\n  at: orders.py:7\n  hint: check the address and the credentials of the source"
    )
    assert told(FileSchemaInvalid, {"format": "csv"}, "id array<int>") == (
        f"[FILE_SCHEMA_INVALID] the schema of source {state} cannot be used: column id: type array<int> is not read "
        "from text: declare string; nothing was read\n  at: orders.py:7\n"
        "  hint: write it as DDL, for example: id bigint, at timestamp"
    )
    assert "the schemaHints of source" in told(FileSchemaInvalid, {"format": "csv", "schemaHints": "id"}, "id int")
    assert "the schema of source" in told(FileSchemaInvalid, {"format": "csv"}, "id notype")
    folder.put("a.parquet", "this is none")
    text = told(FileSchemaNotInferred, {"format": "parquet"})
    assert text.startswith(f"[FILE_SCHEMA_NOT_INFERRED] no schema can be inferred from the files of source {state}: ")
    assert text.endswith("; nothing was read\n  at: orders.py:7\n  hint: give a schema")
