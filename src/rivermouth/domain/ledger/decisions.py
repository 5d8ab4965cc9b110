"""What may be decided about data that is gone: by whom, and with what words. Pure values.

A flow stops where its topics no longer hold what its ledger expects. A decision says how it goes on, and is an
entry of the ledger like a batch: from then on the next offsets are the decided ones.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from rivermouth.domain.ledger import offset_ranges
from rivermouth.domain.ledger.data_loss import KafkaState, LossDecision, problem, undecided
from rivermouth.domain.ledger.ledger import Decision, Entry
from rivermouth.domain.ledger.loss_decision import BY_SETTING, LossDecisionBuilder, LossDecisionResult
from rivermouth.domain.ledger.offset_ranges import Offsets, Ranges

FORESEEN: Final = "a run records first"


def by_setting(entry: Entry, needed: Offsets, found: KafkaState, *, at: str) -> LossDecision:
    """What ``on_data_loss: record`` decides: new epochs of topics that were created again, losses in other topics."""
    return replace(undecided(entry, needed, found), rewinds={}, who=BY_SETTING, at=at, why="record")


def foreseen(
    flow: str, entry: Entry, needed: Offsets, found: KafkaState, *, records: bool, at: str
) -> LossDecisionResult | None:
    """What a run would record before its first batch; None if nothing.

    Args:
        flow: The flow's name.
        entry: Its newest entry.
        needed: As for ``problem``.
        found: What Kafka holds.
        records: Whether the flow says ``on_data_loss: record``.
        at: When it would be recorded.

    Raises:
        RivermouthError: What would stop the run.
    """
    automatic = by_setting(entry, needed, found, at=at) if records else LossDecision()
    result = rule(flow, entry, needed, found, automatic)
    stopped = problem(flow, entry, needed, found) if result is None else None
    if stopped is not None:
        raise stopped
    return result


def rule(
    flow: str, entry: Entry, needed: Offsets, found: KafkaState, wanted: LossDecision, *, void: bool = False
) -> LossDecisionResult | None:
    """What ``wanted`` makes of ``entry``; None if all of it was recorded before.

    Args:
        flow: The flow's name.
        entry: Its newest entry.
        needed: As for ``problem``.
        found: What Kafka holds.
        wanted: The decision.
        void: Whether others changed the table's data after the entry: a rewind then says that it is fine as it is,
            also one that moves nothing.

    Raises:
        DecisionRefused: It does not fit what is gone.
        RivermouthError: What would stop the flow all the same; the hint names all that has to be decided.
    """
    if wanted.mark and any(each.mark == wanted.mark for each in entry.decisions):
        return None
    builder = LossDecisionBuilder(flow, entry, needed, found, wanted)
    for topic in wanted.epochs:
        builder.begin(topic)
    for topic, partition, start, end in offset_ranges.flat(wanted.losses):
        builder.lose(topic, partition, start, end)
    for topic, parts in wanted.rewinds.items():
        for partition, offset in sorted(parts.items()):
            builder.rewind(topic, partition, offset, void=void)
    if not builder.decisions:
        return None
    left = builder.left()
    if left is not None:
        raise left
    return LossDecisionResult(
        next_offsets=builder.next_offsets,
        topic_ids=builder.topic_ids,
        decisions=tuple(builder.decisions),
        fresh={topic: frozenset(parts) for topic, parts in builder.fresh.items()},
        unread=builder.unread,
        unsettled=_within(entry.unsettled, builder.unreadable),
        again=builder.again,
        suspect=builder.suspect,
    )


def text(decision: Decision) -> str:
    """What was decided, in words."""
    if decision.kind == "new_epoch":
        return f"topic {decision.topic} is read from its beginning as another one"
    parts = sorted(decision.moves.items())
    if decision.kind == "adopt":
        begins = ", ".join(f"{decision.topic}-{p} from {start}" for p, (start, _end) in parts)
        return f"the table was taken over: {begins}"
    if decision.kind == "rebuild":
        moved = ", ".join(f"{decision.topic}-{p} from {start} on" for p, (_before, start) in parts)
        return f"the table was emptied, to be rebuilt: {moved}"
    if decision.kind == "rewind":
        moved = ", ".join(f"{decision.topic}-{p} from {before} back to {after}" for p, (before, after) in parts)
        return f"{moved}: read again from there"
    lost = ", ".join(f"offsets {start} to {end} (exclusive) of {decision.topic}-{p}" for p, (start, end) in parts)
    return f"{lost} are lost"


def _within(ranges: Ranges, limits: Ranges) -> Ranges:
    """What of ``ranges`` lies within ``limits``."""
    result: Ranges = {}
    for topic, partition, start, end in offset_ranges.flat(ranges):
        low, high = limits.get(topic, {}).get(partition, (end, end))
        if max(start, low) < min(end, high):
            result.setdefault(topic, {})[partition] = (max(start, low), min(end, high))
    return result
