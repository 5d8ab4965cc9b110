"""One strict JSON document a value: read in one parse by Spark's lenient parser, which does not know it.

Spark's parser stops at the end of the first document and does not say what follows. So the value's last brace is
replaced by ``,"k":1}`` with a random k of this process: k is a field of the document only if that brace was its end.
"""

from __future__ import annotations

import functools
import secrets
from typing import Final

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import IntegerType, StringType, StructField, StructType

from rivermouth import names
from rivermouth.decoding.json.utf8 import is_utf8
from rivermouth.schemas import json_limits

TEXT: Final = f"CAST({names.VALUE} AS STRING)"
# Escapes of half a character: Java would store a question mark. Only documents with the rare ``\ud`` are
# searched; escaped backslashes go first, so that what follows them is not taken for an escape.
_LONE_HALF: Final = r"\\u[dD][89abAB]..(?!\\u[dD][c-fC-F])|(?<!\\u[dD][89abAB]..)\\u[dD][c-fC-F]"


def escapes_are_whole(text: str) -> str:
    """SQL: whether all escapes in a text of JSON are whole characters."""
    halves = rf"(contains({text}, r'\ud') OR contains({text}, r'\uD'))"
    # Java looks for a single character faster than Spark does for two.
    no_escapes = rf"size(split({text}, r'\\', 2)) = 1 OR NOT contains({text}, r'\u')"
    return rf"({no_escapes} OR NOT ({halves} AND replace({text}, r'\\', '__') RLIKE r'{_LONE_HALF}'))"


TEXT_SOUND: Final = f"{is_utf8(names.VALUE)} AND {escapes_are_whole(TEXT)}"
"""SQL: whether a value's bytes are text, and all its escapes whole characters; null for no value."""


SOUND: Final = "__text_sound AND __corrupt IS NULL AND __last = 1"
"""SQL over ``parsed`` rows: whether the value is one JSON object and nothing else; may be null."""

OURS: Final = ("__document", "__text_sound", "__last", "__corrupt")
"""The columns that ``parsed`` adds besides the fields."""


def parsed(rows: DataFrame, fields: StructType, called: list[str]) -> DataFrame:
    """``rows`` with the fields of their JSON objects, in one parse, and the columns ``OURS``.

    ``inline(array(...))`` keeps Spark from evaluating the parse once for each column that is later taken out of it.

    Args:
        rows: Has ``__value``.
        fields: What is read of the object, by types that the parser takes strictly.
        called: The columns that the fields become, in their order.
    """
    document = _parse(fields)
    return _prepared(rows).select("*", F.inline(F.array(document)).alias(*called, "__last", "__corrupt"))


def in_one_column(rows: DataFrame, fields: StructType) -> DataFrame:
    """The same in a form that one expression can go on with: ``__value``, ``__text_sound`` and ``__documents``.

    ``__documents`` is an array of the one document, a struct of its fields as c0, c1, ..., ``last`` and ``corrupt``.
    """
    called = [f"c{place}" for place in range(len(fields))]
    parsed_as = [*(field.dataType for field in fields), IntegerType(), StringType()]
    renamed = [StructField(name, kind) for name, kind in zip([*called, "last", "corrupt"], parsed_as, strict=True)]
    documents = F.array(_parse(fields).cast(StructType(renamed))).alias("__documents")
    return _prepared(rows).select(names.VALUE, "__text_sound", documents)


def _prepared(rows: DataFrame) -> DataFrame:
    """What can be said of the bytes is said before Spark's parser, which no code is generated for."""
    document = f"{_with_last(unguessable_key())} AS __document"
    return rows.selectExpr("*", document, f"{TEXT_SOUND} AS __text_sound")


def _parse(fields: StructType) -> Column:
    key = unguessable_key()
    corrupt = f"{key}c"
    extra = [StructField(key, IntegerType()), StructField(corrupt, StringType())]
    return F.from_json(F.col("__document"), StructType([*fields.fields, *extra]), options(corrupt))


def options(corrupt: str) -> dict[str, str]:
    """The parser's options under which nothing but JSON is taken; a document with an error goes to ``corrupt``."""
    return {
        "mode": "PERMISSIVE",
        "columnNameOfCorruptRecord": corrupt,
        "allowSingleQuotes": "false",
        "allowNonNumericNumbers": "false",
        "maxNestingDepth": str(json_limits.MAX_DEPTH),
    }


@functools.cache
def unguessable_key() -> str:
    """One key for the process: with a new key for each batch, Spark would compile the code of each batch again."""
    return f"{names.PROCESS_PREFIX}{secrets.token_hex(5)}"


def _with_last(key: str) -> str:
    """SQL of the value's text with the key as its last field; null if it does not end in a brace.

    Only an empty object has no quotes; its first field gets no comma.
    """
    field = f"CASE WHEN contains({TEXT}, '\"') THEN ',\"{key}\":1}}' ELSE '\"{key}\":1}}' END"

    def cut(binary: str) -> str:
        return f"concat(CAST(substring({binary}, 1, octet_length({binary}) - 1) AS STRING), {field})"

    trimmed = f"rtrim(' \t\r\n', {TEXT})"
    return (
        f"CASE WHEN endswith({TEXT}, '}}') THEN {cut(names.VALUE)} "
        f"WHEN endswith({trimmed}, '}}') THEN {cut(f'CAST({trimmed} AS BINARY)')} END"
    )
