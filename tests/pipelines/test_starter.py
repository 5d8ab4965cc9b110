"""``rivermouth init --pipeline``: files that are a pipeline."""

from __future__ import annotations

import ast
import json
from pathlib import Path

import pytest

from rivermouth.cli.main import invoke
from rivermouth.pipelines.notebooks import cells
from rivermouth.pipelines.settings import find_pipelines


@pytest.fixture
def here(tmp_path, monkeypatch):
    folder = tmp_path / "shop"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(arguments)
    return (code, *capsys.readouterr())


def test_it_writes_a_pipeline_and_says_what_comes_next(here, capsys):
    assert said(capsys, "init", "--pipeline") == (
        0,
        (
            "pipeline.yml is written\n"
            "transformations/orders.py is written\n"
            "transformations/daily.sql is written\n"
            "orders.jsonl is written\n"
            "With a broker (rivermouth dev kafka, in a terminal of its own):\n"
            "  rivermouth dev produce shop-orders orders.jsonl\n"
            "  rivermouth run\n"
        ),
        "",
    )
    (found,) = find_pipelines(here)
    assert (found.name, found.schema, found.notes) == ("shop", "shop", ())
    assert found.configuration == {"kafka.bootstrap.servers": "localhost:9092"}
    parts = [cell for path in found.files for cell in cells(path, found.shown(path))]
    assert [(cell.at.file, cell.language) for cell in parts] == [
        ("transformations/daily.sql", "sql"),
        ("transformations/orders.py", "python"),
    ]
    functions = [node.name for node in ast.parse(parts[1].text).body if isinstance(node, ast.FunctionDef)]
    assert functions == ["orders_bronze", "orders"]


def test_another_folder_and_json(here, capsys):
    code, out, _ = said(capsys, "init", "--pipeline", "-f", "etl/spark-pipeline.yml")
    assert (code, out.splitlines()[-3:]) == (
        0,
        ["  cd etl", "  rivermouth dev produce shop-orders orders.jsonl", "  rivermouth run"],
    )
    assert find_pipelines(here / "etl" / "spark-pipeline.yml")[0].name == "etl"
    code, out, _ = said(capsys, "init", "--pipeline", "--output", "json")
    assert json.loads(out)["files"] == [
        "pipeline.yml",
        "transformations/orders.py",
        "transformations/daily.sql",
        "orders.jsonl",
    ]


def test_nothing_is_written_where_one_of_the_files_is_there(here, capsys):
    (here / "transformations").mkdir()
    (here / "transformations" / "daily.sql").write_text("mine")
    assert said(capsys, "init", "--pipeline") == (
        1,
        "",
        (
            "[PIPELINE_EXISTS] transformations/daily.sql is there already; nothing was written\n"
            "  hint: rivermouth init --pipeline -f another/pipeline.yml\n"
        ),
    )
    assert not Path("pipeline.yml").exists()


def test_a_folder_that_is_a_file(here, capsys):
    Path("no").touch()
    assert said(capsys, "init", "--pipeline", "-f", "no/pipeline.yml") == (
        1,
        "",
        (
            "[ARGUMENT_INVALID] --file: no/pipeline.yml cannot be written: File exists; nothing was run\n"
            "  hint: name a file in a folder that you may write to\n"
        ),
    )
