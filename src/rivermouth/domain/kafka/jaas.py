"""The text of ``sasl.jaas.config``: which login modules it names, with which options."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rivermouth.domain.project.references import expand

PLAIN_LOGIN: Final = "org.apache.kafka.common.security.plain.PlainLoginModule"
SCRAM_LOGIN: Final = "org.apache.kafka.common.security.scram.ScramLoginModule"
IAM_LOGIN: Final = "software.amazon.msk.auth.iam.IAMLoginModule"
PASSWORD_LOGINS: Final[Mapping[str, str]] = {
    "PLAIN": PLAIN_LOGIN,
    "SCRAM-SHA-256": SCRAM_LOGIN,
    "SCRAM-SHA-512": SCRAM_LOGIN,
}
"""The login module of each mechanism that takes a user name and a password."""

_CONTROL_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
# As java.io.StreamTokenizer reads it, without its comments: a quote ends on its line.
_JAAS_WORD: Final = re.compile(r"""\s*(?:"((?:[^"\\\n]|\\.)*)"|'((?:[^'\\\n]|\\.)*)'|([\w.$-]+|[=;]))""")
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "f": "\f", "b": "\b", "a": "\a", "v": "\v"}
_CONTROLS: Final = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPES.items()})
_QUOTED: Final = re.compile(r"""("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')""")
_Word = tuple[str, bool]
"""The text, and whether it stood in quotes."""
_END: Final[_Word] = (";", False)


@dataclass(frozen=True, slots=True)
class Login:
    """What one login module of a ``sasl.jaas.config`` says.

    Attributes:
        module: Full name of its class.
        options: Its options; they hold secrets.
    """

    module: str
    options: Mapping[str, str]

    def __repr__(self) -> str:
        return f"Login({self.module!r}, options of {', '.join(sorted(self.options))})"


def expand_jaas(config: str, environ: Mapping[str, str]) -> str:
    """``config`` with its references resolved; one within quotes stays one value, whatever characters it has.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        SecretMissing: A provider does not have the secret.
        ProjectInvalid: A ``${`` begins no reference.
    """
    parts = _QUOTED.split(config)
    # Every second one is what stood within quotes.
    resolved = [expand(part, environ, as_text=escaped if index % 2 else str) for index, part in enumerate(parts)]
    return "".join(resolved)


def escaped(value: str) -> str:
    """``value`` as it is written within quotes."""
    return re.sub(r"""[\\"']""", r"\\\g<0>", value).translate(_CONTROLS)


def password_login(mechanism: str, username: str, password: str) -> str:
    """The text of ``sasl.jaas.config`` with which somebody logs in, whatever characters the two have."""
    return f'{PASSWORD_LOGINS[mechanism]} required username="{escaped(username)}" password="{escaped(password)}";'


def parse_jaas(config: str) -> list[Login]:
    """The login modules of a ``sasl.jaas.config``.

    Raises:
        ValueError: The text is no such configuration; its contents are not in the message.
    """
    words = list(_jaas_words(config))
    logins: list[Login] = []
    while words:
        if _END not in words:
            msg = "it does not end with a ';'"
            raise ValueError(msg)
        end = words.index(_END)
        logins.append(_login(words[:end]))
        words = words[end + 1 :]
    return logins


def _jaas_words(config: str) -> Iterator[_Word]:
    position, end = 0, len(config.rstrip())
    while position < end:
        match = _JAAS_WORD.match(config, position)
        if match is None:
            msg = "a quote in it is not closed, or a value with other characters than letters and digits is not quoted"
            raise ValueError(msg)
        quoted = match[1] if match[1] is not None else match[2]
        if quoted is None:
            yield match[3], False
        else:
            yield re.sub(r"\\(.)", lambda escape: _ESCAPES.get(escape[1], escape[1]), quoted), True
        position = match.end()


def _login(entry: list[_Word]) -> Login:
    if len(entry) < 2 or entry[1][0].lower() not in _CONTROL_FLAGS:  # noqa: PLR2004 - module and flag
        msg = 'it is not written as: module required name="value" ...;'
        raise ValueError(msg)
    options = entry[2:]
    if len(options) % 3 or any(sign != ("=", False) for sign in options[1::3]):
        msg = 'an option in it is not written as name="value"'
        raise ValueError(msg)
    return Login(entry[0][0], {name: value for (name, _), (value, _) in zip(options[::3], options[2::3], strict=True)})
