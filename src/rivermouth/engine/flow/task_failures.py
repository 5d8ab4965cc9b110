"""What the text of a failed Spark job says of a worker's trouble, where that has an error of its own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from rivermouth.decoding.jvm import jvm_deserializer
from rivermouth.decoding.protobuf import protobuf_library
from rivermouth.decoding.python import python_function
from rivermouth.decoding.registry import schema_registry
from rivermouth.rows.routing import expectation_failure

if TYPE_CHECKING:
    from rivermouth.errors import RivermouthError
    from rivermouth.spec import Flow

_ENDS: Final = {
    "Python worker exited unexpectedly": "a Python worker of Spark ended, by the code it ran or for lack of memory",
    "Python worker process terminated due to idle timeout": "a Python worker of Spark was ended for its silence",
}


def failure(error_text: str) -> RivermouthError | None:
    """The typed error behind it: no schema registry, no function or class of the user's, no library; else None."""
    readers = (schema_registry.failure, python_function.failure, jvm_deserializer.failure, protobuf_library.failure)
    return next(filter(None, (read(error_text) for read in readers)), None)


def of_flow(flow: Flow, error_text: str) -> RivermouthError | None:
    """The same for a job over a flow's records, which an expectation of its own may have ended."""
    return expectation_failure(flow, error_text) or failure(error_text)


def end_of_a_worker(error_text: str) -> str | None:
    """Why a Spark job failed, if one of Spark's Python workers ended; else None."""
    return next((words for said, words in _ENDS.items() if said in error_text), None)
