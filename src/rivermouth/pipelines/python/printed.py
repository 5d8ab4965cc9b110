"""What the code of a pipeline prints goes to the standard error: the standard output is the answer of the command."""

from __future__ import annotations

import contextlib
import functools
import io
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TextIO

_USERS_CODE: ContextVar[bool] = ContextVar("rivermouth_users_code", default=False)


class _Output(io.TextIOBase):
    """The standard output; for the user's code it is the standard error."""

    def __init__(self, answer: TextIO) -> None:
        self._answer = answer

    def write(self, text: str) -> int:
        """Writes the text where it belongs."""
        return self._place().write(text)

    def flush(self) -> None:
        """Writes what was held back."""
        self._place().flush()

    def isatty(self) -> bool:
        """Whether somebody reads it at a terminal."""
        return self._place().isatty()

    def __getattribute__(self, name: str) -> Any:
        # What else there is, such as its encoding and its bytes, is that of the place.
        if name in {"encoding", "errors", "buffer", "newlines", "fileno"}:
            return getattr(object.__getattribute__(self, "_place")(), name)
        return object.__getattribute__(self, name)

    def _place(self) -> TextIO:
        return sys.stderr if _USERS_CODE.get() else self._answer


@contextlib.contextmanager
def output_apart() -> Iterator[None]:
    """In the block the standard output of the user's code is apart, in all threads."""
    with contextlib.redirect_stdout(_Output(sys.stdout)):
        yield


@contextlib.contextmanager
def printed_apart() -> Iterator[None]:
    """What runs in the block is the user's code."""
    token = _USERS_CODE.set(True)
    try:
        yield
    finally:
        _USERS_CODE.reset(token)


def printing_apart(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same function, as the user's code."""

    @functools.wraps(function)
    def called(*values: Any, **named: Any) -> Any:
        with printed_apart():
            return function(*values, **named)

    return called
