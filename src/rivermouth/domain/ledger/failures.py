"""The last failure of a flow, as it is kept in the lake's state. Pure values."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import asdict, dataclass
from typing import Final

from rivermouth.errors import BatchFailed, FlowBroken, QueryFailed, RivermouthError, first_line

FORMAT: Final = 1
UNEXPECTED: Final = "UNEXPECTED"
_CONDITION: Final = re.compile(r"^\[[A-Z][A-Z0-9_.]+\]")
_UNSAID: Final = "see what the run itself said"


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a flow's run failed last; without row contents and secrets.

    Attributes:
        flow: The flow.
        code: Stable code of the error.
        at: When, as ISO 8601 in UTC.
        message: What failed, in one line.
        hint: What to do about it; empty if there is none.
    """

    flow: str
    code: str
    at: str
    message: str
    hint: str = ""

    def to_json(self) -> str:
        """The failure as one line of JSON."""
        return json.dumps({"format": FORMAT, **asdict(self)})

    @classmethod
    def from_json(cls, text: str) -> Failure | None:
        """The failure in the file; None where the text is none of this version's."""
        try:
            body = json.loads(text)
            if body.pop("format") != FORMAT:
                return None
            found = cls(**body)
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
        return found if all(isinstance(part, str) for part in asdict(found).values()) else None


def failure_of(flow: str, error: BaseException, *, now: dt.datetime | None = None) -> Failure:
    """The failure that ``error`` is to the flow.

    What Spark said in its own words may hold values of rows: of that only the name of its error condition is kept.
    """
    at = (now or dt.datetime.now(dt.UTC)).isoformat(timespec="seconds")
    if not isinstance(error, RivermouthError):
        return Failure(flow, UNEXPECTED, at, f"{type(error).__name__}: {_UNSAID}")
    if isinstance(error, BatchFailed | FlowBroken | QueryFailed):
        condition = _CONDITION.match(str(error.facts["detail"]))
        said = f"{condition[0]} {_UNSAID}" if condition else _UNSAID
        error = type(error)(at=error.at, **{**error.facts, "detail": said})
    return Failure(flow, error.code, at, first_line(Exception(error.message)), error.next_step)
