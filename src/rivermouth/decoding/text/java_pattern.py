"""The named groups of a regular expression of Java, read without Java: what is told before Spark starts.

Only what is certain is refused here; Java itself judges the rest when it compiles the pattern.
"""

from __future__ import annotations

import re
from typing import Final

_QUOTATION: Final = re.compile(r"\\Q.*?(?:\\E|\Z)", re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:k<([^<>]*)>|c.|.)", re.DOTALL)
_GROUP: Final = re.compile(r"\(\?<(?![=!])([^<>()\\\[\]]+)>")
_OF_PYTHON: Final = re.compile(r"\(\?P([<=>])")
# Within them blanks and the rest of a line behind # mean nothing, so that signs mean something else.
_COMMENTS: Final = re.compile(r"\(\?[a-zA-Z]*x")
# The rest of a class does not matter: a ] that is its first character does not close it.
_CLASS: Final = re.compile(r"\[\^?\]?")


class PatternRefused(ValueError):
    """A pattern that Java does not compile, or whose groups are not the columns."""


def groups(pattern: str) -> tuple[str, ...] | None:
    """The names of its groups, in their order; None if that cannot be told.

    Raises:
        ValueError: Java would not compile it, or a name is there twice; the text says why and what to write.
    """
    return None if _COMMENTS.search(pattern) else _Reading(pattern).groups()


def misfit(groups: tuple[str, ...], columns: list[str]) -> str | None:
    """What is wrong with groups that are not the columns, and what to do; None if they are the same names."""
    for name in groups:
        if name not in columns:
            return f"its group {name} is no column of the schema: write (?: for (?<{name}>, or declare it"
    for name in columns:
        if name not in groups:
            return f"it has no group for the column {name}: write (?<{name}>...) where its text is"
    return None


class _Reading:
    def __init__(self, pattern: str) -> None:
        self._pattern = pattern
        self._names: list[str] = []
        # Where what is open begins, innermost last: a group, or a class of characters within a class.
        self._open: list[int] = []
        self._classes: list[int] = []

    def groups(self) -> tuple[str, ...]:
        place = 0
        while place < len(self._pattern):
            place = self._in_class(place) if self._classes else self._outside(place)
        if self._classes:
            raise _refused(
                f"the [ at character {self._classes[-1] + 1} is not closed", "write ] behind it, or \\[ for it"
            )
        if self._open:
            raise _refused(f"the ( at character {self._open[-1] + 1} is not closed", "write ) behind it, or \\( for it")
        return tuple(self._names)

    def _outside(self, place: int) -> int:
        sign = self._pattern[place]
        if sign == "\\":
            return self._escaped(place)
        if sign == "[":
            return self._class(place)
        if sign == "(":
            self._group(place)
            self._open.append(place)
        elif sign == ")":
            if not self._open:
                raise _refused(f"the ) at character {place + 1} closes nothing", "write ( before it, or \\) for it")
            self._open.pop()
        return place + 1

    def _in_class(self, place: int) -> int:
        sign = self._pattern[place]
        if sign == "\\":
            return self._escaped(place)
        if sign == "[":
            return self._class(place)
        if sign == "]":
            self._classes.pop()
        elif found := _GROUP.match(self._pattern, place):
            # Java takes it for signs, but for a group it was meant, or will be read.
            detail = f"{found[0]} at character {place + 1} is within [ and ] and is no group"
            raise _refused(detail, r"write \(\?< for these signs, or ] before it")
        return place + 1

    def _class(self, place: int) -> int:
        """Behind its beginning: a ] that is the first sign of a class does not close it."""
        self._classes.append(place)
        found = _CLASS.match(self._pattern, place)
        return found.end() if found else place + 1

    def _escaped(self, place: int) -> int:
        found = _QUOTATION.match(self._pattern, place) or _ESCAPE.match(self._pattern, place)
        if found is None:
            raise _refused("it ends with a \\ that has nothing after it", "write \\\\ for that sign itself")
        if found.re is _ESCAPE and found[1] is not None and not self._classes and found[1] not in self._names:
            name = found[1]
            raise _refused(f"\\k<{name}> comes before any group of that name", f"write (?<{name}>...) before it")
        return found.end()

    def _group(self, place: int) -> None:
        if python := _OF_PYTHON.match(self._pattern, place):
            wanted = {"<": "(?<name>", "=": "\\k<name>"}.get(python[1], "the group's pattern")
            detail = f"(?P{python[1]} at character {place + 1} is Python's, and the pattern is one of Java's"
            raise _refused(detail, f"write {wanted} instead")
        found = _GROUP.match(self._pattern, place)
        if found is None:
            return
        if found[1] in self._names:
            detail = f"it has two groups of the name {found[1]}"
            raise _refused(detail, "give each group a name, and a column, of its own")
        self._names.append(found[1])


def _refused(detail: str, fix: str) -> ValueError:
    return ValueError(f"{detail}: {fix}")
