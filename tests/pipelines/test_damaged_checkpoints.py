"""Checkpoints whose files are cut off or hold something else: a query ends right, or says what can be done."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from rivermouth.domain.query import state_failures
from rivermouth.ports.lake.lake_files import LocalFiles
from rivermouth.ports.lake.query_checkpoint import QueryCheckpoint

PYTHON = """
from pyspark import pipelines as dp

def rows():
    return spark.readStream.schema("id bigint").json("in")

@dp.table
def plain():
    return rows()

@dp.table
def sums():
    return rows().groupBy("id").count()

@dp.temporary_view
def changes():
    return rows()

dp.create_streaming_table("keyed")
dp.create_auto_cdc_flow(target="keyed", source="changes", keys=["id"], sequence_by="id")
dp.create_sink("copies", "delta", {"path": "lake/copies"})

@dp.append_flow(target="copies", name="copy")
def copy():
    return rows()
"""
STATE = "lake/_rivermouth/pipelines/shop/checkpoints"
HARMS = {
    "all offsets": "*/*/offsets/[0-9]*",
    "the offsets before the last": "*/*/offsets/1",
    "commits": "*/*/commits/[0-9]*",
    "lists of files": "*/*/sources/0/[0-9]*",
    "metadata": "*/*/metadata",
    "state": "*/*/state/0/*/*",
    "the mark of the flow": "*/*/rivermouth.json",
    "without Spark's last commit": "*/*/commits/2",
}


def cut(path):
    path.write_bytes(path.read_bytes()[:4])


def garble(path):
    """As in a store without files of checksums."""
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    path.write_bytes(b"v1\n{nothing")


@pytest.mark.long
@pytest.mark.parametrize("harm", [cut, pytest.param(garble, marks=pytest.mark.long)])
def test_each_query_ends_right_or_says_what_can_be_done(harm, folder):
    folder.write("src/a.py", PYTHON)
    for number in range(3):
        folder.feed(f"in/{number}.json", {"id": number})
        folder.run()
    state, kept = folder.folder / STATE, folder.folder / "kept"
    shutil.copytree(folder.folder / "lake", kept)
    folder.feed("in/3.json", {"id": 3})
    ids = [(number,) for number in range(4)]
    seen = {}
    for name, files in HARMS.items():
        shutil.rmtree(folder.folder / "lake")
        shutil.copytree(kept, folder.folder / "lake")
        found = [path for path in state.glob(files) if path.is_file() and not path.name.startswith(".")]
        assert found, name
        for path in found:
            (Path.unlink if name.startswith("without") else harm)(path)
        outcomes = folder.run()
        seen[name] = {each.dataset: each.error.code for each in outcomes.values() if each.error is not None}
        assert folder.rows("default.plain") == folder.rows("default.keyed") == ids, name
        if "sums" not in seen[name]:
            assert folder.rows("default.sums", "id, count") == [(number, 1) for number in range(4)], name
        if "copies" not in seen[name]:
            assert folder.rows("copies") == ids, name
    state_lost, both = {"sums": "QUERY_STATE_LOST"}, {"sums": "QUERY_STATE_LOST", "copies": "SINK_POSITION_LOST"}
    nothing = {"the mark of the flow": {}, "without Spark's last commit": {}}
    assert seen == {**dict.fromkeys(HARMS, both), "state": state_lost, **nothing}


@pytest.mark.long
def test_the_hints_of_lost_positions_work(folder):
    folder.write("src/a.py", PYTHON)
    folder.feed("in/0.json", {"id": 0})
    folder.run()
    for path in (folder.folder / STATE).glob("*/*/offsets/0"):
        garble(path)
    folder.feed("in/1.json", {"id": 1})
    planned = folder.plan(reset_checkpoint=("copies",))["copies"].flows[0]
    assert (planned.action, planned.reason) == ("read again", "rows stay, and sources are read again")
    errors = {name: str(each.error) for name, each in folder.run().items() if each.error is not None}
    places = f"{folder.folder}/{STATE}"
    assert errors == {
        "sums": f"[QUERY_STATE_LOST] flow sums keeps state, and its checkpoint {places}/default.sums/sums is not the "
        f"one of table {folder.folder}/lake/default/sums: offsets/0 has an unknown form; the flow was not started\n"
        "  at: src/a.py:11\n"
        "  hint: restore the checkpoint, or rivermouth run --full-refresh sums, or keep the rows and read the sources "
        "again: rivermouth run --reset-checkpoint sums",
        "copies": f"[SINK_POSITION_LOST] flow copy: the checkpoint {places}/sink.copies/copy is damaged: offsets/0 has "
        "an unknown form; nothing else says which rows sink copies has, and the flow was not started\n"
        "  at: src/a.py:23\n"
        "  hint: restore the checkpoint, or send all rows again: rivermouth run --reset-checkpoint copies",
    }
    found = folder.run(reset_checkpoint=("copies",), full_refresh=("sums",))
    assert {name: each.result for name, each in found.items()} == {"sums": "completed", "copies": "completed"}
    assert folder.rows("default.sums", "id, count") == [(0, 1), (1, 1)]
    assert folder.rows("copies") == [(0,), (0,), (1,)]
    assert not any(each.counts.read for each in folder.run().values())


@pytest.mark.long
def test_lists_of_files_that_end_too_early(folder):
    """Cut at the end of a line, in a store without files of checksums: Spark would read the last file again."""
    folder.write("src/a.py", PYTHON)
    for number in range(4):
        folder.feed(f"in/{number}.json", {"id": number})
        if number > 1:  # two files in the first batch
            folder.run(refresh=("plain", "sums", "keyed"))
    lists = sorted((folder.folder / STATE).glob("default.*/*/sources/0/0"))
    assert len(lists) == 3
    for path in lists:
        path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
        path.write_text(path.read_text().rsplit("\n", 1)[0])
    folder.feed("in/4.json", {"id": 4})
    found = folder.run(refresh=("plain", "sums", "keyed"))
    assert {name: each.error and each.error.code for name, each in found.items()} == {
        "plain": None,
        "sums": "QUERY_STATE_LOST",
        "keyed": None,
    }
    assert "its lists have 3 source files, and 4 were read" in str(found["sums"].error)
    ids = [(number,) for number in range(5)]
    assert folder.rows("default.plain") == folder.rows("default.keyed") == ids
    made = [each.reason for each in folder.events if hasattr(each, "aside")]
    assert made == ["its lists have 3 source files, and 4 were read"] * 2
    assert not any(each.counts.read for each in folder.run(refresh=("plain", "keyed")).values())


NAMED_STATE = """
configuration:
  spark.sql.streaming.stateStore.providerClass:
    org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider
  spark.sql.streaming.stateStore.checkpointFormatVersion: "2"
"""


def test_a_checkpoint_that_names_the_state_of_each_partition_is_whole(folder):
    folder.write("pipeline.yml", (folder.folder / "pipeline.yml").read_text() + NAMED_STATE)
    text = """
from pyspark import pipelines as dp

@dp.table
def sums():
    return spark.readStream.schema("id bigint").json("in").selectExpr("{id} AS id").groupBy("id").count()
"""
    folder.write("src/a.py", text.format(id="id"))
    folder.feed("in/0.json", {"id": 0})
    assert folder.run()["sums"].error is None
    (commit,) = (folder.folder / STATE).glob("*/*/commits/0")
    assert commit.read_text().startswith("v2\n")
    folder.write("src/a.py", text.format(id="IF(id < 9, id, raise_error('great'))"))
    folder.feed("in/1.json", {"id": 9})
    assert folder.run()["sums"].error.code == "QUERY_FAILED"
    folder.write("src/a.py", text.format(id="id"))
    assert folder.run()["sums"].error is None
    assert folder.rows("default.sums") == [(0, 1), (9, 1)]


LOADING = "[CANNOT_LOAD_STATE_STORE.UNCATEGORIZED] An error occurred during loading state.  SQLSTATE: 58030\n\tat a.b\n"
NOT_COMPATIBLE = (
    "[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [STATE_STORE_VALUE_SCHEMA_NOT_COMPATIBLE] "
    "Provided value schema does not match existing state value schema.\nPlease check number and type of fields.\n"
    "Existing value_schema=a and new b=c.\nIf you want to force running the query without schema "
    "validation, please set spark.sql.streaming.stateStore.stateSchemaCheck to false.\nPlease note that it is at your "
    "own risk. SQLSTATE: XXKST"
)


@pytest.mark.parametrize(
    ("text", "is_gone", "changed"),
    [
        (f"{LOADING}Caused by: java.io.EOFException\n", True, ""),
        (f"{LOADING}Caused by: org.apache.hadoop.fs.ChecksumException: Checksum error", True, ""),
        (f"{LOADING}Caused by: java.net.SocketTimeoutException: Read timed out\n", False, ""),
        (LOADING, False, ""),
        ("[CANNOT_LOAD_STATE_STORE.CANNOT_READ_DELTA_FILE_NOT_EXISTS] An error", True, ""),
        ("[CANNOT_LOAD_STATE_STORE.UNRELEASED_THREAD_ERROR] An error", False, ""),
        ("[CANNOT_LOAD_STATE_STORE.ROCKSDB_STORE_PROVIDER_OUT_OF_MEMORY] An error", False, ""),
        ("[STATE_STORE_OPERATION_OUT_OF_ORDER] Streaming stateful operator", False, ""),
        (
            NOT_COMPATIBLE,
            False,
            "Provided value schema does not match existing state value schema. Existing value_schema=a and new b=c",
        ),
        ("[CANNOT_LOAD_STATE_STORE.KEY_ROW_FORMAT_VALIDATION_FAILURE] An error occurred", False, "An error occurred"),
    ],
)
def test_what_a_failure_says_of_the_state(text, is_gone, changed):
    assert (state_failures.is_gone(text), state_failures.changed(text)) == (is_gone, changed)


def test_files_are_counted_in_compact_lists_and_behind_them(tmp_path):
    """As Spark writes them: each tenth list has all that came before it, too."""
    checkpoint = QueryCheckpoint(LocalFiles(), str(tmp_path))

    def line(number):
        return json.dumps({"path": f"file:/in/{number}", "timestamp": 1, "batchId": number})

    sources = tmp_path / "sources/1"
    sources.mkdir(parents=True)
    (tmp_path / "offsets").mkdir()
    for number in range(13):
        lines = map(line, range(10)) if number == 9 else [line(number)]
        (sources / (f"{number}.compact" if number == 9 else f"{number}")).write_text("\n".join(["v1", *lines]))
    for batch, end in ((3, 3), (9, 9), (12, 12)):
        offsets = ["v1", "{}", '{"t":{"0":1}}', json.dumps({"logOffset": end})]
        (tmp_path / f"offsets/{batch}").write_text("\n".join(offsets))
        assert checkpoint.lacks_files(batch, end + 1) == ""
    assert checkpoint.lacks_files(12, 14) == "its lists have 13 source files, and 14 were read"
    assert checkpoint.lacks_files(11, 12) == "a list of source files has an unknown form"
    (sources / "9.compact").write_text("v1\n{no")
    assert checkpoint.lacks_files(12, 13) == "a list of source files has an unknown form"


def test_the_mark_says_with_which_streams_a_query_goes_on(tmp_path):
    """That of an earlier version has no streams."""
    checkpoint = QueryCheckpoint(LocalFiles(), str(tmp_path))
    mark = tmp_path / "rivermouth.json"
    checkpoint.seed(("{}", '{"a":{"0":1}}', '{"b":{"0":1}}'), [])
    mark.write_text(json.dumps({"flow": "p/f", "follows": "x", "repeats": None, "sources": "s"}))
    found = checkpoint.inspect()
    assert (found.owner, found.follows, found.sources, found.streams) == ("p/f", "x", "s", ())
    checkpoint.keep_streams("p/f", found, ("kafka a", "kafka b"))
    kept = checkpoint.inspect()
    assert kept == replace(found, streams=("kafka a", "kafka b"))
    written = mark.stat().st_mtime_ns
    checkpoint.keep_streams("p/f", kept, kept.streams)
    assert mark.stat().st_mtime_ns == written
    planned = replace(kept, planned=0, committed=-1)
    assert not planned.plans_of_others("s", kept.streams)
    assert planned.plans_of_others("t", kept.streams)
    assert planned.plans_of_others("s", kept.streams[::-1])
    assert not kept.plans_of_others("t", kept.streams[::-1])
    assert not replace(planned, sources=None, streams=()).plans_of_others("t", kept.streams)
