"""Whether flows do well enough, by a few rules over their statuses."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from rivermouth.engine.report.status import failed_then
from rivermouth.errors import ArgumentInvalid
from rivermouth.spec.values import duration_s, duration_text

if TYPE_CHECKING:
    from rivermouth.engine.report.flow_status import FlowStatus


@dataclass(frozen=True, slots=True)
class HealthRules:
    """The rules for every flow, in addition to these two: it has no error, and its last run did not fail.

    Attributes:
        max_lag: The most offsets that may be left to read; None for no bound.
        max_dead_letters: The most records that may ever have become dead letters; None for no bound.
        max_dead_letters_percent: The same, as a percentage of all consumed records; None for no bound.
        max_age_s: While records wait, the most seconds that may have passed since the last batch; None for no bound.
    """

    max_lag: int | None = None
    max_dead_letters: int | None = None
    max_dead_letters_percent: float | None = None
    max_age_s: float | None = None

    @classmethod
    def of(
        cls,
        *,
        max_lag: int | None = None,
        max_dead_letters: int | str | None = None,
        max_age: float | str | None = None,
    ) -> Self:
        """The rules as a user writes them: ``max_dead_letters`` 100 or ``"5%"``, ``max_age`` ``"10 minutes"``.

        Raises:
            ArgumentInvalid: One of them cannot be read.
        """
        number, percent = _bound(max_dead_letters)
        try:
            age_s = duration_s(max_age)
        except ValueError as error:
            raise ArgumentInvalid(argument="max_age", detail=str(error), fix="--max-age '10 minutes'") from None
        return cls(max_lag, number, percent, age_s if isinstance(age_s, int | float) else None)


@dataclass(frozen=True, slots=True)
class BrokenRule:
    """A rule that a flow does not keep.

    Attributes:
        flow: The flow.
        rule: error, last_run, max_lag, max_dead_letters or max_age.
        detail: What was found, in words.
    """

    flow: str
    rule: str
    detail: str


def broken_rules(statuses: Sequence[FlowStatus], rules: HealthRules, *, now_s: float | None = None) -> list[BrokenRule]:
    """The rules that are not kept, by flow in the order of ``statuses``; empty if all are well."""
    now_s = time.time() if now_s is None else now_s
    return [BrokenRule(each.flow, rule, detail) for each in statuses for rule, detail in _of(each, rules, now_s)]


def _of(status: FlowStatus, rules: HealthRules, now_s: float) -> Iterator[tuple[str, str]]:
    if status.code is not None:
        yield "error", f"[{status.code}] {status.message}"
    if status.failure is not None:
        yield "last_run", failed_then(status.failure)
    yield from lag_broken(status.lag, rules)
    yield from letters_broken(status.dead_letters, status.totals.consumed, "records", rules)
    yield from age_broken(status.lag, status.finished_at, rules, now_s)


def lag_broken(lag: int | None, rules: HealthRules) -> Iterator[tuple[str, str]]:
    """The rule about what is left to read, if it is not kept, with what was found."""
    if rules.max_lag is not None:
        if lag is None:
            yield "max_lag", f"its lag is not known, and at most {rules.max_lag} is allowed"
        elif lag > rules.max_lag:
            yield "max_lag", f"its lag is {lag}, and at most {rules.max_lag} is allowed"


def age_broken(
    lag: int | None, finished_at: float | None, rules: HealthRules, now_s: float
) -> Iterator[tuple[str, str]]:
    """The rule about the age of the last batch, if it is not kept while there is something left to read."""
    if rules.max_age_s is not None and lag != 0:
        age_s = None if finished_at is None else now_s - finished_at
        allowed = f"and at most {duration_text(rules.max_age_s)} is allowed while records wait"
        if age_s is None:
            yield "max_age", f"no batch is known to be done, {allowed}"
        elif age_s > rules.max_age_s:
            yield "max_age", f"its last batch was done {duration_text(round(age_s))} ago, {allowed}"


def letters_broken(letters: int, consumed: int, what: str, rules: HealthRules) -> Iterator[tuple[str, str]]:
    """The rules about dead letters that are not kept, with what was found; ``what`` is records or rows."""
    if rules.max_dead_letters is not None and letters > rules.max_dead_letters:
        yield "max_dead_letters", f"it has {letters} dead letters, and at most {rules.max_dead_letters} are allowed"
    if rules.max_dead_letters_percent is not None and letters * 100 > rules.max_dead_letters_percent * consumed:
        share = f"{letters} of {consumed} {what} are dead letters"
        yield "max_dead_letters", f"{share}, and at most {rules.max_dead_letters_percent:g} % are allowed"


def _bound(text: int | str | None) -> tuple[int | None, float | None]:
    """A number, or a share of a hundred."""
    if text is None or isinstance(text, int):
        return text, None
    word = text.strip()
    try:
        if word.endswith("%"):
            percent = float(word[:-1])
            if 0 <= percent <= 100:  # noqa: PLR2004 - all of them
                return None, percent
        elif word.isdecimal():
            return int(word), None
    except ValueError:
        pass
    detail = f"{text!r} is neither a number nor a percentage"
    raise ArgumentInvalid(argument="max_dead_letters", detail=detail, fix="--max-dead-letters 100, or 5%")
