"""A lake's small files read without a Spark session, wherever the lake lies."""

from __future__ import annotations

import threading
from collections import ChainMap
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlparse

from rivermouth.domain.delta.table_files import StoredFile
from rivermouth.errors import LakeNotReadable, LakeNotWritable
from rivermouth.ports.internals.sessions import hadoop_conf
from rivermouth.ports.lake.lake_files import LocalFiles, is_local, local_path

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import SparkSession

_S3: Final = "spark.hadoop.fs.s3a."
# Words of Hadoop's S3A connector, as users write them for Spark, and those of pyarrow.
_S3_WORDS: Final = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}


class LakeReader:
    """Files on this machine and on any scheme that pyarrow knows, for reading only. Implements ``LakeFiles``.

    Several threads may share it.

    Args:
        spark_conf: The project's Spark options: ``spark.hadoop.fs.s3a.*`` name endpoint and credentials.
            Where these are not set, the environment and the machine's role are used as usual.
        timeout_s: Bound on connecting to a store and on each of its answers, in seconds.
    """

    def __init__(self, spark_conf: Mapping[str, str], *, timeout_s: float) -> None:
        self._spark_conf = spark_conf
        self._timeout_s = timeout_s
        self._local = LocalFiles()
        self._lock = threading.Lock()
        self._systems: dict[tuple[str, str], FileSystem] = {}
        # Those that are known to be there.
        self._buckets: set[str] = set()

    def read(self, path: str) -> str | None:
        """See ``LakeFiles``.

        Raises:
            LakeNotReadable: The store does not answer, or refuses.
        """
        try:
            if is_local(path):
                return self._local.read(path)
            try:
                with self._system(path).open_input_stream(_inner(path)) as stream:
                    body: bytes = stream.read()
            except FileNotFoundError:
                self._check_bucket(path)
                return None
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=path, detail=_reason(error)) from error
        return body.decode(errors="replace")

    def names(self, folder: str) -> list[str]:
        """See ``LakeFiles``.

        Raises:
            LakeNotReadable: The store does not answer, or refuses.
        """
        try:
            if is_local(folder):
                return self._local.names(folder)
            from pyarrow.fs import FileSelector  # noqa: PLC0415 - a local lake never pays for this import

            system = self._system(folder)
            found = system.get_file_info(FileSelector(_inner(folder), allow_not_found=True))
            if not found:
                self._check_bucket(folder)
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=folder, detail=_reason(error)) from error
        return sorted(info.base_name for info in found)

    def files(self, folder: str) -> list[StoredFile]:
        """All files below a folder, with their places in it; empty if there is no such folder.

        Raises:
            LakeNotReadable: The store does not answer, or refuses.
        """
        from pyarrow.fs import FileSelector, FileType  # noqa: PLC0415 - as below

        try:
            system, place = self._opened(folder)
            root = place.rstrip("/") + "/"
            found = system.get_file_info(FileSelector(place, allow_not_found=True, recursive=True))
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=folder, detail=_reason(error)) from error
        return [
            StoredFile(info.path.removeprefix(root), info.size or 0, (info.mtime_ns or 0) / 1e9)
            for info in found
            if info.type == FileType.File
        ]

    def parquet(self, path: str, columns: Sequence[str]) -> Iterator[dict[str, Any]]:
        """The rows of a Parquet file, with those of ``columns`` that it has; maps are lists of pairs.

        Raises:
            LakeNotReadable: It is not there, is no Parquet, or the store does not answer.
        """
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - a local lake never pays for this import

        try:
            system, place = self._opened(path)
            with system.open_input_file(place) as file:
                parquet = ParquetFile(file)
                there = [name for name in columns if name in parquet.schema_arrow.names]
                for batch in parquet.iter_batches(columns=there):
                    yield from batch.to_pylist()
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=path, detail=_reason(error)) from error

    def parquet_rows(self, path: str) -> int:
        """How many rows a Parquet file says that it has.

        Raises:
            LakeNotReadable: It is not there, is no Parquet, or the store does not answer.
        """
        from pyarrow.parquet import ParquetFile  # noqa: PLC0415 - a local lake never pays for this import

        try:
            system, place = self._opened(path)
            with system.open_input_file(place) as file:
                return int(ParquetFile(file).metadata.num_rows)
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=path, detail=_reason(error)) from error

    def _opened(self, path: str) -> tuple[FileSystem, str]:
        """The file system of a path, and the path as it wants it."""
        if is_local(path):
            from pyarrow.fs import LocalFileSystem  # noqa: PLC0415 - as below

            return LocalFileSystem(), str(local_path(path))
        return self._system(path), _inner(path)

    def write(self, path: str, text: str) -> NoReturn:
        """Refuses."""
        del text
        raise LakeNotWritable(lake=path, detail="it was opened for reading only")

    def create(self, path: str, text: str) -> NoReturn:
        """Refuses."""
        self.write(path, text)

    def delete(self, path: str) -> NoReturn:
        """Refuses."""
        self.write(path, "")

    def prune(self, folder: str) -> NoReturn:
        """Refuses."""
        self.write(folder, "")

    def rename(self, source: str, target: str) -> NoReturn:
        """Refuses."""
        self.write(target, source)

    def _check_bucket(self, path: str) -> None:
        """Raises LakeNotReadable if there is no such bucket: a misspelt name must not look like an empty lake."""
        from pyarrow.fs import FileType  # noqa: PLC0415 - a local lake never pays for this import

        bucket = urlparse(path).netloc
        if urlparse(path).scheme != "s3a" or bucket in self._buckets:
            return
        if self._system(path).get_file_info(bucket).type == FileType.NotFound:
            raise LakeNotReadable(place=path, detail=f"there is no bucket {bucket}")
        self._buckets.add(bucket)

    def _system(self, path: str) -> FileSystem:
        parts = urlparse(path)
        with self._lock:
            key = parts.scheme, parts.netloc
            if key not in self._systems:
                self._systems[key] = _file_system(path, self._spark_conf, self._timeout_s)
            return self._systems[key]


def reader_for(spark: SparkSession, lake: str, *, timeout_s: float = 20.0) -> LakeReader:
    """A reader with the addresses and credentials that a session has."""
    if is_local(lake):
        return LakeReader({}, timeout_s=timeout_s)
    words = dict(hadoop_conf(spark).getPropsWithPrefix("fs.s3a."))
    return LakeReader({f"{_S3}{name}": value for name, value in words.items() if value}, timeout_s=timeout_s)


def _file_system(path: str, spark_conf: Mapping[str, str], timeout_s: float) -> FileSystem:
    from pyarrow import fs  # noqa: PLC0415 - a local lake never pays for this import

    if urlparse(path).scheme != "s3a":
        return fs.FileSystem.from_uri(path)[0]
    # Each option may be set for one bucket, which then wins.
    bucket = f"{_S3}bucket.{urlparse(path).netloc}."
    said = ChainMap(_below(bucket, spark_conf), _below(_S3, spark_conf))
    words: dict[str, Any] = {ours: said[theirs] for theirs, ours in _S3_WORDS.items() if theirs in said}
    endpoint = said.get("endpoint")
    if endpoint:
        plain = said.get("connection.ssl.enabled", "true").lower() == "false"
        scheme, _, address = endpoint.rpartition("://")
        words |= {"endpoint_override": address, "scheme": scheme or ("http" if plain else "https")}
        words.setdefault("region", "us-east-1")
    return fs.S3FileSystem(
        **words,
        connect_timeout=timeout_s,
        request_timeout=timeout_s,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


def _below(prefix: str, conf: Mapping[str, str]) -> dict[str, str]:
    return {name.removeprefix(prefix): value for name, value in conf.items() if name.startswith(prefix)}


def _inner(path: str) -> str:
    """The path as pyarrow wants it: the bucket and the key in it, without a scheme."""
    parts = urlparse(path)
    # abfss://container@account/path: the account is the file system's, the container is part of the path.
    bucket = parts.netloc.partition("@")[0]
    return f"{bucket}{parts.path}" if bucket and parts.scheme != "hdfs" else parts.path


def _reason(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
