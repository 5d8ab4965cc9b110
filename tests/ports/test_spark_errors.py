"""Errors of Spark's outlast the JVM that they ask for their words."""

from __future__ import annotations

import pytest
from py4j.protocol import Py4JJavaError
from pyspark import SparkContext
from pyspark.errors import AnalysisException

from rivermouth.errors import first_line
from rivermouth.ports.spark_errors import outlasting


def test_they_and_what_led_to_them_say_what_they_said(spark, monkeypatch):
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nothing FROM nowhere")
    before = str(caught.value)
    around = RuntimeError("around it")
    around.__cause__ = caught.value
    outlasting(around)
    outlasting(around)
    monkeypatch.setattr(SparkContext, "_jvm", None)
    assert str(around) == "around it"
    assert isinstance(around.__cause__, AnalysisException)
    assert type(around.__cause__).__name__ == "AnalysisException"
    assert str(around.__cause__) == before
    assert "TABLE_OR_VIEW_NOT_FOUND" in before


def test_a_call_into_java_says_what_failed_there_first(spark):
    with pytest.raises(Py4JJavaError) as caught:
        spark._jvm.java.util.ArrayList().get(0)
    outlasting(caught.value)
    assert first_line(caught.value) == ("java.lang.IndexOutOfBoundsException: Index 0 out of bounds for length 0")


def test_one_whose_jvm_went_first_says_so(spark, monkeypatch):
    with pytest.raises(AnalysisException) as caught:
        spark.sql("SELECT nothing FROM nowhere")
    monkeypatch.setattr(SparkContext, "_jvm", None)
    outlasting(caught.value)
    assert str(caught.value) == "its JVM ended before it said what was amiss"
