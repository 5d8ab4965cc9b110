"""Sinks of notifications: each row of a query is a message, up to a number a minute."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from rivermouth.domain.query.notifications import (
    NOTIFY,
    NotifyOptionInvalid,
    NotifyOptions,
    Pace,
    filled,
    read_notify_options,
)
from rivermouth.errors import SinkColumnsInvalid, SinkOptionRefused
from rivermouth.names import did_you_mean
from rivermouth.ports.notifier import Notifier

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.spec import Sink


def is_notifying(sink: Sink | None) -> bool:
    """Whether the sink sends notifications."""
    return sink is not None and (sink.format or "").lower() == NOTIFY


def check_notifications(sink: Sink, flow: FlowNode, columns: Sequence[str]) -> None:
    """Checks that the sink can send what its templates say.

    Raises:
        SinkOptionRefused: An option has a value that it cannot have.
        SinkColumnsInvalid: A template names a column that the query does not have.
        NotifierMissing: Apprise is not installed.
    """
    if not is_notifying(sink):
        return
    options = _options(sink)
    for name in options.columns:
        if name not in columns:
            detail, fix = f"has no column {name}, which the message names", did_you_mean(name, columns)
            raise SinkColumnsInvalid(at=str(flow.at), flow=flow.name, sink=sink.name, detail=detail, fix=fix)
    try:
        Notifier(sink.name, options.urls)
    except SinkOptionRefused as error:
        raise error.located(str(sink.at)) from None


def notifying(sink: Sink, clock: Callable[[], float] = time.monotonic) -> Callable[[DataFrame, int], None]:
    """A function that sends the rows of each batch.

    Guarantees:
        Each row is a message at least once, or counted in the last message of its batch.
    """
    options = _options(sink)
    notifier, pace = Notifier(sink.name, options.urls), Pace(options.max_per_minute)

    def send(frame: DataFrame, _batch_id: int) -> None:
        more = 0
        for row in frame.select(*options.columns).toLocalIterator() if options.columns else frame.toLocalIterator():
            if pace.allows(clock()):
                values = row.asDict()
                notifier.send(filled(options.title, values), filled(options.body, values))
            else:
                more += 1
        if more:
            notifier.send(sink.name, f"{more} more, over {options.max_per_minute} in a minute")

    return send


def _options(sink: Sink) -> NotifyOptions:
    try:
        return read_notify_options(sink.options)
    except NotifyOptionInvalid as error:
        at, facts = str(sink.at), {"option": error.option, "detail": error.reason, "fix": error.fix}
        raise SinkOptionRefused(at=at, sink=sink.name, **facts) from None
