"""Records that a query could not decode, replayed through the query once it can: rows in the table, once."""

import pytest
from confluent_kafka import Producer

from rivermouth.cli.main import invoke
from rivermouth.engine.query import replay_letters
from rivermouth.engine.query.replays import replay_records
from rivermouth.errors import CommitLost, LettersNotReplayed, RecordsNotReplayed
from rivermouth.pipelines import dead_letters
from rivermouth.pipelines.audit import audited

PYTHON = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F
from rivermouth.pipelines import decode

RECORDS = "topic string, partition int, offset bigint, timestamp timestamp, key string, value string"
JSON = {"type": "json", "schema": "id int, total double"}

def records():
    stream = spark.readStream.schema(RECORDS).json("in")
    return stream.withColumns({name: F.col(name).cast("binary") for name in ("key", "value")})

@dp.table
@dp.expect_or_dead_letter("cheap", "total < 100")
@dp.expect_or_drop("counted", "id % 10 <> 9")
def orders():
    rows = decode(records(), JSON, null_values="dead_letter").withWatermark("kafka_timestamp", "1 hour")
    return rows.where("id % 10 <> 8")

@dp.table
def sums():
    return decode(records(), JSON).groupBy("id").agg(F.count("*").alias("n"))

"""
OTHERS = """
@dp.table
def both():
    return decode(records(), JSON).union(decode(records(), JSON))

@dp.table
def parts():
    return decode(records(), JSON, explode="*")

dp.create_streaming_table("newest")

@dp.temporary_view
def changes():
    return decode(records(), JSON, metadata_columns=["kafka_offset"])

dp.create_auto_cdc_flow(target="newest", source="changes", keys=["id"], sequence_by="kafka_offset")
"""
BIG = 3_000_000_000
VALUES = [
    '{"id": 1, "total": 1.5}',
    f'{{"id": {BIG + 1}, "total": 2.5, "note": "big"}}',
    f'{{"id": {BIG + 2}, "total": 200}}',
    f'{{"id": {BIG + 8}, "total": 1}}',
    f'{{"id": {BIG + 9}, "total": 1}}',
    "nothing",
    None,
]
"""One fits. Of the others that the mended schema takes, one passes, and three are left out in three ways."""
MENDED = PYTHON.replace("id int, total double", "id bigint, total double, note string").replace(
    'null_values="dead_letter"', 'null_values="drop"'
)


REASONS = {1: "FIELD_TYPE", 2: "FIELD_TYPE", 3: "FIELD_TYPE", 4: "FIELD_TYPE", 5: "INVALID_JSON", 6: "NULL_VALUE"}
"""By offset why they are refused first."""
WOULD = (
    "orders: 6 dead letters tried, 1 would be in the table, 3 would be left out, 1 would be dead-lettered as rows, "
    "1 still fail\n"
)
DONE = WOULD.replace("would be ", "")


def feed(folder, values=VALUES):
    rows = [
        {"topic": "orders", "partition": 0, "offset": place, "timestamp": "2026-01-01T00:00:00Z"}
        | {"key": f"k{place}", "value": value}
        for place, value in enumerate(values)
    ]
    folder.feed("in/0.json", *rows)


def rows(folder, table, *columns):
    """The rows of a table, read by Spark: others do not know columns that were widened."""
    from pyspark.sql import SparkSession

    found = SparkSession.active().read.format("delta").load(str(folder.folder / "lake/default" / table))
    return sorted((tuple(row) for row in found.selectExpr(*columns).collect()), key=repr)


def letters(folder, table="orders"):
    """Of each letter where its record is, why it was refused, its status, and its last replay."""
    return rows(folder, f"{table}__dead_letters", "kafka_offset", "reason", "status", "entry", "replay")


def in_table(folder, *more):
    return rows(folder, "orders", "id", "total", "kafka_offset", *more)


def replayed_letters(number):
    """The letters once the mended query has taken all but one."""
    found = [(place, reason, "replayed", 0, number) for place, reason in REASONS.items() if place != 5]
    return sorted([*found, (5, "INVALID_JSON", "open", 0, None), (None, "EXPECTATION", "open", None, number)], key=repr)


KEPT_AT = 1_767_225_600
"""Kafka's timestamp of the records, in seconds."""
BOTH = [(1, 1.5, 0), (BIG + 1, 2.5, 1)]


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(["dead-letters", *arguments])
    out, err = capsys.readouterr()
    return code, out + err


def refused(folder, table, kind):
    with pytest.raises(kind) as found:
        dead_letters.replayed(folder.pipeline(), [table])
    return str(found.value)


def cut_off(monkeypatch, folder, module, name):
    """A replay that ends where it calls a function."""

    def ending(*_arguments, **_named):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(module, name, ending)
        with pytest.raises(KeyboardInterrupt):
            dead_letters.replayed(folder.pipeline(), ["orders"])


LEFT = (
    "[RECORDS_NOT_REPLAYED] dead letters of {1} that were not decoded ({0}) are not replayed: {2}; they stay open\n"
    "  hint: rivermouth run --full-refresh {3}, once its decode(...) fits them"
)
STATE = LEFT.format(5, "sums", "its query keeps state, which has gone on without them", "sums")
PLACES = "its query decodes at 2 places, and they do not say at which they were refused"
ELEMENTS = "its query takes arrays of documents apart, and the table may have other elements of theirs"
NOT_ANY_MORE = "its query does not decode records any more"
NOT_NOW = "its decode(...) took them a moment ago, and refuses them now"


@pytest.mark.long
def test_mended_queries_take_records_once_also_after_the_process_ended(folder, capsys, monkeypatch):
    folder.write("src/a.py", PYTHON)
    feed(folder)
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert letters(folder) == [(place, reason, "open", 0, None) for place, reason in REASONS.items()]
    monkeypatch.chdir(folder.folder)
    folder.write("src/a.py", MENDED)
    # It ends when its rows are in the table, and the query is not mended any more when it is completed.
    cut_off(monkeypatch, folder, replay_letters, "_write_held")
    more = ((None, "k0", KEPT_AT), ("big", "k1", KEPT_AT))
    found = in_table(folder, "note", "kafka_key", "unix_seconds(kafka_timestamp)")
    assert found == [(*each, *others) for each, others in zip(BOTH, more, strict=True)]
    folder.write("src/a.py", PYTHON)
    completed = "orders: 2 dead letters tried, 0 in the table, 2 still fail"
    assert said(capsys, "replay") == (0, f"{completed}\nsums: 0 dead letters tried, 0 in the table\n{STATE}\n")
    assert letters(folder) == replayed_letters(0)
    assert in_table(folder) == BOTH
    assert {each.problems for each in audited(folder.pipeline())} == {()}


@pytest.mark.long
def test_a_replay_that_ended_before_its_commit_is_given_up(folder, capsys, monkeypatch):
    only_orders, mended = (each.partition("@dp.table\ndef sums")[0] for each in (PYTHON, MENDED))
    folder.write("src/a.py", only_orders)
    feed(folder)
    folder.run()
    monkeypatch.chdir(folder.folder)
    failing = (0, "orders: 6 dead letters tried, 0 in the table, 6 still fail\n")
    folder.write("src/a.py", only_orders.replace("id int, total", "must int NOT NULL, id int, total"))
    assert said(capsys, "replay", "orders") == failing
    now = dict.fromkeys(range(1, 5), "FIELD_MISSING")
    assert letters(folder) == [(place, reason, "open", 0, None) for place, reason in (REASONS | now).items()]
    folder.write("src/a.py", mended)
    cut_off(monkeypatch, folder, replay_records, "_write")
    begun = {(each[2], each[4]) for each in letters(folder)}
    assert (begun, in_table(folder)) == ({("replaying", 0), ("open", None)}, BOTH[:1])
    folder.write("src/a.py", only_orders)
    assert said(capsys, "replay", "orders") == failing
    folder.write("src/a.py", mended)
    assert said(capsys, "replay", "orders", "--dry-run") == (0, WOULD)
    write = replay_records._write

    def late(*arguments):
        """While this replay is at work, another one gives it up and does the same."""
        monkeypatch.setattr(replay_records, "_write", write)
        assert said(capsys, "replay", "orders") == (0, DONE)
        return write(*arguments)

    monkeypatch.setattr(replay_records, "_write", late)
    lost = refused(folder, "orders", CommitLost)
    assert lost.startswith("[COMMIT_LOST] flow replay of orders: ledger entry 2 of table ")
    # Numbers 1 and 3 were given to those that gave up 0 and 2.
    assert (letters(folder), in_table(folder)) == (replayed_letters(4), BOTH)
    assert {each.problems for each in audited(folder.pipeline())} == {()}


@pytest.mark.long
def test_records_of_queries_that_cannot_take_them_alone_are_left_out(folder):
    folder.write("src/a.py", PYTHON + OTHERS)
    feed(folder)
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert refused(folder, "sums", RecordsNotReplayed) == STATE
    assert refused(folder, "both", RecordsNotReplayed) == LEFT.format(10, "both", PLACES, "both")
    assert refused(folder, "parts", RecordsNotReplayed) == LEFT.format(5, "parts", ELEMENTS, "parts")
    assert refused(folder, "newest", LettersNotReplayed) == (
        "[LETTERS_NOT_REPLAYED] dead letters of newest are not replayed: it is a target of AUTO CDC, and changes "
        "cannot be applied out of their order; nothing was written\n"
        "  at: src/a.py:33\n"
        "  hint: rivermouth dead-letters discard newest, once the rows are corrected where they come from"
    )
    query = 'rows = decode(records(), JSON, null_values="dead_letter").withWatermark("kafka_timestamp", "1 hour")'
    flow = "rows = records().selectExpr('partition AS id', '1D AS total')"
    text = PYTHON.replace(query, flow)
    assert text != PYTHON
    folder.write("src/a.py", text)
    assert refused(folder, "orders", RecordsNotReplayed) == LEFT.format(6, "orders", NOT_ANY_MORE, "orders")
    sums = PYTHON.partition("@dp.table\ndef sums")[2]
    renamed = 'dp.create_streaming_table("sums")\n\n@dp.append_flow(target="sums")\ndef others' + sums
    folder.write("src/a.py", PYTHON.replace("@dp.table\ndef sums" + sums, renamed))
    gone = LEFT.format(5, "sums", "flow sums is not defined any more", "sums")
    assert refused(folder, "sums", RecordsNotReplayed) == gone


@pytest.mark.long
def test_a_record_of_several_elements_comes_whole(folder, capsys, monkeypatch):
    form = '{"type": "json", "schema": "id int, items array<int>"}'
    query = f'    return decode(records(), {form}, explode="items AS item", metadata_columns=["kafka_position"])\n'
    text = PYTHON.partition("@dp.table")[0] + "@dp.table\ndef parts():\n" + query
    folder.write("src/a.py", text)
    made = [(1, [1, 2]), (BIG, [3, 4]), (BIG + 1, []), (BIG + 2, [5])]
    feed(folder, [*(f'{{"id": {number}, "items": {items}}}' for number, items in made), "nothing"])
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert [each[:3] for each in letters(folder, "parts")] == [
        *((place, "FIELD_TYPE", "open") for place in (1, 2, 3)),
        (4, "INVALID_JSON", "open"),
    ]
    folder.write("src/a.py", text.replace("id int", "id bigint"))
    monkeypatch.chdir(folder.folder)
    for would, options in (("would be ", ["--dry-run"]), ("", [])):
        told = f"parts: 4 dead letters tried, 3 {would}in the table, 1 {would}left out, 1 still fail\n"
        assert said(capsys, "replay", *options) == (0, told)
    assert rows(folder, "parts", "id", "item", "kafka_position") == [
        (1, 1, 0),
        (1, 2, 1),
        (BIG, 3, 0),
        (BIG, 4, 1),
        (BIG + 2, 5, 0),
    ]
    assert [each[:3] for each in letters(folder, "parts")] == [
        *((place, "FIELD_TYPE", "replayed") for place in (1, 2, 3)),
        (4, "INVALID_JSON", "open"),
    ]
    assert said(capsys, "replay") == (0, "parts: 1 dead letter tried, 0 in the table, 1 still fail\n")


SQL = """
CREATE TEMPORARY VIEW parted (CONSTRAINT positive EXPECT (total > 0) ON VIOLATION DROP ROW) AS
SELECT * FROM STREAM read_kafka(
  bootstrapServers => '${servers}', subscribe => '${topic}', startingOffsets => 'earliest', format => '${format}',
  schema => '${schema}'
);
CREATE STREAMING TABLE named AS
WITH found AS (SELECT * FROM STREAM(parted) WHERE id <> 7)
SELECT found.id, name, kafka_offset FROM found LEFT JOIN names ON found.id = names.id
UNION ALL
SELECT CAST(-1 AS BIGINT), CAST(value AS STRING), offset FROM STREAM read_kafka(
  bootstrapServers => '${servers}', subscribe => '${topic}', startingOffsets => 'earliest'
);
CREATE MATERIALIZED VIEW names AS SELECT CAST(3000000001 AS BIGINT) AS id, 'big' AS name;
"""
ROWS = ['{"id": 1, "total": 5}', f'{{"id": {BIG + 1}, "total": 5}}', f'{{"id": {BIG + 2}, "total": -5}}', "nothing"]


@pytest.mark.long
def test_records_of_kafka_are_replayed_in_sql(folder, topic, broker, capsys, monkeypatch):
    servers, name = broker.bootstrap_servers, topic()
    producer = Producer({"bootstrap.servers": servers})
    for value in ROWS:
        producer.produce(name, value)
    producer.flush(30)
    text = SQL.replace("${servers}", servers).replace("${topic}", name).replace("${format}", "json")
    folder.write("src/a.sql", text.replace("${schema}", "id int, total int"))
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    others = [(-1, value, place) for place, value in enumerate(ROWS)]
    assert rows(folder, "named", "*") == sorted([*others, (1, None, 0)], key=repr)
    folder.write("src/a.sql", text.replace("${schema}", "id bigint, total int"))
    monkeypatch.chdir(folder.folder)
    for would, new, options in (("would be ", [], ["--dry-run"]), ("", [(BIG + 1, "big", 1)], [])):
        text = f"named: 3 dead letters tried, 1 {would}in the table, 1 {would}left out, 1 still fail\n"
        assert said(capsys, "replay", *options) == (0, text)
        assert rows(folder, "named", "*") == sorted([*others, (1, None, 0), *new], key=repr)
    assert [each[:3] for each in letters(folder, "named")] == [
        (1, "FIELD_TYPE", "replayed"),
        (2, "FIELD_TYPE", "replayed"),
        (3, "INVALID_JSON", "open"),
    ]


MOODY = """
import pathlib

def orders(value):
    there = {mood}.exists()
    if value != b"late" or there:
        return {{"id": len(value)}}
    raise ValueError("not now")
"""


@pytest.mark.long
def test_records_that_are_refused_between_two_readings_stay_open(folder, monkeypatch):
    mood = folder.folder / "mood"
    form = '{"type": "python", "function": "moody:orders", "schema": "id int"}'
    folder.write("src/moody.py", MOODY.format(mood=f"pathlib.Path({str(mood)!r})"))
    folder.write(
        "src/a.py",
        PYTHON.partition("@dp.table")[0] + f"@dp.table\ndef orders():\n    return decode(records(), {form})\n",
    )
    feed(folder, ["early", "late"])
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert letters(folder) == [(1, "FUNCTION_FAILED", "open", 0, None)]
    rewrite = replay_letters.rewrite

    def sullen(*arguments):
        rewrite(*arguments)
        mood.unlink(missing_ok=True)

    mood.touch()
    with monkeypatch.context() as patched:
        patched.setattr(replay_letters, "rewrite", sullen)
        assert refused(folder, "orders", RecordsNotReplayed) == LEFT.format(1, "orders", NOT_NOW, "orders")
    assert (letters(folder), rows(folder, "orders", "id")) == ([(1, "FUNCTION_FAILED", "open", 0, 0)], [(5,)])
    mood.touch()
    assert dead_letters.replayed(folder.pipeline(), ["orders"])[0].replayed == 1
    assert rows(folder, "orders", "id") == [(4,), (5,)]
