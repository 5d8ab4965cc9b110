"""Names that a column of a flow's table cannot have, because something else adds a column of that name to its rows.

All of them are in lower case; Spark takes names that differ in case for the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth import names
from rivermouth.decoding import record_keys
from rivermouth.errors import ColumnReserved
from rivermouth.rows.keyed import history

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping, Sequence

    from rivermouth.spec import Flow

_WORDS: Final = """
    at batch before columns element elements gone key_document last mark moves nth place present records row there
    tombstone unknown unmade_by unplaced verdict wanted writes
"""
_STEPS: Final = frozenset(f"__{word}" for word in _WORDS.split())
"""Of single steps: replay, recovery, the reasons of dead letters, merges."""
WAY: Final = frozenset(
    {
        *names.ENVELOPE,
        names.DATA,
        names.DECODED,
        names.KEY_VALID,
        names.KEY_DATA,
        *record_keys.OURS,
        names.ROUTE,
        names.EPOCH,
        names.REASON,
        names.FIELD,
        names.MESSAGE,
        names.DELETE,
        names.TRUNCATE,
        names.SEQUENCE,
        names.PROBLEM,
        names.PARTITION_PROBLEM,
        names.UNMADE,
        names.PLACES,
        names.OPERATION,
        names.SOURCE_TIMESTAMP,
        names.SOURCE_POSITION,
        names.PRIMARY_KEY,
        names.MISFIT,
        names.OLD,
        names.OLD_PRIMARY_KEY,
        names.ORDINAL,
        names.MOVED,
        names.POSITION,
        names.UNAVAILABLE,
        names.UNDECLARED,
        *_STEPS,
    }
)
"""Of records on their way into any table."""
KEYED: Final = frozenset({names.CHANGE, "__action", "__file", "__met"})
"""Of changes on their way into a table with keys."""
READERS: Final = frozenset({"_tmp_metadata_row_index", "__delta_internal_is_row_deleted"})
"""Of Spark's and Delta's readers of files: no row of such a table can be read."""
MERGES: Final = frozenset(
    {"_file_name_", "_row_dropped_", "_row_id_", "_source_row_present_", "_target_row_index_", "_target_row_present_"}
)
"""Of Delta's MERGE."""
_CHANGES: Final = frozenset(
    {names.DELETE, names.TRUNCATE, names.SEQUENCE, names.PLACES, names.ORDINAL, names.ROUTE, *KEYED, *_STEPS}
)
"""Of changes on their way into a target of AUTO CDC."""
CHANGE_FEED: Final = frozenset({"__is_cdc", "_change_type", "_commit_timestamp", "_commit_version"})
"""Of Delta's change data feed."""
HIDDEN: Final = "_metadata"
"""Of Spark: where a row of a file lies."""
VECTORS: Final = frozenset({HIDDEN, "filepath", "rowindexcol"})
"""Of Delta's commands that mark rows as gone in deletion vectors. A table can have them: its files are rewritten."""

_FEED: Final = "delta.enableChangeDataFeed"


def is_of_the_way(name: str) -> bool:
    """Whether records have a column of that name on their way into any table."""
    return name.lower() in WAY or name.lower().startswith((names.FAILED_PREFIX, names.LOOKUP_PREFIX))


def owner(flow: Flow, name: str) -> str | None:
    """Who adds a column of that name to those of the flow's table; None if the name is free there.

    Names of the way are not checked here: a column that is read may have one, but not a column of the table.
    """
    lower = name.lower()
    if lower in READERS:
        return "Spark's reader of Delta tables"
    if flow.keyed is not None and lower in MERGES:
        return "Delta's MERGE"
    if flow.keyed is not None and lower in KEYED:
        return "rivermouth"
    if lower in CHANGE_FEED and has_change_feed(flow.table.properties):
        return "Delta's change data feed"
    return None


def owner_of_change(name: str, coordinates: Collection[str], *, versions: bool) -> str | None:
    """Who adds a column of that name to the changes of a target of AUTO CDC; None if the name is free there.

    Args:
        name: Of a column of the target.
        coordinates: The columns, in lower case, that say which change a row is.
        versions: Whether the target has all versions of its keys.
    """
    lower = name.lower()
    if lower in READERS:
        return "Spark's reader of Delta tables"
    if lower in MERGES:
        return "Delta's MERGE"
    ours = lower in _CHANGES or lower in coordinates or lower.startswith(names.FAILED_PREFIX)
    return "rivermouth" if ours or (versions and lower in history.RESERVED) else None


def is_of_versions(flow: Flow, name: str) -> bool:
    """Whether a table with every version of its keys cannot have a column of that name."""
    if flow.keyed is None or not flow.keyed.versions:
        return False
    return name.lower() in {*history.RESERVED, names.START_AT.lower(), names.END_AT.lower()}


def has_change_feed(properties: Mapping[str, object]) -> bool:
    """Whether a table of these properties keeps a change data feed; Delta takes their names in any case."""
    found = {name.lower(): value for name, value in properties.items()}
    return str(found.get(_FEED.lower(), False)).lower() == "true"


def check(flow: Flow, columns: Sequence[str], payload: Sequence[str]) -> None:
    """Makes sure that each column of a flow's table has a name that is free there.

    Args:
        flow: The flow.
        columns: Names of all columns of its table.
        payload: Names of those that come from values.

    Raises:
        ColumnReserved: One has not.
    """
    for name in columns:
        if whose := owner(flow, name):
            is_payload = name in payload
            fix = _fix(flow, name, columns) if is_payload else _fix_of_ours(flow, name)
            path = ("format", "schema") if is_payload else ("table",)
            raise ColumnReserved(flow=flow.name, column=name, owner=whose, fix=fix).about(*path)


def _fix(flow: Flow, name: str, columns: Sequence[str]) -> str:
    other = free_name(name, columns)
    if flow.select:
        return f"in select, write {names.quoted(name)} AS {other}"
    if not (flow.change_envelope or (flow.keyed is not None and flow.keyed.snapshots)):
        return f'select: ["* EXCEPT ({names.quoted(name)})", "{names.quoted(name)} AS {other}"]'
    if flow.keyed is not None:
        return f"sink: {{type: {flow.sink.type}, except_columns: [{name}]}}"
    return f"leave {name} out of the schema"


def _fix_of_ours(flow: Flow, name: str) -> str:
    if name in flow.metadata_columns.values():
        # All of them: those that are not listed are left out.
        others = {
            told: f"record_{told}" if called == name else called for told, called in flow.metadata_columns.items()
        }
        return f"metadata_columns: {{{', '.join(f'{told}: {called}' for told, called in others.items())}}}"
    return "write {another_name: ...} for it in keys or in partition_by"


def free_name(name: str, taken: Collection[str]) -> str:
    """A name like a reserved one, for use in a hint: without underscores around, and with a number if that is taken."""
    folded = {names.folded(each) for each in taken}
    stem = name.strip("_") or "column"
    others = (f"{stem}_{number}" if number > 1 else stem for number in range(1, len(folded) + 3))
    return next(each for each in others if names.folded(each) not in folded)
