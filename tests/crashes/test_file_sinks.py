"""A flow into an archive of files, ended at each of its steps: the archive has each row of the table once."""

from __future__ import annotations

import shutil
from collections import Counter

import pyarrow.dataset as ds
import pytest
from tests.crashes import oracle
from tests.crashes.scene import Scene

from rivermouth.ports.lake.file_archive import listed_files
from rivermouth.ports.lake.lake_files import LocalFiles

STEPS = ("write", "written", "deliver", "sent", "delivered", "bury", "settle")


@pytest.mark.parametrize("state", [pytest.param("kept", marks=pytest.mark.long), "deleted"])
def test_each_row_is_in_the_archive_once_wherever_a_run_ends(broker, spark, tmp_path, state):
    scene = Scene.make(broker, tmp_path, partitions=2)
    scene.options |= {"sink": {"type": "files", "format": "parquet", "path": "archive/shop", "partition_by": ["id"]}}
    place = f"{scene.folder}/lake/archive/shop"

    def ids(paths):
        found = ds.dataset(paths, format="parquet", partitioning="hive").to_table().column("id").to_pylist()
        return Counter(found)

    def compare(step):
        rows = Counter(row["id"] for row in oracle.rows_of(scene.table))
        assert sum(rows.values()) > 0
        assert ids(place) == rows, step
        assert ids([f"{place}/{each}" for each in listed_files(LocalFiles(), place)]) == rows, step

    assert scene.drain(spark).error is None
    for seed, step in enumerate(STEPS):
        scene.produce(60, seed=seed)
        scene.end_at(spark, step)
        if state == "deleted":
            shutil.rmtree(scene.folder / "lake/_rivermouth", ignore_errors=True)
        if seed % 2:
            assert scene.drain(spark).error is None, step
            compare(step)
    assert scene.drain(spark).error is None
    compare("the last")
    assert scene.audit().is_clean
