"""Tables in which flows look up columns."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class LookupInvalid(RivermouthError):
    """A lookup that the flow's columns and those of its table do not allow."""

    code = "LOOKUP_INVALID"
    what = "flow {flow}: the lookup in table {table} cannot be used: {detail}; nothing was run"
    hint = "{fix}"


class LookupTableMissing(RivermouthError):
    """The table of a lookup does not exist."""

    code = "LOOKUP_TABLE_MISSING"
    what = "flow {flow}: table {table} of its lookup does not exist at {location}; no record was read"
    hint = "{fix}"


class LookupKeysTwice(RivermouthError):
    """The table of a lookup has several rows with the same key."""

    code = "LOOKUP_KEYS_TWICE"
    what = (
        "flow {flow}: version {version} of table {table} has {rows} rows for {keys} values of {columns}, so a record "
        "would find several; no record was read"
    )
    hint = "{fix}"


class LookupTooLarge(RivermouthError):
    """The table of a lookup has more rows than may be kept in memory."""

    code = "LOOKUP_TOO_LARGE"
    what = (
        "flow {flow}: version {version} of table {table} has {rows} rows, and its lookup keeps at most {max_rows}; "
        "no record was read"
    )
    hint = "max_rows: {rows}, if the driver has the memory; or a join in a pipeline, which needs no broadcast"
