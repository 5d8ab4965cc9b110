"""The columns of a JSON Schema that a schema registry has."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from rivermouth.decoding.json import json_schema_document
from rivermouth.decoding.registry import registry_references
from rivermouth.errors import SchemaRegistryFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.decoding.registry.schema_registry import RegistryAccess


def columns(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> StructType:
    """The columns of a version of a subject.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not give it.
        ValueError: A table cannot have its columns; the text says why.
    """
    what = f"version {version} of subject {subject}"
    found = registry_references.with_references(spark, registry, subject, version, kind="JSON")
    try:
        documents = {name: json.loads(text) for name, text in found.items()}
    except (ValueError, RecursionError):
        raise SchemaRegistryFailed(detail=f"its {what} is no JSON") from None
    root = documents.pop(registry_references.ROOT)
    return json_schema_document.columns(root if isinstance(root, dict) else {}, documents)
