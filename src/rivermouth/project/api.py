"""The class ``Project``: a project, and a method for each thing that can be done with it."""

from __future__ import annotations

from dataclasses import dataclass

from rivermouth.project.methods.table_operations import TableOperations


@dataclass(frozen=True)
class Project(TableOperations):
    """A project and what can be done with it; the work itself loads Spark, so it is imported when it is asked for."""
