"""Avro records as columns, by our classes in Spark's JVM: they resolve the writer's schema, and read strictly."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.classic.column import Column as ClassicColumn
from pyspark.sql.types import StructType

from rivermouth.decoding.jvm import java_objects, jvm_classes
from rivermouth.decoding.jvm.jvm_classes import JAVA_ERRORS
from rivermouth.decoding.registry import schema_headers, schema_registry
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.schemas.refused import SchemaRefused, unreadable

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column, SparkSession
    from pyspark.sql.types import DataType

# Schemas that are a name alone, and how the text of another one begins.
_ALONE: Final = ("boolean", "int", "long", "float", "double", "bytes", "string")
_JSON: Final = ("{", "[", '"')
_NO_DDL: Final = "schema: orders.avsc, a file with the schema as Avro's JSON has it"


@dataclass(frozen=True, slots=True)
class Encoding:
    """How the records of a flow are written.

    Attributes:
        schema: Text of the table's schema.
        framing: plain, single_object or confluent.
        writers: Texts of the schemas of writers.
        registry: Where schemas are found by their ids.
        policies: As ``column_policies.policies_of`` writes them, of a table that grows; empty for others.
        record_names: Names of the writers' records that are the flow's, with their namespaces or without; others are
            skipped. Empty for those that have the name of the table's record.
        id_header: The header that may have the id of a record's schema; empty for values without headers.
    """

    schema: str
    framing: str
    writers: tuple[str, ...] = ()
    registry: RegistryAccess | None = None
    policies: str = ""
    record_names: tuple[str, ...] = ()
    id_header: str = schema_headers.OF_VALUES


def columns(spark: SparkSession, schema: str) -> StructType:
    """The columns of a schema, all nullable.

    Raises:
        ValueError: It is no Avro schema, or a table cannot have its columns; the text says why.
    """
    return StructType.fromJson(json.loads(_of_schema(spark, "columns", schema)))


def key_type(spark: SparkSession, schema: str) -> DataType:
    """What keys of a schema are: of a record a struct of its columns, all nullable, else that of one value.

    Raises:
        ValueError: It is no Avro schema, or no key is that; the text says why.
    """
    column = {"name": "key", "type": json.loads(_of_schema(spark, "key", schema)), "nullable": True, "metadata": {}}
    # PySpark reads types in their JSON form as those of columns alone.
    return StructType.fromJson({"type": "struct", "fields": [column]})["key"].dataType


def check(spark: SparkSession, encoding: Encoding) -> None:
    """Checks that records can be read as ``encoding`` says.

    Raises:
        ValueError: A schema cannot be used; the text says why.
    """
    _decoder(spark, encoding)


def decoded(spark: SparkSession, encoding: Encoding, *columns: str) -> Column:
    """A struct, never null, for a binary column, and for one of headers too where these may have ids of schemas.

    It has ``decoded`` (boolean), ``data`` (a struct of the columns), ``undeclared`` (array of strings), the names
    of the record's own fields that no column has, and ``verdict``, null where the value was read: a struct of
    ``skipped`` (boolean), ``reason``, ``field`` and ``message``.

    Raises:
        ValueError: A schema cannot be used; the text says why.
    """
    return ClassicColumn(_decoder(spark, encoding).decoded(java_objects.strings(spark, columns)))


def explained(spark: SparkSession, encoding: Encoding, *columns: str) -> Column:
    """The ``verdict`` of ``decoded`` alone.

    Raises:
        ValueError: A schema cannot be used; the text says why.
    """
    return ClassicColumn(_decoder(spark, encoding).explained(java_objects.strings(spark, columns)))


def growing(spark: SparkSession, encoding: Encoding, *columns: str) -> Column:
    """Whether the table may grow by the schema that a value was written with, of the same columns; never null.

    Raises:
        ValueError: A schema cannot be used; the text says why.
    """
    return ClassicColumn(_decoder(spark, encoding).growing(java_objects.strings(spark, columns)))


def values(spark: SparkSession, encoding: Encoding, column: Column, *, fails_on: Collection[str]) -> Column:
    """What a binary column holds, without verdicts: a struct of the schema's columns, or the value of a plain schema.

    Args:
        spark: Any session.
        encoding: How the values are written.
        column: The values.
        fails_on: What fails a task: ``refused`` values, whose columns are all null otherwise, and records with an
            ``undeclared`` field, which is passed over otherwise.

    Raises:
        ValueError: A schema cannot be used; the text says why.
    """
    decoder = _decoder(spark, encoding)
    java = _java(spark, "Values")(decoder, "refused" in fails_on, "undeclared" in fails_on)
    return ClassicColumn(java.of(java_objects.java_column(column)))


def written(spark: SparkSession, encoding: Encoding, writer: int) -> StructType:
    """The columns that a table can have of a writer's schema; its own as wide as they would have to be.

    Raises:
        SchemaRegistryFailed: The registry does not say.
        ValueError: It has no such schema.
    """
    try:
        found = _decoder(spark, encoding).found(writer)
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None
    return StructType.fromJson(json.loads(found))


def of_registry(spark: SparkSession, registry: RegistryAccess, subject: str, version: int) -> str:
    """Text of the schema that a registry has as a version of a subject, or as its ``NEWEST``.

    Raises:
        SchemaRegistryFailed: It has none, or does not give it.
    """
    try:
        found: str = schema_registry.client(spark, registry).version(subject, version)
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None
    return found


def with_id(spark: SparkSession, registry: RegistryAccess, number: int) -> str:
    """Text of the schema that a registry has under an id.

    Raises:
        SchemaRegistryFailed: It has none, or does not give it.
    """
    try:
        found: str = schema_registry.client(spark, registry).withId(number)
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None
    return found


def text_of(declared: str | dict[str, Any]) -> str:
    """The text of a schema: JSON, or a mapping, or the path of a file.

    Raises:
        ValueError: The file cannot be read; the text says why.
    """
    if not isinstance(declared, str):
        return json.dumps(declared)
    if declared in _ALONE:
        return json.dumps(declared)
    if not is_path(declared):
        return declared
    try:
        return Path(declared).read_text(encoding="utf-8")
    except OSError as error:
        name = Path(declared)
        if " " in name.name and not name.suffix:
            raise SchemaRefused(f"{name.name!r} is no schema of Avro's and no file with one", _NO_DDL) from None
        raise unreadable(declared, error) from None
    except UnicodeDecodeError:
        msg = f"the schema file {declared} is no UTF-8"
        raise ValueError(msg) from None


def is_path(declared: str | dict[str, Any]) -> bool:
    """Whether a schema is named by its file."""
    return isinstance(declared, str) and not (declared in _ALONE or declared.lstrip().startswith(_JSON))


def _of_schema(spark: SparkSession, what: str, schema: str) -> str:
    try:
        found: str = getattr(_java(spark, "Decoder"), what)(schema)
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None
    return found


def _decoder(spark: SparkSession, encoding: Encoding) -> Any:
    try:
        registry = None if encoding.registry is None else schema_registry.client(spark, encoding.registry)
        return _java(spark, "Decoder")(
            encoding.schema,
            encoding.framing,
            list(encoding.writers),
            registry,
            encoding.policies,
            list(encoding.record_names),
            encoding.id_header,
        )
    except JAVA_ERRORS as error:
        raise schema_registry.translated(error) from None


def _java(spark: SparkSession, name: str) -> Any:
    return jvm_classes.found(spark, f"avro.{name}")
