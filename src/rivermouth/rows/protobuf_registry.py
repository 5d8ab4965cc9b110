"""A Protobuf schema of a schema registry, with all that it refers to, as a descriptor file would hold it."""

from __future__ import annotations

import base64
import binascii
from typing import TYPE_CHECKING, Any

from rivermouth.errors import SchemaRegistryFailed
from rivermouth.rows import registry_documents

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.rows.schema_registry import RegistryAccess


def descriptor_set(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> bytes:
    """A ``FileDescriptorSet`` of a version of a subject.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not give it.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra

    what = f"version {version} of subject {subject}"
    found = registry_documents.with_references(spark, registry, subject, version, kind="PROTOBUF", form="serialized")
    files = [_file(name, text, what) for name, text in found.items()]
    return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def _file(name: str, text: str, what: str) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - of an extra

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, binascii.Error, ValueError):
        which = what if name == registry_documents.ROOT else f"{name}, of {what},"
        detail = f"it does not give {which} as a descriptor (format=serialized)"
        raise SchemaRegistryFailed(detail=detail) from None
    # Others import it by this name, and the registry's own may be another.
    file.name = name
    return file
