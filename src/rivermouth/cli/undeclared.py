"""What is said of fields that records have and a flow's schema does not declare."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.cli.output import count

if TYPE_CHECKING:
    from rivermouth.domain.ledger.ledger import Counts


def undeclared_text(flow: str, counts: Counts) -> str | None:
    """How many fields were left out, and the command that shows their names; None where there were none."""
    if not counts.undeclared_fields:
        return None
    found = count(counts.undeclared_fields, "field")
    return (
        f"undeclared fields: {found} in a sample of the records, in no column of the table; "
        f'"rivermouth schema infer {flow}" shows all fields of JSON'
    )
