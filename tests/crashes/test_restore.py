"""A lake, or a table of it, is put back from a copy: the flow goes on where the copy ends."""

from __future__ import annotations

import shutil

import pytest
from tests.crashes.deciding import GOOD, NOBODY
from tests.crashes.scene import Scene

from rivermouth.engine.events import BatchDone, CheckpointReplaced
from rivermouth.errors import OffsetsExpired


@pytest.fixture(scope="module")
def went_on(broker, spark, tmp_path_factory):
    """(a flow that went on after a backup, with what it told since; the backup); both with dead letters."""
    folder = tmp_path_factory.mktemp("backed-up")
    scene = Scene.make(broker, folder / "scene", trigger={"every": "100 ms", "max_offsets": 300})
    scene.produce(600)
    assert scene.follow(spark).error is None
    assert letters(scene) > 0
    backup = scene.copy(folder / "backup")
    scene.events.clear()
    scene.produce(600, seed=2)
    assert scene.follow(spark).error is None
    assert scene.audit().is_clean
    assert letters(scene) > 0
    return scene, backup


@pytest.fixture
def backed_up(went_on, tmp_path):
    """The flow that went on, and a copy of its backup."""
    scene, backup = went_on
    return scene, backup.copy(tmp_path / "backup")


def letters(scene):
    return sum(done.counts.dead_lettered for done in scene.told(BatchDone))


def consumed(scene):
    return sum(done.counts.consumed for done in scene.told(BatchDone))


def put_back(backup):
    """What a backup does not have: caches."""
    for cache in ("checkpoints", "leases", "requests"):
        shutil.rmtree(backup.folder / "lake/_rivermouth" / cache, ignore_errors=True)


def test_a_lake_that_is_put_back_reads_again_a_batch_or_asks_about_it(broker, spark, tmp_path):
    """The short form of the first and the last one: one batch before the backup, one after it."""
    scene = Scene.make(broker, tmp_path / "scene", partitions=1)
    scene.send(GOOD, NOBODY)
    assert scene.drain(spark).error is None
    backup, another = (scene.copy(tmp_path / name) for name in ("backup", "another"))
    scene.send(GOOD, NOBODY, GOOD)
    assert scene.drain(spark).error is None
    put_back(backup)
    assert backup.drain(spark).error is None
    assert consumed(backup) == 3
    assert backup.audit().is_clean
    another.drop_before(3)
    assert isinstance(another.drain(spark).error, OffsetsExpired)


@pytest.mark.long
def test_a_lake_that_is_put_back_reads_again_what_came_since(backed_up, spark):
    scene, backup = backed_up
    put_back(backup)
    assert backup.follow(spark).error is None
    assert consumed(backup) == consumed(scene) > 0
    assert backup.audit().is_clean


@pytest.mark.long
@pytest.mark.parametrize("with_ledger", [pytest.param(True, marks=pytest.mark.long), False])
def test_a_table_that_is_put_back_alone_goes_on_with_a_checkpoint_that_is_ahead(
    with_ledger, backed_up, spark, tmp_path
):
    scene, backup = backed_up
    restored = scene.copy(tmp_path / "restored")
    places = [(backup.table, restored.table), (backup.dead_letters, restored.dead_letters)]
    for kept, lost in places:
        shutil.rmtree(lost)
        shutil.copytree(kept, lost)
    if with_ledger:
        shutil.copy(backup.side_file, restored.side_file)
    assert restored.follow(spark).error is None
    assert restored.told(CheckpointReplaced)
    assert restored.audit().is_clean


# The last one here: it takes records away from the topic of them all.
@pytest.mark.long
def test_what_kafka_dropped_since_the_backup_is_asked_about(backed_up, spark):
    scene, backup = backed_up
    first, _ = scene.told(BatchDone)[0].ranges[scene.topic][0]
    backup.drop_before(first + 1)
    error = backup.drain(spark).error
    assert isinstance(error, OffsetsExpired)
