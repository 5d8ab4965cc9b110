"""Why records were dropped, as far as their counts tell. Pure values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from rivermouth.domain.ledger.ledger import Counts
    from rivermouth.spec import Flow

_DROPPED: Final = "dropped"


def dropped_by(flow: Flow, counts: Counts) -> dict[str, int]:
    """Why records were dropped, as far as the counts tell: an expectation, a lookup, no value or elements, the format.

    One that several expectations drop is counted with each.
    """
    dropping = [each.name for each in flow.all_expectations if each.route == _DROPPED]
    lookups = {each.name for each in flow.lookup}
    # What fails an expectation may go to the dead letters for another reason: it is not more than were dropped.
    most = counts.dropped - counts.null_values - counts.no_elements
    found = {
        name if name in lookups else f"expectation {name}": min(most, counts.expectations.get(name, 0))
        for name in dropping
    }
    found |= {"null value": counts.null_values, "no elements": counts.no_elements}
    rest = counts.dropped - sum(found.values())
    # A function, a deserializer or a list of record names leaves records out; an envelope may tell of another table.
    by_format = "not a change to this table" if flow.change_envelope else "left out by the format"
    return {name: number for name, number in {**found, by_format: rest}.items() if number > 0}
