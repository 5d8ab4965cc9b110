"""What a sink of notifications is told, which texts rows become, and how many are sent in a minute."""

from __future__ import annotations

import string
from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

NOTIFY: Final = "notify"
MINUTE_S: Final = 60.0
_DEFAULT_PER_MINUTE: Final = 20
_KNOWN: Final = {"urls": "urls", "url": "urls", "title": "title", "body": "body", "maxperminute": "maxPerMinute"}


class NotifyOptionInvalid(ValueError):
    """An option that a sink of notifications cannot have.

    Attributes:
        option: Its name.
        reason: Why, as the rest of a sentence that begins with the option.
        fix: What to write.
    """

    def __init__(self, option: str, reason: str, fix: str) -> None:
        super().__init__(f"{option} {reason}")
        self.option, self.reason, self.fix = option, reason, fix


@dataclass(frozen=True, slots=True)
class NotifyOptions:
    """A sink of notifications.

    Attributes:
        urls: Addresses in Apprise's notation: ``slack://...``, ``mailto://...``, ``json://host/path``.
        title: A template: ``{column}`` is the value of a column.
        body: Likewise.
        max_per_minute: What is more is counted in one message.
    """

    urls: tuple[str, ...]
    title: str
    body: str
    max_per_minute: int

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that the templates name."""
        return tuple(dict.fromkeys(each for text in (self.title, self.body) for each in _fields(text)))


def read_notify_options(options: Mapping[str, str]) -> NotifyOptions:
    """The options of a sink.

    Raises:
        NotifyOptionInvalid: One is missing, unknown, or has a value that it cannot have.
    """
    given: dict[str, str] = {}
    for name, value in options.items():
        known = _KNOWN.get(name.lower())
        if known is None:
            raise NotifyOptionInvalid(name, "is unknown", f"known: {', '.join(dict.fromkeys(_KNOWN.values()))}")
        given[known] = value
    for name, example in (("urls", "json://localhost:8080/alerts"), ("body", "camera {camera_id} is offline")):
        if not given.get(name, "").strip():
            raise NotifyOptionInvalid(name, "is missing", f'options={{"{name}": "{example}"}}')
    for name in ("title", "body"):
        _check_template(name, given.get(name, ""))
    most = given.get("maxPerMinute", str(_DEFAULT_PER_MINUTE))
    if not most.isdecimal() or int(most) < 1:
        raise NotifyOptionInvalid("maxPerMinute", "is no whole number above zero", '"maxPerMinute": "20"')
    urls = tuple(each for each in given["urls"].replace(",", " ").split() if each)
    return NotifyOptions(urls, given.get("title", ""), given["body"], int(most))


def filled(template: str, row: Mapping[str, Any]) -> str:
    """The text of a template for a row; a column without a value is empty."""
    return template.format_map({name: "" if value is None else value for name, value in row.items()})


@dataclass(slots=True)
class Pace:
    """How many messages may still be sent in this minute.

    Args:
        most: In any minute.
    """

    most: int
    _sent: deque[float] = field(default_factory=deque)

    def allows(self, now_s: float) -> bool:
        """Whether one more may be sent; if so, it counts."""
        while self._sent and now_s - self._sent[0] >= MINUTE_S:
            self._sent.popleft()
        if len(self._sent) >= self.most:
            return False
        self._sent.append(now_s)
        return True


def _check_template(name: str, text: str) -> None:
    try:
        fields = list(string.Formatter().parse(text))
    except ValueError as error:
        raise NotifyOptionInvalid(name, f"is no template: {error}", "write {{ for a brace") from error
    for _, found, form, _conversion in fields:
        # A name alone: a dot or a bracket would reach into objects.
        if found is not None and (not found or not found.replace("_", "a").isalnum() or form):
            raise NotifyOptionInvalid(name, f"names {{{found}}}, which is no column", "write {column}")


def _fields(text: str) -> Iterable[str]:
    return (found for _, found, _, _ in string.Formatter().parse(text) if found)
