"""``format: jvm``: what becomes of the objects that a Java deserializer returns, and what is said otherwise."""

from __future__ import annotations

import datetime as dt
import re
from decimal import Decimal
from functools import partial, reduce
from operator import itemgetter

import pytest
from pydantic import ValidationError
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from tests.rows.formats import Outcome, frame, outcomes
from tests.rows.java_classes import jar

from rivermouth import names
from rivermouth.engine.flow import task_failures
from rivermouth.errors import DeserializerUnusable
from rivermouth.formats.jvm import Jvm
from rivermouth.ports.spark import session

NAME = "com.acme.OrderDeserializer"


@pytest.fixture(scope="module")
def known(spark, tmp_path_factory):
    """A session that somebody has given the classes of the test data to, all but one."""
    made = jar(tmp_path_factory.mktemp("java"), leave_out=("Missing",))
    spark.sql(f"ADD JAR '{made}'").collect()
    return spark


def form(schema, **settings):
    return Jvm.model_validate({"type": "jvm", "class": NAME, "schema": schema, **settings})


def failed(message):
    return Outcome(None, "DESERIALIZER_FAILED", None, message)


ORDER = "id bigint NOT NULL, amount decimal(6,2), at timestamp, tags array<string>"
AT = dt.datetime(2026, 1, 1, 0, 0, 0, 1)


@pytest.mark.long
def test_beans_records_avro_and_trees_are_rows(known):
    more = ", counts map<string,bigint>, place struct<city: string NOT NULL, street: string>, paid boolean"
    (bean,) = outcomes(known, form(ORDER + more), [b"bean"])
    order = {"id": 7, "amount": Decimal("1.50"), "at": AT, "tags": ["a", "b"], "counts": {"x": 1}, "paid": True}
    assert bean == Outcome({**order, "place": {"city": "Köln", "street": None}})
    tree = b'{"id": 9, "tags": ["x", null], "amount": 3, "more": {"a": 1}}'
    found = outcomes(known, form(ORDER), [b"avro", tree, b'{"tags": []}', b'{"more": 1}', b"empty", b"text"])
    epoch = dt.datetime(1970, 1, 1, 0, 0, 1)
    lacking = Outcome(None, "NO_DECLARED_FIELD", None, "what it returned has none of the declared columns")
    assert found == [
        Outcome({"id": 8, "amount": Decimal("2.56"), "at": epoch, "tags": ["a", "ä"]}),
        Outcome({"id": 9, "amount": Decimal("3.00"), "at": None, "tags": ["x", None]}),
        Outcome(None, "FIELD_MISSING", "id", "field id is declared NOT NULL and is null"),
        lacking,
        lacking,
        failed("it returned a string, and the schema has several columns"),
    ]
    (misspelt,) = outcomes(known, form("id bigint, amonut decimal(6,2)"), [b"bean"])
    lacks = "objects of com.acme.Order have no getter for field amonut"
    assert misspelt == Outcome(None, "FIELD_MISSING", "amonut", lacks)
    assert outcomes(known, form("s string"), [b"text", b"topic"]) == [
        Outcome({"s": "alone"}),
        Outcome({"s": "ordersRecordHeaders(headers = [], isReadOnly = false)"}),
    ]


def holds(what):
    return lambda kind: Outcome(None, "FIELD_TYPE", "x", f"field x is declared {kind} and holds {what}")


BEYOND, DIGITS = (
    holds("a value beyond its range"),
    holds("a number with more digits than that, before or after the point"),
)
FAR = holds("a time that is not in the years 1 to 9999")
CASES = {
    "tinyint": {
        "long 127": 127,
        "long 128": BEYOND,
        "double 1": holds("a floating-point number"),
        "text 1": holds("a string"),
    },
    "int": {"long 2147483647": 2**31 - 1, "long -2147483649": BEYOND, "bool true": holds("a boolean")},
    "bigint": {
        "big -9223372036854775808": -(2**63),
        "big 9223372036854775808": BEYOND,
        "decimal 1": holds("a decimal"),
    },
    "float": {
        "double 0.5": 0.5,
        "double 0.1": holds("a number that a float would round: declare double"),
        "int 3": 3.0,
    },
    "double": {
        "float 0.5": 0.5,
        "long 9007199254740993": holds("a whole number that it would round"),
        f"big 1{'0' * 400}": BEYOND,
    },
    "decimal(5,2)": {
        "decimal 1.500": Decimal("1.50"),
        "decimal 1E+2": Decimal("100.00"),
        "decimal 0E-99": Decimal("0.00"),
        "decimal 1.005": DIGITS,
        "long 1000": DIGITS,
        "decimal 1E+999999999": DIGITS,
        "decimal 1E-999999999": DIGITS,
        "double 1.5": holds("a floating-point number, which is no exact one"),
    },
    "string": {
        "text ": "",
        "text ä😀": "ä😀",
        "half ": holds("a string with half a character (a surrogate without its pair)"),
        "ints ": holds("a list"),
    },
    "binary": {"bytes ab": b"ab", "text ab": holds("a string")},
    "date": {
        "date 9999-12-31": dt.date(9999, 12, 31),
        "date +10000-01-01": FAR,
        "instant 2026-01-01T00:00:00Z": holds("an instant"),
    },
    "timestamp": {
        "instant 2026-01-01T00:00:00.000001Z": AT,
        "instant 2026-01-01T00:00:00.0000001Z": holds(
            "a time with nanoseconds, which timestamp_precision: truncate cuts off"
        ),
        "instant +1000000000-12-31T23:59:59Z": FAR,
        "local 2026-01-01T00:00:00": holds("a time without a zone"),
        "long 1": holds("a whole number"),
    },
    "timestamp_ntz": {
        "local 2026-01-01T00:00:00.000001": AT,
        "local 0000-12-31T00:00:00": FAR,
        "date 2026-01-01": holds("a date"),
    },
    "array<tinyint>": {"ints ": [1, 2], "bytes ab": holds("bytes")},
    "map<string,int>": {"twice ": holds("a key twice"), "long 1": holds("a whole number")},
}


@pytest.fixture(scope="module")
def of_each_type(known):
    """By type what became of its values, of all types in one job."""
    frames = []
    for place, (kind, cases) in enumerate(CASES.items()):
        made = form(f"x {kind}")
        told = made.explain(made.decode(frame(known, [text.encode() for text in cases])))
        value = F.when(F.col(names.DECODED), F.col(f"{names.DATA}.x")).alias(f"x{place}")
        reason = (names.DECODED, names.REASON, names.FIELD, names.MESSAGE)
        frames.append(told.select(F.lit(place).alias("kind"), names.OFFSET, *reason, value))
    rows = reduce(partial(DataFrame.unionByName, allowMissingColumns=True), frames).collect()
    found = {kind: [] for kind in CASES}
    for place, _, decoded, *told in sorted(rows, key=itemgetter(0, 1)):
        made = Outcome({"x": told[3 + place]}) if decoded else Outcome(None, *told[:3])
        found[[*CASES][place]].append(made)
    return found


@pytest.mark.parametrize("kind", CASES)
def test_a_value_is_of_its_declared_type_or_is_refused(of_each_type, kind):
    cases, found = CASES[kind], of_each_type[kind]
    expected = [each(kind) if callable(each) else Outcome({"x": each}) for each in cases.values()]
    told = [
        Outcome({"x": bytes(each.data["x"])}) if kind == "binary" and each.data is not None else each for each in found
    ]
    assert told == expected


def test_what_is_thrown_is_said_without_the_configuration(known):
    settings = {"config": {"secret": "swordfish", "batch": 1}}
    found = outcomes(known, form("x string", **settings), [b"throw", b"deep", b"utf8 ", b'{"x": 1', None])
    assert found[0] == failed(
        "java.lang.IllegalStateException: no such order, said ***; caused by java.lang.RuntimeException: cause"
    )
    assert found[1] == failed("java.lang.StackOverflowError")
    assert found[2] == Outcome(None, "INVALID_UTF8", "x", "a string is not valid UTF-8")
    assert found[3].reason == "DESERIALIZER_FAILED"
    assert found[4] == Outcome(None)
    assert "swordfish" not in repr(form("x string", **settings))


def test_null_leaves_the_record_out_and_the_value_stays_as_it_is(known):
    decoded = form("x string").decode(frame(known, [b"null", b"text", None]))
    found = decoded.select(names.DECODED, f"{names.VERDICT}.skipped", names.VALUE).collect()
    assert [tuple(row) for row in found] == [(True, True, b"null"), (True, False, b"text"), (True, False, None)]


def test_a_missing_class_ends_the_job(known):
    decoded = form("x string").decode(frame(known, [b"text", b"lost"])).where(F.col(names.DECODED))
    with pytest.raises(Exception, match="RIVERMOUTH_DESERIALIZER_LOST") as caught:
        decoded.collect()
    assert str(task_failures.failure(str(caught.value))) == (
        "[DESERIALIZER_LOST] a task of Spark cannot use deserializer com.acme.OrderDeserializer: "
        "java.lang.NoClassDefFoundError: com/acme/Missing; the batch was not written\n"
        "  hint: name all jars that it needs, jars: [...], or give them to the session: --jars"
    )


@pytest.mark.parametrize(
    ("settings", "detail", "fix"),
    [
        (
            {"class": "com.acme.Order"},
            "it has no public constructor without arguments",
            "correct class, config or jars of the format",
        ),
        (
            {"class": "java.util.ArrayList"},
            "it is no org.apache.kafka.common.serialization.Deserializer",
            "correct class, config or jars of the format",
        ),
        (
            {"config": {"refused": "swordfish"}},
            "its configure() threw java.lang.IllegalArgumentException: not with ***",
            "correct class, config or jars of the format",
        ),
        (
            {"class": "com.acme.None"},
            "no jar of the session has the class",
            "name the jar that has it: jars: [orders.jar]",
        ),
        ({"jars": ["none.jar"]}, "there is no file none.jar", "put it there, or correct jars: [...]"),
    ],
)
def test_a_class_that_cannot_be_used(known, settings, detail, fix):
    made = form("x string", **settings)
    with pytest.raises(DeserializerUnusable) as caught:
        made.columns(session.for_flow(known))
    expected = f"[DESERIALIZER_UNUSABLE] deserializer {made.class_name} cannot be used: {detail}; nothing was run"
    assert str(caught.value) == f"{expected}\n  hint: {fix}"


def test_a_session_without_the_jars(spark, tmp_path):
    (tmp_path / "a.jar").touch()
    made = form("x string", jars=["a.jar"], **{"class": "com.acme.Nobody"}).with_base_dir(tmp_path)
    with pytest.raises(DeserializerUnusable) as caught:
        made.columns(spark)
    assert str(caught.value) == (
        "[DESERIALIZER_UNUSABLE] deserializer com.acme.Nobody cannot be used: its jars are not in this session, which "
        f"was started without them; nothing was run\n  hint: start it with --jars {tmp_path}/a.jar"
    )


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("x variant", "column x: no values of Java become type variant"),
        ("x map<double,int>", "column x: the keys of a map are no double"),
        ("x array<map<struct<a: int>,int>>", "column x[]: the keys of a map are no struct<a:int>"),
    ],
)
def test_types_that_java_has_no_values_for(schema, message):
    with pytest.raises(ValueError, match=re.escape(message)):
        form(schema).schema_as_declared()


@pytest.mark.parametrize("file", ["s3a://bucket/a.jar", "classes", "com.acme:orders:1.0"])
def test_jars_are_files(file):
    with pytest.raises(ValidationError, match=f"with the ending .jar, and {file} is none"):
        form("x int", jars=[file])
