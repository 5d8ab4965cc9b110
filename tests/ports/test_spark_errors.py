"""Errors of Spark's outlast the JVM that they ask for their words."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from rivermouth.domain.query.failure_texts import cause
from rivermouth.errors import first_line
from rivermouth.ports.spark.spark_errors import detach_from_jvm, is_about_checkpoint


def test_they_and_what_led_to_them_say_what_they_said(spark, monkeypatch):
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nothing FROM nowhere")
    before = str(caught.value)
    around = RuntimeError("around it")
    around.__cause__ = caught.value
    detach_from_jvm(around)
    detach_from_jvm(around)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    assert str(around) == "around it"
    assert isinstance(around.__cause__, AnalysisException)
    assert type(around.__cause__).__name__ == "AnalysisException"
    assert str(around.__cause__) == before
    assert "TABLE_OR_VIEW_NOT_FOUND" in before


def test_a_call_into_java_says_what_failed_there_first(spark):
    with pytest.raises(Py4JJavaError) as caught:
        spark._jvm.java.util.ArrayList().get(0)
    detach_from_jvm(caught.value)
    assert first_line(caught.value) == ("java.lang.IndexOutOfBoundsException: Index 0 out of bounds for length 0")


@pytest.mark.parametrize("value", ["a name", 'a "name"; b', "a\nname"])
def test_the_value_that_delta_quotes_is_left_out(value):
    said = f'[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] Value "{value}" exceeds char/varchar type length limitation.'
    for text in (said, f"An error occurred while calling o1.save.\n: java.lang.E\nCaused by: {said}"):
        shown = first_line(RuntimeError(text))
        assert "[DELTA_EXCEED_CHAR_VARCHAR_LIMIT] A value" in shown
        assert "name" not in shown
    assert cause(RuntimeError(f"Job aborted.\norg.x.SomeException: {said}"))[0] == "SomeException"
    assert "name" not in cause(RuntimeError(f"Job aborted.\norg.x.SomeException: {said}"))[1]


def test_one_whose_jvm_went_first_says_so(spark, monkeypatch):
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nothing FROM nowhere")
    monkeypatch.setattr(SparkContext, "_jvm", None)
    detach_from_jvm(caught.value)
    assert str(caught.value) == "its JVM ended before it said what was amiss"


STREAM = "\n\tat org.apache.spark.sql.execution.streaming.runtime.StreamExecution.runStream(StreamExecution.scala:333)"
OFFSETS = "\n\tat org.apache.spark.sql.execution.streaming.checkpointing.HDFSMetadataLog.get(HDFSMetadataLog.scala:200)"
START = (
    "\n\tat org.apache.spark.sql.execution.streaming.runtime.MicroBatchExecution.populateStartOffsets"
    "(MicroBatchExecution.scala:600)"
)
SOURCE = "\n\tat org.apache.spark.sql.kafka010.KafkaMicroBatchStream.latestOffset(KafkaMicroBatchStream.scala:110)"


@pytest.mark.parametrize(
    ("stack", "about"),
    [
        # The offsets of the batch before the last one are gone.
        (f"java.lang.IllegalStateException: batch 1 doesn't exist{START}{STREAM}", True),
        # A file that is cut short, one whose sum is wrong, and the query's own id.
        (f"java.lang.IllegalStateException: Incomplete log file{OFFSETS}{STREAM}", True),
        (f"org.apache.spark.SparkException: x{STREAM}\nCaused by: java.io.EOFException: end{OFFSETS}", True),
        (f"org.apache.hadoop.fs.ChecksumException: Checksum error: file:/lake/offsets/3{STREAM}", True),
        ("java.lang.Error: x\n\tat org.apache.spark.sql.execution.streaming.runtime.StreamMetadata$.read(x)", True),
        (f"org.apache.spark.SparkException: [STREAMING_CHECKPOINT_MISSING_METADATA_FILE] Checkpoint x{STREAM}", True),
        # A broker that is away, also where Spark was just reading the first offsets' file.
        (
            (
                f"java.util.concurrent.ExecutionException: x{SOURCE}{STREAM}\n"
                "Caused by: org.apache.kafka.common.errors.TimeoutException: Timed out waiting for a node assignment."
            ),
            False,
        ),
        (f"org.apache.kafka.common.errors.TimeoutException: x{SOURCE}{OFFSETS}{STREAM}", False),
        (f"java.lang.Exception: x{SOURCE}{STREAM}", False),
        # An object store that is away in the midst of a file.
        (f"org.apache.hadoop.fs.s3a.AWSClientIOException: x{OFFSETS}\nCaused by: java.net.ConnectException: x", False),
        (f"java.net.SocketTimeoutException: Read timed out{OFFSETS}{STREAM}", False),
        (f"java.nio.file.AccessDeniedException: /lake/offsets/3{OFFSETS}{STREAM}", False),
        ("", False),
    ],
)
def test_only_what_is_wrong_with_its_files_is_held_against_a_checkpoint(stack, about):
    class Told(Exception):
        def __init__(self) -> None:
            super().__init__("[STREAM_FAILED] Query [id = 1] terminated with exception: x")
            self._stackTrace = stack

    assert is_about_checkpoint(Told()) is about
    led_to = Told()
    led_to._stackTrace, led_to.__cause__ = "", Told()
    assert is_about_checkpoint(led_to) is about
