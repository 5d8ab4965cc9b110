"""What is said of fields that records have and a flow's schema does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.cli.output import count
from rivermouth.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rivermouth.domain.ledger.ledger import Counts

_SHOWN: Final = 10


def undeclared_text(flow: str, counts: Counts, named: Mapping[str, int]) -> str | None:
    """The fields that were left out, and the command that shows all of them; None where there were none.

    Args:
        flow: The flow.
        counts: Says how many fields were left out.
        named: Their names, as far as they are known, and how many records have each.
    """
    if not counts.undeclared_fields:
        return None
    # A crash between a batch and its report leaves the count alone.
    told = _named(named) if named else count(counts.undeclared_fields, "field")
    return (
        f"undeclared fields: {told} in a sample of the records, in no column of the table; "
        f'"rivermouth schema infer {flow}" shows all fields of JSON'
    )


def _named(named: Mapping[str, int]) -> str:
    shown = [
        f"{printable(name) if name.strip() else repr(name)} ({count(rows, 'record')})"
        for name, rows in [*named.items()][:_SHOWN]
    ]
    left = len(named) - len(shown)
    return f"{', '.join(shown)} and {left} more" if left else ", ".join(shown)
