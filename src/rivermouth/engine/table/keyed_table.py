"""The columns of a keyed table, and what its keys, order and conditions must be made of."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql.types import ArrayType, DataType, MapType, StructField, StructType, VariantType

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.engine.flow.column_starts import COLUMN_STARTS
from rivermouth.engine.table.problems import condition_over, fix_of
from rivermouth.errors import ColumnReserved, KeysInvalid, first_line
from rivermouth.names import did_you_mean
from rivermouth.ports.internals.expressions import columns_in, forbidden, forbidden_within
from rivermouth.ports.spark.local_frames import no_rows
from rivermouth.rows import conform
from rivermouth.rows.columns import table_columns
from rivermouth.rows.keyed import history, partial_changes, snapshots
from rivermouth.rows.keyed.change_order import order_of
from rivermouth.rows.keyed.changes import keys_of_values, sequence_sql
from rivermouth.rows.keyed.column_starts import ColumnStarts
from rivermouth.schemas.column_types import nullable

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import SparkSession

    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.engine.table.problems import Problems
    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.spec import Flow, KeyedSink, Sink

_KEYS, _SEQUENCE, _VERSIONS = "rivermouth.keys", "rivermouth.sequence_by", "rivermouth.versions"
_UPDATES = "rivermouth.partial_updates"
_NO_KEYS: Final = (ArrayType, MapType, StructType, VariantType)
_NO_ORDER: Final = (ArrayType, MapType, VariantType)
_NOT_COMPARED: Final = (MapType, VariantType)


def columns_of_rows(flow: Flow, declared: StructType) -> StructType:
    """The payload columns: as declared, or those of the rows of a snapshot and what it says besides.

    Raises:
        KeysInvalid: A snapshot has no such rows.
    """
    if flow.keyed is None or not flow.keyed.snapshots:
        return declared
    try:
        return snapshots.columns(declared, flow.keyed.rows or names.ROWS)
    except ValueError as error:
        detail, fix = str(error).split("\n")
        raise _invalid(flow, detail, fix) from None


def keyed_columns(
    spark: SparkSession, flow: Flow, payload: StructType, known: StructType, problems: Problems
) -> StructType:
    """The table's columns: those that the sink keeps of ``known``, and the sequence where no column of them is it.

    Args:
        spark: Analyses expressions.
        flow: Its sink is a keyed one.
        payload: The payload columns.
        known: All columns of a conformed row.
        problems: Keeps what is wrong with names, conditions and the order. Where there is such a thing the rest is not
            looked at, and the columns are ``known``.

    Raises:
        KeysInvalid: A column is not there, a type has no order, or a condition is none.
    """
    sink = flow.keyed
    if sink is None:
        return known
    before = len(problems)
    with problems.kept():
        _check_names(flow, sink, payload, known)
        _check_keys_of_tombstones(spark, flow, known)
    _check_conditions(spark, flow, known, problems)
    with problems.kept():
        kind = _sequence_type(spark, flow, sink, known)
    if len(problems) > before:
        return known
    gone = set(payload.names) - set(conform.kept_columns(flow, payload))
    fields = [field for field in known if field.name not in gone]
    if sink.sequence_by:
        order_by = [names.as_sql(each, known.names) for each in sink.sequence_by]
        if sink.snapshots:
            _check_version(spark, flow, payload, order_by)
        if sink.versions:
            _check_versions(flow, sink, payload, known)
            _check_tracked(spark, flow, conform.kept_columns(flow, payload), order_by)
            fields += [StructField(name, nullable(kind)) for name in (names.START_AT, names.END_AT)]
        if table_columns.sequence_column(flow, [field.name for field in fields]) == names.SEQUENCE:
            fields.append(StructField(names.SEQUENCE, nullable(kind)))
    order = order_of(flow, [field.name for field in fields])
    if sink.partial_updates and order is not None:
        _check_partial(spark, flow, payload, order.partial)
        if order.partial:
            fields.append(StructField(names.PLACES, partial_changes.places_type(order, kind)))
    return StructType(fields)


def keyed_properties(flow: Flow) -> dict[str, str]:
    """Table properties that say by what a keyed table orders its rows."""
    order = {_KEYS: table_columns.key_columns(flow), _SEQUENCE: flow.keyed.sequence_by if flow.keyed else ()}
    if flow.keyed and flow.keyed.versions:
        order[_VERSIONS] = _made_by(flow.keyed)
    if flow.keyed and flow.keyed.partial_updates:
        order[_UPDATES] = _updated_by(flow.keyed)
    return {name: json.dumps(parts) for name, parts in order.items()}


def other_keys(flow: Flow, properties: Mapping[str, str], *, adopting: bool = False) -> str | None:
    """How the table's keys and order differ from those of the flow, in words; None if they do not.

    A table that is taken over gets those of the flow.
    """
    if adopting and flow.keyed is not None:
        return None
    mine = keyed_properties(flow)
    for name, words in (
        (_KEYS, "rows have the keys"),
        (_SEQUENCE, "rows are ordered by"),
        (_VERSIONS, "versions are made by"),
        (_UPDATES, "rows are updated by"),
    ):
        its, wanted = properties.get(name, "[]"), mine.get(name, "[]")
        if its != wanted:
            none = "whole records" if name == _UPDATES else "nothing"
            its, wanted = (", ".join(json.loads(each)) or none for each in (its, wanted))
            return f"its {words} {its}, and those of the flow {wanted}"
    return None


def keys_fix(flow: Flow, properties: Mapping[str, str]) -> str:
    """What to do where ``other_keys`` finds a difference."""
    if flow.keyed is not None and _KEYS not in properties:
        return "sink: append, or ingest with --sink append: a row a record, as the table has; or write into a new table"
    return "write into a new table, or keep the sink, keys and sequence_by that the table was made with"


def columns_left(columns: Iterable[str], there: Iterable[str]) -> tuple[str, ...]:
    """Columns that a table has and its flow, which writes ``columns``, has not."""
    mine = {name.lower() for name in columns}
    return tuple(name for name in there if name.lower() not in mine)


def column_starts(
    flow: Flow, columns: Sequence[str], state: TableState, left: Sequence[str], entry: Entry
) -> ColumnStarts:
    """Since when a flow whose records bring parts of rows reads its columns; of others nothing is to be known."""
    order, updated = order_of(flow, columns), order_of(flow, columns, left=left)
    if order is None or updated is None or not order.partial:
        return ColumnStarts()
    known = ColumnStarts.from_json(state.properties.get(COLUMN_STARTS))
    return known.now(order.partial, state.columns.names, set(updated.partial) - set(order.partial), entry)


def _made_by(sink: KeyedSink) -> list[str]:
    """What makes a version of a key, in words."""
    for setting, words in (
        ("track_history_columns", "a change of {}"),
        ("track_history_except_columns", "a change of all but {}"),
    ):
        if columns := getattr(sink, setting, ()):
            return [words.format(", ".join(sorted(columns)))]
    return ["a change of the row"] if sink.snapshots else ["each record"]


def _updated_by(sink: KeyedSink) -> list[str]:
    """What of a record updates the row of its key, in words."""
    if sink.listed_by:
        return [f"the columns that {sink.listed_by} lists"]
    for setting, words in (
        ("ignore_null_updates_columns", "values of {} that are not null"),
        ("ignore_null_updates_except_columns", "values of all columns but {} that are not null"),
    ):
        if columns := getattr(sink, setting, ()):
            return [words.format(" and ".join(sorted(columns)))]
    return ["values that are not null"]


def _check_partial(spark: SparkSession, flow: Flow, payload: StructType, updated: Sequence[str]) -> None:
    sink, kept = flow.sink, conform.kept_columns(flow, payload)
    _check_listed(flow, sink, payload, kept, of="ignore_null_updates")
    for name in getattr(sink, "ignore_null_updates_columns", ()):
        if name not in updated:
            detail = f"ignore_null_updates_columns names {name!r}, by which the table has its keys or its order"
            raise _invalid(flow, detail, f"leave {name} out of ignore_null_updates_columns")
    listed = flow.keyed.listed_by if flow.keyed else None
    if listed is not None and listed not in payload.names:
        detail = f"columns_to_update names {listed!r}, which is no column"
        raise _invalid(flow, detail, did_you_mean(listed, payload.names))
    if listed is not None and (kind := payload[listed].dataType.simpleString()) != "array<string>":
        detail = f"columns_to_update names {listed!r} of type {kind}, not array<string>"
        raise _invalid(flow, detail, f"declare it as a list of names: {names.quoted(listed)} array<string>")
    keys = table_columns.key_columns(flow)
    for name, expression in table_columns.derived_columns(flow).items():
        made_of = {each.casefold() for each in columns_in(spark, names.as_sql(expression, payload.names))}
        if name not in keys and (of := [each for each in updated if each.casefold() in made_of]):
            detail = f"column {name!r} is derived from {of[0]!r}, which a record need not bring"
            raise _invalid(flow, detail, "partition_by: a column that each record brings, or a key")


def _check_versions(flow: Flow, sink: KeyedSink, payload: StructType, known: StructType) -> None:
    for name in known.names:
        if name.upper() in {names.START_AT, names.END_AT}:
            detail = f"column {name!r} has the name of a column that says when a version is valid"
            raise _invalid(flow, detail, f"sink: {{type: {sink.type}, except_columns: [{name}]}}")
    kept = conform.kept_columns(flow, payload)
    _check_reserved(flow, payload, {*known.names} - ({*payload.names} - {*kept}))
    _check_listed(flow, sink, payload, kept, of="track_history")
    for name in sink.tracked(kept) or ():
        kind = known[name].dataType
        if not _is_compared(kind):
            detail = f"column {name!r} is of type {kind.simpleString()}, whose changes cannot be seen"
            raise _invalid(flow, detail, f"track_history_except_columns: [{name}]")


def _check_listed(flow: Flow, sink: Sink, payload: StructType, kept: Sequence[str], *, of: str) -> None:
    """That ``<of>_columns`` names payload columns of the table, and ``<of>_except_columns`` columns that there are."""
    # What the table does not have, and metadata columns, are excepted in any case.
    excepted = (*payload.names, *flow.metadata_columns.values())
    for setting, there in ((f"{of}_columns", kept), (f"{of}_except_columns", excepted)):
        for name in getattr(sink, setting, ()):
            if name not in there:
                raise _invalid(flow, f"{setting} names {name!r}, which is no column", did_you_mean(name, kept))


def _is_compared(kind: DataType) -> bool:
    match kind:
        case StructType():
            return all(_is_compared(each.dataType) for each in kind.fields)
        case ArrayType():
            return _is_compared(kind.elementType)
    return not isinstance(kind, _NOT_COMPARED)


def _check_tracked(spark: SparkSession, flow: Flow, kept: Sequence[str], order_by: Sequence[str]) -> None:
    """That no column makes a version with each record because the sequence is made of it."""
    untracked = getattr(flow.sink, "track_history_except_columns", ())
    if not untracked or flow.keyed is None:
        return
    made_of = {name.casefold() for part in order_by for name in columns_in(spark, part)}
    for name in flow.keyed.tracked(kept) or ():
        if name.casefold() in made_of:
            detail = f"column {name!r}, which sequence_by uses, would make a version with each record"
            raise _invalid(flow, detail, f"track_history_except_columns: [{', '.join((*untracked, name))}]")


def _check_version(spark: SparkSession, flow: Flow, payload: StructType, order_by: Sequence[str]) -> None:
    """That the version of a snapshot is not made of its rows: an empty one has a version too."""
    of_rows = {field.name.casefold(): field.name for field in payload if not snapshots.is_beside(field)}
    for name in columns_in(spark, order_by[0]):
        if name.casefold() in of_rows:
            detail = f"sequence_by names {of_rows[name.casefold()]!r}, a column of the rows and not of the snapshot"
            raise _invalid(flow, detail, "sequence_by: kafka_timestamp, or another column of the message")


def _check_reserved(flow: Flow, payload: StructType, columns: Iterable[str]) -> None:
    keys, metadata = table_columns.key_columns(flow), {name: told for told, name in flow.metadata_columns.items()}
    for name in sorted(columns):
        if name.lower() not in history.RESERVED:
            continue
        if name in metadata:
            fix = conform.renamed(flow, metadata[name], payload.names)
        elif name not in payload.names:
            fix = "keys: [{another_name: ...}]"
        elif name in keys:
            fix = f"keys: [{{another_name: {name}}}], except_columns: [{name}]"
        else:
            fix = f"sink: {{type: {flow.sink.type}, except_columns: [{name}]}}"
        raise ColumnReserved(flow=flow.name, column=name, owner="rivermouth", fix=fix)


def _check_names(flow: Flow, sink: KeyedSink, payload: StructType, known: StructType) -> None:
    beside = {field.name for field in payload if snapshots.is_beside(field)}
    of_rows = [name for name in payload.names if name not in beside]
    for setting, wanted, there in (
        ("keys", table_columns.key_columns(flow), [name for name in known.names if name not in beside]),
        ("columns", sink.columns, of_rows),
        ("except_columns", sink.except_columns, of_rows),
    ):
        for name in beside.intersection(wanted):
            raise _invalid(flow, f"{setting} names {name!r}, which is no column of the rows", did_you_mean(name, there))
        for name in wanted:
            if name not in there:
                raise _invalid(flow, f"{setting} names {name!r}, which is no column", did_you_mean(name, there))
    twice = [name for name in known.names if known.names.count(name) > 1]
    if twice:
        raise _invalid(flow, f"a derived key has the name of column {twice[0]!r}", "keys: [{another_name: ...}]")
    for name in table_columns.key_columns(flow):
        if isinstance(known[name].dataType, _NO_KEYS):
            detail = f"key {name!r} is of type {known[name].dataType.simpleString()}, which cannot be a key"
            raise _invalid(flow, detail, _simple_keys(flow, known, name))


def _simple_keys(flow: Flow, known: StructType, name: str) -> str:
    kind = known[name].dataType
    if isinstance(kind, StructType) and name == flow.metadata_columns.get("kafka_key"):
        return f"name its parts: keys: [{{{kind.names[0]}: {name}.{kind.names[0]}}}]"
    return "name columns of simple types: keys: [id]"


def _check_keys_of_tombstones(spark: SparkSession, flow: Flow, known: StructType) -> None:
    """That what Kafka's key has can be found among the keys of the table."""
    if flow.key_columns is None or flow.keyed is None or not flow.keyed.tombstones_delete:
        return
    empty, of = no_rows(spark, known), flow.metadata_columns["kafka_key"]
    for name, sql in record_keys.in_columns(known, flow, keys_of_values(flow)).items():
        try:
            empty.selectExpr(sql)
        except PySparkException:
            key = known[of].dataType
            part, its = (f"{of}.{name}", key[name].dataType) if isinstance(key, StructType) else (of, key)
            kinds = f"{known[name].dataType.simpleString()}, and {part}, that of a record without a value"
            detail = f"key {name!r} is of type {kinds}, {its.simpleString()}"
            raise _invalid(flow, detail, f"go by the key itself: keys: [{{{name}_key: {part}}}]") from None


def _check_conditions(spark: SparkSession, flow: Flow, known: StructType, problems: Problems) -> None:
    for setting in ("apply_as_deletes", "apply_as_truncates"):
        if (condition := getattr(flow.sink, setting)) is None:
            continue
        with problems.kept():
            kind = _type_of(spark, flow, known, setting, condition)
            if kind.simpleString() != "boolean":
                detail = f"{setting} is of type {kind.simpleString()}, not boolean"
                raise _invalid(flow, detail, f"write a condition: {setting}: op = 'D'")


def _sequence_type(spark: SparkSession, flow: Flow, sink: KeyedSink, known: StructType) -> DataType:
    kind = _type_of(spark, flow, known, "sequence_by", sequence_sql(sink.sequence_by, known.names))
    parts = [field.dataType for field in kind] if isinstance(kind, StructType) else [kind]
    for part in parts:
        single = sink.apply_as_truncates or sink.snapshots
        if isinstance(part, (*_NO_ORDER, StructType)) or (single and part is not kind):
            shown = kind if sink.snapshots else part
            detail = f"sequence_by is of type {shown.simpleString()}, which has no order"
            raise _invalid(flow, detail, "name a number, a time or a text: sequence_by: updated_at")
    return kind


def _type_of(spark: SparkSession, flow: Flow, known: StructType, setting: str, expression: str) -> DataType:
    empty = no_rows(spark, known)
    expression = names.as_sql(expression, known.names)
    try:
        # First: to analyse reflection is to load a class.
        if refused := forbidden(spark, expression):
            raise _invalid(flow, f"{setting}: {refused}", "write it with the record's own columns")
        column = empty.selectExpr(f"(\n{expression}\n)")
        if refused := forbidden_within(column):
            raise _invalid(flow, f"{setting}: {refused}", "write it with the record's own columns")
    except PySparkException as error:
        is_order = setting == "sequence_by"
        otherwise = "sequence_by: kafka_timestamp" if is_order else f"{setting}: {condition_over(known.names)}"
        fix = fix_of(error, known.names, otherwise)
        raise _invalid(flow, f"{setting}: {first_line(error)}", fix) from error
    return column.schema[0].dataType


def _invalid(flow: Flow, detail: str, fix: str) -> KeysInvalid:
    # What it is about is what the sentence begins with.
    setting = {"key": "keys"}.get(first := re.split(r"\W", detail, maxsplit=1)[0], first)
    path = (setting,) if setting in type(flow.sink).model_fields else ()
    return KeysInvalid(flow=flow.name, sink=flow.sink.type, detail=detail, fix=fix).about("sink", *path)
