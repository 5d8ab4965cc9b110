"""Dead letters of a batch that ended behind its commit, where the checkpoint is lost."""

import shutil

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


def ended(folder, done=()):
    def end(step):
        if step == "dead_letters":
            raise RuntimeError(step)

    found = folder.run(step=end)
    assert [name for name, each in found.items() if each.result != "failed"] == [*done]
    shutil.rmtree(folder.folder / "lake/_rivermouth/pipelines/shop/checkpoints")


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


def test_dead_letters_of_batches_that_cannot_come_again(folder):
    """The source of a snapshot is another one at the next run; what runs once reads all that there was."""
    folder.write("src/a.py", SNAPSHOTS.format(folder=folder.folder))
    for place in ("now", "versions", "more"):
        folder.feed(f"{place}/1.json", {"id": 1}, {"id": 2})
    for place in ("now", "more"):
        folder.feed(f"{place}/2.json", {"id": 3}, {"id": 4})

    def end(step):
        if step == "dead_letters":
            raise RuntimeError(step)

    assert {each.result for each in folder.run(step=end).values()} == {"failed"}
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
