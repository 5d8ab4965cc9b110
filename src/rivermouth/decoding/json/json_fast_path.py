"""JSON by our reader in Spark's JVM, which asks Spark's parser about the documents that it is not sure of."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from pyspark.sql import DataFrame
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it
from pyspark.sql.classic.column import Column as ClassicColumn

from rivermouth import names
from rivermouth.decoding.json import json_spark_columns
from rivermouth.decoding.json.json_types import with_floats_of_rows
from rivermouth.decoding.jvm import jvm_classes
from rivermouth.decoding.jvm.java_objects import java_frame, java_session
from rivermouth.decoding.times.json_times import TimeByForm
from rivermouth.schemas import column_types

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession

    from rivermouth.decoding.json.undeclared_fields import Exact


def row(spark: SparkSession, declared: T.StructType, exact: Exact) -> Column | None:
    """A struct of the columns of the documents in ``__value``, c0, c1, ..., ``others`` and ``named``.

    Null for what is refused. ``others`` is false where a document surely has no field that is not declared, ``named``
    where it has none that is.
    None where a column has a form of time that only Spark reads.
    ``exact`` is as of ``undeclared_fields.exact_tree``.
    """
    if _has_form(declared):
        return None
    return ClassicColumn(reader(spark, declared, exact).of(names.VALUE))


def reader(spark: SparkSession, declared: T.StructType, exact: Exact) -> Any:
    """Our reader (a ``json.FastPath``) of documents with these columns."""
    read = _in_documents(declared)
    utc = spark.conf.get("spark.sql.session.timeZone") == "UTC"
    values = jvm_classes.found(spark, "internals.plan.OnDemand").values(java_session(spark), names.VALUE)
    others = json_spark_columns.in_one_column(DataFrame(values, spark), declared)
    return jvm_classes.made(spark, "json.FastPath", read.json(), utc, json.dumps(exact), java_frame(others))


def kept(spark: SparkSession, declared: T.StructType, of: str) -> Column:
    """The documents of a binary column, with strings where a text column's value is none: JSON text of what was sent.

    So are values of VARIANT columns, or empty ones where no VARIANT holds them.
    """
    kinds = _only(_in_documents(declared), (T.StringType, T.VariantType))
    return ClassicColumn(jvm_classes.made(spark, "json.TextPreserver", kinds.json()).of(of))


def texts_kept(spark: SparkSession, read: T.StructType, of: str) -> Column:
    """As ``kept``, of texts alone, by the types as which fields are read.

    Where a decimal is read of a number, one that a variant would round is an empty object.
    """
    kinds = _only(read, (T.StringType, T.DecimalType))
    return ClassicColumn(jvm_classes.made(spark, "json.TextPreserver", kinds.json()).of(of))


def kept_type(declared: T.DataType, read: T.DataType) -> T.DataType:
    """``read``, by which a declared type is read, with decimals in the place of the variants that become decimals."""
    match declared, read:
        case T.StructType(), T.StructType():
            pairs = zip(declared.fields, read.fields, strict=True)
            return T.StructType([T.StructField(one.name, kept_type(one.dataType, of.dataType)) for one, of in pairs])
        case T.ArrayType(), T.ArrayType():
            return T.ArrayType(kept_type(declared.elementType, read.elementType))
        case T.MapType(), T.MapType():
            return T.MapType(T.StringType(), kept_type(declared.valueType, read.valueType))
        case T.DecimalType(), T.VariantType():
            return declared
    return read


def elements(spark: SparkSession, of: str) -> Column:
    """The elements of the JSON arrays of a binary column, an array of binary; as ``Format.elements`` says."""
    return ClassicColumn(jvm_classes.made(spark, "json.Elements").of(of))


def objects(spark: SparkSession, of: str) -> Column:
    """As ``elements``; null also of arrays with anything but JSON objects in them."""
    return ClassicColumn(jvm_classes.made(spark, "json.Elements").ofObjects(of))


def _only(declared: T.DataType, kinds: tuple[type[T.DataType], ...]) -> T.DataType:
    """A type with those leaves that are of some kinds; the others are of one that Java knows and passes over."""
    match declared:
        case T.StructType():
            return T.StructType([T.StructField(each.name, _only(each.dataType, kinds)) for each in declared.fields])
        case T.ArrayType():
            return T.ArrayType(_only(declared.elementType, kinds))
        case T.MapType():
            return T.MapType(T.StringType(), _only(declared.valueType, kinds))
    return declared if isinstance(declared, kinds) else T.BooleanType()


def _in_documents(declared: T.StructType) -> T.StructType:
    """The schema with the names that fields have in the documents, and its own types."""
    kinds = with_floats_of_rows(declared, back=True)
    fields = (T.StructField(column_types.name_in_json(each), each.dataType, each.nullable) for each in kinds.fields)
    return T.StructType([*fields])


def _has_form(declared: T.DataType) -> bool:
    match declared:
        case T.StructType():
            return any(_has_form(each.dataType) for each in declared.fields)
        case T.ArrayType():
            return _has_form(declared.elementType)
        case T.MapType():
            return _has_form(declared.valueType)
    return isinstance(declared, TimeByForm)
