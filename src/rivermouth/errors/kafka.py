"""Kafka: errors of brokers, topics, offsets and groups."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class BrokerUnreachable(RivermouthError):
    """No broker answered in time."""

    code = "BROKER_UNREACHABLE"
    what = "no Kafka broker answered at {bootstrap_servers} within {timeout_s} s: {reason}; nothing was read"
    hint = "{fix}"


class SecurityProtocolWrong(RivermouthError):
    """The broker speaks another protocol than the client: TLS or not, with a login or without."""

    code = "SECURITY_PROTOCOL_WRONG"
    what = "the broker at {server} {speaks}, and security.protocol is {protocol}; nothing was read"
    hint = "kafka: {{options: {{security.protocol: {right}}}}}"


class TopicMissing(RivermouthError):
    """A topic that the broker does not have."""

    code = "TOPIC_MISSING"
    what = "flow {flow}: topic {topic!r} does not exist on the broker; nothing was read"
    hint = "{fix}"


class PartitionMissing(RivermouthError):
    """A partition that the topic does not have."""

    code = "PARTITION_MISSING"
    what = "flow {flow}: topic {topic!r} has no partition {partition} (it has {count}); nothing was read"
    hint = "correct the partition in assign, starting_offsets or ending_offsets"


class TopicPatternEmpty(RivermouthError):
    """A pattern that matches no topic."""

    code = "TOPIC_PATTERN_EMPTY"
    what = "flow {flow}: no topic matches {pattern!r}; nothing was read"
    hint = "{fix}"


class TablesTooMany(RivermouthError):
    """A flow with a table for each of its topics finds more topics than it may have tables."""

    code = "TABLES_TOO_MANY"
    what = (
        "flow {flow}: it has {tables} tables and finds {count} {what_of} that have none ({topics}), and max_tables is "
        "{max_tables}; none of these was read"
    )
    hint = "{fix}"


class GroupWithoutOffsets(RivermouthError):
    """A consumer group to take over that has committed nothing."""

    code = "GROUP_WITHOUT_OFFSETS"
    what = "flow {flow}: consumer group {group!r} has no committed offsets for {topic!r}; nothing was read"
    hint = "starting_offsets: earliest"


class TokenNotMade(RivermouthError):
    """There is no token for IAM: no credentials, or the service that has them does not answer."""

    code = "TOKEN_NOT_MADE"
    what = "no token for a login by IAM could be made: {detail}; nothing was read"
    hint = "aws sts get-caller-identity"


class SchemaRegistryFailed(RivermouthError):
    """The schema registry does not give a schema that it should have."""

    code = "SCHEMA_REGISTRY_FAILED"
    what = "the schema registry does not serve: {detail}; no record was refused for it"
    hint = "see schema_registry in the project, and whether the registry serves: curl -sS URL/subjects"


class KafkaRefused(RivermouthError):
    """The broker refused what was asked of it."""

    code = "KAFKA_REFUSED"
    what = "the broker refused {request}: {detail}; nothing was read"
    hint = "check the credentials and the access rights of this client"


class TopicPatternInvalid(RivermouthError):
    """A topic pattern that is no regular expression."""

    code = "TOPIC_PATTERN_INVALID"
    what = "flow {flow}: topic_pattern {pattern!r} is no regular expression: {detail}; nothing was read"
    hint = "topic_pattern: orders-.*"


class SourceNotRead(RivermouthError):
    """Offsets were given for a topic or partition that the flow does not read."""

    code = "SOURCE_NOT_READ"
    what = "flow {flow}: {setting} names {source}, which the flow does not read; nothing was read"
    hint = "{fix}"


class OffsetsOutOfRange(RivermouthError):
    """An offset that Kafka does not hold was asked for."""

    code = "OFFSETS_OUT_OF_RANGE"
    what = (
        "flow {flow}: {setting}: offset {offset} of topic {topic} partition {partition} is outside of what can be "
        "read, {first} to {end}; nothing was read"
    )
    hint = "{fix}"


class ProduceFailed(RivermouthError):
    """Records that the broker did not take."""

    code = "PRODUCE_FAILED"
    what = "topic {topic}: {failed} of {sent} records were not delivered: {detail}; the others were"
    hint = "rivermouth dev produce {topic} FILE"


class SinkTopicMissing(RivermouthError):
    """A topic that shall be written does not exist, and the broker does not create it."""

    code = "SINK_TOPIC_MISSING"
    what = (
        "flow {flow}: topic {topic!r} does not exist, and the broker does not create it; "
        "the batch was not written to it"
    )
    hint = "{fix}"


class SinkTopicDiffers(RivermouthError):
    """A topic has another setting than its sink asks for."""

    code = "SINK_TOPIC_DIFFERS"
    what = "flow {flow}: topic {topic!r} has {setting} = {found}, and the sink asks for {wanted}; nothing was written"
    hint = "kafka-configs.sh --alter --entity-type topics --entity-name {topic}, or correct the option of the sink"


class SinkRecordTooLarge(RivermouthError):
    """A record is larger than the producer or the topic allows."""

    code = "SINK_RECORD_TOO_LARGE"
    what = "flow {flow}: a record is too large for sink {sink}: {detail}; the batch was not written to the topic"
    hint = "kafka.max.request.size in the options of the sink, and max.message.bytes of the topic"


class SinkRecordInvalid(RivermouthError):
    """A row cannot be a record of Kafka."""

    code = "SINK_RECORD_INVALID"
    what = "flow {flow}: a row cannot be a record of sink {sink}: {detail}; the batch was not written to the topic"
    hint = "the columns topic, partition and headers need values that Kafka takes"


class SinkValueInvalid(RivermouthError):
    """The schema of a sink does not take the values of a row."""

    code = "SINK_VALUE_INVALID"
    what = "flow {flow}: a row has no value for sink {sink}: {detail}; the batch was not written to the topic"
    hint = "change the schema of the sink so that it takes the row, and rivermouth run"


class SinkUnreachable(RivermouthError):
    """The broker stopped answering while a batch was written."""

    code = "SINK_UNREACHABLE"
    what = "flow {flow}: the brokers of sink {sink} do not answer: {detail}; the batch was not written to the topic"
    hint = "rivermouth run, when the brokers answer again"


class SinkFenced(RivermouthError):
    """The transaction of a batch was ended by somebody else."""

    code = "SINK_FENCED"
    what = "flow {flow}: its transaction into sink {sink} was ended: {detail}; the batch was not written to the topic"
    hint = (
        "see that no other process runs this flow; where a batch takes longer than kafka.transaction.timeout.ms, "
        "raise it, or read less in a batch: maxOffsetsPerTrigger, or max_offsets in the trigger of a flow"
    )


class SinkRefused(RivermouthError):
    """The broker refused what is needed to write."""

    code = "SINK_REFUSED"
    what = "flow {flow}: the broker refused sink {sink}: {detail}; the batch was not written to the topic"
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
    hint = "restore the checkpoint, or rivermouth run --reset-checkpoint {sink!q}: all records are written again"


class RealTimeRefused(RivermouthError):
    """A flow is to run in real-time mode, and cannot."""

    code = "REAL_TIME_REFUSED"
    what = "flow {flow}: pipelines.trigger is set, and {reason}; the pipeline was not run"
    hint = "{fix}"
