"""The checkpoint's files as Spark writes them, whole and damaged."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from rivermouth.domain.ledger.ledger import EARLIEST, Counts, Decision, first_entry
from rivermouth.errors import CheckpointForeign
from rivermouth.ports.lake.checkpoint import Checkpoint, Checkpoints
from rivermouth.ports.lake.lake_files import LocalFiles

# As Spark 4.2.0 wrote them; the crash tests see to it that it still does.
METADATA = '{"batchWatermarkMs":0,"batchTimestampMs":1795238585341,"conf":{"spark.sql.shuffle.partitions":"4"}}'


def text_of(offsets):
    return json.dumps({topic: {str(p): o for p, o in parts.items()} for topic, parts in offsets.items()})


@pytest.fixture
def place(tmp_path):
    """A checkpoint whose batches 0 and 1 are committed; the second brought a new partition."""
    for folder in ("offsets", "commits", "sources/0"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "metadata").write_text('{"id":"a0ff8613-e9e8-4c63-be5b-7875ec5909ad"}')
    (tmp_path / "rivermouth.json").write_text('{"flow": "f", "table_id": "id-1"}')
    (tmp_path / "sources/0/0").write_text("\0v1\n" + text_of({"t": {0: 5}}))
    for number, ends in enumerate([{"t": {0: 10}}, {"t": {0: 12, 1: 3}}]):
        (tmp_path / f"offsets/{number}").write_text(f"v1\n{METADATA}\n{text_of(ends)}")
        (tmp_path / f"offsets/.{number}.crc").write_bytes(b"crc\x00\xff")
        (tmp_path / f"commits/{number}").write_text('v1\n{"nextBatchWatermarkMs":0}')
    return tmp_path


def checkpoints(place):
    return Checkpoints(LocalFiles(), str(place))


def inspect(place):
    return checkpoints(place).inspect("f", "id-1")


def test_it_agrees_with_a_ledger_that_stands_where_it_stands_unless_a_decision_moved_that():
    found = Checkpoint("usable", committed={"t": {0: 0}}, planned={"t": {0: 500}})
    begun = first_entry("f", {"t": {0: 0}}, {"t": "one"})
    entry = begun.after_batch({"t": {0: (0, 500)}}, Counts(), {})
    elsewhere = "the ledger has other offsets"
    assert difference(found, begun) is None
    assert difference(found, entry) is None
    assert difference(found, entry.after_batch({"t": {0: (500, 501)}}, Counts(), {})) == elsewhere
    # The topic was created again before the planned batch was written: offset 0 is that of another record.
    anew = replace(begun, number=1, kind="decision", decisions=(Decision("new_epoch", 1, "t", {0: (0, 0)}),))
    for later in (anew, anew.successor("replay", Counts()), anew.after_batch({"t": {0: (0, 500)}}, Counts(), {})):
        assert difference(found, later) == elsewhere
        assert difference(replace(found, decided=1), later) is None


def difference(found, entry):
    """As for a flow that reads all that its ledger knows."""
    return found.difference(entry, entry.next_offsets)


@pytest.mark.parametrize(
    ("committed", "planned", "wanted", "reason"),
    [
        # The ledger knows t-0, t-1 and gone-0, which the flow does not read.
        ({0: 5, 1: 7}, None, {0: 5, 1: 7}, None),
        ({0: 3, 1: 7}, {0: 5, 1: 7}, {0: 5, 1: 7}, None),
        ({0: 5}, None, {0: 5}, None),
        ({0: 5, 1: 7}, None, {0: 5}, "the flow reads other partitions"),
        ({0: 5}, None, {0: 5, 1: 7}, "the flow reads other partitions"),
        ({0: 5}, {0: 5, 1: 7}, {0: 5, 1: 7}, "the flow reads other partitions"),
        ({0: 5, 1: 7}, {0: 5}, {0: 5, 1: 7}, "the flow reads other partitions"),
        ({0: 5, 1: 0}, None, {0: 5, 1: EARLIEST}, "the ledger has other offsets"),
    ],
)
def test_a_query_goes_on_with_a_checkpoint_of_exactly_the_partitions_that_it_reads(committed, planned, wanted, reason):
    entry = first_entry("f", {"t": {0: 5, 1: 7}, "gone": {0: 9}}, {"t": "one", "gone": "two"})
    found = Checkpoint("usable", committed={"t": committed}, planned=planned and {"t": planned})
    assert found.difference(entry, {"t": wanted}) == reason


def test_a_query_does_not_go_on_with_a_checkpoint_of_other_topics():
    entry = first_entry("f", {"a": {0: 5}, "b": {0: 7}}, {"a": "one", "b": "two"})
    both, one = {"a": {0: 5}, "b": {0: 7}}, {"a": {0: 5}}
    for begun, wanted in ((both, one), (one, both)):
        assert Checkpoint("usable", committed=begun).difference(entry, wanted) == "the flow reads other partitions"
        assert Checkpoint("usable", committed=wanted).difference(entry, wanted) is None


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": "a0ff8613"}', '{"id": null}', '{"id": 5}', '{"id": "x"}'])
def test_metadata_of_which_spark_would_make_no_query(text, place):
    (place / "metadata").write_text(text)
    assert inspect(place) == Checkpoint("damaged", detail="metadata holds no id of a query")
    assert checkpoints(place).query_id() is None


def test_without_metadata_spark_takes_no_batches(place):
    (place / "metadata").unlink()
    assert inspect(place) == Checkpoint("damaged", detail="metadata is missing")
    assert checkpoints(place).query_id() is None


def test_it_knows_the_last_decision_before_it(place):
    checkpoints(place).claim("f", "id-1", decided=7)
    assert inspect(place).decided == 7


def test_nothing_there(tmp_path):
    assert inspect(tmp_path / "none") == Checkpoint("none")
    checkpoints(tmp_path / "claimed").claim("f", "id-1")
    assert inspect(tmp_path / "claimed") == Checkpoint("none")


def test_every_batch_is_committed(place):
    assert inspect(place) == Checkpoint("usable", committed={"t": {0: 12, 1: 3}})


def test_a_batch_was_planned_and_is_not_committed(place):
    (place / "commits/1").unlink()
    assert inspect(place) == Checkpoint("usable", committed={"t": {0: 10}}, planned={"t": {0: 12, 1: 3}})
    (place / "commits/0").unlink()
    (place / "offsets/1").unlink()
    assert inspect(place) == Checkpoint("usable", committed={"t": {0: 5}}, planned={"t": {0: 10}})


def test_the_ranges_of_a_batch_begin_where_the_one_before_ended(place):
    known = {"t": {0: 5}}
    assert checkpoints(place).ranges(0, known) == {"t": {0: (5, 10)}}
    assert checkpoints(place).ranges(1, known) == {"t": {0: (10, 12), 1: (0, 3)}}
    assert checkpoints(place).ranges(1, {"t": {0: 5, 1: 2}}) == {"t": {0: (10, 12), 1: (2, 3)}}


@pytest.mark.parametrize("name", ["offsets/1", "offsets/0"])
@pytest.mark.parametrize(
    "content", [None, "", "v1", f"v1\n{METADATA}\n", "v2\n{}\n{}", f"v1\n{METADATA}\n[]", "\xff\x00"]
)
def test_the_ranges_of_a_damaged_batch_are_not_guessed(name, content, place):
    damage(place / name, content)
    with pytest.raises(ValueError, match=name):
        checkpoints(place).ranges(1, {})


@pytest.mark.parametrize("content", [None, "", "\0v1\n", "\0v9\n{}", "\0v1\nno json"])
def test_the_initial_offsets_are_not_guessed(content, place):
    damage(place / "sources/0/0", content)
    with pytest.raises(ValueError, match="sources/0/0"):
        checkpoints(place).ranges(0, {})


@pytest.mark.parametrize(
    ("name", "content", "detail"),
    [
        ("offsets/1", "", "offsets/1 is missing, cut short or of an unknown version"),
        ("offsets/1", f"v1\n{METADATA}\n{{", "offsets/1 holds no offsets"),
        ("offsets/1", None, "a commit file without its planned batch"),
        ("commits/1", "", "commits/1 is missing, cut short or of an unknown version"),
        ("commits/0", "\xff", "commits/0 is missing, cut short or of an unknown version"),
        ("rivermouth.json", None, "no rivermouth.json"),
        ("rivermouth.json", "\xff{", "rivermouth.json is no JSON"),
        ("rivermouth.json", '{"flow": "f", "table_id": "id-0"}', "it belongs to a table that was there before"),
    ],
)
def test_damage_is_found_and_named(name, content, detail, place):
    damage(place / name, content)
    assert inspect(place) == Checkpoint("damaged", detail=detail)


def test_a_hole_in_the_commits_is_damage(place):
    (place / "commits/1").unlink()
    (place / "commits/0").unlink()
    assert inspect(place) == Checkpoint("damaged", detail="batch 0 has no commit file")


def test_the_checkpoint_of_another_flow_is_refused_but_for_the_old_name(place):
    with pytest.raises(CheckpointForeign) as caught:
        checkpoints(place).inspect("g", "id-1")
    assert str(caught.value) == (
        f"[CHECKPOINT_FOREIGN] flow g: the checkpoint {place} belongs to flow 'f'; nothing was written\n"
        "  hint: in flow g: places: {checkpoint: ./checkpoints/g}"
    )
    assert checkpoints(place).inspect("g", "id-1", previously="f").state == "usable"


def test_set_aside_it_is_kept_whole_under_another_name(place):
    names = sorted(path.relative_to(place).as_posix() for path in place.rglob("*"))
    aside = checkpoints(place).set_aside()
    assert aside.startswith(f"{place}.broken-")
    assert not place.exists()
    moved = type(place)(aside)
    assert sorted(path.relative_to(moved).as_posix() for path in moved.rglob("*")) == names


def test_removed_it_is_gone(place):
    checkpoints(place).remove()
    checkpoints(place).remove()
    assert not place.exists()


def damage(path, content):
    if content is None:
        path.unlink()
    else:
        path.write_bytes(content.encode("latin-1"))
