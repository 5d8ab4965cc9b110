"""Tables and their maintenance: errors of reading, OPTIMIZE, VACUUM and dead letters of pipelines."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class TableUnknown(RivermouthError):
    """Neither a flow nor a pipeline of the project writes a table of this name."""

    code = "TABLE_UNKNOWN"
    what = "nothing in the project writes a table {name!r}; nothing was done"
    hint = "{fix}"


class TableMissing(RivermouthError):
    """A table that a flow writes is not made yet."""

    code = "TABLE_MISSING"
    what = "table {table} is not made yet; nothing was read"
    hint = "rivermouth run {flow}"


class VersionMissing(RivermouthError):
    """A table cannot be read as it was then."""

    code = "VERSION_MISSING"
    what = "table {table} cannot be read as of {asked}: {detail}"
    hint = "rivermouth tables describe {table!q}, for its newest version; without --version that one is read"


class MetastoreUnavailable(RivermouthError):
    """The metastore in which a table shall be found by name cannot be opened."""

    code = "METASTORE_UNAVAILABLE"
    what = (
        "flow {flow}: the metastore cannot be opened, so {table} is not registered and nothing was written; its "
        "service does not answer, or another process has the embedded one open"
    )
    hint = (
        "start that service or stop that process, then: rivermouth run {flow}; flows of several processes need "
        "catalog: {{metastore: thrift://host:9083}}"
    )


class ViewsCollide(RivermouthError):
    """Two tables would be views of the same name."""

    code = "VIEWS_COLLIDE"
    what = "tables {first} and {second} would both be the view {view}; no view was made"
    hint = "name one of them: project.create_temp_views({first!r})"


class OptimizeRefused(RivermouthError):
    """A table cannot be optimized as it was asked for."""

    code = "OPTIMIZE_REFUSED"
    what = "table {table}: {detail}; it was not optimized"
    hint = "{fix}"


class ForgetRefused(RivermouthError):
    """Rows cannot be erased as it was asked for."""

    code = "FORGET_REFUSED"
    what = "table {table}: {detail}; nothing was erased"
    hint = "{fix}"


class ErasureUnfinished(RivermouthError):
    """Rows are erased, and the files in which they are only marked as deleted are not rewritten yet."""

    code = "ERASURE_UNFINISHED"
    what = (
        "flow {flow}: rows of table {table} are erased, but somebody commits changes of its files again and again "
        "({detail}); their bytes are still in files of the newest version"
    )
    hint = "rivermouth run {flow}, when no other program optimizes the table: it does the rest"


class RetentionTooShort(RivermouthError):
    """VACUUM would delete files that somebody may still need."""

    code = "RETENTION_TOO_SHORT"
    what = "VACUUM of table {table} would keep files for {retain} only: {detail}; nothing was deleted"
    hint = "{fix}"


class MaintenanceConflict(RivermouthError):
    """Somebody changed what was being optimized."""

    code = "MAINTENANCE_CONFLICT"
    what = "table {table}: somebody committed a change of the same files first ({detail}); it is as they left it"
    hint = "rivermouth tables optimize {table!q}, once more; or let its writer do it: maintenance: {{optimize: daily}}"


class MaintenanceFailed(RivermouthError):
    """OPTIMIZE or VACUUM failed for a reason of Spark's or the storage's."""

    code = "MAINTENANCE_FAILED"
    what = "{operation} of table {table} failed: {detail}; no row of it was changed"
    hint = "rivermouth tables describe {table!q}"


class CatalogNameTwice(RivermouthError):
    """Two tables of a pipeline have one name in the catalog of the project."""

    code = "CATALOG_NAME_TWICE"
    what = "tables {dataset} and {other} would both be {name} in the catalog; nothing was run"
    hint = "give {dataset} another name, of letters, digits and _"


class RecordsNotReplayed(RivermouthError):
    """Kafka records that a query could not decode, and that it cannot try again on their own."""

    code = "RECORDS_NOT_REPLAYED"
    what = "dead letters of {dataset} that were not decoded ({records}) are not replayed: {detail}; they stay open"
    hint = "rivermouth run --full-refresh {dataset!q}, once its decode(...) fits them"


class LettersDisagree(RivermouthError):
    """Two looks at the same rows of a batch have found other dead letters: records that a query decodes."""

    code = "LETTERS_DISAGREE"
    what = (
        "flow {flow}: {counted} dead letters of ledger entry {entry} of {dataset} were counted, and {found} were found "
        "when its records were decoded once more; the batch was not written"
    )
    hint = "write decode(...) so that it says the same of a record each time, then: rivermouth run"


class LettersChanged(RivermouthError):
    """Dead letters of a committed batch are missing, and its rows would give other ones by the definition of now."""

    code = "LETTERS_CHANGED"
    what = (
        "flow {flow}: {counted} dead letters of ledger entry {entry} of {dataset} are missing, and by its definition "
        "of now the batch has {found}; none was written"
    )
    hint = (
        "rivermouth run, once with the query and the expectations that the batch was written with; or rivermouth run "
        "--full-refresh {dataset!q}"
    )


class LettersNotTaken(RivermouthError):
    """Dead letters meet all expectations, and their rows could not be written: their table may not take them."""

    code = "LETTERS_NOT_TAKEN"
    what = (
        "{rows} dead letters of {dataset} that meet its expectations are not replayed, as their rows could not all be "
        "written: {detail}; they are open again, and none was written"
    )
    hint = (
        "rivermouth dead-letters replay {dataset!q}; where its table does not take such rows, give {dataset} an "
        "expectation that says so"
    )


class LettersOfOtherTypes(RivermouthError):
    """Dead letters of a table are kept as JSON, because the columns of its query had other types."""

    code = "LETTERS_OF_OTHER_TYPES"
    what = (
        "dead letters of {dataset} are kept as JSON ({rows}), as their columns had types that do not go with those of "
        "now, and are not replayed; they stay open"
    )
    hint = "rivermouth dead-letters show {dataset!q}, then discard; or rivermouth run --full-refresh {dataset!q}"


class NewColumnsNotTaken(RivermouthError):
    """A query of a pipeline that is started again in a run has columns now that its table does not take."""

    code = "NEW_COLUMNS_NOT_TAKEN"
    what = "{definition}: {detail}; the flow was not started again"
    hint = "{fix}"
