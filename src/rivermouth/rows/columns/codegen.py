"""What keeps the code that Spark generates for one batch good for the next."""

from __future__ import annotations

from rivermouth import names


def by_reference(constant: str, column: str = names.PARTITION) -> str:
    """SQL of a constant of the batch, for envelope rows, or for others that have Kafka's partition.

    Spark writes numbers and times into the code of a query as they are, so that with another time the next batch
    is other code: generated, compiled and interpreted until the JVM has compiled it again, which takes longer
    than the batch. An array is handed to the code from outside. The place in it is always 0, but Spark cannot
    know that.

    Args:
        constant: SQL that does not depend on the row.
        column: The column with the partition, an int that is never negative.
    """
    return f"get(array({constant}), CASE WHEN {column} < 0 THEN 1 ELSE 0 END)"
