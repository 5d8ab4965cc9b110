"""Real-time mode: ``pipelines.trigger: RealTime`` for flows that copy records from Kafka to Kafka as they come."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from rivermouth.domain.kafka.sink_options import read_options
from rivermouth.errors import RealTimeRefused
from rivermouth.ports.internals.query_plans import analysed_plan, keeps_state

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from rivermouth.pipelines.graph import FlowNode
    from rivermouth.pipelines.spec import Sink

TRIGGER: Final = "pipelines.trigger"
LEAST_S: Final = 5.0
"""Spark takes no shorter batches in this mode; a batch is as long as its offsets are not written."""
_REMOVE: Final = "remove pipelines.trigger from the flow, or from the configuration"
_SOURCE: Final = re.compile(r"^\W*StreamingRelation.*$", re.MULTILINE)


def is_real_time(configuration: Mapping[str, str], flow: FlowNode) -> bool:
    """Whether a flow is to run in real-time mode: its own setting counts, then that of the pipeline.

    Raises:
        RealTimeRefused: The setting has another value.
    """
    said = flow.query.conf.get(TRIGGER) or configuration.get(TRIGGER)
    if not said:
        return False
    if said.lower() != "realtime":
        raise _refused(flow, "its only value is RealTime", _REMOVE)
    return True


def check_real_time(configuration: Mapping[str, str], flow: FlowNode, frame: DataFrame, sink: Sink | None) -> None:
    """Checks that a flow can run in the mode that its settings ask for.

    Args:
        configuration: Of the pipeline.
        flow: The flow.
        frame: Its query.
        sink: What it writes to; None where that is a table.

    Raises:
        RealTimeRefused: It is to run in real-time mode, and cannot.
    """
    if not is_real_time(configuration, flow):
        return
    if sink is None or (sink.format or "").lower() != "kafka":
        raise _refused(flow, "it does not write to a Kafka sink", _REMOVE)
    if keeps_state(frame):
        raise _refused(flow, "its query keeps state", _REMOVE)
    if any("KafkaSourceProvider" not in line for line in _SOURCE.findall(analysed_plan(frame))):
        raise _refused(flow, "it reads a stream that is not Kafka", _REMOVE)
    if read_options(sink.options).delivery != "at_least_once":
        reason = "this mode writes at least once, and the sink is exactly once"
        raise _refused(flow, reason, 'add "deliveryGuarantee": "at_least_once" to the options of the sink')


def _refused(flow: FlowNode, reason: str, fix: str) -> RealTimeRefused:
    return RealTimeRefused(at=str(flow.at), flow=flow.name, reason=reason, fix=fix)
