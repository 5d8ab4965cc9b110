"""Update flows into a table: each group has one row, its newest, wherever a run ends; and what is refused."""

from collections import Counter

import pytest

from rivermouth import RivermouthError

PIPELINE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

dp.create_streaming_table("totals", expect_all_or_drop={{"small": "amount < 1000"}})
{more}

@dp.update_flow(target="totals"{keys}, name="sums")
def sums():
    rows = spark.readStream.schema("shop string, amount int").json("in")
    return rows.groupBy("shop").agg(F.sum("amount").alias("amount")){select}
"""


@pytest.fixture
def totals(folder):
    (folder.folder / "in").mkdir()

    def write(keys=', keys=["shop"]', select="", more=""):
        text = PIPELINE.format(keys=keys, select=select, more=more)
        folder.write("src/a.py", text.replace('"in"', repr(str(folder.folder / "in"))))

    folder.define = write
    return folder


class _End(Exception):
    pass


def ends_at(wanted):
    def step(name):
        if name == wanted:
            raise _End

    return step


def test_each_group_has_its_newest_row_though_a_run_ended(totals):
    totals.define()
    totals.feed("in/0.json", {"shop": "north", "amount": 1}, {"shop": None, "amount": 2})
    assert totals.run(step=ends_at("written"))["totals"].error is not None
    # It goes on behind its commit; a row that is dropped leaves the one before it as it was.
    totals.feed("in/1.json", {"shop": None, "amount": 3}, {"shop": "north", "amount": 5000})
    found = totals.run()["totals"]
    assert (found.error, found.counts.read, found.counts.written, found.counts.dropped) == (None, 2, 1, 1)
    assert totals.rows("default.totals", "shop, amount") == [("north", 1), (None, 5)]
    (planned,) = totals.plan()["totals"].flows
    assert planned.reason.endswith("; a row replaces the one with its shop")


@pytest.mark.long
def test_each_group_has_its_newest_row_wherever_a_run_ends(totals):
    totals.define()
    (planned,) = totals.plan()["totals"].flows
    assert planned.reason == "its sources are read from their starting positions; a row replaces the one with its shop"
    sums = Counter()
    for number, step in enumerate(("none", "check", "write", "written", "none")):
        rows = [{"shop": shop, "amount": number + 1} for shop in ("north", None, f"new {number}")]
        sums.update({row["shop"]: row["amount"] for row in rows})
        totals.feed(f"in/{number}.json", *rows)
        if step != "none":
            assert totals.run(step=ends_at(step))["totals"].error is not None, step
        found = totals.run()["totals"]
        assert found.error is None, step
        assert Counter(dict(totals.rows("default.totals", "shop, amount"))) == sums, step
    assert found.counts.written == 3
    # A row that is dropped leaves the one before it as it was.
    totals.feed("in/9.json", {"shop": "north", "amount": 5000}, {"shop": "south", "amount": 1})
    found = totals.run()["totals"]
    assert (found.counts.read, found.counts.written, found.counts.dropped) == (2, 1, 1)
    assert Counter(dict(totals.rows("default.totals", "shop, amount"))) == sums + Counter({"south": 1})


def test_several_rows_of_a_key_are_refused_with_the_batch(totals):
    totals.define(select=".select(F.lit('all').alias('shop'), 'amount')")
    totals.feed("in/0.json", {"shop": "north", "amount": 1}, {"shop": "south", "amount": 2})
    assert str(totals.run()["totals"].error) == (
        "[UPDATE_KEYS_REPEATED] flow sums: 1 keys have several rows for totals in one batch; the batch was not "
        "written\n  at: src/a.py:8\n  hint: group the query by shop alone, or name all columns of its groupBy in keys"
    )
    assert totals.rows("default.totals") == []


OTHER = """
@dp.append_flow(target="totals", name="more")
def more():
    return spark.readStream.schema("shop string, amount bigint").json("in")
"""
SINK = 'dp.create_sink("out", "console")\n\n@dp.update_flow(target="out", keys=["shop"], name="out")\n'
SINK += 'def out():\n    return spark.readStream.schema("shop string, amount bigint").json("in")\n'


@pytest.mark.parametrize(
    ("settings", "flow", "line", "detail", "hint"),
    [
        (
            {"keys": ""},
            "sums into totals",
            8,
            "it names no keys, and a table needs them",
            'keys=["shop", "start"], the columns of groupBy',
        ),
        (
            {"keys": ', keys=["shops"]'},
            "sums into totals",
            8,
            "keys names shops, which is no column of its query",
            "did you mean 'shop'?",
        ),
        (
            {"keys": ', keys=["at"]', "select": ".withColumn('at', F.struct('shop'))"},
            "sums into totals",
            8,
            "keys names at, which is struct<shop:string>, and a key is one value",
            "select its parts: at.start",
        ),
        (
            {"more": OTHER},
            "sums into totals",
            12,
            "another flow writes its table too",
            "give each flow a table of its own",
        ),
        (
            {"more": SINK},
            "out into sink out",
            8,
            "keys are for tables, and a sink gets each row that changed",
            "remove keys",
        ),
    ],
)
def test_what_cannot_be_merged_is_refused(totals, settings, flow, line, detail, hint):
    totals.define(**settings)
    with pytest.raises(RivermouthError) as raised:
        totals.plan()
    assert str(raised.value) == (
        f"[DEFINITION_INVALID] flow {flow}: {detail}; the pipeline was not run\n  at: src/a.py:{line}\n  hint: {hint}"
    )
