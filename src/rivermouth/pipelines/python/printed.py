"""What the code of a pipeline prints goes to the standard error: the standard output is the answer of the command."""

from __future__ import annotations

import contextlib
import functools
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, TextIO, cast

_USERS_CODE: ContextVar[bool] = ContextVar("rivermouth_users_code", default=False)


class _Output:
    """The standard output; for the user's code it is the standard error."""

    def __init__(self, answer: TextIO) -> None:
        self._answer = answer

    def __getattr__(self, name: str) -> Any:
        return getattr(sys.stderr if _USERS_CODE.get() else self._answer, name)


@contextlib.contextmanager
def output_apart() -> Iterator[None]:
    """In the block the standard output of the user's code is apart, in all threads."""
    with contextlib.redirect_stdout(cast("TextIO", _Output(sys.stdout))):
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
