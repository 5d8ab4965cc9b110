"""MkDocs hooks for `make docs`.

The navigation is what docs/README.md lists, headings have GitHub's anchors, and lists are read as GitHub reads them.
MkDocs is not imported here, so that the checks need no documentation environment.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import MutableMapping

_LINK: Final = re.compile(r"\]\(([^)#:\s]+\.md)\)")
_HEADING: Final = re.compile(r"(#{2,3}) (.+)")
_FENCE: Final = re.compile(r"( *)```")
_ITEM: Final = re.compile(r"(?:-|\d+\.) ")
_INDENT: Final = re.compile(r"^ {1,3}(?=\S)")


def slug(heading: str, _separator: str = "-") -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def navigation(docs: Path, index: str = "README.md") -> list[Any]:
    """The pages that an index page links below its own folder, in sections by its headings of levels 2 and 3.

    A link to the index page of another folder (`README.md`) becomes a section with the pages of that index.
    """
    folder = Path(index).parent
    top: list[Any] = [index]
    section = entries = top
    for line in (docs / index).read_text("utf-8").splitlines():
        if heading := _HEADING.match(line):
            above = top if heading[1] == "##" else section
            entries = []
            above.append({heading[2]: entries})
            section = entries if heading[1] == "##" else section
        for target in _LINK.findall(line):
            page = (folder / target).as_posix()
            if target.startswith("../"):
                continue
            entries.append({_title(docs / page): navigation(docs, page)} if target.endswith("README.md") else page)
    return [entry for entry in top if not isinstance(entry, dict) or all(entry.values())]


def _title(page: Path) -> str:
    return page.read_text("utf-8").partition("\n")[0].removeprefix("# ")


def four_spaces(markdown: str) -> str:
    """The text with the inner lines of list items four spaces in, which is what Python-Markdown asks for."""
    lines: list[str] = []
    fence: int | None = None
    in_list = False
    for line in markdown.splitlines():
        mark = _FENCE.match(line)
        if fence is not None:
            lines.append(" " * 4 + line[fence:] if fence and line.strip() else line)
            fence = None if mark else fence
            continue
        if line and not line.startswith(" "):
            in_list = bool(_ITEM.match(line)) or (in_list and bool(lines[-1]))
        if in_list:
            line = _INDENT.sub(" " * 4, line)  # noqa: PLW2901 - the same line, as Python-Markdown reads it
        if mark:
            fence = len(mark[1])
        lines.append(line)
    return "\n".join(lines) + "\n"


def on_config(config: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """MkDocs calls this with the settings of mkdocs.yml."""
    config["nav"] = navigation(Path(config["docs_dir"]))
    config["mdx_configs"].setdefault("toc", {})["slugify"] = slug
    return config


def on_page_markdown(markdown: str, **_page: object) -> str:
    """MkDocs calls this with the text of each page."""
    return four_spaces(markdown)
