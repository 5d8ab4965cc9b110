"""Of a flow whose records are exploded: which rows Kafka's records come to, held against those that are there."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from pyspark.sql import Window
from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.engine.batch.pipeline import decoded
from rivermouth.rows import explode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.spec import Flow

_THERE: Final = "table + letters"
_IS_WHOLE: Final = f"{names.POSITION} < 0"


def elements(held: DataFrame, flow: Flow) -> DataFrame:
    """Kafka's records as rows, by today's rules: ``__topic``, ``__partition``, ``__offset`` and ``__position``."""
    place = F.greatest(names.POSITION, F.lit(explode.WHOLE)).alias(names.POSITION)
    return decoded(held, flow).select(*names.IN_TABLE, place)


def as_they_were(places: DataFrame) -> DataFrame:
    """Rows with how often each is in Kafka, the table and the dead letters, as records were exploded when they came.

    A record may have been refused as a whole, and be exploded by today's rules, or the other way round. Then its rows
    in the table and the dead letters show how it was processed. A dead letter that is a whole record counts for all
    elements that are in no other place.

    Args:
        places: One row for each element or whole record: its identity, and ``kafka``, ``table``, ``letters`` and
            ``erased``.

    Returns:
        The same columns.
    """
    record = Window.partitionBy(*names.IN_TABLE)
    said = {
        "__whole": f"{_IS_WHOLE} AND {_THERE} > 0",
        "__apart": f"NOT ({_IS_WHOLE}) AND {_THERE} > 0",
        "__whole_now": f"{_IS_WHOLE} AND kafka > 0",
        "__visible": "kafka > 0",
    }
    marked = places.withColumns({name: F.max(F.expr(sql)).over(record) for name, sql in said.items()})
    kafka = (
        f"CASE WHEN __visible AND __whole THEN IF({_IS_WHOLE}, 1, IF({_THERE} > 0, IF(__whole_now, 1, kafka), 0)) "
        f"WHEN __whole_now AND __apart THEN IF({_IS_WHOLE}, 0, 1) ELSE kafka END"
    )
    changed = marked.withColumn("kafka", F.expr(kafka))
    return changed.where("kafka + table + letters + erased > 0").drop(*said)
