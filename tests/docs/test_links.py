"""Links of the documentation lead somewhere, and every page can be reached."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from functools import cache
from pathlib import Path

import pytest
from markdown_it import MarkdownIt
from tests.docs.blocks import ROOT
from tools.reference_markdown import slug

_STATUS = re.compile(
    r"# \d{4}: .+\n\nStatus: (?:accepted|superseded by \d{4}), \d{4}-\d\d-\d\d\n(?:Supersedes: \d{4}\n)?\n## "
)

TOP = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "changelog.d/README.md"]
PAGES = [path for name in TOP if (path := ROOT / name).is_file()] + sorted((ROOT / "docs").rglob("*.md"))


@cache
def _blocks(path: Path):
    return MarkdownIt("commonmark").enable("table").parse(path.read_text("utf-8"))


def _tokens(path: Path):
    for token in _blocks(path):
        yield token
        yield from token.children or ()


def _links(path: Path) -> list[str]:
    targets = [token.attrs.get("href") or token.attrs.get("src") for token in _tokens(path) if token.attrs]
    html = [token.content for token in _tokens(path) if token.type in {"html_block", "html_inline"}]
    targets += [found for text in html for found in re.findall(r'(?:src|srcset|href)="([^"]+)"', text)]
    return [target for target in targets if target]


@cache
def _anchors(path: Path) -> set[str]:
    seen: dict[str, int] = {}
    anchors = set()
    for token, text in itertools.pairwise(_blocks(path)):
        if token.type == "heading_open":
            plain = "".join(child.content for child in text.children or ())
            name = slug(plain)
            anchors.add(f"{name}-{seen[name]}" if name in seen else name)
            seen[name] = seen.get(name, 0) + 1
    return anchors


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_links_lead_somewhere(path):
    for link in _links(path):
        if link.startswith("https://"):
            continue
        target, _, anchor = link.partition("#")
        file = (path.parent / target).resolve() if target else path
        assert file.exists(), f"{path.relative_to(ROOT)}: {link}"
        if anchor:
            assert anchor in _anchors(file), f"{path.relative_to(ROOT)}: {link} has no such heading"


def test_every_page_is_reached_from_the_readme():
    reached, waiting = set(), [ROOT / "README.md"]
    while waiting:
        path = waiting.pop()
        if path in reached or path.suffix != ".md" or not path.is_file():
            continue
        reached.add(path)
        waiting += [
            (path.parent / link.partition("#")[0]).resolve() for link in _links(path) if not link.startswith("https://")
        ]
    assert sorted(set(PAGES) - reached) == []


def test_decisions_are_numbered_and_have_their_parts():
    folder = ROOT / "docs/adr"
    pages = sorted(path for path in folder.glob("*.md") if path.name != "README.md")
    numbers = [int(path.name[:4]) for path in pages]
    # Numbers may be left out: pages that are written at the same time take theirs apart.
    assert len(set(numbers)) == len(numbers) > 0
    for path in pages:
        text = path.read_text("utf-8")
        headings = re.findall(r"^## (.+)$", text, re.MULTILINE)
        assert headings == ["Context", "Decision", "Consequences"], path.name
        assert _STATUS.match(text), f"{path.name}: a title, then `Status: accepted, <date>` or `superseded by <number>`"
    listed = re.findall(r"^\| \[(\d{4})\]", (folder / "README.md").read_text("utf-8"), re.MULTILINE)
    assert [int(number) for number in listed] == numbers


def test_a_decision_and_the_one_before_it_name_each_other():
    superseded, supersedes = set(), set()
    for path in (ROOT / "docs/adr").glob("0*.md"):
        number, text = path.name[:4], path.read_text("utf-8")
        superseded |= {(number, new) for new in re.findall(r"(?m)^Status: superseded by (\d+)", text)}
        supersedes |= {(old, number) for old in re.findall(r"(?m)^Supersedes: (\d+)", text)}
    assert superseded == supersedes


def test_the_list_of_pages_has_each_how_to_page_in_one_group():
    listed = re.findall(r"\]\(how-to/([^)#]+)\)", (ROOT / "docs/README.md").read_text("utf-8"))
    assert sorted(listed) == sorted(path.name for path in (ROOT / "docs/how-to").glob("*.md"))


def test_pictures_say_in_words_what_they_show():
    pictures = sorted((ROOT / "docs").rglob("*.svg"))
    assert pictures
    for path in pictures:
        root = ET.parse(path).getroot()
        names = [child.tag.rpartition("}")[2] for child in root]
        assert names[:2] == ["title", "desc"], path.name


def test_fragments_of_the_changelog_are_gathered():
    fragments = [path for path in (ROOT / "changelog.d").iterdir() if path.name != "README.md"]
    command = [sys.executable, "-m", "towncrier", "build", "--draft", "--version", "0", "--date", "2026-01-01"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    for path in fragments:
        first = path.read_text("utf-8").split()[:3]
        assert " ".join(first) in " ".join(done.stdout.split()), f"{path.name} is not gathered: is its kind known?"
