"""Changes of a keyed table: a record's key, its place in the order, whether it deletes; and who is newer of two."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.decoding import key_parts, record_keys
from rivermouth.decoding.json import json_types
from rivermouth.rows.columns import attempts
from rivermouth.rows.columns.table_columns import derived_columns, key_columns
from rivermouth.rows.keyed import snapshots
from rivermouth.rows.keyed.change_order import ChangeOrder
from rivermouth.schemas.type_limits import within
from rivermouth.spec import KeyFormat

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructType

    from rivermouth.spec import Flow

KEY_NULL: Final = "KEY_NULL"
SEQUENCE_NULL: Final = "SEQUENCE_NULL"
KEY_CHANGED: Final = "KEY_CHANGED"
MESSAGES: Final = {
    **snapshots.MESSAGES,
    KEY_NULL: "a part of its key is null",
    SEQUENCE_NULL: "its place in the order is null, not a number, or a time that is not in the years 1 to 9999",
    KEY_CHANGED: "it changes a key, and its format shows such a change only for its own key",
}

_TIMES: Final = (T.DateType, T.TimestampType, T.TimestampNTZType)
_FLOATS: Final = (T.FloatType, T.DoubleType)
_NESTED: Final = (T.StructType, T.ArrayType, T.MapType)

RECORDS: Final = "__records"
"""Of how many records a change is the newest."""

_DOCUMENT: Final = "__key_document"
_ROW, _TOMBSTONE, _BEFORE, _THERE, _OFFSET = "__row", "__tombstone", "__before", "__there", "__place"

HAS_TOMBSTONE: Final = f"{_TOMBSTONE} IS NOT NULL"
"""SQL: whether a row of ``by_partition`` has a tombstone whose sequence is that of what it follows."""


def with_changes(rows: DataFrame, flow: Flow) -> DataFrame:
    """Conformed rows with what each of them does to a keyed table; rows of other tables as they are.

    Adds ``__delete`` and ``__truncate`` (boolean, never null), ``__sequence`` (null for a tombstone, unless it is
    of Kafka's columns alone, and for all without ``sequence_by``) and ``__problem``: ``KEY_NULL``, ``SEQUENCE_NULL``,
    ``KEY_CHANGED`` or null. A tombstone gets those of its key columns that a value would have brought from Kafka's
    key, and so does a deletion that an envelope reports without them. Such a deletion without a sequence has the place
    of a tombstone, and so does one with made-up columns, unless metadata columns alone make its sequence.

    A sequence that throws is null. A condition that throws is not met, and the record is refused.
    """
    sink = flow.keyed
    if sink is None:
        return rows
    tombstone, columns = f"{names.VALUE} IS NULL", rows.columns
    # What Kafka says of each record it says of tombstones too.
    placed = {*sink.sequence_by} <= {
        name for column, name in flow.metadata_columns.items() if column not in names.CHANGE_METADATA_COLUMNS
    }
    deletion, truncation, skipped = (
        _is_operation(flow, each) for each in (names.DELETION, names.TRUNCATION, names.SKIP)
    )
    if sink.snapshots:
        truncation = snapshots.WHOLE
    rows = _with_keys_of_tombstones(rows, flow).selectExpr(
        "*",
        f"{tombstone} OR {deletion} OR {_is_true(sink.apply_as_deletes, columns)} AS {names.DELETE}",
        f"NOT ({tombstone}) AND ({truncation} OR {_is_true(sink.apply_as_truncates, columns)}) AS {names.TRUNCATE}",
        f"IF({tombstone} AND {not placed}, NULL, {sequence_sql(sink.sequence_by, columns)}) AS {names.SEQUENCE}",
    )
    conditions = {names.DELETE: "apply_as_deletes", names.TRUNCATE: "apply_as_truncates"}
    rows = attempts.instead(rows, [names.SEQUENCE])
    rows = attempts.marked(rows, conditions, f"{names.DECODED} AND NOT ({tombstone})", otherwise=False)
    if sink.sequence_by and (envelope := flow.change_envelope):
        is_told = envelope.whole_deletions or {*sink.sequence_by} <= {*flow.metadata_columns.values()}
        unplaced = F.expr(f"{deletion} AND {is_no_sequence(rows.schema) if is_told else 'true'}")
        rows = rows.withColumn(names.SEQUENCE, F.when(~unplaced, F.col(names.SEQUENCE)))
    if sink.versions:
        nothing = f"IF(false, {names.SEQUENCE}, NULL)"
        rows = rows.selectExpr("*", f"{names.SEQUENCE} AS {names.START_AT}", f"{nothing} AS {names.END_AT}")
    no_key = " OR ".join(f"{names.quoted(name)} IS NULL" for name in key_columns(flow))
    cases = f"WHEN {names.MISFIT} IS NOT NULL THEN {names.MISFIT} " if sink.snapshots else ""
    cases += f"WHEN NOT {names.TRUNCATE} AND ({no_key}) THEN '{KEY_NULL}'"
    if flow.change_envelope and not flow.splits and sink.keys:
        listed = ", ".join(map(names.literal, key_columns(flow)))
        cases += f" WHEN arrays_overlap({names.MOVED}, array({listed})) THEN '{KEY_CHANGED}'"
    if sink.sequence_by:
        cases += f" WHEN NOT ({tombstone} OR {deletion}) AND {is_no_sequence(rows.schema)} THEN '{SEQUENCE_NULL}'"
    return rows.selectExpr("*", f"CASE WHEN {skipped} THEN NULL {cases} END AS {names.PROBLEM}")


def _is_operation(flow: Flow, operation: str) -> str:
    """SQL, never null: whether the record's envelope tells that operation."""
    return f"coalesce({names.OPERATION} = '{operation}', false)" if flow.change_envelope else "false"


def _is_true(condition: str | None, columns: Collection[str]) -> str:
    return f"coalesce((\n{names.as_sql(condition, columns)}\n), false)" if condition else "false"


def sequence_sql(sequence_by: Sequence[str], columns: Collection[str]) -> str:
    """SQL of a record's place in the order: the expression, or a struct of several; a null without any.

    A part may be the name of one of ``columns`` that SQL takes in backticks only.
    """
    parts = [f"(\n{names.as_sql(text, columns)}\n)" for text in sequence_by]
    if len(parts) > 1:
        return f"struct({', '.join(f'{part} AS _{number}' for number, part in enumerate(parts, 1))})"
    return parts[0] if parts else "CAST(NULL AS BIGINT)"


def is_no_sequence(schema: StructType) -> str:
    """SQL: whether a sequence cannot be kept: it or a part of it is null, not a number, or a time out of range."""
    parts = list(_parts(names.SEQUENCE, schema[names.SEQUENCE].dataType))
    tests = [f"{name} IS NULL" for name, _ in parts]
    tests += [f"isnan({name})" for name, each in parts if isinstance(each, _FLOATS)]
    tests += [f"NOT ({within(name, each.simpleString())})" for name, each in parts if isinstance(each, _TIMES)]
    return f"({' OR '.join(tests)})"


def faults_of_sequences(kind: T.DataType) -> str:
    """What ``is_no_sequence`` finds in sequences of a type, in words: ``null or not a number``."""
    kinds = [each for _, each in _parts("", kind)]
    words = ["null"]
    words += ["not a number"] if any(isinstance(each, _FLOATS) for each in kinds) else []
    words += ["not in the years 1 to 9999"] if any(isinstance(each, _TIMES) for each in kinds) else []
    return " or ".join([", ".join(words[:-1]), words[-1]] if len(words) > 1 else words)


def _parts(sql: str, kind: T.DataType) -> Iterator[tuple[str, T.DataType]]:
    """What a sequence is made of, by its SQL: itself, or the fields of a struct."""
    if not isinstance(kind, T.StructType) or not kind.fields:
        yield sql, kind
        return
    for each in kind.fields:
        yield from _parts(f"{sql}.{names.quoted(each.name)}", each.dataType)


def keys_of_values(flow: Flow) -> list[str]:
    """The key columns that come from the value; that of a tombstone has them from elsewhere."""
    not_of_value = {*flow.metadata_columns.values(), *derived_columns(flow)}
    return [name for name in key_columns(flow) if name not in not_of_value]


def _with_keys_of_tombstones(rows: DataFrame, flow: Flow) -> DataFrame:
    """Key columns that come from the value are read from Kafka's key where there is no value.

    That key has columns of their names or is a JSON object with such fields or, where there is one such column, its
    value as text. A part that does not fit its column is null: rounded, it would be the key of another row.
    """
    wanted = keys_of_values(flow)
    if not wanted or flow.keyed is None or not flow.keyed.tombstones_delete:
        return rows
    if flow.key_columns is not None:
        return record_keys.with_columns_of_keys(rows, flow, wanted)
    form = flow.format.for_tombstone_keys() if isinstance(flow.format, KeyFormat) else None
    if form is not None:
        return record_keys.with_columns_of_tombstones(rows, form, wanted)
    types = {name: rows.schema[name].dataType for name in wanted}
    text, deletion = f"CAST({names.KEY} AS STRING)", _is_operation(flow, names.DELETION)
    if flow.change_envelope:
        text = f"coalesce({names.PRIMARY_KEY}, {text})"
    fields = ", ".join(
        f"{names.quoted(name)} {json_types.read_as(kind).simpleString()}" for name, kind in types.items()
    )
    absent = " OR ".join(f"{names.quoted(name)} IS NULL" for name in wanted)
    # Only these keys are parsed: of null, from_json makes null.
    key = f"IF({names.VALUE} IS NULL OR ({deletion} AND ({absent})), {text}, NULL)"
    rows = rows.withColumn(_DOCUMENT, F.expr(f"from_json({key}, {names.literal(fields)})"))
    found = {name: key_parts.of_json(f"{_DOCUMENT}.{names.quoted(name)}", kind) for name, kind in types.items()}
    if len(wanted) == 1 and not isinstance(types[wanted[0]], _NESTED):
        [(name, kind)] = types.items()
        found[name] = f"IF(startswith(ltrim({text}), '{{'), {found[name]}, {key_parts.of_text(text, kind)})"
    untold = {name: f"{names.VALUE} IS NULL OR ({deletion} AND {names.quoted(name)} IS NULL)" for name in found}
    return rows.withColumns(
        {name: F.expr(f"IF({untold[name]}, {sql}, {names.quoted(name)})") for name, sql in found.items()}
    ).drop(_DOCUMENT)


def by_partition(changes: DataFrame, order: ChangeOrder) -> DataFrame:
    """What is newest of each key in each partition, as far as the batch tells.

    A tombstone has no sequence: it has the place of the newest record of its key before it, so it is newer than all of
    them. Only what comes after the last one can be newer still; ``newest`` decides.

    Args:
        changes: The table's columns, and ``__delete`` and ``__sequence``; their keys are not null.
        order: Who is newer.

    Returns:
        A row for each key and partition: the key columns, ``__row``, the newest change after the last tombstone, or of
        all; ``__tombstone``, the last one; ``__before``, the greatest sequence before it; ``__records``, how many
        changes there were. The first three are null where there is nothing.
    """
    keys = [names.quoted(name) for name in order.keys]
    place = [names.quoted(name) for name in (order.topic, order.partition)]
    row = F.struct(*(F.col(names.quoted(name)) for name in changes.columns))
    several = names.ORDINAL in changes.columns
    # A record with several changes is one record.
    records = F.count_if(F.expr(f"{names.ORDINAL} = 0") if several else F.lit(True)).alias(RECORDS)
    place_of = f"struct({order.in_partition()}, {names.ORDINAL})" if several else order.in_partition()
    # Only dead letters that are tried again are of several epochs.
    changes, offset = changes.repartition(*keys).withColumn(_OFFSET, F.expr(place_of)), _OFFSET
    if order.sequence is None:
        nothing = (F.lit(None).cast("string").alias(name) for name in (_TOMBSTONE, _BEFORE))
        grouped = changes.groupBy(*keys, *place).agg(F.max_by(row, offset).alias(_ROW), records)
        return grouped.select(*keys, _ROW, *nothing, RECORDS)
    is_tombstone = F.expr(f"{names.DELETE} AND {names.SEQUENCE} IS NULL")
    last = F.max(F.when(is_tombstone, F.col(offset))).over(Window.partitionBy(*keys, *place))
    ordinal = [names.ORDINAL] if several else []
    marked = changes.select(row.alias(_ROW), *keys, *place, offset, names.SEQUENCE, *ordinal, last.alias("__last"))
    after = F.when(F.expr(f"__last IS NULL OR {offset} > __last"), F.struct(names.SEQUENCE, offset))
    found = marked.groupBy(*keys, *place).agg(
        F.max_by(_ROW, after).alias(_ROW),
        F.max_by(_ROW, F.when(F.expr(f"{offset} = __last"), F.col(offset))).alias(_TOMBSTONE),
        F.max(F.when(F.expr(f"{offset} < __last"), F.col(names.SEQUENCE))).alias(_BEFORE),
        records,
    )
    return found.select(*keys, _ROW, _TOMBSTONE, _BEFORE, RECORDS)


def followed(parts: DataFrame, table: DataFrame, order: ChangeOrder) -> DataFrame:
    """Rows of ``table`` whose keys have a tombstone in ``parts``: keys, coordinates, sequence as ``__there``."""
    keys = [names.quoted(name) for name in order.keys]
    wanted = F.broadcast(parts.where(HAS_TOMBSTONE).select(*keys).distinct()).alias("w")
    found = table.alias("t").join(wanted, F.expr(order.same_key("w", "t")), "left_semi")
    coordinates = [names.quoted(name) for name in order.columns if name not in order.keys]
    return found.select(*keys, *coordinates, F.col(names.quoted(order.sequence or "")).alias(_THERE))


def newest(parts: DataFrame, order: ChangeOrder, there: DataFrame | None = None) -> DataFrame:
    """The newest change of each key, with ``__records``: how many changes the batch has of it.

    Args:
        parts: As ``by_partition`` returns them.
        order: Who is newer.
        there: As ``followed`` returns it; without it tombstones follow nothing but the batch's records.
    """
    keys = [names.quoted(name) for name in order.keys]
    row = F.col(_ROW)
    if order.sequence is not None:
        parts, row = _behind_tombstones(parts, order, there)
    # By the keys as they lie there already: those in the row would be laid out once more.
    rows = parts.select(*keys, row.alias(_ROW), RECORDS)
    sequence = [names.SEQUENCE] if order.sequence else []
    place = [names.quoted(name) for name in (order.timestamp, order.topic, order.partition)]
    latest = F.struct(*(F.col(f"{_ROW}.{name}") for name in (*sequence, *place)))
    grouped = rows.groupBy(*keys).agg(F.max_by(_ROW, latest).alias(_ROW), F.sum(RECORDS).alias(RECORDS))
    return grouped.select(f"{_ROW}.*", RECORDS)


def _behind_tombstones(parts: DataFrame, order: ChangeOrder, there: DataFrame | None) -> tuple[DataFrame, Column]:
    """The parts, and of each the change that wins against its tombstone, or the tombstone with its sequence."""
    if there is None:
        joined = parts.withColumn("__at", F.col(_BEFORE))
    else:
        joined = parts.alias("p").join(F.broadcast(there).alias("t"), F.expr(order.same_key("p", "t")), "left")
        follows = F.expr(order.by_kafka(f"p.{_TOMBSTONE}", "t"))
        sequence = F.greatest(F.col(f"p.{_BEFORE}"), F.when(follows, F.col(f"t.{_THERE}")))
        joined = joined.select("p.*", sequence.alias("__at"))
    kinds: Any = parts.schema[_TOMBSTONE].dataType
    placed = F.struct(
        *(
            F.col("__at").alias(name) if name == names.SEQUENCE else F.col(f"{_TOMBSTONE}.{names.quoted(name)}")
            for name in kinds.names
        )
    )
    wins = F.col(_ROW).isNotNull() & (F.col("__at").isNull() | (F.col(f"{_ROW}.{names.SEQUENCE}") >= F.col("__at")))
    chosen = F.when(F.col(_TOMBSTONE).isNull() | wins, F.col(_ROW)).otherwise(placed)
    return joined, chosen
