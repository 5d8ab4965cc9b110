"""Lines of pairs of a key and a value (logfmt), strictly: every pair is read and every column fits, or none is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

from pydantic import Field, model_validator

from rivermouth.decoding.declared.named_fields import NamedFields
from rivermouth.decoding.text.line_format import LineFormat

_LINE_ENDS = "\r\n"


class KeyValue(LineFormat, NamedFields):
    r"""Lines of pairs, ``a=1 b="two words"``: the columns of the schema are keys, and further keys are ignored.

    Attributes:
        type: ``key_value``.
        pair_separator: The text between pairs: one character, or a few. Blanks and tabs may be repeated, and be at
            both ends; any other separator may also follow the last pair.
        key_value_separator: The text between a key and its value: the first such text after the key.
        quote: The character that may enclose a value, so that it can hold separators and line breaks; null if
            none does.
        escape: The character before a quote that is part of a quoted value. A backslash, the default, works
            as in JSON: ``\n``, ``\u00e4``. The quote itself if such quotes are doubled; null if there
            is none.
        null_value: A value that is this text, and not quoted, is null; null itself means that no value is.
    """

    type: Literal["key_value"] = "key_value"
    pair_separator: str = Field(default=" ", min_length=1, max_length=10)
    key_value_separator: str = Field(default="=", min_length=1, max_length=10)
    quote: str | None = Field(default='"', min_length=1, max_length=1)
    escape: str | None = Field(
        default_factory=lambda fields: None if fields.get("quote") is None else "\\", min_length=1, max_length=1
    )
    null_value: str | None = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        pair, within = self.pair_separator, self.key_value_separator
        signs = {"pair_separator": pair, "key_value_separator": within}
        signs |= {"quote": self.quote or "", "escape": self.escape or ""}
        broken = [name for name, sign in signs.items() if any(end in sign for end in _LINE_ENDS)]
        mixed = [name for name in ("pair_separator", "key_value_separator") if self._has_sign(signs[name])]
        msg = None
        if broken:
            msg = f"the {broken[0]} is a line break, and a value is one line: name another one"
        elif pair in within or within in pair:
            msg = "one separator has the other in it, so they cannot be distinguished: name another one"
        elif mixed:
            msg = f"the {mixed[0]} has the quote or the escape in it, so they cannot be distinguished: name another one"
        elif self.quote is None and self.escape is not None:
            msg = "the escape is for quoted values, and none is quoted: leave escape out"
        elif any(sign in (self.null_value or "") for sign in (pair, *_LINE_ENDS)):
            msg = "null_value has the pair_separator or a line break in it, so no value is ever that: name another one"
        elif self.quote is not None and self.quote in (self.null_value or ""):
            msg = "null_value has the quote in it, and what is quoted is never null: write it without quotes"
        if msg is not None:
            raise ValueError(msg)
        return self

    def _has_sign(self, separator: str) -> bool:
        return any(sign is not None and sign in separator for sign in (self.quote, self.escape))

    def splitter(self, columns: Sequence[str]) -> tuple[Any, ...]:
        """The class that takes lines apart, with this dialect."""
        signs = (self.pair_separator, self.key_value_separator, self.quote or "", self.escape or "", self.null_value)
        return ("values.KeyValue", list(columns), *signs, not self.needs_declared_field)


KIND = KeyValue
