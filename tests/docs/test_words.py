"""Pages and errors are plain technical English: no words of our own house, and sentences that end."""

from __future__ import annotations

import ast
import io
import itertools
import re
import tokenize

import pytest
from tests.docs import prose
from tests.docs.blocks import ROOT

from rivermouth import errors

TOP = [ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")]
# Fragments become lines of the changelog.
TOP += sorted((ROOT / "changelog.d").glob("*.md"))
PAGES = TOP + sorted((ROOT / "docs").rglob("*.md"))

# Names in a text: inline code, and the parameter that an entry of "Args" or "@param" describes.
_NAMES = re.compile(r"``[^`]*``|\{@(?:code|link)\b[^}]*\}|^\s*\*{0,2}\w+:|@param\s+\S+", re.MULTILINE)
# Literals come first, so that two slashes within one begin no comment.
_JAVA = re.compile(
    r'"""[\s\S]*?"""|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\''
    r"|(?P<comment>/\*[\s\S]*?\*/|//[^\n]*(?:\n[ \t]*//[^\n]*)*)"
)


def _name(path) -> str:
    return path.relative_to(ROOT).as_posix()


def _python_texts(source: str):
    """Line and text of each docstring and of each block of comments."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.value.value
    tokens = tokenize.generate_tokens(io.StringIO(source).readline)
    comments = enumerate(token for token in tokens if token.type == tokenize.COMMENT)
    # The line less the number is the same for comments on lines that follow each other.
    for _, block in itertools.groupby(comments, lambda each: each[1].start[0] - each[0]):
        lines = [token for _, token in block]
        yield lines[0].start[0], "\n".join(token.string.lstrip("#") for token in lines)


def _java_texts(source: str):
    """Line and text of each comment."""
    for found in _JAVA.finditer(source):
        if comment := found["comment"]:
            yield (
                source.count("\n", 0, found.start()) + 1,
                re.sub(r"^\s*(?:/\*\*?|\*|//)", "", comment, flags=re.MULTILINE),
            )


def _refused(texts):
    return [(line, words) for line, text in texts if (words := prose.refused(_NAMES.sub("X", text)))]


@pytest.mark.parametrize("path", PAGES, ids=_name)
def test_a_page_has_none_of_the_refused_words(path):
    assert prose.refused(prose.prose(path.read_text("utf-8"))) == []


@pytest.mark.parametrize("path", PAGES, ids=_name)
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


def test_no_docstring_or_comment_has_a_refused_word():
    python = [path for folder in ("src", "tools", "bench") for path in sorted((ROOT / folder).rglob("*.py"))]
    java = sorted((ROOT / "src/java").rglob("*.java"))
    assert len(python) > 300
    assert len(java) > 50
    found = {_name(path): _refused(_python_texts(path.read_text("utf-8"))) for path in python}
    found |= {_name(path): _refused(_java_texts(path.read_text("utf-8"))) for path in java}
    assert {name: places for name, places in found.items() if places} == {}


def test_refused_words_are_found_in_docstrings_and_comments_of_python():
    source = '''
"""It stands here, and ``stands`` is a name."""
# There are so
# many. A text of code is none:
beside = "stands"  # anew
def f(beside):
    """Adds it.

    Args:
        beside: A column beside this one.
    """
'''
    assert sorted(_refused(_python_texts(source))) == [
        (2, ["stands"]),
        (3, ["so many", "anew"]),
        (7, ["beside"]),
    ]


def test_refused_words_are_found_in_comments_of_java():
    source = """
/** It {@code stands} here, of
 * which {@link Beside} none bears a name.
 *
 * @param beside told apart */
char quote = \'"\'; String url = "http://stands/*"; // so
    // many
"""
    assert _refused(_java_texts(source)) == [(2, ["of which", "bears", "told apart"]), (6, ["so many"])]


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
