"""Maps of texts that come as an object, or as the JSON text of one: Debezium sends Postgres' hstore as text by default.

https://debezium.io/documentation/reference/stable/connectors/postgresql.html#postgresql-property-hstore-handling-mode

Such a column is read as a string, which the JSON text of an object becomes too, and parsed once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.json import json_fast_path, json_spark_parser, json_types

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_CORRUPT: Final = "corrupt"


def with_map(rows: DataFrame, read: str, declared: T.DataType, called: str) -> DataFrame:
    """``rows`` with the map that a text is the JSON object of; null where it is not one whole object.

    Args:
        rows: Has ``read``.
        read: SQL of the text.
        declared: The type of the map.
        called: The name of the new column; columns whose names begin with it are added too.
    """
    # What follows the object in the text ends up outside of the array, or in front of its last element.
    key, sent, parsed = json_spark_parser.unguessable_key(), f"{called}_sent", f"{called}_parsed"
    whole = f"""concat('{{"{key}":[', {read}, ',{{"{key}":"1"}}]}}')"""
    fields = T.StructType([T.StructField(key, T.ArrayType(json_types.read_as(declared)))])
    is_object = f"{read} RLIKE '^[ \\t\\r\\n]*[{{]' AND {json_spark_parser.escapes_are_whole(read)}"
    spark, text = rows.sparkSession, f"CAST(CASE WHEN {is_object} THEN {whole} END AS BINARY) AS {sent}"
    rows = rows.selectExpr("*", text)
    kept = json_fast_path.texts_kept(spark, fields, sent)
    document = T.StructType([*fields, T.StructField(_CORRUPT, T.StringType())])
    # In an array, or Spark would parse once for each use.
    found = F.from_json(kept.cast("string"), document, json_spark_parser.options(_CORRUPT))
    rows = rows.select("*", F.inline(F.array(found)).alias(f"{parsed}_all", f"{parsed}_{_CORRUPT}"))
    last = f"get({parsed}_all, 1)"
    is_whole = f"{parsed}_{_CORRUPT} IS NULL AND size({parsed}_all) = 2 AND {last}['{key}'] = '1' AND size({last}) = 1"
    first = json_types.convert(f"get({parsed}_all, 0)", declared)
    return rows.selectExpr("*", f"CASE WHEN {is_whole} THEN {first} END AS {called}")
