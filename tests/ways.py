"""The ways in which changes are merged into a table, each of which must come to the same."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from rivermouth.ports import delta_merge, delta_single_pass
from rivermouth.rows import merging

_FILES = "spark.databricks.delta.allFilesInCrc.thresholdNumFiles"
WAYS = {
    # The table is read once; its files are known from the newest checksum, and skipped by each key.
    "listed": ({}, {}),
    # Read once; its files are looked for in the log.
    "unlisted": ({_FILES: "0"}, {}),
    # By Delta's own command.
    "shuffled": ({}, {"BROADCAST_CHANGES": 0}),
}


@contextmanager
def merging_by(way):
    conf, limits = WAYS[way]
    with (
        mock.patch.dict(delta_merge._LISTED, conf),
        mock.patch.object(delta_single_pass, "LARGE_BYTES", 0),
        mock.patch.multiple(merging, **{"BROADCAST_BYTES": merging.BROADCAST_BYTES, **limits}),
    ):
        yield
