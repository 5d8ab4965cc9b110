"""What is wrong with one flow, collected so that all of it is reported together, and what to write instead."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from pyspark.errors import PySparkException

from rivermouth import names
from rivermouth.errors import ProjectProblems, RivermouthError
from rivermouth.names import did_you_mean

if TYPE_CHECKING:
    from typing import NoReturn

Found = TypeVar("Found")
_UNRESOLVED = "UNRESOLVED_COLUMN"


class Problems:
    """The errors of one flow, in the order in which they were found."""

    def __init__(self, flow: str) -> None:
        self._flow = flow
        self._found: list[RivermouthError] = []
        self._missing: set[str] = set()

    def __len__(self) -> int:
        return len(self._found)

    @contextmanager
    def kept(self, *makes: str) -> Iterator[None]:
        """Keeps an error that leaves the block, in which the columns ``makes`` are made.

        One that says no more than that such a column is missing later is left out.
        """
        try:
            yield
        except RivermouthError as error:
            if self._missing.isdisjoint(_parts(error.__cause__)):
                self._found.append(error)
            self._missing.update(name.lower() for name in makes)

    def of(self, check: Callable[[], Found]) -> Found:
        """What ``check`` returns; what it raises is raised together with all that was kept.

        Raises:
            RivermouthError: What is wrong.
        """
        try:
            return check()
        except RivermouthError as error:
            if not self._found:
                raise
            self._found.append(error)
            self._raise(error)

    def report(self) -> None:
        """Raises what was kept, if anything was.

        Raises:
            ProjectProblems: Several things are wrong with the flow.
            RivermouthError: The one thing that is wrong.
        """
        if self._found:
            self._raise(self._found[0].__cause__)

    def _raise(self, cause: BaseException | None) -> NoReturn:
        if len(self._found) == 1:
            raise self._found[0] from cause
        raise ProjectProblems(count=len(self._found), file=f"flow {self._flow}", problems=tuple(self._found)) from cause


def unresolved(error: BaseException | None) -> str | None:
    """The name, in lower case, of the column that Spark does not find; None if the error is another one."""
    parts = _parts(error)
    return parts[-1] if parts else None


def _parts(error: BaseException | None) -> list[str]:
    """The parts of that name: of ``item.price`` there may be no ``item``."""
    if not isinstance(error, PySparkException) or not (error.getCondition() or "").startswith(_UNRESOLVED):
        return []
    name = (error.getMessageParameters() or {}).get("objectName", "")
    return [part.replace("``", "`").lower() for part in name.strip("`").split("`.`")]


def fix_of(error: PySparkException, columns: Sequence[str], otherwise: str) -> str:
    """What to write where Spark refuses an expression over ``columns``.

    Returns:
        The nearest column, or all of them, where there is no such column; else ``otherwise``.
    """
    name = unresolved(error)
    return otherwise if name is None else did_you_mean(name, [each for each in columns if not each.startswith("__")])


def condition_over(columns: Sequence[str]) -> str:
    """A condition as an example, ready for YAML."""
    name = next(iter(columns), "kafka_offset")
    return f"{name} IS NOT NULL" if names.is_plain(name) else f"'{names.quoted(name)} IS NOT NULL'"
