"""The columns that a dataset declares, and those that its definitions name, checked."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from pyspark.errors import PySparkException
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.engine.query.cdc_settings import COORDINATES, payload
from rivermouth.errors import (
    CdcColumnUnknown,
    DatasetSchemaInvalid,
    DefinitionInvalid,
    SqlInvalid,
    SqlNotSupported,
    first_line,
)
from rivermouth.names import as_sql, did_you_mean
from rivermouth.pipelines.sql.definitions.columns import columns_of
from rivermouth.rows import reserved_names
from rivermouth.schemas.column_types import is_padded, nullable_columns, without_padding
from rivermouth.schemas.type_widening import takes, widens

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.spec import AutoCdc, Dataset, SourceLine

_GENERATED: Final = "rivermouth.generated"
_DEFAULT: Final = "rivermouth.default"
"""Metadata of a declared column: the SQL of its value."""


def declared_columns(dataset: Dataset) -> T.StructType | None:
    """The columns; None where the dataset declares none.

    Raises:
        DatasetSchemaInvalid: They cannot be read.
        SqlInvalid: What a generated column or a default is cannot be read.
        SqlNotSupported: A column has an identity or a mask.
    """
    if dataset.schema is None or isinstance(dataset.schema, T.StructType):
        return dataset.schema
    try:
        found = _of_ddl(str(dataset.schema), dataset.at)
    except PySparkException as error:
        raise DatasetSchemaInvalid(at=str(dataset.at), dataset=dataset.name, detail=first_line(error)) from error
    if not isinstance(found, T.StructType):
        raise DatasetSchemaInvalid(at=str(dataset.at), dataset=dataset.name, detail="it has no names of columns")
    return found


def _of_ddl(ddl: str, at: SourceLine) -> T.DataType:
    """The columns of a DDL. Spark's own parser of it knows neither GENERATED nor DEFAULT nor keys."""
    try:
        return T.StructType.fromDDL(ddl)
    except PySparkException as error:
        try:
            columns = columns_of(ddl, at)
        except SqlNotSupported as refused:
            raise SqlNotSupported(at=str(at), **refused.facts) from error
        except SqlInvalid as invalid:
            if re.search(r"\b(GENERATED|DEFAULT)\b", ddl, re.IGNORECASE):
                raise SqlInvalid(at=str(at), **invalid.facts) from error
            raise error from None  # Spark's own error says more about it
    found = T.StructType.fromDDL(", ".join(each.plain_ddl for each in columns))
    if not isinstance(found, T.StructType):
        return found
    for field, column in zip(found, columns, strict=True):
        computed = {_GENERATED: column.generated, _DEFAULT: column.default}
        field.metadata |= {key: sql for key, sql in computed.items() if sql is not None}
    return found


def with_computed(rows: DataFrame, declared: T.StructType | None) -> DataFrame:
    """The rows of a query with the generated columns of its table, and with defaults of columns that it lacks.

    Args:
        rows: A frame. A column of the name of a generated one is replaced.
        declared: The columns of the table.
    """
    there = {name.lower() for name in rows.columns}
    for field in declared or ():
        sql = None if field.name.lower() in there else field.metadata.get(_DEFAULT)
        sql = field.metadata.get(_GENERATED, sql)
        if sql is not None:
            rows = rows.withColumn(field.name, F.expr(sql).cast(field.dataType))
    return rows


def computed_names(declared: T.StructType | None) -> frozenset[str]:
    """The names, in lower case, of the columns for which ``with_computed`` may have a value."""
    return frozenset(
        each.name.lower() for each in declared or () if _GENERATED in each.metadata or _DEFAULT in each.metadata
    )


def check_brought(flow: FlowNode, brought: T.StructType, columns: T.StructType, dataset: Dataset) -> None:
    """Checks that the table of a dataset can take the columns of a flow: none is left out, and no value changes.

    Args:
        flow: The flow.
        brought: Its columns.
        columns: Those of the table.
        dataset: The dataset, which declares them, or has those of all of its flows.

    Raises:
        DefinitionInvalid: A column is not declared, or its type may have values that the declared one has not.
    """
    mine = {each.name.lower(): each for each in columns}
    whose = "the query" if flow.name == dataset.name else f"flow {flow.name}"
    others = "it is declared" if dataset.schema is not None else "another flow brings it"
    for column in brought:
        declared, kind = mine.get(column.name.lower()), column.dataType.simpleString()
        if declared is None:
            detail = f"{whose} has column {column.name}, which is not declared"
            fix = f"add {column.name} {kind} to the columns of {dataset.name}, or leave it out of the query"
        elif _GENERATED in declared.metadata or takes(declared.dataType, column.dataType):
            continue
        else:
            wanted = declared.dataType.simpleString()
            detail = f"{whose} has column {column.name} as {kind}, and {others} as {wanted}"
            fix = f"write CAST({column.name} AS {wanted}) AS {column.name} in the query"
            if dataset.schema is not None:
                fix += f", or declare it as {kind}"
        raise DefinitionInvalid(at=str(flow.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix)


def united(schemas: list[T.StructType]) -> T.StructType | None:
    """The columns of several queries into one table, each once, with the wider type; None without a query."""
    if not schemas:
        return None
    fields: dict[str, T.StructField] = {}
    for schema in schemas:
        for each in nullable_columns(schema):
            known = fields.get(each.name.lower())
            if known is None:
                fields[each.name.lower()] = each
            elif widens(known.dataType, each.dataType):
                fields[each.name.lower()] = T.StructField(known.name, each.dataType)
    return T.StructType(list(fields.values()))


def check_texts(columns: T.StructType | None, dataset: Dataset) -> None:
    """Checks that the columns of a streaming table have no texts that are read with further blanks.

    Raises:
        DefinitionInvalid: One is declared as ``char``.
    """
    for each in columns or ():
        if is_padded(each.dataType):
            kind = each.dataType.simpleString()
            detail = f"column {each.name} is declared as {kind}, and Spark reads its values with blanks behind them"
            fix = f"declare it as {without_padding(each.dataType)}"
            raise DefinitionInvalid(
                at=str(dataset.at), definition=f"streaming table {dataset.name}", detail=detail, fix=fix
            )


def check_columns(flow: FlowNode, cdc: AutoCdc, columns: T.StructType, others: Sequence[T.StructField] = ()) -> None:
    """Checks that the columns that an AUTO CDC flow names are among those of its changes, and its keys in its target.

    Args:
        flow: The flow.
        cdc: Its settings.
        columns: Of its changes.
        others: Columns that its changes may have at other times; all of them have the keys.

    Raises:
        CdcColumnUnknown: One is not.
        DefinitionInvalid: The target would not have a key or a column of a list, a list names nothing but keys, or
            ``columns_to_update`` is no array of texts.
    """
    known = {each.name.lower(): each.dataType.simpleString() for each in columns}
    further = {each.name.lower() for each in others}
    lists = {
        "keys": cdc.keys,
        "column_list": cdc.columns,
        "except_column_list": cdc.except_columns,
        "track_history_column_list": cdc.track_history_columns,
        "track_history_except_column_list": cdc.track_history_except_columns,
        "ignore_null_updates_column_list": cdc.ignore_null_updates_columns,
        "ignore_null_updates_except_column_list": cdc.ignore_null_updates_except_columns,
        "columns_to_update": (cdc.columns_to_update,) if cdc.columns_to_update else (),
    }
    for argument, listed in lists.items():
        for column in listed:
            if column.lower() not in known and (argument == "keys" or column.lower() not in further):
                fix = did_you_mean(column, columns.names)
                raise CdcColumnUnknown(at=str(flow.at), flow=flow.name, argument=argument, column=column, fix=fix)
    detail, fix = _fault(cdc, known)
    if not detail:
        detail, fix = _fault_of_names(cdc, map(str.lower, payload(columns, cdc).names))
    if not detail:
        detail, fix = _fault_of_lists(cdc, T.StructType([*columns, *others]))
    if detail:
        raise DefinitionInvalid(at=str(flow.at), definition=f"flow {flow.name}", detail=detail, fix=fix)


def with_listed(columns: T.StructType, cdc: AutoCdc, others: Sequence[T.StructField]) -> T.StructType:
    """The columns of a snapshot, and those of other ones by which the history is tracked: its target keeps them."""
    there = {each.name.lower() for each in columns}
    listed = {name.lower() for name in (*cdc.track_history_columns, *cdc.track_history_except_columns)} - there
    further = {each.name.lower(): each for each in others if each.name.lower() in listed}
    return T.StructType([*columns, *further.values()])


def _fault(cdc: AutoCdc, types: Mapping[str, str]) -> tuple[str, str]:
    """What is wrong with the columns that an AUTO CDC flow names, and what to do; empty where nothing is."""
    chosen, excepted = ({name.lower() for name in each} for each in (cdc.columns, cdc.except_columns))
    for key in cdc.keys:
        if chosen and key.lower() not in chosen:
            return f"column_list leaves out the key {key}", f"add {key} to column_list"
        if key.lower() in excepted:
            return f"except_column_list leaves out the key {key}", f"remove {key} from except_column_list"
    listed = cdc.columns_to_update
    if listed is not None and types[listed.lower()] != "array<string>":
        detail = f"columns_to_update names {listed}, which is {types[listed.lower()]} and no array<string>"
        return detail, f"split it in the source, for example split({listed}, ',')"
    return "", ""


def _fault_of_names(cdc: AutoCdc, columns: Iterable[str]) -> tuple[str, str]:
    """As ``_fault``, of the names of the target's columns."""
    for name in columns:
        owner = reserved_names.owner_of_change(name, COORDINATES, versions=cdc.scd_type != 1)
        if owner is not None:
            fix = f'except_column_list=["{name}"]'
            if cdc.sequence_by is None or cdc.columns:
                fix = f"leave {name} out in the source, or give it another name there"
            return f"its changes have column {name}, and {owner} adds a column of that name", fix
    return "", ""


def _fault_of_lists(cdc: AutoCdc, columns: T.StructType) -> tuple[str, str]:
    """As ``_fault``, of lists that are about columns of the target which are no keys."""
    mine, keys = ({name.lower() for name in each} for each in (payload(columns, cdc).names, cdc.keys))
    lists = {
        "track_history_column_list": cdc.track_history_columns,
        "ignore_null_updates_column_list": cdc.ignore_null_updates_columns,
    }
    for argument, listed in lists.items():
        for column in listed:
            if column.lower() not in mine:
                return f"{argument} names {column}, which its target does not have", f"remove {column} from {argument}"
        if listed and all(column.lower() in keys for column in listed):
            return f"{argument} names nothing but keys", f"name a column in {argument} that is no key"
    return "", ""


def sequence_type(cdc: AutoCdc, frame: DataFrame) -> T.DataType:
    """The type of what orders the changes of a flow; of snapshots, whose order is their time, a timestamp."""
    if cdc.sequence_by is None:
        return T.TimestampType()
    return frame.selectExpr(as_sql(cdc.sequence_by, frame.columns)).schema[0].dataType
