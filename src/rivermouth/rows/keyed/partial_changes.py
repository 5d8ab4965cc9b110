"""What a change of a row in parts brings: its columns, and the place of each value."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.keyed.change_order import ChangeOrder, order_of
from rivermouth.schemas.column_types import nullable

if TYPE_CHECKING:
    from rivermouth.spec import Flow


def places_type(order: ChangeOrder, sequence: T.DataType) -> T.MapType:
    """The type of ``__places``: by column the place of its value, where the row's own is another.

    Args:
        order: The table's.
        sequence: The type of its sequence; not looked at without ``sequence_by``.
    """
    kinds: dict[str, T.DataType] = {
        names.SEQUENCE: sequence,
        order.topic: T.StringType(),
        order.partition: T.IntegerType(),
        order.offset: T.LongType(),
        order.timestamp: T.TimestampType(),
        order.epoch: T.IntegerType(),
    }
    place = T.StructType([T.StructField(name, nullable(kinds[name])) for name in place_fields(order)])
    return T.MapType(T.StringType(), place)


def with_places(rows: DataFrame, flow: Flow) -> DataFrame:
    """Changes with ``__places``, which says what each of them brings; rows of other tables as they are.

    Null: all of its columns, or all that are not null. Else it has an entry, without a place, for each listed column:
    each that the change brings, or, of formats that with_places it, each that it leaves out.
    """
    order = None if flow.keyed is None else order_of(flow, ())
    leaves = flow.whole_columns is not None
    if order is None or flow.keyed is None or not (flow.keyed.partial_updates or leaves):
        return rows
    kind = places_type(order, rows.schema[names.SEQUENCE].dataType)
    listed = names.UNAVAILABLE if leaves else flow.keyed.listed_by
    if listed is None:
        return rows.withColumn(names.PLACES, F.lit(None).cast(kind))
    wanted = F.array_compact(F.array_distinct(F.transform(names.quoted(listed), F.lower)))
    nowhere = F.lit(None).cast(kind.valueType)
    entries = F.transform(wanted, lambda name: F.struct(name.alias("key"), nowhere.alias("value")))
    return rows.withColumn(names.PLACES, F.map_from_entries(entries))


def place_fields(order: ChangeOrder) -> list[str]:
    """The fields of a place: those that ``ChangeOrder`` compares, by the names that it knows."""
    sequence = [names.SEQUENCE] if order.sequence else []
    return [*sequence, *order.place, order.timestamp, order.epoch]
