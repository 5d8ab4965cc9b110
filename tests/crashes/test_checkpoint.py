"""The checkpoint is a cache: whatever happens to it, the ledger knows where to go on."""

from __future__ import annotations

import itertools
import os
import shutil

import pytest
from tests.crashes.scene import CaughtUp, Scene

from rivermouth.engine.events import BatchSkipped, CheckpointReplaced

FILES = (
    "metadata",
    "rivermouth.json",
    "sources/0/0",
    "offsets/{last}",
    "commits/{last}",
    "offsets/{before}",
    "commits/{before}",
    "offsets/.{last}.crc",
    "commits/.{last}.crc",
)


def _empty(path):
    path.write_bytes(b"")


def _truncate(path):
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def _garble(path):
    path.write_bytes(b"\xff\x00\xfe garbage")


DAMAGES = {"deleted": os.remove, "empty": _empty, "truncated": _truncate, "garbage": _garble}
SHORT = {("rivermouth.json", "empty"), ("offsets/{last}", "garbage")}
CASES = [
    pytest.param(*case, marks=() if case in SHORT else pytest.mark.long) for case in itertools.product(FILES, DAMAGES)
]


@pytest.fixture(scope="module")
def followed(broker, spark, tmp_path_factory):
    """A flow that followed for some batches and stopped; with a copy of its checkpoint from before the last ones."""
    folder = tmp_path_factory.mktemp("followed")
    scene = Scene.make(broker, folder, partitions=2, trigger={"every": "100 ms", "max_offsets": 75})
    scene.produce(60)
    follow_to_the_end(scene, spark)
    assert numbers(scene, "commits") == [0]
    shutil.copytree(scene.checkpoint, folder / "older")
    scene.produce(130, seed=3)
    follow_to_the_end(scene, spark)
    assert numbers(scene, "commits") == [0, 1, 2]
    assert scene.audit().is_clean
    # What the flow finds when it comes back.
    scene.produce(30, seed=2)
    return scene


def follow_to_the_end(scene, spark):
    """Follows until all is carried and Spark's own files say so too."""

    def between(run):
        if caught_up.is_done() and numbers(scene, "commits") == numbers(scene, "offsets"):
            run.stopping.set()

    caught_up = CaughtUp(scene)
    outcome = scene.follow(spark, until=lambda _event: False, between_batches=between)
    assert outcome.error is None, str(outcome.error)


def numbers(scene, folder):
    return sorted(int(path.name) for path in scene.checkpoint.glob(f"{folder}/[0-9]*"))


def go_on(scene, spark):
    outcome = scene.follow(spark)
    assert outcome.error is None, str(outcome.error)
    found = scene.audit()
    assert found.is_clean, str(found)
    return scene.told(CheckpointReplaced)


def test_a_whole_checkpoint_is_used_again(followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    assert go_on(scene, spark) == []
    assert numbers(scene, "offsets")[-1] > 2


@pytest.mark.parametrize(("file", "damage"), CASES)
def test_a_damaged_file(file, damage, followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    last = numbers(scene, "offsets")[-1]
    DAMAGES[damage](scene.checkpoint / file.format(last=last, before=last - 1))
    told = go_on(scene, spark)
    assert len(told) <= 1
    for event in told:
        assert event.moved_to is None or os.path.isdir(event.moved_to)  # noqa: PTH112 - a location, not a Path


def test_a_deleted_checkpoint(followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    shutil.rmtree(scene.checkpoint)
    assert go_on(scene, spark) == []


def test_a_checkpoint_restored_from_an_older_copy(followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    shutil.rmtree(scene.checkpoint)
    shutil.move(tmp_path / "older", scene.checkpoint)
    assert [event.reason for event in go_on(scene, spark)] == ["the ledger has other offsets"]


@pytest.mark.long
@pytest.mark.parametrize(
    ("lost", "reasons"),
    [
        pytest.param(["commits/2"], []),  # the batch comes again, and is skipped
        # As one that was restored from an older copy.
        pytest.param(["commits/2", "offsets/2"], ["the ledger has other offsets"]),
    ],
)
def test_a_checkpoint_without_its_last_files(lost, reasons, followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    for name in lost:
        path = scene.checkpoint / name
        path.unlink()
        path.with_name(f".{path.name}.crc").unlink()
    assert [event.reason for event in go_on(scene, spark)] == reasons
    assert len(scene.told(BatchSkipped)) == (1 if reasons == [] else 0)


def test_a_checkpoint_that_vanishes_while_the_flow_follows(followed, tmp_path, spark):
    scene = followed.copy(tmp_path)

    def vanish(event):
        if type(event).__name__ == "BatchDone" and not vanished:
            vanished.append(event)
            shutil.rmtree(scene.checkpoint)

    vanished = []
    caught_up = CaughtUp(scene)
    outcome = scene.follow(spark, until=lambda event: vanish(event) or caught_up(event))
    assert outcome.error is None, str(outcome.error)
    assert vanished
    found = scene.audit()
    assert found.is_clean, str(found)


def test_the_checkpoint_of_another_flow_is_refused(followed, tmp_path, spark):
    scene = followed.copy(tmp_path)
    (scene.checkpoint / "rivermouth.json").write_text('{"flow": "other", "table_id": "x"}')
    outcome = scene.follow(spark, until=lambda _event: False)
    assert str(outcome.error) == (
        f"[CHECKPOINT_FOREIGN] flow shop: the checkpoint {scene.checkpoint} belongs to flow 'other'; "
        "nothing was written\n"
        "  hint: in flow shop: places: {checkpoint: ./checkpoints/shop}"
    )
