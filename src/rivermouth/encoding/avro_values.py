"""Columns as Avro records, by Spark's own ``to_avro``; with Confluent's framing where a registry has the schema."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.avro.functions import to_avro

from rivermouth.decoding.avro import avro_document
from rivermouth.encoding import avro_misfits, fields
from rivermouth.encoding.framing import frame
from rivermouth.schemas.refused import SchemaRefused

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


_REFUSAL: Final = re.compile(r"Cannot convert SQL .*|schema is incompatible .*")


def encoded(
    spark: SparkSession, schema: str, there: T.StructType, schema_id: int | None, *, check: bool = True
) -> Column:
    """The record of a row, binary; a row that cannot be one ends the job (``fields.unwritable``).

    Args:
        spark: Any session.
        schema: Text of the record's schema.
        there: The columns of a row.
        schema_id: The id of the schema in its registry, for Confluent's framing; None for a plain record.
        check: Whether Spark is asked if it can write the columns, which is a small job.

    Raises:
        ValueError: The schema is none, or not one of these columns; the text says why.
    """
    columns, document = avro_document.columns(spark, schema), json.loads(schema)
    values = fields.values(columns, there)
    if check:
        _check(spark, schema, columns)
    record = fields.unless(avro_misfits.misfit(document, columns, values), fields.message(values))
    value = to_avro(record, schema)
    return value if schema_id is None else F.concat(F.lit(frame(schema_id)), value)


def _check(spark: SparkSession, schema: str, columns: T.StructType) -> None:
    """Makes Spark hold the columns against the schema, which it does with the first row.

    Raises:
        SchemaRefused: It refuses them.
    """
    # Spark compares the columns with the schema when it writes the first row.
    values = (F.lit(None).cast(each.dataType).alias(each.name) for each in columns)
    try:
        spark.range(1).select(to_avro(F.struct(*values), schema)).first()
    except (PySparkException, Py4JJavaError) as error:
        # Other errors are of the nulls, and rows may have none.
        found = _REFUSAL.search(str(error))
        if found is not None:
            detail = f"Spark cannot write the columns by the schema ({found[0]})"
            raise SchemaRefused(detail, "change the schema of the sink") from error
