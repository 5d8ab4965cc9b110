"""Kafka topics into Delta tables: every record ends in exactly one place.

``Project.load("rivermouth.yml").run()`` does in Python what ``rivermouth run`` does in the shell, ``ingest("orders")``
is the one-liner for one topic, and ``read_topic("orders")`` looks into it. Nothing here imports Spark before it is
needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rivermouth.domain.ledger.data_loss import LossDecision
    from rivermouth.domain.project.sample_records import Record, RecordVerdict
    from rivermouth.errors import RivermouthError
    from rivermouth.project.api import Project
    from rivermouth.project.commands.ingest import ingest
    from rivermouth.project.commands.schema import infer_schema
    from rivermouth.project.commands.topics import read_topic

    __version__: str

__all__ = [
    "LossDecision",
    "Project",
    "Record",
    "RecordVerdict",
    "RivermouthError",
    "__version__",
    "infer_schema",
    "ingest",
    "read_topic",
]

_HOMES = {
    "LossDecision": "rivermouth.domain.ledger.data_loss",
    "Project": "rivermouth.project.api",
    "Record": "rivermouth.domain.project.sample_records",
    "RecordVerdict": "rivermouth.domain.project.sample_records",
    "RivermouthError": "rivermouth.errors",
    "infer_schema": "rivermouth.project.commands.schema",
    "ingest": "rivermouth.project.commands.ingest",
    "read_topic": "rivermouth.project.commands.topics",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("rivermouth")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rivermouth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
