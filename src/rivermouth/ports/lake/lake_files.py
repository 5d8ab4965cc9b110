"""Small text files in the lake: the ledger's side file, leases, requests, and Delta's log as text.

A local lake is read and written by Python itself, so that commands without a Spark session can do it too
and no process is forked for permissions; every other scheme goes through Hadoop's file system.
"""

from __future__ import annotations

import errno
import os
import time
import uuid
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Protocol
from urllib.parse import unquote, urlparse

from py4j.protocol import Py4JJavaError

from rivermouth.decoding.jvm.java_objects import array_of, jvm
from rivermouth.errors import LakeNotReadable, LakeNotWritable, first_line
from rivermouth.ports.internals.sessions import hadoop_conf
from rivermouth.ports.lake.mounts import served_by

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession


# So say mounted buckets and some network disks.
_NO_LINKS: Final = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS)
_NAME_KEPT: Final = 200
_READ_AGAIN_S: Final = (0.05, 0.2, 0.5)
# These show a file from the moment on at which it is made, and rename one over another in one step. Object stores show
# a file when it is whole, and know no such step.
_RENAMES_OVER: Final = ("file", "hdfs", "viewfs")


class LakeFiles(Protocol):
    """What the ports need of a file system; every path is a full location."""

    def read(self, path: str) -> str | None:
        """The text of the file; None if there is none. Bytes that are no UTF-8 become replacement characters."""

    def write(self, path: str, text: str) -> None:
        """Puts ``text`` there, in one step: a reader sees the old or the new text. Makes folders."""

    def create(self, path: str, text: str) -> bool:
        """As ``write``, but only if there is no such file yet; says whether it did. Atomic.

        Where answers may be lost, a file of the same text counts as made here: no two makers may write the same.
        """

    def names(self, folder: str) -> list[str]:
        """The names in a folder, sorted; empty if there is no such folder."""

    def delete(self, path: str) -> None:
        """Removes a file or a folder with all in it; nothing happens if there is none."""

    def prune(self, folder: str) -> None:
        """Removes a folder that is empty, in one step; nothing happens if it is not, or if there is none."""

    def rename(self, source: str, target: str) -> None:
        """Moves a file or folder, and makes the folders above its new place; a file takes the place of another."""


class SizedFiles(LakeFiles, Protocol):
    """Those that say how large a file is without reading it."""

    def size(self, path: str) -> int | None:
        """How many bytes the file has; None if there is none."""


def is_local(location: str) -> bool:
    """Whether ``location`` is a path of this machine: no scheme, or ``file:``."""
    return urlparse(location).scheme in {"", "file"}


def is_local_disk(location: str) -> bool:
    """Whether ``location`` is a path of this machine, and no program serves it, as one does a mounted bucket."""
    return is_local(location) and served_by(local_path(location).absolute()) is None


def local_path(location: str) -> Path:
    """The path of a local location."""
    return Path(unquote(urlparse(location).path) if location.startswith("file:") else location)


class LocalFiles:
    """Files on this machine. Implements ``SizedFiles``."""

    def read(self, path: str) -> str | None:
        """See ``LakeFiles``."""
        try:
            return local_path(path).read_text(encoding="utf-8", errors="replace")
        except (FileNotFoundError, NotADirectoryError):
            return None

    def size(self, path: str) -> int | None:
        """See ``SizedFiles``."""
        try:
            return local_path(path).stat().st_size
        except (FileNotFoundError, NotADirectoryError):
            return None

    def write(self, path: str, text: str) -> None:
        """See ``LakeFiles``."""
        temporary = self._temporary(path, text)
        temporary.replace(local_path(path))

    def create(self, path: str, text: str) -> bool:
        """See ``LakeFiles``."""
        temporary = self._temporary(path, text)
        try:
            os.link(temporary, local_path(path))
        except FileExistsError:
            return False
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            return self._exclusive(path, text)
        finally:
            temporary.unlink()
        return True

    def names(self, folder: str) -> list[str]:
        """See ``LakeFiles``."""
        try:
            return sorted(os.listdir(local_path(folder)))  # noqa: PTH208 - names only, no Path objects
        except (FileNotFoundError, NotADirectoryError):
            return []

    def delete(self, path: str) -> None:
        """See ``LakeFiles``."""
        target = local_path(path)
        if target.is_dir():
            for child in target.iterdir():
                self.delete(str(child))
            target.rmdir()
        else:
            target.unlink(missing_ok=True)

    def prune(self, folder: str) -> None:
        """See ``LakeFiles``."""
        try:
            local_path(folder).rmdir()
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise

    def rename(self, source: str, target: str) -> None:
        """See ``LakeFiles``."""
        local_path(target).parent.mkdir(parents=True, exist_ok=True)
        local_path(source).rename(local_path(target))

    def _exclusive(self, path: str, text: str) -> bool:
        """Where a mounted file system has no hard links: a reader may see the file before its text."""
        try:
            with local_path(path).open("x", encoding="utf-8") as file:
                file.write(text)
        except FileExistsError:
            return False
        return True

    def _temporary(self, path: str, text: str) -> Path:
        target = local_path(path)
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            # A name that is as long as names may be has no room for more.
            temporary = target.with_name(f".{target.name[:_NAME_KEPT]}.{uuid.uuid4().hex}")
            temporary.write_text(text)
        except OSError as error:
            raise LakeNotWritable(lake=str(target.parent), detail=error.strerror or str(error)) from error
        return temporary


class HadoopFiles:
    """Files on any scheme that the Spark session knows. Implements ``SizedFiles``."""

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._contexts: dict[str, Any] = {}

    def read(self, path: str) -> str | None:
        """See ``LakeFiles``."""
        file_system, target = self._open(path)
        pauses_s = iter(_READ_AGAIN_S)
        while True:
            try:
                # Not asked for first: an object store answers once and not twice.
                stream = file_system.open(target)
                try:
                    return bytes(stream.readAllBytes()).decode(errors="replace")
                finally:
                    stream.close()
            except Py4JJavaError as error:
                if _is_missing(error):
                    return None
                # A file that is replaced while it is read: S3A opens in two steps, and holds the second to the first.
                pause_s = next(pauses_s, None)
                if pause_s is None:
                    raise LakeNotReadable(place=path, detail=first_line(error)) from error
                time.sleep(pause_s)

    def size(self, path: str) -> int | None:
        """See ``SizedFiles``."""
        file_system, target = self._open(path)
        try:
            return int(file_system.getFileStatus(target).getLen())
        except Py4JJavaError as error:
            if _is_missing(error):
                return None
            raise LakeNotReadable(place=path, detail=first_line(error)) from error

    def write(self, path: str, text: str) -> None:
        """See ``LakeFiles``; object stores replace a whole object at once, others rename over it."""
        file_system, target = self._open(path)
        with _writing(path):
            if file_system.getUri().getScheme() not in _RENAMES_OVER:
                _put(file_system, target, text)
                return
            java = jvm(self._spark).org.apache.hadoop.fs
            temporary = java.Path(target.getParent(), f".{target.getName()[:_NAME_KEPT]}.{uuid.uuid4().hex}")
            _put(file_system, temporary, text)
            over = java.Options.Rename
            context = self._context(file_system)
            context.rename(temporary, target, array_of(self._spark, over, [over.OVERWRITE]))

    def create(self, path: str, text: str) -> bool:
        """See ``LakeFiles``."""
        file_system, target = self._open(path)
        builder = file_system.createFile(target).overwrite(False).recursive()
        builder = builder.opt("fs.option.create.conditional.overwrite", "true")
        try:
            stream = builder.build()
            stream.write(bytearray(text.encode()))
            stream.close()
        except Py4JJavaError as error:
            there = self.read(path)
            if there is None:
                raise LakeNotWritable(lake=path, detail=first_line(error)) from error
            # Ours, where only the answer was lost: a client's second try is refused like anybody else's.
            return there == text
        return True

    def names(self, folder: str) -> list[str]:
        """See ``LakeFiles``."""
        file_system, target = self._open(folder)
        try:
            return sorted(status.getPath().getName() for status in file_system.listStatus(target))
        except Py4JJavaError as error:
            if _is_missing(error):
                return []
            raise LakeNotReadable(place=folder, detail=first_line(error)) from error

    def delete(self, path: str) -> None:
        """See ``LakeFiles``."""
        file_system, target = self._open(path)
        with _writing(path):
            file_system.delete(target, True)

    def prune(self, folder: str) -> None:
        """See ``LakeFiles``."""
        file_system, path = self._open(folder)
        with _writing(folder):
            if file_system.exists(path) and not file_system.listStatus(path):
                # Not with all in it: somebody may have put something there since.
                file_system.delete(path, False)

    def rename(self, source: str, target: str) -> None:
        """See ``LakeFiles``."""
        (file_system, path), (_, new) = self._open(source), self._open(target)
        with _writing(target):
            file_system.mkdirs(new.getParent())
            is_moved = _moved(file_system, path, new)
            if not is_moved and _is_file(file_system, path) and _is_file(file_system, new):
                file_system.delete(new, False)
                is_moved = _moved(file_system, path, new)
        if not is_moved:
            raise LakeNotWritable(lake=target, detail="nothing could be moved there")

    def _context(self, file_system: Any) -> Any:
        """Hadoop's other view of the same files, which alone renames over a file; each one has a client of its own."""
        uri = file_system.getUri()
        if uri.toString() not in self._contexts:
            contexts = jvm(self._spark).org.apache.hadoop.fs.FileContext
            self._contexts[uri.toString()] = contexts.getFileContext(uri, hadoop_conf(self._spark))
        return self._contexts[uri.toString()]

    def _open(self, path: str) -> tuple[Any, Any]:
        target = jvm(self._spark).org.apache.hadoop.fs.Path(path)
        try:
            return target.getFileSystem(hadoop_conf(self._spark)), target
        except Py4JJavaError as error:
            # Such as a scheme for which this Spark has no classes.
            raise LakeNotReadable(place=path, detail=first_line(error)) from error


def _put(file_system: Any, target: Any, text: str) -> None:
    stream = file_system.create(target, True)
    stream.write(bytearray(text.encode()))
    stream.close()


@contextmanager
def _writing(path: str) -> Iterator[None]:
    """Makes an error of ours of what Java says in the block."""
    try:
        yield
    except Py4JJavaError as error:
        raise LakeNotWritable(lake=path, detail=first_line(error)) from error


def _moved(file_system: Any, path: Any, new: Any) -> bool:
    """Whether it could be moved; of a file that is in the way some file systems say so by an exception."""
    try:
        return bool(file_system.rename(path, new))
    except Py4JJavaError as error:
        if error.java_exception.getClass().getName() != "org.apache.hadoop.fs.FileAlreadyExistsException":
            raise
        return False


def _is_file(file_system: Any, path: Any) -> bool:
    return bool(file_system.exists(path) and file_system.getFileStatus(path).isFile())


def _is_missing(error: Py4JJavaError) -> bool:
    return bool(error.java_exception.getClass().getName() == "java.io.FileNotFoundException")


class PlacedFiles:
    """Files wherever each path lies: a table may lie apart from the lake. Implements ``SizedFiles``."""

    def __init__(self, spark: SparkSession) -> None:
        self._local = LocalFiles()
        self._hadoop = HadoopFiles(spark)

    def read(self, path: str) -> str | None:
        """See ``LakeFiles``."""
        return self._at(path).read(path)

    def size(self, path: str) -> int | None:
        """See ``SizedFiles``."""
        return self._at(path).size(path)

    def write(self, path: str, text: str) -> None:
        """See ``LakeFiles``."""
        self._at(path).write(path, text)

    def create(self, path: str, text: str) -> bool:
        """See ``LakeFiles``."""
        return self._at(path).create(path, text)

    def names(self, folder: str) -> list[str]:
        """See ``LakeFiles``."""
        return self._at(folder).names(folder)

    def delete(self, path: str) -> None:
        """See ``LakeFiles``."""
        self._at(path).delete(path)

    def prune(self, folder: str) -> None:
        """See ``LakeFiles``."""
        self._at(folder).prune(folder)

    def rename(self, source: str, target: str) -> None:
        """See ``LakeFiles``; within one place."""
        self._at(source).rename(source, target)

    def _at(self, path: str) -> SizedFiles:
        return self._local if is_local(path) else self._hadoop


def files_for(location: str, spark: SparkSession) -> LakeFiles:
    """The files of the place where ``location`` lies."""
    return LocalFiles() if is_local(location) else HadoopFiles(spark)
