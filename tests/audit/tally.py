"""What the sittings of a long audit came to, in a file: a line an episode, so that it may go on another day."""

from __future__ import annotations

import json
import subprocess
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from tests.audit.episode import Report
from tests.audit.plan import Plan

_ROOT = Path(__file__).parents[2]
_NUMBERS = ("rounds", "produced", "audited", "excused", "kills", "restarts")


class Tally:
    """The reports of earlier sittings, and those of this one; in ``file``, if there is one.

    Attributes:
        reports: All of them.
    """

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._commit = _git("describe", "--always", "--dirty")
        lines = file.read_text("utf-8").splitlines() if file is not None and file.exists() else []
        self.reports: list[Report] = [_report(json.loads(line)) for line in lines]

    @property
    def next_seed(self) -> int:
        """A seed that no sitting has had."""
        return max((each.plan.seed for each in self.reports), default=0) + 1

    def add(self, report: Report) -> None:
        """Keeps it. A report that says that something is amiss is not for keeping: mend that first."""
        self.reports.append(report)
        if self._file is None or report.problem:
            return
        verdicts = {"|".join(key): number for key, number in report.verdicts.items()}
        body = {
            "commit": self._commit,
            "plan": report.plan.to_json(),
            "verdicts": verdicts,
            **{name: getattr(report, name) for name in _NUMBERS},
        }
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps(body) + "\n")


def _report(body: dict[str, object]) -> Report:
    report = Report(Plan.from_json(str(body["plan"])))
    verdicts: dict[str, int] = body["verdicts"]  # type: ignore[assignment]
    report.verdicts = Counter({tuple(key.split("|")): number for key, number in verdicts.items()})  # type: ignore[misc]
    for name in _NUMBERS:
        setattr(report, name, body[name])
    return report


def _git(*arguments: str) -> str:
    told: Sequence[str] = ("git", *arguments)
    return subprocess.run(told, cwd=_ROOT, capture_output=True, text=True, check=True).stdout.strip()
