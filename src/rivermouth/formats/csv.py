"""Lines of delimited fields (CSV), strictly: a value is one line that fits the schema wholly, or it is refused."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, Self

from pydantic import Field, model_validator

from rivermouth.decoding.text.line_format import LineFormat

_LINE_ENDS = "\r\n"
# What people write for signs that are hard to write.
_WORDS: Final = {"\\t": "\\t", "tab": "\\t", "comma": ",", "semicolon": ";", "pipe": "|", "space": " "}


class Csv(LineFormat):
    """Lines of delimited fields: a value is one line, and its fields are the columns of the schema in their order.

    Attributes:
        type: ``csv``.
        delimiter: The text between fields: one character, or a few, such as ``||``.
        quote: The character that may enclose a field, so that it can hold the delimiter and line breaks; null
            if none does.
        escape: The character before a quote that is part of a field. If not given, it is the quote: such quotes are
            doubled. Any other also comes before itself and the delimiter, in fields without quotes too. Null if
            there is none.
        null_value: A field that is this text, and not quoted, is null; null itself means that no field is.
    """

    type: Literal["csv"] = "csv"
    delimiter: str = Field(default=",", min_length=1, max_length=10)
    quote: str | None = Field(default='"', min_length=1, max_length=1)
    escape: str | None = Field(default_factory=lambda fields: fields.get("quote"), min_length=1, max_length=1)
    null_value: str | None = ""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        signs = {"delimiter": self.delimiter, "quote": self.quote or "", "escape": self.escape or ""}
        broken = [name for name, sign in signs.items() if any(end in sign for end in _LINE_ENDS)]
        msg = None
        if self.delimiter.lower() in _WORDS:
            sign = _WORDS[self.delimiter.lower()]
            msg = f'the delimiter is {len(self.delimiter)} characters, {self.delimiter}: write delimiter: "{sign}"'
        elif broken:
            msg = f"the {broken[0]} is a line break, and a value is one line: name another character"
        elif any(sign and sign in self.delimiter for sign in (self.quote, self.escape)):
            msg = "the delimiter has the quote or the escape in it, so they cannot be distinguished: name another one"
        elif any(sign in (self.null_value or "") for sign in (self.delimiter, *_LINE_ENDS)):
            msg = "null_value has the delimiter or a line break in it, so no field is ever that text: name another one"
        elif self.quote is not None and (self.null_value or "").startswith(self.quote):
            msg = "null_value begins with the quote, and what is quoted is never null: write it without quotes"
        elif self._ends_in_escape(self.null_value or ""):
            msg = "null_value ends with the escape, which is part of what comes after it: name another one"
        if msg is not None:
            raise ValueError(msg)
        return self

    def _ends_in_escape(self, text: str) -> bool:
        if self.escape is None or self.escape == self.quote:
            return False
        return (len(text) - len(text.rstrip(self.escape))) % 2 == 1

    def splitter(self, columns: Sequence[str]) -> tuple[Any, ...]:
        """The class that takes lines apart, with this dialect."""
        return ("values.Csv", list(columns), self.delimiter, self.quote or "", self.escape or "", self.null_value)


KIND = Csv
