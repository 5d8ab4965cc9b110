"""Tests of pipelines and flows on given rows and records: without Kafka, in the test's own Spark session.

``run_pipeline`` runs the files of a pipeline, ``run_flow`` a flow of a project file; tables, dead letters and counts
can be looked at afterwards. pytest has both as fixtures. Nothing here imports Spark before it is needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rivermouth.domain.project.sample_records import Record
    from rivermouth.testing.flows import FlowTest, run_flow
    from rivermouth.testing.pipelines import PipelineTest, run_pipeline

__all__ = ["FlowTest", "PipelineTest", "Record", "run_flow", "run_pipeline"]

_HOMES = {
    "FlowTest": "rivermouth.testing.flows",
    "PipelineTest": "rivermouth.testing.pipelines",
    "Record": "rivermouth.domain.project.sample_records",
    "run_flow": "rivermouth.testing.flows",
    "run_pipeline": "rivermouth.testing.pipelines",
}


def __getattr__(name: str) -> Any:
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rivermouth.testing' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
