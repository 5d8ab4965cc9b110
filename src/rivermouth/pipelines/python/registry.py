"""What the files of a pipeline have defined so far, while they are evaluated."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.errors import DefinitionInvalid, DefinitionOutside
from rivermouth.pipelines.python.printed import printed_apart
from rivermouth.pipelines.spec import Dataset, Definitions, EventHook, Expectation, Flow, Sink, SourceLine
from rivermouth.pipelines.sql.definitions.sql_session import SqlSession

if TYPE_CHECKING:
    from collections.abc import Iterator

_OURS: Final = str(Path(__file__).parents[2])


class Reader:
    """What ``read`` and ``read_stream`` ask; the runner gives another one while queries are evaluated."""

    def read(self, name: str, *, stream: bool) -> Any:
        """A frame of the dataset ``name``."""
        raise NotImplementedError

    def decode(self, frame: Any, settings: Mapping[str, Any]) -> Any:
        """The columns of a frame of Kafka records, decoded as a flow with these settings does."""
        raise NotImplementedError

    def encode(self, frame: Any, settings: str | Mapping[str, Any]) -> Any:
        """A column with a value of each row, as a Kafka sink with this format writes it."""
        raise NotImplementedError


@dataclass
class Registry:
    """Definitions in the order in which they are made.

    Attributes:
        root: The pipeline's folder; files are shown relative to it.
        shown: How files that are evaluated from elsewhere are shown, by the name that their code has.
        reader: Gives frames of datasets.
        secret: Gives the secret of a scope and a key.
        session: What ``SET`` and ``USE`` have chosen so far in the file that is evaluated.
        waiting: Functions with expectations that define no dataset yet, by their identity, with the error about it.
    """

    root: Path
    shown: dict[str, str] = field(default_factory=dict)
    reader: Reader = field(default_factory=Reader)
    secret: Callable[[str, str], str] = lambda scope, key: f"{scope}/{key}"
    datasets: list[Dataset] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    sinks: list[Sink] = field(default_factory=list)
    hooks: list[EventHook] = field(default_factory=list)
    notes: list[tuple[SourceLine, str]] = field(default_factory=list)
    session: SqlSession = field(default_factory=SqlSession)
    waiting: dict[int, tuple[Any, DefinitionInvalid]] = field(default_factory=dict)

    def definitions(self) -> Definitions:
        """All of them, as they are now."""
        return Definitions(
            tuple(self.datasets), tuple(self.flows), tuple(self.sinks), tuple(self.hooks), tuple(self.notes)
        )

    def add(self, dataset: Dataset) -> int:
        """Keeps a dataset, with its name in the schema that ``USE`` chose; its number among all."""
        if dataset.kind != "temporary_view":
            dataset = replace(dataset, name=self.session.full(dataset.name))
        self.datasets.append(dataset)
        return len(self.datasets) - 1

    def add_flow(self, flow: Flow) -> None:
        """Keeps a flow, with the name of its target in the schema that ``USE`` chose, where it is no sink."""
        if flow.target.lower() not in {each.name.lower() for each in self.sinks}:
            flow = replace(flow, target=self.session.full(flow.target))
        self.flows.append(flow)

    def expect(self, number: int, expectations: tuple[Expectation, ...]) -> None:
        """Adds expectations to the dataset of that number: their decorator is above the dataset's."""
        known = self.datasets[number]
        self.datasets[number] = replace(known, expectations=(*expectations, *known.expectations))

    def refuse_waiting(self) -> None:
        """Raises DefinitionInvalid where expectations were written and no dataset has them."""
        for _, error in self.waiting.values():
            raise error

    def note(self, at: SourceLine, text: str) -> None:
        """Something that is written and has no effect here; kept once, however often its query is evaluated."""
        if (at, text) not in self.notes:
            self.notes.append((at, text))

    def here(self) -> SourceLine:
        """The line of the user's code that is at work: the innermost frame outside of this package."""
        frame = inspect.currentframe()
        while frame is not None and self._is_ours(frame.f_code.co_filename):
            frame = frame.f_back
        if frame is None:
            return SourceLine("<unknown>", 0)
        return self.line_of(frame.f_code.co_filename, frame.f_lineno)

    def line_of(self, filename: str, line: int) -> SourceLine:
        """A line of a file of the user's by the name that its code has: in a notebook ``path#cell``."""
        path, _, cell = filename.partition("#cell")
        shown = self.shown.get(path, path)
        return SourceLine(shown, line, int(cell) if cell.isdecimal() else None)

    @staticmethod
    def _is_ours(filename: str) -> bool:
        return filename.startswith((_OURS, "<frozen "))


EXPECTATIONS: Final = "__rivermouth_expectations__"
_FUNCTION: Final = "__rivermouth_function__"
NO_DATASET: Final = "__rivermouth_no_dataset__"
"""What functions are marked with: their expectations, and that they define no dataset."""
ON_THE_TABLE: Final = "write them at the target, dp.create_streaming_table(name, expect_all={...}), or at a view"
_CURRENT: ContextVar[Registry | None] = ContextVar("rivermouth_pipeline_registry", default=None)


@contextmanager
def collecting(registry: Registry) -> Iterator[Registry]:
    """Definitions that are made in the block go to ``registry``; it runs the user's code."""
    token = _CURRENT.set(registry)
    try:
        with printed_apart():
            yield registry
    finally:
        _CURRENT.reset(token)


def current(what: str) -> Registry:
    """The registry that collects now.

    Args:
        what: The function that is called, for the error.

    Raises:
        DefinitionOutside: None does: the file is not run by rivermouth.
    """
    registry = _CURRENT.get()
    if registry is None:
        raise DefinitionOutside(function=what)
    return registry


def invalid(registry: Registry, what: str, detail: str, fix: str) -> DefinitionInvalid:
    """The error about a definition at the user's line."""
    return DefinitionInvalid(at=str(registry.here()), definition=what, detail=detail, fix=fix)


def with_marks(function: Callable[..., Any], **marks: Any) -> Callable[..., Any]:
    """A function that does the same and has marks; the other one may be decorated again, for another dataset."""

    @functools.wraps(function)
    def decorated(*arguments: Any, **named: Any) -> Any:
        return function(*arguments, **named)

    decorated.__dict__.update({_FUNCTION: own(function), **marks})
    return decorated


def own(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function itself, without what our decorators made of it."""
    found: Callable[..., Any] = marked(function, _FUNCTION, function)
    return found


def refuse_expectations(registry: Registry, what: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Raises DefinitionInvalid where a function that defines no dataset has expectations, below its decorator or above.

    Args:
        registry: Knows the line.
        what: What the function defines.
        function: The function.

    Returns:
        The function with a mark, so that decorators above are refused too.
    """
    if marked(function, EXPECTATIONS):
        raise invalid(registry, what, "its expectations would not be checked", ON_THE_TABLE)
    return with_marks(function, **{NO_DATASET: what})


def marked(function: Callable[..., Any], name: str, otherwise: Any = None) -> Any:
    """What a function was marked with."""
    return getattr(function, name, otherwise)


def texts(values: Mapping[str, Any] | None) -> dict[str, str]:
    """Properties, options or settings as Spark takes them: all values as text."""
    return {
        str(name): ("true" if value else "false") if isinstance(value, bool) else str(value)
        for name, value in (values or {}).items()
        if value is not None
    }
