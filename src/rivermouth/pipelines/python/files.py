"""Python files and notebooks of a pipeline, evaluated: what they define is collected, and no query runs."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from rivermouth.errors import NotebookInvalid, PythonFileFailed, RivermouthError, first_line
from rivermouth.pipelines.notebooks import Cell, cells, missing, pip_requirements, run_target
from rivermouth.pipelines.python.dbutils import NotebookExit, Widgets
from rivermouth.pipelines.python.notebook_names import names_of_file
from rivermouth.pipelines.python.registry import Registry, collecting
from rivermouth.pipelines.python.user_modules import file_module
from rivermouth.pipelines.session.spark_errors import missing_input
from rivermouth.pipelines.spec import Definitions, SourceLine
from rivermouth.pipelines.sql.definitions.read import read_sql
from rivermouth.pipelines.sql.definitions.sql_session import SqlSession

_CELL: Final = "#cell"


@dataclass(frozen=True)
class Evaluation:
    """How the files of a pipeline are evaluated.

    Attributes:
        root: The pipeline's folder: helper modules are imported from there.
        names: What code finds as global names: ``spark``, ``dbutils``, ``display``.
        configuration: The pipeline's configuration, for SQL.
        registry: Collects what is defined.
        running: The file that is evaluated, and those that ``%run`` it.
        widgets: Of the files that were evaluated so far.
    """

    root: Path
    names: Mapping[str, Any]
    configuration: Mapping[str, str]
    registry: Registry
    running: list[Path] = field(default_factory=list)
    widgets: list[Widgets | None] = field(default_factory=list)

    def evaluate(self, files: Sequence[Path]) -> Definitions:
        """What the files define, in their order.

        Raises:
            PythonFileFailed: A file raised an error; names the line of it.
            RivermouthError: A definition or a statement is not possible.
        """
        with collecting(self.registry):
            for file in files:
                namespace = file_module(f"<{self._shown(file)}>").__dict__
                names = names_of_file(self.names)
                self.widgets.append(getattr(names.get("dbutils"), "widgets", None))
                namespace.update(names, __file__=str(file))
                with suppress(NotebookExit):
                    self._file(file, namespace)
        self.registry.refuse_waiting()
        return self.registry.definitions()

    def _file(self, file: Path, namespace: dict[str, Any], arguments: Mapping[str, str] | None = None) -> None:
        self.running.append(file.resolve())
        session = SqlSession({**self.configuration, **(arguments or {})})
        before, self.registry.session = self.registry.session, session
        try:
            for cell in cells(file, self._shown(file)):
                self._cell(file, cell, namespace)
        finally:
            self.running.pop()
            self.registry.session = before

    def _cell(self, file: Path, cell: Cell, namespace: dict[str, Any]) -> None:
        if cell.language == "python":
            self._python(file, cell, namespace)
        elif cell.language == "sql":
            self._sql(file, cell)
        elif cell.language == "run":
            self._run(file, cell, namespace)
        elif cell.language == "pip":
            self._pip(cell)
        elif cell.language != "markdown":
            self.registry.note(cell.at, f"a cell of {cell.language} is not run")

    def _python(self, file: Path, cell: Cell, namespace: dict[str, Any]) -> None:
        name = str(file) if cell.at.cell is None else f"{file}{_CELL}{cell.at.cell}"
        self.registry.shown[str(file)] = cell.at.file
        source = "\n" * (cell.at.line - 1) + cell.text
        try:
            code = compile(source, name, "exec", dont_inherit=True)
            exec(code, namespace)  # noqa: S102 - the user's own file, which is what it is for
        except NotebookExit:
            raise
        except SystemExit as error:
            if error.code not in (None, 0):
                raise self._failed(cell, error) from error
            raise NotebookExit from error
        except RivermouthError as error:
            raise error.located(str(self._where(cell, error))) from error.__cause__
        except Exception as error:
            raise self._failed(cell, error) from error

    def _sql(self, file: Path, cell: Cell) -> None:
        is_sql = file.suffix.lower() == ".sql"
        found = read_sql(cell.text, cell.at, session=self.registry.session, of_notebook=not is_sql)
        self.registry.datasets += found.datasets
        self.registry.flows += found.flows
        self.registry.sinks += found.sinks
        self.registry.notes += found.notes

    def _run(self, file: Path, cell: Cell, namespace: dict[str, Any]) -> None:
        other = run_target(cell, file).resolve()
        if other in self.running:
            detail = f"%run: {cell.text} runs this file"
            raise NotebookInvalid(at=str(cell.at), file=cell.at.file, detail=detail, fix="remove it")
        widgets = self.widgets[-1]
        with nullcontext() if widgets is None else widgets.running(cell.arguments):
            self._file(other, namespace, cell.arguments)

    def _pip(self, cell: Cell) -> None:
        lacking = missing(pip_requirements(cell))
        if lacking:
            self.registry.note(cell.at, f"packages are not installed by a run: pip install {' '.join(lacking)}")

    def _where(self, cell: Cell, error: BaseException) -> SourceLine:
        return user_line(self.registry, error, self.root) or cell.at

    def _failed(self, cell: Cell, error: BaseException) -> RivermouthError:
        where, detail = self._where(cell, error), first_line(error)
        if isinstance(error, SyntaxError) and _written_line(self.registry, error, self.root) is not None:
            detail = error.msg or "syntax error"
        if (typed := missing_input(error, str(where))) is not None:
            return typed
        fix = "rivermouth validate, after the line above is corrected"
        if isinstance(error, ModuleNotFoundError) and error.name:
            fix = f"pip install {error.name.partition('.')[0]}, or put the module into the pipeline's folder"
        return PythonFileFailed(at=str(where), file=cell.at.file, error=type(error).__name__, detail=detail, fix=fix)

    def _shown(self, file: Path) -> str:
        return str(file.relative_to(self.root)) if file.is_relative_to(self.root) else str(file)


def user_line(registry: Registry, error: BaseException, root: Path) -> SourceLine | None:
    """The innermost line of the user's own files in the error's trace; None where there is none.

    Where one of these files is no Python, it is the line that Python cannot read.
    """
    found = _written_line(registry, error, root)
    if found is not None:
        return found
    for frame in traceback.extract_tb(error.__traceback__):
        found = _own_line(registry, frame.filename, frame.lineno or 0, root) or found
    return found


def _written_line(registry: Registry, error: BaseException, root: Path) -> SourceLine | None:
    """The line of the user's own files that Python cannot read; None of other errors."""
    if not isinstance(error, SyntaxError) or not error.filename or not error.lineno:
        return None
    return _own_line(registry, error.filename, error.lineno, root)


def _own_line(registry: Registry, filename: str, line: int, root: Path) -> SourceLine | None:
    name = filename.partition(_CELL)[0]
    if name not in registry.shown:
        if not Path(name).is_relative_to(root) or ".venv" in name or "site-packages" in name:
            return None
        registry.shown[name] = str(Path(name).relative_to(root))
    return registry.line_of(filename, line)
