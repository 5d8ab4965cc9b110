"""Running: errors of batches, flows and requests."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class ExpectationFailed(RivermouthError):
    """A record broke an expectation whose action is fail."""

    code = "EXPECTATION_FAILED"
    what = "flow {flow}: expectation {name!r} failed at {topic}-{partition} offset {offset}; the batch was not written"
    hint = "rivermouth run {flow}, once the record is explained; or action: dead_letter"


class FunctionLost(RivermouthError):
    """A worker of Spark cannot use the function that decodes its values, though the driver can."""

    code = "FUNCTION_LOST"
    what = "a worker of Spark cannot use function {function!r}: {detail}; the batch was not written"
    hint = "spark: {{conf: {{spark.submit.pyFiles: {file}}}}}"


class DeserializerLost(RivermouthError):
    """A task of Spark cannot use the deserializer of its values: a class is missing there."""

    code = "DESERIALIZER_LOST"
    what = "a task of Spark cannot use deserializer {name}: {detail}; the batch was not written"
    hint = "name all jars that it needs, jars: [...], or give them to the session: --jars"


class SchemaChanged(RivermouthError):
    """A document is not as its flow's schema says, and a policy stops the flow for that."""

    code = "SCHEMA_CHANGED"
    what = "flow {flow}: {change}: {topic}-{partition} offset {offset}; the batch was not written"
    hint = "evolution: {{{policy}: {other}}}, then: rivermouth run {flow}"


class BatchFailed(RivermouthError):
    """A batch failed again and again, also when it was made smaller."""

    code = "BATCH_FAILED"
    what = "flow {flow}: offsets {ranges} failed {attempts} times: {detail}; they were not written"
    hint = "rivermouth run {flow}, after the cause is corrected; nothing before these offsets is affected"


class FlowsFailed(RivermouthError):
    """At least one flow of a run failed; the others went on."""

    code = "FLOWS_FAILED"
    what = "{failed} of {total} flows failed: {names}"
    hint = "rivermouth status"


class RecordsRefused(RivermouthError):
    """Not every record of a sample would be in the flow's table or be dropped."""

    code = "RECORDS_REFUSED"
    what = "flow {flow}: {refused} of {records} records would not reach the table; nothing was written"
    hint = "correct the rules of flow {flow}, or what sends such records; then check again"


class RecordsNotChecked(RivermouthError):
    """Spark could not apply a flow's rules to the records of a sample."""

    code = "RECORDS_NOT_CHECKED"
    what = "flow {flow}: the records could not be checked: {detail}; nothing was written"
    hint = "rivermouth validate {flow}"


class AuditFailed(RivermouthError):
    """An audit found records that are lost, doubled or made up."""

    code = "AUDIT_FAILED"
    what = "not every record is where it belongs: {flows}; nothing was changed"
    hint = "rivermouth checkpoint show {first}"


class AuditDisturbed(RivermouthError):
    """Records changed their places while these were compared, or vanished from Kafka."""

    code = "AUDIT_DISTURBED"
    what = (
        "flow {flow}: {cause} while its records were compared with Kafka (ledger entry {entry}); its audit was given up"
    )
    hint = "rivermouth run {flow}, which finishes what was cut off, then: rivermouth audit {flow}"


class FlowBroken(RivermouthError):
    """A flow ended for a reason that rivermouth has no word for."""

    code = "FLOW_BROKEN"
    what = "flow {flow}: {detail}; the current batch was not written, or will be found at the next start"
    hint = "{fix}"

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        super().__init__(at=at, **{"fix": f"rivermouth run {facts['flow']}", **facts})


class EngineLost(RivermouthError):
    """The JVM of the Spark driver ended again and again."""

    code = "ENGINE_LOST"
    what = (
        "flow {flow}: Spark's JVM ended {times} times, most likely for lack of memory, the last time with at most "
        "{max_offsets} offsets a batch; the current batch was not written, or will be found at the next start"
    )
    hint = "spark: {{driver_memory: 4g}}"


class RequestUnanswered(RivermouthError):
    """The writer of a table could not do what it was asked to."""

    code = "REQUEST_FAILED"
    what = "flow {flow}: its writer could not {task}: {detail}; {undone}"
    hint = "{fix}"


class StopTimeout(RivermouthError):
    """A batch did not end within the bound after a request to stop."""

    code = "STOP_TIMEOUT"
    what = (
        "flow {flow}: the current batch did not end within {timeout_s} s and was abandoned; it was not written, or "
        "will be found at the next start"
    )
    hint = "rivermouth run {flow}"
