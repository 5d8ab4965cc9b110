"""A format whose columns are declared: DDL, or a file or mapping with Spark's JSON form of a schema."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, ClassVar, Final, Literal, Self

from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.types import DataType, StructField, StructType, TimestampNTZType, TimestampType

from rivermouth.decoding.json import json_schema_document, json_types
from rivermouth.schemas import column_types
from rivermouth.schemas.refused import SchemaRefused, unreadable
from rivermouth.spec import Format, InferringFormat

INFER: Final = "infer"
"""In the place of a schema: the columns are inferred from what is read."""
_QUOTED: Final = r"""`(?:[^`]|``)*`|'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\""""
_WORD: Final = re.compile(_QUOTED + r"""|[(<)>,]|[^\s`'"(<)>,:]+:?""", re.DOTALL)

# Comments, and one type for all columns.
_MORE_THAN_COLUMNS: Final = re.compile(r"--|/\*|^\s*struct\s*<", re.IGNORECASE)


class DeclaredFormat(Format):
    """Base of the formats with a declared schema.

    Attributes:
        declared: ``schema`` in YAML: DDL (``"id bigint, at timestamp"``), the path of a file with Spark's JSON
            form of a schema, or with a JSON Schema (``.json``), or either as a mapping. A NOT NULL column refuses
            records that lack it. ``infer``, in the format json, infers it at the first run and keeps it.
        timestamp_precision: What happens to a time with digits behind the microsecond, which no column keeps:
            ``truncate`` cuts them off, toward the past, ``refuse`` refuses the record with ``FIELD_TYPE``. If it is
            not given, they are cut off of times in text and of Debezium's numbers, except in columns of the format
            json that were inferred or may evolve; and refused in MessagePack, XML, and what Python or Java return.
    """

    renames: ClassVar[bool] = False
    """Whether a column may be read from a field of another name."""
    variants: ClassVar[bool] = False
    """Whether a column may be a VARIANT."""
    declared: str | dict[str, Any] = Field(alias="schema")
    timestamp_precision: Literal["truncate", "refuse"] | None = None

    @property
    def truncates_times(self) -> bool:
        """Whether it is said that what is less than a microsecond is cut off of times."""
        return self.timestamp_precision == "truncate"

    @property
    def refuses_finer_times(self) -> bool:
        """Whether it is said that times with digits behind the microsecond are refused."""
        return self.timestamp_precision == "refuse"

    def with_base_dir(self, base: Path) -> Self:
        """The same format; a schema file's relative path is resolved against ``base``."""
        if not isinstance(self.declared, str) or not self.declared.endswith(".json"):
            return self
        return self.model_copy(update={"declared": str(base / self.declared)})

    def with_loaded_files(self, spark: SparkSession) -> Self:  # noqa: ARG002 - a file needs no session
        """The same format; a schema file is read."""
        if not isinstance(self.declared, str) or not self.declared.endswith(".json"):
            return self
        return self.model_copy(update={"declared": _from_file(self.declared)})

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - Spark's parser is the process's own
        """The declared columns, in order, all nullable: NOT NULL is judged per record, not by the table.

        Raises:
            ValueError: The schema cannot be read, or a setting is about columns that it lacks; the text says why.
        """
        found = column_types.nullable_columns(self.schema_as_declared())
        times = (TimestampType, TimestampNTZType)
        if self.timestamp_precision is not None and self.is_fixed and not json_types.holds(found, times):
            msg = "timestamp_precision is about timestamps, and no column is one: declare one, or leave it out"
            raise ValueError(msg)
        return found

    @property
    def is_fixed(self) -> bool:
        """Whether all columns are declared; else some are inferred."""
        return True

    def schema_as_declared(self) -> StructType:
        """The schema as declared, NOT NULL included.

        Raises:
            ValueError: It cannot be read; the text says why.
        """
        declared = self.declared
        if declared == {}:
            msg = "its schema is in the schema registry, which was not asked for it"
            raise ValueError(msg)
        if declared == INFER:
            infers = isinstance(self, InferringFormat)
            msg = "it is not inferred yet" if infers else f"the format {self.type} infers no columns"
            raise ValueError(msg)
        if isinstance(declared, str) and declared.endswith(".json"):
            declared = _from_file(declared)
        schema = _from_ddl(declared) if isinstance(declared, str) else _from_json(declared)
        self.check_types(schema)
        return schema

    def check_types(self, schema: StructType) -> None:
        """Makes sure that values can be read as these columns.

        Raises:
            ValueError: They cannot; the text says which, and why.
        """
        json_types.check(schema, renames=self.renames, variants=self.variants)


def precision_hint(declared: DataType, *, refused: bool) -> str:
    """The end of a message that a value does not fit, where that may be for its digits; else empty."""
    if not refused or not isinstance(declared, TimestampType | TimestampNTZType):
        return ""
    return " (timestamp_precision: truncate cuts off digits behind the microsecond, refuse does not)"


def hinted_columns(schema: StructType, hints: str | None) -> StructType:
    """The columns with those of ``hints`` (DDL) in the place of the ones of their names, or behind them.

    Raises:
        ValueError: The hints cannot be read.
    """
    fields = list(schema.fields)
    for hint in _from_ddl(hints).fields if hints else ():
        place = next((place for place, each in enumerate(fields) if each.name.lower() == hint.name.lower()), None)
        if place is None:
            fields.append(hint)
        else:
            mine = fields[place]
            fields[place] = StructField(mine.name, hint.dataType, hint.nullable, {**hint.metadata, **mine.metadata})
    return StructType(fields)


def names_in_ddl(ddl: str) -> list[str]:
    """The names of the columns in DDL that Spark can read; for where there is no Spark to read it."""
    return [name for name, _ in _columns_in_ddl(ddl)]


def _columns_in_ddl(ddl: str) -> list[tuple[str, str]]:
    """The columns, each with the first word behind its name."""
    found: list[tuple[str, str]] = []
    depth, begins, named = 0, True, False
    for word in _WORD.findall(ddl):
        if named:
            found[-1] = (found[-1][0], word)
        named = begins and word[0] not in "(<)>,"
        if named:
            found.append((word[1:-1].replace("``", "`") if word[0] == "`" else word.rstrip(":"), ""))
        begins = depth == 0 and word == ","
        depth += (word[0] in "(<") - (word[0] in ")>")
    return found


def variants_as_declared(declared: object) -> frozenset[str]:
    """The fields, in lower case, that are VARIANTs in a schema as written in the YAML, without Spark."""
    match declared:
        case str():
            found = [name for name, kind in _columns_in_ddl(declared) if kind.lower() == "variant"]
        case {"fields": [*fields]}:
            variants = (each for each in fields if isinstance(each, dict) and each.get("type") == "variant")
            found = [
                str(each.get("metadata", {}).get(column_types.NAME_IN_JSON, each.get("name"))) for each in variants
            ]
        case _:
            found = []
    return frozenset(name.lower() for name in found)


def names_as_declared(declared: object) -> list[str] | None:
    """The names of the columns of a schema as written in the YAML, without Spark; None if the YAML lacks them."""
    match declared:
        case str() if declared == INFER or declared.endswith(".json") or _MORE_THAN_COLUMNS.search(declared):
            return None
        case str():
            return names_in_ddl(declared)
        case {"fields": [*fields]}:
            return [str(field["name"]) for field in fields if isinstance(field, dict) and "name" in field]
    return None


def _from_ddl(ddl: str) -> StructType:
    try:
        schema = StructType.fromDDL(ddl)
    except PySparkException as error:
        raise ValueError(str(error).strip().splitlines()[0]) from None
    if not isinstance(schema, StructType):
        msg = "it names a type and no columns: write 'name type, name type'"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    return schema


def _from_file(path: str) -> dict[str, Any]:
    try:
        found = json.loads(Path(path).read_text(encoding="utf-8"))
    except OSError as error:
        raise unreadable(path, error) from None
    except (ValueError, RecursionError):
        fix = f"put JSON into the file, or write the columns: {DeclaredFormat.schema_example}"
        raise SchemaRefused(f"the schema file {path} is not JSON", fix) from None
    if not isinstance(found, dict):
        msg = f"the schema file {path} holds no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    return found


def _from_json(declared: dict[str, Any]) -> StructType:
    if json_schema_document.is_json_schema(declared):
        return json_schema_document.columns(declared)
    try:
        return StructType.fromJson(declared)
    except (KeyError, TypeError, AttributeError, ValueError, PySparkException):
        form = '{"type": "struct", "fields": [{"name": ..., "type": ...}]}'
        msg = f"this is not Spark's JSON form of a schema ({form})"
        raise ValueError(msg) from None
