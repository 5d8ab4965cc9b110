"""Which declared types a table's column may become."""

import pytest
from pyspark.sql.types import (
    ByteType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    MapType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
    _parse_datatype_string,
)

from rivermouth.ports.internals import delta_snapshot
from rivermouth.schemas.type_widening import takes, widens

WIDER = [
    (ByteType(), ShortType()),
    (IntegerType(), LongType()),
    (IntegerType(), DoubleType()),
    (FloatType(), DoubleType()),
    (IntegerType(), DecimalType(10, 0)),
    (LongType(), DecimalType(20, 0)),
    (DecimalType(10, 2), DecimalType(12, 2)),
    (DecimalType(10, 2), DecimalType(12, 4)),
    (MapType(IntegerType(), ShortType()), MapType(LongType(), IntegerType())),
]
NOT_WIDER = [
    (IntegerType(), IntegerType()),
    (LongType(), IntegerType()),
    (LongType(), DoubleType()),
    (DoubleType(), FloatType()),
    (IntegerType(), StringType()),
    (IntegerType(), DecimalType(9, 0)),
    (DecimalType(10, 2), DecimalType(12, 5)),
    (DecimalType(10, 2), DecimalType(10, 2)),
    (DateType(), TimestampType()),
    (DateType(), TimestampNTZType()),
]


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_a_type_that_holds_every_value_of_the_old_one_is_wider(old, new):
    assert widens(old, new)


@pytest.mark.parametrize(("old", "new"), NOT_WIDER)
def test_the_same_a_narrower_or_another_type_is_not(old, new):
    assert not widens(old, new)


STRUCT = "struct<a: int, b: array<float>>"
TAKEN = [
    ("bigint", "bigint"),
    ("int", "bigint"),
    ("void", "int"),
    ("boolean", "string"),
    ("decimal(5,2)", "string"),
    ("date", "timestamp"),
    ("timestamp_ntz", "timestamp"),
    ("string", "varchar(5)"),
    (STRUCT, "struct<c: string, b: array<double>, A: bigint>"),
    ("map<string, date>", "map<string, timestamp>"),
]
NOT_TAKEN = [
    ("bigint", "int"),
    ("bigint", "double"),
    ("string", "int"),
    ("boolean", "int"),
    ("timestamp", "date"),
    ("binary", "string"),
    ("double", "decimal(10,2)"),
    (STRUCT, "struct<a: int>"),
    (STRUCT, "string"),
    ("array<string>", "array<int>"),
]


def test_a_column_takes_what_it_can_hold_unchanged(spark):
    said = {
        (brought, column): takes(_parse_datatype_string(column), _parse_datatype_string(brought))
        for brought, column in (*TAKEN, *NOT_TAKEN)
    }
    assert said == {**dict.fromkeys(TAKEN, True), **dict.fromkeys(NOT_TAKEN, False)}


@pytest.mark.parametrize(("old", "new"), WIDER)
def test_delta_widens_what_the_rule_says(spark, tmp_path, old, new):
    from pyspark.sql.types import StructField, StructType

    from rivermouth.ports.delta import delta_ddl, delta_table

    location = str(tmp_path / "t")
    delta_table.create(spark, location, delta_table.TableLayout(StructType([StructField("c", old)])), metadata="{}")
    delta_ddl.alter(spark, location, added=[StructField("n", StringType())], widened=[StructField("c", new)])
    columns = delta_snapshot.table_state(spark, location).columns
    assert {field.name: field.dataType for field in columns} == {"c": new, "n": StringType()}
