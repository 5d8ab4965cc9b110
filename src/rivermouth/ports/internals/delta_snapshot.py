"""What the newest snapshot of a Delta table knows, without a job where that is possible."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from rivermouth.decoding.jvm.java_objects import java_class, java_session, jvm

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType


SMALL_BYTES: Final = 16 << 20
"""A table of this size is read faster as a whole than by a job that finds out which files have the keys."""
_DELTA: Final = "org.apache.spark.sql.delta"
_CHECKSUM_FILES: Final = "rivermouth.internals.merge.ChecksumFiles"


def table_state(spark: SparkSession, location: str) -> TableState:
    """What the table's newest snapshot says: id, version, columns, and transaction numbers by application."""
    _, snapshot = _newest(spark, location)
    from pyspark.sql.types import StructType  # noqa: PLC0415 - only for the annotation elsewhere

    # As one text: each value alone would be a call of the JVM.
    metadata = json.loads(snapshot.metadata().json())["metaData"]
    return TableState(
        table_id=metadata["id"],
        version=snapshot.version(),
        columns=StructType.fromJson(json.loads(metadata["schemaString"])),
        partition_by=tuple(metadata.get("partitionColumns", ())),
        properties=metadata.get("configuration", {}),
        transactions=_Transactions(snapshot),
        comment=metadata.get("description") or "",
    )


def clustering_columns(spark: SparkSession, location: str) -> tuple[str, ...] | None:
    """Names of the columns by which the table's newest version is clustered; None where it is not clustered."""
    _, snapshot = _newest(spark, location)
    found = clustering_of(spark, snapshot)
    if found.isEmpty():
        return None
    columns = found.get().columnNames()
    return tuple(".".join(_texts(columns.apply(place).fieldNames())) for place in range(columns.size()))


def clustering_of(spark: SparkSession, snapshot: Any) -> Any:
    """The clustering columns of a snapshot, as an option of Scala's with what Delta's writer takes."""
    return java_class(spark, f"{_DELTA}.skipping.clustering.ClusteredTableUtils").getClusterBySpecOptional(snapshot)


def _texts(found: Any) -> list[str]:
    return [str(each) for each in found]


def knows_property(spark: SparkSession, name: str, value: str) -> bool:
    """Whether Delta has a table property of this name.

    Raises:
        IllegalArgumentException: It cannot have that value.
    """
    from pyspark.errors import AnalysisException  # noqa: PLC0415 - loads Spark

    configs, to_scala = java_class(spark, f"{_DELTA}.DeltaConfigs"), jvm(spark).PythonUtils
    try:
        configs.validateConfigurations(to_scala.toScalaMap({name: value}))
    except AnalysisException as error:
        if error.getCondition() != "DELTA_UNKNOWN_CONFIGURATION":
            raise
        return False
    return True


def rows_of_files(spark: SparkSession, location: str, version: int, added: Sequence[str]) -> DataFrame:
    """The rows of data files that are named, without a job that looks for them in the log.

    Args:
        spark: A session.
        location: The table's folder.
        version: The one whose columns the rows have.
        added: The actions that added the files, as the log has them.

    Raises:
        Py4JJavaError: The version can no longer be read.
    """
    log, snapshot = _newest(spark, location)
    none = java_class(spark, "scala.Option").empty()
    if snapshot.version() != version:
        snapshot = log.getSnapshotAt(version, none, none, False)
    read = java_class(spark, f"{_DELTA}.actions.Action").fromJson
    files = jvm(spark).PythonUtils.toSeq([read(line) for line in added])
    return _rows(spark, log, snapshot, files)


def newest_rows(spark: SparkSession, location: str, *, max_bytes: int | None = None) -> DataFrame:
    """The rows of the newest version, without a job that looks for its files where its checksum lists them.

    Delta skips none of the listed files by their statistics.

    Args:
        spark: A session.
        location: The table's folder.
        max_bytes: Size of a table up to which that is so, in bytes; None: of each size, for a reader of all files.
    """
    log, snapshot = _newest(spark, location)
    files = java_class(spark, _CHECKSUM_FILES).all(snapshot)
    if files is None or (max_bytes is not None and snapshot.checksumOpt().get().tableSizeBytes() > max_bytes):
        return spark.read.format("delta").load(location)
    return _rows(spark, log, snapshot, files)


def _rows(spark: SparkSession, log: Any, snapshot: Any, files: Any) -> DataFrame:
    """The rows of files of a snapshot, which are a sequence of Scala's."""
    from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame  # noqa: PLC0415 - needs no JVM elsewhere

    none = java_class(spark, "scala.Option").empty()
    return ClassicDataFrame(log.createDataFrame(snapshot, files, False, none), spark)


def _newest(spark: SparkSession, location: str) -> tuple[Any, Any]:
    """Delta's log of a table, and its newest snapshot."""
    log = java_class(spark, f"{_DELTA}.DeltaLog").forTable(java_session(spark), location)
    none = java_class(spark, "scala.Option").empty()
    return log, log.update(False, none, none)


@dataclass(frozen=True, slots=True)
class TableState:
    """A table's newest snapshot, as far as the ledger needs it.

    Attributes:
        table_id: Delta's UUID of the table.
        version: The snapshot's version.
        columns: The table's columns.
        partition_by: Names of its partition columns.
        properties: Its table properties.
        transactions: Newest transaction number by application id. Where the version's checksum does not list them,
            the first look costs three Spark jobs.
        comment: Comment on the table; empty without one.
    """

    table_id: str
    version: int
    columns: StructType
    partition_by: tuple[str, ...]
    properties: Mapping[str, str]
    transactions: Mapping[str, int]
    comment: str = ""


def _mapping(found: Any) -> dict[str, Any]:
    """A map of Scala's."""
    keys = found.keysIterator()
    pairs: dict[str, Any] = {}
    while keys.hasNext():
        key = keys.next()
        pairs[key] = found.apply(key)
    return pairs


def _members(found: Any) -> Iterator[Any]:
    """Those of a sequence of Scala's."""
    members = found.iterator()
    while members.hasNext():
        yield members.next()


class _Transactions(Mapping[str, int]):
    """A snapshot's transaction numbers, read when first asked for.

    Delta rebuilds the table's state for them. A version's checksum has all of them, if it has them
    (https://github.com/delta-io/delta/blob/master/PROTOCOL.md#version-checksum-file).
    """

    def __init__(self, snapshot: Any) -> None:
        self._snapshot = snapshot

    def __getitem__(self, app_id: str) -> int:
        return self._numbers[app_id]

    def __iter__(self) -> Iterator[str]:
        return iter(self._numbers)

    def __len__(self) -> int:
        return len(self._numbers)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        checksum = self._snapshot.checksumOpt()
        listed = None if checksum.isEmpty() else checksum.get().setTransactions()
        if listed is None or listed.isEmpty():
            return _mapping(self._snapshot.transactions())
        return {each.appId(): each.version() for each in _members(listed.get())}
