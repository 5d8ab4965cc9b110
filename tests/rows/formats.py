"""What the tests of the formats share: values as envelope rows, and what became of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import reduce
from operator import itemgetter
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from rivermouth import names


@dataclass(frozen=True, slots=True)
class Outcome:
    """A value after decode and explain; ``reason`` is None where it was decoded."""

    data: dict[str, Any] | None
    reason: str | None = None
    field: str | None = None
    message: str | None = None


def frame(spark, values):
    """Envelope rows with these values, offsets counting from 0, and a column of somebody else."""
    rows = spark.createDataFrame(list(enumerate(values)), f"{names.OFFSET} bigint, {names.VALUE} binary")
    others = {
        names.TOPIC: F.lit("orders"),
        names.PARTITION: F.lit(0),
        names.TIMESTAMP: F.timestamp_micros(F.lit(0)),
        names.TIMESTAMP_TYPE: F.lit(0),
        names.HEADERS: F.lit(None).cast("array<struct<key:string,value:binary>>"),
        names.KEY: F.lit(None).cast("binary"),
        "mine": F.col(names.OFFSET) * 2,
    }
    return rows.withColumns(others).select(*names.ENVELOPE, "mine")


def outcomes(spark, form, values):
    """What ``decode`` and ``explain`` made of the values, in their order."""
    decoded = form.decode(frame(spark, values))
    # What became of a refused value means nothing, and may be nothing that Python knows.
    meant = F.when(F.col(names.DECODED), F.col(names.DATA))
    # Put in order here: Spark would decode once more, to find out where to part the rows.
    found = sorted(decoded.select(names.OFFSET, names.DECODED, meant).collect(), key=itemgetter(0))
    assert [row[0] for row in found] == list(range(len(values)))
    refused = {row[0] for row in found if not row[1]}
    told = reasons(form, decoded) if refused else {}
    assert refused == set(told)
    made = []
    for offset, is_decoded, data in found:
        columns = data.asDict(True) if is_decoded else None
        if values[offset] is None:
            assert set(columns.values()) == {None}
            columns = None
        made.append(Outcome(columns, *told.get(offset, ())))
    return made


def reasons(form, decoded):
    """Reason, field and message by the offset of what was refused."""
    explained = form.explain(decoded.where(~F.col(names.DECODED)))
    rows = explained.select(names.OFFSET, names.REASON, names.FIELD, names.MESSAGE).collect()
    return {offset: tuple(told) for offset, *told in rows}


def outcome(spark, form, value):
    """``outcomes`` for one value."""
    return outcomes(spark, form, [value])[0]


def of_several(spark, cases):
    """What several formats with the same columns made of a value each, in one Spark job.

    Args:
        spark: The session.
        cases: Pairs of a format and a value. Equal formats share a frame.
    """
    forms = {form.model_dump_json(by_alias=True): form for form, _ in cases}
    frames = []
    for form in forms.values():
        mine = [(place, value) for place, (other, value) in enumerate(cases) if other == form]
        rows = spark.createDataFrame(mine, f"place int, {names.VALUE} binary").coalesce(1)
        told = form.explain(form.decode(rows))
        frames.append(told.select("place", names.DECODED, names.DATA, names.REASON, names.FIELD, names.MESSAGE))
    found = {row[0]: tuple(row)[1:] for row in reduce(DataFrame.unionAll, frames).collect()}
    made = []
    for place in range(len(cases)):
        decoded, data, *told = found[place]
        made.append(Outcome(data.asDict(True)) if decoded else Outcome(None, *told))
    return made
