"""SQL of what a source says of itself in a change: where in its log the change was, and when it was made."""

from __future__ import annotations

from rivermouth.schemas import type_limits


def binlog_file(name: str) -> str:
    """SQL of a binlog's name whose number has ten digits: after 999999 it gets longer, and would be less as text."""
    first, number = (f"regexp_extract({name}, r'^(.*?)([0-9]*)\\z', {group})" for group in (1, 2))
    return f"concat({first}, lpad({number}, 10, '0'))"


def of_milliseconds(text: str) -> str:
    """SQL of a timestamp from text with milliseconds since 1970; null where it is none."""
    return _time_since(f"try_cast({text} AS BIGINT)", 1_000)


def of_seconds(text: str) -> str:
    """SQL of a timestamp from text with seconds since 1970; null where it is none."""
    return _time_since(f"try_cast({text} AS BIGINT)", 1_000_000)


def _time_since(number: str, micros: int) -> str:
    first, last = type_limits.time_range(micros)
    return f"timestamp_micros(CASE WHEN {number} BETWEEN {first} AND {last} THEN {number} * {micros} END)"
