"""The fields of a message, each made of the column of its name. Pure but for Spark's types."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.names import did_you_mean, quoted
from rivermouth.schemas.column_types import nullable
from rivermouth.schemas.refused import SchemaRefused

if TYPE_CHECKING:
    from collections.abc import Collection

    from pyspark.sql import Column

_WHOLE: Final = (T.ByteType, T.ShortType, T.IntegerType, T.LongType)
_DIGITS: Final = {T.ByteType: 3, T.ShortType: 5, T.IntegerType: 10, T.LongType: 19}
_MARK: Final = "RIVERMOUTH_NOT_WRITABLE|"


def message(fields: T.StructType, there: T.StructType, required: Collection[str] = ()) -> Column:
    """A struct of ``fields``, of the columns of the same names.

    Args:
        fields: What the message has.
        there: The columns of a row.
        required: The fields without which there is no message; a row that lacks one ends the job (``unwritable``).

    Raises:
        SchemaRefused: A field has no column, or one whose values it cannot take.
    """
    return F.struct(*(_field(each, there, required).alias(each.name) for each in fields))


def _field(field: T.StructField, there: T.StructType, required: Collection[str]) -> Column:
    if field.name not in there.names:
        fix = did_you_mean(field.name, there.names)
        raise SchemaRefused(f"the schema has a field {field.name!r}, and there is no such column", fix)
    wanted, found = nullable(field.dataType), nullable(there[field.name].dataType)
    column = F.col(quoted(field.name))
    if wanted != found:
        if not _is_wider(wanted, found):
            kinds = f"{wanted.simpleString()}, and the column is {found.simpleString()}"
            fix = f"CAST({field.name} AS {wanted.simpleString()})"
            raise SchemaRefused(f"the field {field.name!r} is {kinds}", fix)
        column = column.cast(wanted)
    if field.name not in required:
        return column
    why = f"the schema has no null for field {field.name}, and a row has"
    return F.coalesce(column, F.raise_error(F.lit(marked(why))).cast(wanted))


def marked(why: str) -> str:
    """The message of an error that ends a Spark job because of a row; ``unwritable`` reads it."""
    return f"{_MARK}{why}|"


def unwritable(error_text: str) -> str | None:
    """Why a row cannot be a value, of the text of the error that ended a Spark job; None of other errors."""
    _, found, rest = error_text.partition(_MARK)
    return rest.partition("|")[0] if found else None


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
