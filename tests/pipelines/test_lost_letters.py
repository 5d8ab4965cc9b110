"""Dead letters of a batch that ended behind its commit, or whose rows do not give the same ones again."""

import shutil
from types import SimpleNamespace

import pytest
from tests.pipelines.conftest import refusal

from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry
from rivermouth.engine.query.steps.batch_letters import Routed, hold
from rivermouth.ports.internals import sessions
from rivermouth.ports.lake.lake_files import LocalFiles, files_for
from rivermouth.rows import row_expectations
from rivermouth.side_tables.held_letters import FOLDER, HeldLetters
from rivermouth.side_tables.row_dead_letters import RowDeadLetters

PYTHON = """
from pyspark import pipelines as dp

def rows(place):
    return spark.readStream.schema("id bigint").json(place)

@dp.table
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def one():
    return rows("a")

@dp.table
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def two():
    return rows("a").unionByName(rows("b"))

@dp.temporary_view
def changes():
    return rows("b")

dp.create_streaming_table("keyed", expect_all_or_dead_letter={"good": "id % 2 = 0"})
dp.create_streaming_table("filled", expect_all_or_dead_letter={"good": "id % 2 = 0"})

@dp.append_flow(target="filled", once=True)
def fill():
    return spark.range(21, 24)

dp.create_auto_cdc_flow(target="keyed", source="changes", keys=["id"], sequence_by="id")
"""
TABLES = ("one", "two", "keyed", "filled")


def letters(folder, table):
    return folder.rows(f"default.{table}__dead_letters", "\"row\"['id']")


def ending(*steps):
    """Ends a batch at the first of these steps that it comes to."""

    def end(step):
        if step in steps:
            raise RuntimeError(step)

    return end


def forget_held(folder, *tables):
    """Leaves the folders of tables as earlier versions did, which held no dead letters."""
    for table in tables:
        shutil.rmtree(folder.folder / f"lake/default/{table}/{FOLDER}")


def errors(outcomes):
    return {name: str(each.error) for name, each in outcomes.items() if each.error}


def ended(folder, done=()):
    found = folder.run(step=ending("dead_letters"))
    assert [name for name, each in found.items() if each.result != "failed"] == [*done]
    shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")


@pytest.mark.long
def test_dead_letters_come_though_their_batch_is_in_the_table_and_the_checkpoint_is_gone(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("a/1.json", {"id": 1}, {"id": 2})
    folder.feed("b/1.json", {"id": 11}, {"id": 12})
    ended(folder)
    folder.feed("a/2.json", {"id": 3}, {"id": 4})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(TABLES)
    assert letters(folder, "one") == [(1,), (3,)]
    assert letters(folder, "two") == [(1,), (11,), (3,)]
    assert letters(folder, "keyed") == [(11,)]
    assert letters(folder, "filled") == [(21,), (23,)]
    # Behind a batch with files of one source alone, and of the other.
    folder.feed("a/3.json", {"id": 5}, {"id": 6})
    folder.run(refresh=("one", "two"))
    folder.feed("a/4.json", {"id": 7})
    folder.feed("b/4.json", {"id": 13}, {"id": 14})
    ended(folder, done=["filled"])
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(TABLES)
    assert folder.rows("default.one") == [(2,), (4,), (6,)]
    assert folder.rows("default.two") == [(12,), (14,), (2,), (4,), (6,)]
    assert folder.rows("default.keyed") == [(12,), (14,)]
    assert letters(folder, "one") == [(1,), (3,), (5,), (7,)]
    assert letters(folder, "two") == [(1,), (11,), (13,), (3,), (5,), (7,)]
    assert letters(folder, "keyed") == [(11,), (13,)]
    assert folder.rows("default.filled") == [(22,)]
    assert not any(each.counts.read for each in folder.run().values())


SNAPSHOTS = """
import json, pathlib
from pyspark import pipelines as dp

HERE = pathlib.Path("{folder}")
GOOD = dict(expect_all_or_dead_letter={{"good": "id % 2 = 0"}})

for name in ("now", "versions", "streamed"):
    dp.create_streaming_table(name, **GOOD)

@dp.temporary_view
def source():
    return spark.read.schema("id bigint").json(f"{{HERE}}/now")

def versioned(latest):
    number = 1 if latest is None else latest + 1
    path = HERE / f"versions/{{number}}.json"
    return (spark.read.schema("id bigint").json(str(path)), number) if path.exists() else None

dp.create_auto_cdc_from_snapshot_flow("now", "source", keys=["id"])
dp.create_auto_cdc_from_snapshot_flow("versions", versioned, keys=["id"])

@dp.append_flow(target="streamed", once=True)
def streamed():
    return spark.readStream.schema("id bigint").option("maxFilesPerTrigger", 1).json(f"{{HERE}}/more")
"""


@pytest.mark.long
def test_dead_letters_of_batches_that_cannot_come_again(folder):
    """The source of a snapshot is another one at the next run; what runs once reads all that there was."""
    folder.write("src/a.py", SNAPSHOTS.format(folder=folder.folder))
    for place in ("now", "versions", "more"):
        folder.feed(f"{place}/1.json", {"id": 1}, {"id": 2})
    for place in ("now", "more"):
        folder.feed(f"{place}/2.json", {"id": 3}, {"id": 4})

    assert {each.result for each in folder.run(step=ending("dead_letters")).values()} == {"failed"}
    assert folder.rows("default.now") == [(2,), (4,)]
    folder.feed("now/1.json", {"id": 5}, {"id": 6})
    folder.feed("versions/1.json", {"id": 9})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    assert folder.rows("default.now") == [(4,), (6,)]
    assert folder.rows("default.versions") == [(2,)]
    assert folder.rows("default.streamed") == [(2,), (4,)]
    assert letters(folder, "now") == [(1,), (3,), (3,), (5,)]
    assert letters(folder, "versions") == [(1,)]
    assert letters(folder, "streamed") == [(1,), (3,)]
    assert found["now"].counts.read == 4
    assert found["now"].counts.written == found["now"].counts.dead_lettered == 2
    folder.feed("more/3.json", {"id": 7}, {"id": 8})
    assert folder.plan()["streamed"].flows[0].action == "nothing"
    assert folder.run(refresh=("streamed",))["streamed"].reason == "it has run"
    assert folder.rows("default.streamed") == [(2,), (4,)]


def test_held_letters_are_whole_though_hadoop_writes_no_mark(spark, tmp_path):
    mark, conf = "mapreduce.fileoutputcommitter.marksuccessfuljobs", sessions.context_hadoop_conf(spark)
    held, entry = HeldLetters(files_for(str(tmp_path), spark), str(tmp_path)), QueryEntry("f", attempt="one")
    conf.set(mark, "false")
    try:
        held.hold(spark.range(3), entry)
    finally:
        conf.unset(mark)
    assert not [*tmp_path.rglob("_SUCCESS")]
    found = held.held(spark, entry)
    assert found is not None
    assert sorted(row.id for row in found.collect()) == [0, 1, 2]
    assert held.held(spark, QueryEntry("f", attempt="two")) is None
    # Stopped half-way.
    next(iter(tmp_path.rglob("_HELD"))).unlink()
    assert held.held(spark, entry) is None


VIEWS = """
from pyspark import pipelines as dp

@dp.table
def source():
    return spark.readStream.schema("id bigint").json("in")

@dp.materialized_view
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def copied():
    return spark.read.table("source")

@dp.materialized_view
@dp.expect_or_dead_letter("good", "id % 2 = 0")
def counted():
    return spark.read.table("source").groupBy("id").count()
"""


@pytest.mark.long
def test_dead_letters_of_views_come_though_the_refresh_ended_behind_its_commit(folder):
    folder.write("src/a.py", VIEWS)
    views = ("copied", "counted")

    def ended():
        found = folder.run(step=ending("dead_letters"))
        assert {name: each.result for name, each in found.items()} == {
            "source": "completed",
            **dict.fromkeys(views, "failed"),
        }

    folder.feed("in/1.json", {"id": 1}, {"id": 2})
    ended()
    forget_held(folder, *views)
    found = folder.run()
    assert {name: found[name].reason for name in views} == dict.fromkeys(
        views, "dead letters of its newest refresh are missing"
    )
    assert [letters(folder, name) for name in views] == [[(1,)], [(1,)]]
    # Behind an increment, with more rows before the next refresh.
    folder.feed("in/2.json", {"id": 3}, {"id": 4})
    assert [each.refresh for each in folder.events if hasattr(each, "refresh")] == ["full", "full"]
    ended()
    assert [each.refresh for each in folder.events if hasattr(each, "refresh")].count("append") == 1
    assert not [each for each in folder.plan().values() if "dead letters" in each.flows[0].reason]
    folder.feed("in/3.json", {"id": 5}, {"id": 6})
    folder.run()
    assert [letters(folder, name) for name in views] == [[(1,), (3,), (5,)]] * 2
    assert [folder.rows(f"default.{name}", "id") for name in views] == [[(2,), (4,), (6,)]] * 2
    assert {name: each.refresh for name, each in folder.run().items()} == {
        "source": "",
        **dict.fromkeys(views, "nothing"),
    }


MERGES = """
import pathlib
from pyspark import pipelines as dp

for name in ("newest", "versions", "filled"):
    dp.create_streaming_table(name)

@dp.temporary_view
def source():
    return spark.read.schema("id bigint, name string").json("{folder}/now")

dp.create_auto_cdc_from_snapshot_flow("newest", "source", keys=["id"])
dp.create_auto_cdc_from_snapshot_flow("versions", "source", keys=["id"], stored_as_scd_type=2)
dp.create_auto_cdc_flow("filled", "source", keys=["id"], sequence_by="id", once=True)
"""


@pytest.mark.long
def test_changes_that_cannot_come_again_end_right_between_their_two_merges(folder):
    """The table behind the target has the first try, whose source is another one at the next run."""
    folder.write("src/a.py", MERGES.format(folder=folder.folder))
    folder.feed("now/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "b"}, {"id": 3, "name": "c"})

    assert {each.result for each in folder.run(step=ending("write")).values()} == {"failed"}
    folder.feed("now/1.json", {"id": 1, "name": "a"}, {"id": 2, "name": "z"}, {"id": 4, "name": "d"})
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    rows = [(1, "a"), (2, "z"), (4, "d")]
    assert folder.rows("default.newest") == rows
    versions = folder.rows("default.versions", 'id, name, "__END_AT" IS NULL')
    assert versions == [(1, "a", True), (2, "b", False), (2, "z", True), (3, "c", False), (4, "d", True)]
    filled = folder.rows("default.filled")
    assert [row for row in filled if row[0] in (1, 4)] == [(1, "a"), (4, "d")]
    assert filled == folder.rows("default.filled._auto_cdc", "id, name")
    assert {each.counts.read for each in found.values()} == {3}
    # As if nothing had been: the next snapshot takes what is gone out.
    folder.feed("now/1.json", {"id": 2, "name": "z"})
    folder.run()
    assert folder.rows("default.newest") == [(2, "z")]
    assert folder.rows("default.versions", 'id, name, "__END_AT" IS NULL') == [
        (1, "a", False),
        (2, "b", False),
        (2, "z", True),
        (3, "c", False),
        (4, "d", False),
    ]
    assert folder.rows("default.filled") == filled


CHANGED = """
from pyspark import pipelines as dp

GOOD = dict(expect_all_or_dead_letter={"good": "v < 100"})

def rows():
    return spark.readStream.schema("id bigint, v bigint").json("in")

@dp.table
@dp.expect_or_dead_letter("good", "v < 100")
def appended():
    return rows().where("id > 0")

@dp.temporary_view
def changes():
    return rows().where("id > 0")

for name in ("changed", "halfway", "planned_again"):
    dp.create_streaming_table(name, **GOOD)
    dp.create_auto_cdc_flow(target=name, source="changes", keys=["id"], sequence_by="v")

dp.create_streaming_table("merged", **GOOD)

@dp.update_flow(target="merged", keys=["id"])
def merged_rows():
    return rows().where("id > 0")
"""
TARGETS = ("appended", "changed", "merged", "halfway")


def ended_in_all(folder):
    """Ends each flow behind its commit, and two of AUTO CDC between their merges; one forgets what it has planned."""
    for step, tables in (("dead_letters", TARGETS[:3]), ("write", ("halfway", "planned_again"))):
        assert {each.result for each in folder.run(step=ending(step), refresh=tables).values()} == {"failed"}
    checkpoints = folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints"
    (checkpoint,) = checkpoints.glob("*planned_again*/*")
    for each in ("offsets", "sources"):
        shutil.rmtree(checkpoint / each)


@pytest.mark.long
def test_dead_letters_are_those_that_were_counted_though_the_definition_is_another_one_by_now(folder):
    folder.write("src/a.py", CHANGED)
    folder.feed("in/1.json", {"id": 1, "v": 10}, {"id": 2, "v": 500}, {"id": 3, "v": 5000})
    ended_in_all(folder)
    # Neither row 2 nor row 3 fails, and the query leaves rows 1 and 3 out.
    folder.write("src/a.py", CHANGED.replace("v < 100", "v < 9000").replace("id > 0", "id = 2"))
    folder.feed("in/2.json", {"id": 2, "v": 600})
    assert errors(folder.run()) == {}
    for name in TARGETS:
        assert folder.rows(f"default.{name}", "id, v") == [(1, 10), (2, 600)], name
        assert letters(folder, name) == [(2,), (3,)], name
    # The batch that was planned again is another one; what was merged of the first one stays.
    assert folder.rows("default.planned_again", "id, v") == [(1, 10), (2, 600)]
    assert not folder.has("default.planned_again__dead_letters")
    # An earlier version did not hold them: by another definition they are not written.
    folder.feed("in/3.json", {"id": 2, "v": 10_000}, {"id": 2, "v": 20_000})
    found = folder.run(step=ending("dead_letters"), refresh=("appended",))["appended"]
    assert found.result == "failed"
    forget_held(folder, "appended")
    folder.write("src/a.py", CHANGED.replace("v < 100", "v < 15000"))
    assert str(folder.run(refresh=("appended",))["appended"].error) == (
        "[LETTERS_CHANGED] flow appended: 2 dead letters of ledger entry 2 of appended are missing, and by its "
        "definition of now the batch has 1; none was written\n"
        "  at: src/a.py:9\n"
        "  hint: rivermouth run, once with the query and the expectations that the batch was written with; or "
        "rivermouth run --full-refresh appended"
    )
    folder.write("src/a.py", CHANGED.replace("v < 100", "v < 9000"))
    assert errors(folder.run(refresh=("appended",))) == {}
    assert letters(folder, "appended") == [(2,), (2,), (2,), (3,)]


UNSURE = """
import pathlib
from pyspark import pipelines as dp
from pyspark.sql import functions as F

PLACE = pathlib.Path("{folder}/bad")
spark.udf.register("bad", lambda id: PLACE.read_text() == str(id), "boolean")

def rows():
    return spark.readStream.schema("id bigint").json("in")

@dp.table
@dp.expect_or_dead_letter("good", "NOT bad(id)")
def appended():
    return rows()

@dp.temporary_view
def changes():
    return rows()

dp.create_streaming_table("keyed", expect_all_or_dead_letter={{"good": "NOT bad(id)"}})
dp.create_auto_cdc_flow(target="keyed", source="changes", keys=["id"], sequence_by="id")

@dp.materialized_view
@dp.expect_or_dead_letter("good", "NOT bad(id)")
def viewed():
    return spark.range(1, 4)

@dp.table
@dp.expect_or_dead_letter("one time", "now() = read_at")
def timed():
    return rows().withColumn("read_at", F.current_timestamp())
"""


@pytest.mark.parametrize(
    "name", ["viewed", *(pytest.param(each, marks=pytest.mark.long) for each in ("appended", "keyed"))]
)
def test_each_row_is_in_one_place_though_a_condition_says_something_else_the_second_time(folder, name):
    folder.write("src/a.py", UNSURE.format(folder=folder.folder))
    folder.feed("in/1.json", *({"id": number} for number in (1, 2, 3)))
    others = {1: 3, 2: 1, 3: 2}
    bad, looks = folder.folder / "bad", []
    bad.write_text("1")

    def step(reached):
        if reached == "hold":
            looks.append(reached)
            bad.write_text(str(others[int(bad.read_text())]))

    found = folder.run(step=step, refresh=(name,))[name]
    assert (found.error, found.counts.written, found.counts.dead_lettered) == (None, 2, 1)
    # The first look counts row 1, the second one finds row 3; the batch is computed then.
    assert len(looks) == 2
    assert letters(folder, name) == [(3,)]
    assert folder.rows(f"default.{name}", "id") == [(1,), (2,)]


def test_a_condition_has_the_time_at_which_its_batch_was_planned(folder):
    folder.write("src/a.py", UNSURE.format(folder=folder.folder))
    folder.feed("in/1.json", *({"id": number} for number in (1, 2, 3)))
    assert folder.run(refresh=("timed",))["timed"].counts.written == 3


class Good:
    name, condition, action = "good", "id % 2 = 0", "dead_letter"


def test_a_batch_is_not_written_whose_records_are_refused_in_one_look_alone(spark, tmp_path):
    files, rows = LocalFiles(), spark.range(5).selectExpr("id", "map(id, id) AS m", "parse_json(string(id)) AS v")
    entry = QueryEntry("f", number=3, counts=QueryCounts(dead_lettered=3))
    context = SimpleNamespace(
        flow="f",
        dataset="t",
        expectations=[Good],
        step=lambda _: None,
        held_letters=HeldLetters(files, str(tmp_path)),
        dead_letters=RowDeadLetters(files, str(tmp_path / "letters"), dataset="t"),
    )
    run = SimpleNamespace(context=context, columns=rows.schema, query=None, is_repeatable=True)
    routed = Routed(row_expectations.route(rows, [Good]), kept=True)
    mark = row_expectations.letter_mark(routed.rows.schema, [Good])
    found = routed.rows.selectExpr(f"sum({mark})", f"count_if({mark} IS NOT NULL)").first()
    assert (found[0] > 0, found[1]) == (True, 2)
    assert refusal(lambda: hold(routed, entry, found[0], run)) == (
        "[LETTERS_DISAGREE] flow f: 3 dead letters of ledger entry 3 of t were counted, and 2 were found when its "
        "records were decoded once more; the batch was not written\n"
        "  hint: write decode(...) so that it says the same of a record each time, then: rivermouth run"
    )
    assert context.held_letters.held(spark, entry) is None
    # As many, and other ones.
    two = QueryEntry("f", number=3, counts=QueryCounts(dead_lettered=2))
    assert "[LETTERS_DISAGREE]" in refusal(lambda: hold(routed, two, found[0] + 1, run))
    # A column without a type has no values.
    routed = Routed(row_expectations.route(rows.selectExpr("*", "NULL AS nothing"), [Good]), kept=True)
    mark = row_expectations.letter_mark(routed.rows.schema, [Good])
    assert hold(routed, two, routed.rows.selectExpr(f"sum({mark})").first()[0], run) == two
    held = context.held_letters.held(spark, two)
    assert sorted(row.row.id for row in held.collect()) == [1, 3]
