"""What the documents of a topic look like: a fold over values, whose parts can be merged in any order.

Plain Python, fast enough for some ten thousand records a second. What is taken for a document here is what the
format json takes: the same limits, the same strictness.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

from rivermouth.schemas import json_limits
from rivermouth.schemas.inferred_numbers import NumberBounds
from rivermouth.schemas.inferred_times import OTHER, form_of, joined
from rivermouth.schemas.type_limits import is_text

Coordinate = tuple[str, int, int]
"""Topic, partition and offset of a record."""

MAX_FIELDS: Final = 500
"""An object with more distinct fields than that, over all records, is read as a map."""
MAX_DEPTH: Final = 20
"""What is nested deeper is kept as JSON text."""
MAX_NODES: Final = 200_000
"""A topic whose documents have more paths than that has no schema that anybody could use."""

BOOLEAN: Final = "boolean"
NUMBER: Final = "number"
STRING: Final = "string"
OBJECT: Final = "object"
ARRAY: Final = "array"
DEEP: Final = "deep"
NULL: Final = "null"

_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")


class ShapesExplode(ValueError):
    """The documents have more different paths than a schema can have."""


class _Fraction(str):
    """A number with a point or an exponent, as it is written in the document."""

    __slots__ = ()


class _Twins(list[tuple[str, Any]]):
    """The members of an object that has two members with the same name."""


class Corrupt(ValueError):
    """A value that is no document; the text is the reason's code, one of the format's."""


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits on how many different shapes of documents are recorded.

    Attributes:
        max_fields: An object with more distinct fields is a map.
        max_depth: What is nested deeper is text.
    """

    max_fields: int = MAX_FIELDS
    max_depth: int = MAX_DEPTH


@dataclass(slots=True)
class Seen:
    """How often something was seen, and in which record first, by the order of coordinates."""

    count: int
    example: Coordinate

    def take(self, other: Seen) -> None:
        """Counts what another counted."""
        self.count += other.count
        self.example = min(self.example, other.example)


class Node:
    """What was seen at one path of the documents; grows by ``add`` and ``merge``.

    Attributes:
        records: In how many records there was anything, null included.
        kinds: What it was, by kind of JSON value.
        numbers: Bounds of the numbers.
        times: Forms of the strings, as bits of ``inferred_times``.
        fields: What was in objects, by name; None where there were too many names, or no objects.
        values: What was in objects, whatever its name, where there were too many names.
        items: What was in arrays.
    """

    __slots__ = ("_last", "fields", "items", "kinds", "numbers", "records", "times", "values")

    def __init__(self) -> None:
        self.records = 0
        self.kinds: dict[str, Seen] = {}
        self.numbers: NumberBounds | None = None
        self.times = 0
        self.fields: dict[str, Node] | None = None
        self.values: Node | None = None
        self.items: Node | None = None
        self._last: Coordinate | None = None

    def add(self, value: Any, at: Coordinate, limits: Limits, depth: int = 0) -> int:
        """Takes one value in; returns by how many there are more nodes now, or fewer where an object became a map."""
        # A path within an array may be met often in one record.
        if self._last is not at:
            self._last = at
            self.records += 1
        kind = _KINDS[type(value)]
        if depth > limits.max_depth and (kind is OBJECT or kind is ARRAY):
            kind = DEEP
        seen = self.kinds.get(kind)
        if seen is None:
            self.kinds[kind] = Seen(1, at)
        else:
            seen.count += 1
            seen.example = min(seen.example, at)
        if kind is STRING:
            if self.times != OTHER:
                self.times = joined(self.times, form_of(value))
        elif kind is NUMBER:
            if self.numbers is None:
                self.numbers = NumberBounds()
            self.numbers.add(value)
        elif kind is OBJECT:
            return self._add_object(value, at, limits, depth + 1)
        elif kind is ARRAY:
            return self._add_array(value, at, limits, depth + 1)
        return 0

    def _add_object(self, value: Any, at: Coordinate, limits: Limits, depth: int) -> int:
        members = value if type(value) is _Twins else value.items()
        made = 0
        if self.fields is None and self.values is None:
            self.fields = {}
        for name, item in members:
            fields = self.fields
            if fields is None:
                if self.values is None:
                    self.values = Node()
                    made += 1
                made += self.values.add(item, at, limits, depth)
                continue
            found = fields.get(name)
            if found is None:
                found = fields[name] = Node()
                made += 1
            made += found.add(item, at, limits, depth)
            if len(fields) > limits.max_fields and depth > 1:
                made += self.collapse(limits)
        return made

    def _add_array(self, value: list[Any], at: Coordinate, limits: Limits, depth: int) -> int:
        made = 0
        if self.items is None:
            self.items = Node()
            made = 1
        items = self.items
        for item in value:
            made += items.add(item, at, limits, depth)
        return made

    def collapse(self, limits: Limits) -> int:
        """Forgets the names of the fields: what was in them is ``values`` from here on; returns as ``add``."""
        values, before = Node(), self.size()
        for each in (self.fields or {}).values():
            values.merge(each, limits)
        self.fields, self.values = None, values
        return self.size() - before

    def size(self) -> int:
        """How many nodes there are, this one among them."""
        below = [*(self.fields or {}).values(), *filter(None, (self.values, self.items))]
        return 1 + sum(each.size() for each in below)

    def merge(self, other: Node, limits: Limits, *, is_root: bool = False) -> None:
        """Takes in what another node saw at the same path in other records; ``other`` is of no use afterwards."""
        self.records += other.records
        self._last = None
        for kind, seen in other.kinds.items():
            self.kinds.setdefault(kind, Seen(0, seen.example)).take(seen)
        self.times = joined(self.times, other.times)
        if other.numbers is not None:
            self.numbers = other.numbers if self.numbers is None else self.numbers.merged(other.numbers)
        if other.items is not None:
            self.items = _merged(self.items, other.items, limits)
        self._merge_objects(other, limits, is_root=is_root)

    def _merge_objects(self, other: Node, limits: Limits, *, is_root: bool) -> None:
        if other.values is not None and self.values is None:
            self.collapse(limits)
        if self.values is not None:
            for each in (other.fields or {}).values():
                self.values.merge(each, limits)
            if other.values is not None:
                self.values.merge(other.values, limits)
            return
        if other.fields is None:
            return
        mine = self.fields = self.fields if self.fields is not None else {}
        for name, node in other.fields.items():
            mine[name] = _merged(mine.get(name), node, limits)
        if len(mine) > limits.max_fields and not is_root:
            self.collapse(limits)

    def described(self, *, named: bool = True) -> Any:
        """All that is known, as plain values that can be compared; of what has no name not in how many records."""
        return {
            "records": self.records if named else None,
            "kinds": {kind: (seen.count, seen.example) for kind, seen in sorted(self.kinds.items())},
            "numbers": self.numbers and self.numbers.described(),
            "times": self.times,
            "fields": self.fields and {name: node.described(named=named) for name, node in sorted(self.fields.items())},
            "values": self.values and self.values.described(named=False),
            "items": self.items and self.items.described(named=named),
        }


def _merged(mine: Node | None, other: Node, limits: Limits) -> Node:
    if mine is None:
        mine = Node()
    mine.merge(other, limits)
    return mine


@dataclass(slots=True)
class Shape:
    """What was seen of a topic. A new one saw nothing; ``merge`` is associative and takes parts in any order.

    Attributes:
        limits: Limits on different shapes; the same in all parts.
        apart: Names, in lower case, of fields of any shape, into which nothing looks: to all else they are null.
        documents: What was in the documents.
        records: Records with a value.
        without_value: Records without one.
        corrupt: Values that the format would refuse whatever is declared, by reason.
        nodes: How many paths there are in them.
    """

    limits: Limits = field(default_factory=Limits)
    apart: frozenset[str] = frozenset()
    documents: Node = field(default_factory=Node)
    records: int = 0
    without_value: int = 0
    corrupt: dict[str, Seen] = field(default_factory=dict)
    nodes: int = 0

    def add(self, value: bytes | None, at: Coordinate, unwrap: Callable[[bytes], bytes] = bytes) -> None:
        """Takes one record in.

        Args:
            value: Its value.
            at: Where it is.
            unwrap: Makes of a value what it is within; raises ``Corrupt`` where it cannot.

        Raises:
            ShapesExplode: The documents have too many different paths.
        """
        if value is None:
            self.without_value += 1
            return
        self.records += 1
        try:
            document = parsed(unwrap(value))
        except Corrupt as refused:
            self.corrupt.setdefault(str(refused), Seen(0, at)).take(Seen(1, at))
            return
        if self.apart:
            document = _without(document, self.apart)
        self.nodes += self.documents.add(document, at, self.limits)
        if self.nodes > MAX_NODES:
            raise ShapesExplode

    def merge(self, other: Shape) -> Shape:
        """This one, with what another saw in other records; ``other`` is of no use afterwards."""
        self.documents.merge(other.documents, self.limits, is_root=True)
        self.records += other.records
        self.without_value += other.without_value
        self.nodes = self.documents.size() - 1
        for reason, seen in other.corrupt.items():
            self.corrupt.setdefault(reason, Seen(0, seen.example)).take(seen)
        return self

    @property
    def corrupt_records(self) -> int:
        """How many values are no documents."""
        return sum(seen.count for seen in self.corrupt.values())

    @property
    def sound_records(self) -> int:
        """How many values are documents."""
        return self.records - self.corrupt_records

    def described(self) -> Any:
        """All that is known, as plain values that can be compared."""
        corrupt = {reason: (seen.count, seen.example) for reason, seen in sorted(self.corrupt.items())}
        return (self.records, self.without_value, corrupt, self.documents.described())


def parsed(value: bytes) -> Any:
    """The document that a value is.

    Raises:
        Corrupt: It is none; the reason is one of the format's codes.
    """
    try:
        text = value.decode("utf-8")
    except UnicodeDecodeError:
        raise Corrupt("INVALID_UTF8") from None
    if text.count("{") + text.count("[") > json_limits.MAX_DEPTH and json_limits.deeper_than(
        json_limits.MAX_DEPTH, text
    ):
        raise Corrupt("TOO_DEEP")
    try:
        document = _DECODER.decode(text)
    except Corrupt:
        raise
    except RecursionError:
        raise Corrupt("TOO_DEEP") from None
    except ValueError:
        raise Corrupt("INVALID_JSON") from None
    if not isinstance(document, dict | _Twins):
        raise Corrupt("NOT_AN_OBJECT")
    if len(text) > json_limits.MAX_NAME and any(_is_long(part) for part in _texts(document)):
        raise Corrupt("TOO_LONG")
    if "\\u" in text and _HALF.search(text) and not all(is_text(part) for part, _ in _texts(document)):
        raise Corrupt("LONE_SURROGATE")
    return document


def _without(document: Any, apart: frozenset[str]) -> Any:
    members = document.items() if isinstance(document, dict) else document
    return _object([(name, None if name.lower() in apart else value) for name, value in members])


def _object(members: list[tuple[str, Any]]) -> Any:
    document = dict(members)
    # All of them count: the parser of the format judges each.
    return document if len(document) == len(members) else _Twins(members)


def _integer(digits: str) -> int:
    if len(digits) > json_limits.MAX_NUMBER:
        raise Corrupt("TOO_LONG")
    return int(digits)


def _fraction(digits: str) -> _Fraction:
    if len(digits) > json_limits.MAX_NUMBER:
        raise Corrupt("TOO_LONG")
    return _Fraction(digits)


def _constant(_word: str) -> None:
    raise Corrupt("INVALID_JSON")


_DECODER: Final = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_fraction, parse_constant=_constant
)
_KINDS: Final[dict[type, str]] = {
    dict: OBJECT,
    _Twins: OBJECT,
    list: ARRAY,
    str: STRING,
    int: NUMBER,
    _Fraction: NUMBER,
    bool: BOOLEAN,
    type(None): NULL,
}


def _texts(document: Any) -> Iterator[tuple[str, bool]]:
    """All texts in a document, and whether each is a name."""
    todo = [document]
    while todo:
        part = todo.pop()
        if isinstance(part, str):
            yield part, False
        elif isinstance(part, dict | _Twins):
            for name, item in part.items() if isinstance(part, dict) else part:
                yield name, True
                todo.append(item)
        elif isinstance(part, list):
            todo.extend(part)


def _is_long(part: tuple[str, bool]) -> bool:
    text, is_name = part
    if is_name:
        return len(text) > json_limits.MAX_NAME
    return json_limits.characters(text) > json_limits.MAX_STRING
