"""How changes meet rows, and what a MERGE's metrics come to."""

import json
from dataclasses import asdict, fields

import pytest

from rivermouth.domain.delta.merge_report import (
    BROADCAST_BYTES,
    BROADCAST_CHANGES,
    MergeNeeds,
    MergeReport,
    ReadFiles,
    Way,
    report,
    way,
)

# As Delta 4 writes them for a MERGE.
METRICS = {
    "numTargetRowsCopied": 7,
    "numTargetRowsInserted": 3,
    "numTargetRowsUpdated": 20_000,
    "numTargetRowsDeleted": 4,
    "numTargetFilesAdded": 2,
    "numTargetFilesRemoved": 5,
    "numTargetBytesAdded": 21_954,
    "numTargetBytesRemoved": 70_000,
    "numTargetDeletionVectorsAdded": 8,
    "numTargetDeletionVectorsUpdated": 1,
    "numTargetDeletionVectorsRemoved": 5,
    "numOutputRows": 20_003,
    "executionTimeMs": 5529,
}


@pytest.mark.parametrize(
    ("changes", "held_bytes", "expected"),
    [
        (0, 0, Way("broadcast", "0 changes are few")),
        (1, 0, Way("broadcast", "1 change is few")),
        (BROADCAST_CHANGES, BROADCAST_BYTES, Way("broadcast", "200,000 changes are few")),
        (BROADCAST_CHANGES + 1, 1, Way("shuffle", "200,001 changes are more than 200,000")),
        (70, BROADCAST_BYTES + 1, Way("shuffle", "changes of 67,108,865 bytes are more than 67,108,864")),
        (70, None, Way("broadcast", "70 changes are few")),
    ],
)
def test_few_small_changes_go_to_every_task(changes, held_bytes, expected):
    assert way(changes, held_bytes) == expected


def made(*, held_bytes=900, task_peak_bytes=5, spilled_bytes=6, **settings):
    given = {"looked": ReadFiles(3, 70, 40, by_each=True), "skipped_by": ["id"]}
    needs = MergeNeeds(20_010, held_bytes, task_peak_bytes, spilled_bytes)
    return report(METRICS, Way("broadcast", "few"), needs=needs, **{**given, **settings})


def test_a_report_tells_rows_files_and_bytes():
    assert made() == MergeReport(
        changes=20_010,
        held_bytes=900,
        join="broadcast",
        reason="few",
        files_read=3,
        bytes_read=70,
        all_files=40,
        skipped_by=("id",),
        skipped_by_each=True,
        inserted=3,
        updated=20_000,
        deleted=4,
        copied=7,
        files_added=2,
        files_removed=5,
        vectors=9,
        bytes_added=21_954,
        bytes_removed=70_000,
        task_peak_bytes=5,
        spilled_bytes=6,
    )


def test_the_side_file_gives_it_back_and_an_older_one_gives_none():
    one = made(task_peak_bytes=None)
    body = json.loads(json.dumps(asdict(one)))
    assert MergeReport.from_json(body) == one
    assert MergeReport.from_json(None) is None
    for name in (each.name for each in fields(MergeReport)):
        assert MergeReport.from_json({key: value for key, value in body.items() if key != name}) is None
    assert MergeReport.from_json({**body, "more": 1}) is None
