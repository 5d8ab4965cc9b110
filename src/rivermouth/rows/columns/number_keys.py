"""Keys that are read as text and look like whole numbers: noticed in the first batch of a flow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.rows.columns.aggregates import Aggregate

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from rivermouth.spec import Flow

SIZES: Final = {"long": 8, "int": 4}
"""How many bytes a key has that ``key_format`` of this name reads."""
_ALL: Final = "keys"


def counting(flow: Flow) -> dict[str, Aggregate]:
    """What is counted of keys, by the name of the count; nothing where the flow says what its keys are."""
    if flow.key_format is not None or not (flow.key_as_text and "kafka_key" in flow.metadata_columns):
        return {}
    # No text begins with a zero, and no valid one with 0xFF: the first bytes of small numbers.
    begins = f"hex(substr({names.KEY}, 1, 1)) IN ('00', 'FF')"
    sizes = {
        kind: Aggregate("count_if", f"coalesce(length({names.KEY}) = {size} AND {begins}, false)")
        for kind, size in SIZES.items()
    }
    return {
        _ALL: Aggregate("count_if", f"{names.KEY} IS NOT NULL"),
        **{f"{_ALL}_{kind}": of for kind, of in sizes.items()},
    }


def described(observed: Mapping[str, Any]) -> str | None:
    """What is to be said of keys that were counted; None where they are not all whole numbers of one size."""
    for kind, size in SIZES.items():
        if observed.get(_ALL) and observed.get(f"{_ALL}_{kind}") == observed[_ALL]:
            return (
                f"all keys have {size} bytes and look like whole numbers, and are read as text; key_format: {kind} "
                "reads numbers, key_format: raw keeps the bytes, and key_format: text says that they are text"
            )
    return None
