"""The frozen nouns that a user writes, in YAML or in Python: both build equal objects.

Every model refuses unknown keys. Text may hold ``${NAME}`` or ``${NAME:-default}``; it stays as written
here and is resolved only where it is used, so that no printout of these objects shows a secret.
"""

from __future__ import annotations

from rivermouth.spec.catalog import Catalog
from rivermouth.spec.compression import Compression
from rivermouth.spec.evolution import ColumnEvolution, Evolution
from rivermouth.spec.flows.flow import Flow
from rivermouth.spec.flows.flow_parts import Expectation, Table, Trigger
from rivermouth.spec.flows.lookup import Lookup
from rivermouth.spec.formats import (
    ArrayFormat,
    ChangeEnvelope,
    EncodingFormat,
    EvolvingFormat,
    Format,
    InferringFormat,
    JarFormat,
    KeyFormat,
    RegistryFormat,
    WrappedFormat,
    reads_registry,
    require_capability,
)
from rivermouth.spec.keyed import KeyedSink
from rivermouth.spec.kinds import Action, Sink
from rivermouth.spec.maintenance import Maintenance, Optimize, Vacuum, every_text
from rivermouth.spec.offsets import EndingOffsets, Offsets, StartingOffsets
from rivermouth.spec.pipeline import Pipeline, PipelineProfile, PipelineTrigger
from rivermouth.spec.places import Places
from rivermouth.spec.project import KafkaCluster, ProjectSpec, SchemaRegistry, SparkSettings
from rivermouth.spec.source import Source
from rivermouth.spec.values import ConfigModel, DurationS, duration_s, duration_text

__all__ = [
    "Action",
    "ArrayFormat",
    "Catalog",
    "ChangeEnvelope",
    "ColumnEvolution",
    "Compression",
    "ConfigModel",
    "DurationS",
    "EncodingFormat",
    "EndingOffsets",
    "Evolution",
    "EvolvingFormat",
    "Expectation",
    "Flow",
    "Format",
    "InferringFormat",
    "JarFormat",
    "KafkaCluster",
    "KeyFormat",
    "KeyedSink",
    "Lookup",
    "Maintenance",
    "Offsets",
    "Optimize",
    "Pipeline",
    "PipelineProfile",
    "PipelineTrigger",
    "Places",
    "ProjectSpec",
    "RegistryFormat",
    "SchemaRegistry",
    "Sink",
    "Source",
    "SparkSettings",
    "StartingOffsets",
    "Table",
    "Trigger",
    "Vacuum",
    "WrappedFormat",
    "duration_s",
    "duration_text",
    "every_text",
    "reads_registry",
    "require_capability",
]
