"""Small files of a lake in an object store, read without a Spark session."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final, NoReturn
from urllib.parse import urlparse

from rivermouth.errors import LakeNotReadable, LakeNotWritable
from rivermouth.ports.storage import LakeFiles, LocalFiles, is_local

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem

_S3: Final = "spark.hadoop.fs.s3a."
# Words of Hadoop's S3A connector, as users write them for Spark, and those of pyarrow.
_S3_WORDS: Final = {
    "access.key": "access_key",
    "secret.key": "secret_key",
    "session.token": "session_token",
    "endpoint.region": "region",
}


class ArrowFiles:
    """Files on any scheme that pyarrow knows, for reading only. Implements ``LakeFiles``.

    Args:
        lake: A location on the scheme; its bucket need not be that of the files.
        spark_conf: The project's Spark options: ``spark.hadoop.fs.s3a.*`` name endpoint and credentials, for
            which the environment and the machine's role stand in as usual.
        timeout_s: Bound on connecting and on each answer, in seconds.

    Raises:
        LakeNotReadable: The scheme is unknown here, or its settings cannot be used.
    """

    def __init__(self, lake: str, spark_conf: Mapping[str, str], *, timeout_s: float) -> None:
        try:
            self._system = _file_system(lake, spark_conf, timeout_s)
        except (OSError, ValueError, ImportError) as error:
            raise LakeNotReadable(place=lake, detail=_reason(error)) from error

    def read(self, path: str) -> str | None:
        """See ``LakeFiles``.

        Raises:
            LakeNotReadable: The store does not answer, or refuses.
        """
        try:
            with self._system.open_input_stream(_inner(path)) as stream:
                body: bytes = stream.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            raise LakeNotReadable(place=path, detail=_reason(error)) from error
        return body.decode()

    def names(self, folder: str) -> list[str]:
        """See ``LakeFiles``.

        Raises:
            LakeNotReadable: The store does not answer, or refuses.
        """
        from pyarrow.fs import FileSelector  # noqa: PLC0415 - a local lake never pays for this import

        try:
            found = self._system.get_file_info(FileSelector(_inner(folder), allow_not_found=True))
        except OSError as error:
            raise LakeNotReadable(place=folder, detail=_reason(error)) from error
        return sorted(info.base_name for info in found)

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

    def rename(self, source: str, target: str) -> NoReturn:
        """Refuses."""
        self.write(target, source)


def readable_files(lake: str, spark_conf: Mapping[str, str], *, timeout_s: float) -> LakeFiles:
    """The files of a lake, for reading them without a Spark session.

    Raises:
        LakeNotReadable: Nothing here knows the scheme.
    """
    return LocalFiles() if is_local(lake) else ArrowFiles(lake, spark_conf, timeout_s=timeout_s)


def _file_system(lake: str, spark_conf: Mapping[str, str], timeout_s: float) -> FileSystem:
    from pyarrow import fs  # noqa: PLC0415 - a local lake never pays for this import

    if urlparse(lake).scheme != "s3a":
        return fs.FileSystem.from_uri(lake)[0]
    words: dict[str, Any] = {
        ours: spark_conf[_S3 + theirs] for theirs, ours in _S3_WORDS.items() if _S3 + theirs in spark_conf
    }
    endpoint = spark_conf.get(f"{_S3}endpoint")
    if endpoint:
        plain = spark_conf.get(f"{_S3}connection.ssl.enabled", "true").lower() == "false"
        scheme, _, address = endpoint.rpartition("://")
        words |= {"endpoint_override": address, "scheme": scheme or ("http" if plain else "https")}
        words.setdefault("region", "us-east-1")
    return fs.S3FileSystem(
        **words,
        connect_timeout=timeout_s,
        request_timeout=timeout_s,
        retry_strategy=fs.AwsStandardS3RetryStrategy(max_attempts=1),
    )


def _inner(path: str) -> str:
    """The path as pyarrow wants it: the bucket and the key in it, without a scheme."""
    parts = urlparse(path)
    # abfss://container@account/path: the account is the file system's, the container is part of the path.
    bucket = parts.netloc.partition("@")[0]
    return f"{bucket}{parts.path}" if bucket and parts.scheme != "hdfs" else parts.path


def _reason(error: BaseException) -> str:
    lines = str(error).splitlines()
    return lines[0] if lines else type(error).__name__
