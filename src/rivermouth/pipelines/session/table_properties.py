"""Table properties as users write them: those that this Delta Lake does not know are named, and left out."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from pyspark.errors import IllegalArgumentException

from rivermouth.errors import DefinitionInvalid, first_line
from rivermouth.names import did_you_mean
from rivermouth.pipelines.settings.known_settings import REMEMBER, RESET_ALLOWED, check_properties
from rivermouth.ports.internals.delta_snapshot import knows_property

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession

    from rivermouth.pipelines.spec import Dataset, Definitions, SourceLine

_OF_PROTOCOL: Final = ("delta.feature.", "delta.minreaderversion", "delta.minwriterversion")
"""Beginnings of properties of Delta, in lower case, that a definition does not decide."""
_OF_PIPELINES: Final = "pipelines."
_READ: Final = (RESET_ALLOWED, REMEMBER)
"""Properties of pipelines that are honoured here."""
_WITHOUT_EFFECT: Final = {
    "pipelines.autooptimize.managed": "`rivermouth tables optimize` compacts the table",
    "pipelines.autooptimize.zordercols": "write cluster_by, and `rivermouth tables optimize` clusters the table",
    "pipelines.trigger.interval": "write it into spark_conf, or into the pipeline's configuration",
}
"""Other known ones, in lower case, and what does the same."""


def with_known_properties(spark: SparkSession, found: Definitions) -> Definitions:
    """The definitions without properties that Delta does not know, and a note for each that has no effect.

    Raises:
        DefinitionInvalid: A property cannot have that value, or one of pipelines is misspelt.
    """
    notes: list[tuple[SourceLine, str]] = []
    datasets = tuple(_known(spark, each, notes) for each in found.datasets)
    return replace(found, datasets=datasets, notes=(*found.notes, *notes))


def stored(properties: Mapping[str, str]) -> dict[str, str]:
    """Those that the table has: Delta's, and the user's own."""
    return {name: value for name, value in properties.items() if not name.lower().startswith(_OF_PIPELINES)}


def _known(spark: SparkSession, dataset: Dataset, notes: list[tuple[SourceLine, str]]) -> Dataset:
    check_properties(dataset)
    kept = {}
    for name, value in dataset.properties.items():
        if name.lower().startswith(_OF_PIPELINES):
            if text := _of_pipelines(dataset, name):
                notes.append((dataset.at, f"dataset {dataset.name}: {text}"))
            kept[name] = value
            continue
        if name.lower().startswith(_OF_PROTOCOL):
            why = "Delta Lake sets it by what a table needs"
            notes.append((dataset.at, f"dataset {dataset.name}: {name} has no effect, {why}"))
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


def _of_pipelines(dataset: Dataset, name: str) -> str:
    """Why a property of pipelines has no effect; empty where it has one.

    Raises:
        DefinitionInvalid: It is nearly the name of one that has an effect.
    """
    if name.lower() in (each.lower() for each in _READ):
        return ""
    if why := _WITHOUT_EFFECT.get(name.lower()):
        return f"{name} has no effect here: {why}"
    if (fix := did_you_mean(name, _READ)).startswith("did you mean"):
        detail = f"table property {name} is not known"
        raise DefinitionInvalid(at=str(dataset.at), definition=f"dataset {dataset.name}", detail=detail, fix=fix)
    return f"{name} has no effect here"
