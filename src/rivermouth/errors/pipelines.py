"""Pipelines: errors of the files that define datasets and flows, and of their refresh."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class DefinitionOutside(RivermouthError):
    """A file of a pipeline was run by something else than rivermouth."""

    code = "DEFINITION_OUTSIDE"
    what = "{function} was called outside of a pipeline run; nothing was defined"
    hint = "rivermouth run FILE"


class DefinitionInvalid(RivermouthError):
    """A definition in a pipeline file is not possible."""

    code = "DEFINITION_INVALID"
    what = "{definition}: {detail}; the pipeline was not run"
    hint = "{fix}"


class PythonFileFailed(RivermouthError):
    """A Python file of a pipeline raised an error while it was evaluated."""

    code = "PYTHON_FILE_FAILED"
    what = "{file} failed with {error}: {detail}; the pipeline was not run"
    hint = "{fix}"


class QueryFunctionFailed(RivermouthError):
    """The function of a dataset raised an error."""

    code = "QUERY_FUNCTION_FAILED"
    what = "dataset {dataset}: its function failed with {error}: {detail}; nothing was written to it"
    hint = "rivermouth validate, after the line above is corrected"


class DatasetDefinedTwice(RivermouthError):
    """Two definitions make one table or view."""

    code = "DATASET_DEFINED_TWICE"
    what = "{dataset} is defined twice: here and at {other}; the pipeline was not run"
    hint = "give one of them another name; for a second query into one table write an append flow"


class FlowDefinedTwice(RivermouthError):
    """Two flows of a pipeline have one name."""

    code = "FLOW_DEFINED_TWICE"
    what = "flow {flow} is defined twice: here and at {other}; the pipeline was not run"
    hint = "give one of them another name: name=..."


class DatasetUnknown(RivermouthError):
    """A query reads a table that is neither in the pipeline nor anywhere else."""

    code = "DATASET_UNKNOWN"
    what = (
        "{reader} reads {name}, which is neither in the pipeline, nor a table of the lake or the catalog; "
        "nothing was run"
    )
    hint = "{fix}"


class PipelineCircle(RivermouthError):
    """Datasets read each other in a circle."""

    code = "PIPELINE_CIRCLE"
    what = "datasets read each other in a circle: {path}; the pipeline was not run"
    hint = "remove one of these reads"


class TargetUnknown(RivermouthError):
    """A flow writes to something that the pipeline does not define."""

    code = "TARGET_UNKNOWN"
    what = "flow {flow} writes to {target}, which the pipeline does not define; the pipeline was not run"
    hint = "{fix}"


class QueryNotStreaming(RivermouthError):
    """A streaming table has a query over a batch source."""

    code = "QUERY_NOT_STREAMING"
    what = "streaming table {dataset}: its query reads no stream; the pipeline was not run"
    hint = "{fix}"


class QueryStreaming(RivermouthError):
    """A materialized view has a query over a stream."""

    code = "QUERY_STREAMING"
    what = "materialized view {dataset}: its query reads a stream; the pipeline was not run"
    hint = "{fix}"


class RefreshPolicyRefused(RivermouthError):
    """A materialized view has a refresh policy that its query cannot have."""

    code = "REFRESH_POLICY_REFUSED"
    what = "materialized view {dataset}: refresh_policy is {policy}, and {reason}; the pipeline was not run"
    hint = "{fix}"


class RefreshNotIncremental(RivermouthError):
    """A materialized view whose policy is incremental_strict can only be refreshed in full."""

    code = "REFRESH_NOT_INCREMENTAL"
    what = (
        "materialized view {dataset}: refresh_policy is incremental_strict, and it cannot be refreshed by increments: "
        "{reason}; it was not refreshed"
    )
    hint = "rivermouth run --full-refresh {dataset!q}, once; or write another refresh_policy"


class QueryInvalid(RivermouthError):
    """Spark refuses the query of a dataset."""

    code = "QUERY_INVALID"
    what = "dataset {dataset}: Spark refuses its query: {detail}; nothing was written to it"
    hint = "rivermouth validate, after the query is corrected"


class WatermarkMissing(RivermouthError):
    """A flow that appends aggregates a stream without a watermark, so no group is ever complete."""

    code = "WATERMARK_MISSING"
    what = (
        "flow {flow} aggregates a stream without a watermark on the time that it groups by, so no group is ever "
        "complete, and none can be appended; the pipeline was not run"
    )
    hint = (
        '.withWatermark("event_time", "10 minutes") before groupBy; in SQL, behind STREAM(...): '
        "WATERMARK event_time DELAY OF INTERVAL 10 MINUTES"
    )


class StaticTableMissing(RivermouthError):
    """A Delta table that a stream is joined with is not there any more."""

    code = "STATIC_TABLE_MISSING"
    what = (
        "flow {flow} reads table {table} in each batch, and it is not at {location} any more; the batch was not written"
    )
    hint = "rivermouth run, once the table is there again: the batch is read again"


class NothingDefined(RivermouthError):
    """The files of a pipeline define no dataset."""

    code = "NOTHING_DEFINED"
    what = "pipeline {pipeline}: its files define no table and no view: {files}; nothing was run"
    hint = "rivermouth init --pipeline, for a pipeline to start from"


class TableSchemaChanged(RivermouthError):
    """A query brings columns that its table cannot take."""

    code = "TABLE_SCHEMA_CHANGED"
    what = (
        "dataset {dataset}: column {column} is {found} in the table, and its query brings {wanted}; nothing was written"
    )
    hint = "rivermouth run --full-refresh {dataset!q}, or cast the column in the query"


class TablePartitionsChanged(RivermouthError):
    """A table has other partition columns than its definition."""

    code = "TABLE_PARTITIONS_CHANGED"
    what = (
        "dataset {dataset}: the table is partitioned by {found}, and its definition says {wanted}; nothing was written"
    )
    hint = "rivermouth run --full-refresh {dataset!q}, or write the partition columns of the table"


class QueryStateLost(RivermouthError):
    """A query that keeps state has no checkpoint that belongs to its table."""

    code = "QUERY_STATE_LOST"
    what = (
        "flow {flow} keeps state, and its checkpoint {checkpoint} is not the one of table {table}: {detail}; "
        "the flow was not started"
    )
    hint = (
        "restore the checkpoint, or rivermouth run --full-refresh {dataset!q}, or keep the rows and read the sources "
        "again: rivermouth run --reset-checkpoint {dataset!q}"
    )


class QueryStateChanged(RivermouthError):
    """A query was changed, and cannot go on with the state that it kept before."""

    code = "QUERY_STATE_CHANGED"
    what = (
        "flow {flow} keeps state, and its query was changed in a way that this state does not allow: {detail}; "
        "the batch was not written"
    )
    hint = (
        "write the query as it was; or, for a table, rivermouth run --full-refresh {dataset!q}; or keep what was "
        "written and read the sources again: rivermouth run --reset-checkpoint {dataset!q}"
    )


class TableOfFlow(RivermouthError):
    """The table of a dataset has rows that a flow of a project file wrote."""

    code = "TABLE_OF_FLOW"
    what = (
        "dataset {dataset}: the table {table} has rows of flow {flow} of a project file, whose offsets the pipeline "
        "does not know; nothing was written to it"
    )
    hint = "name another table, or remove the flow from the project file and move its table away"


class CheckpointOfAnotherFlow(RivermouthError):
    """A checkpoint's folder belongs to another flow or pipeline."""

    code = "CHECKPOINT_OF_ANOTHER_FLOW"
    what = "flow {flow}: checkpoint {checkpoint} belongs to {owner}; the flow was not started"
    hint = "give the pipeline another name, or remove the folder"


class RowExpectationFailed(RivermouthError):
    """A row broke an expectation whose action is fail."""

    code = "ROW_EXPECTATION_FAILED"
    what = "flow {flow}: expectation {name!r} failed for at least one row; the batch was not written"
    hint = "correct the rows or the expectation, then: rivermouth run"


class NullInColumn(RivermouthError):
    """A row has null in a column that its dataset declares NOT NULL."""

    code = "NULL_IN_COLUMN"
    what = (
        "flow {flow}: column {column} is declared NOT NULL, and at least one row has null in it; "
        "the batch was not written"
    )
    hint = "correct the rows, or remove NOT NULL from the column, then: rivermouth run"


class ResetNotAllowed(RivermouthError):
    """A table whose property forbids a full refresh was named for one."""

    code = "RESET_NOT_ALLOWED"
    what = "dataset {dataset} has pipelines.reset.allowed = false; it was not cleared"
    hint = "remove the property, if its data may be deleted"


class RefreshWouldLose(RivermouthError):
    """A full refresh would delete rows that the sources no longer have."""

    code = "REFRESH_WOULD_LOSE"
    what = "dataset {dataset}: a full refresh would lose data: {detail}; it was not cleared"
    hint = "rivermouth run --full-refresh {dataset!q} --accept-data-loss"


class SourceChangedRows(RivermouthError):
    """A stream reads a table in which rows were updated or deleted."""

    code = "SOURCE_CHANGED_ROWS"
    what = "flow {flow} streams from a table in which rows were updated or deleted: {detail}; nothing more was written"
    hint = '.option("skipChangeCommits", "true") on the read, or read its change data feed'


class QueryFailed(RivermouthError):
    """The query of a flow ended for a reason of Spark's own or of the user's functions."""

    code = "QUERY_FAILED"
    what = "flow {flow} failed with {error}: {detail}; the batch was not written"
    hint = "rivermouth run, after the cause is corrected; batches before it are in the table"


class QueryCountsDisagree(RivermouthError):
    """A batch of a query has other rows in its table than were counted."""

    code = "QUERY_COUNTS_DISAGREE"
    what = "flow {flow}: ledger entry {entry}: {detail}; the batch is in table {dataset}, and its counts may be wrong"
    hint = "rivermouth run --full-refresh {dataset!q}, once the query gives the same rows each time; or report a bug"


class PipelineFailed(RivermouthError):
    """At least one dataset of an update failed."""

    code = "PIPELINE_FAILED"
    what = "{failed} of {total} datasets failed: {names}"
    hint = "rivermouth status"


class WidgetMissing(RivermouthError):
    """A file asks for a widget that has no value."""

    code = "WIDGET_MISSING"
    what = "widget {name} has no value; the pipeline was not run"
    hint = "rivermouth run --param {name}=VALUE"


class ConfigurationMissing(RivermouthError):
    """A file or a query asks for a configuration value that does not exist."""

    code = "CONFIGURATION_MISSING"
    what = "configuration {name} has no value; the pipeline was not run"
    hint = "rivermouth run --param {name}=VALUE"


class UpdateKeysRepeated(RivermouthError):
    """An update flow gave several rows of one key with a batch."""

    code = "UPDATE_KEYS_REPEATED"
    what = "flow {flow}: {keys} keys have several rows for {dataset} in one batch; the batch was not written"
    hint = "group the query by {columns} alone, or name all columns of its groupBy in keys"


class DatasetSchemaInvalid(RivermouthError):
    """The columns that a dataset declares cannot be read."""

    code = "DATASET_SCHEMA_INVALID"
    what = "dataset {dataset}: its schema cannot be read: {detail}; the pipeline was not run"
    hint = 'write it like this: schema="id BIGINT, name STRING"'


class SqlFunctionRefused(RivermouthError):
    """A query reads a table function that only Databricks has."""

    code = "SQL_FUNCTION_REFUSED"
    what = "the table function {function} is not supported; the pipeline was not run"
    hint = "read the source in Python with spark.readStream.format(...), and this dataset from that one"


class DatasetNotInPipeline(RivermouthError):
    """A dataset is named that the pipeline does not define."""

    code = "DATASET_NOT_IN_PIPELINE"
    what = "pipeline {pipeline} defines no table {name}; nothing was run"
    hint = "{fix}"


class LettersNotReplayed(RivermouthError):
    """Dead letters of a table cannot be written into it after the batch that they belong to."""

    code = "LETTERS_NOT_REPLAYED"
    what = "dead letters of {dataset} are not replayed: {detail}; nothing was written"
    hint = "rivermouth dead-letters discard {dataset!q}, once the rows are corrected where they come from"


class FlowNotConvertible(RivermouthError):
    """A pipeline cannot make the table of a flow."""

    code = "FLOW_NOT_CONVERTIBLE"
    what = "flow {flow} cannot be a table of a pipeline: {detail}; nothing was written"
    hint = "{fix}"


class FlowSettingsNotConvertible(RivermouthError):
    """A flow has settings that a pipeline does not have."""

    code = "FLOW_SETTINGS_NOT_CONVERTIBLE"
    what = "flow {flow} has settings that a pipeline does not have, and nothing was written:\n  {settings}"
    hint = "rivermouth convert {flow!q} --leave-out {names}"


class NothingConverted(RivermouthError):
    """None of the datasets of a pipeline is a flow."""

    code = "NOTHING_CONVERTED"
    what = "no table of {files} is a flow, and nothing was written:\n  {reasons}"
    hint = "rivermouth run {files}"


class ConvertedFileExists(RivermouthError):
    """The file that a conversion shall write is there already."""

    code = "CONVERTED_FILE_EXISTS"
    what = "{path} is there already; it was not changed"
    hint = "name another file with -o, or add --force"


class PipelineAuditFailed(RivermouthError):
    """Tables of a pipeline do not have what their ledgers say."""

    code = "PIPELINE_AUDIT_FAILED"
    what = "tables do not have what their ledgers say: {datasets}; nothing was changed"
    hint = "rivermouth tables describe {first!q}"
