"""What can be done with a project's dead letters in Python: a method for each command of the shell."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from rivermouth.errors import ArgumentInvalid
from rivermouth.names import did_you_mean
from rivermouth.project.methods.operations import Operations
from rivermouth.project.resolved.arguments import check, checked, known

if TYPE_CHECKING:
    from rivermouth.engine.dead_letters.browse import Letter, LetterGroup
    from rivermouth.engine.events import Replayed
    from rivermouth.rows.dead_letter import DeadLetterFilter


class LetterOperations(Operations):
    """The methods."""

    @checked
    def list_dead_letters(self, *names: str, **chosen: Any) -> list[LetterGroup]:
        """How many dead letters there are of these flows, or of all, by status, stage, reason and field.

        Args:
            names: Flows.
            chosen: Which are meant: ``status`` (open, replayed, discarded; all by default), ``reason``, ``stage``,
                ``field``, ``expectation``, ``topic``, ``partition``, ``position``, ``first_offset``, ``last_offset``,
                ``since`` and ``until``.

        Raises:
            RivermouthError: What is wrong with the project.
        """
        from rivermouth.project.commands import dead_letters  # noqa: PLC0415

        return dead_letters.listed(self, names, _filter("list_dead_letters", {"status": None, **chosen}))

    @checked
    def show_dead_letters(self, *names: str, limit: int = 20, **chosen: Any) -> list[Letter]:
        """At most ``limit`` dead letters of each of these flows, whole: what they hold is handed out.

        Args:
            names: Flows.
            limit: The most of each flow.
            chosen: As of ``list_dead_letters``; the open ones by default.

        Raises:
            RivermouthError: What is wrong with the project.
        """
        from rivermouth.project.commands import dead_letters  # noqa: PLC0415

        return dead_letters.shown(self, names, _filter("show_dead_letters", chosen), limit=limit)

    @checked
    def replay_dead_letters(self, *names: str, dry_run: bool = False, **chosen: Any) -> list[Replayed]:
        """Tries open dead letters again by the flows as they are now; those that pass go into the tables.

        Args:
            names: Flows.
            dry_run: Only say how many would pass.
            chosen: As of ``list_dead_letters``, without ``status``.

        Raises:
            RequestUnanswered: The flow's writer tried and failed.
            RivermouthError: What else is wrong.

        Guarantees:
            Run twice: the second time moves none. Stopped half-way: rows that are in the table already are only
            marked by the next replay.
        """
        from rivermouth.project.commands import dead_letters  # noqa: PLC0415

        wanted = _filter("replay_dead_letters", chosen, opens=True)
        return dead_letters.replayed(self, names, wanted, dry_run=dry_run)

    @checked
    def discard_dead_letters(self, *names: str, dry_run: bool = False, **chosen: Any) -> dict[str, int]:
        """Gives open dead letters up; how many of each flow. They stay in their table as ``discarded``.

        Args:
            names: Flows.
            dry_run: Only say how many would be given up.
            chosen: As of ``list_dead_letters``, without ``status``.

        Raises:
            RequestUnanswered: The flow's writer tried and failed.
            RivermouthError: What else is wrong.

        Guarantees:
            Run twice: the second time finds none.
        """
        from rivermouth.project.commands import dead_letters  # noqa: PLC0415

        wanted = _filter("discard_dead_letters", chosen, opens=True)
        return dead_letters.discarded(self, names, wanted, dry_run=dry_run)


def _filter(function: str, chosen: dict[str, Any], *, opens: bool = False) -> DeadLetterFilter:
    """The filter that keywords name; of open letters alone, where something is done with them."""
    from rivermouth.rows.dead_letter import STAGES, STATUSES, DeadLetterFilter  # noqa: PLC0415
    from rivermouth.rows.reasons import reasons  # noqa: PLC0415

    kinds = {each.name: str(each.type) for each in fields(DeadLetterFilter) if not (opens and each.name == "status")}
    known(f"Project.{function}", chosen, kinds)
    check(f"Project.{function}", kinds, chosen)
    for name, words in {"status": STATUSES, "stage": STAGES, "reason": reasons()}.items():
        word = chosen.get(name)
        if word is not None and word not in words:
            detail = f"{word!r} is no {name} of a dead letter"
            raise ArgumentInvalid(argument=name, detail=detail, fix=did_you_mean(word, words))
    return DeadLetterFilter(**chosen)
