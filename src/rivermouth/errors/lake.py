"""The lake: errors of its files, its tables and their leases."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class LakeNotWritable(RivermouthError):
    """The lake's folder cannot be made or written."""

    code = "LAKE_NOT_WRITABLE"
    what = "cannot write into the lake {lake}: {detail}; nothing was written"
    hint = "{fix}"

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        fix = "check the owner and the free space of the folder, or set lake: to another one"
        super().__init__(at=at, **{"fix": fix, **facts})


class LakeNotReadable(RivermouthError):
    """A file of the lake cannot be read, though it may be there."""

    code = "LAKE_NOT_READABLE"
    what = "cannot read {place}: {detail}"
    hint = "check the credentials and the address of the lake, in spark: conf for object stores"


class LakeNotFenced(RivermouthError):
    """In the table's storage, a second writer could destroy a commit of the first."""

    code = "LAKE_NOT_FENCED"
    what = "flow {flow}: {detail}, so that two writers could lose each other's commits; nothing was written"
    hint = "{fix}"


class PlaceAmbiguous(RivermouthError):
    """A place on this machine is one on another file system for a Spark whose default that is."""

    code = "PLACE_AMBIGUOUS"
    what = "flow {flow}: {place} is on this machine, and Spark would look for it on {file_system}; nothing was written"
    hint = (
        "write {instead} for this place in rivermouth.yml; if every machine has this folder, "
        "spark: {{conf: {{spark.hadoop.fs.defaultFS: 'file:///'}}}}"
    )


class TableMismatch(RivermouthError):
    """The table on storage does not have the columns that the flow writes."""

    code = "TABLE_MISMATCH"
    what = "flow {flow}: table {table} does not fit the flow: {detail}; nothing was written"
    hint = "{fix}"

    def __init__(self, *, at: str | None = None, **facts: object) -> None:
        super().__init__(at=at, **{"fix": "write into a new table, or declare the schema that the table has", **facts})


class TableForeign(RivermouthError):
    """The table exists and no flow of this name has ever written it."""

    code = "TABLE_FOREIGN"
    what = "flow {flow}: table {table} exists and has no ledger of this flow ({detail}); nothing was written"
    hint = "{fix}"


class SourceNotMade(RivermouthError):
    """The table that a flow reads is not there yet."""

    code = "SOURCE_NOT_MADE"
    what = "flow {flow}: its source, table {table}, is not made yet; nothing was read"
    hint = "rivermouth run {owner}{option}"


class SourceBehind(RivermouthError):
    """The table that a flow reads does not hold records that it held before: it was rebuilt, or reads again."""

    code = "SOURCE_BEHIND"
    what = (
        "flow {flow}: its source, table {table}, ends at {topic}-{partition}:{stands} and does not hold what comes "
        "before {end}; nothing of that was read"
    )
    hint = "rivermouth run {owner} {flow}{option}"


class SourceUnfit(RivermouthError):
    """The table that a flow reads cannot be read in the place of Kafka."""

    code = "SOURCE_UNFIT"
    what = "flow {flow}: its source, table {table}, cannot be read in the place of Kafka: {detail}; nothing was read"
    hint = "{fix}"


class SnapshotSourceUnfit(RivermouthError):
    """Snapshots that are no messages cannot be read, or one of them cannot."""

    code = "SNAPSHOT_SOURCE_UNFIT"
    what = "flow {flow}: {place} cannot be read as a snapshot: {detail}; nothing was written"
    hint = "{fix}"


class SourceWhereInvalid(RivermouthError):
    """A condition of ``source`` that Spark cannot use over the table's columns, or whose result may change."""

    code = "SOURCE_WHERE_INVALID"
    what = "flow {flow}: source where {condition!r} cannot be used over table {table}: {detail}; nothing was read"
    hint = "{fix}"


class AdoptionRefused(RivermouthError):
    """A table cannot be taken over: it is not known how far its topics were read."""

    code = "ADOPTION_REFUSED"
    what = "flow {flow}: its table cannot be taken over by --adopt {source}: {detail}; nothing was written"
    hint = "{fix}"


class TableBusy(RivermouthError):
    """Another process writes into this table."""

    code = "TABLE_BUSY"
    what = "flow {flow}: table {table} is being written by {holder}; nothing was written"
    hint = "{fix}"


class PipelineBusy(RivermouthError):
    """Another process runs an update of this pipeline."""

    code = "PIPELINE_BUSY"
    what = "pipeline {pipeline} is being updated by {holder}; nothing was refreshed"
    hint = "{fix}"


class LeaseLost(RivermouthError):
    """This process held the table's lease and another one took it over."""

    code = "LEASE_LOST"
    what = "flow {flow}: the lease on table {table} was taken over by {holder}; the current batch was not written"
    hint = "rivermouth status"


class LeaseFileLost(RivermouthError):
    """This process held the table's lease, whose file is gone or damaged: another process may have had it since."""

    code = "LEASE_FILE_LOST"
    what = (
        "flow {flow}: the lease on table {table} is lost: its file {place} is gone or damaged; "
        "the current batch was not written"
    )
    hint = "rivermouth run {flow}"
