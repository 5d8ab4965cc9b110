"""What a failure of a query says of its state: whether it is gone for good, or was written by another query."""

from __future__ import annotations

import re
from typing import Final

_GONE: Final = re.compile(
    r"\[(CANNOT_LOAD_STATE_STORE\.(CANNOT_FIND_BASE_SNAPSHOT_CHECKPOINT|CANNOT_READ_\w+|INVALID_CHECKPOINT_LINEAGE"
    r"|SNAPSHOT_PARTITION_ID_NOT_FOUND|UNEXPECTED_FILE_SIZE)"
    r"|STATE_STORE_(CHECKPOINT_LOCATION_NOT_EMPTY|ROW_CHECKSUM_VERIFICATION_FAILED)"
    r"|STDS_(FAILED_TO_READ_\w+|NO_PARTITION_DISCOVERED_IN_STATE_STORE)|CHECKPOINT_FILE_CHECKSUM_VERIFICATION_FAILED"
    r"|STREAMING_CHECKPOINT_MISSING_METADATA_FILE|STREAMING_STATEFUL_OPERATOR_MISSING_STATE_DIRECTORY)\]"
)
_ANY: Final = re.compile(r"\[CANNOT_LOAD_STATE_STORE\.(UNCATEGORIZED|AUTO_SNAPSHOT_REPAIR_FAILED)\]")
"""With these Spark tells any error while it loads state, also those of a store that does not answer."""
_OF_FILES: Final = re.compile(
    r"^Caused by: (java\.io\.EOFException$|java\.io\.FileNotFoundException\b|\S*(ChecksumException|ZstdIOException)\b"
    r"|.*Stream is corrupted|.*RocksDBException: Corruption)",
    re.MULTILINE,
)
_CHANGED: Final = re.compile(
    r"\[((CANNOT_LOAD_)?STATE_STORE[_.](COLUMN_FAMILY_SCHEMA_INCOMPATIBLE|INVALID_CONFIG_AFTER_RESTART"
    r"|INVALID_VALUE_SCHEMA_EVOLUTION|INVALID_VARIABLE_TYPE_CHANGE|STATE_SCHEMA_FILES_THRESHOLD_EXCEEDED"
    r"|VALUE_SCHEMA_EVOLUTION_THRESHOLD_EXCEEDED|(KEY|VALUE)_(SCHEMA_NOT_COMPATIBLE|ROW_FORMAT_VALIDATION_FAILURE))"
    r"|STREAMING_STATEFUL_OPERATOR_NOT_MATCH_IN_STATE_METADATA)\] (?P<said>.*?)(?= SQLSTATE: |\n\n|\Z)",
    re.DOTALL,
)
_ADVICE: Final = re.compile(r" (This likely|Please check|The following reasons) [^.]*\.| If you want .*")


def is_gone(text: str) -> bool:
    """Whether files of the state are missing or damaged.

    Args:
        text: The failure, with its causes.
    """
    return _GONE.search(text) is not None or (_ANY.search(text) is not None and _OF_FILES.search(text) is not None)


def changed(text: str) -> str:
    """Why a query cannot go on with state that was written by another one; empty where it is not that.

    Args:
        text: The failure, as Spark says it.
    """
    found = _CHANGED.search(text)
    return "" if found is None else _ADVICE.sub("", " ".join(found["said"].split())).rstrip(".")
