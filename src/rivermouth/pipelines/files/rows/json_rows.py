"""Rows of JSON files: the strict decoding of the format json, with what does not fit in the rescued data column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.decoding.json import json_fast_path, json_types, undeclared_fields
from rivermouth.decoding.json.json_decode import JsonDecoding
from rivermouth.decoding.times.json_times import TimeForms
from rivermouth.pipelines.files.plan import FILE
from rivermouth.pipelines.files.rows import rescue
from rivermouth.pipelines.files.rows.folders import with_folders
from rivermouth.schemas import column_types
from rivermouth.spec import Evolution

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

    from rivermouth.pipelines.files.plan import Plan

_ELEMENTS: Final = "__elements"


def check(schema: T.StructType) -> None:
    """Makes sure that the columns can be read from JSON.

    Raises:
        ValueError: They cannot; the text says why.
    """
    if schema.fields:
        json_types.check(schema, variants=True)


def rows(texts: DataFrame, plan: Plan) -> DataFrame:
    """The rows of JSON documents; an array of objects is a row for each of them, and any other array is no JSON record.

    Args:
        texts: Have ``value``, a line, or a file where documents may be several lines.
        plan: Of the source.
    """
    values = _documents(texts)
    schema = column_types.nullable_columns(plan.in_files)
    forms = TimeForms(plan.options.reader.get("timestampFormat"), plan.options.reader.get("dateFormat"))
    new = "rescue" if plan.options.rescued is not None or plan.options.evolution == "failOnNewColumns" else "ignore"
    policies = Evolution(on_new_column=new, on_type_change="rescue").with_defaults(infers=False)
    said = undeclared_fields.exact_tree(schema, lambda _: plan.inferred, None)
    judged = JsonDecoding(forms.marked(schema), policies, said, rescues_nested=True).decoded(values)
    text = f"CAST({names.VALUE} AS STRING)"
    corrupt = f"CASE WHEN NOT {names.DECODED} THEN {text} END"
    whole = "CAST(NULL AS STRING)" if plan.has_corrupt else f"to_json(named_struct('/_corrupt_record', {text}))"
    pointers = f"CASE WHEN {names.DECODED} THEN {names.DATA}.{column_types.RESCUED} ELSE {whole} END"
    checked = rescue.new_columns(rescue.malformed(judged, plan, f"NOT {names.DECODED}"), plan, pointers)
    columns = {each.name: f"{names.DATA}.{names.quoted(each.name)}" for each in schema.fields}
    if columns and plan.options.mode == "PERMISSIVE":
        columns = {name: f"CASE WHEN {names.DECODED} THEN {sql} END" for name, sql in columns.items()}
    told = rescue.with_text(with_folders(checked, plan), plan, pointers, columns)
    return told.selectExpr(*plan.selected(columns, rescue.RESCUED, corrupt))


def _documents(texts: DataFrame) -> DataFrame:
    mark = "CASE WHEN startswith(value, '\ufeff') THEN substring(value, 2) ELSE value END"
    values = texts.where("trim(' \t\r\n' FROM value) <> ''").selectExpr(
        f"CAST({mark} AS BINARY) AS {names.VALUE}", f"_metadata.file_path AS {FILE}"
    )
    apart = values.select("*", json_fast_path.objects(values.sparkSession, names.VALUE).alias(_ELEMENTS))
    each = f"explode(coalesce({_ELEMENTS}, array({names.VALUE}))) AS {names.VALUE}"
    return apart.selectExpr(FILE, each)
