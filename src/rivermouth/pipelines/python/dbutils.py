"""``dbutils`` as far as pipeline files use it: secrets, widgets, files, and the end of a notebook."""

from __future__ import annotations

import copy
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.decoding.jvm.java_objects import java_class
from rivermouth.errors import SecretMissing, WidgetMissing
from rivermouth.pipelines.files.paths import missing
from rivermouth.ports.internals import sessions

_OTHER_CHARACTERS: Final = re.compile(r"[^A-Z0-9]+")


class NotebookExit(BaseException):
    """Ends the file that is evaluated, without an error: ``dbutils.notebook.exit``."""


@dataclass(frozen=True, slots=True)
class FileInfo:
    """What ``dbutils.fs.ls`` says of a file or folder; times in milliseconds since the epoch."""

    path: str
    name: str
    size: int
    modificationTime: int  # noqa: N815 - Databricks' own name

    def isDir(self) -> bool:  # noqa: N802
        """Whether it is a folder."""
        return self.name.endswith("/")

    def isFile(self) -> bool:  # noqa: N802
        """Whether it is a file."""
        return not self.isDir()


class _Secrets:
    """Secrets of the environment: scope ``kafka`` and key ``api-key`` are the variable ``KAFKA_API_KEY``."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._environ = environ

    def get(self, scope: str, key: str) -> str:
        """The secret.

        Raises:
            SecretMissing: There is no such variable.
        """
        name = secret_variable(scope, key)
        if name not in self._environ:
            detail = f"the variable {name} is not set"
            raise SecretMissing(reference=f"{scope}/{key}", detail=detail, fix=f"export {name}=...")
        return self._environ[name]

    def getBytes(self, scope: str, key: str) -> bytes:  # noqa: N802
        """The secret as bytes."""
        return self.get(scope, key).encode()


def secret_variable(scope: str, key: str) -> str:
    """The environment variable that holds a secret of Databricks' scopes."""
    return _OTHER_CHARACTERS.sub("_", f"{scope}_{key}".upper()).strip("_")


@dataclass(slots=True)
class _Shared:
    """What the widgets of all files of a pipeline share.

    Attributes:
        defaults: The last default of each name, for files that have none of it.
        arguments: Of the ``%run`` that is at work.
    """

    defaults: dict[str, str] = field(default_factory=dict)
    arguments: dict[str, str] = field(default_factory=dict)


class Widgets:
    """Widgets: the pipeline's configuration and the parameters of the command line, then the defaults of the file.

    Args:
        values: The pipeline's configuration and parameters.
        shared: What the files of the pipeline share; None for the widgets of all files.
    """

    def __init__(self, values: Mapping[str, str], shared: _Shared | None = None) -> None:
        self._values = values
        self._shared = shared or _Shared()
        self._defaults: dict[str, str] = self._shared.defaults if shared is None else {}

    def of_file(self) -> Widgets:
        """Those of one more file."""
        return Widgets(self._values, self._shared)

    @contextmanager
    def running(self, arguments: Mapping[str, str]) -> Iterator[None]:
        """In the block another notebook is run, ``%run``, with these values of its widgets.

        Afterwards widgets that the file had before have the defaults that they had. Those of the other notebook stay.
        """
        before, outer = dict(self._defaults), self._shared.arguments
        self._shared.arguments = dict(arguments)
        try:
            for name, value in arguments.items():
                self.text(name, value)
            yield
        finally:
            self._shared.arguments = outer
            self._defaults.update(before)

    def get(self, name: str) -> str:
        """The value.

        Raises:
            WidgetMissing: There is none of this name.
        """
        found = self._known.get(name)
        if found is None:
            raise WidgetMissing(name=name)
        return found

    @property
    def _known(self) -> Mapping[str, str]:
        return {**self._shared.defaults, **self._defaults, **self._values, **self._shared.arguments}

    def getArgument(self, name: str, default: str | None = None) -> str:  # noqa: N802
        """The value of a widget, or ``default`` where there is no such widget."""
        return self.get(name) if default is None or name in self._known else default

    def getAll(self) -> dict[str, str]:  # noqa: N802
        """The values of all widgets that the file has."""
        known = self._known
        return {name: known[name] for name in self._defaults}

    def text(self, name: str, defaultValue: Any = "", label: Any = None) -> None:  # noqa: ARG002, N803
        """A widget with a default."""
        self._defaults[name] = self._shared.defaults[name] = self._shared.arguments.get(name, str(defaultValue))

    def dropdown(self, name: str, defaultValue: Any, choices: Any = None, label: Any = None) -> None:  # noqa: ARG002, N803
        """A widget with a default."""
        self.text(name, defaultValue)

    combobox = multiselect = dropdown

    def remove(self, name: str) -> None:
        """Takes a default away."""
        self._defaults.pop(name, None)
        self._shared.defaults.pop(name, None)

    def removeAll(self) -> None:  # noqa: N802
        """Takes all defaults away."""
        for name in list(self._defaults):
            self.remove(name)


class _FileSystem:
    """Files wherever Hadoop finds them."""

    def __init__(self, spark: Callable[[], Any], located: Callable[[str], str]) -> None:
        self._spark = spark
        self._located = located

    def ls(self, path: str) -> list[FileInfo]:
        """What is in a folder, by name.

        Raises:
            FilePathUnmapped, FileSourceMissing: There is no such folder.
        """
        files, folder = self._open(path)
        if not files.exists(folder):
            raise missing(self._located(path), None)
        return sorted((_info(each) for each in files.listStatus(folder)), key=lambda each: each.name)

    def mkdirs(self, path: str) -> bool:
        """Makes a folder."""
        files, folder = self._open(path)
        return bool(files.mkdirs(folder))

    def rm(self, path: str, recurse: bool = False) -> bool:
        """Removes a file, or a folder with all in it."""
        files, target = self._open(path)
        return bool(files.delete(target, recurse))

    def cp(self, from_: str, to: str, recurse: bool = False) -> bool:
        """Copies a file; with ``recurse`` a folder."""
        return self._copied(from_, to, recurse=recurse, moves=False)

    def mv(self, from_: str, to: str, recurse: bool = False) -> bool:
        """Moves a file; with ``recurse`` a folder."""
        return self._copied(from_, to, recurse=recurse, moves=True)

    def _copied(self, source: str, target: str, *, recurse: bool, moves: bool) -> bool:
        (files, found), (others, place) = self._open(source), self._open(target)
        if files.getFileStatus(found).isDirectory() and not recurse:
            raise IsADirectoryError(source)
        spark = self._spark()
        copy = java_class(spark, "org.apache.hadoop.fs.FileUtil").copy
        return bool(copy(files, found, others, place, moves, sessions.hadoop_conf(spark)))

    def head(self, file: str, maxBytes: int = 65536) -> str:  # noqa: N803
        """The first bytes of a file as text."""
        files, target = self._open(file)
        stream = files.open(target)
        try:
            return bytes(stream.readNBytes(maxBytes)).decode(errors="replace")
        finally:
            stream.close()

    def put(self, file: str, contents: str, overwrite: bool = False) -> bool:
        """Writes a file."""
        files, target = self._open(file)
        stream = files.create(target, overwrite)
        stream.write(bytearray(contents.encode()))
        stream.close()
        return True

    def _open(self, path: str) -> tuple[Any, Any]:
        spark = self._spark()
        target = java_class(spark, "org.apache.hadoop.fs.Path")(self._located(path))
        return target.getFileSystem(sessions.hadoop_conf(spark)), target


def _info(status: Any) -> FileInfo:
    name = status.getPath().getName() + ("/" if status.isDirectory() else "")
    return FileInfo(status.getPath().toString(), name, status.getLen(), status.getModificationTime())


class _Notebook:
    """The end of a notebook."""

    def exit(self, value: Any = None) -> None:
        """Ends the file."""
        raise NotebookExit(value)


class _Library:
    """Packages: they are installed already, or the file says what is missing."""

    def restartPython(self) -> None:  # noqa: N802
        """Does nothing."""


class DbUtils:
    """The object ``dbutils`` of a pipeline file.

    Args:
        spark: Gives the session.
        environ: Where secrets are.
        values: The pipeline's configuration and parameters.
        located: Makes of a path of Databricks' one of this lake.
    """

    def __init__(
        self,
        spark: Callable[[], Any],
        environ: Mapping[str, str],
        values: Mapping[str, str],
        located: Callable[[str], str] = str,
    ) -> None:
        self.secrets = _Secrets(environ)
        self.widgets = Widgets(values)
        self.fs = _FileSystem(spark, located)
        self.notebook = _Notebook()
        self.library = _Library()

    def of_file(self) -> DbUtils:
        """The same for one file, with widgets of its own."""
        own = copy.copy(self)
        own.widgets = self.widgets.of_file()
        return own
