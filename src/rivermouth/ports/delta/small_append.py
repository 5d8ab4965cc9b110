"""A few rows appended to a Delta table on a local disk without Spark, whose writer takes seconds in a new JVM."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rivermouth.ports.delta import delta_table
from rivermouth.ports.lake.lake_files import is_local_disk, local_path
from rivermouth.ports.spark.local_frames import arrow_table, few_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType

    from rivermouth.ports.lake.lake_files import LakeFiles

_TRIES: Final = 20
_INTERVAL: Final = "delta.checkpointInterval"
_DELTAS_INTERVAL: Final = 10
_FIRST_READER, _PLAIN_WRITER = 1, 2
_ABOUT_THE_TABLE: Final = frozenset({"protocol", "metaData", "domainMetadata"})


def append_rows(
    spark: SparkSession, files: LakeFiles, location: str, rows: Sequence[Mapping[str, Any]], columns: StructType
) -> None:
    """Appends rows in one commit and one file: without Spark where that can be done, else by Spark.

    Args:
        spark: Any session.
        files: Where the table lies.
        location: The table's folder; it is there.
        rows: As of ``append_few``.
        columns: Those of the table.

    Guarantees:
        Stopped half-way: no commit, and a file that no version names.
    """
    if not append_few(files, location, rows, columns):
        few_rows(spark, rows, columns).coalesce(1).write.format("delta").mode("append").save(location)


def append_few(files: LakeFiles, location: str, rows: Sequence[Mapping[str, Any]], columns: StructType) -> bool:
    """Appends rows in one commit, if this can be done without Spark: see Delta's protocol, "append".

    It cannot where the table is not on this machine's disk, has a feature that writers must know or other columns, and
    where a checkpoint is due, which Spark makes.

    Args:
        files: Where the table lies.
        location: The table's folder.
        rows: Values by column; structs as mappings too.
        columns: Those of the table.

    Returns:
        Whether it was done; else nothing was.

    Guarantees:
        Stopped half-way: no commit, and a file that no version names. Of two at once both are in the table.
    """
    versions = delta_table.commit_versions(files, location) if is_local_disk(location) else []
    if not versions or not _takes(files, location, versions, columns):
        return False
    data = _write(location, rows, columns)
    version = versions[-1] + 1
    for _ in range(_TRIES):
        if files.create(delta_table.commit_file(location, version), _actions(data, len(rows), version)):
            return True
        if _says_more(files, location, version):
            break
        version += 1
    (local_path(location) / data["path"]).unlink()
    return False


def _takes(files: LakeFiles, location: str, versions: Sequence[int], columns: StructType) -> bool:
    """Whether the table is as the newest checksum says, takes plain appends, and no checkpoint is due."""
    names = set(files.names(f"{location}/_delta_log"))
    known = next((each for each in reversed(versions) if f"{each:020d}.crc" in names), None)
    if known is None or any(_says_more(files, location, each) for each in versions if each > known):
        return False
    checksum = json.loads(files.read(f"{location}/_delta_log/{known:020d}.crc") or "{}")
    protocol, metadata = checksum.get("protocol", {}), checksum.get("metadata", {})
    if (protocol.get("minReaderVersion"), protocol.get("minWriterVersion")) != (_FIRST_READER, _PLAIN_WRITER):
        return False
    interval = int(metadata.get("configuration", {}).get(_INTERVAL, _DELTAS_INTERVAL))
    is_due = (versions[-1] + 1) % interval == 0
    return not is_due and json.loads(metadata.get("schemaString", "{}")) == columns.jsonValue()


def _says_more(files: LakeFiles, location: str, version: int) -> bool:
    """Whether a commit changes more than rows."""
    text = files.read(delta_table.commit_file(location, version)) or ""
    return any(_ABOUT_THE_TABLE & json.loads(line).keys() for line in delta_table.actions_of(text))


def _write(location: str, rows: Sequence[Mapping[str, Any]], columns: StructType) -> dict[str, Any]:
    """Writes a file of these rows; the action that adds it."""
    import pyarrow.parquet as pq  # noqa: PLC0415 - for those who write alone

    path = local_path(location) / f"part-00000-{uuid.uuid4()}-c000.zstd.parquet"
    pq.write_table(arrow_table(rows, columns), path, compression="zstd")
    return {
        "path": path.name,
        "partitionValues": {},
        "size": path.stat().st_size,
        "modificationTime": int(path.stat().st_mtime * 1000),
        "dataChange": True,
        "stats": json.dumps({"numRecords": len(rows)}),
    }


def _actions(data: Mapping[str, Any], rows: int, version: int) -> str:
    info = {
        "timestamp": int(time.time() * 1000),
        "operation": "WRITE",
        "operationParameters": {"mode": "Append", "partitionBy": "[]"},
        "readVersion": version - 1,
        "isBlindAppend": True,
        "operationMetrics": {"numFiles": "1", "numOutputRows": str(rows), "numOutputBytes": str(data["size"])},
        "engineInfo": "rivermouth",
        "txnId": str(uuid.uuid4()),
    }
    return "".join(f"{json.dumps(each)}\n" for each in ({"commitInfo": info}, {"add": data}))
