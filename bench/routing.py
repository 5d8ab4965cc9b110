"""One topic into 32 tables, and into one, as a project says it. Imported in the worker's process alone."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any, Final

from bench import records
from rivermouth import Project
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from bench.contestants import Job

_RAW: Final = "main.raw"
_FORMAT: Final = {"type": "json", "schema": records.KINDS_SCHEMA}
_BY_KIND: Final = {"kind": "get_json_object(CAST(value AS STRING), '$.kind')"}


def _flows(topic: str, *, raw: dict[str, Any] | None, table: str) -> dict[str, Any]:
    """A flow that reads the topic, or the table of a raw one before it."""
    if raw is None:
        return {"orders": {"topics": [topic], "format": _FORMAT, "table": table}}
    return {
        "raw": {"topics": [topic], "format": "raw", "table": {"name": _RAW, **raw}},
        "orders": {"source": {"table": _RAW}, "format": _FORMAT, "table": table},
    }


def _carry(
    _spark: SparkSession, job: Job, *, raw: dict[str, Any] | None, table: str, into: str | None = None
) -> dict[str, Any]:
    """What of the topic is not in the tables yet, new ones or those ``into`` a lake; in the session of this process."""
    flows = _flows(job.topic, raw=raw, table=table)
    spec = ProjectSpec.model_validate(
        {"lake": into or job.folder, "kafka": {"bootstrap_servers": job.servers}, "flows": flows}
    )
    outcomes = Project.from_spec(spec).run()
    counts = [each.counts for each in outcomes if each.flow != "raw"]
    return {
        "consumed": sum(each.consumed for each in counts),
        "written": sum(each.written for each in counts),
        "flows": len(outcomes),
    }


ROUTES: Final = {
    "one_table": ("tuned", functools.partial(_carry, raw=None, table="main.orders")),
    "one_table_by_raw": ("tuned", functools.partial(_carry, raw={}, table="main.orders")),
    "many_tables": ("tuned", functools.partial(_carry, raw={"partition_by": [_BY_KIND]}, table="main.{kind}")),
}
"""Name to session and door."""
