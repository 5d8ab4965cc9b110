"""The tables in which a flow looks up columns: each at its newest version, in memory until it has a newer one."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from pyspark.sql import functions as F  # noqa: N812 - the field's own name for it

from rivermouth import names
from rivermouth.errors import LookupInvalid, LookupKeysTwice, LookupTableMissing, LookupTooLarge
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals import delta_snapshot
from rivermouth.ports.internals.prepared_plan import planned
from rivermouth.ports.lake.lake_files import PlacedFiles
from rivermouth.rows import lookups

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.ports.internals.delta_snapshot import TableState
    from rivermouth.spec import Flow, Lookup


@dataclass(frozen=True, slots=True)
class _Loaded:
    """One version of a table.

    Attributes:
        table_id: Delta's UUID of the table.
        version: The version.
        cached: Its columns, cached.
        rows: The same, planned.
    """

    table_id: str
    version: int
    cached: DataFrame
    rows: DataFrame


@dataclass(slots=True)
class LookupTables:
    """The tables of a flow's lookups, as its batches see them.

    Attributes:
        cached: Whether their rows stay in memory until ``close``; else each query reads them.
    """

    cached: bool = True
    _loaded: list[_Loaded] = field(default_factory=list)

    @property
    def versions(self) -> tuple[int, ...]:
        """The versions that are in memory, in the order of the lookups."""
        return tuple(each.version for each in self._loaded)

    def frames(self, spark: SparkSession, flow: Flow) -> list[DataFrame]:
        """The rows of each table, as ``lookups.join`` wants them: of the version of the last ``refresh``.

        Raises:
            RivermouthError: As ``refresh``.
        """
        if len(self._loaded) != len(flow.lookup):
            self.refresh(spark, flow)
        return [each.rows for each in self._loaded]

    def refresh(self, spark: SparkSession, flow: Flow) -> bool:
        """Reads each table again that has a new version; returns whether one had.

        Raises:
            LookupTableMissing: A table does not exist.
            LookupInvalid: A table lost a column, or has it with another type than before.
            LookupKeysTwice: Several rows of a table have the same key.
            LookupTooLarge: A table has too many rows.

        Guarantees:
            Reads only. What is in memory stays as it was if a table cannot be read.
        """
        before = self._loaded if len(self._loaded) == len(flow.lookup) else [None] * len(flow.lookup)
        found: list[_Loaded] = []
        for index, (lookup, known) in enumerate(zip(flow.lookup, before, strict=True)):
            state = state_of(spark, flow, lookup)
            if known is not None and (state.table_id, state.version) == (known.table_id, known.version):
                found.append(known)
                continue
            if known is not None:
                _check_types(flow, index, state, known.cached.schema)
            found.append(_load(spark, flow, index, state, cached=self.cached))
        changed = found != self._loaded
        for old in (each for each in self._loaded if each not in found):
            old.cached.unpersist()
        self._loaded = found
        return changed

    def close(self) -> None:
        """Frees the memory of all tables."""
        for each in self._loaded:
            each.cached.unpersist()
        self._loaded = []


def state_of(spark: SparkSession, flow: Flow, lookup: Lookup) -> TableState:
    """The newest version of a lookup's table.

    Raises:
        LookupTableMissing: It does not exist.
    """
    if not delta_table.exists(PlacedFiles(spark), lookup.location):
        fix = "name a table that exists: lookup: {table: schema.table, ...}"
        fix = fix if lookup.owner is None else f"rivermouth run {lookup.owner}"
        raise LookupTableMissing(flow=flow.name, table=lookup.table, location=lookup.location, fix=fix)
    return delta_snapshot.table_state(spark, lookup.location)


def selected(rows: DataFrame, index: int, lookup: Lookup) -> DataFrame:
    """The columns of a lookup's table that its join needs, of the rows that can be found."""
    if lookup.where is not None:
        rows = rows.where(names.as_sql(lookup.where, rows.columns))
    wanted = lookups.table_columns(index, lookup)
    rows = rows.select(*(F.col(names.quoted(column)).alias(name) for name, column in wanted.items()))
    return rows.where(" AND ".join(f"{key} IS NOT NULL" for key in lookups.key_names(index, lookup)))


def _load(spark: SparkSession, flow: Flow, index: int, state: TableState, *, cached: bool) -> _Loaded:
    lookup, version = flow.lookup[index], state.version
    rows = selected(spark.read.format("delta").option("versionAsOf", version).load(lookup.location), index, lookup)
    keys = lookups.key_names(index, lookup)
    counted = rows.agg(F.count(F.lit(1)), F.count_distinct(F.struct(*keys))).first()
    number, different = counted if counted is not None else (0, 0)
    if number > lookup.max_rows:
        raise LookupTooLarge(
            flow=flow.name, table=lookup.table, version=version, rows=number, max_rows=lookup.max_rows
        ).about("lookup", index, "max_rows")
    if number > different:
        listed = ", ".join(map(names.quoted, lookup.on.values()))
        chosen = "" if lookup.where is None else f" WHERE {lookup.where}"
        place = f"delta.`{lookup.location}`{chosen}"
        query = f"SELECT {listed}, count(*) FROM {place} GROUP BY {listed} HAVING count(*) > 1"  # noqa: S608 - to be read
        raise LookupKeysTwice(
            flow=flow.name,
            table=lookup.table,
            version=version,
            rows=number,
            keys=different,
            columns=", ".join(lookup.on.values()),
            fix=f"{query}; of a table with history choose the newest rows by where: __END_AT IS NULL",
        ).about("lookup", index, "table")
    held = rows.persist() if cached else rows
    return _Loaded(state.table_id, version, held, planned(held))


def _check_types(flow: Flow, index: int, state: TableState, known: StructType) -> None:
    lookup = flow.lookup[index]
    for name, column in lookups.table_columns(index, lookup).items():
        before = known[name].dataType.simpleString()
        now = state.columns[column].dataType.simpleString() if column in state.columns.names else None
        if now != before:
            became = f"is {now} now" if now else "is not there any more"
            raise LookupInvalid(
                flow=flow.name,
                table=lookup.table,
                detail=f"its column {column}, which was {before}, {became}",
                fix=f"rivermouth plan {flow.name}",
            ).about("lookup", index)
