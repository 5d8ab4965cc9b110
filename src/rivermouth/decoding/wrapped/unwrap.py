"""Values that are wrapped: as they are within, while their format reads them.

Compressed, behind a header, or with documents in strings of theirs.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.decoding.json import nested_documents
from rivermouth.decoding.registry import schema_headers

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.spec import Flow
    from rivermouth.spec.compression import Compression

HEADER_BYTES: Final = 5
"""A zero, and four bytes with the id of a schema: https://docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/index.html#wire-format"""
WRONG_MAGIC: Final = (
    "the value does not begin with a zero and the id of a schema, and no header __value_schema_id has one"
)

_PARTS: Final = ("reason", "field", "message")


def columns(flow: Flow) -> tuple[str, ...]:
    """Columns that rows have from ``unwrapped`` until ``wrapped_again``, for a flow whose values are wrapped."""
    return (names.SENT, names.WRAPPING) if flow.wraps else ()


def unwrapped(rows: DataFrame, flow: Flow) -> DataFrame:
    """Envelope rows with ``__value`` as it is within; null where it cannot be had.

    Args:
        rows: Envelope rows.
        flow: Says how its values are wrapped.

    Returns:
        ``rows`` with ``__sent_value``, the value as it was sent, and ``__wrapping``, a struct of ``reason``, ``field``
        and ``message`` (strings), which are null where nothing is wrong with it.
    """
    rest = [name for name in rows.columns if name != names.VALUE]
    rows = rows.selectExpr("*", f"{names.VALUE} AS {names.SENT}")
    steps = []
    for number, step in enumerate(_steps(rows, flow)):
        steps.append(f"__step_{number}")
        kept = [name for name in rows.columns if name != names.VALUE]
        rows = rows.withColumn(steps[-1], step).selectExpr(*kept, steps[-1], f"{steps[-1]}.made AS {names.VALUE}")
    told = (f"coalesce({', '.join(f'{step}.{part}' for step in steps)}) AS {part}" for part in _PARTS)
    return rows.selectExpr(*rest, names.SENT, names.VALUE, f"struct({', '.join(told)}) AS {names.WRAPPING}")


def refused(decoded: DataFrame) -> DataFrame:
    """Rows that a format has decoded; those whose value could not be had are not, and have an empty one: no null."""
    lost = f"{names.WRAPPING}.reason IS NOT NULL"
    return decoded.selectExpr(
        f"* EXCEPT ({names.VALUE}, {names.DECODED})",
        f"IF({lost}, X'', {names.VALUE}) AS {names.VALUE}",
        f"{names.DECODED} AND NOT {lost} AS {names.DECODED}",
    )


def wrapped_again(explained: DataFrame) -> DataFrame:
    """Rows that a format has explained, with ``__value`` as it was sent, and the reason of what could not be had."""
    told = {names.REASON: "reason", names.FIELD: "field", names.MESSAGE: "message"}
    sound = f"{names.WRAPPING}.reason IS NULL"
    return explained.selectExpr(
        f"* EXCEPT ({names.VALUE}, {names.SENT}, {names.WRAPPING}, {', '.join(told)})",
        f"{names.SENT} AS {names.VALUE}",
        *(f"IF({sound}, {name}, {names.WRAPPING}.{part}) AS {name}" for name, part in told.items()),
    )


def _steps(rows: DataFrame, flow: Flow) -> Iterator[Column]:
    """From the outside to the inside, each a struct of ``made``, ``reason``, ``field`` and ``message``."""
    if flow.compression is not None:
        yield _expanded(rows, flow.compression)
    if flow.has_schema_header:
        yield _without_header()
    if flow.string_documents:
        yield _opened(rows, flow.string_documents)


def _expanded(rows: DataFrame, compression: Compression) -> Column:
    from rivermouth.decoding.jvm import jvm_classes  # noqa: PLC0415 - status needs no Spark

    step = (compression.type, compression.max_bytes)
    return jvm_classes.step(rows.sparkSession, names.VALUE, "values.Expander", *step)


def _opened(rows: DataFrame, paths: Sequence[str]) -> Column:
    from rivermouth.decoding.jvm import jvm_classes  # noqa: PLC0415 - status needs no Spark

    where = json.dumps(nested_documents.tree(paths))
    return jvm_classes.step(rows.sparkSession, names.VALUE, "values.StringDocuments", where)


def _without_header() -> Column:
    """The document alone: a header of the record may have the id instead."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark

    there = f"length({names.VALUE}) >= {HEADER_BYTES} AND startswith({names.VALUE}, X'00')"
    alone = f"{schema_headers.found(schema_headers.OF_VALUES)} IS NOT NULL"
    wrong = f"NOT ({alone}) AND NOT ({there})"
    document = f"substring({names.VALUE}, {HEADER_BYTES + 1})"
    return F.expr(
        f"named_struct('made', CASE WHEN {alone} THEN {names.VALUE} WHEN {there} THEN {document} END, "
        f"'reason', IF({wrong}, 'WRONG_MAGIC', NULL), 'field', CAST(NULL AS STRING), "
        f"'message', IF({wrong}, {names.literal(WRONG_MAGIC)}, NULL))"
    )
