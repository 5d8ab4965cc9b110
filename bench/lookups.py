"""A flow with columns of another table, and the same flow without. Imported in the worker's process alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from bench import records
from rivermouth import Project
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.contestants import Job


def _carry(_spark: SparkSession, job: Job, *, customers: str, looked_up: bool) -> dict[str, Any]:
    """All of the topic into a table, with or without what the table ``customers`` has about each record."""
    flow = {
        "topics": [job.topic],
        "format": {"type": "json", "schema": records.SCHEMA},
        "table": "main.orders",
        "expectations": [
            {"name": name, "condition": condition, "action": "dead_letter"} for name, condition in records.EXPECTATIONS
        ],
    }
    if looked_up:
        flow["lookup"] = {"table": customers, "on": "customer_id", "columns": ["name", "tier"]}
    spec = ProjectSpec.model_validate(
        {"lake": job.folder, "kafka": {"bootstrap_servers": job.servers}, "flows": {"orders": flow}}
    )
    (outcome,) = Project.from_spec(spec).run()
    return {"consumed": outcome.counts.consumed, "written": outcome.counts.written}


LOOKUPS: Final = {
    "without_lookup": ("tuned", functools.partial(_carry, looked_up=False)),
    "with_lookup": ("tuned", functools.partial(_carry, looked_up=True)),
}
"""Name to session and door."""
