"""Snapshots that are no messages, one by one: each a frame of a row that has all rows of its source as one value."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Protocol

from rivermouth.decoding.jvm.java_objects import jvm
from rivermouth.errors import SnapshotSourceUnfit
from rivermouth.ports.delta import delta_table
from rivermouth.ports.internals.sessions import hadoop_conf

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.domain.project.snapshot_location import SnapshotPlace
    from rivermouth.ports.lake.lake_files import LakeFiles

# As strict JSON reads them: nothing of a time is lost.
_WRITTEN: Final = {
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
    "timeZone": "UTC",
    "ignoreNullFields": "false",
}
_FULL_LINES: Final = r"filter(split(CAST(content AS STRING), '\n'), line -> NOT line RLIKE r'^[ \t\r]*$')"
_LINES: Final = f"CAST(concat('[', array_join({_FULL_LINES}, ','), ']') AS BINARY)"


class Feed(Protocol):
    """Snapshots by their versions."""

    def identity(self) -> str | None:
        """What identifies it among others of the same name; None where that is not known."""

    def versions(self) -> list[int]:
        """Those that can be read, ascending."""

    def beginning(self) -> int:
        """The first version that was ever there, or that is still there where older ones are gone for good."""

    def end(self) -> int:
        """The number behind all that is there, whether it is a snapshot or not."""

    def frame(self, spark: SparkSession, version: int) -> DataFrame:
        """One row: ``value`` (binary) and ``timestamp``."""


@dataclass(frozen=True, slots=True)
class _Version:
    """What is kept of a commit: its metadata may have kilobytes.

    Attributes:
        changes_rows: Whether rows were added or removed, other than by rewriting the same ones.
        committed_at: In seconds since the epoch; None where the commit does not say.
    """

    changes_rows: bool
    committed_at: float | None


class TableVersions:
    """The versions of a Delta table that changed its rows.

    Args:
        place: The table.
        files: Reads its log.
        reader: Name of the flow that reads it, for errors.
    """

    def __init__(self, place: SnapshotPlace, files: LakeFiles, reader: str) -> None:
        self._place = place
        self._files = files
        self._reader = reader
        self._known: dict[int, _Version] = {}

    def identity(self) -> str | None:
        """The table's id."""
        return delta_table.table_id(self._files, self._place.location)

    def versions(self) -> list[int]:
        """The first one that can be read, and those behind it that changed rows.

        Raises:
            SnapshotSourceUnfit: There is no table.
        """
        there = self._there()
        self._known = {each: known for each in there if (known := self._known.get(each) or self._read(each))}
        changed = [each for each, known in self._known.items() if known.changes_rows]
        return sorted({there[0], *changed})

    def beginning(self) -> int:
        """The first version that can be read."""
        return self._there()[0]

    def end(self) -> int:
        """The number behind the newest version, which may have changed no row.

        The log forgets such versions too: a ledger that stays at the last change of a quiet table would take them for
        lost snapshots.
        """
        return self._there()[-1] + 1

    def frame(self, spark: SparkSession, version: int) -> DataFrame:
        """One row: all rows of the version as a JSON array, and when it was committed.

        Raises:
            SnapshotSourceUnfit: The version is too large, or its files are gone.
        """
        rows = spark.read.format("delta").option("versionAsOf", version).load(self._place.location)
        self._check(spark, rows, version)
        known = self._known.get(version) or self._read(version)
        at = known.committed_at if known else None
        return _as_document(rows, None if at is None else dt.datetime.fromtimestamp(at, dt.UTC))

    def _read(self, version: int) -> _Version | None:
        found = delta_table.read_commit(self._files, self._place.location, version)
        return None if found is None else _Version(found.changes_data, found.committed_at)

    def _there(self) -> list[int]:
        """The versions that the log can make: from its first commit, or its first checkpoint if that is gone."""
        commits = delta_table.commit_versions(self._files, self._place.location)
        if not commits:
            fix = "name the table as schema.table, or by its path"
            raise SnapshotSourceUnfit(flow=self._reader, place=self._place.shown, detail="there is no table", fix=fix)
        if commits[0] == 0:
            return commits
        names = self._files.names(f"{self._place.location}/_delta_log")
        whole = sorted(int(name[:20]) for name in names if ".checkpoint." in name and name[:20].isdigit())
        first = next((each for each in whole if each >= commits[0] - 1), commits[-1])
        return [each for each in commits if each >= first] or commits[-1:]

    def _check(self, spark: SparkSession, rows: DataFrame, version: int) -> None:
        paths = rows.inputFiles()
        found = [_size(spark, each) for each in paths]
        sizes = [each for each in found if each is not None]
        if len(sizes) < len(found):
            raise SnapshotSourceUnfit(
                flow=self._reader,
                place=f"version {version} of {self._place.shown}",
                detail=f"{len(found) - len(sizes)} of its {len(found)} files are gone: VACUUM deleted them",
                fix=f"start behind it: starting_offsets: latest, or {{{self._place.topic}: {{0: {version + 1}}}}}",
            )
        _check_size(self._place, self._reader, f"version {version} of {self._place.shown}", sum(sizes))


class Files:
    """Files whose names have a version.

    Args:
        place: Where they lie.
        files: Lists them.
        reader: Name of the flow that reads them, for errors.
    """

    def __init__(self, place: SnapshotPlace, files: LakeFiles, reader: str) -> None:
        self._place = place
        self._files = files
        self._reader = reader

    def identity(self) -> str:
        """Another path is another topic."""
        return self._place.file_id

    def versions(self) -> list[int]:
        """The versions of the files that are there.

        Raises:
            SnapshotSourceUnfit: Two files have one version.
        """
        return sorted(self._names())

    def beginning(self) -> int:
        """0: that an older file is not there says nothing."""
        return 0

    def end(self) -> int:
        """The number behind the version of the last file."""
        versions = self.versions()
        return versions[-1] + 1 if versions else self.beginning()

    def frame(self, spark: SparkSession, version: int) -> DataFrame:
        """One row: the file's content, or its rows as a JSON array, and when it was changed last.

        Raises:
            SnapshotSourceUnfit: The file is too large.
        """
        name = self._names()[version]
        path = f"{self._place.folder}/{name}"
        _check_size(self._place, self._reader, f"file {name}", _size(spark, path) or 0)
        if name.endswith(".parquet"):
            return _as_document(spark.read.parquet(path), _changed_at(spark, path))
        content = spark.read.format("binaryFile").option("pathGlobFilter", "*").load(path)
        if name.endswith(".json"):
            return content.selectExpr("content AS value", "modificationTime AS timestamp")
        # What is no text is refused as it is.
        lines = f"CASE WHEN is_valid_utf8(CAST(content AS STRING)) THEN {_LINES} ELSE content END"
        return content.selectExpr(f"{lines} AS value", "modificationTime AS timestamp")

    def _names(self) -> dict[int, str]:
        found: dict[int, str] = {}
        for name in self._files.names(self._place.folder):
            version = self._place.version_of(name)
            if version is None:
                continue
            if version in found:
                first, second = sorted((found[version], name))
                raise SnapshotSourceUnfit(
                    flow=self._reader,
                    place=self._place.shown,
                    detail=f"{first} and {second} have one version, {version}",
                    fix=f"mv {second} another-folder/",
                )
            found[version] = name
        return found


def _as_document(rows: DataFrame, at: dt.datetime | None) -> DataFrame:
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - status needs no Spark

    made = rows.agg(F.to_json(F.collect_list(F.struct("*")), _WRITTEN).cast("binary").alias("value"))
    time = "CAST(NULL AS TIMESTAMP)" if at is None else f"timestamp_micros({int(at.timestamp() * 1_000_000)})"
    return made.selectExpr("value", f"{time} AS timestamp")


def _check_size(place: SnapshotPlace, reader: str, what: str, size_bytes: int) -> None:
    if size_bytes <= place.max_bytes:
        return
    raise SnapshotSourceUnfit(
        flow=reader,
        place=what,
        detail=f"it has {size_bytes:,} bytes on storage, and at most {place.max_bytes:,} are read at once",
        fix=f"where a worker has the memory for it: source: {{..., max_bytes: {size_bytes}}}",
    )


def _status(spark: SparkSession, path: str) -> Any:
    java = jvm(spark)
    found = java.org.apache.hadoop.fs.Path(java.java.net.URI.create(path) if "%" in path else path)
    files = found.getFileSystem(hadoop_conf(spark))
    return files.getFileStatus(found) if files.exists(found) else None


def _size(spark: SparkSession, path: str) -> int | None:
    status = _status(spark, path)
    return None if status is None else int(status.getLen())


def _changed_at(spark: SparkSession, path: str) -> dt.datetime:
    return dt.datetime.fromtimestamp(_status(spark, path).getModificationTime() / 1000, dt.UTC)
