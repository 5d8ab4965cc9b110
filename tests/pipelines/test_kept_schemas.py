"""The schema that a source of files keeps from start to start: whose it is, where it is, and what changes it."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import replace

import pytest
from tests.pipelines.conftest import PipelineFolder, refusal
from tests.pipelines.test_files import Folder

from rivermouth.pipelines.files.first_starts import FirstStarts
from rivermouth.pipelines.files.planning import FileSite
from rivermouth.pipelines.spec import SourceLine

PYTHON = """
from pyspark import pipelines as dp

def read(kind="json", place="in", **more):
    options = {"cloudFiles.format": kind, "cloudFiles.inferColumnTypes": "true", **more}
    return spark.readStream.format("cloudFiles").options(**options).load(place)

dp.create_streaming_table("flows")
dp.create_streaming_table("fresh")

@dp.append_flow(target="flows")
def orders():
    return read(pathGlobFilter="orders*")

@dp.append_flow(target="flows")
def items():
    return read(pathGlobFilter="items*")

@dp.table
def together():
    found = read(pathGlobFilter="orders*")
    return found.unionByName(read(pathGlobFilter="items*"), allowMissingColumns=True)

@dp.append_flow(target="fresh")
def fresh_orders():
    return read(pathGlobFilter="orders*", includeExistingFiles="false")

@dp.temporary_view
def lines():
    return read("csv", "csv")

@dp.table
def texts():
    return spark.readStream.table("lines")
"""
LATER = """
@dp.append_flow(target="fresh")
def fresh_items():
    return read(pathGlobFilter="items*", includeExistingFiles="false")
"""


def put_orders_and_items(folder, number):
    folder.feed(f"in/items-{number}.json", {"item": number})
    folder.feed(f"in/orders-{number}.json", {"order": number})
    os.utime(folder.folder / f"in/items-{number}.json", (1000 + number, 1000 + number))


@pytest.fixture
def pipeline(tmp_path, spark):
    found = PipelineFolder(tmp_path)
    found.write("pipeline.yml", "name: shop\nlibraries:\n  - glob: {include: src/**}\n")
    return found


@pytest.mark.long
def test_each_source_of_a_dataset_has_a_schema_of_its_own(pipeline):
    """By its pattern of names and its flow; a full refresh infers it as at the first start."""
    untyped = PYTHON.replace(
        '"cloudFiles.inferColumnTypes": "true"', '"cloudFiles.inferColumnTypes": str(kind == "json")'
    )
    pipeline.write("src/a.py", untyped)
    put_orders_and_items(pipeline, 1)
    pipeline.write("csv/a.csv", "n\n1\n")
    assert {each.error for each in pipeline.run().values()} == {None}
    both = [(1, None, None), (None, 1, None)]
    assert pipeline.rows("default/flows", '"order", item, _rescued_data') == both
    assert pipeline.rows("default/together", '"order", item, _rescued_data') == both
    assert pipeline.rows("default/fresh") == []
    pipeline.write("src/a.py", PYTHON + LATER)
    put_orders_and_items(pipeline, 2)
    assert {each.error for each in pipeline.run(full_refresh_all=True).values()} == {None}
    assert pipeline.rows("default/fresh", '"order", item, _rescued_data') == [(2, None, None)]
    assert pipeline.rows("default/texts", "n") == [(1,)]
    put_orders_and_items(pipeline, 3)
    assert {each.error for each in pipeline.run(refresh=("fresh",)).values()} == {None}
    assert pipeline.rows("default/fresh", '"order", item') == [(2, None), (3, None), (None, 3)]


@pytest.fixture
def folder(spark, tmp_path):
    return Folder(spark, tmp_path)


def next_start(folder, flow=""):
    folder.site = FileSite(str(folder.root / "state"), at=SourceLine("a.py", 7), dataset="table", flow=flow)


def test_what_a_start_takes_of_the_schema_that_is_kept(folder):
    """Of an older version's at its place the types; of other files too, and these are looked at."""
    folder.put("in/a1.json", '{"id": 1}', changed_s=2000)
    folder.put("in/b1.json", '{"n": 1}', changed_s=1000)
    place, typed = str(folder.path / "in"), {"format": "json", "inferColumnTypes": "true"}
    digest = hashlib.sha256(f"json\n{place}".encode()).hexdigest()[:12]
    kept = {"type": "struct", "fields": [{"name": "id", "type": "decimal(5,0)", "nullable": True, "metadata": {}}]}
    nothing = {"type": "struct", "fields": []}
    old = {"shape": kept, "partitions": nothing, "seen_ms": 2_000_000, "newest": [f"file:{place}/a1.json"]}
    file = folder.root / f"state/files-{digest}/_schemas/schema.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(old))
    file.with_name("existing.txt").write_text(f"file:{place}/a1.json\nfile:{place}/b0.json\n")

    def columns(options, path="in", flow=""):
        next_start(folder, flow)
        return folder.stream(options, path=folder.path / path).schema.simpleString()[7:-1]

    assert columns(typed, flow="table") == "id:decimal(5,0),_rescued_data:string"  # seen
    for _ in range(2):
        assert columns({**typed, "pathGlobFilter": "b*"}) == "id:decimal(5,0),n:bigint,_rescued_data:string"
        assert columns(typed, flow="other") == "id:decimal(5,0),n:bigint,_rescued_data:string"
    # So do the files that an older version left out, if the flow has begun.
    folder.site = replace(folder.site, flow="", starts=FirstStarts())
    folder.stream({**typed, "pathGlobFilter": "b*", "includeExistingFiles": "false"}, path=place)
    folder.site.starts.settle(lambda _: True)
    (list_of_b,) = set((folder.root / "state").glob("*/_schemas/existing.txt")) - {file.with_name("existing.txt")}
    assert list_of_b.read_text() == f"file:{place}/b0.json\n"
    # A place that is named keeps the schema for another folder, whose files are all looked at.
    named = {**typed, "schemaLocation": str(folder.root / "named")}
    assert columns(named) == "id:bigint,n:bigint,_rescued_data:string"
    folder.put("moved/a.json", '{"id": "x", "more": true}', changed_s=500)
    assert columns(named, "moved") == "id:bigint,n:bigint,more:boolean,_rescued_data:string"
    assert refusal(lambda: folder.stream({**named, "pathGlobFilter": "a*"}, path=place)) == (
        f"[FILE_SCHEMA_SHARED] schemaLocation {folder.root}/named is that of two sources: "
        f"json files of {folder.path}/moved, and json files of {place} with names a*; nothing was read\n  at: a.py:7\n"
        "  hint: give each source a schemaLocation of its own, or leave the option out"
    )


def test_options_count_at_each_start(folder):
    """Also columns of folders where there was no file before, and types of CSV that were not inferred before."""
    folder.put("days/day=1/a.json", '{"id": 1}')
    folder.put("days/b.json", '{"id": 2}')
    folder.put("csv/a.csv", "n,text\n1,x\n", changed_s=1000)
    (folder.path / "texts").mkdir()

    def columns(path, **options):
        next_start(folder)
        found = folder.stream(options, path=folder.path / path).schema
        return {each.name: each.dataType.simpleString() for each in found if each.name != "_rescued_data"}

    assert columns("days", format="json") == {"id": "string"}
    assert columns("days", format="json", partitionColumns="day") == {"id": "string", "day": "string"}
    assert columns("days", format="json") == {"id": "string", "day": "string"}
    assert columns("days", format="json", partitionColumns="") == {"id": "string"}
    assert columns("texts", format="text") == {"value": "string"}
    folder.put("texts/day=1/a.txt", "x")
    assert columns("texts", format="text") == {"value": "string", "day": "string"}
    assert columns("csv", format="csv") == {"n": "string", "text": "string"}
    folder.put("csv/b.csv", "n,text,more\n2,y,3\n", changed_s=2000)
    for _ in range(2):
        types = columns("csv", format="csv", inferColumnTypes="true")
        assert types == {"n": "int", "text": "string", "more": "int"}
    assert columns("csv", format="csv") == {"n": "string", "text": "string", "more": "string"}


def test_what_is_written_is_not_written_to_an_unmapped_path(folder):
    """Of Databricks: its folder would be on the disk of this machine alone."""
    said = (
        "[FILE_PATH_UNMAPPED] /Volumes/main/{0} is a path of Databricks, and no setting gives a folder for it; nothing "
        'was written\n  at: orders.py:7\n  hint: configuration: {{"rivermouth.paths./Volumes/main": /the/folder}}'
    )
    folder.put("a.json", '{"id": 1}')
    location = {"format": "json", "schemaLocation": "/Volumes/main/schemas"}
    assert refusal(lambda: folder.stream(location)) == said.format("schemas")
    clean = {"cleanSource": "MOVE", "cleanSource.retentionDuration": "0 seconds"}
    moved = {"format": "json", **clean, "cleanSource.moveDestination": "/Volumes/main/done"}
    assert refusal(lambda: folder.stream(moved, "id int")) == said.format("done")
