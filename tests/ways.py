"""The ways in which changes are merged into a table, each of which must come to the same."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from rivermouth.ports import delta_merge
from rivermouth.rows import merging

_FILES = "spark.databricks.delta.allFilesInCrc.thresholdNumFiles"
WAYS = {
    # The table is read once; its files are known from the newest checksum.
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
        mock.patch.multiple(merging, **{"BROADCAST_BYTES": merging.BROADCAST_BYTES, **limits}),
    ):
        yield
