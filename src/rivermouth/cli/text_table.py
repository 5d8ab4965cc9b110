"""Tables in plain text. On a terminal they are no wider than it, and no word of theirs is broken."""

from __future__ import annotations

import os
import re
import sys
import unicodedata
from collections.abc import Sequence
from itertools import zip_longest
from typing import Final, TextIO

from rivermouth.names import printable

_GAP: Final = "  "
# Of a terminal that does not know its own.
_WIDTH: Final = 80
# Where a line may end: at a space, or behind a comma, as between the fields of a type.
_PIECES: Final = re.compile(r"[^\s,]*,+|[^\s,]+|\s+")
# Places in files, commands, and hints that are more than words: a line break would be pasted, too.
_PASTED: Final = re.compile(r"\s*(?:at: |rivermouth |hint: (?!known: )(?:.*[:{}=\"$]|.*\brivermouth |.*(?<!\S)-))")

# Commands within a line.
_COMMAND: Final = re.compile(r'"rivermouth [^"]*"|(?<=: )rivermouth [^";,]*$')
_JOINED: Final = "\0"


def columns(
    head: Sequence[str], rows: Sequence[Sequence[object]], *, indent: str = "", stream: TextIO | None = None
) -> str:
    """A table in plain text: numbers to the right with commas between the thousands, words to the left.

    Outside of a terminal each row is one line, whatever its cells hold. On a terminal that is too narrow for that, the
    text of a cell is wrapped; if even that is too wide, each row becomes lines of name and value.

    Args:
        head: Names of the columns.
        rows: Their cells.
        indent: Text before each line.
        stream: Where it goes; standard output where None.
    """
    head = [printable(name) for name in head]
    cells = [[_cell(value) for value in row] for row in rows]
    numeric = [bool(rows) and all(isinstance(row[i], int | float | None) for row in rows) for i in range(len(head))]
    widths = [max(width_of(line[i]) for line in [head, *cells]) for i in range(len(head))]
    room = _room(indent, stream)
    if room is None or _total(widths) <= room:
        return "\n".join(indent + _line(line, widths, numeric) for line in [head, *cells])
    floors = [
        width if right else max(_longest_piece(line[i]) for line in [head, *cells])
        for i, (width, right) in enumerate(zip(widths, numeric, strict=True))
    ]
    # A long name in the first column gets a line of its own, above the rest of its row.
    floors[0] = min(floors[0], max(_longest_piece(head[0]), room - _total(floors[1:]) - len(_GAP)))
    if _total(floors) > room:
        return "\n\n".join("\n".join(indent + line for line in _as_lines(head, row, room)) for row in cells)
    fitted = _fitted(widths, floors, room)
    return "\n".join(indent + line for row in [head, *cells] for line in _wrapped(row, fitted, numeric))


def hanging(head: str, text: str) -> str:
    """``head`` and the text behind it; on a terminal the text goes on below itself, broken between words only."""
    room = _room(head)
    lines = [printable(text)] if room is None else _broken(printable(text), room)
    return "\n".join((head if number == 0 else " " * len(head)) + line for number, line in enumerate(lines)).rstrip()


def folded(text: str, stream: TextIO) -> str:
    """Lines that go on below themselves on a terminal, broken between words only; what is to be pasted stays whole."""
    room = _room("", stream)
    if room is None:
        return text
    lines = []
    for line in text.split("\n"):
        if width_of(line) <= room or _PASTED.match(line):
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 2)
        joined = _COMMAND.sub(lambda command: command[0].replace(" ", _JOINED), line)
        first, *more = _broken(joined, room - len(indent))
        lines += [first, *(indent + each for each in more)]
    return "\n".join(lines).replace(_JOINED, " ")


def width_of(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(_character_width(character) for character in text)


def _character_width(character: str) -> int:
    if unicodedata.combining(character):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _room(indent: str, stream: TextIO | None = None) -> int | None:
    """How wide a table may be; None where nobody sees it on a terminal."""
    stream = stream or sys.stdout
    if not stream.isatty():
        return None
    said = os.environ.get("COLUMNS", "")
    width = int(said) if said.isdecimal() else os.get_terminal_size(stream.fileno()).columns
    return (width or _WIDTH) - len(indent)


def _total(widths: Sequence[int]) -> int:
    return sum(widths) + len(_GAP) * (len(widths) - 1)


def _longest_piece(text: str) -> int:
    return max((width_of(piece) for piece in _PIECES.findall(text) if not piece.isspace()), default=0)


def _fitted(widths: Sequence[int], floors: Sequence[int], room: int) -> list[int]:
    """Widths that fit: the widest column gives way first, and none below its floor."""
    found = list(widths)
    while (excess := _total(found) - room) > 0:
        widest = max((i for i in range(len(found)) if found[i] > floors[i]), key=lambda i: found[i])
        found[widest] = max(floors[widest], found[widest] - excess)
    return found


def _wrapped(row: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> list[str]:
    """The lines of one row."""
    lines = []
    row = list(row)
    if _longest_piece(row[0]) > widths[0]:
        lines.append(row[0])
        row[0] = ""
    parts = [_broken(cell, width) for cell, width in zip(row, widths, strict=True)]
    return [*lines, *(_line(line, widths, numeric) for line in zip_longest(*parts, fillvalue=""))]


def _broken(text: str, width: int) -> list[str]:
    """The text in lines that are no wider, broken between pieces only."""
    lines = [""]
    for piece in _PIECES.findall(text):
        if width_of(lines[-1]) + width_of(piece.rstrip()) > width and lines[-1].strip():
            lines[-1] = lines[-1].rstrip()
            lines.append("")
        if lines[-1] or not piece.isspace() or len(lines) == 1:
            lines[-1] += piece
    return [line.rstrip() for line in lines]


def _line(cells: Sequence[str], widths: Sequence[int], numeric: Sequence[bool]) -> str:
    parts = []
    for cell, width, right in zip(cells, widths, numeric, strict=True):
        space = " " * (width - width_of(cell))
        parts.append(space + cell if right else cell + space)
    return _GAP.join(parts).rstrip()


def _as_lines(head: Sequence[str], row: Sequence[str], room: int) -> list[str]:
    named = (f"{name}: {cell}" if name else cell for name, cell in zip(head, row, strict=True))
    return [line for each in named for line in _broken(each, room)]


def _cell(value: object) -> str:
    match value:
        case None:
            return "-"
        case int():
            return f"{value:,}"
        case float():
            return f"{value:,.0f}" if abs(value) >= 100 else f"{value:,.1f}"  # noqa: PLR2004 - enough digits to compare
        case _:
            return printable(str(value))
