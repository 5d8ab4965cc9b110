"""What PyYAML says about a broken file, in words that name the cause and the line to mend."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

import yaml

from rivermouth.errors import ProjectInvalid

_QUOTE: Final = 'put the whole value in quotes: "..."'
_QUOTED: Final = re.compile(r"'[^']{2,}'|\"[^\"]{2,}\"")
_INDENT: Final = "indent the keys of one mapping by the same number of spaces"


def explained(error: yaml.YAMLError, text: str, file: str) -> ProjectInvalid:
    """``error`` as ours, standing at the line that is to be changed."""
    if isinstance(error, yaml.reader.ReaderError):
        line = text.count("\n", 0, error.position) + 1
        detail = f"the file holds a character that YAML does not allow (U+{int(error.character):04X})"
        return ProjectInvalid(at=f"{file}:{line}", detail=detail, fix="save it as plain UTF-8 text")
    if not isinstance(error, yaml.MarkedYAMLError) or error.problem_mark is None:
        return ProjectInvalid(at=f"{file}:1", detail="the file is no YAML", fix="rivermouth init -f new.yml")
    problem = error.problem or ""
    mark = error.problem_mark
    begin = (error.context_mark or mark).line
    for pattern, explain in _CAUSES:
        match = pattern.search(f"{error.context or ''}: {problem}")
        if match:
            line, detail, fix = explain(_Where(text.splitlines(), begin, mark.line, match))
            return ProjectInvalid(at=f"{file}:{line + 1}", detail=detail, fix=fix)
    # What PyYAML quotes may be a part of a secret.
    said = _QUOTED.sub("...", problem)
    return ProjectInvalid(
        at=f"{file}:{mark.line + 1}", detail=f"the file is no YAML: {said}", fix="mend the line, or the one above it"
    )


class _Where:
    """The lines around a problem.

    Attributes:
        begin: Line in which the broken thing begins, counted from 0.
        end: Line in which it shows.
        match: The match of the cause's pattern.
    """

    def __init__(self, lines: list[str], begin: int, end: int, match: re.Match[str]) -> None:
        self._lines = lines
        self.begin = begin
        self.end = end
        self.match = match

    def line(self, number: int) -> str:
        """The text of a line; empty beyond the file's end."""
        return self._lines[number] if 0 <= number < len(self._lines) else ""

    def before(self, number: int) -> int:
        """The nearest line above that is neither blank nor a comment; the first one at worst."""
        number -= 1
        while number > 0 and re.match(r"^\s*(#|$)", self.line(number)):
            number -= 1
        return max(number, 0)


_Explained = tuple[int, str, str]


def _tab(where: _Where) -> _Explained:
    return where.end, "a tab indents this line, and YAML takes only spaces", "replace each tab by two spaces"


def _forbidden_start(where: _Where) -> _Explained:
    return where.end, f"a value begins with {where.match[1]}, which YAML keeps for itself", _QUOTE


def _open_quote(where: _Where) -> _Explained:
    return where.begin, "a quote is opened on this line and never closed", "close the quote at the end of the value"


def _escape(where: _Where) -> _Explained:
    detail = "a backslash in double quotes begins an escape that YAML does not know"
    return where.end, detail, "use single quotes: '...'"


def _second_colon(where: _Where) -> _Explained:
    here, above = where.line(where.end), where.before(where.end)
    if len(re.findall(r":(\s|$)", here.split(" #")[0])) > 1:
        return where.end, "there is a second ': ' on this line", _QUOTE
    if above < where.end and ":" not in where.line(above):
        return above, "this line has no ':'", "write it as key: value"
    return where.end, "this line is indented deeper than the one above it, which already has a value", _INDENT


def _no_colon(where: _Where) -> _Explained:
    here = where.line(where.begin)
    if re.match(r"^\s*-[^\s-]", here):
        return where.begin, "no space follows the '-'", "write a space after each '-' of a list"
    if re.match(r"^\s*[\w.-]+:\S", here):
        return where.begin, "no space follows the ':'", "write a space after the ':'"
    return where.begin, "this line has no ':'", "write it as key: value"


def _bad_indent(where: _Where) -> _Explained:
    return where.end, "the indentation of this line fits none of the lines above it", _INDENT


def _trailing(where: _Where) -> _Explained:
    value = where.line(where.end).partition(":")[2].strip()
    if value.startswith(("{", "[")):
        return where.end, f"a value that begins with {value[0]} goes on after its end", _QUOTE
    return where.end, "there is text after a closing quote", "put the other kind of quotes around the whole value"


def _lone_bracket(where: _Where) -> _Explained:
    return where.end, f"a {where.match[1]} closes what was not opened", "remove it, or quote the value"


def _open_bracket(where: _Where) -> _Explained:
    return (
        where.begin,
        f"a bracket is opened on this line and not closed by {where.match[1]}",
        f"add the {where.match[1]}",
    )


def _no_value(where: _Where) -> _Explained:
    found = where.match[1]
    return where.end, f"{found} is where a value belongs", "remove it, or quote a text that holds it"


def _block_scalar(where: _Where) -> _Explained:
    return where.begin, "a value begins with | or >, which announce text of several lines", _QUOTE


def _name(where: _Where) -> _Explained:
    sign = "*" if where.match[1] == "alias" else "&"
    return where.begin, f"a value begins with {sign}, which YAML keeps for its {where.match[1]} names", _QUOTE


def _tag(where: _Where) -> _Explained:
    return where.end, "there is a tag ('!') here, and tags are not read", "remove the tag, or quote the text"


def _end_mark(where: _Where) -> _Explained:
    return where.end, "there is something after the end of the document ('...')", "remove the line of dots"


_CAUSES: Final[tuple[tuple[re.Pattern[str], Callable[[_Where], _Explained]], ...]] = (
    (re.compile(r"found character '\\t'"), _tab),
    (re.compile(r"found character '(.)' that cannot start"), _forbidden_start),
    (re.compile(r"quoted scalar: found unexpected (?:end of stream|document separator)"), _open_quote),
    (re.compile(r"found unknown escape character|expected escape sequence"), _escape),
    (re.compile(r"mapping values are not allowed"), _second_colon),
    (re.compile(r"could not find expected ':'"), _no_colon),
    (re.compile(r"expected <block end>, but found '<scalar>'"), _trailing),
    (re.compile(r"expected <block end>, but found '([\]}])'"), _lone_bracket),
    (re.compile(r"expected <block end>"), _bad_indent),
    (re.compile(r"expected ',' or '([\]}])'"), _open_bracket),
    (re.compile(r"flow node: expected the node content, but found '(.+)'"), _no_value),
    (re.compile(r"while scanning a block scalar"), _block_scalar),
    (re.compile(r"while scanning an (alias|anchor)"), _name),
    (re.compile(r"while (?:scanning|parsing) a tag|found undefined tag handle"), _tag),
    (re.compile(r"expected '<document start>'"), _end_mark),
)
