"""A Protobuf schema of a schema registry, with all that it refers to, as a descriptor file would hold it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any, Final

from rivermouth.errors import SchemaRegistryFailed
from rivermouth.rows import avro_document

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.rows.schema_registry import RegistryAccess

_DEEPEST_REFERENCE: Final = 16


def descriptor_set(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> bytes:
    """A ``FileDescriptorSet`` of a version of a subject.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not give it.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra

    files: dict[str, Any] = {}

    def add(name: str, subject: str, version: int, depth: int) -> None:
        what = f"version {version} of subject {subject}"
        if depth > _DEEPEST_REFERENCE:
            raise SchemaRegistryFailed(detail=f"{what} is referred to more than {_DEEPEST_REFERENCE} deep")
        found = avro_document.said_by_registry(spark, registry, subject, version, "serialized")
        if found is None or found.get("schemaType") != "PROTOBUF":
            raise SchemaRegistryFailed(detail=f"it has no Protobuf schema as {what}")
        file = _file(found.get("schema"), what)
        # Others import it by this name, and the registry's own may be another.
        file.name = name
        files[name] = file
        for each in _references(found, what):
            if each[0] not in files:
                add(*each, depth + 1)

    # No file can import one without a suffix.
    add("the schema", subject, version, 0)
    return bytes(descriptor_pb2.FileDescriptorSet(file=files.values()).SerializeToString())


def _file(text: object, what: str) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - of an extra

    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(str(text), validate=True))
    except (DecodeError, binascii.Error, ValueError):
        detail = f"it does not give {what} as a descriptor (format=serialized)"
        raise SchemaRegistryFailed(detail=detail) from None


def _references(found: dict[str, Any], what: str) -> list[tuple[str, str, int]]:
    try:
        return [(str(it["name"]), str(it["subject"]), int(it["version"])) for it in found.get("references") or ()]
    except (TypeError, KeyError, ValueError):
        raise SchemaRegistryFailed(detail=f"its answer to {what} has references that are none") from None
