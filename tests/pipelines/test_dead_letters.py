"""``rivermouth dead-letters`` and ``tables describe`` of pipelines."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from tests.pipelines.conftest import refusal

from rivermouth.cli.main import invoke
from rivermouth.engine.query import replay_letters
from rivermouth.engine.query.replay_letters import REPLAYING
from rivermouth.errors import CommitLost
from rivermouth.pipelines import audit, commands, dead_letters
from rivermouth.pipelines.selection import Selection
from rivermouth.ports.internals import delta_transaction

PYTHON = """
from pyspark import pipelines as dp

LIMIT = 10

@dp.table
@dp.expect("noted", "status IS NOT NULL")
@dp.expect_or_drop("an id", "id > 0")
@dp.expect_or_dead_letter("small", f"amount <= {LIMIT}")
def orders():
    return spark.readStream.schema("id bigint, amount int, status string").json("data")

@dp.materialized_view
@dp.expect_or_dead_letter("few", "n < 2")
def totals():
    return spark.read.table("orders").groupBy("status").count().withColumnRenamed("count", "n")
"""

AUDIT = """pipeline shop: its tables have what their ledgers say

orders: as the ledger says
  streaming table: LAKE/sales/orders
  2 ledger entries: 5 read, 2 written, 1 dropped, 2 dead-lettered
  the table has 3 rows, 2 rows in the dead letters

totals: as the ledger says
  materialized view: LAKE/sales/totals
  2 ledger entries: 1 read, 0 written, 0 dropped, 1 dead-lettered
  the table has 0 rows, 1 row in the dead letters
"""
PROBLEMS = [
    "  problem: entry 0 of orders: 3 read, but 2 written, 1 dropped and 1 dead-lettered",
    "  problem: entry 1 of orders: its totals are not those before and its counts",
    "  problem: entry 0 of orders says 2 rows written, and its commit has 1",
    "  problem: entry 1 of totals: 1 read, but 0 written, 0 dropped and 2 dead-lettered",
    "  problem: entry 1 of totals says 2 rows dead-lettered, and there are 1",
    "[PIPELINE_AUDIT_FAILED] tables do not have what their ledgers say: orders, totals; nothing was changed",
    "  hint: rivermouth tables describe orders",
]


SHOWN = (
    "orders: flow orders, ledger entry 0, open\n"
    "  failed: noted, small; dead-lettered <time>\n"
    '  row: {"id":2,"amount":50,"status":null}\n'
)


@pytest.fixture
def shop(tmp_path, monkeypatch, spark):
    (tmp_path / "code.py").write_text(PYTHON)
    (tmp_path / "pipeline.yml").write_text("name: shop\nlibraries: [{file: {path: code.py}}]\nschema: sales\n")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def send(folder, name, *rows):
    (folder / "data" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


UNKNOWN = (
    "[TABLE_UNKNOWN] nothing in the project writes a table 'sales.order'; nothing was done\n"
    "  hint: did you mean 'sales.orders'?\n"
)


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(arguments)
    out, err = capsys.readouterr()
    return code, re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>", out + err)


def answer(capsys, *arguments):
    capsys.readouterr()
    code = invoke([*arguments, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def damage(table, version, old, new):
    """Writes another text into a commit."""
    file = Path(table) / f"_delta_log/{version:020d}.json"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def run(step=lambda _: None):
    (pipeline,) = commands.pipelines(".")
    return {each.dataset: each for each in commands.run(pipeline, commands.UpdateOptions(step=step))}, pipeline


def test_dead_letters_are_shown_replayed_discarded_and_audited(shop, capsys):
    text = PYTHON.partition("@dp.materialized_view")[0]
    (shop / "code.py").write_text(text)
    send(shop, "1.json", {"id": 1, "amount": 5, "status": "new"}, {"id": 0, "amount": 5}, {"id": 2, "amount": 50})
    send(shop, "2.json", {"id": 4, "amount": 99, "status": "x"})
    _, pipeline = run()
    code, body = answer(capsys, "dead-letters", "list")
    groups = {tuple(each["failed_expectations"]): each["letters"] for each in body["rows"]}
    assert (code, groups) == (0, {("noted", "small"): 1, ("small",): 1})
    code, shown = said(capsys, "dead-letters", "show", "sales.orders", "--expectation", "noted")
    assert (code, shown) == (0, SHOWN)
    (shop / "code.py").write_text(text.replace("LIMIT = 10", "LIMIT = 60"))
    tried = "orders: 2 dead letters tried, 1 in the table, 1 still fail\n"
    assert said(capsys, "dead-letters", "replay", "orders") == (0, tried)
    assert said(capsys, "dead-letters", "discard", "orders") == (0, "orders: 1 dead letter discarded\n")
    table = f"{pipeline.project.lake}/sales/orders"
    rows = DeltaTable(f"{table}__dead_letters").to_pyarrow_table(columns=["row", "status"]).to_pylist()
    assert sorted((each["row"]["id"], each["status"]) for each in rows) == [(2, "replayed"), (4, "discarded")]
    # An audit compares the table with what its ledger says, also after a replay.
    assert said(capsys, "audit")[0] == 0
    damage(table, 1, 'written\\": 1', 'written\\": 2')
    code, audit = said(capsys, "audit")
    assert (code, [line for line in audit.splitlines() if line.startswith("  problem")]) == (
        1,
        ["  problem: entry 0 of orders: 4 read, but 2 written, 1 dropped and 2 dead-lettered", PROBLEMS[2]],
    )


@pytest.mark.long
def test_dead_letters_are_listed_shown_replayed_and_discarded(shop, capsys, spark):
    assert said(capsys, "dead-letters", "list") == (0, "no dead letters\n")
    send(shop, "1.json", {"id": 1, "amount": 5, "status": "new"}, {"id": 0, "amount": 5}, {"id": 2, "amount": 50})
    run()
    send(shop, "2.json", {"id": 3, "amount": -1, "status": "new"}, {"id": 4, "amount": 99, "status": "x"})
    _, pipeline = run()
    lake = pipeline.project.lake
    code, body = answer(capsys, "dead-letters", "list")
    assert (code, body["dead_letters"]) == (0, [])
    groups = {(each["table"], *each["failed_expectations"]): each["letters"] for each in body["rows"]}
    assert groups == {("orders", "noted", "small"): 1, ("orders", "small"): 1, ("totals", "few"): 1}
    code, text = said(capsys, "dead-letters", "show", "sales.orders", "--expectation", "noted")
    assert (code, text) == (0, SHOWN)
    assert said(capsys, "dead-letters", "replay", "orders") == (
        0,
        "orders: 2 dead letters tried, 0 in the table, 2 still fail\n",
    )
    (shop / "code.py").write_text(PYTHON.replace("LIMIT = 10", "LIMIT = 60"))
    assert said(capsys, "dead-letters", "replay", "--dry-run", "shop") == (
        0,
        "orders: 2 dead letters tried, 1 would be in the table, 1 still fail\n",
    )
    table = f"{lake}/sales/orders"
    for tried, moved in ((2, 1), (1, 0)):
        code, body = answer(capsys, "dead-letters", "replay", "orders")
        assert body["rows"] == [
            {"table": "orders", "tried": tried, "replayed": moved, "remaining": 1, "dry_run": False, "left": []}
            | dict.fromkeys(("records", "rows", "dropped", "dead_lettered"), 0)
        ]
        assert sorted(row.id for row in spark.read.format("delta").load(table).collect()) == [1, 2, 3]
    assert said(capsys, "dead-letters", "replay", "totals")[1].splitlines()[0] == (
        "[LETTERS_NOT_REPLAYED] dead letters of totals are not replayed: it is a materialized view, and its next "
        "refresh computes all of its rows by the expectations of now; nothing was written"
    )
    assert said(capsys, "dead-letters", "discard", "orders") == (0, "orders: 1 dead letter discarded\n")
    letters = spark.read.format("delta").load(f"{table}__dead_letters").collect()
    assert sorted((row.row.id, row.status) for row in letters) == [(2, "replayed"), (4, "discarded")]

    assert said(capsys, "dead-letters", "list", "--stage", "decode")[0] == 2

    # tables of pipelines are described
    code, body = answer(capsys, "tables", "describe")
    described = {each["table"]: (each["kind"], each["flow"], each["rows"], each["entry"]) for each in body["tables"]}
    assert described["sales.orders"] == ("rows", "shop", 3, 1)
    assert described["sales.orders__dead_letters"] == ("dead_letters", "shop", 2, None)
    assert said(capsys, "tables", "describe", "sales.nothing")[0] == 1
    # and read, by either name
    code, text = said(capsys, "tables", "read", "orders", "--columns", "id", "--output", "json")
    assert (code, sorted(text.splitlines())) == (0, ['{"id":1}', '{"id":2}', '{"id":3}'])
    assert said(capsys, "tables", "read", "sales.order") == (1, UNKNOWN)
    code, body = answer(capsys, "tables", "vacuum", "sales.orders", "--dry-run")
    assert (code, [each["table"] for each in body["maintenance"]]) == (0, ["sales.orders"])

    # An audit compares the tables with what their ledgers say, also after a replay.
    code, text = said(capsys, "audit")
    assert (code, text.replace(lake, "LAKE")) == (0, AUDIT)
    appended = pa.table({"id": [9], "amount": pa.array([1], pa.int32()), "status": ["by hand"]})
    write_deltalake(table, appended, mode="append")
    code, body = answer(capsys, "audit", "shop")
    (found,) = [each for each in body["pipelines"][0]["datasets"] if each["dataset"] == "orders"]
    assert (code, found["rows"], found["problems"]) == (0, 4, [])
    assert found["not_compared"] == ["version 4 (WRITE) is of no flow of the pipeline"]
    damage(table, 1, 'written\\": 1', 'written\\": 2')
    damage(f"{lake}/sales/totals", 2, 'dead_lettered\\": 1', 'dead_lettered\\": 2')
    code, text = said(capsys, "audit")
    assert code == 1
    assert [line for line in text.splitlines() if line.startswith(("  problem", "[", "  hint"))] == PROBLEMS


COUNTS = """
from pyspark import pipelines as dp

@dp.table
@dp.expect_or_dead_letter("few", "count < 2")
def counts():
    return spark.readStream.schema("id bigint").json("data").groupBy("id").count()
"""


def test_a_batch_that_replaces_all_rows_replaces_their_dead_letters(shop, spark):
    (shop / "code.py").write_text(COUNTS)
    send(shop, "1.json", {"id": 1}, {"id": 1}, {"id": 2})
    run()
    send(shop, "2.json", {"id": 1})
    _, pipeline = run()
    letters = spark.read.format("delta").load(f"{pipeline.project.lake}/sales/counts__dead_letters")
    assert letters.select("row.id", "row.count", "entry", "status").collect() == [(1, 3, 1, "open")]


@pytest.mark.long
def test_dead_letters_of_a_table_whose_rows_each_batch_replaces_are_those_of_the_newest(shop, spark, monkeypatch):
    (shop / "code.py").write_text(COUNTS)
    send(shop, "1.json", {"id": 1}, {"id": 1}, {"id": 2})
    run()
    send(shop, "2.json", {"id": 1})

    def ended(step):
        if step == "dead_letters":
            raise RuntimeError(step)

    run(ended)
    _, pipeline = run()
    table = f"{pipeline.project.lake}/sales/counts"

    def found(place):
        return sorted(tuple(row) for row in spark.read.format("delta").load(place).selectExpr(*columns).collect())

    columns = ("row.id", "row.count", "entry", "status")
    assert found(f"{table}__dead_letters") == [(1, 3, 1, "open")]
    assert [each.problems for each in audit.audited(pipeline)] == [()]
    (shop / "code.py").write_text(COUNTS.replace("< 2", "< 9"))
    assert refusal(lambda: dead_letters.replayed(pipeline, ["counts"])) == (
        "[LETTERS_NOT_REPLAYED] dead letters of counts are not replayed: each batch replaces all of its rows, and "
        "checks them by the expectations of then; nothing was written\n"
        "  at: code.py:4\n"
        "  hint: rivermouth dead-letters discard counts, once the rows are corrected where they come from"
    )
    assert dead_letters.replayed(pipeline, []) == []
    honest, place = delta_transaction._without_footers, f"{table}__dead_letters"

    def beside_a_flow(*arguments):
        monkeypatch.setattr(delta_transaction, "_without_footers", honest)
        spark.sql(f"INSERT INTO delta.`{place}` SELECT * FROM delta.`{place}`")
        return honest(*arguments)

    monkeypatch.setattr(delta_transaction, "_without_footers", beside_a_flow)
    with pytest.raises(CommitLost):
        dead_letters.discarded(pipeline, ["counts"])
    assert len(found(place)) == 2
    send(shop, "3.json", {"id": 3})
    run()
    columns = ("id", "count")
    assert found(table) == [(1, 3), (2, 1), (3, 1)]
    assert spark.read.format("delta").load(f"{table}__dead_letters").isEmpty()
    assert [each.problems for each in audit.audited(pipeline)] == [()]


@pytest.mark.long
@pytest.mark.parametrize("moment", ["before its commit", "within its commit"])
def test_a_replay_beside_a_full_refresh_writes_no_row(shop, spark, monkeypatch, moment):
    only_orders = PYTHON[: PYTHON.index("@dp.materialized_view")]
    send(shop, "1.json", {"id": 1, "amount": 50, "status": "a"})
    (shop / "code.py").write_text(only_orders)
    _, pipeline = run()
    (shop / "code.py").write_text(only_orders.replace("LIMIT = 10", "LIMIT = 50"))
    where, what = {
        "before its commit": (replay_letters.delta_append, "append_alone"),
        "within its commit": (delta_transaction, "_without_footers"),
    }[moment]
    honest = getattr(where, what)

    def refreshed_first(*arguments, **named):
        if REPLAYING in statuses():
            monkeypatch.setattr(where, what, honest)
            assert commands.run(pipeline, commands.UpdateOptions(Selection(full_refresh=("orders",))))[0].error is None
        return honest(*arguments, **named)

    def statuses():
        return [row.status for row in spark.read.format("delta").load(f"{table}__dead_letters").collect()]

    table = f"{pipeline.project.lake}/sales/orders"
    monkeypatch.setattr(where, what, refreshed_first)
    with pytest.raises(CommitLost):
        dead_letters.replayed(pipeline, ["orders"])
    assert [row.id for row in spark.read.format("delta").load(table).collect()] == [1]
    assert statuses() == ["discarded"]
    (done,) = dead_letters.replayed(pipeline, ["orders"])
    assert (done.tried, done.replayed) == (0, 0)


@pytest.mark.long
def test_a_replay_that_was_cut_off_twice_is_completed_once(shop, spark, monkeypatch):
    only_orders = PYTHON[: PYTHON.index("@dp.materialized_view")]
    send(shop, "1.json", {"id": 1, "amount": 50, "status": "a"}, {"id": 2, "amount": 51, "status": "b"})
    (shop / "code.py").write_text(only_orders)
    _, pipeline = run()
    rewrite, append = replay_letters.rewrite, replay_letters.delta_append.append_alone

    def cut_off_before(what):
        def rewriting(table, letters, version, chosen, status, *number):
            if status == "replayed" and what == "mark":
                raise KeyboardInterrupt
            rewrite(table, letters, version, chosen, status, *number)

        def appending(*arguments, **named):
            if what == "table":
                raise KeyboardInterrupt
            return append(*arguments, **named)

        with monkeypatch.context() as patched:
            patched.setattr(replay_letters, "rewrite", rewriting)
            patched.setattr(replay_letters.delta_append, "append_alone", appending)
            with pytest.raises(KeyboardInterrupt):
                dead_letters.replayed(pipeline, ["orders"])

    table = f"{pipeline.project.lake}/sales/orders"

    def ids():
        return [row.id for row in spark.read.format("delta").load(table).collect()]

    (shop / "code.py").write_text(only_orders.replace("LIMIT = 10", "LIMIT = 50"))
    cut_off_before("table")
    assert ids() == []
    # By now the rule is stricter again: what was begun is completed all the same, and nothing else is moved.
    (shop / "code.py").write_text(only_orders)
    cut_off_before("mark")
    assert ids() == [1]
    (done,) = dead_letters.replayed(pipeline, ["orders"])
    assert (done.tried, done.replayed) == (1, 0)
    assert ids() == [1]
    letters = spark.read.format("delta").load(f"{table}__dead_letters").collect()
    assert sorted((row.row.id, row.status, row.replay) for row in letters) == [(1, "replayed", 0), (2, "open", None)]
