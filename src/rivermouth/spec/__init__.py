"""The frozen nouns that a user writes, in YAML or in Python: both build equal objects.

Every model refuses unknown keys. Text may hold ``${NAME}`` or ``${NAME:-default}``; it stays as written
here and is resolved only where it is used, so that no printout of these objects shows a secret.
"""

from __future__ import annotations

from rivermouth.spec.catalog import Catalog
from rivermouth.spec.compression import Compression
from rivermouth.spec.evolution import ColumnEvolution, Evolution
from rivermouth.spec.flow import Flow
from rivermouth.spec.flow_parts import Expectation, Table, Trigger
from rivermouth.spec.keyed import KeyedSink
from rivermouth.spec.kinds import Action, Format, Sink
from rivermouth.spec.maintenance import Maintenance, Optimize, Vacuum, every_text
from rivermouth.spec.offsets import EndingOffsets, Offsets, StartingOffsets
from rivermouth.spec.pipeline import Pipeline, PipelineProfile, PipelineTrigger
from rivermouth.spec.places import Places
from rivermouth.spec.project import KafkaCluster, ProjectSpec, SchemaRegistry, SparkSettings
from rivermouth.spec.source import Source
from rivermouth.spec.values import ConfigModel, DurationS, duration_s, duration_text

__all__ = [
    "Action",
    "Catalog",
    "ColumnEvolution",
    "Compression",
    "ConfigModel",
    "DurationS",
    "EndingOffsets",
    "Evolution",
    "Expectation",
    "Flow",
    "Format",
    "KafkaCluster",
    "KeyedSink",
    "Maintenance",
    "Offsets",
    "Optimize",
    "Pipeline",
    "PipelineProfile",
    "PipelineTrigger",
    "Places",
    "ProjectSpec",
    "SchemaRegistry",
    "Sink",
    "Source",
    "SparkSettings",
    "StartingOffsets",
    "Table",
    "Trigger",
    "Vacuum",
    "duration_s",
    "duration_text",
    "every_text",
]
