"""What conditions choose to be erased: rows, dead letters, and the records that they were made of."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql.types import BinaryType

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.domain.ledger import offset_ranges
from rivermouth.engine.batch.pipeline import (
    as_coordinates,
    beginning_offsets,
    marked_changes,
    table_coordinates,
    table_order,
    table_rows,
    transformed,
    with_epoch,
    without_erased,
    without_fail_policies,
)
from rivermouth.errors import ForgetRefused, first_line
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.internals.expressions import columns_in, forbidden
from rivermouth.ports.internals.persisted import computed
from rivermouth.rows import envelope, routing
from rivermouth.rows.columns.epochs import epoch_now
from rivermouth.rows.dead_letter import COLUMNS as LETTER_COLUMNS
from rivermouth.side_tables import erased_records
from rivermouth.side_tables.erased_records import CHANGE, COORDINATES, DEAD_LETTERS, ELSEWHERE, PLACE, TABLE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import Column, DataFrame

    from rivermouth.domain.ledger.erasure import ForgetRequest
    from rivermouth.domain.ledger.offset_ranges import Ranges
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.rows.keyed.change_order import ChangeOrder

_APPEND_ONLY: Final = "delta.appendOnly"
_MET: Final = "__met"
_OWN: Final = "__own"
_WENT_ON: Final = "__went_on"
_READ_AGAIN: Final = ("rewind", "rebuild")
_KAFKA_KEY: Final = "kafka_key"
_SAME_KEY: Final = "__same_key"
_RECORD: Final = (*COORDINATES, names.TIMESTAMP)


@dataclass(frozen=True, slots=True)
class ErasureSelection:
    """What is to go, standing ready.

    Attributes:
        rows: How many rows of the table.
        matches: What these are found by: their coordinates, or the keys of a keyed table.
        remembered: How many rows of a keyed table's memory.
        shared: How many Kafka keys they have that rows which stay have too.
        records: What is erased: coordinates, ``place``, the ``batch`` of dead letters, and the ``change`` of a record
            that goes in part.
        dead_letters: How many dead letters.
        unjudged: How many dead letters stay of which no Kafka key tells whose they are.
        known: How many records, each as a whole.
        in_part: How many others, of which other changes stay.
        least: The least offset of the rows; None without any.
        greatest: The greatest.
    """

    rows: int
    matches: DataFrame
    remembered: int
    shared: int
    records: DataFrame
    dead_letters: int
    unjudged: int
    known: int
    in_part: int
    least: int | None
    greatest: int | None


def select_for_erasure(run: FlowRun, request: ForgetRequest, ends: ExitStack) -> ErasureSelection:
    """What the request's conditions choose, standing ready until ``ends`` closes.

    Raises:
        ForgetRefused: A condition is none, or the table's rows cannot be erased.
    """
    _check_table(run)
    table = run.spark.read.format("delta").load(run.places.table)
    met = _met(run, table, "--where", request.where)
    order, remembered, keys = table_order(run), 0, 0
    stamp = _stamp(run, table)
    if order is None:
        rows = table_coordinates(run, stamp, met.alias(_MET)).where(_MET).select(*_RECORD)
        gone, told = ends.enter_context(computed(rows, *_told_of_rows()))
        matches = gone.distinct()
    else:
        matches, found = ends.enter_context(computed(_keys(run, table.where(met), order, request.where)))
        rows = _of_keys(table_coordinates(run, stamp, *_key_columns(order)), matches, order).select(*_RECORD)
        gone, told = ends.enter_context(computed(rows, *_told_of_rows()))
        keys, remembered = found["rows"], _in_memory(run, matches, order)
    _check_coordinates(run, told["placeless"])
    of_keys = _kafka_keys(run, table, met, matches, order)
    records, held = gone.select(*_RECORD, *_as(TABLE)), None
    if order is not None and keys and (found_in_kafka := _held(run, matches, order)) is not None:
        held, _ = ends.enter_context(computed(found_in_kafka))
        records = held.unionByName(_not_held(run, records, held, matches, order))
    letters, unjudged = _letters(run, request, of_keys, records), 0
    if letters is not None:
        letters, _ = ends.enter_context(computed(letters))
        unjudged = 0 if request.dead_letters is not None else _unjudged(run, letters, of_keys)
    records = records if letters is None else records.unionByName(letters)
    ready, counts = ends.enter_context(computed(records.distinct(), _count_letters()))
    known, in_part = _counted(ready)
    return ErasureSelection(
        rows=told["rows"],
        matches=matches,
        remembered=remembered,
        shared=0 if of_keys is None else of_keys.shared,
        records=ready,
        dead_letters=counts["letters"],
        unjudged=unjudged,
        known=known,
        in_part=in_part,
        least=told["least"],
        greatest=told["greatest"],
    )


def _stamp(run: FlowRun, table: DataFrame) -> Column:
    """Kafka's timestamp of a row's record; null where the table has none."""
    column = run.flow.metadata_columns.get("kafka_timestamp")
    if column is None or column not in table.columns:
        return F.lit(None).cast("timestamp").alias(names.TIMESTAMP)
    return F.col(names.quoted(column)).alias(names.TIMESTAMP)


def _check_table(run: FlowRun) -> None:
    """Nothing, if rows of this table can be erased."""
    table = run.places.name
    properties = delta_snapshot.table_state(run.spark, run.places.table).properties
    if properties.get(_APPEND_ONLY, "").lower() == "true":
        fix = f"ALTER TABLE delta.{names.quoted(run.places.table)} UNSET TBLPROPERTIES ('{_APPEND_ONLY}')"
        raise ForgetRefused(table=table, detail=f"its property {_APPEND_ONLY} lets no row go", fix=fix)


def _check_coordinates(run: FlowRun, placeless: int) -> None:
    """Nothing, if every row says which record it is."""
    if not placeless:
        return
    detail = f"{placeless} of the rows have no coordinates, because another program wrote them"
    fix = f"delete these in Spark, then: rivermouth run {run.flow.name}, which says how it goes on"
    raise ForgetRefused(table=run.places.name, detail=detail, fix=fix)


def _met(run: FlowRun, frame: DataFrame, option: str, condition: str | None) -> Column:
    """Whether a row of ``frame`` is meant: never null."""
    if condition is None:
        return F.lit(False)
    fix = f"write a condition over {', '.join(frame.columns)}"
    try:
        # First: to analyse reflection is to load a class.
        if refused := forbidden(run.spark, condition):
            raise ForgetRefused(table=run.places.name, detail=f"{option}: {refused}", fix=fix)
        kind = frame.limit(0).selectExpr(f"(\n{condition}\n)").schema[0].dataType.simpleString()
    except PySparkException as error:
        detail = f"{option}: {first_line(error).rstrip(';')}"
        raise ForgetRefused(table=run.places.name, detail=detail, fix=fix) from error
    if kind != "boolean":
        raise ForgetRefused(table=run.places.name, detail=f"{option} is of type {kind}, not boolean", fix=fix)
    return F.coalesce(F.expr(f"(\n{condition}\n)"), F.lit(False))


def _told_of_rows() -> tuple[Column, ...]:
    missing = F.expr(" OR ".join(f"{name} IS NULL" for name in names.IN_TABLE))
    ends = F.min(names.OFFSET).alias("least"), F.max(names.OFFSET).alias("greatest")
    return (*ends, F.count_if(missing).alias("placeless"))


def _count_letters() -> Column:
    return F.count_if(F.col(PLACE) != TABLE).alias("letters")


def _counted(records: DataFrame) -> tuple[int, int]:
    """How many records go as a whole, and how many others in part."""
    gone = records.where(F.col(PLACE) != ELSEWHERE).groupBy(*COORDINATES)
    row = gone.agg(F.bool_or(F.col(CHANGE).isNull()).alias("whole"))
    found = row.agg(F.count_if("whole"), F.count_if(~F.col("whole"))).collect()[0]
    return found[0], found[1]


def _as(place: str, change: Column | None = None) -> tuple[Column, ...]:
    number = F.lit(None).cast("int") if change is None else change
    return F.lit(place).alias(PLACE), F.lit(None).cast("bigint").alias("batch"), number.alias(CHANGE)


def _key_columns(order: ChangeOrder) -> list[Column]:
    return [F.col(names.quoted(key)) for key in order.keys]


def _keys(run: FlowRun, meant: DataFrame, order: ChangeOrder, condition: str | None) -> DataFrame:
    """Keys of the rows that are meant, and of deleted ones if the condition is about nothing but keys."""
    keys = meant.select(*_key_columns(order))
    memory = run.tombstones
    known = {key.lower() for key in order.keys}
    about_keys = condition is not None and {name.lower() for name in columns_in(run.spark, condition)} <= known
    if memory is not None and about_keys and memory.exists():
        frame = memory.frame(run.spark, order)
        deleted = frame.where(f"NOT {names.TRUNCATE}").where(_met(run, frame, "--where", condition))
        keys = keys.unionByName(deleted.select(*_key_columns(order)))
    return keys.distinct()


def _of_keys(rows: DataFrame, keys: DataFrame, order: ChangeOrder, how: str = "left_semi") -> DataFrame:
    return rows.alias("t").join(keys.alias("s"), F.expr(order.same_key("t", "s")), how)


def _in_memory(run: FlowRun, keys: DataFrame, order: ChangeOrder) -> int:
    """How many rows the memory of a keyed table has of these keys."""
    memory = run.tombstones
    if memory is None or not memory.exists():
        return 0
    return _of_keys(memory.frame(run.spark, order).where(f"NOT {names.TRUNCATE}"), keys, order).count()


@dataclass(frozen=True, slots=True)
class _KafkaKeys:
    """Kafka keys of rows, as ``__same_key``.

    Attributes:
        own: Those that only rows which go have: a key that stands for a country says nothing about a person.
        shared: How many others they have.
        staying: Those of rows that stay.
    """

    own: DataFrame
    shared: int
    staying: DataFrame


def _kafka_keys(
    run: FlowRun, table: DataFrame, met: Column, matches: DataFrame, order: ChangeOrder | None
) -> _KafkaKeys | None:
    """The Kafka keys of rows that go and that stay; None if rows do not tell, or there are no dead letters."""
    column = run.flow.metadata_columns.get(_KAFKA_KEY)
    if column is None or column not in table.columns or not run.dead_letters.exists():
        return None
    going = table.where(met) if order is None else _of_keys(table, matches, order)
    if order is not None and column in order.keys:
        going = matches  # deleted ones too
    staying = table.where(~met) if order is None else _of_keys(table, matches, order, "left_anti")
    mine, theirs = (_same_keys(run, rows, column).distinct() for rows in (going, staying))
    own = mine.join(theirs, _SAME_KEY, "left_anti").localCheckpoint()
    return _KafkaKeys(own, mine.count() - own.count(), theirs)


def _same_keys(run: FlowRun, rows: DataFrame, column: str) -> DataFrame:
    """``__same_key`` of rows with a key: what those of one key have alike in the table and in the dead letters."""
    key = F.col(names.quoted(column))
    if run.flow.key_columns is not None:
        same = _as_text(key)
    else:
        same = key if isinstance(rows.schema[column].dataType, BinaryType) else F.encode(key, "UTF-8")
    return rows.where(key.isNotNull()).select(same.alias(_SAME_KEY))


def _with_same_key(run: FlowRun, letters: DataFrame) -> DataFrame:
    """Dead letters with ``__same_key``; null where there is no key, or where its format refuses it."""
    form = run.flow.key_columns
    if form is None:
        return letters.withColumn(_SAME_KEY, F.col(_KAFKA_KEY))
    decoded = record_keys.decode(
        letters.withColumns({names.KEY: F.col(_KAFKA_KEY), names.HEADERS: F.col("kafka_headers")}), form
    )
    return decoded.select(*letters.columns, _as_text(F.col(names.KEY_DATA)).alias(_SAME_KEY))


def _as_text(key: Column) -> Column:
    """A key of whatever type as text; of a null it is null. Structs with maps in them cannot be compared."""
    return F.when(key.isNotNull(), F.to_json(F.struct(key.alias("key"))))


def _unjudged(run: FlowRun, chosen: DataFrame, keys: _KafkaKeys | None) -> int:
    """How many dead letters are not chosen, and have no Kafka key that rows which stay have too."""
    place = [*names.COORDINATES, "batch"]
    letters = _with_same_key(run, run.dead_letters.frame().where("status <> 'replayed'")).select(*place, _SAME_KEY)
    rest = letters.join(chosen.withColumnsRenamed(names.IN_TABLE), place, "left_anti")
    return (rest if keys is None else rest.join(keys.staying, _SAME_KEY, "left_anti")).count()


def _letters(run: FlowRun, request: ForgetRequest, keys: _KafkaKeys | None, gone: DataFrame) -> DataFrame | None:
    """Coordinates, place and batch of the dead letters that are meant; None where there are no dead letters."""
    if not run.dead_letters.exists():
        if request.dead_letters is not None:
            _met(run, run.spark.createDataFrame([], LETTER_COLUMNS), "--dead-letters", request.dead_letters)
        return None
    letters = run.dead_letters.frame()
    letters = letters.withColumn(_MET, _met(run, letters, "--dead-letters", request.dead_letters))
    if keys is not None:
        own = F.broadcast(keys.own.withColumn(_OWN, F.lit(True)))
        mine = _with_same_key(run, letters).join(own, _SAME_KEY, "left")
        letters = mine.withColumn(_MET, F.col(_MET) | F.coalesce(_OWN, F.lit(False)))
    columns = [F.col(column).alias(name) for name, column in names.IN_TABLE.items()]
    columns.append(F.col("kafka_timestamp").alias(names.TIMESTAMP))
    found = with_epoch(run, letters).select(*columns, names.EPOCH, "batch", "status", _MET)
    # A letter of a record that goes goes with it, whatever its key.
    same = F.broadcast(gone.select(*COORDINATES).distinct().withColumn(_OWN, F.lit(True)))
    found = found.join(same, [*COORDINATES], "left").where(F.col(_MET) | F.coalesce(_OWN, F.lit(False)))
    return _placed(run, found, gone).select(*_RECORD, PLACE, "batch", F.lit(None).cast("int").alias(CHANGE))


def _placed(run: FlowRun, letters: DataFrame, gone: DataFrame) -> DataFrame:
    """With ``place``: a letter whose record is in the table, or was read again since, is not all that is left."""
    letters = letters.withColumn(_WENT_ON, _went_on(run, names.TOPIC, names.PARTITION, names.OFFSET))
    if run.flow.keyed is not None:
        return letters.withColumn(PLACE, F.when(F.col(_WENT_ON), ELSEWHERE).otherwise(DEAD_LETTERS))
    few = F.broadcast(letters.select(*COORDINATES).distinct())
    rest = table_coordinates(run).join(few, [*COORDINATES], "left_semi").join(gone, [*COORDINATES], "left_anti")
    rest = rest.distinct().withColumn("__there", F.lit(True))
    place = F.when(F.col("__there") | F.col(_WENT_ON), ELSEWHERE).otherwise(DEAD_LETTERS)
    return letters.join(rest, [*COORDINATES], "left").withColumn(PLACE, place)


def _went_on(run: FlowRun, topic: str, partition: str, offset: str) -> Column:
    """Whether a dead letter's record was taken again since: by a replay, or by a rewind, which gives letters up."""
    again = F.lit(False)
    for decision in run.position.entry.decisions:
        if decision.kind in _READ_AGAIN:
            moves = {p: (min(ends), max(ends)) for p, ends in decision.moves.items()}
            place = " OR ".join(
                f"({partition} = {p} AND {offset} >= {start} AND {offset} < {end})" for p, (start, end) in moves.items()
            )
            where = f"{topic} = {names.literal(decision.topic)} AND batch < {decision.entry} AND ({place or 'false'})"
            again |= F.expr(where)
    return (F.col("status") == "replayed") | ((F.col("status") == "discarded") & again)


def _not_held(run: FlowRun, records: DataFrame, held: DataFrame, keys: DataFrame, order: ChangeOrder) -> DataFrame:
    """Records of rows that go and of which ``held`` does not tell.

    Of one that has rows which stay nothing is kept: it is not held any more, and cannot be read again.
    """
    rest = records.join(held.select(*COORDINATES).distinct(), [*COORDINATES], "left_anti")
    if not run.flow.splits:
        return rest
    staying = _of_keys(table_coordinates(run, *_key_columns(order)), keys, order, "left_anti")
    return rest.join(staying.select(*COORDINATES).distinct(), [*COORDINATES], "left_anti")


def _held(run: FlowRun, keys: DataFrame, order: ChangeOrder) -> DataFrame | None:
    """The records of these keys that Kafka holds: of a keyed table only the newest of a key is a row.

    Those that are dead letters are left out. Where a record may be several changes, those of these keys, or the record
    as a whole if no other change of it is left.
    """
    ranges = _readable(run)
    if not ranges:
        return None
    source = run.source.with_headers(headers=run.flow.reads_headers)
    held = without_erased(envelope.read(source.batch(run.spark, ranges)), run, ranges)
    routed = transformed(held, without_fail_policies(run))
    marked = marked_changes(routed, run, ranges)
    routed = routed if marked is None else marked.where(~F.col(erased_records.IS_ERASED))
    rows = table_rows(routed.where(F.col(names.ROUTE) == routing.TABLE), run)
    columns = [*order.coordinates, F.col(names.quoted(order.timestamp)).alias(names.TIMESTAMP)]
    if run.flow.splits:
        found = _changes(rows, keys, order, columns)
    else:
        found = _of_keys(rows.where(~F.col(names.TRUNCATE)), keys, order).select(*columns, *_as(TABLE))
    now = epoch_now(run.position.entry, F.col(names.TOPIC), F.col(names.PARTITION))
    records = found.withColumn(names.EPOCH, now)
    if run.dead_letters.exists():
        letters = with_epoch(run, run.dead_letters.frame().where(~_went_on(run, *names.IN_TABLE.values())))
        records = records.join(as_coordinates(letters, names.EPOCH), [*COORDINATES], "left_anti")
    return records.select(*_RECORD, PLACE, "batch", CHANGE)


def _changes(rows: DataFrame, keys: DataFrame, order: ChangeOrder, columns: Sequence[Column]) -> DataFrame:
    """Of the records in ``rows`` the changes of these keys, or the record as a whole where there are no others."""
    mine = keys.withColumn(_OWN, F.lit(True)).alias("s")
    told = rows.alias("t").join(mine, F.expr(order.same_key("t", "s")), "left")
    own = F.coalesce(F.col(f"s.{_OWN}"), F.lit(False)) & ~F.col(f"t.{names.TRUNCATE}")
    parts = told.select("t.*", own.alias(_OWN)).select(*columns, names.ORDINAL, _OWN)
    found = parts.groupBy(*names.IN_TABLE, names.TIMESTAMP).agg(
        F.collect_set(F.when(F.col(_OWN), F.col(names.ORDINAL))).alias("__own_changes"),
        F.bool_and(_OWN).alias("__whole"),
    )
    change = F.when(F.col("__whole"), F.array(F.lit(None).cast("int"))).otherwise(F.col("__own_changes"))
    return found.select(*names.IN_TABLE, names.TIMESTAMP, *_as(TABLE, F.explode(change)))


def _readable(run: FlowRun) -> Ranges:
    """What Kafka still holds of what the flow has read."""
    read = run.position.entry.next_offsets
    return offset_ranges.between(beginning_offsets(run, read.keys()), read)
