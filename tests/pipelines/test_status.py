"""``rivermouth status`` of pipelines: what their tables' ledgers tell, without Spark."""

from __future__ import annotations

import json
import re

import pytest

from rivermouth.cli.main import invoke
from rivermouth.errors import RivermouthError
from rivermouth.pipelines import commands
from rivermouth.pipelines.status import status

PYTHON = """
from pyspark import pipelines as dp

LIMIT = 10

@dp.table
@dp.expect("noted", "status IS NOT NULL")
@dp.expect_or_drop("an id", "id > 0")
@dp.expect_or_dead_letter("small", f"amount <= {LIMIT}")
def orders():
    return spark.readStream.schema("id bigint, amount int, status string").json("data")

@dp.table
@dp.expect_or_fail("no refund", "amount > 0")
def strict():
    return spark.readStream.table("orders")

@dp.table
def behind():
    return spark.readStream.table("strict")

@dp.materialized_view
@dp.expect_or_dead_letter("few", "n < 2")
def totals():
    return spark.read.table("orders").groupBy("status").count().withColumnRenamed("count", "n")
"""


@pytest.fixture
def shop(tmp_path, monkeypatch, spark):
    (tmp_path / "code.py").write_text(PYTHON)
    (tmp_path / "pipeline.yml").write_text("name: shop\nlibraries: [{file: {path: code.py}}]\nschema: sales\n")
    (tmp_path / "data").mkdir()
    monkeypatch.chdir(tmp_path)
    return tmp_path


def send(folder, name, *rows):
    (folder / "data" / name).write_text("".join(json.dumps(row) + "\n" for row in rows))


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(arguments)
    out, err = capsys.readouterr()
    return code, re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d UTC", "<time>", out + err)


def answer(capsys, *arguments):
    capsys.readouterr()
    code = invoke([*arguments, "--output", "json"])
    return code, json.loads(capsys.readouterr().out)


def run():
    (pipeline,) = commands.pipelines(".")
    return {each.dataset: each for each in commands.run(pipeline)}, pipeline


def test_status_of_a_pipeline(shop, capsys):
    assert said(capsys, "status") == (0, "pipeline shop: no update has run yet\n")

    send(shop, "1.json", {"id": 1, "amount": 5, "status": "new"}, {"id": 0, "amount": 5}, {"id": 2, "amount": 50})
    outcomes, pipeline = run()
    assert {name: each.result for name, each in outcomes.items()} == dict.fromkeys(outcomes, "completed")
    code, text = said(capsys, "status", "--check")
    lake = pipeline.project.lake
    assert (code, text) == (
        0,
        f"""pipeline shop: 4 datasets, no failure

orders: its last batch is ledger entry 0
  streaming table: {lake}/sales/orders
  last batch: done at <time>
    3 read, 1 written, 1 dropped, 1 dead-lettered
  so far: 3 read, 1 written, 1 dropped, 1 dead-lettered
    expectation  action       failed in the last batch  failed so far
    noted        warn         2 of 3                    2 of 3
    an id        drop         1 of 3                    1 of 3
    small        dead_letter  1 of 3                    1 of 3

strict: its last batch is ledger entry 0
  streaming table: {lake}/sales/strict
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered
    expectation  action  failed in the last batch  failed so far
    no refund    fail    0 of 1                    0 of 1

behind: its last batch is ledger entry 0
  streaming table: {lake}/sales/behind
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered

totals: its last refresh is ledger entry 0, full: it was not computed yet
  materialized view: {lake}/sales/totals
  last batch: done at <time>
    1 read, 1 written, 0 dropped, 0 dead-lettered
  so far: 1 read, 1 written, 0 dropped, 0 dead-lettered
    expectation  action       failed in the last batch  failed so far
    few          dead_letter  0 of 1                    0 of 1

check: passed
""",
    )

    # a failure stays until the flow works again; totals go on
    send(shop, "2.json", {"id": 3, "amount": -1, "status": "new"}, {"id": 4, "amount": 99, "status": "x"})
    outcomes, _ = run()
    assert outcomes["strict"].result == "failed"
    code, body = answer(capsys, "status")
    assert code == 0
    (found,) = body["pipelines"]
    by_name = {each["dataset"]: each for each in found["datasets"]}
    assert found["message"] == "1 of 4 datasets failed"
    assert by_name["orders"]["last_batch"]["dead_lettered"] == 1
    assert by_name["orders"]["totals"] == {
        "read": 5,
        "written": 2,
        "dropped": 1,
        "dead_lettered": 2,
        "late": 0,
        "views": {},
        "expectations": {"noted": 2, "an id": 1, "small": 2},
    }
    failure = by_name["strict"]["flows"][0]["failure"]
    assert (failure["code"], failure["flow"]) == ("ROW_EXPECTATION_FAILED", "strict")
    assert by_name["behind"]["flows"][0]["failure"] is None
    code, body = answer(capsys, "status", "--max-dead-letters", "1")
    assert code == 1
    assert [(each["flow"], each["rule"]) for each in body["check"]["broken"]] == [
        ("orders", "max_dead_letters"),
        ("strict", "last_run"),
    ]
    assert body["check"]["broken"][0]["detail"] == "it has 2 dead letters, and at most 1 are allowed"
    assert said(capsys, "status", "--max-lag", "1")[0] == 2

    # a failed flow that works again has no failure any more
    (shop / "code.py").write_text(PYTHON.replace("amount > 0", "amount > -9"))
    outcomes, _ = run()
    assert (outcomes["strict"].result, outcomes["strict"].counts.read) == ("completed", 1)
    assert said(capsys, "status", "--check")[0] == 0

    # an update that ends before its first dataset
    (shop / "code.py").write_text(PYTHON + "\nnonsense")
    with pytest.raises(RivermouthError) as broken:
        run()
    found = status(pipeline)
    assert (found.failure.code, found.is_wrong) == (broken.value.code, False)
    code, body = answer(capsys, "status", "--check")
    assert (code, body["check"]["broken"]) == (
        1,
        [{"flow": "shop", "rule": "last_run", "detail": found.message}],
    )
