"""A materialized view equals its batch query, however it is refreshed; and `plan` says how it will be."""

import random
from collections import defaultdict

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

VIEWS = """
CREATE MATERIALIZED VIEW rows_of AS
SELECT id, upper(name) AS name, amount * 2 AS twice FROM facts WHERE amount >= 0;

CREATE MATERIALIZED VIEW united AS
SELECT id, amount FROM facts UNION ALL SELECT id, amount FROM more;

CREATE MATERIALIZED VIEW joined AS
SELECT id, label FROM facts JOIN dims USING (name);

CREATE MATERIALIZED VIEW exploded AS
WITH parts AS (SELECT id, split(name, '') AS letters FROM facts) SELECT id, letter FROM parts
LATERAL VIEW explode(letters) AS letter;

CREATE MATERIALIZED VIEW by_name REFRESH POLICY INCREMENTAL AS
SELECT name, count(*) AS n, sum(amount) AS total, min(amount) AS least, max(amount) AS most, avg(amount) AS mean,
       count(DISTINCT amount) AS several
FROM facts GROUP BY name HAVING count(*) > 1;

CREATE MATERIALIZED VIEW by_label REFRESH POLICY INCREMENTAL AS
SELECT label, count(*) AS n FROM facts LEFT JOIN dims USING (name) GROUP BY label;

CREATE MATERIALIZED VIEW names REFRESH POLICY INCREMENTAL AS SELECT DISTINCT name, amount > 0 AS positive FROM facts;

CREATE MATERIALIZED VIEW newest REFRESH POLICY INCREMENTAL AS
SELECT id, name, amount FROM facts QUALIFY row_number() OVER (PARTITION BY name ORDER BY id DESC) = 1;

CREATE MATERIALIZED VIEW whole AS SELECT count(*) AS n, sum(amount) AS total FROM facts;

CREATE MATERIALIZED VIEW by_count REFRESH POLICY INCREMENTAL AS SELECT n, count(*) AS names FROM by_name GROUP BY n;
"""
ROWS = ("rows_of", "united", "joined", "exploded")
GROUPS = ("by_name", "by_label", "names", "newest")
SCHEMA = pa.schema([("id", pa.int64()), ("name", pa.string()), ("amount", pa.int64())])


def batch(tables):
    """What the queries come to, by views: the same, in Python."""
    facts, more, dims = tables["facts"], tables["more"], tables["dims"]
    groups = defaultdict(list)
    for row in facts:
        groups[row["name"]].append(row)
    by_name = []
    for name, rows in groups.items():
        amounts = [row["amount"] for row in rows]
        of = (sum(amounts), min(amounts), max(amounts), sum(amounts) / len(amounts), len(set(amounts)))
        by_name += [(name, len(rows), *of)] if len(rows) > 1 else []
    labels, counts = defaultdict(int), defaultdict(int)
    for row in facts:
        for label in [each["label"] for each in dims if each["name"] == row["name"]] or [None]:
            labels[label] += 1
    for row in by_name:
        counts[row[1]] += 1
    return {
        "rows_of": [
            (row["id"], (row["name"] or "").upper() or None, row["amount"] * 2) for row in facts if row["amount"] >= 0
        ],
        "united": [(row["id"], row["amount"]) for row in [*facts, *more]],
        "joined": [(row["id"], dim["label"]) for row in facts for dim in dims if dim["name"] == row["name"]],
        "exploded": [(row["id"], letter) for row in facts for letter in row["name"] or ""],
        "by_name": by_name,
        "by_label": list(labels.items()),
        "names": list({(row["name"], row["amount"] > 0) for row in facts}),
        "newest": [
            (row["id"], name, row["amount"])
            for name, rows in groups.items()
            for row in [max(rows, key=lambda r: r["id"])]
        ],
        "whole": [(len(facts), sum(row["amount"] for row in facts) if facts else None)],
        "by_count": list(counts.items()),
    }


class Lake:
    """Tables of a lake that somebody else writes, and what was done to them since they were looked at."""

    def __init__(self, folder, seed):
        self.folder, self.chance, self.rows, self.done = folder, random.Random(seed), {}, defaultdict(set)
        self.next_id = 0

    def location(self, name):
        return str(self.folder.folder / "lake/default" / name)

    def insert(self, name, count):
        rows = []
        for _ in range(count):
            self.next_id += 1
            rows.append(
                {
                    "id": self.next_id,
                    "name": self.chance.choice(("ab", "cd", "e", "fgh", "i", None)),
                    "amount": self.chance.randint(-2, 5),
                }
            )
        self._append(name, rows, SCHEMA)

    def add_dim(self, name, label):
        self._append(
            "dims", [{"name": name, "label": label}], pa.schema([("name", pa.string()), ("label", pa.string())])
        )

    def _append(self, name, rows, schema):
        write_deltalake(self.location(name), pa.Table.from_pylist(rows, schema), mode="append")
        self.rows.setdefault(name, []).extend(rows)
        self.done[name].add("appended")

    def delete(self, name):
        if rows := self.rows[name]:
            gone = self.chance.choice(rows)["id"]
            DeltaTable(self.location(name)).delete(f"id = {gone}")
            self.rows[name] = [row for row in rows if row["id"] != gone]
            self.done[name].add("changed")

    def update(self, name):
        if rows := self.rows[name]:
            row, amount = self.chance.choice(rows), self.chance.randint(-2, 5)
            DeltaTable(self.location(name)).update(predicate=f"id = {row['id']}", updates={"amount": str(amount)})
            row["amount"] = amount
            self.done[name].add("changed")

    def compact(self, name):
        DeltaTable(self.location(name)).optimize.compact()

    def expected(self):
        """How each view has to be refreshed."""
        done = {
            name: ("changed" if "changed" in what else "appended") if what else "" for name, what in self.done.items()
        }
        facts, more, dims = (done.get(name, "") for name in ("facts", "more", "dims"))
        by_rows = {"appended": "append", "changed": "full", "": "nothing"}
        found = {"rows_of": by_rows[facts], "exploded": by_rows[facts], "whole": "full" if facts else "nothing"}
        found["united"] = "full" if "changed" in (facts, more) else by_rows[facts or more]
        found["joined"] = "full" if facts and dims else by_rows[facts or dims]
        found |= dict.fromkeys(("by_name", "names", "newest"), "groups" if facts else "nothing")
        found["by_label"] = "full" if dims else found["by_name"]
        return found


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.long) for seed in range(2, 12))])
def test_by_increments_a_view_equals_its_batch_query_and_plan_says_how(folder, seed):
    folder.write("src/views.sql", VIEWS)
    lake = Lake(folder, seed)
    for name, count in (("facts", 6), ("more", 2)):
        lake.insert(name, count)
    for name in ("ab", "cd"):
        lake.add_dim(name, name.upper())
    expected = dict.fromkeys(batch(lake.rows), "full")
    steps = [
        lambda: lake.insert("facts", 2),
        lambda: lake.insert("more", 1),
        lambda: lake.delete("facts"),
        lambda: lake.update("facts"),
        lambda: lake.compact("facts"),
        lambda: lake.add_dim(lake.chance.choice(("e", "i", "ab")), "new"),
    ]
    weights = (5, 2, 2, 2, 1, 1)
    for refresh in range(4):
        planned, found = folder.plan(), folder.run()
        kinds = {name: each.refresh for name, each in found.items()}
        assert {name: kinds[name] for name in expected} == expected, refresh
        for name, each in planned.items():
            flow = each.flows[0]
            assert kinds[name] in (flow.action, *flow.or_else), (refresh, name, flow)
            assert name == "by_count" or not flow.or_else
        for name, rows in batch(lake.rows).items():
            assert folder.rows(f"default.{name}") == sorted(rows, key=repr), (refresh, name, kinds)
        lake.done.clear()
        if refresh == 0:
            lake.insert("facts", 2)
        for step in lake.chance.choices(steps, weights, k=(0, 1, 2)[refresh % 3]):
            step()
        expected = lake.expected()
