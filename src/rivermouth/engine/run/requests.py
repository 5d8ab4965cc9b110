"""What others ask of a flow's writer: a file in the lake's state, answered between two batches.

Only one process may write a table. A process that wants dead letters replayed or rows erased while a flow runs leaves a
request and waits. If the flow is not running, that process becomes the writer itself.
"""

from __future__ import annotations

import json
import time
import uuid
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, get_args

from rivermouth.domain.ledger.erasure import ForgetRequest
from rivermouth.engine.dead_letters import replay
from rivermouth.engine.erasure.forget import forget
from rivermouth.engine.flow import task_failures
from rivermouth.errors import RequestUnanswered, RivermouthError, first_line
from rivermouth.ports.spark.session import has_ended
from rivermouth.rows.dead_letter import DeadLetterFilter

if TYPE_CHECKING:
    from collections.abc import Callable

    from rivermouth.domain.project.locations import FlowPlaces
    from rivermouth.engine.flow.running import FlowContext, FlowRun
    from rivermouth.ports.lake.lake_files import LakeFiles

_POLL_S: Final = 0.2
_ANSWER: Final = ".answer.json"
_KIND: Final = "kind"


Kind = Literal["replay", "discard", "forget"]
_NO_REQUEST: Final = (ValueError, KeyError, TypeError, AttributeError)


@dataclass(frozen=True, slots=True)
class Request:
    """A piece of work for the writer of a table.

    Attributes:
        kind: What to do.
        wanted: With which dead letters.
        dry_run: Only say what would be done.
        erasure: What is to be erased, if that is what to do.
    """

    kind: Kind
    wanted: DeadLetterFilter = field(default_factory=DeadLetterFilter)
    dry_run: bool = False
    erasure: ForgetRequest = field(default_factory=ForgetRequest)

    def to_json(self) -> str:
        """The request as text."""
        body = {"kind": self.kind, "wanted": self.wanted.to_json(), "dry_run": self.dry_run}
        return json.dumps({**body, "erasure": self.erasure.to_json()})

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request that ``to_json`` wrote.

        Raises:
            ValueError, KeyError, TypeError, AttributeError: It is none, or one of another version.
        """
        body = json.loads(text)
        if body["kind"] not in get_args(Kind):
            msg = "there is no such work"
            raise ValueError(msg)
        erasure = ForgetRequest.from_json(body.get("erasure", {}))
        return cls(body["kind"], DeadLetterFilter.from_json(body["wanted"]), body["dry_run"], erasure)


def handle_pending(run: FlowRun) -> None:
    """Answers every open request of the flow.

    Guarantees:
        Stopped half-way: the request is still there and is answered by the next writer; doing it twice changes
        nothing.
    """
    folder = run.places.requests
    names = run.files.names(folder)
    for name in names:
        if name.endswith(_ANSWER) or not name.endswith(".json"):
            continue
        text = run.files.read(f"{folder}/{name}")
        if text is None:
            continue
        answer = {_KIND: _kind(text), **_answered(run, text)}
        run.files.write(f"{folder}/{name.removesuffix('.json')}{_ANSWER}", json.dumps(answer))
        run.files.delete(f"{folder}/{name}")


def clear_pending(context: FlowContext) -> None:
    """Deletes erasure requests to a writer that followed and is gone: the conditions of an erasure must not stay.

    A process that still waits for an answer asks again. Replays and discards wait for the next writer that follows.

    Guarantees:
        Run twice: once. Stopped half-way: the rest goes the next time.
    """
    folder = context.places.requests
    for name in context.files.names(folder):
        text = context.files.read(f"{folder}/{name}") if name.endswith(".json") else None
        # Also an answer: what it says of an error may hold a part of the condition.
        if text is not None and _kind(text) == "forget":
            context.files.delete(f"{folder}/{name}")


def _kind(text: str) -> str | None:
    """What a request or an answer is about; None if it does not say."""
    try:
        kind: str | None = json.loads(text).get(_KIND)
    except _NO_REQUEST:
        return None
    return kind


def execute(run: FlowRun, request: Request) -> dict[str, Any]:
    """Does what is asked, with the flow in hand, and says what became of it."""
    if request.kind == "forget":
        return asdict(forget(run, request.erasure, dry_run=request.dry_run))
    if request.kind == "discard":
        found = replay.discard(run, request.wanted, dry_run=request.dry_run)
        return {"discarded": found, "dry_run": request.dry_run}
    done = replay.replay(run, request.wanted, dry_run=request.dry_run)
    run.emit(done)
    return asdict(done)


def submit(
    files: LakeFiles, places: FlowPlaces, request: Request, *, is_running: Callable[[], bool]
) -> dict[str, Any] | None:
    """Leaves a request with the running writer and waits for its answer.

    Args:
        files: The lake's small files.
        places: The flow's.
        request: What to do.
        is_running: Whether the writer is still there.

    Returns:
        The answer; None if the writer ended without one, or somebody took the request away: it is withdrawn.

    Raises:
        RequestUnanswered: The writer tried and failed.
    """
    path = f"{places.requests}/{uuid.uuid4().hex}"
    files.write(f"{path}.json", request.to_json())
    try:
        while True:
            waits = files.read(f"{path}.json") is not None  # before the answer, which comes before it goes
            text = files.read(f"{path}{_ANSWER}")
            if text is not None:
                answer: dict[str, Any] = json.loads(text)
                answer.pop(_KIND, None)
                if "error" in answer:
                    raise RequestUnanswered(flow=places.flow, detail=answer["error"], **_unanswered(request, places))
                return answer
            if not (waits and is_running()):
                return None
            time.sleep(_POLL_S)
    finally:
        files.delete(f"{path}.json")
        files.delete(f"{path}{_ANSWER}")


def _unanswered(request: Request, places: FlowPlaces) -> dict[str, str]:
    """What was not done, in words, and how to see what is left to do."""
    if request.kind == "forget":
        fix = f"rivermouth tables forget {places.name} ... --dry-run, which says what is left of it"
        return {"task": "erase what it was asked to", "undone": "it is not done, or not wholly", "fix": fix}
    task = f"{request.kind} the dead letters"
    return {"task": task, "undone": "nothing was marked", "fix": f"rivermouth status {places.flow}"}


def _answered(run: FlowRun, text: str) -> dict[str, Any]:
    try:
        request = Request.from_json(text)
    except _NO_REQUEST as error:
        return {"error": f"it cannot be read: {type(error).__name__}"}
    try:
        return execute(run, request)
    except RivermouthError as error:
        return {"error": error.message}
    except Exception as error:
        # Only the process that asked gets the error: no one else waits for it, and the flow has work of its own.
        if has_ended(run.spark):
            raise
        typed = task_failures.of_flow(run.flow, str(error))
        return {"error": first_line(error) if typed is None else typed.message}
