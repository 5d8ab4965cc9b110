"""A flow into an archive of files, ended at each of its steps: the archive has each row of the table once."""

from __future__ import annotations

from collections import Counter

import pyarrow.dataset as ds
import pytest
from tests.crashes import oracle
from tests.crashes.deciding import GOOD
from tests.crashes.delivering import STATES, end_at_each_step
from tests.crashes.scene import Scene
from tests.crashes.test_ledger import clean_log

from rivermouth.engine.batch import deliver
from rivermouth.engine.events import StepReached
from rivermouth.ports.lake.file_archive import listed_files
from rivermouth.ports.lake.lake_files import LocalFiles


@pytest.mark.long
@STATES
def test_each_row_is_in_the_archive_once_wherever_a_run_ends(broker, spark, tmp_path, state):
    scene = Scene.make(broker, tmp_path, partitions=2)
    scene.options |= {"sink": {"type": "files", "format": "parquet", "path": "archive/shop", "partition_by": ["id"]}}
    place = f"{scene.folder}/lake/archive/shop"

    def ids(paths):
        found = ds.dataset(paths, format="parquet", partitioning="hive").to_table().column("id").to_pylist()
        return Counter(found)

    def delivered():
        listed = [f"{place}/{each}" for each in listed_files(LocalFiles(), place)]
        return [ids(place), ids(listed)]

    end_at_each_step(scene, spark, state, delivered)


class FailingDisk(LocalFiles):
    """A disk whose next calls of these names fail, one after the other; then it works again."""

    def __init__(self):
        self.failing = []

    def _call(self, name):
        if self.failing[:1] == [name]:
            del self.failing[0]
            raise OSError(f"no {name}")

    def read(self, path):
        self._call("read")
        return super().read(path)

    def write(self, path, text):
        self._call("write")
        super().write(path, text)

    def delete(self, path):
        self._call("delete")
        super().delete(path)


@pytest.mark.long
def test_where_the_disk_of_the_archive_fails_each_row_is_there_once_all_the_same(broker, spark, tmp_path, monkeypatch):
    """At the beginning of a batch; as the plan is written, and again as that is taken back, or as it is looked for."""
    disk = FailingDisk()
    monkeypatch.setattr(deliver, "files_for", lambda *_: disk)
    outages = {1: ["delete"], 3: ["write", "delete"], 5: ["write", "read"]}

    def hear(event):
        if isinstance(event, StepReached) and event.step == "deliver":
            disk.failing += outages.pop(event.entry, [])

    scene = Scene.make(broker, tmp_path, partitions=1, trigger={"max_offsets": 1})
    scene.options |= {"sink": {"type": "files", "format": "parquet", "path": "archive/shop"}}
    scene.send(*[GOOD] * 6)
    assert scene.drain(spark, hear).error is None
    assert (outages, disk.failing) == ({}, [])
    place = f"{scene.folder}/lake/archive/shop"
    listed = [f"{place}/{each}" for each in listed_files(LocalFiles(), place)]
    there = ds.dataset(listed, format="parquet").to_table().column("kafka_offset").to_pylist()
    assert sorted(there) == sorted(row["kafka_offset"] for row in oracle.rows_of(scene.table)) == [*range(6)]


def test_a_sink_that_comes_back_after_the_log_was_cleaned_is_not_filled_with_a_hole(broker, spark, tmp_path):
    archive = {"type": "files", "format": "parquet", "path": "archive/shop"}
    scene = Scene.make(broker, tmp_path, partitions=1, trigger={"max_offsets": 1})

    def carry(sink, *records):
        scene.options["sink"] = sink
        scene.send(*records)
        return scene.drain(spark).error

    assert carry(archive, GOOD) is None
    assert carry("append", GOOD, GOOD) is None
    clean_log(spark, scene.table)
    expected = (
        "[DELIVERY_GAP] flow shop: its sink files has the rows up to ledger entry 1, and the log of table "
        f"{scene.table} no longer holds the commits of entries 2 to 3; nothing was written to the sink\n"
        "  hint: write another path into the sink: its archive gets the rows of later commits"
    )
    assert str(carry(archive)) == expected
    assert carry("append", GOOD) is None
    assert str(carry(archive)) == expected
    assert carry(archive | {"path": "archive/new"}, GOOD) is None
    assert len(listed_files(LocalFiles(), f"{scene.folder}/lake/archive/new")) == 1
    assert scene.audit().is_clean
