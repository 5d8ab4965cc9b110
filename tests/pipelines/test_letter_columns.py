"""Dead letters whose query has other columns than before: each keeps the values that its row had."""

from __future__ import annotations

import datetime as dt

import pytest
from pyspark.sql import types as T
from tests.pipelines.conftest import refusal

from rivermouth.cli.main import invoke
from rivermouth.pipelines import dead_letters
from rivermouth.side_tables.row_dead_letters import united

SMALL = "CONSTRAINT small EXPECT (amount < {most}) ON VIOLATION DEAD LETTER"
SCHEMA = "schema => 'id INT, amount INT, day STRING'"
ORDERS = "CREATE STREAMING TABLE orders ({small}) AS SELECT {columns} FROM STREAM read_files('{folder}', {given});"
BOTH = """
CREATE STREAMING TABLE both (id STRING, amount BIGINT, {small});
CREATE FLOW numbers AS INSERT INTO both SELECT id, amount FROM STREAM read_files('{folder}', {given});
CREATE FLOW texts AS INSERT INTO both SELECT concat(day, id) AS id, amount FROM STREAM read_files('{folder}', {given});
"""
COLUMNS = (
    "id, amount",
    "amount, id",
    "amount, id, day, named_struct('a', id, 'b', amount) AS pair",
    "named_struct('b', amount, 'a', id) AS pair, id, amount",
)
OTHER_TYPES = "concat(day, id) AS id, amount, array(named_struct('at', timestamp'2026-01-01 00:00:00.123456')) AS pair"

JSON_OF_REPLAYED = (
    '{"id":0,"amount":500,"day":null,"pair":null}',
    '{"id":1,"amount":501,"day":null,"pair":null}',
    '{"id":2,"amount":502,"day":"d","pair":{"a":2,"b":502}}',
)
AT = dt.datetime(2026, 1, 1, 0, 0, 0, 123456, dt.UTC)


def define(folder, text, most=100, columns=""):
    small = SMALL.format(most=most)
    given = f"format => 'json', {SCHEMA}"
    folder.write("src/a.sql", text.format(small=small, columns=columns, folder=folder.folder / "in", given=given))


def letters(folder, name):
    return folder.rows(f"default.{name}__dead_letters", "entry, status, row")


@pytest.mark.long
def test_letters_keep_their_values_when_the_columns_of_the_query_move_come_go_or_have_other_types(folder, capsys):
    for number, columns in enumerate(COLUMNS):
        define(folder, ORDERS, columns=columns)
        folder.feed(f"in/{number}.json", {"id": number, "amount": 500 + number, "day": "d"})
        assert folder.run()["orders"].counts.dead_lettered == 1
    nothing = {"day": None, "pair": None}
    rows = [
        {"id": 0, "amount": 500, **nothing},
        {"id": 1, "amount": 501, **nothing},
        {"id": 2, "amount": 502, "day": "d", "pair": {"a": 2, "b": 502}},
        {"id": 3, "amount": 503, "day": None, "pair": {"a": 3, "b": 503}},
    ]
    assert letters(folder, "orders") == [(number, "open", row) for number, row in enumerate(rows)]
    define(folder, ORDERS, most=503, columns=COLUMNS[3])
    (done,) = dead_letters.replayed(folder.pipeline(), ["orders"])
    assert (done.tried, done.replayed) == (4, 3)
    in_table = [(row["id"], row["amount"], row["day"], row["pair"]) for row in rows]
    assert folder.rows("default.orders", "id, amount, day, pair") == in_table[:3]

    define(folder, ORDERS, most=503, columns=OTHER_TYPES)
    assert folder.run(full_refresh=("orders",))["orders"].counts.dead_lettered == 1
    found = folder.rows("default.orders__dead_letters", "status, row IS NULL, older_row")
    assert found[:4] == [
        ("discarded", True, '{"id":3,"amount":503,"day":null,"pair":{"a":3,"b":503}}'),
        ("open", False, None),
        *(("replayed", True, text) for text in JSON_OF_REPLAYED[:2]),
    ]
    assert folder.rows("default.orders") == [(f"d{number}", 500 + number, [{"at": AT}]) for number in range(3)]
    capsys.readouterr()
    place = str(folder.folder / "pipeline.yml")
    assert invoke(["dead-letters", "show", "orders", "--status", "all", "--file", place]) == 0
    shown = [line.strip() for line in capsys.readouterr().out.splitlines() if line.startswith("  row: ")]
    assert shown == [
        *(f"row: {text}" for text in JSON_OF_REPLAYED),
        'row: {"id":3,"amount":503,"day":null,"pair":{"a":3,"b":503}}',
        'row: {"id":"d3","amount":503,"pair":[{"at":"2026-01-01T00:00:00.123456Z"}]}',
    ]


def test_letters_of_flows_with_other_types_than_their_table_are_replayed(folder):
    define(folder, BOTH)
    folder.feed("in/1.json", {"id": 1, "amount": 500, "day": "d"})
    assert folder.run()["both"].counts.dead_lettered == 2
    assert [row for *_, row in letters(folder, "both")] == [{"id": each, "amount": 500} for each in ("1", "d1")]
    define(folder, BOTH, most=501)
    (done,) = dead_letters.replayed(folder.pipeline(), ["both"])
    assert (done.tried, done.replayed) == (2, 2)
    assert folder.rows("default.both") == [("1", 500), ("d1", 500)]


REFUSED = """
CREATE STREAMING TABLE short (id INT, name VARCHAR(5), amount INT, {small}{more})
AS SELECT id, day AS name, amount FROM STREAM read_files('{folder}', {given});
CREATE STREAMING TABLE times (id INT, at TIMESTAMP, amount INT, {small})
AS SELECT id, CAST(day AS {columns}) AS at, amount FROM STREAM read_files('{folder}', {given});
"""
NOT_TAKEN = (
    "[LETTERS_NOT_TAKEN] 2 dead letters of short that meet its expectations are not replayed, as their rows could "
    "not all be written: {}; they are open again, and none was written\n"
    "  hint: rivermouth dead-letters replay short; where its table does not take such rows, give short an expectation "
    "that says so"
)
OF_OTHER_TYPES = (
    "[LETTERS_OF_OTHER_TYPES] dead letters of times are kept as JSON (2), as their columns had types that do not go "
    "with those of now, and are not replayed; they stay open\n"
    "  hint: rivermouth dead-letters show times, then discard; or rivermouth run --full-refresh times"
)


@pytest.mark.long
def test_letters_that_their_table_does_not_take_or_that_are_kept_as_json_stay_open(folder, capsys):
    def defined(**others):
        texts = {"most": 100, "columns": "TIMESTAMP", "more": "", **others}
        define(folder, REFUSED.replace("{more}", texts["more"]), most=texts["most"], columns=texts["columns"])

    defined()
    folder.feed("in/1.json", *({"id": n, "amount": 500, "day": day} for n, day in ((1, "2026-01-01"), (2, "2026"))))
    assert {each.counts.dead_lettered for each in folder.run().values()} == {2}
    defined(most=501)
    for _ in range(2):
        told = refusal(lambda: dead_letters.replayed(folder.pipeline(), ["short"]))
        assert told.startswith(NOT_TAKEN.partition("{}")[0])
        assert told.endswith(NOT_TAKEN.partition("{}")[2])
        assert "2026-01-01" not in told
        assert [status for _, status, _ in letters(folder, "short")] == ["open"] * 2
    long = ", CONSTRAINT fits EXPECT (length(name) <= 5) ON VIOLATION DEAD LETTER"
    defined(most=501, more=long)
    (done,) = dead_letters.replayed(folder.pipeline(), ["short"])
    assert (done.tried, done.replayed, done.left) == (2, 1, ())
    assert folder.rows("default.short", "id, name") == [(2, "2026")]

    defined(columns="DATE", more=long)
    folder.feed("in/2.json", {"id": 3, "amount": 500, "day": "2026"})
    assert folder.run(refresh=("times",))["times"].counts.dead_lettered == 1
    defined(columns="DATE", most=501, more=long)
    capsys.readouterr()
    place = str(folder.folder / "pipeline.yml")
    assert invoke(["dead-letters", "replay", "times", "--file", place]) == 0
    told = OF_OTHER_TYPES.replace(" show ", f" show -f {place} ").replace(" run ", f" run -f {place} ")
    assert capsys.readouterr().out == f"times: 1 dead letter tried, 1 in the table\n{told}\n"
    assert refusal(lambda: dead_letters.replayed(folder.pipeline(), ["times"])) == OF_OTHER_TYPES


INT, LONG, FLOAT, DOUBLE, TEXT = T.IntegerType(), T.LongType(), T.FloatType(), T.DoubleType(), T.StringType()
PAIR = T.StructType().add("a", INT).add("b", TEXT)


@pytest.mark.parametrize(
    ("there", "wanted", "both"),
    [
        (INT, LONG, LONG),
        (LONG, INT, LONG),
        (INT, FLOAT, DOUBLE),
        (FLOAT, INT, DOUBLE),
        (LONG, FLOAT, None),
        (DOUBLE, LONG, None),
        (TEXT, LONG, None),
        (LONG, TEXT, None),
        (TEXT, T.NullType(), TEXT),
        (TEXT, T.BinaryType(), None),
        (T.DateType(), T.TimestampType(), None),
        (T.TimestampType(), T.DateType(), None),
        (T.TimestampType(), T.TimestampNTZType(), None),
        (T.DecimalType(10, 2), T.DecimalType(12, 4), T.DecimalType(12, 4)),
        (T.DecimalType(10, 4), T.DecimalType(12, 2), None),
        (PAIR, T.StructType().add("c", INT).add("B", TEXT), T.StructType().add("a", INT).add("b", TEXT).add("c", INT)),
        (PAIR, T.StructType().add("b", TEXT).add("a", LONG), T.StructType().add("a", LONG).add("b", TEXT)),
        (PAIR, T.StructType().add("a", TEXT), None),
        (
            T.ArrayType(PAIR),
            T.ArrayType(T.StructType().add("c", INT)),
            T.ArrayType(T.StructType([*PAIR, T.StructField("c", INT)])),
        ),
        (T.ArrayType(INT), T.ArrayType(TEXT), None),
        (T.MapType(TEXT, INT), T.MapType(TEXT, LONG), T.MapType(TEXT, LONG)),
        (T.MapType(INT, INT), T.MapType(TEXT, INT), None),
        (TEXT, T.ArrayType(INT), None),
    ],
    ids=lambda kind: kind if kind is None else kind.simpleString(),
)
def test_a_type_for_the_values_of_before_and_of_now(there, wanted, both):
    assert united(there, wanted) == both
