"""Whether the lake's state of a flow was deleted while its table stayed; without Spark."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rivermouth.domain.ledger.lost_state import DELETED_KEYS, ERASED_RECORDS, LostState
from rivermouth.ports.delta import delta_table
from rivermouth.ports.delta.table_ledger import TableLedger

if TYPE_CHECKING:
    from rivermouth.domain.ledger.ledger import Entry
    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.ports.lake.lake_files import LakeFiles
    from rivermouth.spec import Flow


def lost_at(flow: Flow, files: LakeFiles, places: FlowPlaces) -> Entry | None:
    """The newest ledger entry of a table whose state in the lake is gone; None where nothing was lost.

    The copy of the newest ledger entry is written before the first batch of a table, so a table that has a batch and no
    copy lost it. The state of a trial with ``--debug`` comes and goes.
    """
    if places.option or files.read(places.ledger_file) is not None or not delta_table.exists(files, places.table):
        return None
    ledger = TableLedger(files, places.table, places.ledger_file, flow=flow.name, previously=flow.previously)
    found = ledger.newest(1)
    if not found or found[0].entry.flow not in (flow.name, flow.previously):
        return None
    entry = found[0].entry
    return entry if entry.number > 0 else None


def deleted_text(places: FlowPlaces) -> str:
    """The warning about deleted state before the next run."""
    return f"{places.state} was deleted or emptied: the next run rebuilds what the table tells"


def lost_with(flow: Flow, entry: Entry) -> tuple[str, ...]:
    """The parts of a flow's state that no table can restore; ``entry`` is the flow's newest ledger entry."""
    lost = (DELETED_KEYS,) if flow.keyed is not None else ()
    return (*lost, ERASED_RECORDS) if entry.totals.erased or entry.kind == "forget" else lost


def lost_before(files: LakeFiles, places: FlowPlaces) -> LostState | None:
    """What was lost when the state was deleted before, and could not be rebuilt; None if nothing was."""
    return LostState.from_text(files.read(places.lost))
