"""The commit of a keyed sink: changes that stand ready, merged into their table."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from rivermouth.domain.delta import merge_report
from rivermouth.domain.delta.merge_report import MergeNeeds
from rivermouth.errors import CommitLost
from rivermouth.ports.delta.delta_merge import merge
from rivermouth.ports.delta.table_ledger import transaction_of
from rivermouth.rows.keyed.merge_plan import Merge

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.ports.delta import delta_table
    from rivermouth.ports.internals.task_metrics import TaskMetrics
    from rivermouth.sinks._target import SinkEntry, Target


@dataclass(frozen=True, slots=True)
class Ready:
    """Changes that stand ready.

    Attributes:
        frame: The changes.
        changes: How many they are.
        held_bytes: What they, and what they are made of, take in memory and on disk; None if that is not known.
    """

    frame: DataFrame
    changes: int
    held_bytes: int | None


def merged(ready: Ready, what: Merge, target: Target, entry: SinkEntry) -> delta_table.Commit:
    """The commit that merges the changes and carries ``entry``, also if nothing changes; with its report.

    Raises:
        CommitLost: Another process committed an entry of this number first.

    Guarantees:
        Run twice with one entry: as once. Stopped half-way: neither changes nor entry, or both.
    """
    chosen = merge_report.way(ready.changes, ready.held_bytes)
    looked = merge(
        ready.frame,
        ready.changes,
        target.ledger.location,
        what,
        transaction_of(entry, target.table_id),
        few=chosen.join == "broadcast",
    )
    commit = target.ledger.commit_of(entry, target.version)
    if commit is None:
        raise CommitLost(flow=entry.flow, entry=entry.number, table=target.ledger.location)
    needs = MergeNeeds(ready.changes, ready.held_bytes)
    report = merge_report.report(commit.metrics, chosen, looked, needs, tuple(what.ranges))
    return replace(commit, merge=report)


def with_metrics(commit: delta_table.Commit, needed: TaskMetrics) -> delta_table.Commit:
    """The commit, whose report says what the tasks of the whole write needed: of the merge, and of what it merged."""
    if commit.merge is None:
        return commit
    report = replace(commit.merge, task_peak_bytes=needed.task_peak_bytes, spilled_bytes=needed.spilled_bytes)
    return replace(commit, merge=report)
