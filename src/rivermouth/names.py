"""Names that more than one floor uses: columns, places, limits, and the words for them."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Final

# Columns that a record has while it is on its way; none reaches a table, but for the sequence a keyed one.
TOPIC: Final = "__topic"
PARTITION: Final = "__partition"
OFFSET: Final = "__offset"
# Of flows that make several rows of a record: which of them, see rows/explode.py.
POSITION: Final = "__position"
TIMESTAMP: Final = "__timestamp"
TIMESTAMP_TYPE: Final = "__timestamp_type"
HEADERS: Final = "__headers"
KEY: Final = "__key"
VALUE: Final = "__value"
DATA: Final = "__data"
DECODED: Final = "__decoded"
REASON: Final = "__reason"
FIELD: Final = "__field"
MESSAGE: Final = "__message"
KEY_VALID: Final = "__key_valid"
KEY_DATA: Final = "__key_data"
ROUTE: Final = "__route"
FAILED_PREFIX: Final = "__failed_"
# Of a row that is a dead letter: a number made of its values.
LETTER_MARK: Final = "__letter_mark"
# Before ten hexadecimal digits: a name that each process makes for itself, and that no sender can know.
PROCESS_PREFIX: Final = "__k"
# Before a number, ``_`` and the name of what is read: temporary views that are made for a query in SQL.
VIEW_PREFIX: Final = "__rm_"
# Of rows with columns of other tables: what lookups found.
LOOKUP_PREFIX: Final = "__lookup_"
EPOCH: Final = "__epoch"
# Of values that are wrapped: as they were sent, and what is wrong with what is around them.
SENT: Final = "__sent_value"
WRAPPING: Final = "__wrapping"
# Of changes on their way into a keyed table.
DELETE: Final = "__delete"
TRUNCATE: Final = "__truncate"
SEQUENCE: Final = "__sequence"
PROBLEM: Final = "__problem"
# Of rows of tables with partitions: why the value of one cannot be kept.
PARTITION_PROBLEM: Final = "__partition_problem"
# Of rows for which an expression of the flow makes nothing that a table can have: the reason, and the column.
UNMADE: Final = "__unmade"
# Of a row whose columns come from several records: from which, where it is not the newest one.
PLACES: Final = "__places"
# Of a version in a table with the history of its keys: from when and until when it is valid.
START_AT: Final = "__START_AT"
END_AT: Final = "__END_AT"
# Of the changes that a change envelope tells.
OPERATION: Final = "__operation"
SOURCE_TIMESTAMP: Final = "__source_timestamp"
SOURCE_POSITION: Final = "__source_position"
PRIMARY_KEY: Final = "__primary_key"
MISFIT: Final = "__misfit"
OLD: Final = "__old"
OLD_PRIMARY_KEY: Final = "__old_primary_key"
ORDINAL: Final = "__ordinal"
NUMBER: Final = "__number"
UNAVAILABLE: Final = "__unavailable"
MOVED: Final = "__moved"
# Of the changes of a batch that stand ready: a number of its own for each.
CHANGE: Final = "__change"
# What a format whose values are read by Python says of each: whether it is left out, or why it was refused.
VERDICT: Final = "__verdict"
SKIPPED: Final = f"coalesce({VERDICT}.skipped, false)"
"""SQL over that, never null: whether a record is left out."""

# How many fields of a value no column has: of formats whose values say so without being read for it.
UNDECLARED: Final = "__undeclared"

# The column of a snapshot that is nothing but an array of rows.
ROWS: Final = "rows"

# What a change does; a record that is none is skipped.
INSERT: Final = "insert"
READ: Final = "read"
UPDATE: Final = "update"
DELETION: Final = "delete"
TRUNCATION: Final = "truncate"
SKIP: Final = "skip"

# Where the broker for development listens, unless told otherwise.
DEV_PORT: Final = 9092
# And the S3 server: SeaweedFS's own.
DEV_S3_PORT: Final = 8333

ENVELOPE: Final = (TOPIC, PARTITION, OFFSET, TIMESTAMP, TIMESTAMP_TYPE, HEADERS, KEY, VALUE)

# What the formats of change envelopes tell besides.
CHANGE_METADATA_COLUMNS: Final = ("operation", "source_timestamp", "source_position", "primary_key")

# Columns that a table may have in addition to the payload, in their order in the table.
METADATA_COLUMNS: Final = (
    "kafka_topic",
    "kafka_partition",
    "kafka_offset",
    "kafka_position",
    "kafka_timestamp",
    "kafka_timestamp_type",
    "kafka_key",
    "kafka_headers",
    "ingested_at",
    *CHANGE_METADATA_COLUMNS,
)
DEFAULT_METADATA_COLUMNS: Final = (
    "kafka_topic",
    "kafka_partition",
    "kafka_offset",
    "kafka_timestamp",
    "kafka_key",
    "ingested_at",
)
IN_TABLE: Final = {TOPIC: "kafka_topic", PARTITION: "kafka_partition", OFFSET: "kafka_offset"}
"""The coordinates of the way as those of a table, of dead letters too."""

ROW_IN_TABLE: Final = {**IN_TABLE, POSITION: "kafka_position"}
"""The same, and which row of its record one is, where a record may be several."""

# A record's identity: these may be renamed but never left out, or nobody could prove exactly once.
COORDINATES: Final = tuple(IN_TABLE.values())

# A table gets it when a new epoch of a topic begins: null and 0 are the first epoch.
EPOCH_COLUMN: Final = "kafka_epoch"

STATE_FOLDER: Final = "_rivermouth"
AUTO_CDC_ROWS, AUTO_CDC_DELETED = "_auto_cdc", "_auto_cdc_deleted"
"""Tables in the folder of a target of AUTO CDC: its rows with their places in the order of changes, and deleted keys.

Delta leaves folders alone whose names begin with ``_``.
"""

_SURELY, _LIKELY, _SHORT = 0.85, 0.7, 2

_PLAIN: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """A hint for an unknown name: the nearest known one, or all of them.

    Returns:
        ``did you mean 'x'?`` where one is near, else ``known: a, b, c``.
    """
    known = sorted(set(known) - {name})
    near = nearest(name, known)
    return f"known: {', '.join(known)}" if near is None else f"did you mean {near!r}?"


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that is most like this one; None where none is near."""
    near = max(known, key=lambda each: _likeness(name, each), default=None)
    return near if near is not None and _likeness(name, near) > 0 else None


def _likeness(name: str, other: str) -> float:
    """How much two names are alike, from 0 to 1; 0 where hardly anybody writes the one for the other."""
    first, second = name.lower(), other.lower()
    ratio = difflib.SequenceMatcher(None, first, second).ratio()
    if ratio >= _SURELY or (ratio >= _LIKELY and first[0] == second[0]):
        return ratio
    # ``lake_path`` for ``lake``: each word of one, if it is no short one, is like one of the other.
    words, others = ([word for word in re.split(r"[\W_]+", each) if word] for each in (first, second))
    return ratio if _within(words, others) or _within(others, words) else 0.0


def _within(words: list[str], others: list[str]) -> bool:
    alike = (
        len(word) > _SHORT and any(difflib.SequenceMatcher(None, word, other).ratio() >= _SURELY for other in others)
        for word in words
    )
    return bool(words) and all(alike)


def printable(text: str, *, lines: bool = False) -> str:
    """``text`` with escapes for all that a terminal obeys or hides: ESC and its like, marks of direction, line ends.

    Args:
        text: Whatever a record may hold.
        lines: Whether line ends and tabs stay as they are.
    """
    if text.isprintable():
        return text
    stays = "\n\t" if lines else ""
    return "".join(c if c.isprintable() or c in stays else c.encode("unicode_escape").decode() for c in text)


def below(path: str, name: str) -> str:
    """The path of what is called so within another."""
    return f"{path}.{name}" if path else name


def folded(name: str) -> str:
    """A name such that two are equal where Spark and Delta take the names for the same: as Java ignores case."""
    return name.lower() if name.isascii() else "".join(map(_folded, name))


def _folded(character: str) -> str:
    upper = character.upper()
    return (upper if len(upper) == 1 else character).lower()[0]


def quoted(column: str) -> str:
    """A column name between backticks, for use in SQL text."""
    return "`" + column.replace("`", "``") + "`"


def lookup_column(index: int) -> str:
    """The name of the column that says whether lookup ``index`` found a row."""
    return f"{LOOKUP_PREFIX}{index}"


def is_plain(name: str) -> bool:
    """Whether SQL takes a name without backticks."""
    return _PLAIN.match(name) is not None


def as_sql(text: str, columns: Iterable[str]) -> str:
    """SQL of what a user wrote: an expression, or the name of one of ``columns`` that SQL takes in backticks only.

    So ``@timestamp`` is a column where there is one of that name.
    """
    return quoted(text) if not is_plain(text) and text in columns else text


def pointer_step(name: str) -> str:
    """The step of a JSON pointer to a field."""
    return "/" + name.replace("~", "~0").replace("/", "~1")


def literal(text: str) -> str:
    """A text for use in SQL text, whatever it holds and however the session reads backslashes and variables."""
    if text.isascii() and text.isprintable() and not {"'", "\\", "$"} & set(text):
        return f"'{text}'"
    return f"CAST(X'{text.encode().hex()}' AS STRING)"


def named(parts: Iterable[str | Mapping[str, str]]) -> list[str]:
    """The names of columns that are written as names, as expressions, or as ``{name: expression}``."""
    return [name for part in parts for name in ([expression_name(part)] if isinstance(part, str) else part)]


def expression_name(part: str) -> str:
    """``date(kafka_timestamp)`` as ``date_kafka_timestamp``; a plain column name stays."""
    if "(" not in part:
        return part
    return "_".join(word for word in "".join(c if c.isalnum() or c == "_" else " " for c in part).split())
