"""The base of all errors: a stable code, facts, and text made of them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from string import Formatter
from typing import Any, ClassVar, Final, Self

SettingPath = tuple[str | int, ...]
"""Keys and list positions from a flow in the project file to one of its settings."""
At = str | Callable[[SettingPath], str | None] | None
"""A place in a file, or a function that gives the place of a flow's setting."""


class _Hints(Formatter):
    """Fills hints in: ``{name!q}`` is one word for a shell."""

    def convert_field(self, value: Any, conversion: Any) -> Any:
        return shlex.quote(str(value)) if conversion == "q" else super().convert_field(value, conversion)


_HINTS: Final = _Hints()
# Delta quotes the value of a row that is too long for its column.
_VALUE: Final = re.compile(
    r'(?<=\[DELTA_EXCEED_CHAR_VARCHAR_LIMIT\] )Value (?:(?s:".*?")(?= exceeds char/varchar)|".*$)', re.MULTILINE
)


class RivermouthError(Exception):
    """Base of all errors that a user may meet.

    Args:
        at: The place of the cause, as ``file:line``; None if no file is involved.
        **facts: What the texts of the class name; each is an attribute afterwards.

    Attributes:
        setting_path: The setting of its flow that the error is about; empty for the whole flow.
        of_pipeline: The pipeline, of several that a command was about, in which it was raised; else empty.
    """

    code: ClassVar[str] = "RIVERMOUTH"
    what: ClassVar[str] = "{detail}"
    hint: ClassVar[str] = ""

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        self.at = at
        self.facts = facts
        self.setting_path: SettingPath = ()
        self.of_pipeline = ""
        for name, value in facts.items():
            setattr(self, name, value)
        super().__init__(self.what.format(**facts))

    @property
    def message(self) -> str:
        """The sentence that says what failed and what was not done."""
        return self.what.format(**self.facts)

    @property
    def next_step(self) -> str:
        """The hint with its facts filled in; empty where there is none."""
        return _HINTS.vformat(self.hint, (), self.facts)

    def about(self, *path: str | int) -> Self:
        """This error, which is about the setting at ``path`` of its flow: ``"expectations", 0, "condition"``."""
        self.setting_path = path
        return self

    def located(self, at: At) -> Self:
        """The same error, with its cause, and with the place ``at`` unless it already has one."""
        place = at(self.setting_path) if callable(at) else at
        found = type(self)(at=self.at or place, **self.facts).about(*self.setting_path)
        found.__cause__ = self.__cause__
        return found.with_traceback(self.__traceback__)

    def __str__(self) -> str:
        lines = [f"[{self.code}] {self.message}"]
        if self.at:
            lines.append(f"  at: {self.at}")
        if self.next_step:
            lines.append(f"  hint: {self.next_step}")
        return "\n".join(lines)

    def __reduce__(self) -> tuple[object, ...]:
        return (_rebuild, (type(self), self.at, self.facts, self.setting_path))


def _rebuild(
    cls: type[RivermouthError], at: str | None, facts: dict[str, object], path: SettingPath
) -> RivermouthError:
    return cls(at=at, **facts).about(*path)


def said_lines(error: BaseException) -> list[str]:
    """The lines of an error's text that are not empty, without the value of a row that Delta quotes."""
    return [line.strip() for line in _VALUE.sub("A value", str(error)).splitlines() if line.strip()]


def first_line(error: BaseException) -> str:
    """What an error says, without the stack that Spark puts behind it; of a call into Java, what failed there first."""
    lines = said_lines(error)
    if not lines:
        return type(error).__name__
    if lines[0].startswith("An error occurred while calling "):
        causes = [line for line in lines if line.startswith(("Caused by: ", ": "))]
        return causes[-1].removeprefix("Caused by").removeprefix(": ") if causes else lines[0]
    # Behind a ";" Spark shows its plan, line by line.
    return lines[0].rstrip(";")
