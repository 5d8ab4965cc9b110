"""``rivermouth tables read``, ``optimize`` and ``vacuum`` of pipelines."""

import json

import pytest

from rivermouth.cli.main import invoke
from rivermouth.pipelines.audit import audited

PYTHON = """
from pyspark import pipelines as dp

@dp.table
def orders():
    return spark.readStream.schema("id int, n int, note string").json("in")

dp.create_streaming_table("latest")
dp.create_auto_cdc_flow(target="latest", source="orders", keys=["id"], sequence_by="n")
"""
UNKNOWN = (
    "[TABLE_UNKNOWN] nothing in the project writes a table 'latst'; nothing was done\n  hint: did you mean 'latest'?\n"
)


def said(capsys, *arguments):
    capsys.readouterr()
    code = invoke(["tables", *arguments])
    out, err = capsys.readouterr()
    return code, out + err


def reports(capsys, *arguments):
    """By table the files before and after."""
    code, text = said(capsys, *arguments, "--output", "json")
    assert code == 0, text
    body = json.loads(text.splitlines()[-1])
    return {each["table"]: (each["before"]["files"], each["after"]["files"]) for each in body["maintenance"]}


@pytest.fixture
def shop(folder, monkeypatch):
    """A pipeline that was run twice: each of its tables has two files."""
    folder.write("src/a.py", PYTHON)
    monkeypatch.chdir(folder.folder)
    for number in range(2):
        folder.feed(f"in/{number}.json", {"id": number, "n": 1, "note": f"note {number}"})
        folder.run()
    return folder


@pytest.mark.long
def test_tables_are_read_and_looked_after(shop, capsys):
    code, text = said(capsys, "read", "orders", "--columns", "id,note", "--limit", "1", "--version", "1")
    assert (code, "id  note" in text) == (0, True)
    code, text = said(capsys, "read", "default.latest", "--output", "json")
    lines = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    assert (code, sorted(each["id"] for each in lines)) == (0, [0, 1])
    assert said(capsys, "read", "latst") == (1, UNKNOWN)
    whole = {"default.orders": (2, 1), "default.latest": (2, 1), "default.latest/_auto_cdc": (2, 1)}
    assert reports(capsys, "optimize") == whole
    assert reports(capsys, "vacuum", "latest", "--dry-run") == {
        "default.latest": (1, 1),
        "default.latest/_auto_cdc": (1, 1),
    }
    # An update goes on after that, and an older change is still too late.
    shop.feed("in/2.json", {"id": 0, "n": 0, "note": "late"}, {"id": 1, "n": 2, "note": "newer"})
    assert {name: each.error for name, each in shop.run().items() if each.error} == {}
    assert shop.rows("default.latest", "id, note") == [(0, "note 0"), (1, "newer")]
    assert len(shop.rows("default.orders")) == 4
    assert {each.problems for each in audited(shop.pipeline())} == {()}


NAMED = """
CREATE STREAMING TABLE orders (CONSTRAINT positive EXPECT (id > 0) ON VIOLATION DEAD LETTER)
AS SELECT * FROM STREAM read_files('in', format => 'json', schema => 'id INT');
"""


def test_tables_of_a_named_file_are_reached_with_it(folder, capsys, monkeypatch):
    monkeypatch.chdir(folder.folder)
    folder.write("orders.sql", NAMED)
    folder.feed("in/1.json", {"id": 1}, {"id": 0})
    assert invoke(["run", "orders.sql", "--param", "a=b"]) == 0
    code, text = said(capsys, "read", "orders.sql", "orders", "--columns", "id", "--output", "json")
    assert (code, text.splitlines()[-1]) == (0, '{"id":1}')
    assert reports(capsys, "vacuum", "orders.sql", "default.orders", "--dry-run") == {"default.orders": (1, 1)}
    assert said(capsys, "describe", "orders.sql", "order")[1].endswith("  hint: did you mean 'orders'?\n")
    assert invoke(["dead-letters", "discard", "orders.sql", "orders", "--dry-run"]) == 0
    assert capsys.readouterr().out == "orders: 1 dead letter would be discarded\n"
    (folder.folder / "in/1.json").unlink()
    assert invoke(["run", "orders.sql", "--full-refresh", "orders", "--param", "a=b"]) == 1
    hint = "rivermouth run orders.sql --param a=VALUE --full-refresh orders --accept-data-loss"
    assert capsys.readouterr().err.endswith(f"  hint: {hint}\n")
