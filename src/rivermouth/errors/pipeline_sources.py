"""Errors of a pipeline that are about its sources: files, and tables of other databases."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class FileOptionUnknown(RivermouthError):
    """A reader of files does not know an option."""

    code = "FILE_OPTION_UNKNOWN"
    what = "{format} files have no option {option}; nothing was read"
    hint = "{near}"


class FileOptionInvalid(RivermouthError):
    """An option of a reader of files has a value that is not allowed."""

    code = "FILE_OPTION_INVALID"
    what = "option {option}: {detail}; nothing was read"
    hint = "{fix}"


class FileOptionRefused(RivermouthError):
    """An option of Databricks' readers of files that cannot be honoured here."""

    code = "FILE_OPTION_REFUSED"
    what = "option {option} cannot be honoured: {detail}; nothing was read"
    hint = "{fix}"


class FilePathUnmapped(RivermouthError):
    """A path that only Databricks knows, and no folder is given for it."""

    code = "FILE_PATH_UNMAPPED"
    what = "{path} is a path of Databricks, and no setting gives a folder for it; nothing was {done}"
    hint = 'configuration: {{"rivermouth.paths.{prefix}": /the/folder}}'


class FileSourceMissing(RivermouthError):
    """The folder or file of a source does not exist."""

    code = "FILE_SOURCE_MISSING"
    what = "source {path} does not exist; nothing was read"
    hint = "make the folder, or correct the path"


class FileSourceEmpty(RivermouthError):
    """A source has no file yet, so that no schema can be inferred."""

    code = "FILE_SOURCE_EMPTY"
    what = "source {path} has no file, so its schema cannot be inferred; nothing was read"
    hint = "give a schema, or put a file there"


class FileSourceUnreadable(RivermouthError):
    """The files of a source cannot be listed."""

    code = "FILE_SOURCE_UNREADABLE"
    what = "source {path} cannot be listed: {detail}; nothing was read"
    hint = "check the address and the credentials of the source"


class FilesOfBatchGone(RivermouthError):
    """Files that a batch was planned with are gone when it is read."""

    code = "FILES_OF_BATCH_GONE"
    what = "flow {flow}: files of its batch are gone ({count}, the first is {file}); the batch was not read"
    hint = (
        "put them back, or give the source the option ignoreMissingFiles: true; then they count as read, without rows"
    )


class FileSchemaInvalid(RivermouthError):
    """The schema that is given for files cannot be used."""

    code = "FILE_SCHEMA_INVALID"
    what = "the {setting} of source {path} cannot be used: {detail}; nothing was read"
    hint = "write it as DDL, for example: id bigint, at timestamp"


class FileSchemaShared(RivermouthError):
    """Two sources of files have one ``schemaLocation``."""

    code = "FILE_SCHEMA_SHARED"
    what = "schemaLocation {folder} is that of two sources: {first}, and {second}; nothing was read"
    hint = "give each source a schemaLocation of its own, or leave the option out"


class FileSchemaNotInferred(RivermouthError):
    """No schema can be inferred from files."""

    code = "FILE_SCHEMA_NOT_INFERRED"
    what = "no schema can be inferred from the files of source {path}: {detail}; nothing was read"
    hint = "give a schema"


class FileColumnsNew(RivermouthError):
    """A file has columns that the schema of its source does not have."""

    code = "FILE_COLUMNS_NEW"
    what = "{file} has columns that the schema of its source does not have: {columns}; its batch was not written"
    hint = "{fix}"


class FileRecordMalformed(RivermouthError):
    """A file has a record that cannot be read, and the reader's mode is FAILFAST."""

    code = "FILE_RECORD_MALFORMED"
    what = "{file} has a record that is not {format}, and mode is FAILFAST; its batch was not written"
    hint = "set the option mode to PERMISSIVE: such records are kept in the rescued data column"


class JdbcSourceInvalid(RivermouthError):
    """A stream of a database's table that cannot be read so."""

    code = "JDBC_SOURCE_INVALID"
    what = "{source} cannot be read as a stream: {detail}; nothing was read"
    hint = "{fix}"


class JdbcSourceUnreadable(RivermouthError):
    """A database does not give what is asked for."""

    code = "JDBC_SOURCE_UNREADABLE"
    what = "{source} cannot be read: {detail}; nothing was read"
    hint = "{fix}"


class SourceNotRepeatable(RivermouthError):
    """A stream whose rows nobody can read a second time."""

    code = "SOURCE_NOT_REPEATABLE"
    what = "a stream of format {format} cannot be read again, so a failed batch would be lost; nothing was read"
    hint = "send the rows to a Kafka topic, and read that: rivermouth dev produce lines lines.txt"


class KinesisSourceInvalid(RivermouthError):
    """An option of a query over Kinesis is unknown, missing, or has a value that it cannot have."""

    code = "KINESIS_SOURCE_INVALID"
    what = "{source} cannot be read: {detail}; nothing was read"
    hint = "{fix}"


class KinesisClientMissing(RivermouthError):
    """The library that reads Kinesis is not installed."""

    code = "KINESIS_CLIENT_MISSING"
    what = "{source} cannot be read: the package boto3 is not installed{where}; nothing was read"
    hint = "pip install 'rivermouth[kinesis]'"


class KinesisSourceUnreadable(RivermouthError):
    """Kinesis does not give what is asked for."""

    code = "KINESIS_SOURCE_UNREADABLE"
    what = "{source} cannot be read: {detail}; nothing was written"
    hint = "{fix}"


class KinesisThrottled(RivermouthError):
    """Kinesis refuses calls because there are too many, for longer than they are tried again."""

    code = "KINESIS_THROTTLED"
    what = "{source}: Kinesis refused {call} as too frequent for {seconds} s, in {tries} tries; nothing was written"
    hint = 'rivermouth run, when fewer others read the stream, or with .option("retryTimeout", "10m")'


class KinesisDataLost(RivermouthError):
    """Records of Kinesis may be gone that the query has not read."""

    code = "KINESIS_DATA_LOST"
    what = "{source}: {detail}; nothing was written"
    hint = 'to go on with what is left: .option("failOnDataLoss", "false")'


class SnapshotMissing(RivermouthError):
    """A function of snapshots has none yet, and nothing tells the columns of its target."""

    code = "SNAPSHOT_MISSING"
    what = "flow {flow}: its function returned None, and {dataset} has no columns yet; the pipeline was not run"
    hint = 'dp.create_streaming_table("{dataset}", schema="id bigint, ...") declares them; or run with a snapshot'


class StreamsMoved(RivermouthError):
    """A query has its streams in another order than before, or more or fewer of them."""

    code = "STREAMS_MOVED"
    what = (
        "flow {flow}: its query read the streams {before}, and it reads {now}; Spark finds what each of them has read "
        "by its number, so the flow was not started"
    )
    hint = "rivermouth run --full-refresh {dataset!q}, or write the streams in their former order"


class FlowKindChanged(RivermouthError):
    """A flow reads a stream, and it read snapshots or one batch before; or the other way round."""

    code = "FLOW_KIND_CHANGED"
    what = "flow {flow}: its ledger entries are of {before}, and it reads {now}; the flow was not started"
    hint = "rivermouth run --full-refresh {dataset!q}, or give the flow another name"


class SourceCleared(RivermouthError):
    """A stream reads a table of its pipeline that a full refresh emptied."""

    code = "SOURCE_CLEARED"
    what = (
        "flow {flow} streams from the table {table}, whose rows a full refresh removed in version {version}; "
        "nothing more was written"
    )
    hint = "{fix}"
