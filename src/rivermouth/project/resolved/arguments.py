"""Arguments of the public functions, checked before anything is done: a wrong one is an error of ours."""

from __future__ import annotations

import datetime as dt
import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import PurePath
from typing import Any, Final, ParamSpec, TypeVar

from rivermouth.errors import ArgumentInvalid
from rivermouth.names import did_you_mean

P = ParamSpec("P")
Result = TypeVar("Result")

_ANYTHING: Final = "Any"


def _is_list(value: object) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes)


def _is_several(value: object) -> bool:
    return isinstance(value, Iterable) and not isinstance(value, str | bytes | Mapping)


_FITS: Final[Mapping[str, Callable[[Any], bool]]] = {
    "None": lambda value: value is None,
    "str": lambda value: isinstance(value, str),
    "bool": lambda value: isinstance(value, bool),
    "int": lambda value: isinstance(value, int) and not isinstance(value, bool),
    "float": lambda value: isinstance(value, int | float) and not isinstance(value, bool),
    "Path": lambda value: isinstance(value, PurePath),
    "dt.datetime": lambda value: isinstance(value, dt.datetime),
    "Listener": callable,
    "Switch": lambda value: value is None or isinstance(value, bool | str | int),
    "Mapping": lambda value: isinstance(value, Mapping),
    "Mapping[str, str]": lambda value: isinstance(value, Mapping) and all(isinstance(each, str) for each in value),
    "Sequence": _is_list,
    "Sequence[str]": lambda value: _is_list(value) and all(isinstance(each, str) for each in value),
    "Iterable": _is_several,
}
"""Whether a value fits a part of an annotation; classes of Spark's, and our own, are known by their names."""


def checked(function: Callable[P, Result]) -> Callable[P, Result]:
    """The function, which refuses an argument that is not of its type.

    A call that does not fit the function's signature is Python's own ``TypeError``, which names the function.

    Raises:
        ArgumentInvalid: An argument is of another type; the error names it.
    """
    signature, kinds = inspect.signature(function), kinds_of(function)
    function.__qualname__ = called(function)  # Python's own errors call it so
    several = {name for name, each in signature.parameters.items() if each.kind is inspect.Parameter.VAR_POSITIONAL}

    @functools.wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> Result:
        try:
            given = signature.bind(*args, **kwargs).arguments
        except TypeError:
            return function(*args, **kwargs)  # Python names the function and the argument
        for name in several.intersection(given):
            for value in given.pop(name):
                check(called(function), kinds, {name: value})
        check(called(function), kinds, given)
        return function(*args, **kwargs)

    return call


def kinds_of(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations of a function's parameters, as they are written."""
    return {
        name: str(each.annotation)
        for name, each in inspect.signature(function).parameters.items()
        if each.annotation is not inspect.Parameter.empty and each.kind is not inspect.Parameter.VAR_KEYWORD
    }


def check(function: str, kinds: Mapping[str, str], given: Mapping[str, Any]) -> None:
    """Checks that each value has its declared type.

    Args:
        function: How a user calls it, for the hint.
        kinds: Annotations by name.
        given: Values by name; a name without an annotation may have any value.

    Raises:
        ArgumentInvalid: A value has another type.
    """
    for name, value in given.items():
        wanted = _alternatives(kinds.get(name, _ANYTHING))
        if not any(_fits(value, kind) for kind in wanted):
            detail = f"expected {' or '.join(wanted)}, found {type(value).__name__}"
            raise ArgumentInvalid(argument=name, detail=detail, fix=f"help(rivermouth.{function})")


def known(function: str, given: Iterable[str], names: Iterable[str]) -> None:
    """Checks that a function that takes any keyword knows all of these.

    Args:
        function: Its name, as in ``rivermouth.ingest``.
        given: The keywords of a call.
        names: The keywords that it knows.

    Raises:
        ArgumentInvalid: There is an unknown keyword.
    """
    for name in given:
        if name not in (listed := set(names)):
            raise ArgumentInvalid(
                argument=name, detail=f"{function} has no such argument", fix=did_you_mean(name, listed)
            )


def called(function: Callable[..., Any]) -> str:
    """How a user calls a function of ours: ``Project.run``, ``ingest``."""
    name = function.__qualname__
    return f"Project.{function.__name__}" if "." in name else name


def _alternatives(annotation: str) -> list[str]:
    """The parts of ``str | Sequence[str | int] | None``."""
    found, depth = [""], 0
    for word in annotation.split(" "):
        if word == "|" and depth == 0:
            found.append("")
            continue
        depth += word.count("[") - word.count("]")
        found[-1] += f" {word}" if found[-1] else word
    return found


def _fits(value: object, kind: str) -> bool:
    if kind == _ANYTHING:
        return True
    test = _FITS.get(kind) or _FITS.get(kind.partition("[")[0])
    if test is not None:
        return test(value)
    return kind in {each.__name__ for each in type(value).__mro__}
