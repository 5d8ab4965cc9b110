"""Spark's datetime patterns, read without Spark: what is told of one before it starts, and which texts fit it.

Of what https://spark.apache.org/docs/latest/sql-ref-datetime-pattern.html lists, a pattern may have all that names one
date or one instant, and nothing that leaves a part of it to a guess.
"""

from __future__ import annotations

import datetime as dt
import functools
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

_MONTHS: Final = (
    *("January", "February", "March", "April", "May", "June", "July"),
    *("August", "September", "October", "November", "December"),
)
_SHORT: Final = 3
_MAX_OFFSET: Final = dt.timedelta(hours=18)
_QUOTATION: Final = re.compile(r"'((?:[^']|'')*)'")
_MANY: Final = "[0-9]{1,19}"
_COLONS: Final = "[+-][0-9]{2}:[0-9]{2}"
_PLAIN: Final = "[+-][0-9]{4}"


def _number(least: int, most: int) -> dict[int, str]:
    return {1: _MANY, least: f"[0-9]{{{least},{most}}}"}


# By letter, the lengths that it may have and the texts that it then reads; case is of no matter.
_TEXTS: Final[dict[str, dict[int, str]]] = {
    "y": {2: "[0-9]{2}", 4: "[0-9]{4}"},
    "M": {**_number(2, 2), 3: "|".join(name[:_SHORT] for name in _MONTHS), 4: "|".join(_MONTHS)},
    "d": _number(2, 2),
    "D": {**_number(2, 3), 3: "[0-9]{3}"},
    **dict.fromkeys("HkhKms", _number(2, 2)),
    "a": {1: "AM|PM"},
    "S": {length: f"[0-9]{{1,{length}}}" for length in range(1, 10)},
    "x": {
        # Java is content with its text for UTC, and does not look whether minutes follow.
        1: r"\+00|(?!\+00)[+-][0-9]{2}(?:[0-9]{2})?",
        2: _PLAIN,
        3: _COLONS,
        4: rf"\+0000|(?!\+0000){_PLAIN}(?:[0-9]{{2}})?",
        5: rf"\+00:00|(?!\+00:00){_COLONS}(?::[0-9]{{2}})?",
    },
}
_TEXTS["L"] = _TEXTS["M"]
_TEXTS["X"] = {
    1: "Z|[+-][0-9]{2}(?:[0-9]{2})?",
    2: f"Z|{_PLAIN}",
    3: f"Z|{_COLONS}",
    4: f"Z|{_PLAIN}(?:[0-9]{{2}})?",
    5: f"Z|{_COLONS}(?::[0-9]{{2}})?",
}
_TEXTS["Z"] = {**dict.fromkeys((1, 2, 3), _PLAIN), 4: f"GMT(?:{_COLONS})?", 5: _TEXTS["X"][5]}
_TEXTS["O"] = {1: "GMT(?:[+-][0-9]{1,2}(?::[0-9]{2})?)?", 4: _TEXTS["Z"][4]}
# Each of these may stand once.
_PARTS: Final = {
    "y": "year",
    "M": "month",
    "L": "month",
    "d": "day",
    "D": "day of the year",
    **dict.fromkeys("HkhK", "hour"),
    "m": "minute",
    "s": "second",
    "S": "fraction",
    "a": "half of the day",
    **dict.fromkeys("xXZO", "offset"),
}
_OF_DATES: Final = ("year", "month", "day", "day of the year")
_DIGITS: Final = "yMLdDHkhKms"
# What people write, and what they mean by it.
_OTHERS: Final = {
    "Y": ("is the year of a week", "write yyyy"),
    "u": ("is no letter of Spark's patterns", "write yyyy"),
    "E": ("is a day of the week, which Spark reads in no text", "declare the column string"),
    "V": ("is the name of a zone, whose clock shows some times twice", "write XXX for an offset"),
    "z": ("is the name of a zone, and several have the same one", "write XXX for an offset, or 'GMT' for the text"),
    "T": ("is a letter of a text", "write 'T'"),
    "n": ("is no letter of Spark's patterns", "write SSSSSSSSS for up to nine digits"),
}
_NEEDS: Final = {
    "minute": ("hour", "write HH before it, or M for a month"),
    "second": ("minute", "write mm before it, or S for digits of a second"),
    "fraction": ("second", "write ss before it"),
    "half of the day": ("hour", "write hh for the hour"),
}


@dataclass(frozen=True, slots=True)
class _Token:
    """A part of a pattern: letters, a literal text, or a bracket.

    Attributes:
        kind: A letter, ``text``, ``[`` or ``]``.
        text: The letters, or the text.
        within: The places of the brackets that are open there.
    """

    kind: str
    text: str
    within: tuple[int, ...]


def check(pattern: str, *, of_dates: bool = False) -> None:
    """Makes sure that what fits a pattern says one timestamp, or one date, and that Spark can read it.

    Raises:
        ValueError: It does not; the text says why, and what to write.
    """
    tokens = list(_tokens(pattern))
    seen: dict[str, _Token] = {}
    before = None
    for token in tokens:
        if token.kind in _PARTS:
            part = _PARTS[token.kind]
            if part in seen:
                raise _refused(f"it has the {part} twice, as {seen[part].text} and {token.text}", "leave one out")
            if of_dates and part not in _OF_DATES:
                raise _refused(
                    f"{token.text} is the {part}, and a date has none", "declare the column timestamp, or leave it out"
                )
            seen[part] = token
            _check_beside(before, token)
        if token.kind not in "[]":
            before = token
    _check_time(seen)
    _check_date(seen)


def has_offset(pattern: str) -> bool:
    """Whether texts of a pattern tell their offset from UTC."""
    return any(_PARTS.get(token.kind) == "offset" for token in _tokens(pattern))


def fits(pattern: str, text: str) -> bool:
    """Whether a text has the form of a pattern, and there is such a day and time, in the years 1 to 9999."""
    match = _expression(pattern).fullmatch(text)
    if match is None:
        return False
    try:
        found = _moment({name: value for name, value in match.groupdict().items() if value is not None})
    except (ValueError, OverflowError):
        return False
    return found is not None


def _refused(what: str, step: str) -> ValueError:
    return ValueError(f"{what}: {step}")


def _tokens(pattern: str) -> Iterator[_Token]:
    place = 0
    opened: list[int] = []
    while place < len(pattern):
        sign = pattern[place]
        length = 1
        if sign == "'":
            length = _quotation(pattern, place)
            inner = pattern[place + 1 : place + length - 1].replace("''", "'")
            yield _Token("text", inner or "'", tuple(opened))
        elif sign == "[":
            opened.append(place)
            yield _Token("[", sign, tuple(opened))
        elif sign == "]":
            if not opened:
                raise _refused(f"the ] at character {place + 1} closes nothing", "write '[' and ']' for the signs")
            yield _Token("]", sign, tuple(opened))
            opened.pop()
        elif sign.isascii() and sign.isalpha():
            length = len(pattern[place:]) - len(pattern[place:].lstrip(sign))
            _check_letters(sign, length)
            yield _Token(sign, sign * length, tuple(opened))
        else:
            _check_sign(sign)
            yield _Token("text", sign, tuple(opened))
        place += length
    if opened:
        raise _refused(f"the [ at character {opened[-1] + 1} is not closed", "write ] behind what may be missing")


def _quotation(pattern: str, place: int) -> int:
    match = _QUOTATION.match(pattern, place)
    if match is None:
        raise _refused(f"the ' at character {place + 1} is not closed", "write ' behind the text, or '' for the sign")
    return len(match[0])


def _check_letters(letter: str, length: int) -> None:
    known = _TEXTS.get(letter)
    if known is None:
        as_text = f"write '{letter * length}' for the text"
        what, step = _OTHERS.get(letter, ("is no letter that texts are read by", as_text))
        raise _refused(f"{letter * length} {what}", step)
    if length not in known:
        lengths = ", ".join(letter * each for each in known)
        raise _refused(f"{letter * length} has a length that is not read", f"write one of {lengths}")


def _check_sign(sign: str) -> None:
    if sign == "%":
        raise _refused("% is of strftime, and the pattern is one of Spark's", "write yyyy-MM-dd HH:mm:ss")
    if sign in "{}#":
        raise _refused(f"{sign} is reserved in Spark's patterns", f"write '{sign}'")


def _check_beside(before: _Token | None, token: _Token) -> None:
    if before is None or before.kind not in _DIGITS or _is_word(before) or _is_word(token):
        return
    if token.kind == "S":
        raise _refused(
            f"{before.text}{token.text} has digits of a second with nothing before them, which Spark does not read",
            "declare the column string",
        )
    if token.kind in _DIGITS and len(before.text) == 1:
        raise _refused(f"where {before.text} ends before {token.text} cannot be told", f"write {before.text * 2}")


def _is_word(token: _Token) -> bool:
    return token.kind in "ML" and len(token.text) >= _SHORT


def _check_date(seen: dict[str, _Token]) -> None:
    of_year = "day of the year" in seen
    if of_year and ("month" in seen or "day" in seen):
        raise _refused(f"{seen['day of the year'].text} is the day of the year", "write dd for that of the month")
    for part, letters in {"year": "yyyy", "month": "MM", "day": "dd"}.items():
        if part not in seen and not (of_year and part != "year"):
            raise _refused(f"it has no {part}, which would be a guess", f"write {letters} for it")
        if part in seen and seen[part].within:
            raise _refused(f"the {part} may be missing, and would be a guess", "write it outside of [ and ]")
    if of_year and seen["day of the year"].within:
        raise _refused("the day may be missing, and would be a guess", "write it outside of [ and ]")


def _check_time(seen: dict[str, _Token]) -> None:
    needs = dict(_NEEDS)
    if "hour" in seen and seen["hour"].kind in "hK":
        needs["hour"] = ("half of the day", "write a for AM and PM, or HH")
    for part, (other, step) in needs.items():
        if part not in seen:
            continue
        there = seen.get(other)
        if there is None or there.within != seen[part].within[: len(there.within)]:
            what = "there is none" if there is None else "that may be missing"
            raise _refused(f"{seen[part].text} is the {part} and goes with the {other}, and {what}", step)
    if "half of the day" in seen and seen["hour"].kind not in "hK":
        raise _refused(f"a is the half of the day, and {seen['hour'].text} the hour of a whole one", "leave a out")


@functools.cache
def _expression(pattern: str) -> re.Pattern[str]:
    parts = []
    for token in _tokens(pattern):
        if token.kind == "[":
            parts.append("(?:")
        elif token.kind == "]":
            parts.append(")?")
        elif token.kind == "text":
            parts.append(re.escape(token.text))
        else:
            parts.append(f"(?P<{token.kind}>{_TEXTS[token.kind][len(token.text)]})")
    return re.compile("".join(parts), re.IGNORECASE)


def _moment(found: dict[str, str]) -> dt.datetime | None:
    """The instant that the parts of a text say; None if one is out of its bounds."""
    year = int(found["y"]) + (2000 if len(found["y"]) == 2 else 0)  # noqa: PLR2004 - yy
    if "D" in found:
        day = dt.date(year, 1, 1) + dt.timedelta(int(found["D"]) - 1)
        if day.year != year:
            return None
    else:
        day = dt.date(year, _month(found.get("M") or found["L"]), int(found["d"]))
    hour = _hour(found)
    if hour is None:
        return None
    time = dt.time(hour, int(found.get("m", 0)), int(found.get("s", 0)))
    return dt.datetime.combine(day, time) - _offset(next((found[each] for each in "xXZO" if each in found), ""))


def _month(text: str) -> int:
    if text.isdigit():
        return int(text)
    return next(number for number, name in enumerate(_MONTHS, 1) if name[:_SHORT].lower() == text[:_SHORT].lower())


def _hour(found: dict[str, str]) -> int | None:
    half = 12 if found.get("a", "").upper() == "PM" else 0
    for letter, first, last in (("H", 0, 23), ("k", 1, 24), ("h", 1, 12), ("K", 0, 11)):
        if letter in found:
            hour = int(found[letter])
            return (hour % (last - first + 1)) + half if first <= hour <= last else None
    return 0


def _offset(text: str) -> dt.timedelta:
    """The offset that a text says; none is UTC.

    Raises:
        ValueError: There is no such offset.
    """
    bare = text.upper().removeprefix("GMT").replace(":", "")
    if not bare or bare == "Z":
        return dt.timedelta()
    digits = bare[1:].zfill(len(bare[1:]) + len(bare[1:]) % 2).ljust(6, "0")
    hours, minutes, seconds = (int(digits[place : place + 2]) for place in (0, 2, 4))
    found = dt.timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or found > _MAX_OFFSET:  # noqa: PLR2004 - a minute, an hour
        msg = "no such offset"
        raise ValueError(msg)
    return -found if bare[0] == "-" else found
