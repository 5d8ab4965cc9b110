"""Targets of pipelines: errors of AUTO CDC flows, and of sinks outside of the tables."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class CdcValueNull(RivermouthError):
    """A change of an AUTO CDC flow has no key, or no place in the order of changes."""

    code = "CDC_VALUE_NULL"
    what = "flow {flow}: {part} is {fault} in {rows} of the changes for {dataset}; the batch was not written"
    hint = "leave such changes out in the source, or drop them by an expectation on {dataset}"


class CdcColumnUnknown(RivermouthError):
    """An AUTO CDC flow names a column that its changes do not have."""

    code = "CDC_COLUMN_UNKNOWN"
    what = "flow {flow}: {argument} names {column}, which is no column of its source; the pipeline was not run"
    hint = "{fix}"


class CdcTargetChanged(RivermouthError):
    """The flows of an AUTO CDC target have other settings than its table was written with."""

    code = "CDC_TARGET_CHANGED"
    what = "dataset {dataset}: its table was written as {found}, and its flows say {wanted}; nothing was written to it"
    hint = "rivermouth run --full-refresh {dataset!q}, or write the settings of the table"


class CdcOrderLost(RivermouthError):
    """An AUTO CDC target has rows, and the table behind it, with the order of the changes, is missing or older."""

    code = "CDC_ORDER_LOST"
    what = (
        "flow {flow}: the table {table} has rows, and {folder}, which has the order of their changes, is missing, or "
        "older than these rows; the flow was not started"
    )
    hint = "rivermouth run --full-refresh {dataset!q}, or restore the folder"


class TableRestored(RivermouthError):
    """A table was taken back to a version that does not have all rows that its flow has written."""

    code = "TABLE_RESTORED"
    what = (
        "flow {flow}: version {version} of table {table} (RESTORE) took it back behind ledger entry {entry}; the flow "
        "would not read the missing rows again, and was stopped"
    )
    hint = (
        "RESTORE TABLE delta.`{table}` TO VERSION AS OF {before}; or rivermouth run --full-refresh {dataset!q}; or "
        "keep the rows and read the sources again: rivermouth run --reset-checkpoint {dataset!q}"
    )


class SnapshotKeysRepeated(RivermouthError):
    """A snapshot has several rows of one key."""

    code = "SNAPSHOT_KEYS_REPEATED"
    what = "flow {flow}: {keys} keys have several rows for {dataset} in one snapshot; the snapshot was not written"
    hint = "leave all but one of them out in the source, or add columns that tell them apart to the keys {columns}"


class SnapshotVersionInvalid(RivermouthError):
    """A function of snapshots returned a version that does not follow the one that it was given."""

    code = "SNAPSHOT_VERSION_INVALID"
    what = (
        "flow {flow}: its function returned version {version} ({kind}) after version {newest} ({newest_kind}); "
        "the snapshot was not written"
    )
    hint = "return versions of one type that grow, and None where there is no newer one"


class SnapshotInvalid(RivermouthError):
    """A function of snapshots returned something else than a frame and its version."""

    code = "SNAPSHOT_INVALID"
    what = "flow {flow}: its function returned no frame with a version; nothing was written"
    hint = "return (frame, version) with a version that is a number, a text, a date or a time; or None"


class SinkPositionLost(RivermouthError):
    """The checkpoint of a sink's flow cannot be read, and nothing else says what the sink has."""

    code = "SINK_POSITION_LOST"
    what = (
        "flow {flow}: the checkpoint {checkpoint} is damaged: {detail}; nothing else says which rows sink {sink} has, "
        "and the flow was not started"
    )
    hint = "restore the checkpoint, or send all rows again: rivermouth run --reset-checkpoint {sink!q}"


class SinkStreamsMoved(RivermouthError):
    """A query into a sink has its streams in another order than before, or more or fewer of them."""

    code = "SINK_STREAMS_MOVED"
    what = (
        "flow {flow} into sink {sink}: its query read the streams {before}, and it reads {now}; Spark finds what each "
        "of them has read by its number, so the flow was not started"
    )
    hint = "write the streams in their former order, or send all rows again: rivermouth run --reset-checkpoint {sink!q}"


class SinkColumnsInvalid(RivermouthError):
    """A query into a sink does not have the columns that the sink needs."""

    code = "SINK_COLUMNS_INVALID"
    what = "flow {flow} into sink {sink}: its query {detail}; the pipeline was not run"
    hint = "{fix}"


class SinkOptionRefused(RivermouthError):
    """An option of a sink is unknown, missing, or has a value that it cannot have."""

    code = "SINK_OPTION_REFUSED"
    what = "sink {sink}: option {option} {detail}; the pipeline was not run"
    hint = "{fix}"


class NotifierMissing(RivermouthError):
    """The library that sends notifications is not installed."""

    code = "NOTIFIER_MISSING"
    what = "sink {sink}: notifications need the package apprise, which is not installed; the pipeline was not run"
    hint = "pip install 'rivermouth[notify]'"


class NotificationFailed(RivermouthError):
    """A service did not take a message."""

    code = "NOTIFICATION_FAILED"
    what = "sink {sink}: {service} did not take a message; the batch will be sent again, from its beginning"
    hint = "rivermouth run, when the service answers again"
