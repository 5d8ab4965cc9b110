"""``from_json`` by our reader has the same rows as by Spark's own, whatever the documents are."""

from __future__ import annotations

import re

import pytest
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T
from pyspark.sql.classic.dataframe import DataFrame
from tests.laws.gathering import gathered
from tests.laws.test_json_law import FEW_MIXED, KINDS, MIXED, REFUSING, SCALARS, STRINGS, TIMES

from rivermouth.decoding.jvm.java_objects import java_class, java_frame
from rivermouth.pipelines.session.pipeline_session import PipelineSession
from rivermouth.ports.internals import sessions

DDL = (
    "flag boolean, tiny tinyint, small smallint, whole int, big bigint, real float, dbl double, "
    "price decimal(10,2), exact decimal(38,18), note string, bytes binary, day date, at timestamp, "
    "local timestamp_ntz, must int NOT NULL, deep struct<tiny:tinyint,at:timestamp,note:string>, "
    "items array<struct<price:decimal(10,2),day:date>>, tags array<string>, "
    "counts map<string,tinyint>, times map<string,array<timestamp>>, ratios array<struct<d:map<string,double>>>"
)
ZONE = "spark.sql.session.timeZone"
POLICY = "spark.sql.legacy.timeParserPolicy"
BY_HAND = (
    *(
        "",
        " ",
        "{}",
        " {} ",
        "[]",
        "[{}]",
        "null",
        "1",
        '"a"',
        '{"note":"a"} {"note":"b"}',
        '{"note":"a"}x',
        "{",
        '{"note"',
    ),
    *(
        '{"note":1}',
        '{"note":1.10}',
        '{"note":true}',
        '{"note":{"b":1.0,  "a":[ ]}}',
        '{"note":null}',
        '{"note":"null"}',
    ),
    *('{"note":"a","note":"b"}', "{'note':'a'}", '{"Note":"a"}', '{"note":"\\ud83d\\ude00"}', '{"note":"\\ud83d"}'),
    *('{"tiny":200}', '{"tiny":-128}', '{"big":9223372036854775808}', '{"dbl":"NaN"}', '{"dbl":NaN}', '{"dbl":-0.0}'),
    *(
        '{"dbl":-0}',
        '{"price":"12.345"}',
        '{"price":12.345}',
        '{"price":"12.34"}',
        '{"price":1e2}',
        '{"price":123456789.1}',
    ),
    *(
        '{"day":"2026-1-5"}',
        '{"day":"2026-01-05"}',
        '{"day":19000}',
        '{"at":"2026-01-05"}',
        '{"at":"2026-01-05T10:00:00"}',
    ),
    *(
        '{"at":"2026-01-05T10:00:00.123456789Z"}',
        '{"at":1767225600}',
        '{"local":"2026-01-05T10:00:00Z"}',
        '{"deep":[]}',
    ),
    *(
        '{"deep":{"tiny":1,"x":2}}',
        '{"tags":"a"}',
        '{"tags":["a",1,null]}',
        '{"counts":{"a":1,"a":2}}',
        '{"items":[null,{}]}',
    ),
    *(
        '{"at":"2026-01-31T10:00Z"}',
        '{"at":"2026-01-31T10:00-03:00"}',
        '{"at":"2026-01-31T10:00"}',
        '{"local":"2026-01-31T10:00"}',
    ),
    *(
        '{"at":"2026-03-29T03:30:00+02:00[Europe/Berlin]"}',
        '{"at":"2026-03-29T03:30:00Z[UTC]"}',
        '{"whole":5,"tags":[1,tru]}',
    ),
    *(
        '{"whole":5,"day":"2026-01-05abc"}',
        '{"note":"a","more":tru}',
        '{"a\tb":1}',
        '{"a\\tb":1}',
        '{"whole":5,"tags":["a"',
    ),
    *('{"note":"a"', '\ufeff{"note":"a"}', '{"note":"a\nb"}', '{"whole":1,}', '{"whole":01}', '{"whole":1 /* no */}'),
)


# One field each, so that no other one hides what becomes of it.
ONE = st.tuples(
    st.sampled_from(re.findall(r"(?:^|, )(\w+) ", DDL)),
    SCALARS | TIMES.map('"{}"'.format) | STRINGS.filter(str.isascii).map('["{}"]'.format),
    st.sampled_from(["}", "}", "}", "", ",}", ',"x":[tru]}']),
).map(lambda parts: f'{{"{parts[0]}":{parts[1]}{parts[2]}'.encode())
EXACT = "to_json(struct({} AS it), map('ignoreNullFields', 'false'))"
"""A value as a text with each digit, of a query that names it once: Spark then leaves out the other fields."""
PARTS = {
    "row": (["CAST(row AS STRING)", EXACT.format("row")], "true"),
    "a field": ([EXACT.format("row.at")], "true"),
    "another": ([EXACT.format("row.whole")], "true"),
    "two fields": ([EXACT.format("struct(row.whole AS w, row.tags AS t)")], "true"),
    "a filter": ([EXACT.format("row.note")], "row.whole > 0 OR row.note IS NOT NULL"),
    "in a function": ([EXACT.format("transform(array(t, t), x -> from_json(x, 'note string, at timestamp'))")], "true"),
}


@pytest.fixture(scope="module")
def both(spark):
    """A session without our reader, and a clone of one of a pipeline, as its streams have it."""
    plain = SparkSession(spark.sparkContext, sessions.new_session(spark))
    found = plain, sessions.cloned(PipelineSession(spark, None))
    for session in found:
        session.conf.set("spark.sql.maxPlanStringLength", "100000")
        # A stream is collected here as its batches are.
        session.conf.set("spark.sql.streaming.unsupportedOperationCheck", "false")
    return found


@pytest.mark.parametrize(
    ("strategy", "number", "zone"),
    [
        (MIXED | ONE, FEW_MIXED, "UTC"),
        *(
            pytest.param(strategy, number, zone, marks=pytest.mark.long)
            for strategy, number in (*((one, number) for one, number, _ in REFUSING), (ONE, 3000))
            for zone in ("UTC", "Asia/Kolkata")
        ),
    ],
    ids=["mixed", *(f"{kind} {zone}" for kind in (*KINDS, "one") for zone in ("UTC", "zone"))],
)
def test_rows_are_those_of_spark(both, strategy, number, zone):
    values = [*gathered(strategy, number), *(each.encode() for each in BY_HAND)]
    assert_equal(both, values, {ZONE: zone})


@pytest.mark.long
def test_settings_of_parsers_and_odd_fields_leave_it_to_spark(both):
    values = [each.encode() for each in BY_HAND]
    for policy in ("EXCEPTION", "LEGACY"):
        assert_equal(both, [b'{"note":"a","at":"2026-01-05T10:00:00Z"}'], {POLICY: policy}, fast=False)
    assert_equal(both, values, {"spark.sql.json.enablePartialResults": "false"}, fast=False)
    default = T.StructType([T.StructField("whole", T.IntegerType(), metadata={"EXISTS_DEFAULT": "5"})])
    ddls = ("`a\\tb` INT", "v VARIANT", "whole INT, _corrupt_record STRING", "c STRING COLLATE UTF8_LCASE")
    twice = T.StructType([*T.StructType.fromDDL("whole INT"), *T.StructType.fromDDL("whole INT")])
    for schema in (default, twice, *map(T.StructType.fromDDL, ddls)):
        assert_equal(both, values, {}, ("row",), schema=schema, fast=False)
    texts = both[1].createDataFrame([('{"whole":1}',)], "t string")
    assert not is_ours(streamed(texts).select(F.from_json("t", "whole int", {"mode": "FAILFAST"})))
    # Batches are left to Spark.
    assert not is_ours(texts.select(F.from_json("t", "whole int")))


def test_batches_of_a_stream_have_it(both, tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.txt").write_text('{"whole":1}\n')
    stream = both[1].readStream.text(str(tmp_path / "in")).select(F.from_json("value", "whole int").alias("row"))
    writer = stream.writeStream.format("noop").option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    plan = query._jsq.streamingQuery().lastExecution().optimizedPlan().toString()
    assert "invoke(from_json" in plan


def test_usual_documents_are_read_by_our_reader(spark):
    values = [
        b'{"flag":true,"big":5,"dbl":1.5,"price":12.5,"note":"a","day":"2026-01-05","at":"2026-01-05T10:00:00Z"}',
        b' {"deep": {"tiny": 1, "note": null}, "tags": ["a", "b"], "counts": {"a": 1}, "more": [1, {"x": null}]} ',
        b'{"note":1}',
    ]
    schema = java_class(spark, "org.apache.spark.sql.types.DataType").fromJson(T.StructType.fromDDL(DDL).json())
    reader = java_class(spark, "rivermouth.json.SureRows")(schema, True)
    assert [reader.read(each) is not None for each in values] == [True, True, False]


def assert_equal(both, values, conf, parts=tuple(PARTS), *, schema=DDL, fast=True):
    """Each part of the rows is the same by Spark's parser and by our reader, which has or has not read it."""
    found = []
    for session, ours in zip(both, (False, fast), strict=True):
        found.append([texts(session, values, conf, part, schema, ours) for part in parts])
    for part, one, other in zip(parts, *found, strict=True):
        wrong = [each for each in zip(values, one, other, strict=True) if each[1] != each[2]]
        assert wrong[:5] == [], part


def texts(session, values, conf, part, schema, ours):
    with sessions.settings(session, conf):
        sent = session.createDataFrame([*enumerate(values)], "n int, value binary").selectExpr(
            "n", "CAST(value AS STRING) AS t"
        )
        what, where = PARTS[part]
        parsed = streamed(sent).select("n", "t", F.from_json("t", schema).alias("row"))
        rows = parsed.where(where).selectExpr("n", *what)
        assert is_ours(rows) == ours, part
        found = {row[0]: tuple(row)[1:] for row in rows.collect()}
        return [found.get(number) for number in range(len(values))]


def streamed(rows):
    """The same rows as a batch of a stream has them."""
    java = java_frame(rows)
    session = rows.sparkSession._jsparkSession
    return DataFrame(
        session.internalCreateDataFrame(java.queryExecution().toRdd(), java.schema(), True), rows.sparkSession
    )


def is_ours(rows):
    return "invoke(from_json" in java_frame(rows).queryExecution().optimizedPlan().toString()
