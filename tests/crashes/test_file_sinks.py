"""A flow into an archive of files, ended at each of its steps: the archive has each row of the table once."""

from __future__ import annotations

from collections import Counter

import pyarrow.dataset as ds
import pytest
from tests.crashes.delivering import STATES, end_at_each_step
from tests.crashes.scene import Scene

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
