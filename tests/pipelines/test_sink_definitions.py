"""Sinks as files define them, before anything runs."""

import pytest
from tests.pipelines.conftest import refusal

from rivermouth.errors import RivermouthError
from rivermouth.pipelines.graph import declared, sink_name
from rivermouth.pipelines.names import Names, TableName
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.registry import Registry

PYTHON = """
from pyspark import pipelines as dp

OPTIONS = {"topic": "t", "kafka.bootstrap.servers": "x:1", "failOnDataLoss": False, "startingoffsets": "latest"}
dp.create_sink("out", "kafka", OPTIONS)
dp.create_sink("files", "delta", {"path": "p", "failOnDataLoss": "true"})
"""


def test_options_of_readers_at_a_kafka_sink_are_named_and_left_out(tmp_path):
    path = tmp_path / "a.py"
    path.write_text(PYTHON)
    with importable({}):
        found = Evaluation(tmp_path, {}, {}, Registry(tmp_path)).evaluate([path])
    assert [each.options for each in found.sinks] == [
        {"topic": "t", "kafka.bootstrap.servers": "x:1"},
        {"path": "p", "failOnDataLoss": "true"},
    ]
    assert [(str(at), text) for at, text in found.notes] == [
        ("a.py:5", "sink out: failOnDataLoss has no effect, it is an option of readers"),
        ("a.py:5", "sink out: startingoffsets has no effect, it is an option of readers"),
    ]


def test_a_flow_after_use_writes_into_a_sink_whichever_is_defined_first(tmp_path):
    flows, sinks = tmp_path / "flows.sql", tmp_path / "sinks.py"
    flows.write_text(
        "USE SCHEMA silver;\nCREATE STREAMING TABLE t AS SELECT 1;\n"
        "CREATE FLOW f AS INSERT INTO out BY NAME SELECT 2;\nCREATE FLOW g AS INSERT INTO t BY NAME SELECT 3;\n"
    )
    sinks.write_text('from pyspark import pipelines as dp\ndp.create_sink("out", "delta", {"path": "p"})\n')
    for files in ([flows, sinks], [sinks, flows]):
        with importable({}):
            found = Evaluation(tmp_path, {}, {}, Registry(tmp_path)).evaluate(files)
        known = declared(found, Names("default", "main"))
        assert {name: [each.name for each in several] for name, several in known.flows.items()} == {
            TableName("silver", "t"): ["silver.t", "g"],
            sink_name("out"): ["f"],
        }
    with importable({}):
        found = Evaluation(tmp_path, {}, {}, Registry(tmp_path)).evaluate([flows])
    with pytest.raises(RivermouthError) as unknown:
        declared(found, Names("default", "main"))
    assert unknown.value.code == "TARGET_UNKNOWN"


UPDATES = """
from pyspark import pipelines as dp

dp.create_sink("files", "delta", {"path": "lake/files"})

@dp.update_flow(target="files", name="changed")
def changed():
    return spark.readStream.schema("id int").json("in").groupBy("id").count()
"""


def test_a_delta_sink_does_not_take_changed_rows(folder):
    folder.write("src/a.py", UPDATES)
    (folder.folder / "in").mkdir()
    for refused in (folder.plan, folder.run):
        assert refusal(refused) == (
            "[SINK_COLUMNS_INVALID] flow changed into sink files: its query gives the rows that changed with each "
            "batch, and a Delta sink only appends; the pipeline was not run\n"
            "  at: src/a.py:6\n"
            "  hint: a streaming table in the place of the sink, and keys=[...] on the flow: each row replaces the one "
            "before"
        )
