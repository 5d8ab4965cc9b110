"""Dead letters whose writer's schema the registry did not have are tried again until it has; no command is needed.

The flow's writer does it as a replay, between batches and after a run that drained. A registry that does not answer
then is reported, and stops nothing.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import TYPE_CHECKING, Final

from rivermouth.decoding.registry.registry_format import SubjectFormat
from rivermouth.engine.dead_letters.replay import replay
from rivermouth.engine.flow import task_failures
from rivermouth.errors import RivermouthError, first_line
from rivermouth.ports.spark.session import has_ended
from rivermouth.rows.dead_letter import DeadLetterFilter

if TYPE_CHECKING:
    from rivermouth.engine.flow.running import FlowRun
    from rivermouth.spec import Flow

_REASON: Final = "UNKNOWN_SCHEMA"
# Bytes of others that only look like a record of a registry's are not tried for ever.
GIVEN_UP_AFTER: Final = dt.timedelta(days=7)


def between_batches(run: FlowRun) -> None:
    """Tries them again a minute after such a letter was written, then less and less often; at no cost without one.

    Guarantees:
        Those of a replay.
    """
    if not _asks(run.flow):
        return
    if run.retries.is_due(time.time(), run.dead_letters.written):
        run.retries.tried(time.time(), left=_tried(run))


def after_run(run: FlowRun) -> None:
    """Tries them again once, those of earlier runs too.

    Guarantees:
        Those of a replay.
    """
    if _asks(run.flow) and not run.stopping.is_set():
        _tried(run)


def _asks(flow: Flow) -> bool:
    """Whether it is the registry that knows the schemas with which the flow's records were written."""
    form = flow.value_format
    return isinstance(form, SubjectFormat) and form.asks_for_writers


def _tried(run: FlowRun) -> bool:
    """Whether there are some left."""
    wanted = DeadLetterFilter(reason=_REASON, since=dt.datetime.now(dt.UTC) - GIVEN_UP_AFTER)
    try:
        done = replay(run, wanted, dry_run=False, marks_failures=False)
    except Exception as error:
        if has_ended(run.spark):
            raise
        typed = error if isinstance(error, RivermouthError) else task_failures.of_flow(run.flow, str(error))
        why = first_line(error) if typed is None else typed.message
        run.warn(f"dead letters with {_REASON} were not tried again: {why}")
        return True
    if done.replayed:
        run.emit(done)
    return done.remaining > 0
