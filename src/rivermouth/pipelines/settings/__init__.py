"""Which pipelines a folder has: the settings of Spark, of Databricks, and of a rivermouth project."""

from __future__ import annotations

from rivermouth.pipelines.settings.find import find_pipelines, single_files
from rivermouth.pipelines.settings.model import EventLog, PipelineSettings
from rivermouth.pipelines.settings.project_file import expanded_configuration

__all__ = ["EventLog", "PipelineSettings", "expanded_configuration", "find_pipelines", "single_files"]
