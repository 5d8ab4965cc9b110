"""Kafka as a sink: errors of topics, records and transactions that are written."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class SinkTopicMissing(RivermouthError):
    """A topic that shall be written does not exist, and the broker does not create it."""

    code = "SINK_TOPIC_MISSING"
    what = "flow {flow}: topic {topic!r} does not exist, and the broker does not create it; the batch was not written"
    hint = "{fix}"


class SinkTopicDiffers(RivermouthError):
    """A topic has another setting than its sink asks for."""

    code = "SINK_TOPIC_DIFFERS"
    what = "flow {flow}: topic {topic!r} has {setting} = {found}, and the sink asks for {wanted}; nothing was written"
    hint = "kafka-configs.sh --alter --entity-type topics --entity-name {topic}, or correct the option of the sink"


class SinkRecordTooLarge(RivermouthError):
    """A record is larger than the producer or the topic allows."""

    code = "SINK_RECORD_TOO_LARGE"
    what = "flow {flow}: a record is too large for sink {sink}: {detail}; the batch was not written"
    hint = "kafka.max.request.size in the options of the sink, and max.message.bytes of the topic"


class SinkRecordInvalid(RivermouthError):
    """A row cannot be a record of Kafka."""

    code = "SINK_RECORD_INVALID"
    what = "flow {flow}: a row cannot be a record of sink {sink}: {detail}; the batch was not written"
    hint = "the columns topic, partition and headers need values that Kafka takes"


class SinkUnreachable(RivermouthError):
    """The broker stopped answering while a batch was written."""

    code = "SINK_UNREACHABLE"
    what = "flow {flow}: the brokers of sink {sink} do not answer: {detail}; the batch was not written"
    hint = "rivermouth run, when the brokers answer again"


class SinkFenced(RivermouthError):
    """The transaction of a batch was ended by somebody else."""

    code = "SINK_FENCED"
    what = "flow {flow}: its transaction into sink {sink} was ended: {detail}; the batch was not written"
    hint = (
        "see that no other process runs this flow; where a batch takes longer than kafka.transaction.timeout.ms, "
        "raise it, or read less in a batch: maxOffsetsPerTrigger"
    )


class SinkRefused(RivermouthError):
    """The broker refused what is needed to write."""

    code = "SINK_REFUSED"
    what = "flow {flow}: the broker refused sink {sink}: {detail}; the batch was not written"
    hint = (
        "see that its user may write the topic, use the transactional id {id}, and create and read the topic {ledger}"
    )


class SinkStateLost(RivermouthError):
    """A query that keeps state has no checkpoint that belongs to what its sink has been given."""

    code = "SINK_STATE_LOST"
    what = (
        "flow {flow} keeps state, and its checkpoint {checkpoint} is not the one of sink {sink}: {detail}; "
        "the flow was not started"
    )
    hint = "restore the checkpoint, or rivermouth run --reset-checkpoint {sink}: all records are written again"


class RealTimeRefused(RivermouthError):
    """A flow is to run in real-time mode, and cannot."""

    code = "REAL_TIME_REFUSED"
    what = "flow {flow}: pipelines.trigger is set, and {reason}; the pipeline was not run"
    hint = "{fix}"
