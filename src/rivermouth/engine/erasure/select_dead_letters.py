"""The dead letters that an erasure takes along: by a condition, by their Kafka key, or with their record."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import BinaryType

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.engine.batch.pipeline import (
    table_coordinates,
    with_epoch,
)
from rivermouth.engine.erasure.erasure_conditions import MET, OWN, RECORD, meets, of_keys
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows.dead_letter import COLUMNS as LETTER_COLUMNS
from rivermouth.side_tables.erased_records import CHANGE, COORDINATES, DEAD_LETTERS, ELSEWHERE, PLACE

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.ledger.erasure import ForgetRequest
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.rows.keyed.change_order import ChangeOrder
    from rivermouth.side_tables.dead_letters import DeadLetterTable
    from rivermouth.spec import Flow

_WENT_ON: Final = "__went_on"
_READ_AGAIN: Final = ("rewind", "rebuild")
_KAFKA_KEY: Final = "kafka_key"
_SAME_KEY: Final = "__same_key"


@dataclass(frozen=True, slots=True)
class _KafkaKeys:
    """Kafka keys of rows, as ``__same_key``.

    Attributes:
        own: Those that only erased rows have. A key that other rows have too, such as a country, identifies no person.
        shared: How many others the erased rows have.
        staying: Those of rows that stay.
    """

    own: DataFrame
    shared: int
    staying: DataFrame


def kafka_keys(
    dead_letters: DeadLetterTable,
    flow: Flow,
    table: DataFrame,
    met: Column,
    matches: DataFrame,
    order: ChangeOrder | None,
) -> _KafkaKeys | None:
    """The Kafka keys of rows that go and that stay; None if rows do not have them, or there are no dead letters."""
    column = flow.metadata_columns.get(_KAFKA_KEY)
    if column is None or column not in table.columns or not dead_letters.exists():
        return None
    going = table.where(met) if order is None else of_keys(table, matches, order)
    if order is not None and column in order.keys:
        going = matches  # deleted ones too
    staying = table.where(~met) if order is None else of_keys(table, matches, order, "left_anti")
    mine, theirs = (_same_keys(flow, rows, column).distinct() for rows in (going, staying))
    own = mine.join(theirs, _SAME_KEY, "left_anti").localCheckpoint()
    return _KafkaKeys(own, mine.count() - own.count(), theirs)


def _same_keys(flow: Flow, rows: DataFrame, column: str) -> DataFrame:
    """``__same_key`` of rows with a key: what those of one key have alike in the table and in the dead letters."""
    key = F.col(names.quoted(column))
    if flow.key_columns is not None:
        same = _as_text(key)
    else:
        same = key if isinstance(rows.schema[column].dataType, BinaryType) else F.encode(key, "UTF-8")
    return rows.where(key.isNotNull()).select(same.alias(_SAME_KEY))


def _with_same_key(flow: Flow, letters: DataFrame) -> DataFrame:
    """Dead letters with ``__same_key``; null where there is no key, or where its format refuses it."""
    form = flow.key_columns
    if form is None:
        return letters.withColumn(_SAME_KEY, F.col(_KAFKA_KEY))
    decoded = record_keys.decode(
        letters.withColumns({names.KEY: F.col(_KAFKA_KEY), names.HEADERS: F.col("kafka_headers")}), form
    )
    return decoded.select(*letters.columns, _as_text(F.col(names.KEY_DATA)).alias(_SAME_KEY))


def _as_text(key: Column) -> Column:
    """A key of whatever type as text; of a null it is null. Structs with maps in them cannot be compared."""
    return F.when(key.isNotNull(), F.to_json(F.struct(key.alias("key"))))


def count_unchecked(dead_letters: DeadLetterTable, flow: Flow, chosen: DataFrame, keys: _KafkaKeys | None) -> int:
    """How many dead letters are not chosen, and have no Kafka key that rows which stay have too."""
    place = [*names.COORDINATES, "batch"]
    letters = _with_same_key(flow, dead_letters.frame().where("status <> 'replayed'")).select(*place, _SAME_KEY)
    rest = letters.join(chosen.withColumnsRenamed(names.IN_TABLE), place, "left_anti")
    return (rest if keys is None else rest.join(keys.staying, _SAME_KEY, "left_anti")).count()


def chosen_letters(run: FlowRun, request: ForgetRequest, keys: _KafkaKeys | None, gone: DataFrame) -> DataFrame | None:
    """Coordinates, place and batch of the dead letters that are meant; None where there are no dead letters."""
    if not run.dead_letters.exists():
        if request.dead_letters is not None:
            meets(run.context, no_rows(run.spark, LETTER_COLUMNS), "--dead-letters", request.dead_letters)
        return None
    letters = run.dead_letters.frame()
    letters = letters.withColumn(MET, meets(run.context, letters, "--dead-letters", request.dead_letters))
    if keys is not None:
        own = F.broadcast(keys.own.withColumn(OWN, F.lit(True)))
        mine = _with_same_key(run.flow, letters).join(own, _SAME_KEY, "left")
        letters = mine.withColumn(MET, F.col(MET) | F.coalesce(OWN, F.lit(False)))
    columns = [F.col(column).alias(name) for name, column in names.IN_TABLE.items()]
    columns.append(F.col("kafka_timestamp").alias(names.TIMESTAMP))
    found = with_epoch(run.entry, letters).select(*columns, names.EPOCH, "batch", "status", MET)
    # A letter of a record that goes goes with it, whatever its key.
    same = F.broadcast(gone.select(*COORDINATES).distinct().withColumn(OWN, F.lit(True)))
    found = found.join(same, [*COORDINATES], "left").where(F.col(MET) | F.coalesce(OWN, F.lit(False)))
    return _placed(run, found, gone).select(*RECORD, PLACE, "batch", F.lit(None).cast("int").alias(CHANGE))


def _placed(run: FlowRun, letters: DataFrame, gone: DataFrame) -> DataFrame:
    """With ``place``: a letter whose record is in the table, or was read again since, is not all that is left."""
    letters = letters.withColumn(_WENT_ON, went_on(run, names.TOPIC, names.PARTITION, names.OFFSET))
    if run.flow.keyed is not None:
        return letters.withColumn(PLACE, F.when(F.col(_WENT_ON), ELSEWHERE).otherwise(DEAD_LETTERS))
    few = F.broadcast(letters.select(*COORDINATES).distinct())
    rest = table_coordinates(run).join(few, [*COORDINATES], "left_semi").join(gone, [*COORDINATES], "left_anti")
    rest = rest.distinct().withColumn("__there", F.lit(True))
    place = F.when(F.col("__there") | F.col(_WENT_ON), ELSEWHERE).otherwise(DEAD_LETTERS)
    return letters.join(rest, [*COORDINATES], "left").withColumn(PLACE, place)


def went_on(run: FlowRun, topic: str, partition: str, offset: str) -> Column:
    """Whether a dead letter's record was taken again since: by a replay, or by a rewind, which gives letters up."""
    again = F.lit(False)
    for decision in run.entry.decisions:
        if decision.kind in _READ_AGAIN:
            moves = {p: (min(ends), max(ends)) for p, ends in decision.moves.items()}
            place = " OR ".join(
                f"({partition} = {p} AND {offset} >= {start} AND {offset} < {end})" for p, (start, end) in moves.items()
            )
            where = f"{topic} = {names.literal(decision.topic)} AND batch < {decision.entry} AND ({place or 'false'})"
            again |= F.expr(where)
    return (F.col("status") == "replayed") | ((F.col("status") == "discarded") & again)
