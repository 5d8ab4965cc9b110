"""The ledger: errors of its entries, and of tables and topics that do not agree with it."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class LedgerUnreadable(RivermouthError):
    """A ledger entry that cannot be parsed."""

    code = "LEDGER_UNREADABLE"
    what = "table {table}: the ledger entry at version {version} cannot be read: {detail}; nothing was written"
    hint = "keep the table as it is and report the entry's format number"


class LedgerTooNew(RivermouthError):
    """A ledger entry written by a newer rivermouth."""

    code = "LEDGER_TOO_NEW"
    what = "table {table}: its ledger has format {found}, this rivermouth reads up to {supported}; nothing was written"
    hint = "pip install --upgrade rivermouth"


class LedgerLost(RivermouthError):
    """The table says that entries exist, and none is in its log or in the lake's copy."""

    code = "LEDGER_LOST"
    what = "table {table}: its state names ledger entry {entry}, but the log no longer holds it; nothing was written"
    hint = "restore {side_file} from a backup"


class LedgerVoid(RivermouthError):
    """Someone else changed the table's data after the last entry."""

    code = "LEDGER_VOID"
    what = "table {table}: version {version} ({operation}) changed its data after ledger entry {entry}; {outcome}"
    hint = (
        "RESTORE TABLE delta.`{table}` TO VERSION AS OF {last_version}{again}; or keep the table as it is: "
        'rivermouth run {flow} {options} --why "REASON"'
    )


class LedgerGap(RivermouthError):
    """The planned range begins after the offset that the ledger expects."""

    code = "LEDGER_GAP"
    what = (
        "flow {flow}: topic {topic} partition {partition}: no batch has the offsets {start} to {end} (exclusive); "
        "nothing was written"
    )
    hint = "rivermouth run {flow}"


class DeliveryGap(RivermouthError):
    """A sink lacks rows of the table, and the log no longer says which ones."""

    code = "DELIVERY_GAP"
    what = (
        "flow {flow}: its sink {sink} has the rows up to ledger entry {delivered}, and the log of table {table} no "
        "longer holds the commits of entries {first} to {last}; nothing was written to the sink"
    )
    hint = "{fix}"


class OffsetsExpired(RivermouthError):
    """Kafka, or the table in its place, does not hold offsets that the ledger expects."""

    code = "OFFSETS_EXPIRED"
    what = (
        "flow {flow}: topic {topic} partition {partition}: offsets {start} to {end} (exclusive) are no longer in "
        "{place}, which lacks {gone} offsets in total; nothing was written"
    )
    hint = (
        "set on_data_loss: record to accept this loss and later ones; or accept only this one: "
        'rivermouth run {flow} {options} --why "REASON"'
    )


class OffsetsBeyondEnd(RivermouthError):
    """The ledger is ahead of the topic: it was recreated or truncated."""

    code = "OFFSETS_BEYOND_END"
    what = (
        "flow {flow}: topic {topic} partition {partition}: the ledger expects offset {next_offset}, the topic ends "
        "at {end}; nothing was written"
    )
    hint = (
        "check that bootstrap_servers names the right cluster; if the topic was cut: "
        'rivermouth run {flow} {options} --why "REASON"'
    )


class TopicRecreated(RivermouthError):
    """A topic of the same name, but another one, than the ledger knows."""

    code = "TOPIC_RECREATED"
    what = (
        "flow {flow}: topic {topic} was deleted and created again: its id is {found}, the ledger knows {expected} and "
        "ends at {stands}; none of the {held} offsets that it holds now was read; nothing was written"
    )
    hint = (
        "check that bootstrap_servers names the right cluster; then set on_data_loss: record to accept this loss and "
        'later ones; or accept only this one: rivermouth run {flow} {options} --why "REASON"'
    )


class PartitionsFewer(RivermouthError):
    """A topic has fewer partitions than the ledger knows, so it was created again."""

    code = "PARTITIONS_FEWER"
    what = (
        "flow {flow}: topic {topic} was deleted and created again: the ledger knows {expected} partitions and "
        "ends at {stands}, it has {found}; none of the {held} offsets that it holds now was read; nothing was written"
    )
    hint = (
        "check that bootstrap_servers names the right cluster; then set on_data_loss: record to accept this loss and "
        'later ones; or accept only this one: rivermouth run {flow} {options} --why "REASON"'
    )


class RewindDuplicates(RivermouthError):
    """A rewind would read records again that the table has."""

    code = "REWIND_DUPLICATES"
    what = (
        "flow {flow}: table {table} has {rows} rows of topic {topic} partition {partition}, offsets {first} to {last}, "
        "that would be read again and be there twice; nothing was recorded"
    )
    hint = "DELETE FROM delta.`{table}` WHERE {condition}"


class EpochColumnTaken(RivermouthError):
    """The payload or the table has a column of the name that epochs need."""

    code = "EPOCH_COLUMN_TAKEN"
    what = "flow {flow}: rows of a new epoch have its number in the column {column}, and {detail}; nothing was written"
    hint = "write the topic as it is now into a new table, by another flow"


class DecisionRefused(RivermouthError):
    """A decision about data that is gone does not fit what is gone."""

    code = "DECISION_REFUSED"
    what = "flow {flow}: {option} is refused: {detail}; nothing was recorded"
    hint = "{fix}"


class RebuildRefused(RivermouthError):
    """A table cannot be rebuilt from the one that its flow reads."""

    code = "REBUILD_REFUSED"
    what = "flow {flow}: table {table} is not rebuilt: {detail}; nothing was changed"
    hint = "{fix}"


class CommitLost(RivermouthError):
    """Another writer committed the ledger entry that this process was writing."""

    code = "COMMIT_LOST"
    what = (
        "flow {flow}: ledger entry {entry} of table {table} was committed by another process; "
        "this batch was not written"
    )
    hint = "stop the other run, then: rivermouth run"


class CountsDisagree(RivermouthError):
    """The parts of a batch do not add up to what was consumed."""

    code = "COUNTS_DISAGREE"
    what = "flow {flow}: ledger entry {entry}: {detail}; its rows are in the table, and its counts are not complete"
    hint = "rivermouth run {flow}, which counts the batch again from the table; if it fails again, report a bug"


class CheckpointForeign(RivermouthError):
    """The checkpoint belongs to another flow."""

    code = "CHECKPOINT_FOREIGN"
    what = "flow {flow}: the checkpoint {checkpoint} belongs to flow {owner!r}; nothing was written"
    hint = "in flow {flow}: places: {{checkpoint: ./checkpoints/{flow}}}"
