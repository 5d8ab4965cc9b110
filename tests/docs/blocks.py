"""The code blocks of a Markdown page, in order, with the marks that stand before them.

A mark is an HTML comment of its own that begins with ``test:`` and is about the next block::

    <!-- test: skip: needs a cluster -->     not run; the reason is a must
    <!-- test: exit: 1 -->                   the command must end so
    <!-- test: file: orders.jsonl -->        kept as a file of this name in the page's folder
    <!-- test: stop after: written -->       run until its output says so, then SIGTERM; must end with 0
    <!-- test: background after: ready -->   the same, but it is stopped at the end of the page

There is no block that readers do not see: what a test does, a reader can do too.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from markdown_it import MarkdownIt

ROOT = Path(__file__).resolve().parents[2]
WORDS = ("skip", "exit", "file", "stop after", "background after")

# Other hands write these and test them elsewhere; the generated pages hold no commands.
ELSEWHERE = {ROOT / "docs/benchmarks.md", ROOT / "docs/reference/json.md"}

_MARK = re.compile(r"\A<!-- test: (.*?)\s*-->\s*\Z", re.DOTALL)


@dataclass(frozen=True)
class Block:
    """One block: its place, its language, its text, what its mark says, and the prose since the block before it."""

    place: str
    language: str
    text: str
    mark: dict[str, str] = field(default_factory=dict)
    prose: str = ""
    expected: str | None = None


@cache
def blocks(path: Path) -> list[Block]:
    """All fenced blocks of a page; a ``text`` block right behind a command is what the command must print."""
    found: list[Block] = []
    mark: dict[str, str] = {}
    prose: list[str] = []
    behind_command = False
    for token in MarkdownIt("commonmark").parse(path.read_text("utf-8")):
        place = f"{path.relative_to(ROOT)}:{(token.map or [0])[0] + 1}"
        if token.type == "html_block" and (match := _MARK.match(token.content)):
            mark = _parsed(match[1], place)
        elif token.type == "fence":
            language = token.info.strip()
            if language == "text" and behind_command and not mark:
                found[-1] = replace(found[-1], expected=token.content)
            else:
                found.append(Block(place, language, token.content, mark, "\n".join(prose)))
            behind_command = language == "bash"
            mark, prose = {}, []
        else:
            prose.append(token.content)
            # Prose may come between a command and its output; another heading may not.
            behind_command = behind_command and token.type != "heading_open"
    assert not mark, f"{path}: a mark without a block"
    return found


@cache
def pages_with_blocks() -> list[Path]:
    """The pages of which ``test_blocks.py`` tests each block."""
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
    return [path for path in pages if path.is_file() and path not in ELSEWHERE and blocks(path)]


def _parsed(head: str, place: str) -> dict[str, str]:
    mark = {}
    for part in head.split(";"):
        word, _, value = (text.strip() for text in part.partition(":"))
        assert word in WORDS, f"{place}: a mark is one of {WORDS}, not {part!r}"
        assert value, f"{place}: the mark {word!r} has no value"
        mark[word] = value
    return mark


def output_pattern(expected: str) -> re.Pattern[str]:
    """What a command may print: the text itself, ``...`` for the rest of a line or, alone on one, for any lines."""
    lines = []
    for line in expected.strip("\n").splitlines():
        if line.strip() == "...":
            lines.append(r"(?:[^\n]*\n)*?")
        else:
            parts = (re.escape(part) for part in line.rstrip().split("..."))
            lines.append(r"[^\n]*?".join(parts) + r"[^\S\n]*\n")
    return re.compile("".join(lines))
