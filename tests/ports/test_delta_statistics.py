"""Statistics from the footers of new files: word for word those that Delta works out from every row."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.ports.delta import delta_append, delta_table
from rivermouth.ports.internals import delta_transaction

KINDS = "tiny tinyint, small smallint, plain int, big bigint, day date, at timestamp, local timestamp_ntz"
LONG = "é" * 40
# Text that is cut, text whose cut is followed by the greatest character, and numbers that JSON writes in its own ways.
OTHERS = f"""
    VALUES (1, 'a', 1.5D, 1.5F, true, X'00', 1.50, 12345678901234567890.12, 0D),
           (2, '{LONG}', -1e300D, 1e-7F, false, X'FF', -99999.99, -1.00, 2D),
           (3, repeat('\U0010ffff', 40), double('inf'), float('-inf'), NULL, NULL, NULL, NULL, 0D),
           (4, NULL, NULL, NULL, NULL, NULL, 0.00, 0.00, NULL),
           (5, '', 0.1D, 3.4e38F, true, X'', 1.00, 100.00, NULL)
"""
OF_OTHERS = "plain, word, real, small_real, flag, bytes, money, much, zero"
# By turns the least, the greatest, and what lies before 1970 or between two milliseconds.
ROWS = """
    (-128, -32768, -2147483648, -9223372036854775808, '1583-01-01', '1583-01-01 00:00:00', '1583-01-01 00:00:00'),
    (127, 32767, 2147483647, 9223372036854775807, '9999-12-31', '9999-12-31 23:59:59.999', '9999-12-31 23:59:59.999'),
    (NULL, NULL, NULL, NULL, NULL, NULL, NULL),
    (0, 1, 2, 3, '1969-12-31', '1969-12-31 23:59:59.999999', '1969-12-31 23:59:59.000001'),
    (7, 7, 7, 7, '2026-02-28', '2026-02-28 12:34:56.789123', '2026-02-28 12:34:56.7')
"""
CASES = {
    "all": "true",
    "one": "plain = 7",
    "before 1970": "plain = 2",
    "nulls alone": "plain IS NULL",
    "some nulls": "plain IS NULL OR plain = 7",
    "none": "false",
}


def rows(spark, where="true"):
    names = [each.split()[0] for each in KINDS.split(", ")]
    types = [each.split()[1] for each in KINDS.split(", ")]
    casts = (
        f"CAST(col{place} AS {kind}) AS {name}" for place, (name, kind) in enumerate(zip(names, types, strict=True), 1)
    )
    frame = spark.sql(f"SELECT {', '.join(casts)}, 'x' AS word FROM VALUES {ROWS}")
    return frame.where(where).coalesce(1)


def made(spark, place, properties=None, partition_by=()):
    layout = delta_table.TableLayout(
        columns=rows(spark).schema,
        partition_by=partition_by,
        properties={"delta.dataSkippingStatsColumns": "tiny,small,plain,big,day,at,local", **(properties or {})},
    )
    delta_table.create(spark, str(place), layout, metadata="entry 0")
    return str(place)


def added(place, version):
    lines = (Path(place) / "_delta_log" / f"{version:020}.json").read_text().splitlines()
    adds = [json.loads(line)["add"] for line in lines if '"add"' in line]
    return [each.get("stats") for each in sorted(adds, key=lambda each: str(each["partitionValues"]))]


def appended(place, frame, *, by_footers, version=1):
    """The statistics of the files that an append adds."""
    delta_append.append(frame, place, TableTransaction("app", version, "m"), onto=version - 1, by_footers=by_footers)
    return added(place, version)


@pytest.mark.parametrize("vectors", ["false", "true"], ids=["", "deletion vectors"])
def test_they_are_those_of_delta(spark, tmp_path, vectors):
    properties = {"delta.enableDeletionVectors": vectors}
    ours, deltas = (made(spark, tmp_path / name, properties) for name in ("ours", "deltas"))
    for version, (case, where) in enumerate(CASES.items(), 1):
        frame = rows(spark, where)
        found = appended(ours, frame, by_footers=True, version=version)
        assert found == appended(deltas, frame, by_footers=False, version=version), case
        assert len(found) == (case != "none")


def test_with_partitions_and_several_row_groups_too(spark, tmp_path):
    frame = spark.range(0, 60_000, 1, 2).selectExpr(
        *(f"CAST(id % 100 AS {kind}) AS {name}" for name, kind in [("tiny", "tinyint"), ("small", "smallint")]),
        "CAST(id AS int) AS plain", "id - 30000 AS big", "DATE '2026-01-01' + CAST(id % 50 AS int) AS day",
        "timestamp_micros(id * 777777777) AS at", "CAST(NULL AS timestamp_ntz) AS local",
        "CAST(id % 2 AS string) AS word",
    )  # fmt: skip
    spark.sparkContext._jsc.hadoopConfiguration().set("parquet.block.size", "65536")
    try:
        ours = appended(made(spark, tmp_path / "a", partition_by=["word"]), frame, by_footers=True)
        deltas = appended(made(spark, tmp_path / "b", partition_by=["word"]), frame, by_footers=False)
    finally:
        spark.sparkContext._jsc.hadoopConfiguration().unset("parquet.block.size")
    assert len(ours) == 4
    assert sorted(ours) == sorted(deltas)


@pytest.mark.parametrize("written_as", ["TIMESTAMP_MILLIS", "INT96"])
def test_times_that_a_session_writes_otherwise_have_no_bounds(spark, tmp_path, written_as):
    session = spark.newSession()
    session.conf.set("spark.sql.parquet.outputTimestampType", written_as)
    [told] = appended(made(session, tmp_path / "t"), rows(session, "plain = 7"), by_footers=True)
    found = json.loads(told)
    assert "at" not in found["minValues"]
    assert "at" not in found["maxValues"]
    assert (found["minValues"]["day"], found["nullCount"]["at"]) == ("2026-02-28", 0)


def test_a_column_that_is_not_written_is_null(spark, tmp_path):
    [told] = appended(made(spark, tmp_path / "t"), rows(spark, "plain = 7").drop("at", "big"), by_footers=True)
    found = json.loads(told)
    assert (found["nullCount"]["at"], found["nullCount"]["big"], found["nullCount"]["day"]) == (1, 1, 0)
    assert not {"at", "big"} & {*found["minValues"], *found["maxValues"]}


@pytest.mark.parametrize(
    "properties",
    [{}, {"delta.columnMapping.mode": "name"}],
    ids=["a column of lists", "other names in the files"],
)
def test_what_footers_do_not_tell_delta_works_out(spark, tmp_path, properties):
    frame = rows(spark).withColumn("words", F.array("word"))
    layout = delta_table.TableLayout(columns=frame.schema, properties=properties)
    delta_table.create(spark, str(tmp_path / "ours"), layout, metadata="entry 0")
    [told] = appended(str(tmp_path / "ours"), frame, by_footers=True)
    assert json.loads(told)["numRecords"] == 5
    if not properties:
        assert json.loads(told)["nullCount"]["words"] == 0


def test_who_wants_no_statistics_gets_none(spark, tmp_path):
    session = spark.newSession()
    session.conf.set(delta_transaction.STATISTICS_CONF, "false")
    place = made(session, tmp_path / "t")
    assert appended(place, rows(session), by_footers=True) == [None]
    assert session.conf.get(delta_transaction.STATISTICS_CONF) == "false"


def test_nothing_of_it_stays_in_the_session(spark, tmp_path):
    appended(made(spark, tmp_path / "t"), rows(spark), by_footers=True)
    assert spark.conf.get(delta_transaction.STATISTICS_CONF, None) is None


def test_a_reader_finds_its_row_by_them(spark, tmp_path):
    place = made(spark, tmp_path / "t")
    for version, where in enumerate(("plain = 2", "plain = 7"), 1):
        appended(place, rows(spark, where), by_footers=True, version=version)
    assert spark.read.format("delta").load(place).where("big = 3 AND day < '1970-01-01'").count() == 1


@pytest.mark.long
def test_readers_find_every_row(spark, tmp_path):
    place = made(spark, tmp_path / "t")
    for version, number in enumerate((3, 1, 2, 5, 4), 1):
        one = spark.createDataFrame(rows(spark).collect()[number - 1 : number], rows(spark).schema).coalesce(1)
        appended(place, one, by_footers=True, version=version)
    table = spark.read.format("delta").load(place)
    asked = {
        "big = 3": 1,
        "at >= '9999-01-01'": 1,
        "day < '1970-01-01'": 2,
        "local > '1969-12-31 23:59:59'": 3,
        "plain IS NULL": 1,
    }
    counts = table.agg(*(F.count_if(F.expr(where)).alias(where) for where in asked)).first().asDict()
    assert {where: table.where(where).count() for where in asked} == counts == asked


def others(spark, where="true"):
    names = [each.strip() for each in OF_OTHERS.split(",")]
    renamed = (f"col{place} AS {name}" for place, name in enumerate(names, 1))
    frame = spark.sql(f"SELECT {', '.join(renamed)} FROM {OTHERS}").where(where)
    nested = "named_struct('word', word, 'deep', named_struct('money', money, 'flag', flag)) AS part"
    return frame.selectExpr("*", nested, "IF(plain = 4, NULL, named_struct('flag', flag)) AS flags").coalesce(1)


def test_texts_fractions_and_structs_are_those_of_delta_too(spark, tmp_path):
    places = {}
    for name in ("ours", "deltas"):
        places[name] = str(tmp_path / name)
        delta_table.create(spark, places[name], delta_table.TableLayout(columns=others(spark).schema), metadata="0")
    wheres = ("true", "plain = 1", "plain = 2", "plain = 3", "plain = 4", "plain > 3", "plain < 3")
    for version, where in enumerate(wheres, 1):
        frame = others(spark, where)
        [found] = appended(places["ours"], frame, by_footers=True, version=version)
        [delta] = appended(places["deltas"], frame, by_footers=False, version=version)
        assert found == delta, f"{where}\n{found}\n{delta}"


def test_what_parquet_keeps_no_bounds_of_has_none(spark, tmp_path):
    """NaN, and a text of more than 4 kB: nobody skips such a file."""
    place = str(tmp_path / "t")
    frame = spark.sql("SELECT double('nan') AS real, repeat('x', 5000) AS word, 1 AS plain").coalesce(1)
    delta_table.create(spark, place, delta_table.TableLayout(columns=frame.schema), metadata="0")
    [told] = appended(place, frame, by_footers=True)
    found = json.loads(told)
    assert (found["minValues"], found["maxValues"]) == ({"plain": 1}, {"plain": 1})
    assert found["nullCount"] == {"real": 0, "plain": 0}
    assert spark.read.format("delta").load(place).where("isnan(real) AND word > 'w'").count() == 1
