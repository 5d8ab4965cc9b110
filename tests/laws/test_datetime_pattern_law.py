"""What a pattern reads: Spark, our reading without Spark and a rendering in plain Python agree on each text."""

from __future__ import annotations

import calendar
import datetime as dt

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered

from rivermouth.decoding.times import datetime_pattern

# A few letters of Spark's: how plain Python writes them.
WRITTEN = {
    "yyyy": lambda at: f"{at.year:04d}",
    "yy": lambda at: f"{at.year % 100:02d}",
    "MM": lambda at: f"{at.month:02d}",
    "M": lambda at: str(at.month),
    "MMM": lambda at: calendar.month_abbr[at.month],
    "LLLL": lambda at: calendar.month_name[at.month].upper(),
    "dd": lambda at: f"{at.day:02d}",
    "d": lambda at: str(at.day),
    "DDD": lambda at: at.strftime("%j"),
    "D": lambda at: str(int(at.strftime("%j"))),
    "HH": lambda at: f"{at.hour:02d}",
    "H": lambda at: str(at.hour),
    "kk": lambda at: f"{at.hour or 24:02d}",
    "hh": lambda at: f"{at.hour % 12 or 12:02d}",
    "K": lambda at: str(at.hour % 12),
    "mm": lambda at: f"{at.minute:02d}",
    "m": lambda at: str(at.minute),
    "ss": lambda at: f"{at.second:02d}",
    "SSS": lambda at: f"{at.microsecond // 1000:03d}",
    "SSSSSS": lambda at: f"{at.microsecond:06d}",
    "S": lambda at: str(at.microsecond // 100_000),
    "a": lambda at: "PM" if at.hour >= 12 else "am",
}


def signed(offset, colon, *, zulu=False):
    minutes = offset // 60
    if zulu and not offset:
        return "Z"
    return f"{'-' if offset < 0 else '+'}{abs(minutes) // 60:02d}{colon}{abs(minutes) % 60:02d}"


OFFSETS = {
    "X": lambda at: signed(at, "", zulu=True),
    "XX": lambda at: signed(at, "", zulu=True),
    "XXX": lambda at: signed(at, ":", zulu=True),
    "XXXXX": lambda at: signed(at, ":", zulu=True),
    "xx": lambda at: signed(at, ""),
    "xxx": lambda at: signed(at, ":"),
    "xxxx": lambda at: signed(at, ""),
    "Z": lambda at: signed(at, ""),
    "ZZZZ": lambda at: "GMT" + (signed(at, ":") if at else ""),
    "ZZZZZ": lambda at: signed(at, ":", zulu=True),
    "OOOO": lambda at: "GMT" + (signed(at, ":") if at else ""),
}
BETWEEN = st.sampled_from(["-", "/", " ", ".", "'T'", "''", "' at '", ", ", "_"])
MARKS = [*"0129-+:/. TZ'", "24", "60", "99", "Feb", "AM", "GMT", "+19:00", "٣", "\n", ""]


@st.composite
def patterns(draw):
    """A pattern that is taken, and what writes by it."""
    year, month, day = draw(st.sampled_from(["yyyy", "yy"])), draw(st.sampled_from(["MM", "M", "MMM", "LLLL"])), ["dd"]
    words = [year, *(draw(st.permutations([month, *draw(st.sampled_from([day, ["d"]]))])))]
    if draw(st.integers(0, 5)) == 0:
        words = [year, draw(st.sampled_from(["DDD", "D"]))]
    if draw(st.booleans()):
        words.reverse()
    hour = draw(st.sampled_from([None, "HH", "H", "kk", "hh", "K"]))
    if hour is not None:
        further = ["mm", "ss", draw(st.sampled_from(["SSS", "SSSSSS", "S"]))]
        words += [hour, *further[: draw(st.integers(0, 3))]]
        words += ["a"] if hour in ("hh", "K") else []
    offset = draw(st.sampled_from([None, None, *OFFSETS]))
    words += [offset] if offset else []
    return [part for word in words for part in (word, draw(BETWEEN))][:-1]


@st.composite
def texts(draw):
    """A pattern, a text, and the instant that was written by it; None where it was wounded since."""
    parts = draw(patterns())
    local = draw(st.datetimes(dt.datetime(1900, 1, 2), dt.datetime(2190, 12, 30)))
    offset = draw(st.integers(-18 * 60, 18 * 60)) * 60
    text, least = "", dt.datetime(2000, 1, 1).replace(year=local.year)
    for part in parts:
        if part in WRITTEN:
            text += WRITTEN[part](local)
        elif part in OFFSETS:
            text += OFFSETS[part](offset)
        else:
            text += part.replace("''", "\0").replace("'", "").replace("\0", "'")
    kept = {"year": local.year % 100 + 2000 if "yy" in parts else local.year, "month": local.month, "day": local.day}
    if any(part[0] == "D" for part in parts):
        # Two digits of the year may be those of a year with another number of days.
        day = dt.date(kept["year"], 1, 1) + dt.timedelta(days=local.timetuple().tm_yday - 1)
        kept |= {"year": day.year, "month": day.month, "day": day.day}
    if {"HH", "H", "kk", "hh", "K"} & set(parts):
        kept["hour"] = local.hour
    kept |= {"minute": local.minute} if {"mm"} & set(parts) else {}
    kept |= {"second": local.second} if "ss" in parts else {}
    digits = next((len(part) for part in parts if part[0] == "S"), 0)
    kept["microsecond"] = local.microsecond // 10 ** (6 - digits) * 10 ** (6 - digits)
    try:
        written = least.replace(**kept) - dt.timedelta(seconds=offset if set(OFFSETS) & set(parts) else 0)
    except ValueError:
        # A 29th of February of a year that has none, where only two digits of the year were written.
        written = None
    if draw(st.booleans()):
        place = draw(st.integers(0, len(text)))
        wounded = text[:place] + draw(st.sampled_from(MARKS)) + text[place + draw(st.integers(0, 2)) :]
        written = written if wounded == text else None
        text = wounded
    return "".join(parts), text, written


def instant(micros):
    """What Spark found; None where there is nothing, or a year that Python does not know."""
    try:
        return None if micros is None else dt.datetime(1970, 1, 1) + dt.timedelta(microseconds=micros)
    except OverflowError:
        return None


@pytest.mark.long
def test_spark_reads_what_was_written_by_a_pattern_and_we_know_what_it_refuses(spark):
    cases = gathered(texts(), 2500)
    for pattern, _, _ in cases:
        datetime_pattern.check(pattern)
    rows = spark.createDataFrame(
        [(place, pattern, text) for place, (pattern, text, _) in enumerate(cases)],
        "place int, pattern string, text string",
    )
    read = rows.selectExpr("place", "unix_micros(try_to_timestamp(text, pattern)) AS micros").collect()
    wrong = []
    for place, micros in sorted(read):
        pattern, text, written = cases[place]
        found = instant(micros)
        if datetime_pattern.fits(pattern, text) != (found is not None) or written not in (None, found):
            wrong.append((pattern, text, written, found))
    assert wrong[:5] == []
    assert sum(written is not None for _, _, written in cases) > 800
    assert sum(not datetime_pattern.fits(pattern, text) for pattern, text, _ in cases) > 400
