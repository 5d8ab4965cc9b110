"""Errors of Spark's, which ask a JVM for their words."""

from __future__ import annotations

import re
from typing import Final

# Spark's own readers of a checkpoint's files, their errors, and the error of Hadoop's check of its checksum files.
_OF_CHECKPOINT: Final = re.compile(
    r"org\.apache\.spark\.sql\.execution\.streaming\."
    r"(?:checkpointing\.|runtime\.(?:StreamMetadata|StreamingQueryCheckpointMetadata"
    r"|MicroBatchExecution\.populateStartOffsets))"
    r"|\[(?:STREAMING_CHECKPOINT_|CHECKPOINT_FILE_|BATCH_METADATA_)"
    r"|org\.apache\.spark\.sql\.kafka010\.(?:KafkaSourceInitialOffsetWriter|KafkaSourceOffset|JsonUtils)"
    r"|org\.apache\.hadoop\.fs\.ChecksumException"
)
# What keeps Spark from Kafka, or from the store where a checkpoint lies, says nothing about the files.
_ELSEWHERE: Final = re.compile(
    r"org\.apache\.kafka\.|java\.net\.|javax\.net\.|java\.nio\.channels\.|software\.amazon\.|com\.amazonaws\."
    r"|org\.apache\.hadoop\.fs\.s3a\.\w*(?:Exception|Timeout)|AccessControlException|AccessDeniedException"
)
_DEEPEST: Final = 20
_CAUSE: Final = re.compile(r"^(?:Caused by: )?([\w.$]+(?:Exception|Error|Timeout))\b", re.MULTILINE)


class _DetachedError(Exception):
    """An error whose text was read from the JVM before that ended."""

    words: str

    def __str__(self) -> str:
        return self.words


def detach_from_jvm(error: BaseException) -> None:
    """Has an error, and all that led to it, say for ever what it says now.

    PySpark's and py4j's exceptions ask the JVM whenever they are made text, and fail themselves once it has ended.
    Their classes stay what they are to ``except`` and ``isinstance``.

    Guarantees:
        Called twice, or with an error that has its words at hand, it changes nothing.
    """
    seen: set[int] = set()
    chain: list[BaseException | None] = [error]
    while chain:
        each = chain.pop()
        if each is None or id(each) in seen:
            continue
        seen.add(id(each))
        chain += [each.__cause__, each.__context__]
        cls = type(each)
        if cls.__module__.startswith(("pyspark.", "py4j.")) and not isinstance(each, _DetachedError):
            words = _words(each)
            names = {"__module__": cls.__module__, "__qualname__": cls.__qualname__}
            each.__class__ = type(cls.__name__, (_DetachedError, cls), names)
            each.words = words  # type: ignore[attr-defined]


def _words(error: BaseException) -> str:
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - the JVM has gone already, and took them along
        return "its JVM ended before it said what was amiss"


def is_about_checkpoint(error: BaseException) -> bool:
    """Whether a query failed over the files of its checkpoint, and over nothing else.

    A cluster or a store that is away fails in the same place, and leaves the files as they are.
    """
    said = _stacks(error)
    kinds = "\n".join(_CAUSE.findall(said))
    return _OF_CHECKPOINT.search(said) is not None and _ELSEWHERE.search(kinds) is None


def _stacks(error: BaseException) -> str:
    """The stacks of Java behind an error, with those of all that led to it."""
    found: list[str] = []
    each: BaseException | None = error
    while each is not None and len(found) < _DEEPEST:
        found += [str(each), str(getattr(each, "_stackTrace", ""))]
        each = getattr(each, "_cause", None) or each.__cause__
    return "\n".join(found)
