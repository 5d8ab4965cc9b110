"""The fields of a message, each made of the column of its name. Pure but for Spark's types."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import did_you_mean, quoted
from rivermouth.schemas.column_types import nullable
from rivermouth.schemas.refused import SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import Column

_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DIGITS: Final = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}
_MARK: Final = "RIVERMOUTH_NOT_WRITABLE|"
_END: Final = "|"
# Of Spark's to_avro; the value comes next.
_OF_SPARK: Final = re.compile(r"Cannot convert SQL (top-level record|field '[^'\n]*') to Avro [^\n]*? because [\"0-9]")


def values(fields: T.StructType, there: T.StructType) -> dict[str, Column]:
    """The values of ``fields``, each of the column of its name, by the names.

    Args:
        fields: What the message has.
        there: The columns of a row.

    Raises:
        SchemaRefused: A field has no column, or one whose values it cannot take.
    """
    return {each.name: _field(each, there) for each in fields}


def message(found: Mapping[str, Column]) -> Column:
    """A struct of ``values``."""
    return F.struct(*(each.alias(name) for name, each in found.items()))


def _field(field: T.StructField, there: T.StructType) -> Column:
    if field.name not in there.names:
        fix = did_you_mean(field.name, there.names)
        raise SchemaRefused(f"the schema has a field {field.name!r}, and there is no such column", fix)
    wanted, found = nullable(field.dataType), nullable(there[field.name].dataType)
    column = F.col(quoted(field.name))
    if wanted == found:
        return column
    if not _is_wider(wanted, found):
        kinds = f"{wanted.simpleString()}, and the column is {found.simpleString()}"
        fix = f"CAST({field.name} AS {wanted.simpleString()})"
        raise SchemaRefused(f"the field {field.name!r} is {kinds}", fix)
    return column.cast(wanted)


def unless(why: Column | None, value: Column) -> Column:
    """A value; where there is a reason against it, a string, the job ends with it (``unwritable``)."""
    if why is None:
        return value
    return F.when(why.isNotNull(), F.raise_error(F.concat(F.lit(_MARK), why, F.lit(_END)))).otherwise(value)


def marked(why: str) -> str:
    """The message of an error that ends a Spark job because of a row; ``unwritable`` reads it."""
    return f"{_MARK}{why}{_END}"


def unwritable(error_text: str) -> str | None:
    """Why a row cannot be a value, of the text of the error that ended a Spark job; None of other errors."""
    _, found, rest = error_text.partition(_MARK)
    if found:
        return rest.partition(_END)[0]
    refused = _OF_SPARK.search(error_text)
    return None if refused is None else f"to_avro cannot write {refused[1]} by its schema"


def _is_wider(wanted: T.DataType, found: T.DataType) -> bool:
    """Whether each value of one type is one of the other too."""
    match wanted, found:
        case T.DecimalType(), T.DecimalType():
            whole = wanted.precision - wanted.scale >= found.precision - found.scale
            return whole and wanted.scale >= found.scale
        case T.DecimalType(), _ if isinstance(found, _WHOLE):
            return wanted.precision - wanted.scale >= _DIGITS[type(found)]
        case T.DoubleType(), T.FloatType():
            return True
    both = isinstance(wanted, _WHOLE) and isinstance(found, _WHOLE)
    return both and _WHOLE.index(type(wanted)) > _WHOLE.index(type(found))
