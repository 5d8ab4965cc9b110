"""Names of the fields that documents have and a schema does not declare, also within its structs."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.json import json_spark_parser
from rivermouth.decoding.json.undeclared_fields import fields_tree
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.schemas import column_types
from rivermouth.schemas.json_limits import SAMPLED
from rivermouth.spec.evolution import Evolution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_DOCUMENT: Final = "__document"


def has_nested(declared: T.StructType) -> bool:
    """Whether a column is, or has within it, a struct: within it fields may be undeclared too."""
    return any(_has_struct(each.dataType) for each in declared.fields)


def _has_struct(declared: T.DataType) -> bool:
    match declared:
        case T.StructType():
            return True
        case T.ArrayType():
            return _has_struct(declared.elementType)
        case T.MapType():
            return _has_struct(declared.valueType)
    return False


def of_documents(declared: T.StructType) -> str:
    """SQL over decoded rows: the names of a document's own fields that are not declared, of records in a sample.

    An array of strings; null for a record that is not in the sample, and for one without a value.
    """
    known = ", ".join(names.literal(column_types.name_in_json(field)) for field in declared.fields)
    extra = f"array_except(json_object_keys({json_spark_parser.TEXT}), array({known}))"
    return f"CASE WHEN {SAMPLED} AND {names.VALUE} IS NOT NULL THEN {extra} END"


def named(rows: DataFrame, declared: T.StructType, document: str = names.VALUE) -> DataFrame:
    """Rows with ``__undeclared``: as ``of_documents``, also with the fields within structs, as dotted paths.

    Args:
        rows: Envelope rows, decoded or not.
        declared: The schema.
        document: SQL of the JSON document that it describes: binary, null where a value has none.
    """
    tree = json.dumps(fields_tree(declared, Evolution(), frozenset()))
    found = jvm_classes.made(rows.sparkSession, "json.Undeclared", tree).named(_DOCUMENT)
    sampled = F.expr(f"{SAMPLED} AND {names.VALUE} IS NOT NULL")
    told = rows.withColumn(_DOCUMENT, F.expr(document))
    return told.withColumn(names.UNDECLARED, F.when(sampled, ClassicColumn(found))).drop(_DOCUMENT)
