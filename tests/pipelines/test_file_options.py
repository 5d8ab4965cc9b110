"""Options and paths of files as sources of pipelines: what is taken, what is refused, each text."""

from __future__ import annotations

from pathlib import Path

import pytest

from rivermouth.errors import (
    FileOptionInvalid,
    FileOptionRefused,
    FileOptionUnknown,
    FilePathUnmapped,
    FileSourceMissing,
    RivermouthError,
)
from rivermouth.pipelines.files import listing, schemas
from rivermouth.pipelines.files.cloud_files_call import path_and_options
from rivermouth.pipelines.files.detection import format_of
from rivermouth.pipelines.files.inference import sampled
from rivermouth.pipelines.files.listing import File
from rivermouth.pipelines.files.options import notes_of, parse
from rivermouth.pipelines.files.paths import missing, resolved, visible, written


def options(given, *, has_schema=False, infers_types=False):
    return parse(given, has_schema=has_schema, infers_types=infers_types, at="a.py:3")


def refusal(given, **more):
    with pytest.raises(RivermouthError) as raised:
        options(given, **more)
    return str(raised.value)


def test_the_settings_say_how_many_of_the_newest_files_are_looked_at(spark):
    files, session = [File(f"file:/{number}", number, 600) for number in range(4)], spark.newSession()
    start = "spark.databricks.cloudFiles.schemaInference.sampleSize"
    assert sampled(session, files) == files
    for name, value, count in (
        ("numBytes", "1kb", 1),
        ("numBytes", "2k", 3),
        ("numFiles", "2", 2),
        ("numBytes", "1", 1),
    ):
        session.conf.set(f"{start}.{name}", value)
        assert sampled(session, files) == files[-count:]
    for name, value in (("numBytes", "much"), ("numFiles", "0")):
        session.conf.set(f"{start}.{name}", value)
        with pytest.raises(ValueError, match=f"{name} {value} of {start} is no number of that kind"):
            sampled(session, files)
        session.conf.unset(f"{start}.{name}")


def test_defaults_are_those_of_auto_loader():
    found = options({"cloudFiles.format": "JSON"})
    assert (found.format, found.infer_types, found.evolution, found.rescued) == (
        "json",
        False,
        "addNewColumns",
        "_rescued_data",
    )
    assert (found.max_files, found.max_bytes, found.existing, found.mode) == (1000, None, True, "PERMISSIVE")
    given = options({"format": "csv"}, has_schema=True)
    assert (given.evolution, given.rescued, dict(given.reader)) == ("none", None, {})
    assert options({"format": "csv"}).reader["header"] == "true"
    assert options({"format": "json", "schemaEvolutionMode": "RESCUE"}, has_schema=True).rescued == "_rescued_data"
    assert options({"format": "json", "schemaEvolutionMode": "none"}).rescued is None
    assert options({"format": "parquet"}).infer_types
    assert options({"format": "text"}).rescued is None


def test_names_in_any_case_with_and_without_prefix():
    found = options(
        {
            "CLOUDFILES.FORMAT": "csv",
            "inferschema": "true",
            "cloudFiles.maxBytesPerTrigger": "10g",
            "MULTILINE": "true",
            "cloudFiles.rescuedDataColumn": "other",
            "fileNamePattern": "*.csv",
            "cloudFiles.partitionColumns": "year, month",
            "ignoreMissingFiles": "true",
            "schemaHints": "a int",
            "cloudFiles.cleanSource": "move",
            "cloudFiles.cleanSource.retentionDuration": "0 seconds",
            "cloudFiles.cleanSource.moveDestination": "/done",
            "encoding": "utf-8",
        }
    )
    assert found.infer_types
    assert found.multi_line
    assert (found.max_files, found.max_bytes, found.rescued, found.glob) == (None, 10 << 30, "other", "*.csv")
    assert found.partitions == ("year", "month")
    assert found.skips == {"ignoreMissingFiles": "true"}
    assert found.clean == {"cleanSource": "archive", "sourceArchiveDir": "/done"}
    more = {"cloudFiles.useNotifications": "true", "skipChangeCommits": "true"}
    assert notes_of({"format": "json", **more}) == (
        "option useNotifications has no effect here: the source's folders are listed",
        "option skipChangeCommits has no effect here: it is for Delta tables",
    )


@pytest.mark.parametrize(
    ("names", "kind"),
    [
        (["file:/in/a.json", "file:/in/b.JSONL.gz"], "json"),
        (["a.csv"], "csv"),
        (["part-0.snappy.parquet", "part-1.parquet"], "parquet"),
        (["a.txt.gz"], "text"),
        (["a.json", "b.csv"], None),
        (["a.json", "b"], None),
        (["in.json/b"], None),
        (["a.gz"], None),
        ([], None),
    ],
)
def test_the_format_of_files_by_their_names(names, kind):
    assert format_of(names) == kind


def test_options_that_change_nothing_are_taken():
    """Those about notifications, with a note, and those that are not honoured with the value that is done anyway."""
    of_notifications = ("resourceTag.team", "awsAccessKey", "awsSecretKey", "client")
    told = dict.fromkeys((f"cloudFiles.{name}" for name in of_notifications), "x")
    told["cloudFiles.restrictNotificationSetupToSameAWSAccountId"] = "true"
    given = {"format": "json", **told, "recursiveFileLookup": "false"}
    options(given)
    notes = sorted(note.lower() for note in notes_of(given))
    assert notes == sorted(
        [
            *(f"option {name[11:].lower()} has no effect here: the source's folders are listed" for name in told),
            "option recursivefilelookup has no effect here: all folders below the path are read",
        ]
    )
    assert notes_of({"format": "json", "recursiveFileLookup": "true"}) == ()
    for more in (
        {"format": "json", "allowUnquotedFieldNames": "false", "allowComments": "False", "inferTimestamp": "false"},
        {"format": "csv", "skipRows": "0", "preferDate": "true", "locale": "en-US", "nanValue": "NaN"},
        {"format": "avro", "positionalFieldMatching": "false", "avroSchemaEvolutionMode": "none"},
    ):
        assert options(more).reader.keys() <= {"header"}
    parser = options({"format": "csv", "parserCaseSensitive": "false"})
    assert (parser.exact_case, dict(parser.reader)) == (False, {"header": "true"})
    assert options({"format": "csv", "parserCaseSensitive": "false", "readerCaseSensitive": "true"}).exact_case


def test_the_texts_of_refused_options():
    assert refusal({"format": "json", "cloudFiles.inferColumnType": "true"}) == (
        "[FILE_OPTION_UNKNOWN] json files have no option cloudFiles.inferColumnType; nothing was read\n"
        "  at: a.py:3\n  hint: did you mean 'inferColumnTypes'?"
    )
    assert refusal({}) == (
        "[FILE_OPTION_INVALID] option format: the format of the files is not given, and their names do not say "
        "one; nothing was read\n"
        "  at: a.py:3\n  hint: set it to one of avro, binaryFile, csv, json, orc, parquet, text, xml"
    )
    assert refusal({"format": "json", "allowOverwrites": "true"}) == (
        "[FILE_OPTION_REFUSED] option allowOverwrites cannot be honoured: a file that was read is not read again when "
        "it is overwritten; nothing was read\n"
        "  at: a.py:3\n  hint: write each new version under a name of its own"
    )


def test_limits_and_times_as_spark_takes_them():
    """Spark's source takes plain numbers alone, and a time that Spark does not know leaves out all files."""
    sizes = {"1": 1, "512 kb": 512 << 10, "3B": 3, " 2T ": 2 << 40, "9999p": 2**63 - 1}
    given = {text: options({"format": "json", "maxBytesPerTrigger": text}).max_bytes for text in sizes}
    assert given == sizes
    assert options({"format": "json", "maxFilesPerTrigger": "3000000000"}).max_files == 2**31 - 1
    times = {
        "20260131T120000Z": "2026-01-31T12:00:00+00:00",
        "2026-01-31": "2026-01-31T00:00:00",
        "2026-W05-6 12:00:00,5+01": "2026-01-31T12:00:00.500000+01:00",
        "2021-01-01 00:00:00.000000 UTC+0": "2021-01-01T00:00:00+00:00",
        " 2021-1-1 1:2:3.5 GMT-03:30 ": "2021-01-01T01:02:03.500000-03:30",
        "2021-07-01T00:00:00 Europe/Berlin": "2021-07-01T00:00:00+02:00",
        "2021-01-01 00:00:00 -3": "2021-01-01T00:00:00-03:00",
        "2021-01-01 00:00:00UT": "2021-01-01T00:00:00+00:00",
    }
    for name in ("modifiedAfter", "modifiedBefore"):
        read = [options({"format": "json", name: text}) for text in times]
        found = [each.modified_after or each.modified_before for each in read]
        assert found == list(times.values())


def test_limits_and_cleaning_that_spark_does_not_have_are_named():
    both = {"format": "json", "maxFilesPerTrigger": "7", "cloudFiles.maxBytesPerTrigger": "1g"}
    assert (options(both).max_files, options(both).max_bytes) == (7, None)
    assert notes_of(both) == ("option maxBytesPerTrigger has no effect here: maxFilesPerTrigger limits the batches",)
    kept = {"format": "json", "cloudFiles.cleanSource": "MOVE", "cloudFiles.cleanSource.moveDestination": "/done"}
    for more in ({}, {"cleanSource.retentionDuration": "30 days"}):
        assert options(kept | more).clean == {}
        assert notes_of(kept | more) == (
            (
                "option cleanSource has no effect here: files are cleaned only where cleanSource.retentionDuration is "
                "'0 seconds'"
            ),
        )
    at_once = kept | {"cleanSource.retentionDuration": "0 seconds"}
    assert notes_of(at_once) == ()
    # Spark cleans each file of a batch, whether its rows were read or not.
    for name, value in (
        ("includeExistingFiles", "FALSE"),
        ("modifiedAfter", "2026-01-31"),
        ("modifiedBefore", "2026-01-31"),
    ):
        assert options(kept | {name: value}).clean == {}
        assert refusal(at_once | {f"cloudFiles.{name}": value}) == (
            f"[FILE_OPTION_REFUSED] option cleanSource cannot be honoured: files that {name} leaves out would be "
            f"cleaned too, and their rows are in no table; nothing was read\n"
            f"  at: a.py:3\n  hint: leave out {name}, or choose files by pathGlobFilter"
        )
    assert options(at_once | {"includeExistingFiles": "true", "pathGlobFilter": "*.json"}).clean


@pytest.mark.parametrize(
    ("given", "error", "about"),
    [
        ({"format": "jsn"}, FileOptionInvalid, "did you mean 'json'?"),
        ({"format": "xml"}, FileOptionInvalid, "XML files need it"),
        ({"format": "csv", "rowTag": "x"}, FileOptionUnknown, "csv files have no option rowTag"),
        (
            {"format": "json", "schemaEvolutionMode": "addNewColumnsWithTypeWidening"},
            FileOptionRefused,
            "changes types",
        ),
        ({"format": "json", "schemaEvolutionMode": "x"}, FileOptionInvalid, "one of addNewColumns, rescue"),
        ({"format": "json", "allowOverwrites": "true"}, FileOptionRefused, "is not read again"),
        ({"format": "json", "badRecordsPath": "/x"}, FileOptionRefused, "nothing but the table"),
        ({"format": "json", "allowComments": "true"}, FileOptionRefused, "read strictly"),
        ({"format": "json", "readerCaseSensitive": "false"}, FileOptionRefused, "exact names"),
        ({"format": "json", "maxFilesPerTrigger": "0"}, FileOptionInvalid, "whole number above 0"),
        ({"format": "json", "maxBytesPerTrigger": "much"}, FileOptionInvalid, "10g"),
        ({"format": "json", "maxBytesPerTrigger": "0 kb"}, FileOptionInvalid, "10g"),
        *(
            ({"format": "json", "modifiedAfter": text}, FileOptionInvalid, "ISO 8601")
            for text in ("yesterday", "2021-01-01 No/Where", "2021-01-01T00:00:00+19:00", "2021-01-01 UTC+30")
        ),
        ({"format": "avro", "recursiveFieldMaxDepth": "16"}, FileOptionInvalid, "from -1 to 15"),
        ({"format": "csv", "skipRows": "1"}, FileOptionRefused, "without it"),
        ({"format": "json", "includeExistingFiles": "yes"}, FileOptionInvalid, "neither true nor false"),
        (
            {
                "format": "json",
                "cleanSource": "move",
                "cleanSource.retentionDuration": "0 days",
            },
            FileOptionInvalid,
            "moveDestination",
        ),
        (
            {"format": "json", "schema": "a int", "schemaEvolutionMode": "addNewColumns"},
            FileOptionInvalid,
            "schemaHints",
        ),
    ],
)
def test_what_is_refused(given, error, about):
    with pytest.raises(error) as raised:
        options(given)
    assert about in str(raised.value)


def test_paths_of_databricks_are_mapped_or_named(monkeypatch):
    paths = {"/Volumes/main": "s3://lake/main/", "/Volumes/main/raw": "/data/raw", "dbfs:/mnt/in": "/in"}
    paths |= {"/mnt/in/b": "/b", "/Volumes/mainland": "relative/mainland/"}
    table = {
        "/Volumes/main/raw/x": "/data/raw/x",
        "/Volumes/main/other": "s3a://lake/main/other",
        "/Volumes/mainland/x": "relative/mainland/x",
        "dbfs:/Volumes/main/raw": "/data/raw",
        "/mnt/in/*.json": "/in/*.json",
        "dbfs:/mnt/in": "/in",
        "dbfs:/mnt/in/b/x": "/b/x",
        "dbfs:///mnt/in/bc": "/in/bc",
        "s3://b/k": "s3a://b/k",
        "s3n://b/k": "s3a://b/k",
        "relative/folder": "relative/folder",
        "abfss://c@a.dfs.core.windows.net/x": "abfss://c@a.dfs.core.windows.net/x",
    }
    assert {path: resolved(path, paths) for path in table} == table
    said = (
        "[FILE_PATH_UNMAPPED] {0}/raw is a path of Databricks, and no setting gives a folder for it; "
        'nothing was read\n  at: a.py:3\n  hint: configuration: {{"rivermouth.paths.{0}": /the/folder}}'
    )
    assert str(missing("/Volumes/maine/raw", "a.py:3")) == said.format("/Volumes/maine")
    with pytest.raises(FilePathUnmapped) as raised:
        resolved("dbfs:/other/raw", paths, "a.py:3")
    assert str(raised.value) == said.format("dbfs:/other")
    with pytest.raises(FilePathUnmapped) as raised:
        written("/mnt/other/raw", paths, "a.py:3")
    assert str(raised.value) == said.format("/mnt/other").replace("read", "written")
    assert written("/mnt/in/a", paths) == "/in/a"
    for path in ("/mnt/x", "/mnt/*/x", "/databricks-datasets/y", "/FileStore/z"):
        assert isinstance(missing(path, None), FilePathUnmapped)
    # Folders of this machine: a path below them is no path of Databricks.
    monkeypatch.setattr(Path, "exists", lambda each: str(each) == "/mnt/c")
    assert isinstance(missing("/mnt/c/in", None), FileSourceMissing)
    assert isinstance(missing("/mnt/*/in", None), FilePathUnmapped)


def test_wildcards_match_no_hidden_names():
    table = {
        "/in/*": "/in/{[^._]*,_*=*}",
        "/in/day=2026*/**": "/in/day=2026*/{[^._]*,_*=*}",
        "s3a://b*/*.json": "s3a://b*/{[^._]*.json,_*=*.json}",
        "in/?x/*?": r"in/[^._]x/{[^._]*,_*=*}",
        "*a,{b,c}/*_id=[1,2]": r"{[^._]*a\,{b,c},a\,{b,c},_*=*a\,{b,c}}/{[^._]*_id=[1,2],_*_id=[1,2],_id=[1,2]}",
        "/in/{_a,*/b}/_c*/.d": "/in/{_a,*/b}/_c*/.d",
        "file:/in/_d": "file:/in/_d",
    }
    assert {path: visible(path) for path in table} == table


def test_the_old_call():
    assert path_and_options(["/in", "csv", {"cloudFiles.header": "true"}]) == (
        "/in",
        {"format": "csv", "cloudFiles.header": "true"},
    )
    assert path_and_options(["/in", "json"]) == ("/in", {"format": "json"})
    with pytest.raises(FileOptionInvalid) as raised:
        path_and_options(["/in"], at="a.sql:2")
    assert str(raised.value) == (
        "[FILE_OPTION_INVALID] option cloud_files: its arguments are not a path, a format and a map of options; "
        "nothing was read\n  at: a.sql:2\n"
        "  hint: cloud_files('/a/folder', 'json', map('cloudFiles.inferColumnTypes', 'true'))"
    )


def test_names_of_files_and_folders():
    def fits(glob, name):
        import re

        return re.fullmatch(listing._as_regex(glob), name) is not None

    assert fits("*.json", "a.json")
    assert not fits("*.json", "a.jsonl")
    assert fits("{a,b}?[0-9].c[^s]v", "bx7.cxv")
    assert fits(r"\*,x}", "*,x}")
    assert listing.partition_values("file:/in/a=1/day=2026%252F01/x=__HIVE_DEFAULT_PARTITION__/f", "file:/in/A=1") == {
        "day": "2026/01",
        "x": None,
    }


def test_hints_are_read_by_name_and_path():
    assert list(schemas._parts("a decimal(10,2), `b,c` map<string,int>")) == [
        "a decimal(10,2)",
        " `b,c` map<string,int>",
    ]
