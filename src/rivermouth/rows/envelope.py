"""The envelope: a Kafka record with its coordinates, before and after its value became columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.decoding.json.utf8 import is_utf8
from rivermouth.decoding.wrapped import unwrap
from rivermouth.domain.ledger.offset_ranges import Ranges, flat, size
from rivermouth.schemas import type_limits
from rivermouth.spec import EvolvingFormat, require_capability

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow

SOURCE_COLUMNS = {
    "topic": names.TOPIC,
    "partition": names.PARTITION,
    "offset": names.OFFSET,
    "timestamp": names.TIMESTAMP,
    "timestampType": names.TIMESTAMP_TYPE,
    "headers": names.HEADERS,
    "key": names.KEY,
    "value": names.VALUE,
}
"""The columns of Spark's Kafka source, and what they are called in the envelope."""

# So many offsets are worth a task; and so many partitions, one after the other, are soon fetched.
_TASK_OFFSETS: Final = 1_000
_TASK_PARTITIONS: Final = 8
_LOOK: Final = "RIVERMOUTH_SCHEMA_NEEDS_A_LOOK"

# 1582-10-15: Spark's Kafka source moves earlier timestamps by days, to where the Julian calendar had them.
_FIRST_US: Final = -12_219_292_800_000_000
_IN_RANGE: Final = f"BETWEEN timestamp_micros({_FIRST_US}) AND timestamp_micros({type_limits.LAST_US})"
TIMESTAMP_OUT_OF_RANGE: Final = f"coalesce({names.TIMESTAMP} NOT {_IN_RANGE}, false)"
"""SQL over envelope rows, never null: whether Kafka's timestamp is before 1582-10-15, or after the year 9999."""
OUT_OF_RANGE: Final = f"timestamp_micros({type_limits.LAST_US + 1})"
"""SQL of a timestamp that stands for any that is out of range."""


def read(batch: DataFrame, within: Ranges | None = None, beside: Sequence[str] = ()) -> DataFrame:
    """The records of a frame of Spark's Kafka source as envelope rows.

    Args:
        batch: The columns of the Kafka source; ``headers`` may be missing.
        within: Keep only these offsets; None keeps all.
        beside: Further columns of ``batch`` that stay as they are.

    Returns:
        The columns ``names.ENVELOPE``: ``__topic`` string, ``__partition`` int, ``__offset`` bigint,
        ``__timestamp`` timestamp, ``__timestamp_type`` int, ``__headers`` array of (key, value) or null,
        ``__key`` and ``__value`` binary.
    """
    missing = SOURCE_COLUMNS.keys() - set(batch.columns)
    nothing = "CAST(NULL AS array<struct<key:string,value:binary>>)"
    rows = batch.selectExpr(
        *(f"{nothing if source in missing else source} AS {target}" for source, target in SOURCE_COLUMNS.items()),
        *beside,
    )
    return rows if within is None else rows.where(inside(within))


def coalesce_small_batch(rows: DataFrame, ranges: Ranges, flow: Flow) -> DataFrame:
    """The same rows in fewer tasks, and so in fewer files, where the batch is small.

    Spark makes a task of each Kafka partition, which costs some 40 ms of CPU however few its records are. A flow
    that says itself into how many tasks its batches go (``min_partitions``) is left alone.

    Args:
        rows: A frame of ``ranges``.
        ranges: The offsets of the batch.
        flow: Its flow.
    """
    if flow.trigger.min_partitions:
        return rows
    return coalesced(rows, size(ranges), len(list(flat(ranges))))


def coalesced(rows: DataFrame, offsets: int, partitions: int) -> DataFrame:
    """The same rows in as many tasks as so many offsets of so many Kafka partitions are worth."""
    tasks = max(-(-offsets // _TASK_OFFSETS), -(-partitions // _TASK_PARTITIONS))
    return rows.coalesce(tasks) if tasks < partitions else rows


def decode(rows: DataFrame, flow: Flow) -> DataFrame:
    """Values to columns by the flow's format; keys are checked where they become text.

    Returns:
        ``rows`` with ``__data`` (struct of the payload), ``__decoded`` (boolean, never null; true for a null
        value) and ``__key_valid`` (boolean, never null), false also where the table shall hold Kafka's timestamp and
        cannot; with ``__key_data`` where keys become columns. Wrapped values are unwrapped from here on, and two
        columns stand beside them that ``wrapping`` knows.
    """
    if flow.wraps:
        decoded = unwrap.refused(flow.value_format.decode(unwrap.unwrapped(rows, flow)))
    else:
        decoded = flow.value_format.decode(rows)
    if flow.change_envelope and flow.keyed is not None:
        # All that a deletion needs is its key: what does not fit is null, and no key then.
        spared = f"{names.OPERATION} = '{names.DELETION}' AND startswith({names.MISFIT}, 'FIELD_')"
        taken = f"{names.DECODED} OR coalesce({spared}, false) AS {names.DECODED}"
        decoded = decoded.selectExpr(f"* EXCEPT ({names.DECODED})", taken)
    if flow.key_columns is not None:
        read = record_keys.decode(decoded, flow.key_columns)
        if not stores_timestamp(flow):
            return read
        valid = f"{names.KEY_VALID} AND NOT {TIMESTAMP_OUT_OF_RANGE} AS {names.KEY_VALID}"
        return read.selectExpr(f"* EXCEPT ({names.KEY_VALID})", valid)
    parts = [f"NOT {TIMESTAMP_OUT_OF_RANGE}"] if stores_timestamp(flow) else []
    if flow.key_as_text and "kafka_key" in flow.metadata_columns:
        parts.append(f"coalesce({is_utf8(names.KEY)}, true)")
    return decoded.selectExpr("*", f"{' AND '.join(parts) or 'true'} AS {names.KEY_VALID}")


def stores_timestamp(flow: Flow) -> bool:
    """Whether the flow's table has Kafka's timestamp, so that one that no reader can read is refused."""
    return "kafka_timestamp" in flow.metadata_columns


def explain(rows: DataFrame, flow: Flow) -> DataFrame:
    """Decoded rows with ``__reason``, ``__field`` and ``__message`` (strings): why those are refused that are.

    Their values are as they were sent.
    """
    explained = flow.value_format.explain(rows)
    if flow.key_columns is not None:
        explained = record_keys.explain(explained, flow.key_columns)
    return unwrap.wrapped_again(explained) if flow.wraps else explained


def watch(rows: DataFrame, flow: Flow) -> DataFrame:
    """Decoded rows; the Spark job ends at one that the flow's policies for its schema say more about.

    ``needs_look`` reads its error.
    """
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark

    rest = [name for name in rows.columns if name != names.DECODED]
    stop = F.raise_error(F.lit(_LOOK)).cast("boolean")
    suspect = require_capability(flow.value_format, EvolvingFormat).rows_to_inspect(rows.sparkSession)
    return rows.select(*rest, F.when(suspect, stop).otherwise(F.col(names.DECODED)).alias(names.DECODED))


def needs_look(error_text: str) -> bool:
    """Whether a Spark job ended by ``watch``."""
    return _LOOK in error_text


def inside(ranges: Ranges) -> str:
    """SQL: whether a row with ``__topic``, ``__partition`` and ``__offset`` lies in one of ``ranges``."""
    parts = [
        f"({names.TOPIC} = {names.literal(topic)} AND {names.PARTITION} = {partition}"
        f" AND {names.OFFSET} >= {start} AND {names.OFFSET} < {end})"
        for topic, partition, start, end in flat(ranges)
    ]
    return " OR ".join(parts) or "false"
