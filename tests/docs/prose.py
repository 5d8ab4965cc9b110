"""The prose of a Markdown page: its sentences, and words that plain technical English does without."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from markdown_it import MarkdownIt

if TYPE_CHECKING:
    from collections.abc import Iterator

# The preposition among them is refused everywhere, as nobody uses that word otherwise.
REFUSED = (
    "stands",
    "bears",
    "anew",
    "beside",
    "whoever",
    "so many",
    "of which",
    "without a word",
    "told apart",
    "nobody can say",
)
MOST_WORDS = 35

_REFUSED = re.compile(r"\b(?:" + "|".join(REFUSED).replace(" ", r"\s+") + r")\b", re.IGNORECASE)
_END = re.compile(r"(?<=[.!?])[)\"”']*\s+(?=[^a-z])")
_WORD = re.compile(r"[^\s]*\w[^\s]*")


def refused(text: str) -> list[str]:
    """The refused words that a text has."""
    return [" ".join(found.lower().split()) for found in _REFUSED.findall(text)]


def sentences(markdown: str) -> Iterator[tuple[int, str]]:
    """Line and text of each sentence outside of code and tables; inline code counts as one word."""
    in_table = False
    for token in MarkdownIt("commonmark").enable("table").parse(markdown):
        if token.type in {"table_open", "table_close"}:
            in_table = token.type == "table_open"
        if token.type == "inline" and not in_table:
            text = "".join(_text(child) for child in token.children or ())
            for sentence in _END.split(text):
                yield (token.map or [0])[0] + 1, sentence


def too_long(sentence: str) -> bool:
    """Whether a sentence has more words than a reader takes in at once."""
    return len(_WORD.findall(sentence)) > MOST_WORDS


def prose(markdown: str) -> str:
    """All words of a page outside of code."""
    tokens = MarkdownIt("commonmark").enable("table").parse(markdown)
    return "\n".join(
        "".join(_text(child) for child in token.children or ()) for token in tokens if token.type == "inline"
    )


def _text(token) -> str:
    if token.type == "code_inline":
        return "X"
    return "\n" if token.type in {"softbreak", "hardbreak"} else token.content if token.type == "text" else ""
