"""A schema grows by the schemas of those who wrote the records, which a schema registry has under their ids."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.decoding.registry.writer_format import WritersFormat
from rivermouth.rows import conform
from rivermouth.schemas.evolution import Growth, GrowthBounds, grown
from rivermouth.spec import require_capability

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.spec import Flow


def writers_of(flow: Flow, suspects: DataFrame) -> Mapping[int, int] | None:
    """How many of the records each writer's schema has, by its id, in ascending order.

    None where the flow's schema grows by what the records themselves hold.
    """
    form = flow.value_format
    if not isinstance(form, WritersFormat):
        return None
    counted = suspects.groupBy(form.writer_id().alias("__writer")).count()
    return dict(sorted((int(number), int(count)) for number, count in counted.collect()))


def grown_by(
    flow: Flow,
    spark: SparkSession,
    writers: Collection[int],
    table: StructType,
    *,
    pinned: Collection[str] = (),
    is_taken: Callable[[str], bool] | None = None,
) -> Growth | None:
    """How the flow's schema grows by the schemas of these ids, one after the other; None where it does not.

    Args:
        flow: The flow, with its schema as it is.
        spark: Any session.
        writers: The ids.
        table: The columns of the table.
        pinned: Names, in lower case, of columns that stay as they are.
        is_taken: Whether a new column cannot have a name; ``conform.is_taken``, if it is not given.

    Raises:
        SchemaRegistryFailed: The registry does not say.
    """
    bounds = GrowthBounds(pinned, table, is_taken or (lambda name: conform.is_taken(flow, name)))
    all_of_them = Growth(flow.evolving_format.schema_as_declared(), (), is_full=False)
    for writer in writers:
        found = require_capability(flow.value_format, WritersFormat).writer_columns(spark, writer)
        growth = grown(all_of_them.schema, found, {}, flow.policies, bounds)
        changes = (*all_of_them.changes, *growth.changes)
        all_of_them = Growth(growth.schema, changes, is_full=all_of_them.is_full or growth.is_full)
    return all_of_them if all_of_them.changes else None
