"""Columns that the folders ``name=value`` of files make, and fields of CSV that the first row does not announce."""

from __future__ import annotations

import itertools
import json

import pytest
from pyspark.errors import StreamingQueryException
from tests.pipelines.test_files import Folder, of_all, rescued, rows_of

from rivermouth.errors import FileSchemaInvalid
from rivermouth.pipelines.files import failures

RESCUES = {"rescuedDataColumn": "_rescued_data"}


@pytest.fixture
def folder(spark, tmp_path):
    return Folder(spark, tmp_path)


def together(*frames):
    """The rows of several frames, in one job."""
    return sorted(itertools.chain(*of_all(frames)), key=lambda row: json.dumps(row, sort_keys=True))


def test_folders_are_read_as_spark_writes_them(folder):
    """Hive's escapes, signs that have a meaning in addresses, names in any letter case."""
    folder.spark.sql("SELECT 1 AS id, timestamp_ntz'2026-01-31 10:00:00' AS t, 'C++ 50%' AS lang").write.partitionBy(
        "t", "lang"
    ).json(str(folder.path / "written"))
    folder.put("other/tz=+02:00/my name=é/50%=%zz/a.json", '{"id": 2}', changed_s=1)  # its names are taken
    folder.put("other/TZ=a%3Ab/My Name=__HIVE_DEFAULT_PARTITION__/50%=/b.json", '{"id": 3}', changed_s=2)
    assert together(
        folder.batch({"format": "json"}, path=folder.path / "written"),
        folder.batch({"format": "json"}, path=folder.path / "other"),
        folder.batch(
            {"format": "json", "partitionColumns": "TZ"}, "id INT, TZ STRING", path=folder.path / "other"
        ).selectExpr("id AS given", "TZ"),
    ) == [
        {"50%": "%zz", "id": 2, "my name": "é", "tz": "+02:00"},
        {"TZ": "+02:00", "given": 2},
        {"TZ": "a:b", "given": 3},
        {"id": 1, "lang": "C++ 50%", "t": "2026-01-31 10:00:00"},
        {"id": 3, "tz": "a:b"},
    ]


def assert_refused(run):
    """Folders of which nobody knew when the query was planned; the next start knows of them."""
    with pytest.raises(StreamingQueryException) as raised:
        run()
    told = failures.found(raised.value)
    assert (told.columns, told.next_step) == (
        "day",
        "start it again: the columns of folders are found at each start",
    )


def test_with_a_given_schema_each_file_says_which_columns_its_folders_make(folder):
    """The source is started when nobody knows of folders; later files are in them, or have the column themselves."""
    kinds = {"json": {}, "csv": {"header": "true", **RESCUES}, "parquet": {}, "text": {}}
    for kind in (*kinds, "places"):
        (folder.path / kind).mkdir()

    def frame(kind, schema="id INT, day DATE, _rescued_data STRING"):
        options = {"format": "csv"} if kind == "places" else {"format": kind, **RESCUES, **kinds[kind]}
        return folder.stream(options, schema, path=folder.path / kind)

    def frames():
        text = frame("text", "value STRING, day DATE").selectExpr("CAST(value AS INT) AS id", "day", "NULL AS more")
        typed = [frame(kind) for kind in kinds if kind != "text"]
        return text.union(typed[0]).union(typed[1]).union(typed[2])

    empty, places = frames(), frame("places", "id INT, day DATE, name STRING")
    folder.put("json/Day=2026-01-31/a.json", '{"id": 1, "day": "2026-01-30"}\n{"id": 1, "day": "2026-01-31"}')
    folder.put("json/b.json", '{"id": 2, "day": "2026-02-02"}')
    folder.put("csv/day=2026-01-31/a.csv", "id\n3\n")
    folder.put("csv/day=x/a.csv", "id\n4\n")
    folder.put("csv/b.csv", "day,id\n2026-02-02,5\n")
    folder.put("text/day=2026-01-31/a.txt", "6")
    whole = folder.spark.sql("SELECT 7 AS id")
    whole.coalesce(1).write.parquet(str(folder.path / "parquet/day=2026-01-31"))
    whole.selectExpr("id + 1 AS id", "date'2026-02-02' AS day").coalesce(1).write.parquet(
        str(folder.path / "parquet/b")
    )
    assert_refused(lambda: folder.run(empty))
    found = sorted(folder.run(frames()), key=lambda row: (row["id"], "more" in row))
    assert [(row["id"], row.get("day")) for row in found] == [
        (1, "2026-01-31"),
        (1, "2026-01-31"),
        (2, "2026-02-02"),
        (3, "2026-01-31"),
        (4, None),
        (5, "2026-02-02"),
        (6, "2026-01-31"),
        (7, "2026-01-31"),
        (8, "2026-02-02"),
    ]
    lost = {row["id"]: json.loads(row["more"])["day"] for row in found if "more" in row}
    assert lost == {1: "2026-01-30", 4: "x"}
    folder.put("json/day=2026-03-31/c.json", '{"id": 9}')
    assert folder.run(frames()) == [{"id": 9, "day": "2026-03-31"}]
    # Fields by position cannot differ from file to file.
    folder.put("places/day=2026-01-31/a.csv", "1,Ada\n")
    assert_refused(lambda: folder.run(places, checkpoint="places"))
    folder.put("places/b.csv", "2,Bo\n")
    again = folder.run(frame("places", "id INT, day DATE, name STRING"), checkpoint="places")
    assert sorted(again, key=str) == [{"id": 1, "day": "2026-01-31", "name": "Ada"}, {"id": 2, "name": "Bo"}]


def test_columns_of_other_types_come_from_folders_and_what_no_file_has_is_refused(folder):
    folder.put("in/day=2026-01-31/a.json", '{"id": 1}')
    assert rows_of(folder.batch({"format": "json"}, "id INT, day VARCHAR(10)", path=folder.path / "in")) == [
        {"id": 1, "day": "2026-01-31"}
    ]
    folder.put("lines/a.txt", "one")
    with pytest.raises(FileSchemaInvalid) as refused:
        folder.batch({"format": "text"}, "line STRING", path=folder.path / "lines")
    assert refused.value.facts["detail"] == "text files have value, and no folder makes line"


def test_hints_count_for_folders_and_for_new_columns_at_a_later_start(folder):
    options = {"format": "json", "schemaEvolutionMode": "failOnNewColumns"}
    folder.put("year=2026/a.json", '{"id": 1}')
    assert folder.stream(options).schema.simpleString() == "struct<id:string,year:string,_rescued_data:string>"
    folder.put("year=2027/b.json", '{"id": 2, "most": 3}')
    hinted = folder.stream({**options, "schemaHints": "year INT, most INT"})
    assert hinted.schema.simpleString() == "struct<id:string,year:int,most:int,_rescued_data:string>"
    assert sorted(folder.run(hinted), key=str) == [{"id": "1", "year": 2026}, {"id": "2", "year": 2027, "most": 3}]


def test_a_short_first_row_of_csv_loses_no_later_values(folder):
    folder.put("place/a.csv", "1,Ada\n2,Bo,2026-01-31,more\n3,Cy,2026-02-01\n")
    folder.put("header/a.csv", "x,y\n4,Ada,2026-01-31\n")
    folder.put("none/a.csv", "5,Ada\n6,Bo,x,y\n")
    folder.put("none/b.csv", "7,Cy,z\n")
    schema, strict = "id INT, name STRING, day DATE", {"format": "csv", "mode": "DROPMALFORMED"}
    found = together(
        folder.batch({"format": "csv"}, schema, path=folder.path / "place"),
        folder.batch(strict, schema, path=folder.path / "place").selectExpr("id AS only", "day"),
        folder.batch({"format": "csv", "header": "true"}, schema, path=folder.path / "header"),
        folder.batch({"format": "csv", "header": "false"}, path=folder.path / "none"),
    )
    (beyond,) = [row.pop("_rescued_data") for row in found if "_rescued_data" in row]
    assert rescued({"_rescued_data": beyond})["_c3"] == "y"
    assert found == [
        {"_c0": 5, "_c1": "Ada"},
        {"_c0": 6, "_c1": "Bo", "_c2": "x"},
        {"_c0": 7, "_c1": "Cy", "_c2": "z"},
        {"day": "2026-01-31", "id": 2, "name": "Bo"},
        {"day": "2026-01-31", "id": 4, "name": "Ada"},
        {"day": "2026-02-01", "id": 3, "name": "Cy"},
        {"day": "2026-02-01", "only": 3},
        {"id": 1, "name": "Ada"},
    ]


def test_whole_numbers_beyond_bigint_keep_their_digits(folder):
    longest = "1" * 39
    folder.put("a.csv", f"a,b,c,d,e\n89490200001012345678,1,1.5,{longest},1.5\n-1,2,9007199254740993,1,15\n")
    found = folder.batch({"format": "csv"})
    assert found.schema.simpleString() == (
        "struct<a:decimal(38,0),b:int,c:string,d:string,e:double,_rescued_data:string>"
    )
    assert rows_of(found.selectExpr("CAST(a AS STRING) AS a", "c", "d"))[1] == {
        "a": "89490200001012345678",
        "c": "1.5",
        "d": longest,
    }
