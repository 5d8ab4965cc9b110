"""Expectations of a dataset as conditions over the rows of its queries."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.errors import AnalysisException

from rivermouth.errors import DefinitionInvalid, first_line
from rivermouth.pipelines.spec import VIEWS
from rivermouth.pipelines.sql.qualifiers import without_qualifiers
from rivermouth.ports.internals import query_plans
from rivermouth.rows import row_expectations

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.spec import Dataset


def with_conditions(dataset: Dataset, frames: list[DataFrame]) -> Dataset:
    """The dataset with expectations that hold for the rows of its queries, without the names of tables in them.

    Raises:
        DefinitionInvalid: A view has an expectation with dead letters, for which only a table has a place. Or Spark
            cannot evaluate one over these rows.
    """
    said = dataset.expectations
    if dataset.kind in VIEWS and any(each.action == "dead_letter" for each in said):
        detail = "a view has no dead letters"
        fix = "write the expectation at the table that reads the view"
        raise DefinitionInvalid(at=str(dataset.at), definition=f"view {dataset.name}", detail=detail, fix=fix)
    if any("." in each.condition for each in said):
        dataset = _unqualified(dataset, frames)
    _check(dataset, frames)
    return dataset


def _unqualified(dataset: Dataset, frames: list[DataFrame]) -> Dataset:
    columns, qualified = set[str](), dict[str, set[str]]()
    for frame in frames:
        columns |= {name.lower() for name in frame.columns}
        for table, names in query_plans.qualified_columns(frame).items():
            qualified.setdefault(table, set()).update(names)
    conditions = [
        replace(each, condition=without_qualifiers(each.condition, columns, qualified, dataset.at))
        for each in dataset.expectations
    ]
    return replace(dataset, expectations=tuple(conditions))


def _check(dataset: Dataset, frames: list[DataFrame]) -> None:
    for frame in frames if dataset.expectations else ():
        # Columns of a join that the query hides are not among the rows that are written.
        rows = frame.select("*")
        try:
            row_expectations.route(rows, dataset.expectations)
        except AnalysisException:
            for each in dataset.expectations:
                try:
                    row_expectations.route(rows, [each])
                except AnalysisException as error:
                    detail, fix = f"expectation {each.name!r}: {first_line(error)}", "correct its condition"
                    raise DefinitionInvalid(
                        at=str(dataset.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix
                    ) from error
            raise
