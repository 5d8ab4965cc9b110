"""Sinks of pipelines: errors of what a pipeline writes outside of its tables."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class SinkPositionLost(RivermouthError):
    """The checkpoint of a sink's flow cannot be read, and nothing else says what the sink has."""

    code = "SINK_POSITION_LOST"
    what = (
        "flow {flow}: the checkpoint {checkpoint} is damaged: {detail}; nothing else says which rows sink {sink} has, "
        "and the flow was not started"
    )
    hint = "restore the checkpoint, or send all rows again: rivermouth run --reset-checkpoint {sink}"


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
