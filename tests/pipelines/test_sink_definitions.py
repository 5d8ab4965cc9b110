"""Sinks as files define them, before anything runs."""

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
