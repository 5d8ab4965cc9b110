"""Records that a query decodes by the formats of flows: rows, and dead letters with the reasons of flows."""

import pytest
from confluent_kafka import Producer

from rivermouth.cli.letter_text import row_json, row_text
from rivermouth.cli.main import invoke
from rivermouth.domain.query.query_entry import QueryCounts
from rivermouth.errors import DefinitionInvalid
from rivermouth.pipelines import commands, dead_letters
from rivermouth.pipelines.audit import audited

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from rivermouth.pipelines import decode

RECORDS = "topic string, partition int, offset bigint, timestamp timestamp, key string, value string"
JSON = {"type": "json", "schema": "id bigint, total double"}

def records():
    stream = spark.readStream.schema(RECORDS).option("maxFilesPerTrigger", 1).json("in")
    return stream.withColumns({name: F.col(name).cast("binary") for name in ("key", "value")})

@dp.table
@dp.expect_or_dead_letter("cheap", "total < 100")
@dp.expect_or_drop("counted", "id <> 9")
def orders():
    return decode(records(), format=JSON)

@dp.temporary_view
def changes():
    return decode(records(), JSON, metadata_columns=["kafka_offset"], null_values="dead_letter")

dp.create_streaming_table("newest")
dp.create_auto_cdc_flow(target="newest", source="changes", keys=["id"], sequence_by="kafka_offset")

@dp.table
def sums():
    return spark.readStream.table("changes").where("total > 0").groupBy("id").agg(F.count("*").alias("n"))
"""
VALUES = ['{"id": 1, "total": 1.5}', '{"id": "x"}', "nothing", None, '{"id": 2, "total": 200}', '{"id": 9}']


STEPS = ("check", "write", "written", "dead_letters")


def feed(folder, number, values=VALUES):
    rows = [
        {"topic": "orders", "partition": 0, "offset": 10 * number + place, "timestamp": "2026-01-01T00:00:00Z"}
        | {"key": f"k{place}", "value": value}
        for place, value in enumerate(values)
    ]
    folder.feed(f"in/{number}.json", *rows)


def letters(folder, table):
    """Of the refused records where they are, why they were refused and what they hold; of rows their total."""
    columns = "kafka_offset, reason, field, kafka_value, kafka_key, \"row\"['total']"
    return sorted(
        folder.rows(f"default.{table}__dead_letters", columns if table == "orders" else columns.rpartition(",")[0]),
        key=repr,
    )


def refused(number, *, nulls=False):
    found = [
        (10 * number + 1, "FIELD_TYPE", "id", b'{"id": "x"}', b"k1"),
        (10 * number + 2, "INVALID_JSON", None, b"nothing", b"k2"),
    ]
    return [*found, (10 * number + 3, "NULL_VALUE", None, None, b"k3")] if nulls else found


def texts(found):
    return {name: each.error and str(each.error) for name, each in found.items()}


@pytest.mark.long
def test_rows_dead_letters_and_counts_are_those_of_a_flow_and_there_once(folder, capsys, monkeypatch):
    folder.write("src/a.py", PYTHON)
    feed(folder, 0)
    found = folder.run()
    assert texts(found) == dict.fromkeys(found)
    assert found["orders"].counts == QueryCounts(6, 1, 1, 4, expectations={"cheap": 2, "counted": 1})
    assert found["newest"].counts == QueryCounts(6, 3, 0, 3)
    assert found["sums"].counts == QueryCounts(5, 2, 0, 3)
    for number, step in enumerate(STEPS, 1):
        feed(folder, number)

        def end(name, step=step):
            if name == step:
                raise RuntimeError(step)

        assert {each.result for each in folder.run(step=end).values()} == {"failed"}, step
    found = folder.run()
    assert texts(found) == dict.fromkeys(found)
    numbers = range(len(STEPS) + 1)
    assert folder.rows("default.orders", "id, total, kafka_topic, kafka_offset") == [
        (1, 1.5, "orders", 10 * number) for number in numbers
    ]
    rows = [(None, "EXPECTATION", None, None, None, total) for total in (200.0, None) for _ in numbers]
    given = [(*each, None) for number in numbers for each in refused(number)]
    assert letters(folder, "orders") == sorted([*rows, *given], key=repr)
    with_nulls = sorted((each for number in numbers for each in refused(number, nulls=True)), key=repr)
    assert letters(folder, "newest") == letters(folder, "sums") == with_nulls
    assert folder.rows("default.newest", "id, total, kafka_offset") == [(1, 1.5, 40), (2, 200.0, 44), (9, None, 45)]
    assert folder.rows("default.sums", "id, n") == [(1, 5), (2, 5)]
    assert {each.problems for each in audited(folder.pipeline())} == {()}
    assert_commands(folder, capsys, monkeypatch)


def assert_commands(folder, capsys, monkeypatch):
    """Dead letters are listed by their reasons, and shown with the records; none passes now."""
    pipeline, many = folder.pipeline(), len(STEPS) + 1
    groups = dead_letters.listed(pipeline, ["orders"], dead_letters.LetterFilter())
    assert {(each.reason, each.field, each.failed_expectations): each.letters for each in groups} == {
        ("FIELD_TYPE", "id", ()): many,
        ("INVALID_JSON", None, ()): many,
        ("EXPECTATION", None, ("cheap",)): many,
        ("EXPECTATION", None, ("cheap", "counted")): many,
    }
    wanted = dead_letters.LetterFilter(reason="FIELD_TYPE", topic="orders")
    [first, *others] = dead_letters.shown(pipeline, ["orders"], wanted, limit=many)
    assert (len(others), first.row, first.entry) == (many - 1, None, 0)
    assert row_text(first) == (
        "orders: flow orders, ledger entry 0, open\n"
        f"  decode: FIELD_TYPE in id: {first.record.message}\n"
        f"  orders partition 0 offset 1, dead-lettered {first.dead_lettered_at:%Y-%m-%d %H:%M:%S} UTC\n"
        "  key:   k1\n"
        '  value: {"id": "x"}'
    )
    body = row_json(first)
    assert (body["row"], body["record"]["value"], body["record"]["key_base64"]) == (None, '{"id": "x"}', "azE=")
    [replayed] = dead_letters.replayed(pipeline, ["orders"])
    assert (replayed.tried, replayed.replayed, replayed.remaining, replayed.left) == (4 * many, 0, 4 * many, ())
    monkeypatch.chdir(folder.folder)
    assert invoke(["dead-letters", "replay", "orders", "--dry-run"]) == 0
    would = f"orders: {4 * many} dead letters tried, 0 would be in the table, {4 * many} still fail\n"
    assert capsys.readouterr().out == would
    assert dead_letters.discarded(pipeline, ["newest"]) == {"newest": 3 * many}
    assert invoke(["dead-letters", "discard", "newest", "--reason", "FIELD_TYPE"]) == 2
    assert "--reason is about flows; dead letters of a pipeline are chosen by --expectation." in capsys.readouterr().err


AT = "; the pipeline was not run\n  at: src/a.py:{line}\n  hint: "
WRONG = (
    (
        "decode(records(), JSON, evolution={})",
        "it has no setting evolution",
        "known: compression, explode, format, key_format, metadata_columns, null_values, select",
    ),
    (
        "decode(records().select('value'), JSON)",
        "the frame has no column key, which records of Kafka have",
        "give it what spark.readStream.format('kafka') returns",
    ),
    (
        "decode(spark.read.schema(RECORDS).json('in'), JSON)",
        "the frame is no stream",
        "read the records with spark.readStream, or STREAM read_kafka(...)",
    ),
    (
        "decode(records().dropDuplicates(['key']), JSON)",
        "the query before it keeps state, so its records cannot be read again",
        "decode the records first, and aggregate their columns",
    ),
    (
        "(lambda rows: rows.union(rows))(decode(records(), JSON))",
        "the query uses its rows twice, and each refused record would be counted twice",
        "decode in a table of its own, and read that table",
    ),
    (
        "decode(records(), {'type': 'json', 'schema': 'infer'})",
        "its columns would be inferred or grow, and those of a query are fixed",
        "write the schema that `rivermouth schema` shows, and no evolution",
    ),
    ("decode(records(), 'jsn')", "unknown format 'jsn'", "did you mean 'json'?"),
    (
        "decode(records(), JSON, null_values='forget')",
        "null_values: 'forget' is none of drop, keep, dead_letter",
        "known: dead_letter, drop, keep",
    ),
)
OUTSIDE = "ROWS = decode(records(), JSON)\n@dp.table\ndef t():\n    return ROWS\n"
SINK = """
dp.create_sink("out", "delta", {"path": "out"})

@dp.append_flow(target="out")
def copied():
    return decode(records(), JSON)
"""


def test_what_cannot_be_decoded_is_refused_at_its_line(folder):
    head = PYTHON.partition("@dp.table")[0]
    feed(folder, 0)

    def said(code):
        folder.write("src/a.py", head + code)
        with pytest.raises(DefinitionInvalid) as refused:
            commands.validate(folder.pipeline())
        return str(refused.value)

    for code, detail, fix in WRONG:
        at = AT.format(line=13 if "lambda" in code else 15)  # of what is made of its rows the line of the table
        wanted = f"[DEFINITION_INVALID] decode of orders: {detail}{at}{fix}"
        assert said(f"@dp.table\ndef orders():\n    return {code}\n") == wanted
    assert said(OUTSIDE) == (
        f"[DEFINITION_INVALID] decode: it is called outside of a query{AT.format(line=13)}"
        "call it in the function that returns the rows of a dataset"
    )
    assert said(SINK) == (
        "[DEFINITION_INVALID] flow copied: sink out has no dead letters, and its query decodes records"
        f"{AT.format(line=16)}decode in a table, and let the flow of the sink read that table"
    )


SQL = """
CREATE STREAMING TABLE orders (CONSTRAINT counted EXPECT (id <> 9) ON VIOLATION DROP ROW) AS
SELECT id, total, kafka_offset
FROM STREAM read_kafka(
  bootstrapServers => '${servers}', subscribe => '${topic}', startingOffsets => 'earliest',
  format => 'json', schema => 'id bigint, total double, n int', null_values => 'dead_letter'
);

CREATE TEMPORARY VIEW parted AS SELECT * FROM STREAM(read_kafka(
  `kafka.bootstrap.servers` => '${servers}', subscribe => '${topic}', startingOffsets => 'earliest',
  format => map('type', 'json', 'schema', 'id bigint, total double', 'framing', 'plain'),
  metadata_columns => array('kafka_offset', 'kafka_partition'), null_values => 'drop'
));
CREATE STREAMING TABLE sums AS SELECT id, kafka_partition FROM STREAM(parted) WHERE total > 0;
"""
"""The same settings in SQL."""
BESIDE = """
CREATE TEMPORARY VIEW parted AS SELECT * FROM STREAM read_kafka(subscribe => 'a', format => 'json', schema => 'id int');
CREATE STREAMING TABLE raw AS SELECT CAST(id AS STRING) AS value FROM STREAM(parted)
UNION ALL SELECT CAST(value AS STRING) FROM STREAM read_kafka(subscribe => 'b');
"""


def test_a_table_decodes_records_in_sql_and_takes_refused_ones_again(folder, topic, broker):
    send(folder, topic(), broker.bootstrap_servers, SQL.partition("CREATE TEMPORARY VIEW")[0])
    found = folder.run()
    assert texts(found) == {"orders": None}
    assert found["orders"].counts == QueryCounts(7, 2, 1, 4, expectations={"counted": 1})
    mended = (folder.folder / "src/a.sql").read_text().replace(", n int', null_values => 'dead_letter'", "'")
    folder.write("src/a.sql", mended)
    [replayed] = dead_letters.replayed(folder.pipeline(), ["orders"])
    assert (replayed.tried, replayed.remaining) == (4, 2)
    assert folder.rows("default.orders") == [(1, 1.5, 0), (2, 200.0, 4), (3, 1.0, 6)]
    letters_of_sql = folder.rows("default.orders__dead_letters", "kafka_offset, status, reason, field, kafka_value")
    assert letters_of_sql == [
        (1, "open", "FIELD_TYPE", "id", b'{"id": "x"}'),
        (2, "open", "INVALID_JSON", None, b"nothing"),
        (3, "replayed", "NULL_VALUE", None, None),
        (6, "replayed", "FIELD_TYPE", "n", b'{"id": 3, "total": 1, "n": "x"}'),
    ]
    assert {each.problems for each in audited(folder.pipeline())} == {()}


def send(folder, name, servers, text):
    """Records, and the statements that decode them."""
    producer = Producer({"bootstrap.servers": servers})
    for place, value in enumerate([*VALUES, '{"id": 3, "total": 1, "n": "x"}']):
        producer.produce(name, value, key=f"k{place}")
    producer.flush(30)
    folder.write("src/a.sql", text.replace("${servers}", servers).replace("${topic}", name))


@pytest.mark.long
def test_records_are_decoded_in_sql_and_replayed(folder, topic, broker, capsys, monkeypatch):
    send(folder, topic(), broker.bootstrap_servers, SQL)
    found = folder.run()
    assert texts(found) == dict.fromkeys(found)
    assert found["orders"].counts == QueryCounts(7, 2, 1, 4, expectations={"counted": 1})
    assert folder.rows("default.orders") == [(1, 1.5, 0), (2, 200.0, 4)]
    refused_records = folder.rows("default.orders__dead_letters", "kafka_offset, reason, field, kafka_value")
    assert refused_records == [
        (1, "FIELD_TYPE", "id", b'{"id": "x"}'),
        (2, "INVALID_JSON", None, b"nothing"),
        (3, "NULL_VALUE", None, None),
        (6, "FIELD_TYPE", "n", b'{"id": 3, "total": 1, "n": "x"}'),
    ]
    assert folder.rows("default.sums") == [(1, 0), (2, 0), (3, 0)]
    mended = (folder.folder / "src/a.sql").read_text().replace(", n int', null_values => 'dead_letter'", "'")
    folder.write("src/a.sql", mended)
    monkeypatch.chdir(folder.folder)
    assert invoke(["dead-letters", "replay", "orders"]) == 0
    assert capsys.readouterr().out == "orders: 4 dead letters tried, 1 in the table, 1 left out, 2 still fail\n"
    assert folder.rows("default.orders") == [(1, 1.5, 0), (2, 200.0, 4), (3, 1.0, 6)]
    assert folder.rows("default.orders__dead_letters", "kafka_offset, status, reason") == [
        (1, "open", "FIELD_TYPE"),
        (2, "open", "INVALID_JSON"),
        (3, "replayed", "NULL_VALUE"),
        (6, "replayed", "FIELD_TYPE"),
    ]
    assert {each.problems for each in audited(folder.pipeline())} == {()}


def test_what_cannot_be_decoded_in_sql_is_refused_at_its_place(folder):
    for call, at, detail, fix in (
        (
            "STREAM read_kafka(subscribe => 'a', format => 'jsn')",
            "2:13",
            "unknown format 'jsn'",
            "did you mean 'json'?",
        ),
        (
            "read_kafka(subscribe => 'a', format => 'json', schema => 'id bigint')",
            "2:6",
            "the frame is no stream",
            "read the records with spark.readStream, or STREAM read_kafka(...)",
        ),
    ):
        folder.write("src/a.sql", f"CREATE STREAMING TABLE t AS SELECT *\nFROM {call};")
        with pytest.raises(DefinitionInvalid) as refused:
            commands.validate(folder.pipeline())
        text = (
            f"[DEFINITION_INVALID] decode of t: {detail}; the pipeline was not run\n  at: src/a.sql:{at}\n  hint: {fix}"
        )
        assert str(refused.value) == text
    # The view and the table call the same function, each with its own arguments.
    folder.write("src/a.sql", BESIDE)
    assert commands.validate(folder.pipeline()) == ["parted", "raw"]
