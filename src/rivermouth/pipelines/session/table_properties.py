"""Table properties as users write them: those that this Delta Lake does not know are named, and left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import IllegalArgumentException

from rivermouth.errors import DefinitionInvalid, first_line
from rivermouth.ports.internals.delta_snapshot import knows_property

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.pipelines.spec import Dataset, Definitions, SourceLine

_OF_DATABRICKS: Final = ("delta.autooptimize", "delta.feature.", "delta.minreaderversion", "delta.minwriterversion")
"""Properties of Delta that only Databricks' writers know, or that Delta sets itself, in lower case."""
_OF_PIPELINES: Final = "pipelines."


def with_known_properties(spark: SparkSession, found: Definitions) -> Definitions:
    """The definitions without properties that Delta does not know, and a note for each of them.

    Raises:
        DefinitionInvalid: A property of Delta cannot have that value.
    """
    notes: list[tuple[SourceLine, str]] = []
    datasets = tuple(_known(spark, each, notes) for each in found.datasets)
    return replace(found, datasets=datasets, notes=(*found.notes, *notes))


def stored(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that the table has: Delta's, and the user's own."""
    return {name: value for name, value in properties.items() if not name.lower().startswith(_OF_PIPELINES)}


def _known(spark: SparkSession, dataset: Dataset, notes: list[tuple[SourceLine, str]]) -> Dataset:
    kept = {}
    for name, value in dataset.properties.items():
        if name.lower().startswith(_OF_DATABRICKS):
            continue
        try:
            known = not name.lower().startswith("delta.") or knows_property(spark, name, value)
        except IllegalArgumentException as error:
            detail = f"table property {name}: {first_line(error)}"
            raise DefinitionInvalid(
                at=str(dataset.at), definition=f"dataset {dataset.name}", detail=detail, fix=f"correct {name}"
            ) from error
        if known:
            kept[name] = value
        else:
            notes.append((dataset.at, f"dataset {dataset.name}: {name} has no effect, Delta Lake does not know it"))
    return replace(dataset, properties=kept)
