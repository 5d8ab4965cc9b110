"""A schema of a schema registry with all that it refers to, as the registry has written them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.registry import schema_registry
from rivermouth.errors import SchemaRegistryFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.decoding.registry.schema_registry import RegistryAccess

ROOT: Final = "the schema"
"""The name of what was asked for; nothing can refer to it by that."""
_DEEPEST_REFERENCE: Final = 16
_CALLED: Final = {"PROTOBUF": "Protobuf schema", "JSON": "JSON Schema"}


def with_references(
    spark: SparkSession, registry: RegistryAccess, subject: str, version: int, *, kind: str, form: str = ""
) -> dict[str, str]:
    """The texts of a version of a subject, and of what it refers to, by the names by which they are referred to.

    Args:
        spark: Any session.
        registry: How it is reached.
        subject: The subject.
        version: Its version.
        kind: ``PROTOBUF`` or ``JSON``.
        form: How the texts shall be written: ``serialized``, or as they were registered.

    Returns:
        That of the version itself under ``ROOT``, which comes first.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not give it.
    """
    texts: dict[str, str] = {}

    def add(name: str, subject: str, version: int, depth: int) -> None:
        what = f"version {version} of subject {subject}"
        if depth > _DEEPEST_REFERENCE:
            raise SchemaRegistryFailed(detail=f"{what} is referred to more than {_DEEPEST_REFERENCE} deep")
        found = schema_registry.version_of(spark, registry, subject, version, form)
        if found is None or found.get("schemaType") != kind:
            raise SchemaRegistryFailed(detail=f"it has no {_CALLED[kind]} as {what}")
        texts[name] = str(found.get("schema"))
        for each in _references(found, what):
            if each[0] not in texts:
                add(*each, depth + 1)

    add(ROOT, subject, version, 0)
    return texts


def _references(found: dict[str, Any], what: str) -> list[tuple[str, str, int]]:
    try:
        return [(str(it["name"]), str(it["subject"]), int(it["version"])) for it in found.get("references") or ()]
    except (TypeError, KeyError, ValueError):
        raise SchemaRegistryFailed(detail=f"its answer to {what} has references that are none") from None
