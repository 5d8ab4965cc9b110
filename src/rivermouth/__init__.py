"""Kafka topics into Delta tables: every record ends in exactly one place.

``Project.load("rivermouth.yml").run()`` does in Python what ``rivermouth run`` does in the shell, ``ingest("orders")``
is the one-liner for one topic, and ``read_topic("orders")`` looks into it. Nothing here imports Spark before it is
needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rivermouth.errors import RivermouthError
    from rivermouth.project.ingest_run import ingest
    from rivermouth.project.load import Project
    from rivermouth.project.schema import infer_schema
    from rivermouth.project.topics import read_topic
    from rivermouth.rows.given_records import Record, RecordVerdict
    from rivermouth.rows.gone import LossDecision

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
    "LossDecision": "rivermouth.rows.gone",
    "Project": "rivermouth.project.load",
    "Record": "rivermouth.rows.given_records",
    "RecordVerdict": "rivermouth.rows.given_records",
    "RivermouthError": "rivermouth.errors",
    "infer_schema": "rivermouth.project.schema",
    "ingest": "rivermouth.project.operate",
    "read_topic": "rivermouth.project.topics",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.import_module("importlib.metadata").version("rivermouth")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'rivermouth' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
