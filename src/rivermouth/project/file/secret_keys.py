"""Which keys of a file can hold secrets, and what of their paths a message may show: the keys, never what they hold."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

_Path = tuple[str | int, ...]

MAPPINGS: Final = frozenset({"options", "conf", "properties", "configuration", "config"})
"""Keys whose mappings have names that everybody may see, with values that may be secrets."""
_VALUES: Final = frozenset({"username", "password"})
_WORDS: Final = re.compile(
    r"secret|pass?w|pwd|passphrase|token|credential|jaas|user[._-]?info|connection[._-]?string"
    r"|(access|account|api|encryption|private|sas)[._-]?key",
    re.IGNORECASE,
)
# A slip that makes one key of a key and its value: {password:hunter2}.
_WITH_VALUE: Final = re.compile(r"^([^:=\s]+)[:=\s]")
_LOGIN: Final = re.compile(r"://[^/@\s]+@")
# Their names are the user's, and say nothing of what is in them.
_NAMED_BY_USERS: Final = ("flows", "pipelines")


def can_be_secret(path: _Path) -> bool:
    """Whether the value at ``path``, or what holds it, may be a secret."""
    own = path[2:] if path[:1] and path[0] in _NAMED_BY_USERS else path
    return any(isinstance(part, str) and _is_secret(part) for part in own)


def within_secret(path: _Path) -> bool:
    """Whether keys of a mapping at ``path`` are parts of what may be a secret, and no names."""
    prefixes = (path[: length + 1] for length in range(len(path)))
    return any(can_be_secret(each) and each[-1] not in MAPPINGS for each in prefixes)


def name_of(path: _Path) -> str:
    """The key at the end of ``path``, without a value that was written into it by a slip."""
    key = str(path[-1])
    match = _WITH_VALUE.match(key)
    return match[1] if match is not None and can_be_secret(path) else key


def shown(path: _Path) -> _Path:
    """As much of ``path`` as a message may show."""
    found: list[str | int] = []
    for length, part in enumerate(path, 1):
        if within_secret(path[: length - 1]):
            break
        found.append(name_of(path[:length]) if isinstance(part, str) else part)
    return tuple(found)


def without_logins(text: str) -> str:
    """A text without the logins of addresses in it: ``https://...@host``."""
    return _LOGIN.sub("://...@", text)


def with_references(text: str, pairs: Iterable[tuple[str, str]]) -> str:
    """A text of a message with references in the places of their values.

    Args:
        text: The text.
        pairs: (reference, value).
    """
    by_value: dict[str, str] = {}
    for reference, value in pairs:
        by_value |= dict.fromkeys((value, repr(value)[1:-1]), reference)
    by_value.pop("", None)
    if not by_value:
        return text
    longest_first = sorted(by_value, key=len, reverse=True)
    pattern = rf"(?<![A-Za-z0-9])({'|'.join(map(re.escape, longest_first))})(?![A-Za-z0-9])"
    return re.sub(pattern, lambda match: by_value[match[0]], text)


def _is_secret(key: str) -> bool:
    match = _WITH_VALUE.match(key)
    name = match[1] if match is not None else key
    return name in MAPPINGS or name in _VALUES or _WORDS.search(name) is not None
