"""What a reader in plain Python takes out of a line of pairs is what the columns hold; what it refuses is refused."""

from __future__ import annotations

import json
import re

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.rows.formats import of_several

from rivermouth.formats.key_value import KeyValue

COLUMNS = ("a", "b", "ä.c")
LOGFMT = {}
DIALECTS = [
    LOGFMT,
    {"pair_separator": "; ", "key_value_separator": ": ", "quote": "'", "escape": "'"},
    {"pair_separator": "|", "key_value_separator": "=>", "quote": "ä", "escape": "~", "null_value": "-"},
    {"pair_separator": "&", "quote": None, "null_value": None},
    {"pair_separator": "\t", "key_value_separator": ":", "escape": None, "null_value": "NULL"},
]
SIGNS = [
    *" =\";:|&\t'ä~\\\n\r",
    "; ",
    ": ",
    "=>",
    "-",
    "NULL",
    "a",
    "b",
    "ä.c",
    "\\n",
    "\\u00e4",
    "\\ud83d",
    "\x00",
    "😀",
]


def of_signs(signs, most):
    return st.lists(signs, max_size=most).map("".join)


TEXTS = of_signs(st.sampled_from(SIGNS) | st.characters(codec="utf-8"), 4)
KEYS = st.sampled_from([*COLUMNS, "other", "A", "more"])


class Refuse(Exception):
    """No line of pairs."""


class Reader:
    """One line by a dialect, by searches in text; it shares nothing with the format but the names of the settings."""

    def __init__(self, line, dialect):
        self.between = dialect.get("pair_separator", " ")
        self.within = dialect.get("key_value_separator", "=")
        self.quote = dialect.get("quote", '"')
        self.escape = dialect.get("escape", None if self.quote is None else "\\")
        self.null = dialect.get("null_value", "")
        self.line = line

    def row(self):
        rest, found = self.line, {}
        blank = not self.between.strip()
        if blank:
            rest = self.stripped(rest)
        if not rest or rest[0] in "\r\n":
            raise Refuse
        while True:
            key, rest = self.key(rest)
            value, rest = self.value(rest)
            if key in found and key in COLUMNS:
                raise Refuse
            found[key] = value
            if not rest.startswith(self.between):
                break
            rest = rest[len(self.between) :]
            if blank:
                rest = self.stripped(rest)
            if not rest or rest[0] in "\r\n":
                break
        if rest not in ("", "\n", "\r", "\r\n"):
            raise Refuse
        if not found.keys() & {*COLUMNS}:
            raise Refuse
        return tuple(found.get(name) for name in COLUMNS)

    def stripped(self, text):
        while text.startswith(self.between):
            text = text[len(self.between) :]
        return text

    def plain(self, text, *signs):
        """The text before the first of these texts, a line end or a quote."""
        ends = [text.find(sign) for sign in (*signs, "\r", "\n") if sign in text]
        end = min(ends, default=len(text))
        if self.quote is not None and self.quote in text[:end]:
            raise Refuse
        return text[:end], text[end:]

    def key(self, text):
        key, rest = self.plain(text, self.between, self.within)
        if not key or not rest.startswith(self.within):
            raise Refuse
        return key, rest[len(self.within) :]

    def value(self, text):
        if self.quote is None or not text.startswith(self.quote):
            value, rest = self.plain(text, self.between)
            return (None if value == self.null else value), rest
        value, rest = self.quoted(text[1:])
        if rest and not rest.startswith((self.between, "\r", "\n")):
            raise Refuse
        return value, rest

    def quoted(self, text):
        quote, escape = re.escape(self.quote), re.escape(self.escape or self.quote)
        inner = (
            rf"(?:[^{quote}{escape}]|{escape}.)*" if self.escape != self.quote else rf"(?:[^{quote}]|{quote}{quote})*"
        )
        if self.escape is None:
            inner = f"[^{quote}]*"
        match = re.match(f"({inner}){quote}", text, re.DOTALL)
        if match is None:
            raise Refuse
        return self.unescaped(match[1]), text[match.end() :]

    def unescaped(self, text):
        if self.escape is None:
            return text
        if self.escape == self.quote:
            return text.replace(self.quote * 2, self.quote)
        if self.escape == "\\":
            # JSON takes no control characters as they are, and we do.
            bare = re.sub(r"[\x00-\x1f]", lambda found: f"\\u{ord(found[0]):04x}", text)
            try:
                return json.loads(f'"{bare}"').encode("utf-8").decode()
            except (ValueError, UnicodeEncodeError):
                raise Refuse from None
        parts = re.fullmatch(rf"(?s:[^~]|~[~{self.quote}])*", text)
        if parts is None:
            raise Refuse
        return re.sub(r"~(.)", r"\1", text)


def read(line, dialect):
    try:
        return Reader(line, dialect).row()
    except Refuse:
        return None


@st.composite
def lines(draw):
    """The number of a dialect, and a line: pairs, some of them wounded, or any text."""
    number = draw(st.integers(0, len(DIALECTS) - 1))
    reader = Reader("", DIALECTS[number])
    if draw(st.integers(0, 5)) == 0:
        return number, draw(of_signs(st.sampled_from(SIGNS), 12))
    parts = []
    for key in draw(st.lists(KEYS, min_size=1, max_size=4)):
        value = draw(TEXTS | st.just(reader.null or ""))
        if reader.quote is not None and draw(st.booleans()):
            written = value.replace(reader.quote, (reader.escape or "") + reader.quote)
            if reader.escape == "\\":
                written = json.dumps(value, ensure_ascii=draw(st.booleans()))[1:-1]
            value = reader.quote + written + reader.quote
        parts.append(f"{key}{reader.within}{value}")
    line = reader.between.join(parts) + draw(st.sampled_from(["", "", "", reader.between, "\n", "\r\n", "\n\n"]))
    if draw(st.integers(0, 3)) == 0:
        place = draw(st.integers(0, len(line)))
        line = line[:place] + draw(st.sampled_from([reader.between, *SIGNS])) + line[place:]
    return number, line


@pytest.mark.long
def test_columns_hold_what_python_reads(spark):
    values = gathered(lines(), 2000)
    schema = ", ".join(f"`{name}` string" for name in COLUMNS)
    forms = [KeyValue.model_validate({"type": "key_value", "schema": schema, **dialect}) for dialect in DIALECTS]
    found = of_several(spark, [(forms[number], line.encode("utf-8", "surrogatepass")) for number, line in values])
    wanted = [read(line, DIALECTS[number]) for number, line in values]
    wrong = [
        (DIALECTS[number], line, outcome, expected)
        for (number, line), outcome, expected in zip(values, found, wanted, strict=True)
        if (None if outcome.data is None else tuple(outcome.data.values())) != expected
    ]
    assert wrong[:5] == []
    assert {each.reason for each in found} == {None, "INVALID_LINE", "FIELD_TWICE", "NO_DECLARED_FIELD"}
    assert sum(each is not None for each in wanted) > 400
    assert wanted.count(None) > 400
