"""The codes of reasons that dead letters have: a closed set, but for those of formats of other packages."""

from __future__ import annotations

from typing import Final

from rivermouth.extend import find_kind, kind_names

REASONS: Final = frozenset(
    {
        "COLUMN_NOT_SENT",
        "DESERIALIZER_FAILED",
        "EXPECTATION",
        "EXPRESSION_FAILED",
        "FIELD_AMBIGUOUS",
        "FIELD_COUNT",
        "FIELD_MISSING",
        "FIELD_TWICE",
        "FIELD_TYPE",
        "FIELD_UNDECLARED",
        "FIELD_UNKNOWN",
        "FIELD_ZERO_DATE",
        "FUNCTION_FAILED",
        "INVALID_AVRO",
        "INVALID_COMPRESSION",
        "INVALID_JSON",
        "INVALID_LINE",
        "INVALID_MSGPACK",
        "INVALID_PROTOBUF",
        "INVALID_UTF8",
        "INVALID_XML",
        "KAFKA_TIMESTAMP_RANGE",
        "KEY_CHANGED",
        "KEY_INVALID",
        "KEY_INVALID_UTF8",
        "KEY_NULL",
        "KEY_TWICE",
        "LONE_SURROGATE",
        "LOOKUP_MISSING",
        "NOT_AN_ARRAY",
        "NOT_AN_OBJECT",
        "NOT_A_CHANGE",
        "NOT_CONNECT_JSON",
        "NO_DECLARED_FIELD",
        "NO_MATCH",
        "NULL_VALUE",
        "OPERATION_UNKNOWN",
        "PARTITION_VALUE_INVALID",
        "RECORD_NAME",
        "ROWS_MISSING",
        "ROW_MISSING",
        "RULES_CHANGED",
        "SCHEMA_MISMATCH",
        "SEQUENCE_NULL",
        "TABLE_MISSING",
        "TIME_RANGE",
        "TOO_DEEP",
        "TOO_LARGE",
        "TOO_LONG",
        "TOO_MANY_READS",
        "TRAILING_BYTES",
        "TRUNCATED",
        "UNEXPLAINED",
        "UNKNOWN_SCHEMA",
        "VALUE_UNAVAILABLE",
        "WRONG_LENGTH",
        "WRONG_MAGIC",
    }
)
"""Those of rivermouth's own formats and tables."""


def reasons() -> frozenset[str]:
    """All codes that a dead letter may have here."""
    formats = [find_kind("formats", name) for name in kind_names("formats")]
    return REASONS.union(*(form.further_reasons for form in formats))
