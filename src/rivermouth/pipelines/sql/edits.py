"""Changes of a text at some places, and where the characters of the result were before."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass

Edit = tuple[int, int, str]
"""The first character that is replaced, the one after the last, and the new text."""


@dataclass(frozen=True, slots=True)
class Edited:
    """A text after its changes.

    Attributes:
        text: As it is now. Each line that was not changed has the number that it had.
        kept: Runs of characters that were not changed: their first character now, their first before, their number.
    """

    text: str
    kept: tuple[tuple[int, int, int], ...]

    def replaced(self, position: int) -> tuple[int, int] | None:
        """What was in the place of a character: from and to; None where it was not changed."""
        i = bisect_right(self.kept, position, key=lambda run: run[0]) - 1
        now, before, length = self.kept[i]
        is_new = position - now >= length and i + 1 < len(self.kept)
        return (before + length, self.kept[i + 1][1]) if is_new else None

    def origin(self, position: int) -> int:
        """Where a character of the text was before; of a new one, where it was put."""
        now, before, length = self.kept[bisect_right(self.kept, position, key=lambda run: run[0]) - 1]
        return before + min(position - now, length)


def edited(text: str, edits: Iterable[Edit]) -> Edited:
    """The text with the changes; one that is within another is left out."""
    pieces: list[str] = []
    kept: list[tuple[int, int, int]] = []
    position = length = 0
    for start, end, new in sorted(edits, key=lambda edit: edit[:2]):
        if start < position:
            continue
        # Where a call over several lines becomes one name, the lines behind it keep their numbers.
        lines = "\n" * (text.count("\n", start, end) - new.count("\n"))
        kept.append((length, position, start - position))
        pieces += [text[position:start], new, lines]
        length += start - position + len(new) + len(lines)
        position = end
    kept.append((length, position, len(text) - position))
    return Edited("".join([*pieces, text[position:]]), tuple(kept))
