"""Delta tables as rivermouth needs them: made with their first entry, appended to, and their log read.

The log is read as text, commit by commit, because the ledger entry is in ``commitInfo`` and Delta's own history costs a
Spark job.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from rivermouth import names
from rivermouth.ports.internals.delta_snapshot import table_state
from rivermouth.ports.lake.lake_files import PlacedFiles

if TYPE_CHECKING:
    from pyspark.sql import DataFrameWriter, SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from rivermouth.domain.delta.merge_report import MergeReport
    from rivermouth.domain.delta.table_transaction import TableTransaction
    from rivermouth.ports.lake.lake_files import LakeFiles

_COMMIT_FILE = re.compile(r"^(\d{20})\.json$")
# As Hadoop's and our own log stores name them, with their checksums.
_TEMPORARY_FILE = re.compile(r"^\.+\d{20}\.json\..+\.tmp(\.crc)?$")
_HARMLESS: Final = frozenset({"OPTIMIZE", "VACUUM START", "VACUUM END", "SET TBLPROPERTIES", "UPGRADE PROTOCOL"})
MAPPING: Final = "delta.columnMapping.mode"
_NEEDS_MAPPING = re.compile(r"[ ,;{}()\n\t=]")
METADATA_CONF: Final = "spark.databricks.delta.commitInfo.userMetadata"


@dataclass(frozen=True, slots=True)
class Commit:
    """One commit of a Delta table, as its log has it.

    Attributes:
        version: The table's version after it.
        operation: Delta's name for what was done.
        user_metadata: The text that the writer left, or None.
        rows_written: ``numOutputRows`` of the operation's metrics; None where there is none.
        changes_data: Whether rows were added or removed, other than by rewriting the same ones.
        replaces_all: Whether its rows are all that the table has after it.
        restored_version: The version whose state a RESTORE brought back; None for other operations.
        committed_at: By the writer's clock, in seconds since the epoch; None where it does not say.
        metrics: The numbers of the operation's metrics, by Delta's names.
        merge: What a MERGE came to, where a sink has just done it; the log alone does not have it.
    """

    version: int
    operation: str
    user_metadata: str | None
    rows_written: int | None
    changes_data: bool
    replaces_all: bool = False
    restored_version: int | None = None
    committed_at: float | None = None
    metrics: Mapping[str, int] = field(default_factory=dict)
    merge: MergeReport | None = None


@dataclass(frozen=True, slots=True)
class TableLayout:
    """How a table is made.

    Attributes:
        columns: All columns in order, derived ones last.
        partition_by: Names of partition columns.
        cluster_by: Names of clustering columns.
        properties: Delta table properties.
        comment: Comment on the table.
    """

    columns: StructType
    partition_by: Sequence[str] = ()
    cluster_by: Sequence[str] = ()
    properties: Mapping[str, str] = field(default_factory=dict)
    comment: str | None = None


def exists(files: LakeFiles, location: str) -> bool:
    """Whether a Delta table lies at ``location``."""
    return bool(commit_versions(files, location)) or "_last_checkpoint" in files.names(_log(location))


def conflicts() -> tuple[type[Exception], ...]:
    """What Delta raises where somebody has committed first; its classes have no common one of their own."""
    from delta import exceptions  # noqa: PLC0415 - it imports Spark

    return tuple(getattr(exceptions, name) for name in exceptions.__all__)


def commit_versions(files: LakeFiles, location: str) -> list[int]:
    """The versions whose commit files are still in the log, ascending."""
    matches = (_COMMIT_FILE.match(name) for name in files.names(_log(location)))
    return sorted(int(match.group(1)) for match in matches if match)


def commit_file(location: str, version: int) -> str:
    """The file of the log that has the commit of a version."""
    return f"{_log(location)}/{version:020d}.json"


def actions_of(text: str) -> list[str]:
    """The actions in a file of the log, each as JSON: one a line.

    Statistics, partitions and names of columns are within it as records have them, with characters such as U+0085 and
    U+2028 that end a line for Python, and for no writer of JSON.
    """
    return [line for line in text.split("\n") if line]


def read_commit(files: LakeFiles, location: str, version: int) -> Commit | None:
    """The commit that made ``version``; None if its file is not there."""
    text = files.read(commit_file(location, version))
    if text is None:
        return None
    info: dict[str, Any] = {}
    changes_data = False
    for line in actions_of(text):
        action: dict[str, Any] = json.loads(line)
        info = action.get("commitInfo", info)
        for name in ("add", "remove"):
            changes_data = changes_data or bool(action.get(name, {}).get("dataChange"))
    operation = str(info.get("operation", "UNKNOWN"))
    metrics = {name: int(value) for name, value in info.get("operationMetrics", {}).items() if str(value).isdecimal()}
    said: Mapping[str, Any] = info.get("operationParameters", {})
    restored = said.get("version") if operation == "RESTORE" else None
    return Commit(
        version=version,
        operation=operation,
        user_metadata=info.get("userMetadata"),
        rows_written=metrics.get("numOutputRows"),
        changes_data=changes_data and operation not in _HARMLESS,
        replaces_all=said.get("mode") == "Overwrite" and not said.get("predicate"),
        restored_version=None if restored is None else int(restored),
        committed_at=info["timestamp"] / 1000 if "timestamp" in info else None,
        metrics=metrics,
    )


def table_id(files: LakeFiles, location: str) -> str | None:
    """The table's UUID, as its newest commits name it; None where none that is still there does.

    A flow's commits name it in their transaction, so that the log is not read back to where it began.
    """
    for version in reversed(commit_versions(files, location)):
        text = files.read(commit_file(location, version)) or ""
        for line in actions_of(text):
            if '"metaData"' in line and (found := json.loads(line).get("metaData")):
                return str(found["id"])
            if '"txn"' in line and (found := json.loads(line).get("txn")) and found["appId"].startswith("rivermouth/"):
                return str(found["appId"].rpartition("/")[2])
    return None


def create(spark: SparkSession, location: str, layout: TableLayout, *, metadata: str) -> None:
    """Makes the table, empty, with ``metadata`` in the commit that makes it.

    Args:
        spark: A session of this commit's own: the metadata is set in its configuration and taken out again.
        location: The table's folder.
        layout: Columns, partitions, properties.
        metadata: The text for ``userMetadata``.

    Guarantees:
        Run twice: the second call finds the table and changes nothing. Stopped half-way: there is either no
        table or a whole one with its metadata.
    """
    from delta.tables import DeltaTable  # noqa: PLC0415 - needs the session's jars

    files = PlacedFiles(spark)
    if not exists(files, location):
        _clear(files, _log(location))
    builder = DeltaTable.createIfNotExists(spark).location(location)
    for column in layout.columns:
        comment = column.metadata.get("comment")
        builder = builder.addColumn(column.name, column.dataType, comment=comment)
    for name, value in _properties(layout).items():
        builder = builder.property(name, value)
    if layout.comment:
        builder = builder.comment(layout.comment)
    if layout.partition_by:
        builder = builder.partitionedBy(*layout.partition_by)
    if layout.cluster_by:
        builder = builder.clusterBy(*map(_parsed_name, layout.cluster_by))
    spark.conf.set(METADATA_CONF, metadata)
    try:
        builder.execute()
    finally:
        spark.conf.unset(METADATA_CONF)


def _parsed_name(name: str) -> str:
    """A column's name for Delta's parser, which takes words, and paths of words, as they are."""
    return name if re.fullmatch(r"\w+([.]\w+)*", name, re.ASCII) else names.quoted(name)


def _clear(files: LakeFiles, log: str) -> None:
    """Takes away what the cut off making of a table left: Delta takes any folder of a log for a table.

    A commit that somebody else makes meanwhile stays: of files only temporary ones go, of folders only empty ones.
    """
    for name in files.names(log):
        if _TEMPORARY_FILE.match(name):
            files.delete(f"{log}/{name}")
    files.prune(f"{log}/_staged_commits")
    files.prune(log)


def empty(spark: SparkSession, location: str, transaction: TableTransaction) -> None:
    """Takes all rows out of the table in one commit with its transaction number and metadata; columns stay.

    Args:
        spark: Any session.
        location: The table's folder.
        transaction: The number and the metadata of the commit.

    Guarantees:
        As ``delta_append.append``. Older versions of the table have the rows still, as long as their files are kept.
    """
    (
        _without_rows(spark, table_state(spark, location).columns, transaction.metadata)
        .option("txnAppId", transaction.app_id)
        .option("txnVersion", transaction.app_version)
        .save(location)
    )


def redefine(spark: SparkSession, location: str, layout: TableLayout, *, metadata: str) -> None:
    """Gives a table without rows other columns and partitions, in one commit; its properties stay.

    Args:
        spark: Any session.
        location: The table's folder.
        layout: Its columns and partitions from now on.
        metadata: The text for ``userMetadata``.

    Guarantees:
        Where another writer commits after this one has begun, one of the two commits fails.
    """
    writer = _without_rows(spark, layout.columns, metadata).option("overwriteSchema", "true")
    writer.partitionBy(*layout.partition_by).save(location)


def _without_rows(spark: SparkSession, columns: StructType, metadata: str) -> DataFrameWriter:
    """Writes no rows in the place of all."""
    from rivermouth.ports.spark.local_frames import no_rows  # noqa: PLC0415 - most who import this have no Spark

    writer = no_rows(spark, columns).write.format("delta").mode("overwrite").option("userMetadata", metadata)
    # With the other word, which a session may prefer, no partition would be touched.
    return writer.option("partitionOverwriteMode", "static")


def _log(location: str) -> str:
    return f"{location.rstrip('/')}/_delta_log"


def _properties(layout: TableLayout) -> dict[str, str]:
    properties = dict(layout.properties)
    if needs_mapping(layout.columns):
        properties.setdefault(MAPPING, "name")
    return properties


def needs_mapping(columns: Iterable[StructField]) -> bool:
    """Whether a name of these columns, or within them, is one that no Parquet file can have as it is."""
    return any(_NEEDS_MAPPING.search(name) for column in columns for name in _names_in(column.name, column.dataType))


def _names_in(name: str, data_type: DataType) -> Iterator[str]:
    from pyspark.sql.types import ArrayType, MapType, StructType  # noqa: PLC0415 - as above

    yield name
    match data_type:
        case StructType():
            for field in data_type.fields:
                yield from _names_in(field.name, field.dataType)
        case ArrayType():
            yield from _names_in("", data_type.elementType)
        case MapType():
            yield from _names_in("", data_type.valueType)
