"""YAML as plain values that keep their line numbers.

Plain scalars follow YAML 1.2: only ``true`` and ``false`` are booleans and no date is made of text. Words that
YAML 1.1 and 1.2 read differently (``no``, ``010``, ``1:30``) are refused, for one of the two readers would be
surprised. Anchors, aliases and merge keys work; tags and several documents do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import yaml
from yaml import events

from rivermouth.errors import ProjectInvalid, RivermouthError
from rivermouth.project.file import secret_keys
from rivermouth.project.file.yaml_errors import explained

Path = tuple[str | int, ...]
"""Keys and list positions from the root of the file to a value."""

MAX_BYTES: Final = 1 << 20
MAX_DEPTH: Final = 40
MAX_VALUES: Final = 100_000
"""Bound on values after aliases are followed: a few lines of aliases can stand for billions."""

_INT: Final = re.compile(r"^[-+]?(0|[1-9][0-9]*(_[0-9]+)*)$")
_FLOAT: Final = re.compile(r"^[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?$")
_HEX: Final = re.compile(r"^0x[0-9a-fA-F]+$")
_WORDS: Final = {"true": True, "false": False, "null": None, "~": None, "": None}
# Of this setting null means that there is none; what people mean by these is most often the text.
_NULL_VALUE: Final = "null_value"
_NULLS: Final = ("", "NULL", "Null")
_OTHERS: Final = "to some readers of YAML and"
# A key is never true or false, so nobody can mean something else by it where it is the name of a setting.
_LOOKUP, _LOOKUP_KEY = "lookup", "on"
_TWO_MEANINGS: Final = (
    (re.compile(r"^(yes|no|on|off)$", re.IGNORECASE), f"means true or false {_OTHERS} is text to others"),
    (re.compile(r"^[-+]?0[0-9_]+$"), f"is octal {_OTHERS} decimal to others"),
    (re.compile(r"^0[ob][0-9]+$"), f"is a number {_OTHERS} text to others"),
    (re.compile(r"^[-+]?[0-9][0-9_]*(:[0-5]?[0-9])+(\.[0-9]*)?$"), f"is a number to base 60 {_OTHERS} text to others"),
)


@dataclass(frozen=True, slots=True)
class Document:
    """A file's value with its lines.

    Attributes:
        value: Mappings, lists, text, numbers, booleans and None.
        lines: Line by path, counted from 1: of the key in a mapping, of the item in a list.
        problems: What is wrong but did not keep the rest from being read.
        doubtful: Paths of values that are among the problems: nothing more is to be said of them.
        references: By path of a text with references that text, and each ``${NAME}`` in it, with their values.
    """

    value: Any
    lines: Mapping[Path, int] = field(default_factory=dict)
    problems: tuple[RivermouthError, ...] = ()
    doubtful: frozenset[Path] = frozenset()
    references: Mapping[Path, tuple[tuple[str, str], ...]] = field(default_factory=dict, repr=False)

    def line(self, path: Path) -> int:
        """The line of the value at ``path``, or of the nearest part of the file that holds it."""
        while path and path not in self.lines:
            path = path[:-1]
        return self.lines.get(path, 1)


def read(text: str, file: str) -> Document:
    """The one document in ``text``.

    Args:
        text: YAML.
        file: Name of the file, for messages.

    Raises:
        ProjectInvalid: The text is no YAML, or more of it than a project may be.
    """
    if not text.strip():
        raise ProjectInvalid(at=f"{file}:1", detail="the file is empty", fix="rivermouth init")
    try:
        root = _Composer(yaml.parse(text, Loader=yaml.SafeLoader), file).document()
    except yaml.YAMLError as error:
        raise explained(error, text, file) from None
    values = _Values(file)
    value = values.of(root, (), 0)
    return Document(value, values.lines, tuple(values.problems), frozenset(values.doubtful))


def read_texts(text: str, file: str) -> Document:
    """The one document in ``text`` with its plain values as the texts that they are written as, and None for null.

    What is true or false to all readers of YAML is ``true`` or ``false``, in whichever letter case it is written.

    So are files of others read, whose words mean what their own readers make of them.

    Args:
        text: YAML, or JSON.
        file: Name of the file, for messages.

    Raises:
        ProjectInvalid: The text is no YAML, or more of it than a project may be.
    """
    try:
        root = _Composer(yaml.parse(text, Loader=yaml.SafeLoader), file).document()
    except yaml.YAMLError as error:
        raise explained(error, text, file) from None
    values = _Texts(file)
    value = values.of(root, (), 0)
    return Document(value, values.lines, tuple(values.problems))


def scalar(text: str) -> str | int | float | bool | None:
    """What a plain scalar means."""
    if text.lower() in _WORDS and text in (text.lower(), text.upper(), text.capitalize()):
        return _WORDS[text.lower()]
    if _INT.match(text):
        return int(text)
    if _HEX.match(text):
        return int(text, 16)
    return float(text) if _FLOAT.match(text) else text


def two_meanings(text: str) -> str | None:
    """Why a plain scalar must be quoted; None where all readers agree on it."""
    return next((reason for pattern, reason in _TWO_MEANINGS if pattern.match(text)), None)


@dataclass(frozen=True, slots=True)
class _Node:
    line: int
    text: str | None = None
    plain: bool = False
    items: tuple[_Node, ...] | None = None
    pairs: tuple[tuple[_Node, _Node], ...] | None = None


class _Composer:
    """Builds nodes of events. PyYAML's own composer has no bound on depth and lets an anchor hold itself."""

    def __init__(self, stream: Iterator[Any], file: str) -> None:
        self._stream = stream
        self._file = file
        self._anchors: dict[str, _Node] = {}

    def document(self) -> _Node:
        next(self._stream)
        if isinstance(next(self._stream), events.StreamEndEvent):
            raise self._error("the file holds nothing but comments", 1, "lake: ./lake")
        root = self._node(next(self._stream), 0)
        next(self._stream)
        after = next(self._stream)
        if not isinstance(after, events.StreamEndEvent):
            raise self._error(
                "a second document begins here ('---')", _line(after), "one project, one file: remove the line"
            )
        return root

    def _node(self, event: Any, depth: int) -> _Node:
        line = _line(event)
        if depth > MAX_DEPTH:
            raise self._error(f"more than {MAX_DEPTH} levels of nesting", line, "close the brackets")
        if isinstance(event, events.AliasEvent):
            if event.anchor not in self._anchors:
                # The name may be a secret that was left without quotes.
                fix = "put a text that begins with * in quotes, or write &name before the value that is meant"
                raise self._error("there is an alias (*name) here, and its anchor is not above it", line, fix)
            return self._anchors[event.anchor]
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise self._error(
                "there is a tag ('!') here, and tags are not read", line, "remove the tag, or quote the text"
            )
        node = self._filled(event, line, depth)
        if event.anchor:
            self._anchors[event.anchor] = node
        return node

    def _filled(self, event: Any, line: int, depth: int) -> _Node:
        if isinstance(event, events.ScalarEvent):
            return _Node(line, text=event.value, plain=event.style is None and event.tag is None)
        children = []
        while not isinstance(child := next(self._stream), events.SequenceEndEvent | events.MappingEndEvent):
            children.append(self._node(child, depth + 1))
        if isinstance(event, events.SequenceStartEvent):
            return _Node(line, items=tuple(children))
        return _Node(line, pairs=tuple(zip(children[::2], children[1::2], strict=True)))

    def _error(self, detail: str, line: int, fix: str) -> ProjectInvalid:
        return ProjectInvalid(at=f"{self._file}:{line}", detail=detail, fix=fix)


class _Values:
    """Turns nodes into values; what can be passed over is collected, not raised."""

    def __init__(self, file: str) -> None:
        self.lines: dict[Path, int] = {}
        self.problems: list[RivermouthError] = []
        self.doubtful: set[Path] = set()
        self._file = file
        self._count = 0

    def of(self, node: _Node, path: Path, depth: int) -> Any:
        self._count += 1
        if self._count > MAX_VALUES or depth > MAX_DEPTH:
            raise ProjectInvalid(
                at=f"{self._file}:{node.line}",
                detail=f"with its aliases the file has more than {MAX_VALUES} values or {MAX_DEPTH} levels",
                fix="write fewer aliases (*name)",
            )
        self.lines.setdefault(path, node.line)
        if node.items is not None:
            return [self.of(item, (*path, index), depth + 1) for index, item in enumerate(node.items)]
        if node.pairs is not None:
            return self._mapping(node.pairs, path, depth)
        return self._one(node, path)

    def _one(self, node: _Node, path: Path) -> Any:
        if self._in_doubt(node, path, hidden=secret_keys.can_be_secret(path)):
            self.doubtful.add(path)
            return node.text
        return scalar(node.text or "") if node.plain else node.text

    def _mapping(self, pairs: tuple[tuple[_Node, _Node], ...], path: Path, depth: int) -> dict[str | int, Any]:
        result: dict[str | int, Any] = {}
        merged: list[_Node] = []
        for key_node, value_node in pairs:
            if key_node.plain and key_node.text == "<<":
                merged += value_node.items if value_node.items is not None else (value_node,)
                continue
            key = self._key(key_node, path)
            if key is None:
                continue
            here = (*path, key)
            if key in result:
                fix = f"keep one of them; the first is at {self._file}:{self.lines[here]}"
                named = "a key" if secret_keys.within_secret(path) else f"the key {secret_keys.name_of(here)!r}"
                self._problem(f"{named} is there twice in one mapping", key_node.line, fix)
                continue
            self.lines[here] = key_node.line
            result[key] = self.of(value_node, here, depth + 1)
        for node in merged:
            self._merge(node, result, path, depth)
        return result

    def _merge(self, node: _Node, result: dict[str | int, Any], path: Path, depth: int) -> None:
        if node.pairs is None:
            self._problem("'<<' merges mappings, and this is none", node.line, "write <<: *name of a mapping")
            return
        known = dict(self.lines)
        for key, value in self._mapping(node.pairs, path, depth + 1).items():
            result.setdefault(key, value)
        # What the mapping itself says keeps its own lines.
        self.lines.update(known)

    def _key(self, node: _Node, path: Path) -> str | int | None:
        if node.text is None:
            self._problem("a key is a list or a mapping", node.line, "quote a text that begins with [ or {")
            return None
        hidden = secret_keys.within_secret(path)
        if (_LOOKUP not in path or node.text != _LOOKUP_KEY) and self._in_doubt(node, (), hidden=hidden):
            return None
        key = scalar(node.text) if node.plain else node.text
        if isinstance(key, str) or (isinstance(key, int) and not isinstance(key, bool)):
            return key
        if node.text == "":
            self._problem("a key is empty", node.line, "write the key before the ':'")
        elif hidden:
            self._problem("a key is no text", node.line, "write it in quotes")
        else:
            self._problem(f"the key {node.text} is no text", node.line, f'write it in quotes: "{node.text}"')
        return None

    def _in_doubt(self, node: _Node, path: Path, *, hidden: bool) -> bool:
        if node.plain and path[-1:] == (_NULL_VALUE,) and node.text in _NULLS:
            fix = f'for fields that say so {_NULL_VALUE}: "{node.text}", and for none {_NULL_VALUE}: null'
            self._problem(f"{node.text or 'nothing'} is YAML's null here, and no text", node.line, fix)
            return True
        reason = two_meanings(node.text) if node.plain and node.text else None
        if reason is not None and hidden:
            self._problem(f"this value {reason}", node.line, "write it in quotes")
        elif reason is not None:
            self._problem(f"{node.text} {reason}", node.line, _unambiguous(str(node.text)))
        return reason is not None

    def _problem(self, detail: str, line: int, fix: str) -> None:
        self.problems.append(ProjectInvalid(at=f"{self._file}:{line}", detail=detail, fix=fix))


class _Texts(_Values):
    """The same, where nothing is made of the texts of values and keys."""

    def _one(self, node: _Node, path: Path) -> str | None:  # noqa: ARG002 - of the base
        text = node.text or ""
        meant = scalar(text) if node.plain else text
        return None if meant is None else text.lower() if isinstance(meant, bool) else text

    def _key(self, node: _Node, path: Path) -> str | int | None:
        return node.text or super()._key(node, path)


def _unambiguous(text: str) -> str:
    quoted = f'write it in quotes: "{text}"'
    if text.isalpha():
        return f"{quoted}, or write {str(text.lower() in ('yes', 'on')).lower()}"
    digits = text.lstrip("+-0").replace("_", "")
    return f"{quoted}, or write {digits}" if digits.isdigit() else quoted


def _line(event: Any) -> int:
    return int(event.start_mark.line) + 1
