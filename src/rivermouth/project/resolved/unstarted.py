"""Runs that end before any of their flows has begun: the reason is kept in the lake, for ``status``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rivermouth.engine.flow.failures import keep_unstarted
from rivermouth.errors import RivermouthError
from rivermouth.ports.lake.lake_writer import LakeWriter

if TYPE_CHECKING:
    from rivermouth.engine.flow.jobs import Job
    from rivermouth.project.resolved.resolved_project import ResolvedProject

TIMEOUT_S: Final = 5.0


@contextmanager
def noting(project: ResolvedProject, chosen: Sequence[Job]) -> Iterator[None]:
    """Keeps an error of ours that leaves the block as the last failure of each of these flows, and raises it again."""
    try:
        yield
    except RivermouthError as error:
        if chosen:
            lake = LakeWriter(project.spark_conf, timeout_s=TIMEOUT_S)
            keep_unstarted(lake, chosen[0].places.failures, [each.flow.name for each in chosen], error)
        raise
