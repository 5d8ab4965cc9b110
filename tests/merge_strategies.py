"""The ways in which changes are merged into a table; each must come to the same."""

from __future__ import annotations

from contextlib import contextmanager
from unittest import mock

from rivermouth.domain.delta import merge_report
from rivermouth.ports.delta import delta_merge
from rivermouth.ports.internals import single_pass_merge

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
        mock.patch.object(single_pass_merge, "LARGE_BYTES", 0),
        mock.patch.multiple(merge_report, **{"BROADCAST_BYTES": merge_report.BROADCAST_BYTES, **limits}),
    ):
        yield
