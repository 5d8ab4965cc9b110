"""``plan`` predicts what ``run`` does: a model that knows the plan alone has the rows of the lake."""

from __future__ import annotations

import random
import re
import shutil
from collections import Counter

import pytest

from rivermouth.engine.query import query_events as ev
from rivermouth.errors import TableSchemaChanged

SOURCE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

@dp.table
def bronze():
    return spark.readStream.schema("id bigint, region string").json("in")

@dp.table
def scaled():
    return spark.readStream.table("bronze").selectExpr("id * {factor} AS scaled")

dp.create_streaming_table("both")

for name in ("north", "south"):
    @dp.append_flow(target="both", name=name)
    def regional(name=name):
        return spark.readStream.table("bronze").where(f"region = '{{name}}'")

@dp.append_flow(target="both", once=True)
def past():
    return spark.range(100, 102).selectExpr("id", "'past' AS region")

dp.create_streaming_table("newest")
dp.create_auto_cdc_flow(target="newest", source="bronze", keys=["id"], sequence_by="id")

@dp.materialized_view
def totals():
    return spark.read.table("both").groupBy("region").agg(F.count("*").cast("{kind}").alias("n"))
"""
LEAVES = ("scaled", "both", "newest", "totals")
NOTHING = ("nothing", "not selected")


class Model:
    """The rows that a plan promises.

    Attributes:
        fed: The rows of all files.
        rows: By table its rows.
        read: By flow how many rows of bronze it has read.
        factor: Of the query of ``scaled`` now.
        kind: The type of the numbers of ``totals`` in its query now.
    """

    def __init__(self, folder):
        self.folder, self.factor, self.kind = folder, 2, "bigint"
        self.fed, self.rows, self.read = [], {name: [] for name in ("bronze", *LEAVES)}, Counter()
        self.write()

    def write(self):
        self.folder.write("src/a.py", SOURCE.format(factor=self.factor, kind=self.kind))

    def feed(self):
        new = [(len(self.fed) + each, ("north", "south")[each % 2]) for each in range(3)]
        self.folder.feed(f"in/{len(self.fed)}.json", *({"id": id_, "region": region} for id_, region in new))
        self.fed += new

    def change_query(self):
        self.factor += 1
        self.write()

    def change_type(self):
        self.kind = "string" if self.kind == "bigint" else "bigint"
        self.write()

    def lose_checkpoints(self):
        shutil.rmtree(self.folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints", ignore_errors=True)

    def promised(self, planned):
        """Applies a plan."""
        for name, dataset in planned.items():
            for flow in dataset.flows:
                if flow.action == "clear":
                    self.rows[name] = []
            for flow in dataset.flows:
                self.apply(name, flow.flow, flow.action)

    def apply(self, name, flow, action):
        if action in NOTHING:
            return
        if name == "bronze":
            self.rows["bronze"] = list(self.fed)
        elif name == "totals":
            counts, of_kind = Counter(region for _, region in self.rows["both"]), {"bigint": int, "string": str}
            self.rows["totals"] = [(region, of_kind[self.kind](n)) for region, n in counts.items()]
        elif flow == "past":
            self.rows["both"] += [(100, "past"), (101, "past")]
        else:
            begin = 0 if action in ("create", "clear", "read again") else self.read[flow]
            self.rows[name] = self.written(name, flow, self.rows["bronze"][begin:])
            self.read[flow] = len(self.rows["bronze"])

    def written(self, name, flow, new):
        if name == "scaled":
            return self.rows[name] + [(id_ * self.factor,) for id_, _ in new]
        if name == "newest":
            return list({**dict(self.rows[name]), **dict(new)}.items())
        return self.rows[name] + [row for row in new if row[1] == flow]


def assert_predicted(folder, model, selection):
    """Of an update that is refused, too: ``totals`` gets its new type only where it is computed."""
    try:
        planned = folder.plan(**selection)
    except TableSchemaChanged as error:
        with pytest.raises(TableSchemaChanged, match=re.escape(str(error))):
            folder.run(**selection)
        return
    found = folder.run(**selection)
    said = {each.flow: each for dataset in planned.values() for each in dataset.flows}
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert {name for name, each in planned.items() if each.flows[0].action != "not selected"} == set(found)
    model.promised(planned)
    for name, rows in model.rows.items():
        assert folder.rows(f"default.{name}") == sorted(rows, key=repr), (name, selection, planned[name])
    if "totals" in found:
        assert found["totals"].refresh in (said["totals"].action, *said["totals"].or_else)
    changed = {each.flow for each in folder.events if isinstance(each, ev.QueryChanged)}
    assert changed <= {name for name, each in said.items() if "has changed" in each.reason}
    if "scaled" in found and found["scaled"].counts.written and "has changed" in said["scaled"].reason:
        assert "scaled" in changed


def test_a_plan_predicts_new_rows_a_changed_query_and_a_flow_that_is_read_again(folder):
    model = Model(folder)
    model.feed()
    assert_predicted(folder, model, {})
    model.feed()
    model.change_query()
    model.lose_checkpoints()
    assert_predicted(folder, model, {"reset_checkpoint": ("south",), "refresh": ("bronze", "scaled")})


@pytest.mark.long
@pytest.mark.parametrize("seed", range(4))
def test_a_plan_predicts_what_a_run_does(folder, seed):
    chance, model = random.Random(seed), Model(folder)
    steps = (model.feed, model.feed, model.change_query, model.change_type, model.lose_checkpoints, lambda: None)
    selections = (
        dict,
        lambda: {"refresh": tuple(chance.sample(("bronze", *LEAVES), 2))},
        lambda: {"full_refresh": (chance.choice(LEAVES),)},
        lambda: {"reset_checkpoint": (chance.choice(("scaled", "both", "north", "newest", "totals")),)},
        lambda: {"full_refresh": ("both",), "reset_checkpoint": ("scaled",), "refresh": ("bronze",)},
    )
    model.feed()
    assert_predicted(folder, model, {})
    for _ in range(6):
        for step in chance.choices(steps, k=2):
            step()
        assert_predicted(folder, model, chance.choice(selections)())
