"""Pages and errors are plain technical English: no words of our own house, and sentences that end."""

from __future__ import annotations

import ast
import re

import pytest
from tests.docs import prose
from tests.docs.blocks import ROOT
from tools import docs_reference

from rivermouth import errors

TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
# Fragments become lines of the changelog.
TOP += sorted((ROOT / "changelog.d").glob("*.md"))
PAGES = TOP + sorted((ROOT / "docs").rglob("*.md"))
# The texts of generated pages are docstrings.
WRITTEN = [path for path in PAGES if path.parent.name != "reference" or path.name not in docs_reference.PAGES]


def _name(path) -> str:
    return path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_page_has_none_of_the_refused_words(path):
    assert prose.refused(prose.prose(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("path", WRITTEN, ids=_name)
def test_no_sentence_of_a_page_is_too_long(path):
    assert [place for place in prose.sentences(path.read_text("utf-8")) if prose.too_long(place[1])] == []


def test_no_text_in_the_package_has_a_refused_word():
    found = []
    for path in sorted((ROOT / "src").rglob("*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        docstrings = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
        found += [
            (_name(path), node.lineno, words)
            for node in ast.walk(tree)
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in docstrings
            # A text, and no name or word of a format; what is in braces are names of facts.
            if " " in node.value and (words := prose.refused(re.sub(r"\{[^}]*\}", "", node.value)))
        ]
    assert found == []


def test_errors_have_none_of_the_refused_words():
    classes = [
        value
        for value in vars(errors).values()
        if isinstance(value, type) and issubclass(value, errors.RivermouthError)
    ]
    texts = {(cls.__name__, name): getattr(cls, name) for cls in classes for name in ("what", "hint")}
    # What is in braces are names of facts.
    found = {key: words for key, text in texts.items() if (words := prose.refused(re.sub(r"\{[^}]*\}", "", text)))}
    assert len(classes) > 50
    assert found == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("It stands\nhere, of\nwhich Nobody can say so many.", ["stands", "of which", "nobody can say", "so many"]),
        ("Besides, it understands the bearing.", []),
        ("X stands for `stands`; BESIDE it", ["stands", "beside"]),
    ],
)
def test_refused_words_are_found_in_prose(text, words):
    assert prose.refused(prose.prose(text)) == words


def test_sentences_end_at_full_stops_and_code_is_one_word():
    page = (
        "# A title\n\nOne, e.g. this. `a b. c d` is two!\n(Three?) Four\n\n| no |\n|---|\n| a |\n\n- Five\n  goes on.\n"
    )
    assert [" ".join(text.split()) for _, text in prose.sentences(page)] == [
        "A title",
        "One, e.g. this.",
        "X is two!",
        "(Three?",
        "Four",
        "Five goes on.",
    ]
    assert prose.too_long("word " * 36)
    assert not prose.too_long("word " * 35 + "- —")
