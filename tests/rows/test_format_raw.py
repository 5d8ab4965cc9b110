"""The format raw: bytes stay bytes."""

from __future__ import annotations

from pyspark.sql.types import BinaryType, StructField, StructType
from tests.rows.formats import Outcome, frame, outcomes

from rivermouth.extend import find_kind
from rivermouth.formats.raw import Raw


def test_the_name_in_the_yaml_finds_it():
    assert find_kind("formats", "raw") is Raw
    assert Raw() == Raw.model_validate({"type": "raw"})


def test_there_is_one_binary_column(spark):
    assert Raw().columns(spark) == StructType([StructField("value", BinaryType())])


def test_every_value_stays_as_it_is_and_a_null_stays_null(spark):
    values = [b"", b"\x00\xff\xfe", b"{}", None, "größer".encode()]
    expected = [Outcome(None if value is None else {"value": value}) for value in values]
    assert outcomes(spark, Raw(), values) == expected


def test_other_columns_stay(spark):
    rows = frame(spark, [b"x"])
    decoded = Raw().decode(rows)
    assert decoded.columns == [*rows.columns, "__data", "__decoded"]
    assert decoded.drop("__data", "__decoded").collect() == rows.collect()


def test_explain_of_nothing_is_nothing_but_has_its_columns(spark):
    explained = Raw().explain(Raw().decode(frame(spark, [b"x"])).where("NOT __decoded"))
    assert explained.count() == 0
    assert explained.columns[-3:] == ["__reason", "__field", "__message"]
