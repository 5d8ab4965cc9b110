"""Schema ids in headers, as newer serializers of Confluent write them: in SQL over envelope rows, and in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names

if TYPE_CHECKING:
    from collections.abc import Iterable

OF_VALUES: Final = "__value_schema_id"
"""The header that has the id of a value's schema: a one and a GUID, or a zero and a number."""
OF_KEYS: Final = "__key_schema_id"
"""The header that has that of a key."""


def found(header: str, headers: str = names.HEADERS) -> str:
    """SQL of what the last header of that name has (binary), in a column of headers; null where there is none."""
    return f"try_element_at(filter({headers}, each -> each.key = {names.literal(header)}), -1).value"


def has_id(headers: Iterable[tuple[str, object]] | None) -> bool:
    """Whether there is an id of a value's schema among the headers of a record, in plain Python."""
    contents = [content for name, content in headers or () if name == OF_VALUES]
    return bool(contents) and contents[-1] is not None


def as_framed(header: str) -> str:
    """SQL of ``__value`` in Confluent's framing, for a reader that looks up no id: a GUID becomes the id 0.

    What a header has behind the id, the place of a Protobuf message, goes between. A value without the header, or
    with one that has no id, is as it was sent.
    """
    its = found(header)
    return (
        f"CASE WHEN startswith({its}, X'01') AND length({its}) > 17 "
        f"THEN concat(X'0000000000', substring({its}, 18), {names.VALUE}) "
        f"WHEN startswith({its}, X'00') AND length({its}) > 5 THEN concat({its}, {names.VALUE}) ELSE {names.VALUE} END"
    )
