"""Values that are compressed one by one: as they were before, while their format reads them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.rows import our_classes

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.spec.compression import Compression

_SENT: Final = "__sent_value"
_EXPANDED: Final = "__expanded"


def expanded(rows: DataFrame, compression: Compression) -> DataFrame:
    """Envelope rows with ``__value`` as it was before it was compressed; null where it cannot be expanded.

    Two columns are added until ``compressed_again``: the value as it was sent, and what is wrong with it.

    Raises:
        ValueError: The session lacks our classes; the text says what to do.
    """
    step = our_classes.step(rows.sparkSession, names.VALUE, "values.Expander", compression.type, compression.max_bytes)
    rest = [name for name in rows.columns if name != names.VALUE]
    return rows.withColumn(_EXPANDED, step).selectExpr(
        *rest, f"{names.VALUE} AS {_SENT}", f"{_EXPANDED}.made AS {names.VALUE}", _EXPANDED
    )


def decoded_again(decoded: DataFrame) -> DataFrame:
    """Rows that a format has decoded, with ``__value`` as it was sent; what could not be expanded is refused."""
    refused = f"{_EXPANDED}.reason IS NOT NULL"
    return decoded.selectExpr(
        f"* EXCEPT ({names.VALUE}, {_SENT}, {_EXPANDED}, {names.DECODED})",
        f"{_SENT} AS {names.VALUE}",
        f"{names.DECODED} AND NOT {refused} AS {names.DECODED}",
    )


def explained_again(explained: DataFrame) -> DataFrame:
    """Rows that a format has explained, with ``__value`` as it was sent, and the reason of what was not expanded."""
    told = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
    return explained.selectExpr(
        f"* EXCEPT ({names.VALUE}, {_SENT}, {_EXPANDED}, {', '.join(told)})",
        f"{_SENT} AS {names.VALUE}",
        *(f"IF({_EXPANDED}.reason IS NULL, {name}, {_EXPANDED}.{part}) AS {name}" for name, part in told.items()),
    )
