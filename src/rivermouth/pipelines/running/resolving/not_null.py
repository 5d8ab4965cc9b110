"""Columns that a dataset declares NOT NULL, as conditions over the rows of its queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.engine.query.cdc_settings import partial_columns, payload
from rivermouth.errors import DefinitionInvalid
from rivermouth.names import END_AT, START_AT, as_sql, quoted
from rivermouth.pipelines.running.declared_columns import computed_names
from rivermouth.pipelines.spec import NotNull
from rivermouth.rows.checks import met

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.spec import AutoCdc, Dataset


def with_not_null(
    dataset: Dataset, columns: T.StructType | None, flows: tuple[FlowNode, ...], frames: list[DataFrame]
) -> tuple[FlowNode, ...]:
    """The flows of a dataset with the columns that it declares NOT NULL, as conditions over the rows of each.

    Args:
        dataset: The dataset.
        columns: Those of its table.
        flows: Its flows.
        frames: The rows of each of them.

    Raises:
        DefinitionInvalid: A flow does not bring such a column, or AUTO CDC makes it null by its settings.
    """
    if dataset.schema is None or columns is None:
        return flows
    return tuple(_judged(dataset, columns, flow, frame) for flow, frame in zip(flows, frames, strict=True))


def _judged(dataset: Dataset, columns: T.StructType, flow: FlowNode, frame: DataFrame) -> FlowNode:
    if flow.cdc is not None:
        columns = _of_changes(dataset, columns, flow, flow.cdc)
    found = [NotNull(path, condition) for path, condition in _required("", columns)]
    brought = frame if flow.cdc is None else _payload(columns, flow.cdc, frame)
    for each in found:
        try:
            brought.selectExpr(each.condition)
        except AnalysisException:
            whose = "the query" if flow.name == dataset.name else f"flow {flow.name}"
            detail = f"{whose} does not bring {each.name}, which is declared NOT NULL"
            fix = f"add {each.name} to the query, or remove NOT NULL from it in the columns of {dataset.name}"
            raise _invalid(dataset, flow, detail, fix) from None
    if flow.cdc is not None and (spared := _spared(flow.cdc, frame)):
        found = [replace(each, condition=f"{spared} OR (\n{each.condition}\n)") for each in found]
    return replace(flow, not_null=tuple(found))


def _payload(columns: T.StructType, cdc: AutoCdc, frame: DataFrame) -> DataFrame:
    """The columns that changes bring to their target."""
    there = {name.lower() for name in payload(frame.schema, cdc).names} | computed_names(columns)
    return frame.drop(*(name for name in frame.columns if name.lower() not in there))


def _of_changes(dataset: Dataset, columns: T.StructType, flow: FlowNode, cdc: AutoCdc) -> T.StructType:
    """The columns of a target that its changes bring; each change that does not delete brings all of them.

    Raises:
        DefinitionInvalid: One that is NOT NULL may be null in a change, or is null in the newest version of each key.
    """
    keys = {name.lower() for name in cdc.keys}
    span = {START_AT.lower(), END_AT.lower()} if cdc.scd_type != 1 else set[str]()
    for each in columns:
        name = each.name.lower()
        if not each.nullable and name in span and name == END_AT.lower():
            detail = f"{END_AT} is declared NOT NULL, and it is null in the newest row of a key"
            raise _invalid(dataset, flow, detail, f"remove NOT NULL from {END_AT}")
        if name not in keys | span and partial_columns(cdc, [name]) and list(_required("", T.StructType([each]))):
            detail = f"{each.name} is declared NOT NULL, and a null in a change keeps the value that the row has"
            raise _invalid(dataset, flow, detail, f"remove NOT NULL from {each.name}, or let its nulls count")
    return T.StructType([each for each in columns if each.name.lower() not in span])


def _spared(cdc: AutoCdc, frame: DataFrame) -> str:
    """SQL, never null: whether a change brings no row; empty where each brings one."""
    said = [text for text in (cdc.apply_as_deletes, cdc.apply_as_truncates) if text]
    return " OR ".join(met(as_sql(text, frame.columns)) for text in said)


def _invalid(dataset: Dataset, flow: FlowNode, detail: str, fix: str) -> DefinitionInvalid:
    return DefinitionInvalid(at=str(flow.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix)


def _required(sql: str, kind: T.DataType, path: str = "", depth: int = 0) -> Iterator[tuple[str, str]]:
    """What must not be null within a value: its path, and SQL that is TRUE where it is not null, or what it is in is.

    Args:
        sql: The value; empty for a whole row.
        kind: Its type.
        path: Its path.
        depth: How many arrays and maps it is in.
    """
    there = f"{sql} IS NULL OR " if sql else ""
    match kind:
        case T.StructType():
            for each in kind.fields:
                inner = f"{sql}.{quoted(each.name)}" if sql else quoted(each.name)
                shown = f"{path}.{each.name}" if path else each.name
                if not each.nullable:
                    yield shown, f"{there}{inner} IS NOT NULL"
                yield from _required(inner, each.dataType, shown, depth)
        case T.ArrayType():
            one = f"rivermouth_{depth}"
            inner_conditions = [] if kind.containsNull else [(f"{path}.element", f"{one} IS NOT NULL")]
            inner_conditions += _required(one, kind.elementType, f"{path}.element", depth + 1)
            for shown, condition in inner_conditions:
                yield shown, f"{there}forall({sql}, {one} -> {condition})"
        case T.MapType():
            for place, part, may in (("key", kind.keyType, True), ("value", kind.valueType, kind.valueContainsNull)):
                of_part = _required(f"map_{place}s({sql})", T.ArrayType(part, may), path, depth)
                yield from ((shown.replace(f"{path}.element", f"{path}.{place}", 1), text) for shown, text in of_part)
