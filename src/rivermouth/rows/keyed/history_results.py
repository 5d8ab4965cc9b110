"""What the points of a history come to: rows to write, facts to remember, and changes that were not merged."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.rows.keyed import history
from rivermouth.rows.keyed.history import AT, HAS_DELETE, HAS_UPDATE, KIND, NEW, ROW, START, TOMBSTONE, ExistingVersions

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame

    from rivermouth.rows.keyed.change_order import ChangeOrder


def written(found: DataFrame, columns: Sequence[str], order: ChangeOrder) -> DataFrame:
    """The rows by which the table differs from ``found``, as ``points`` returns it.

    Returns:
        The table's columns and ``__delete``: whether the row of that key and start goes.
    """
    set_now = {names.START_AT: F.col(START), names.END_AT: F.col(names.END_AT)}
    if order.tracked is not None:
        set_now[names.SEQUENCE] = F.col(AT)
    row = [set_now.get(name, F.col(f"__w.{ROW}.{names.quoted(name)}")).alias(name) for name in columns]
    comes = found.where(HAS_UPDATE).select(*row, F.lit(False).alias(names.DELETE))
    kinds = {field.name: field.dataType for field in comes.schema}
    known = {names.START_AT: F.col(AT), **{key: F.col(names.quoted(key)) for key in order.keys}}
    gone = [known.get(name, F.lit(None).cast(kinds[name])).alias(name) for name in columns]
    return comes.unionByName(found.where(HAS_DELETE).select(*gone, F.lit(True).alias(names.DELETE)))


def to_remember(found: DataFrame, order: ChangeOrder) -> DataFrame:
    """What of ``found``, as ``points`` returns it, no row of the table will tell: key, place and coordinates.

    Besides there are ``__truncate``, false, ``__kind``, and where columns are tracked ``__row``, a version's row.
    """

    def of(one: str, kind: str) -> DataFrame:
        # Keys may be coordinates.
        plain = dict.fromkeys([*order.keys, *order.columns])
        parts = [F.col(f"{one}.{ROW}.{names.quoted(name)}").alias(name) for name in plain]
        parts += [F.col(AT).alias(names.SEQUENCE), F.lit(False).alias(names.TRUNCATE), F.expr(kind).alias(KIND)]
        if order.tracked is not None:
            row = F.col(f"__w.{ROW}")
            parts.append(F.when(F.lit(one == "__w") & F.col("__up"), row).alias(ROW))
        return found.where("__fact" if one == "__w" else "__moved").select(*parts)

    return of("__w", f"__w.{KIND}").unionByName(of("__t", f"'{TOMBSTONE}'"))


def unmerged(changes: DataFrame, known: ExistingVersions, order: ChangeOrder) -> DataFrame:
    """Those of ``changes`` that have a place: neither they nor a newer record there are in the table or remembered.

    All deletions are remembered, and the versions that no row shows.
    """
    keys = [names.quoted(name) for name in dict.fromkeys([*order.keys, *order.columns])]
    there = known.versions.select(*keys, F.col(names.quoted(order.sequence or "")).alias(AT))
    if known.facts is not None:
        facts = known.facts.where(f"NOT {names.TRUNCATE} AND {KIND} <> '{TOMBSTONE}'")
        there = there.unionByName(facts.select(*keys, F.col(names.SEQUENCE).alias(AT)))
    same = f"{order.same_key('s', 'k')} AND s.{names.SEQUENCE} = k.{AT} AND {order.by_kafka('k', 's')}"
    return changes.where(f"{names.SEQUENCE} IS NOT NULL").alias("s").join(there.alias("k"), F.expr(same), "left_anti")


def unmerged_tombstones(changes: DataFrame, known: ExistingVersions, order: ChangeOrder) -> DataFrame:
    """The rows of those tombstones among ``changes`` which are not remembered, nor is a newer one at their place.

    Args:
        changes: All of the keys that have one: their places depend on these.
        known: What is known of the keys.
        order: The table's.
    """
    found = history.tombstones(changes, known, order)
    new, there = found.where(NEW).alias("s"), found.where(f"NOT {NEW}").alias("k")
    same = order.same_key(f"s.{ROW}", f"k.{ROW}")
    newer = order.by_kafka(f"k.{ROW}", f"s.{ROW}")
    return new.join(there, F.expr(f"{same} AND s.{AT} <=> k.{AT} AND {newer}"), "left_anti").select(f"{ROW}.*")
