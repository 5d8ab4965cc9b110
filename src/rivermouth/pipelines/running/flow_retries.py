"""When a flow of a pipeline looks for rows, and whether it is tried again after a failure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.domain.query.failure_texts import cause
from rivermouth.engine.flow import task_failures
from rivermouth.errors import (
    BrokerUnreachable,
    CommitLost,
    DefinitionInvalid,
    FileSourceUnreadable,
    FlowBroken,
    JdbcSourceUnreadable,
    KinesisSourceUnreadable,
    KinesisThrottled,
    LakeNotReadable,
    LakeNotWritable,
    MetastoreUnavailable,
    NotificationFailed,
    QueryFailed,
    QueryInvalid,
    RivermouthError,
    SchemaRegistryFailed,
    SinkFenced,
    SinkUnreachable,
    StaticTableMissing,
    TokenNotMade,
)
from rivermouth.pipelines.files import failures as file_failures
from rivermouth.spec import duration_s

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.running.load import Loaded

PASSING: Final = (
    BrokerUnreachable,
    CommitLost,
    FileSourceUnreadable,
    FlowBroken,
    JdbcSourceUnreadable,
    KinesisSourceUnreadable,
    KinesisThrottled,
    LakeNotReadable,
    LakeNotWritable,
    MetastoreUnavailable,
    NotificationFailed,
    QueryFailed,
    QueryInvalid,
    SchemaRegistryFailed,
    SinkFenced,
    SinkUnreachable,
    StaticTableMissing,
    TokenNotMade,
)
"""What Spark says, and what a service outside says or does not say: the next try may find it otherwise."""
LONGEST_WAIT_S: Final = 60.0
_DOUBLINGS: Final = 6
_INTERVAL: Final = "pipelines.trigger.interval"
_RETRIES: Final = "pipelines.maxFlowRetryAttempts"
_DEFAULT_INTERVAL_S: Final = 5.0


def may_pass(error: RivermouthError) -> bool:
    """Whether a flow is tried again after this failure, where it is tried again at all."""
    return isinstance(error, PASSING) or file_failures.may_pass(error)


def wait_s(failures: int) -> float:
    """The pause in seconds before a flow is tried again, longer after each failure in a row."""
    return min(LONGEST_WAIT_S, 2.0 ** min(failures, _DOUBLINGS))


def typed(error: Exception, flow: FlowNode) -> RivermouthError:
    """The error of a flow, at its line; what Spark says of a file is the error of that file.

    Args:
        error: What ended a try of the flow.
        flow: The flow.
    """
    if not isinstance(error, RivermouthError):
        kind, said = cause(error)
        detail = said if said.startswith("[") else f"{kind}: {said}"
        broken = FlowBroken(flow=flow.name, detail=detail, fix="rivermouth run")
        broken.__cause__ = error
        return (task_failures.failure(str(error)) or broken).located(str(flow.at))
    found = file_failures.found(error) if isinstance(error, QueryFailed) else None
    return (found or error).located(str(flow.at))


def interval(loaded: Loaded, flow: FlowNode) -> float:
    """How often a flow looks for rows, in seconds: ``pipelines.trigger.interval`` of the flow, then of the pipeline.

    Raises:
        DefinitionInvalid: It is no duration.
    """
    said = _setting(loaded, flow, _INTERVAL)
    try:
        return float(str(duration_s(said))) if said else _DEFAULT_INTERVAL_S
    except ValueError as error:
        detail, fix = f"{_INTERVAL} is no duration", f"{_INTERVAL}: 10 seconds"
        raise DefinitionInvalid(at=str(flow.at), definition=f"flow {flow.name}", detail=detail, fix=fix) from error


def retries(loaded: Loaded, flow: FlowNode) -> int:
    """How often a flow is tried again in an update: ``pipelines.maxFlowRetryAttempts`` of the flow or the pipeline.

    Raises:
        DefinitionInvalid: It is no number.
    """
    said = _setting(loaded, flow, _RETRIES) or "0"
    if not said.isdecimal():
        detail = f"{_RETRIES} is no number"
        raise DefinitionInvalid(at=str(flow.at), definition=f"flow {flow.name}", detail=detail, fix=f"{_RETRIES}: 2")
    return int(said)


def _setting(loaded: Loaded, flow: FlowNode, name: str) -> str | None:
    """The value of a flow's setting, or of the pipeline's, in any letter case."""
    both = {**loaded.pipeline.configuration, **flow.query.conf}
    return next((value for key, value in reversed(both.items()) if key.lower() == name.lower()), None)
