"""Tests: errors of ``rivermouth.testing``."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class TopicNotGiven(RivermouthError):
    """A pipeline under test reads a Kafka topic, and the test gives no records of it."""

    code = "TOPIC_NOT_GIVEN"
    what = "the pipeline reads Kafka topic {topic}, and the test gives no records of it; no broker was asked"
    hint = 'run_pipeline(..., topics={{"{topic}": []}})'


class TableNotWritten(RivermouthError):
    """A table is asked for that no update of the test has written."""

    code = "TABLE_NOT_WRITTEN"
    what = "{table} was not written by any update of the test; nothing was read"
    hint = "look at outcomes of the update, which say what was refreshed"
