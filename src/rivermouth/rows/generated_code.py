"""What keeps the code that Spark generates for one batch good for the next."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names

if TYPE_CHECKING:
    from pyspark.sql import Column


def by_reference(value: Column) -> Column:
    """``value``, a constant of the batch, for envelope rows.

    Spark writes numbers and times into the code of a query as they are, so that with another time the next batch
    is other code: generated, compiled and interpreted until the JVM has compiled it again, which takes longer
    than the batch. An array is handed to the code from outside. The place in it is always 0, but Spark cannot
    know that.
    """
    return F.get(F.array(value), F.when(F.col(names.PARTITION) < 0, 1).otherwise(0))
