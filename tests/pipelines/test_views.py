"""A materialized view equals its batch query, however it is refreshed; and `plan` says how it will be."""

import random
import re
from collections import defaultdict
from decimal import Decimal

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rivermouth.domain.query.view_rules import changes_by_itself
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.audit import audited
from rivermouth.ports.internals.query_plans import ViewPlan

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
SELECT id, name, amount FROM (SELECT *, row_number() OVER (PARTITION BY name ORDER BY id DESC) AS nth FROM facts)
WHERE nth = 1;

CREATE MATERIALIZED VIEW above AS
SELECT id, amount FROM (SELECT * FROM facts) WHERE amount >= (SELECT min(amount) FROM more);

CREATE MATERIALIZED VIEW both REFRESH POLICY INCREMENTAL AS
SELECT name, sum(amount / 4D) AS quarters, sum(CAST(amount AS DECIMAL(38, 2))) AS exact
FROM (SELECT name, amount FROM facts UNION ALL SELECT name, amount FROM more) GROUP BY ALL;

CREATE MATERIALIZED VIEW whole AS SELECT count(*) AS n, sum(amount) AS total FROM facts;

CREATE MATERIALIZED VIEW by_count REFRESH POLICY INCREMENTAL AS SELECT n, count(*) AS names FROM by_name GROUP BY n;
"""
FEW = ("united", "joined", "by_name", "newest", "above", "both", "by_count")
"""Views that each have something that no other has."""
FEWEST = ("joined", "by_name")
"""A view that appends rows, and one that computes groups."""
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
    labels, counts, both = defaultdict(int), defaultdict(int), defaultdict(list)
    for row in [*facts, *more]:
        both[row["name"]].append(row["amount"])
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
        "above": [(row["id"], row["amount"]) for row in facts if row["amount"] >= min(each["amount"] for each in more)],
        "both": [(name, sum(each / 4 for each in found), Decimal(f"{sum(found)}.00")) for name, found in both.items()],
        "whole": [(len(facts), sum(row["amount"] for row in facts) if facts else None)],
        "by_count": list(counts.items()),
    }


class Lake:
    """Tables of a lake that somebody else writes, and what was done to them since they were looked at."""

    def __init__(self, folder, seed):
        self.folder, self.chance, self.rows, self.done = folder, random.Random(seed), {}, defaultdict(set)
        self.next_id, self.has_feed = 0, seed % 2 == 0

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
        table, settings = pa.Table.from_pylist(rows, schema), {"delta.enableChangeDataFeed": str(self.has_feed).lower()}
        write_deltalake(self.location(name), table, mode="append", configuration=settings)
        self.rows.setdefault(name, []).extend(rows)
        self.done[name].add("appended")

    def copy(self, name):
        if rows := self.rows[name]:
            self._append(name, [self.chance.choice(rows)], SCHEMA)

    def delete(self, name):
        if rows := self.rows[name]:
            gone = self.chance.choice(rows)["id"]
            DeltaTable(self.location(name)).delete(f"id = {gone}")
            self.rows[name] = [row for row in rows if row["id"] != gone]
            self.done[name].add("changed")

    def update(self, name):
        if rows := self.rows[name]:
            row, field, value = self.chance.choice(
                [
                    (row, field, value)
                    for row in rows
                    for field, value in (("amount", 4), ("amount", -1), ("name", "ab"))
                ]
            )
            DeltaTable(self.location(name)).update(predicate=f"id = {row['id']}", updates={field: repr(value)})
            row[field] = value
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
        found["above"] = "full" if more else by_rows[facts]
        found["both"] = "groups" if facts or more else "nothing"
        found["by_label"] = "full" if dims else found["by_name"]
        return found


def some_of(views, names):
    """The statements of these views."""
    return ";".join(each for each in views.split(";") if any(f" VIEW {name} " in each for name in names))


# Its tables have a change data feed.
SHORT = 2


def test_by_increments_few_views_equal_their_batch_queries(folder):
    # Rows that are added, and a group that grows; changed and deleted rows are in the tests below.
    assert_by_increments(folder, SHORT, FEWEST, refreshes=2)


@pytest.mark.long
@pytest.mark.parametrize("seed", [SHORT, *(seed for seed in range(1, 12) if seed != SHORT)])
def test_by_increments_a_view_equals_its_batch_query_and_plan_says_how(folder, seed):
    if seed == SHORT:
        assert_by_increments(folder, seed, FEW, refreshes=2)
    else:
        assert_by_increments(folder, seed, None, refreshes=5)


def assert_by_increments(folder, seed, views, refreshes):
    """Of these views, or all of them."""
    folder.write("src/views.sql", VIEWS if views is None else some_of(VIEWS, views))
    lake = Lake(folder, seed)
    for name, count in (("facts", 6), ("more", 2)):
        lake.insert(name, count)
    for name in ("ab", "cd"):
        lake.add_dim(name, name.upper())
    views = views or tuple(batch(lake.rows))
    expected = dict.fromkeys(views, "full")
    steps = [
        lambda: lake.insert("facts", 2),
        lambda: lake.insert("more", 1),
        lambda: lake.delete("facts"),
        lambda: lake.update("facts"),
        lambda: lake.copy("facts"),
        lambda: lake.compact("facts"),
        lambda: lake.add_dim(lake.chance.choice(("e", "i", "ab")), "new"),
    ]
    weights = (5, 2, 2, 3, 1, 1, 1)
    for refresh in range(refreshes):
        planned, found = folder.plan(), folder.run()
        kinds = {name: each.refresh for name, each in found.items()}
        assert {name: kind for name, kind in kinds.items() if name in expected} == {
            name: kind for name, kind in expected.items() if name in kinds
        }, refresh
        for name, each in planned.items():
            flow = each.flows[0]
            assert kinds[name] in (flow.action, *flow.or_else), (refresh, name, flow)
            assert name == "by_count" or not flow.or_else
        rows = batch(lake.rows)
        for name in views:
            assert folder.rows(f"default.{name}") == sorted(rows[name], key=repr), (refresh, name, kinds)
        assert {each.problems for each in audited(folder.pipeline())} == {()}
        lake.done.clear()
        if refresh == 0:
            lake.insert("facts", 2)
        for step in lake.chance.choices(steps, weights, k=(1, 2, 0)[refresh % 3]):
            step()
        expected = lake.expected()


TWO = """
CREATE MATERIALIZED VIEW doubled AS SELECT id, amount * 2 AS twice FROM facts WHERE amount <> 3;
CREATE MATERIALIZED VIEW by_name (CONSTRAINT known EXPECT (name IS NOT NULL) ON VIOLATION DROP ROW)
REFRESH POLICY INCREMENTAL AS SELECT name, sum(amount) AS total FROM facts GROUP BY name;
"""


def two(rows):
    """What ``TWO`` comes to."""
    totals = defaultdict(int)
    for row in rows:
        totals[row["name"]] += row["amount"]
    return {
        "doubled": [(row["id"], row["amount"] * 2) for row in rows if row["amount"] != 3],
        "by_name": [(name, total) for name, total in totals.items() if name is not None],
    }


def kinds_of(found):
    return {name: each.refresh for name, each in found.items()}


def check(folder, expected):
    for name, rows in expected.items():
        assert folder.rows(f"default.{name}") == sorted(rows, key=repr), name


def problems_of(folder):
    """What an audit finds wrong with the views."""
    return {each.dataset: each.problems for each in audited(folder.pipeline()) if each.kind == "materialized_view"}


class _Stop(Exception):
    """Ends a refresh at a step."""


@pytest.mark.long
def test_ended_before_or_after_its_commit_a_view_is_right_with_the_next_run(folder):
    folder.write("src/views.sql", TWO)
    lake = Lake(folder, 5)
    lake.insert("facts", 8)
    folder.run()
    for at in ("write", "written"):
        lake.insert("facts", 3)

        def step(name, at=at):
            if name == at:
                raise _Stop(name)

        assert {each.result for each in folder.run(step=step).values()} == {"failed"}
        if at == "write":
            lake.insert("facts", 1)
        found = folder.run()
        if at == "write":
            assert kinds_of(found) == {"doubled": "append", "by_name": "groups"}
            # What was read is what was written, dropped and dead-lettered.
            assert all(each.counts.read == each.counts.written + each.counts.dropped for each in found.values())
        else:
            assert kinds_of(found) == {"doubled": "nothing", "by_name": "nothing"}
        check(folder, two(lake.rows["facts"]))
    newest = DeltaTable(lake.location("by_name"))
    assert '"refreshed": "groups"' in newest.history(1)[0]["userMetadata"]
    assert problems_of(folder) == {"doubled": (), "by_name": ()}
    # A row that is lost, and rows that somebody else deletes, are found.
    commit = folder.folder / f"lake/default/by_name/_delta_log/{newest.version():020d}.json"
    whole, rows = commit.read_text(), len(folder.rows("default.by_name"))
    commit.write_text(
        re.sub(r'numRecords\\":(\d+)', lambda found: f'numRecords\\":{int(found[1]) - 1}', whole, count=1)
    )
    lost = f"the table has {rows - 1} rows, and its ledgers say {rows}"
    assert problems_of(folder) == {"doubled": (), "by_name": (lost,)}
    commit.write_text(whole)
    DeltaTable(lake.location("doubled")).delete("id = 1")
    deleted = f"version {DeltaTable(lake.location('doubled')).version()} (DELETE) is of no flow of the pipeline"
    assert problems_of(folder) == {
        "doubled": (f"{deleted}, and changed its rows; its next refresh is full",),
        "by_name": (),
    }


@pytest.mark.long
def test_what_is_committed_while_a_view_is_refreshed_comes_with_the_next_refresh(folder, spark):
    """The source is Spark's: rows are marked as deleted, and its change data feed is read once it is enabled."""
    folder.write("src/views.sql", TWO)
    place = f"delta.`{folder.folder}/lake/default/facts`"
    spark.sql(
        f"CREATE TABLE {place} (id BIGINT, name STRING, amount BIGINT) USING delta "
        "TBLPROPERTIES (delta.enableDeletionVectors = true)"
    )
    spark.sql(f"INSERT INTO {place} SELECT id, concat('n', id % 7), id FROM range(0, 40, 1, 1)")

    def rows():
        return [row.asDict() for row in spark.sql(f"SELECT * FROM {place}").collect()]

    folder.run()
    check(folder, two(rows()))
    spark.sql(f"INSERT INTO {place} VALUES (100, 'n1', 5)")
    before, done = rows(), []

    def step(name):
        if name == "check" and not done:
            done.append(spark.sql(f"INSERT INTO {place} VALUES (101, 'n2', 7)"))

    assert kinds_of(folder.run(step=step, refresh=("doubled",))) == {"doubled": "append"}
    check(folder, {"doubled": two(before)["doubled"]})
    assert kinds_of(folder.run()) == {"doubled": "append", "by_name": "groups"}
    check(folder, two(rows()))
    spark.sql(f"DELETE FROM {place} WHERE id IN (3, 100)")
    found = folder.run()
    assert kinds_of(found) == {"doubled": "full", "by_name": "groups"}
    assert found["by_name"].counts.read == 2
    assert found["doubled"].reason == "1 new version of facts; rows of facts were changed or deleted"
    check(folder, two(rows()))
    spark.sql(f"ALTER TABLE {place} SET TBLPROPERTIES (delta.enableChangeDataFeed = true)")
    spark.sql(f"INSERT INTO {place} VALUES (102, 'n5', 7)")
    spark.sql(f"UPDATE {place} SET amount = 1000 WHERE id = 4")
    found = folder.run()
    assert kinds_of(found) == {"doubled": "full", "by_name": "groups"}
    assert found["by_name"].counts.read == 2
    check(folder, two(rows()))


UNSURE = """
from pyspark import pipelines as dp
from pyspark.sql import functions as F

lookup = spark.read.json("lookup")
RATE = float(spark.conf.get("rate"))
times = F.udf(lambda amount: amount * RATE, "double")

@dp.materialized_view(partition_cols=["name"], refresh_policy="incremental")
def by_name():
    return spark.read.table("facts").groupBy("name").agg(F.sum("amount").alias("total"))

@dp.materialized_view
def looked_up():
    return spark.read.table("facts").join(lookup, "name").select("id", "label")

@dp.materialized_view
@dp.expect_or_drop("one", "count(*) OVER (PARTITION BY name) = 1")
def alone():
    return spark.read.table("facts").select("id", "name")

@dp.materialized_view
def rated():
    return spark.read.table("facts").select("id", times("amount").alias("amount"))
"""


@pytest.mark.long
def test_where_new_rows_do_not_say_what_the_view_is_it_is_computed_in_full(folder):
    """Texts that a table is partitioned by, frames of the whole file, expectations over rows, values in functions."""
    settings = "name: shop\nlibraries: [{{glob: {{include: src/**}}}}]\nconfiguration: {{rate: '{}'}}\n"
    facts = folder.folder / "lake/default/facts"

    def insert(*rows):
        table = pa.Table.from_pylist([dict(zip(SCHEMA.names, row, strict=True)) for row in rows], SCHEMA)
        write_deltalake(str(facts), table, mode="append")

    folder.write("src/a.py", UNSURE)
    folder.write("pipeline.yml", settings.format(1))
    folder.feed("lookup/1.json", {"name": "b", "label": "x"})
    insert((1, "", 1), (2, None, 2), (3, "b", 3))
    assert set(kinds_of(folder.run()).values()) == {"full"}
    folder.feed("lookup/2.json", {"name": "a", "label": "y"})
    insert((4, "", 5), (5, "b", 1), (6, "a", 1))
    found = folder.run()
    assert set(kinds_of(found).values()) == {"full"}
    reasons = {name: each.reason.removeprefix("1 new version of facts; ") for name, each in found.items()}
    assert reasons | {"rated": ""} == {
        "by_name": "column name is a text that its table is partitioned by",
        "looked_up": "it reads a frame that was made outside of it, and it is not known whether that has changed",
        "alone": "an expectation looks at several rows",
        "rated": "",
    }
    by_name = sorted(folder.rows("default.by_name", "total"))
    assert by_name == [(1,), (2,), (4,), (6,)]  # of a, null, b and the empty text
    assert sorted(folder.rows("default.looked_up", "id, label")) == [(3, "x"), (5, "x"), (6, "y")]
    assert sorted(folder.rows("default.alone", "id")) == [(2,), (6,)]
    folder.write("pipeline.yml", settings.format(2))
    assert folder.run()["rated"].reason == "its definition has changed"
    assert min(folder.rows("default.rated", "id, amount")) == (1, 2.0)


@pytest.mark.long
def test_what_cannot_be_followed_is_computed_in_full_and_says_why(folder, spark):
    folder.write("src/views.sql", TWO)
    lake = Lake(folder, 7)
    lake.insert("facts", 8)
    folder.run()
    reasons = []

    def refreshed():
        found = folder.run()
        assert kinds_of(found) == {"doubled": "full", "by_name": "full"}
        check(folder, two(lake.rows["facts"]))
        reasons.append(found["by_name"].reason)

    def planned():
        found = {name: each.flows[0] for name, each in folder.plan().items()}
        assert {name: each.action for name, each in found.items()} == {"doubled": "full", "by_name": "full"}
        reasons.append(found["by_name"].reason)

    table = pa.Table.from_pylist(lake.rows["facts"], SCHEMA)
    write_deltalake(lake.location("facts"), table, mode="overwrite")
    refreshed()
    DeltaTable(lake.location("facts")).restore(0)
    planned()
    for name in ("doubled", "by_name"):
        spark.sql(f"DELETE FROM delta.`{lake.location(name)}`")
    refreshed()
    lake.insert("facts", 1)
    lake.insert("facts", 1)
    DeltaTable(lake.location("facts")).create_checkpoint()
    for version in range(4):
        (folder.folder / f"lake/default/facts/_delta_log/{version:020d}.json").unlink()
    refreshed()
    folder.write("src/views.sql", TWO.replace("amount <> 3", "3 <> amount").replace("known", "named"))
    planned()
    folder.write("src/views.sql", TWO)
    settings = "name: shop\nlibraries: [{glob: {include: src/**}}]\n"
    folder.write("pipeline.yml", f"{settings}configuration: {{spark.sql.session.timeZone: Asia/Tokyo}}\n")
    planned()
    assert reasons == [
        "1 new version of facts; facts: all of its rows were replaced in version 1",
        "1 new version of facts; facts: it was made or filled again (RESTORE) in version 2",
        "its table was changed by somebody else: DELETE in version 3",
        "facts: its log no longer has version 3",
        "its definition has changed",
        "its definition has changed",
    ]


@pytest.mark.long
def test_where_a_users_function_or_the_time_decides_a_view_is_computed_in_full(folder):
    code = """
import dlt
from pyspark.sql import functions as F

@F.udf("bigint")
def changed(amount):
    return amount + 1

@dlt.table
def by_function():
    return spark.read.table("facts").select("id", changed("amount").alias("amount"))

@dlt.table
@dlt.expect_or_drop("past", "id < unix_timestamp()")
def by_time():
    return spark.read.table("facts").select("id")

@dlt.table
def by_day():
    return spark.read.table("facts").select("id").where("DATE '2026-01-01' < CAST('today' AS DATE)")
"""
    lake, time = Lake(folder, 5), "depends on the time, the session or the user"
    lake.insert("facts", 3)
    for text, add, reason in (
        (code, 1, "it was not computed yet"),
        (code, 2, ""),
        (code.replace("+ 1", "+ 2"), 2, "its definition has changed"),
    ):
        folder.write("src/a.py", text)
        found = folder.run()
        check(
            folder, {"by_function": [(row["id"], row["amount"] + add) for row in lake.rows["facts"]]} if reason else {}
        )
        assert found["by_function"].reason == (reason or "no table that it reads has new rows")
    assert (found["by_time"].refresh, found["by_time"].reason) == ("full", f"an expectation {time}")
    assert (found["by_day"].refresh, found["by_day"].reason) == ("full", f"its query {time}")
    lake.insert("facts", 1)
    own = "1 new version of facts; its query calls a user's own function, whose code may have changed"
    assert folder.run()["by_function"].reason == own


def test_a_word_for_a_day_or_a_moment_is_the_time(spark):
    """Spark puts the day in its place when it optimises a query; the analysed query is the same at any time."""

    def is_of_its_time(condition):
        rows = "VALUES (DATE '2026-01-01', TIMESTAMP '2026-01-01 00:00:00', 'today') AS t(day, at, word)"
        return bool(changes_by_itself(ViewPlan(spark.sql(f"SELECT * FROM {rows} WHERE {condition}")).tree))

    words = {
        "day = CAST('today' AS DATE)",
        "day >= 'yesterday'",
        "day = to_date(' Tomorrow ')",
        "day = date('now')",
        "day = CAST(concat('to', 'day') AS DATE)",
        "day = CAST(nvl('today', 'x') AS DATE)",
        "at < CAST('now' AS TIMESTAMP)",
        "at < to_timestamp('today UTC')",
        "CAST(at AS TIMESTAMP_NTZ) < CAST('TODAY' AS TIMESTAMP_NTZ)",
        "day IN (SELECT CAST('today' AS DATE))",
        "at < now()",
    }
    fixed = {
        "day = DATE 'today'",  # the parser has put the day in its place, so the query is another one each day
        "day = CAST('2026-01-01' AS DATE)",
        "day > 'epoch'",
        "at > CAST(' Epoch' AS TIMESTAMP)",
        "day = to_date('01.01.2026', 'dd.MM.yyyy')",
        "day = try_cast(word AS DATE)",
        "word = 'today'",
        "CAST(day AS STRING) <> CAST('now' AS STRING)",
    }
    assert {each for each in (*words, *fixed) if is_of_its_time(each)} == words


@pytest.fixture
def strict(folder):
    """A lake with a view that is refreshed by increments, or not at all."""
    folder.write(
        "src/a.py",
        "import dlt\n"
        "@dlt.table(refresh_policy='incremental_strict')\n"
        "def doubled():\n"
        "    return spark.read.table('facts').selectExpr('amount * 2 AS twice')\n",
    )
    lake = Lake(folder, 3)
    lake.insert("facts", 4)
    assert kinds_of(folder.run()) == {"doubled": "full"}
    return lake


def test_a_policy_that_cannot_be_kept_is_refused(folder, strict):
    assert_refused(folder, strict)
    assert_policies_are_refused(folder)


@pytest.mark.long
def test_a_policy_is_kept_or_refused(folder, strict):
    strict.insert("facts", 1)
    assert kinds_of(folder.run()) == {"doubled": "append"}
    assert_refused(folder, strict)
    assert kinds_of(folder.run(full_refresh=("doubled",))) == {"doubled": "full"}
    assert_policies_are_refused(folder)


def assert_refused(folder, lake):
    """By the run in which a row is gone."""
    lake.delete("facts")
    assert folder.plan()["doubled"].flows[0].action == "refused"
    assert str(folder.run()["doubled"].error) == (
        "[REFRESH_NOT_INCREMENTAL] materialized view doubled: refresh_policy is incremental_strict, and it cannot be "
        "refreshed by increments: 1 new version of facts; rows of facts were changed or deleted; it was not refreshed\n"
        "  at: src/a.py:2\n"
        "  hint: rivermouth run --full-refresh doubled, once; or write another refresh_policy"
    )


def assert_policies_are_refused(folder):
    """By the plan."""
    folder.write("src/a.py", "")
    folder.write(
        "src/b.sql", "CREATE MATERIALIZED VIEW n REFRESH POLICY INCREMENTAL AS SELECT count(*) AS n FROM facts"
    )
    with pytest.raises(RivermouthError) as refused:
        folder.plan()
    assert str(refused.value) == (
        "[REFRESH_POLICY_REFUSED] materialized view n: refresh_policy is incremental, and its query aggregates all "
        "rows, without GROUP BY; the pipeline was not run\n"
        "  at: src/b.sql:1\n"
        "  hint: write refresh_policy auto, or change the query"
    )
    for text, said in (
        (
            "@dlt.table(refresh_policy='often')\ndef n():\n    return spark.read.table('facts')\n",
            (
                "[DEFINITION_INVALID] table n: refresh_policy is 'often'; the pipeline was not run\n"
                "  at: src/a.py:2\n"
                "  hint: one of auto, full, incremental, incremental_strict"
            ),
        ),
        (
            "@dlt.table(refresh_policy='full')\ndef n():\n    return spark.readStream.table('facts')\n",
            (
                "[DEFINITION_INVALID] streaming table n: it has a refresh_policy, which is for materialized views; "
                "the pipeline was not run\n"
                "  at: src/a.py:2\n"
                "  hint: remove refresh_policy"
            ),
        ),
    ):
        folder.write("src/b.sql", "")
        folder.write("src/a.py", f"import dlt\n{text}")
        with pytest.raises(RivermouthError) as refused:
            folder.plan()
        assert str(refused.value) == said
