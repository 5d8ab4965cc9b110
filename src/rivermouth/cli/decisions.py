"""The options of ``run`` by which a user decides about data that is gone."""

from __future__ import annotations

import os
import re
import shlex
import uuid
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from rivermouth.errors import ArgumentInvalid

if TYPE_CHECKING:
    from rivermouth.domain.ledger.adoption import Adoption
    from rivermouth.domain.ledger.data_loss import LossDecision

Command = TypeVar("Command", bound=Callable[..., Any])

_PARTITION: Final = re.compile(r"^(?P<topic>.+)-(?P<partition>\d+):(?P<rest>.+)$")
_RANGE: Final = re.compile(r"^(\d+)-(\d+)$")
_EARLIEST: Final = "earliest"


def with_decisions(command: Command) -> Command:
    """``--accept-loss``, ``--new-epoch``, ``--rewind`` and ``--why``."""
    for option in reversed(
        (
            click.option(
                "--accept-loss",
                multiple=True,
                metavar="TOPIC-PARTITION:FROM-TO",
                help="Record that exactly these offsets are gone (TO is not among them), and go on behind them.",
            ),
            click.option(
                "--new-epoch",
                multiple=True,
                metavar="TOPIC",
                help="Record that the topic was created again, and read it from its beginning.",
            ),
            click.option(
                "--rewind",
                multiple=True,
                metavar="TOPIC-PARTITION:OFFSET",
                help="Record that the partition is read again from this offset, or from earliest. The table must not "
                "have these rows. A table that others changed is kept as it is.",
            ),
            click.option("--why", default="", help="The reason of a decision; the ledger keeps it."),
        )
    ):
        command = option(command)
    return command


def with_adoption(command: Command) -> Command:
    """``--adopt``."""
    option = click.option(
        "--adopt",
        metavar="CHECKPOINT",
        help="Take over a table that another program wrote, behind what the query with this checkpoint has read; the "
        "word table instead goes by the coordinates in its rows.",
    )
    return option(command)


def decision(
    accept_loss: Sequence[str], new_epoch: Sequence[str], rewind: Sequence[str], *, why: str, flows: Sequence[str]
) -> LossDecision | None:
    """What the options decide; None without one.

    Raises:
        ArgumentInvalid: One cannot be read, the reason is missing, or not exactly one flow was named.
    """
    from rivermouth.domain.ledger.data_loss import LossDecision
    from rivermouth.domain.ledger.ledger import EARLIEST
    from rivermouth.engine.data_loss.decide import now
    from rivermouth.project.resolved.current_user import current_user

    given = ["--accept-loss"] * bool(accept_loss) + ["--new-epoch"] * bool(new_epoch) + ["--rewind"] * bool(rewind)
    if not given:
        if why:
            raise ArgumentInvalid(argument="--why", detail="there is no decision to give a reason for", fix="remove it")
        return None
    if len(flows) != 1:
        fix = f"rivermouth run FLOW {given[0]} ..."
        raise ArgumentInvalid(argument=given[0], detail="name the one flow that it is about", fix=fix)
    if not why:
        raise ArgumentInvalid(argument=given[0], detail="a decision needs a reason", fix='--why "REASON"')
    losses: dict[str, dict[int, tuple[int, int]]] = {}
    for text in accept_loss:
        topic, partition, rest = _parted("--accept-loss", text, "orders-0:10-25")
        ends = _RANGE.match(rest)
        if ends is None or int(ends[1]) >= int(ends[2]):
            raise _unreadable("--accept-loss", text, "orders-0:10-25")
        losses.setdefault(topic, {})[partition] = (int(ends[1]), int(ends[2]))
    rewinds: dict[str, dict[int, int]] = {}
    for text in rewind:
        topic, partition, rest = _parted("--rewind", text, "orders-0:10")
        if rest != _EARLIEST and not rest.isdecimal():
            raise _unreadable("--rewind", text, "orders-0:10")
        rewinds.setdefault(topic, {})[partition] = EARLIEST if rest == _EARLIEST else int(rest)
    return LossDecision(losses, tuple(new_epoch), rewinds, who=current_user(), at=now(), why=why, mark=uuid.uuid4().hex)


def adoption(source: str | None, *, flows: Sequence[str], decided: bool, command: str = "run") -> Adoption | None:
    """The adoption that ``--adopt`` of ``rivermouth run``, or of another ``command``, requests; None without it.

    Raises:
        ArgumentInvalid: It is empty, is given together with a decision, or not exactly one flow was named.
        PlaceInvalid: It is no path.
    """
    from rivermouth.domain.ledger.adoption import TABLE, Adoption
    from rivermouth.domain.project.locations import location
    from rivermouth.engine.data_loss.decide import now
    from rivermouth.project.resolved.current_user import current_user

    if source is None:
        return None
    if len(flows) != 1:
        fix = f"rivermouth {command} FLOW --adopt CHECKPOINT"
        raise ArgumentInvalid(argument="--adopt", detail="name the one flow that it is about", fix=fix)
    if decided:
        detail = "of a table without a ledger nothing else can be decided"
        fix = f"rivermouth {command} {flows[0]} --adopt {shlex.quote(source)}"
        raise ArgumentInvalid(argument="--adopt", detail=detail, fix=fix)
    if not source:
        detail, fix = "it is empty", f"rivermouth {command} {flows[0]} --adopt CHECKPOINT"
        raise ArgumentInvalid(argument="--adopt", detail=detail, fix=fix)
    if source != TABLE:
        source = location(source, base=Path.cwd(), environ=os.environ, setting="--adopt")
    return Adoption(source, who=current_user(), at=now())


def _parted(option: str, text: str, example: str) -> tuple[str, int, str]:
    found = _PARTITION.match(text)
    if found is None:
        raise _unreadable(option, text, example)
    return found["topic"], int(found["partition"]), found["rest"]


def _unreadable(option: str, text: str, example: str) -> ArgumentInvalid:
    return ArgumentInvalid(argument=option, detail=f"{text!r} cannot be read", fix=f"{option} {example}")
