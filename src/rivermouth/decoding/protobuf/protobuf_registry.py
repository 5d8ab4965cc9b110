"""Protobuf schemas of a schema registry, each with all that it refers to, as a descriptor file would hold it."""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.jvm_classes import JAVA_ERRORS
from rivermouth.decoding.registry import registry_references, schema_registry
from rivermouth.errors import SchemaRegistryFailed

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, SparkSession

    from rivermouth.decoding.registry.schema_registry import RegistryAccess


def descriptor_set(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> bytes:
    """A ``FileDescriptorSet`` of a version of a subject.

    Raises:
        SchemaRegistryFailed: The registry has none, or does not give it.
    """
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra

    what = f"version {version} of subject {subject}"
    found = registry_references.with_references(spark, registry, subject, version, kind="PROTOBUF", form="serialized")
    files = [_file(name, text, what) for name, text in found.items()]
    return bytes(descriptor_pb2.FileDescriptorSet(file=files).SerializeToString())


def asked(spark: SparkSession, registry: RegistryAccess, column: str, known: Collection[int]) -> Column:
    """What a registry says of the writer of a binary value in Confluent's framing: a struct, never null.

    ``descriptors`` is binary, a ``FileDescriptorSet``, ``why`` a string that says why there is none. Both are null of
    writers whose ids are known.
    """
    return ClassicColumn(_writers(spark, registry, known).over(column))


def descriptor_set_of_writer(spark: SparkSession, registry: RegistryAccess, writer: int) -> bytes:
    """A ``FileDescriptorSet`` of the schema with an id.

    Raises:
        SchemaRegistryFailed: The registry does not say.
        ValueError: It has no such schema.
    """
    try:
        return bytes(_writers(spark, registry, ()).descriptors(writer))
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None


def _writers(spark: SparkSession, registry: RegistryAccess, known: Collection[int]) -> Any:
    """Our class that asks a registry for the Protobuf schemas of writers, but for those whose ids are known."""
    try:
        return jvm_classes.found(spark, "avro.Writers")(schema_registry.client(spark, registry), sorted(known))
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None


def _file(name: str, text: str, what: str) -> Any:
    from google.protobuf import descriptor_pb2  # noqa: PLC0415 - of an extra
    from google.protobuf.message import DecodeError  # noqa: PLC0415 - of an extra

    try:
        file = descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (DecodeError, ValueError):
        which = what if name == registry_references.ROOT else f"{name}, of {what},"
        detail = f"it does not give {which} as a descriptor (format=serialized)"
        raise SchemaRegistryFailed(detail=detail) from None
    # Others import it by this name, and the registry's own may be another.
    file.name = name
    return file
