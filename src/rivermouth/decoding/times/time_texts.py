"""How dates and timestamps are read from text in ISO 8601's form, as SQL that is null where the text does not fit.

A text fits only if it says one instant: one offset, or the name of a zone in which the local time exists exactly once.
``docs/reference/json.md`` has the table of forms; Spark's own cast accepts more.
"""

from __future__ import annotations

from typing import Final

from rivermouth.schemas.type_limits import within

_DATE: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}\z"
_LOCAL: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9]{2}:[0-9]{2}(:[0-9]{2}([.][0-9]{1,9})?)?)?\z"

# A date in digits with a part that is all zeros; with a time or without.
_ZERO: Final = r"^(?=0000-|[0-9]{4}-00-|[0-9]{4}-[0-9]{2}-00)[0-9]{4}-[0-9]{2}-[0-9]{2}([T ][0-9:.]{8,18}Z?)?\z"

_DAY: Final = "[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}"
_TWO: Final = "[0-9]{1,2}"
_SECOND: Final = f"{_TWO}(?:[.][0-9]*)?"
_SHIFT: Final = "[+-][0-9]{1,2}(?::?[0-9]{2}(?::?[0-9]{2})?)?"
_OFFSET: Final = f"(?:Z|{_SHIFT}|(?:UTC|GMT|UT)(?:{_SHIFT})?)"
_IN_BRACKETS: Final = r"(?:\[[A-Za-z0-9_./+-]+\])?"
# Names without a slash are several zones (IST, CST), or an offset for half of the year (CET).
_ZONE: Final = "[A-Za-z_]+(?:/[A-Za-z0-9_+-]+)+"
_CLOCK_IN_ZONE: Final = "[0-9]{2}:[0-9]{2}(?::[0-9]{2}(?:[.][0-9]*)?)?"
_NAMED: Final = (
    rf"^[0-9]{{4}}-[0-9]{{2}}-[0-9]{{2}}[T ]{_CLOCK_IN_ZONE} ?"
    rf"(?:{_ZONE}|\[(?:{_ZONE}|UTC|GMT|UT|Z)\])\z"
)
# What Spark's cast ignores at both ends.
_BLANKS: Final = r"[\x00-\x20\x7f]*"
_SHORTEST: Final = len("2026-01-31")
# A zone's offset may move a time out of the years 1 to 9999; in the years between no look is needed.
_SAFE_FROM, _SAFE_UNTIL = "0002", "9999"
_NAMED_FROM, _NAMED_UNTIL = "0001-01-03", "9999-12-30"


def is_zero(text: str) -> str:
    """SQL, never null: whether a text is a date or a time of MySQL whose year, month or day is zero."""
    return f"coalesce({text} RLIKE r'{_ZERO}', false)"


def is_finer(text: str) -> str:
    """SQL: whether the text of a time has digits behind the microsecond, other than zeros."""
    return f"{text} RLIKE '[.][0-9]{{6}}0*[1-9]'"


def date(text: str) -> str:
    """SQL of a date."""
    return f"CASE WHEN {text} RLIKE r'{_DATE}' AND {text} >= '0001' THEN try_cast({text} AS date) END"


def local(text: str) -> str:
    """SQL of a timestamp_ntz; a text with an offset or a zone does not fit."""
    return f"CASE WHEN {text} RLIKE r'{_LOCAL}' AND {text} >= '0001' THEN try_cast({text} AS timestamp_ntz) END"


def instant(text: str, *, blanks: bool = False) -> str:
    """SQL of a timestamp; without an offset it is in the session's time zone.

    Args:
        text: SQL of the text.
        blanks: Whether blanks around it are ignored.
    """
    around = _BLANKS if blanks else ""
    clock = f"{_TWO}(?::{_TWO}(?::{_SECOND}(?: ?{_OFFSET})?)?)?"
    plain = rf"^{around}{_DAY}(?:[T ]{clock})?{around}\z"
    done = f"try_cast({text} AS timestamp)"
    safe = f"{text} >= '{_SAFE_FROM}' AND {text} < '{_SAFE_UNTIL}'"
    # A lambda over one text: no code is generated for the rare forms, which would be longer than Java compiles.
    rare = f"CASE {_with_offset('rare', around)} {_in_zone('rare')} END"
    return (
        f"CASE WHEN octet_length({text}) >= {_SHORTEST} AND {text} RLIKE r'{plain}' "
        f"THEN CASE WHEN {safe} THEN {done} ELSE {_bounded(done)} END "
        f"WHEN {text} IS NOT NULL THEN get(transform(array({text}), rare -> {rare}), 0) END"
    )


def _bounded(done: str) -> str:
    return f"CASE WHEN {within(done)} THEN {done} END"


def _with_offset(text: str, around: str) -> str:
    """An offset behind hours or minutes, which Spark's cast does not read, or with a zone in brackets behind it."""
    form = rf"^{around}{_DAY}[T ]{_TWO}(?::{_TWO}(?::{_SECOND})?)? ?{_OFFSET}{_IN_BRACKETS}{around}\z"
    whole = rf"regexp_replace({text}, r'\[.*', '')"
    for clock in (f"[T ]{_TWO}", f"[T ]{_TWO}:{_TWO}"):
        whole = f"regexp_replace({whole}, '({clock})( ?[ZUG+-])', '$1:00$2')"
    return f"WHEN {text} RLIKE r'{form}' THEN {_bounded(f'try_cast({whole} AS timestamp)')}"


def _in_zone(text: str) -> str:
    """A local time in a named zone: it fits if it exists exactly once there.

    It may be the instant by the zone's offset of a day before, or the one by that of a day after. Where they differ,
    clocks were changed between: then exactly one of the two must have that local time.
    """
    clock = f"try_cast(regexp_extract({text}, '^[0-9T :.-]*[0-9.]', 0) AS timestamp_ntz)"
    zone = rf"regexp_extract({text}, r'[A-Za-z][A-Za-z0-9_+/-]*(?=\]?\z)', 0)"
    day = "INTERVAL '1' DAY"
    before = f"convert_timezone(n.zone, 'UTC', n.clock - {day}) + {day}"
    after = f"convert_timezone(n.zone, 'UTC', n.clock + {day}) - {day}"
    said = f"array(struct({clock} AS clock, {zone} AS zone))"
    both = f"n.clock AS clock, n.zone AS zone, {before} AS one, {after} AS two"
    first, second = (f"(convert_timezone('UTC', n.zone, n.{each}) = n.clock)" for each in ("one", "two"))
    once = f"CASE WHEN n.one = n.two THEN n.one WHEN {first} <> {second} THEN IF({first}, n.one, n.two) END"
    # The text of a timestamp_ntz with a Z: no matter which time zone the session has.
    found = f"get(transform(transform({said}, n -> struct({both})), n -> {once}), 0)"
    utc = f"try_cast(concat(CAST({found} AS STRING), 'Z') AS timestamp)"
    exists = f"try_cast(concat('2000-01-01 00:00:00 ', {zone}) AS timestamp) IS NOT NULL"
    inside = f"{text} >= '{_NAMED_FROM}' AND {text} < '{_NAMED_UNTIL}'"
    return f"WHEN {inside} AND {text} RLIKE r'{_NAMED}' THEN CASE WHEN {exists} THEN {utc} END"
