"""A project file and the environment as a ``Project``: a spec of which each field knows its line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from pydantic import BaseModel

from rivermouth.errors import ProjectInvalid, ProjectNotFound, ProjectProblems, RivermouthError
from rivermouth.project import locate
from rivermouth.project.arguments import checked
from rivermouth.project.judge import judge
from rivermouth.project.table_operations import TableOperations
from rivermouth.project.variables import resolved
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FILE_NAME: Final = "rivermouth.yml"


@dataclass(frozen=True)
class Project(TableOperations):
    """A project and what can be done with it; the work itself loads Spark, so it is imported when it is asked for."""

    @classmethod
    @checked
    def load(cls, path: str | Path = FILE_NAME, environ: Mapping[str, str] | None = None) -> Self:
        """The project in a file.

        Args:
            path: The file; its folder is the base of relative places.
            environ: Environment variables; the process's own where None.

        Raises:
            ProjectNotFound: There is no such file.
            ProjectInvalid: The file cannot be read, is no YAML, or a value does not fit.
            UnknownKey: A key that no noun has.
            UnknownKind: A format, sink or action that nothing answers to.
            NotSupported: A setting that is known but not built yet.
            EnvironmentMissing: A variable without default is not set.
            ProjectProblems: Several of these; all are told.
        """
        name = str(path)
        environ = os.environ if environ is None else environ
        document = resolved(locate.read(read_text(Path(path), name), name), name, environ)
        spec, problems = judge(document, name)
        raise_all(problems, name)
        if spec is None:
            raise ProjectInvalid(at=f"{name}:1", detail="the file is no project", fix="rivermouth init -f new.yml")
        return cls(
            spec=spec,
            base=Path(path).absolute().parent,
            file=name,
            environ=environ,
            lines=document.lines,
        )

    @classmethod
    @checked
    def from_spec(
        cls,
        spec: ProjectSpec | Mapping[str, Any],
        base: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """A project made in Python.

        Args:
            spec: The project; or what a project file would hold, as a mapping.
            base: The folder of relative places; the working folder by default.
            environ: Environment variables; the process's own where None.

        Raises:
            ProjectProblems: Several things in a mapping are wrong; all are told.
            RivermouthError: The one thing that is wrong, as of ``load``.
        """
        folder = Path.cwd() if base is None else Path(base).absolute()
        environ = os.environ if environ is None else environ
        if not isinstance(spec, ProjectSpec):
            found, problems = judge(resolved(locate.Document(_plain(spec)), None, environ), None)
            raise_all(problems, None)
            if found is None:
                raise ProjectInvalid(detail="the mapping is no project", fix="help(rivermouth.Project.from_spec)")
            spec = found
        return cls(spec=spec, base=folder, environ=environ)

    def spark(self) -> SparkSession:
        """The Spark session of this process, started with the project's settings if there is none, to look at tables.

        What its JVM says goes to a file in the folder for temporary files. The session is the caller's to stop.

        Raises:
            JavaNotFound: No usable Java on this machine.
            JarsMissing: The jars are neither cached nor to be had.
            SparkNotStarted: The JVM or its session did not come up.
        """
        from rivermouth.ports import session  # noqa: PLC0415

        handle, log = tempfile.mkstemp(prefix="rivermouth-spark-", suffix=".log")
        os.close(handle)
        name = f"rivermouth {self.spec.name}"
        return session.start(
            self.spark_settings, app_name=name, schemes=self.schemes, users_jars=self.jars, log=Path(log)
        )


def _plain(value: Any) -> Any:
    """What a project file would hold in place of other mappings and lists, and of values that are judged already."""
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_unset=True)
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    return [_plain(part) for part in value] if isinstance(value, tuple | list) else value


def raise_all(problems: list[RivermouthError], file: str | None) -> None:
    """Nothing where there is no problem; one is raised as it is, several together.

    Raises:
        ProjectProblems: There are several.
        RivermouthError: There is one.
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProjectProblems(count=len(problems), file=file or "the project", problems=tuple(problems))


def read_text(path: Path, name: str) -> str:
    """The text of a project file.

    Raises:
        ProjectNotFound: There is no such file.
        ProjectInvalid: It is a folder, cannot be read, is too large or no UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(locate.MAX_BYTES + 1)
    except FileNotFoundError:
        raise ProjectNotFound(path=name) from None
    except IsADirectoryError:
        fix = f"name the file in it: {path / FILE_NAME}"
        raise ProjectInvalid(detail=f"{name} is a folder", fix=fix) from None
    except OSError as error:
        fix = "check the path and its access rights"
        raise ProjectInvalid(detail=f"{name} cannot be read: {error.strerror}", fix=fix) from None
    if len(data) > locate.MAX_BYTES:
        fix = "name the project file, not one with data"
        raise ProjectInvalid(detail=f"{name} is larger than 1 MiB", fix=fix)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProjectInvalid(at=f"{name}:{line}", detail="the file is no UTF-8", fix="save it as UTF-8") from None
