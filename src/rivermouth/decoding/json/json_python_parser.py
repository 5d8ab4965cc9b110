"""A JSON document as written, to check it part by part: numbers as their text, objects with all of their members."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Number:
    """A number as written in the document."""

    text: str
    whole: bool


class Object(list[tuple[str, Any]]):
    """The members of an object in order, twins included."""


def parts(value: Any) -> Iterator[Any]:
    """A value and all that is in it."""
    todo = [value]
    while todo:
        part = todo.pop()
        yield part
        if isinstance(part, Object):
            todo.extend(item for _, item in part)
        elif isinstance(part, list):
            todo.extend(part)


def texts(value: Any) -> Iterator[str]:
    """All strings in it, names of members among them."""
    for part in parts(value):
        if isinstance(part, str):
            yield part
        elif isinstance(part, Object):
            yield from (name for name, _ in part)


def kind(value: Any) -> str:
    """What a value is, in words that hold nothing of it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case str():
            return "a string"
        case Number():
            return "a whole number" if value.whole else "a number with a fraction or an exponent"
        case Object():
            return "an object"
    return "an array"
