"""Strict JSON with a declared schema: a value fits it wholly, or it is refused with reason and field."""

from __future__ import annotations

import functools
import json
import secrets
from pathlib import Path
from typing import Any, Final, Literal, Self

from pydantic import Field
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rivermouth import names
from rivermouth.names import quoted
from rivermouth.rows import json_reasons, json_types
from rivermouth.rows.utf8 import is_utf8
from rivermouth.spec import Format

# One offset in so many is looked at for fields that the schema does not have.
SAMPLE_EVERY: Final = 1024

_TEXT: Final = f"CAST({names.VALUE} AS STRING)"
# Escapes of half a character: Java would store a question mark. Only documents with the rare ``\ud`` are
# searched; escaped backslashes go first, so that what follows them is not taken for an escape.
_LONE_HALF: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"
_HALVES: Final = rf"(contains({_TEXT}, r'\ud') OR contains({_TEXT}, r'\uD'))"
# Java looks for a single character faster than Spark does for two.
_NO_ESCAPES: Final = rf"size(split({_TEXT}, r'\\', 2)) = 1 OR NOT contains({_TEXT}, r'\u')"
_NO_HALVES: Final = rf"NOT ({_HALVES} AND replace({_TEXT}, r'\\', '__') RLIKE r'{_LONE_HALF}')"
_TEXT_SOUND: Final = f"{is_utf8(names.VALUE)} AND ({_NO_ESCAPES} OR {_NO_HALVES})"


class Json(Format):
    """JSON objects with a declared schema.

    Attributes:
        type: ``json``.
        declared: ``schema`` in YAML: DDL (``"id bigint, at timestamp"``), the path of a file with Spark's JSON
            form of a schema (``.json``), or that form itself as a mapping. A NOT NULL column refuses records
            that lack it.
    """

    type: Literal["json"] = "json"
    declared: str | dict[str, Any] = Field(alias="schema")

    def below(self, base: Path) -> Self:
        """The same format; a schema file's relative path is resolved against ``base``."""
        if not isinstance(self.declared, str) or not self.declared.endswith(".json"):
            return self
        return self.model_copy(update={"declared": str(base / self.declared)})

    def fixed(self) -> Self:
        """The same format; a schema file is read."""
        if not isinstance(self.declared, str) or not self.declared.endswith(".json"):
            return self
        return self.model_copy(update={"declared": _from_file(self.declared)})

    def columns(self, spark: SparkSession) -> StructType:  # noqa: ARG002 - Spark's parser is the process's own
        """The declared columns, in order, all nullable: NOT NULL is judged per record, not by the table."""
        return json_types.nullable_columns(self._schema())

    def decode(self, rows: DataFrame) -> DataFrame:
        """Values to columns in one parse.

        Spark's parser stops at the end of the first document and does not say what follows. So the value's last
        brace is replaced by ``,"k":1}`` with a random k of this process: k is a field of the document only if
        that brace was its end. ``inline(array(...))`` keeps Spark from evaluating an expression once for each
        column that is later taken out of it.
        """
        schema = self._schema()
        key = _unguessable_key()
        reads = [f"__read_{number}" for number in range(len(schema.fields))]
        dones = [f"__done_{number}" for number in range(len(schema.fields))]
        fields = list(zip(reads, dones, schema.fields, strict=True))

        # What can be said of the bytes is said before Spark's parser, which no code is generated for.
        prepared = rows.selectExpr("*", f"{_with_last(key)} AS __document", f"{_TEXT_SOUND} AS __text_sound")
        document = F.inline(F.array(_parsed(schema, key))).alias(*reads, "__last", "__corrupt")
        converted = prepared.select("*", document).selectExpr(
            "*",
            "__text_sound AND __corrupt IS NULL AND __last = 1 AS __sound",
            *(f"{json_types.convert(read, field.dataType)} AS {done}" for read, done, field in fields),
        )
        misfits = json_types.any_of(
            [*(json_types.field_misfit(read, done, field) for read, done, field in fields), _infinite(fields)]
        )
        fits = f"coalesce(__sound AND NOT coalesce({misfits or 'false'}, false), false)"
        data = ", ".join(f"{done} AS {quoted(field.name)}" for _, done, field in fields)
        decoded = f"{names.VALUE} IS NULL OR {fits} AS {names.DECODED}"
        ours = ", ".join(["__document", "__text_sound", *reads, "__last", "__corrupt", "__sound", *dones])
        return converted.selectExpr(f"* EXCEPT ({ours})", decoded, f"struct({data}) AS {names.DATA}")

    def explain(self, rows: DataFrame) -> DataFrame:
        """Each value is read again in Python, which names the first thing that is wrong with it.

        Reasons: ``INVALID_UTF8``, ``INVALID_JSON``, ``LONE_SURROGATE``, ``TOO_DEEP``, ``TOO_LONG``,
        ``NOT_AN_OBJECT``, ``FIELD_MISSING``, ``FIELD_TYPE``, and ``UNEXPLAINED`` where Python finds nothing.
        """
        schema = self._schema().json()
        verdict = json_reasons.explainer(schema)
        refused = F.expr(f"CASE WHEN NOT {names.DECODED} THEN {names.VALUE} END")
        parts = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
        told = (f"__verdict.{part} AS {name}" for name, part in parts.items())
        return rows.withColumn("__verdict", verdict(refused)).selectExpr("* EXCEPT (__verdict)", *told)

    def observations(self) -> dict[str, str]:
        """``undeclared_fields`` (bigint): fields of the records at one offset in 1,024 that the schema lacks.

        Only fields of the document itself are counted, not those of nested objects.
        """
        declared = ", ".join(names.literal(field.name) for field in self._schema().fields)
        extra = f"size(array_except(json_object_keys({_TEXT}), array({declared})))"
        sampled = f"pmod({names.OFFSET}, {SAMPLE_EVERY}) = 0 AND {names.DECODED} AND {names.VALUE} IS NOT NULL"
        return {"undeclared_fields": f"CASE WHEN {sampled} THEN {extra} END"}

    def _schema(self) -> StructType:
        """The schema as declared, NOT NULL included.

        Raises:
            ValueError: It cannot be read; the text says why.
        """
        declared = self.declared
        if isinstance(declared, str) and declared.endswith(".json"):
            declared = _from_file(declared)
        schema = _from_ddl(declared) if isinstance(declared, str) else _from_json(declared)
        json_types.check(schema)
        return schema


@functools.cache
def _unguessable_key() -> str:
    """One for the process: with a new one for each batch Spark would compile each batch's code anew."""
    return f"k{secrets.token_hex(5)}"


def _parsed(schema: StructType, key: str) -> Column:
    """The struct (fields as read, key, corrupt) of ``__document``, a value that got the key as its last field."""
    corrupt = f"{key}c"
    extra = [StructField(key, IntegerType()), StructField(corrupt, StringType())]
    options = {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": corrupt,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "maxNestingDepth": str(json_reasons.MAX_DEPTH),
    }
    return F.from_json(F.col("__document"), StructType([*json_types.read_columns(schema).fields, *extra]), options)


def _with_last(key: str) -> str:
    """SQL of the value's text with the key as its last field; null if it does not end in a brace.

    Only an empty object has no quotes; its first field gets no comma.
    """
    field = f"CASE WHEN contains({_TEXT}, '\"') THEN ',\"{key}\":1}}' ELSE '\"{key}\":1}}' END"

    def cut(binary: str) -> str:
        return f"concat(CAST(substring({binary}, 1, octet_length({binary}) - 1) AS STRING), {field})"

    trimmed = f"rtrim(' \t\r\n', {_TEXT})"
    return (
        f"CASE WHEN endswith({_TEXT}, '}}') THEN {cut(names.VALUE)} "
        f"WHEN endswith({trimmed}, '}}') THEN {cut(f'CAST({trimmed} AS BINARY)')} END"
    )


def _infinite(fields: list[tuple[str, str, StructField]]) -> str | None:
    """Whether a number that no double can hold was kept as text.

    One search of the document for all columns together: Spark would put the search before the suspicion if it
    stood beside each of them.
    """
    suspects = json_types.any_of(json_types.infinite_text(read, field.dataType) for read, _, field in fields)
    return suspects and f"({suspects}) AND {_TEXT} RLIKE r'{json_types.OUT_OF_RANGE}'"


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
        msg = f"the schema file {path} cannot be read: {error.strerror}"
        raise ValueError(msg) from None
    except ValueError:
        msg = f"the schema file {path} is not JSON"
        raise ValueError(msg) from None
    if not isinstance(found, dict):
        msg = f"the schema file {path} holds no JSON object"
        raise ValueError(msg)  # noqa: TRY004 - the caller reports ValueErrors
    return found


def _from_json(declared: dict[str, Any]) -> StructType:
    try:
        return StructType.fromJson(declared)
    except (KeyError, TypeError, AttributeError, ValueError, PySparkException):
        form = '{"type": "struct", "fields": [{"name": ..., "type": ...}]}'
        msg = f"this is not Spark's JSON form of a schema ({form})"
        raise ValueError(msg) from None


KIND = Json
