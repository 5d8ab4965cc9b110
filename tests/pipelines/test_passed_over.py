"""What Spark's readers would lose or double without a word: hidden files, elements of XML, rows of CSV."""

from __future__ import annotations

import json

import pytest
from tests.pipelines.test_file_folders import RESCUES, together
from tests.pipelines.test_files import Folder, rescued, rows_of


@pytest.fixture
def folder(spark, tmp_path):
    return Folder(spark, tmp_path)


def test_a_path_with_wildcards_finds_no_hidden_files(folder):
    """Nor those of a Spark job that has not ended: its files get other names, and would be read twice."""
    for name, number in {"a": 1, "_temporary/0/b": 2, ".c": 3, "_d": 4, "_part=1/e": 5, "f/_g": 6, "f/h": 7}.items():
        folder.put(f"in/{name}.json", json.dumps({"id": number}))
    folder.put("in/_SUCCESS", "")
    folder.put("in/f/i.json._COPYING_", '{"id": 8}')
    folder.put("days/day=1/a.json", '{"id": 10}')
    folder.put("days/_SUCCESS", "")
    folder.spark.sql("SELECT 11 AS id").coalesce(1).write.parquet(str(folder.path / "table/part"))
    folder.put("table/_delta_log/0.json", '{"id": 12}')
    found = together(
        folder.batch({"format": "json"}, "id int", path=folder.path / "in/*"),
        folder.batch({"format": "json"}, "id int", path=folder.path / "in/f/*").selectExpr("id AS inner"),
        folder.batch({}, path=folder.path / "days/*"),
        folder.batch({}, path=folder.path / "table/*"),
    )
    assert sorted(found, key=str) == sorted(
        [{"id": 1}, {"id": 5}, {"id": 7}, {"inner": 7}, {"id": 10, "day": 1}, {"id": 11}], key=str
    )
    stream = folder.stream({"format": "json", "inferColumnTypes": "true"}, path=folder.path / "in/*")
    assert sorted(row["id"] for row in folder.run(stream)) == [1, 5, 7]


ORDERS = """<r>
<o vip="1"><id>1</id><item>a</item><line><sku>s</sku><n>3</n></line></o>
<o><id>2</id><item>b</item><item>c</item></o>
<o><id>3</id><ID>4</ID></o>
<o><id>5</id><line><sku>s</sku><sku>t</sku><new>9</new></line></o>
<o><id>6</id><line><n>1</n></line><line><n>2</n></line><more>m</more></o>
<o><id>7</id><many><x>1</x></many><many><x>2</x><y>8</y></many></o>
<o><id>8</id><line><of><a>1</a><b>2</b></of></line><id/></o>
<o><id>x</id></o>
</r>"""


def test_elements_of_xml_that_fit_no_column_are_rescued(folder):
    """Repeated ones whose column is no array, and those within structs; without rescued data the last one counts."""
    folder.put("a.xml", ORDERS)
    options = {"format": "xml", "rowTag": "o"}
    line = "struct<sku: string, n: int, of: struct<a: string>>"
    schema = f"id int, item string, line {line}, many array<struct<x: int>>, _vip string"
    found = rows_of(folder.batch({**options, **RESCUES}, schema))
    lost = [rescued(row) if "_rescued_data" in row else {} for row in found]
    kept = [{name: each for name, each in row.items() if name != "_rescued_data"} for row in found]
    told = [
        (row, {name: each for name, each in more.items() if name != "_file_path"})
        for row, more in zip(kept, lost, strict=True)
    ]
    assert sorted(told, key=str) == sorted(
        [
            ({"id": 1, "item": "a", "line": {"sku": "s", "n": 3}, "_vip": "1"}, {}),
            ({"id": 2}, {"item": ["b", "c"]}),
            ({}, {"id": ["3", "4"]}),
            ({"id": 5, "line": {}}, {"line": {"sku": ["s", "t"], "_unknown_elements": ["9"]}}),
            ({"id": 6}, {"line": ['{"n":[1]}', '{"n":[2]}'], "_unknown_elements": ["m"]}),
            ({"id": 7, "many": [{"x": 1}, {"x": 2}]}, {"many": {"1": {"_unknown_elements": ["8"]}}}),
            ({"line": {"of": {"a": "1"}}}, {"id": ["8", ""], "line": {"of": {"_unknown_elements": ["2"]}}}),
            ({}, {"id": "x"}),
        ],
        key=str,
    )
    last = {row.get("id"): row for row in rows_of(folder.batch(options, schema))}
    assert (last[2]["item"], last[4], last[5]["line"], last[6]["line"]) == ("c", {"id": 4}, {"sku": "t"}, {"n": 2})
    strict = folder.batch({**options, **RESCUES, "schemaEvolutionMode": "failOnNewColumns"}, schema)
    with pytest.raises(Exception, match=r"a\.xml\|/line/_unknown_elements\|"):
        rows_of(strict.where("id = 5"))


CSV = {"format": "csv", "multiLine": "true", "sep": ",", **RESCUES}


def test_rows_of_csv_behind_one_whose_quotes_are_wrong(folder):
    folder.put("a.csv", '-7,d\n-8,"d"e"\n-9,"f\nf"\n-10,"g"h"')
    strict = {**CSV, "unescapedQuoteHandling": "RAISE_ERROR"}
    found = together(
        folder.batch(strict, "id int, note string"),
        folder.batch({**strict, "mode": "DROPMALFORMED"}, "id int, note string").selectExpr("id AS good"),
    )
    assert sorted(lost_records(found)) == ['-10,"g"h"', '-8,"d"e"']
    assert {row["id"]: row["note"] for row in found if "id" in row} == {-7: "d", -9: "f\nf"}
    assert sorted(row["good"] for row in found if "good" in row) == [-9, -7]


@pytest.mark.long
def test_rows_of_csv_behind_one_that_is_too_long(folder):
    """The limits of options concern one record; the parser goes on behind it, across its buffers too."""
    many = "".join(f"{number},aaaaaaaaaaaa\r\n" for number in range(70_000))
    long = "x\r\n" * 15
    folder.put("a.csv", f'id,note\r\n{many}-2,"{long}"\r\n-3,"b\r\nb"\r\n\r\n-4,{"y" * 21}\r\n-5,c\r\n-6,{"z" * 21}')
    limited = folder.batch({**CSV, "maxCharsPerColumn": "20"})
    found = rows_of(limited.where("id IS NULL OR id < 0 OR id > 69998"))
    assert sorted(lost_records(found)) == sorted([f'-2,"{long}"', f"-4,{'y' * 21}", f"-6,{'z' * 21}"])
    kept = {row["id"]: row["note"] for row in found if "id" in row}
    assert kept == {69999: "aaaaaaaaaaaa", -3: "b\nb", -5: "c"}


def lost_records(rows):
    return [rescued(row)["_corrupt_record"] for row in rows if "_rescued_data" in row]
