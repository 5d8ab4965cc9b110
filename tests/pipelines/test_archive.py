"""Sinks of files in pipelines: each row is in the archive once, wherever an update ends and whatever is lost."""

import json
import shutil
from collections import Counter

import pyarrow.dataset as ds
import pytest

from rivermouth.cli.audit import pipeline_audit_text
from rivermouth.domain.query.query_entry import QueryEntry
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.audit import DatasetAudit, audited

FILES = """
from pyspark import pipelines as dp
from pyspark.sql.functions import *

dp.create_sink("archive", "parquet", {"path": "archive", "partitionBy": "day", "compression": "zstd"})
dp.create_sink("lines", "json", {"path": "lines"})

@dp.append_flow(target="archive")
def archived():
    rows = spark.readStream.format("json").schema("id bigint, at timestamp").load("in")
    return rows.withColumn("day", to_date("at"))

@dp.append_flow(target="lines")
def by_hour():
    rows = spark.readStream.format("json").schema("id bigint, at timestamp").load("in")
    return rows.withWatermark("at", "1 hour").groupBy(window("at", "1 hour")).count().select("window.start", "count")
"""
STEPS = ("sink", "sink_sent", "sink_written")


class Ended(Exception):
    """In the place of a process that is killed."""


def archived(folder, name="archive", kind="parquet"):
    found = ds.dataset(folder.folder / name, format=kind, partitioning="hive").to_table()
    return found.to_pylist()


def ids(folder):
    return Counter(row["id"] for row in archived(folder))


@pytest.mark.long
def test_each_row_is_there_once(folder):
    folder.write("src/a.py", FILES)
    folder.feed("in/0.json")
    assert folder.plan()["archive"].flows[0].reason == (
        "what is new since its last batch, exactly once: each batch has a manifest"
    )
    number, checkpoints = 0, folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints"
    for lost in (False, True):
        for step in STEPS:

            def end(reached, step=step):
                if reached == step:
                    raise Ended

            number += 1
            folder.feed(f"in/{number}.json", {"id": number, "at": f"2026-01-01T{number:02}:30:00Z"})
            assert folder.run(step=end)["archive"].error is not None
            if lost:
                shutil.rmtree(next(checkpoints.glob("*archive*")))
            outcome = folder.run()["archive"]
            assert outcome.error is None
            assert ids(folder) == Counter(range(1, number + 1)), (lost, step)
    assert sorted(each.name for each in (folder.folder / "archive").iterdir()) == ["_manifests", "day=2026-01-01"]
    # A window is written once, after the watermark has passed its end: that of the newest rows never.
    hours = sorted((str(row["start"]), row["count"]) for row in archived(folder, "lines", "json"))
    assert hours == [(f"2026-01-01T{hour:02}:00:00.000Z", 1) for hour in range(1, len(hours) + 1)]
    assert 3 <= len(hours) < number - 1
    audits_of_archives(folder, rows=number)


def audits_of_archives(folder, rows):
    """An audit finds the archives as their ledgers say, and what is gone or made up."""
    archive, lines = audited(folder.pipeline())
    place = str(folder.folder / "archive")
    assert (archive.location, archive.rows, archive.counts.written, archive.problems) == (place, rows, rows, ())
    assert (lines.rows, lines.problems) == (None, ())
    assert lines.not_compared == ("rows of files that are no Parquet are not counted, as that needs Spark",)
    files = sorted((folder.folder / "archive").glob("day=*/*.parquet"))
    shutil.copy(files[0], files[0].with_name("shop.archived-0000009999-00000.parquet"))
    shutil.copy(files[0], files[0].with_name("of-somebody-else.parquet"))
    files[-1].unlink()
    unlisted = "day=2026-01-01/shop.archived-0000009999-00000.parquet"
    manifests = [json.loads(each.read_text()) for each in (folder.folder / "archive/_manifests").iterdir()]
    (text,) = (each["entry"] for each in manifests if any(files[-1].name in path for path in each["files"]))
    entry = QueryEntry.from_json(text, table="archive", version=0).number
    assert audited(folder.pipeline())[0].problems == (
        f"archive: files missing: 1, such as day=2026-01-01/{files[-1].name}",
        f"archive: files in no manifest: 1, such as {unlisted}",
        f"archive: the files of entry {entry} of archived have 0 rows, and it says 1",
    )
    text = pipeline_audit_text("shop", [archive, lines, DatasetAudit("out", "sink", "", not_compared=("why",))])
    assert text == (
        "pipeline shop: its tables and archives have what their ledgers say\n\n"
        "archive: as the ledger says\n"
        f"  sink: {place}\n"
        f"  {archive.entries} ledger entries: {rows} read, {rows} written, 0 dropped, 0 dead-lettered\n"
        f"  the archive has {rows} rows\n\n"
        "lines: the files of its manifests are there\n"
        f"  sink: {lines.location}\n"
        f"  {lines.entries} ledger entries: {lines.counts.read} read, {lines.counts.written} written, 0 dropped, "
        "0 dead-lettered\n"
        "  the archive's rows are not counted\n"
        "  not compared: rows of files that are no Parquet are not counted, as that needs Spark\n\n"
        "out: not audited, because why"
    )


def test_what_spark_began_goes_on_with_sparks_log(folder):
    text = FILES.replace(', "partitionBy": "day", "compression": "zstd"', "").partition(
        '@dp.append_flow(target="lines")'
    )
    folder.write("src/a.py", text[0].replace('dp.create_sink("lines", "json", {"path": "lines"})', ""))
    folder.write("archive/_spark_metadata/0", "v1\n")
    folder.feed("in/1.json", {"id": 1, "at": "2026-01-01T01:30:00Z"})
    assert folder.run()["archive"].error is None
    assert (folder.folder / "archive/_spark_metadata").is_dir()
    assert not (folder.folder / "archive/_manifests").exists()
    found = audited(folder.pipeline())[0]
    assert (found.location, found.not_compared) == (
        "",
        ("Spark's own log says which files are committed, and it has no counts",),
    )


def refused(folder, options, query, kind="csv", decorator="append_flow"):
    folder.write(
        "src/a.py",
        f"from pyspark import pipelines as dp\nfrom pyspark.sql.functions import *\n\n"
        f'dp.create_sink("files", "{kind}", {options!r})\n\n@dp.{decorator}(target="files")\ndef rows():\n'
        f'    rows = spark.readStream.format("json").schema("id bigint, at timestamp, name string").load("in")\n'
        f"    return {query}\n",
    )
    with pytest.raises(RivermouthError) as error:
        folder.plan()
    return str(error.value)


def test_what_files_cannot_have_is_refused_by_plan(folder):
    folder.feed("in/1.json", {"id": 1})
    numbered = 'format="json" at the sink'
    text = "cannot be written: column 'name' is text, and no folder can have each text as its name"
    other = "remove it from partitionBy, or use a date or a number"
    whole = "gives its whole result with each batch, and files only take new rows"
    marked = 'withWatermark("at", "1 hour") in the query of an append flow: each window is written once'
    for options, query, kind, detail, hint in (
        ({}, "rows", "csv", "has rows for files, and the sink names no path", 'options={"path": "archive"}'),
        (
            {"path": "x"},
            "rows.select(array('id').alias('a'))",
            "csv",
            "cannot be written: column 'a' has type array, and files of csv cannot have it",
            numbered,
        ),
        (
            {"path": "x"},
            "rows.select(parse_json('name').alias('v'))",
            "orc",
            "cannot be written: column 'v' has type variant, and files of orc cannot have it",
            numbered,
        ),
        (
            {"path": "x"},
            "rows.withColumnRenamed('id', 'a b')",
            "avro",
            "cannot be written: column 'a b' has a name that files of avro cannot have",
            numbered,
        ),
        (
            {"path": "x", "partitionBy": "name"},
            "rows",
            "csv",
            text,
            other,
        ),
        (
            {"path": "x", "partitionBy": "at"},
            "rows",
            "csv",
            "cannot be written: column 'at' is timestamp; folders are by text, whole numbers, dates or booleans",
            other,
        ),
        (
            {"path": "x", "partitionBy": "id, nothing"},
            "rows",
            "csv",
            "cannot be written: there is no column 'nothing' for folders",
            other,
        ),
        ({"path": "x"}, "rows.groupBy('id').count()", "csv", whole, marked),
    ):
        assert refused(folder, options, query, kind) == (
            f"[SINK_COLUMNS_INVALID] flow rows into sink files: its query {detail}; the pipeline was not run\n"
            f"  at: src/a.py:6\n  hint: {hint}"
        )
