"""Events as people and programs read them: a line of text, or an object of JSON."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any, Final

from rivermouth.cli.output import count, plain
from rivermouth.cli.reports import report_json, report_text
from rivermouth.domain.ledger import decisions
from rivermouth.domain.ledger.lost_state import lost_text, rebuilt_text
from rivermouth.engine import events
from rivermouth.names import printable

if TYPE_CHECKING:
    from collections.abc import Mapping


_KINDS: Final = {
    events.FlowOpened: "flow_opened",
    events.BatchDone: "batch_done",
    events.BatchSkipped: "batch_skipped",
    events.BatchRetried: "batch_retried",
    events.CheckpointReplaced: "checkpoint_replaced",
    events.DecisionRecorded: "decision_recorded",
    events.TableEmptied: "table_emptied",
    events.Warned: "warned",
    events.BrokerAway: "broker_away",
    events.BrokerBack: "broker_back",
    events.DeadLettersMany: "dead_letters_many",
    events.StateLost: "state_lost",
    events.SchemaKept: "schema_kept",
    events.SchemaEvolved: "schema_evolved",
    events.Replayed: "replayed",
    events.Forgotten: "forgotten",
    events.Maintained: "maintained",
    events.FlowRestarted: "flow_restarted",
    events.FlowFailed: "flow_failed",
    events.FlowFinished: "flow_finished",
}


def event_json(event: events.Event) -> dict[str, Any] | None:
    """The event as an object of JSON; None for steps within a batch."""
    kind = _KINDS.get(type(event))
    if kind is None:
        return None
    body: dict[str, Any] = {"event": kind, **{each.name: plain(getattr(event, each.name)) for each in fields(event)}}
    if isinstance(event, events.BatchDone):
        body["rows_per_s"] = round(event.rows_per_s, 1)
    if isinstance(event, events.Maintained):
        body["report"] = report_json(event.report)
    if isinstance(event, events.FlowFailed):
        body["error"] = _without_trace(event.error)
    return body


def event_text(event: events.Event) -> str | None:
    """The event as a line; None for those that say nothing to a person."""
    match event:
        case events.FlowOpened():
            made = "new table" if event.created else "table"
            return f"{event.flow}: {made} {event.table}, starts at {event.start}"
        case events.BatchDone():
            return f"{event.flow}: batch {event.entry}: {_batch(event)}"
        case events.BatchRetried():
            offsets = count(event.next_offsets, "offset")
            return f"{event.flow}: try {event.attempt} failed ({event.error}); next try with {offsets}"
        case events.CheckpointReplaced():
            kept = f"; the old one is {event.moved_to}" if event.moved_to else ""
            return f"{event.flow}: new checkpoint, as {event.reason}{kept}"
        case (
            events.DecisionRecorded()
            | events.TableEmptied()
            | events.Warned()
            | events.Maintained()
            | events.Forgotten()
            | events.SchemaKept()
            | events.SchemaEvolved()
            | events.DeadLettersMany()
            | events.StateLost()
            | events.Replayed()
        ):
            return f"{event.flow}: {printable(_said(event))}"
        case events.BrokerAway() | events.BrokerBack():
            return printable(_broker(event))
        case events.FlowRestarted():
            return f"{event.flow}: {event.error}; starts again in {event.delay_s:g} s"
        case events.FlowFailed():
            return f"{event.flow}: failed: {_without_trace(event.error)}"
        case events.FlowFinished():
            how = "stopped" if event.stopped else "done"
            return f"{event.flow}: {how}, {count(event.batches, 'batch')} in {event.duration_s:.1f} s"
        case _:
            return None


def _said(
    event: events.DecisionRecorded
    | events.TableEmptied
    | events.Warned
    | events.Maintained
    | events.Forgotten
    | events.SchemaKept
    | events.SchemaEvolved
    | events.DeadLettersMany
    | events.StateLost
    | events.Replayed,
) -> str:
    if isinstance(event, events.Replayed):
        return replayed_text(event)
    if isinstance(event, events.DeadLettersMany):
        return letters_text(event)
    if isinstance(event, events.StateLost):
        return state_text(event)
    if isinstance(event, events.SchemaEvolved):
        return f"schema evolved: version {event.version} {', '.join(event.changes)}"
    if isinstance(event, events.SchemaKept):
        return _schema(event)
    if isinstance(event, events.Forgotten):
        went = f"{count(event.rows, 'row')} and {count(event.dead_letters, 'dead letter')}"
        return f"{went} erased, ledger entry {event.entry}"
    if isinstance(event, events.Warned):
        return f"warning: {event.message}"
    if isinstance(event, events.Maintained):
        return report_text(event.report)
    if isinstance(event, events.TableEmptied):
        return f"{count(event.rows, 'row')} taken out of the table, in ledger entry {event.entry}"
    return f"recorded in ledger entry {event.entry}: {decisions.text(event.decision)}"


def _schema(event: events.SchemaKept) -> str:
    seen = f"inferred from {count(event.records, 'record')} in {event.seconds:.1f} s"
    seen += f", {event.corrupt:,} of them corrupt" if event.corrupt else ""
    if not event.is_new:
        return f"schema {seen}: nothing new, version {event.version} stays"
    if event.version > 1:
        return f"schema {seen}: version {event.version} {', '.join(event.changes)}"
    columns = count(event.columns, "column")
    conflicts = f", {count(event.conflicts, 'conflict')} kept as text" if event.conflicts else ""
    return f"schema {seen}: version 1, {columns}{conflicts}"


_SHOWN_REASONS: Final = 10


def replayed_text(done: events.Replayed) -> str:
    """What became of dead letters that were tried again."""
    moved = "would be moved" if done.dry_run else "moved"
    tried = count(done.tried, "dead letter")
    text = f"{tried} tried, {done.replayed:,} {moved} into the table, {done.remaining:,} still fail"
    shown = [f"{each.reason}{f' {each.field}' if each.field else ''} {each.letters:,}" for each in done.reasons]
    more = len(shown) - _SHOWN_REASONS
    shown = [*shown[:_SHOWN_REASONS], *([f"and {more:,} other reasons"] if more > 0 else [])]
    return f"{text}: {', '.join(shown)}" if shown else text


def _broker(event: events.BrokerAway | events.BrokerBack) -> str:
    if isinstance(event, events.BrokerBack):
        return f"the Kafka broker at {event.bootstrap_servers} answers again, after {event.for_s:.0f} s"
    since = event.since.replace("T", " ").removesuffix("+00:00")
    return (
        f"WARNING: no Kafka broker answers at {event.bootstrap_servers} since {since} UTC ({event.for_s:.0f} s): "
        f"{event.reason}; the flows wait for it"
    )


def state_text(event: events.StateLost) -> str:
    """That the folder of our own files was deleted, what is rebuilt, and what is lost."""
    head = f"WARNING: {event.folder} was deleted or emptied: it holds nothing of this flow"
    rebuilt = f"rebuilt from the table, at ledger entry {event.entry}: {rebuilt_text(event.rebuilt)}"
    return f"{head}; {rebuilt}; lost: {lost_text(event.lost)}"


def letters_text(event: events.DeadLettersMany) -> str:
    """That many records went to the dead letters, why, and how to see them."""
    head = f"WARNING: {event.dead_lettered:,} of {count(event.consumed, 'record')} went to the dead letters"
    reasons = ", ".join(f"{each.letters:,} {_reason(each)}" for each in event.reasons)
    see = f"they are in {event.table}" if event.debug else f"to see them: rivermouth dead-letters show {event.flow}"
    return f"{head}{': ' if reasons else ''}{reasons}; {see}"


def _reason(reason: events.LetterReason) -> str:
    if reason.failed_expectations:
        return f"{reason.reason} {', '.join(reason.failed_expectations)}"
    return reason.reason if reason.field is None else f"{reason.reason} in {reason.field}"


def dropped_text(dropped: int, dropped_by: Mapping[str, int]) -> str:
    """How many records were dropped, and why."""
    why = ", ".join(f"{name} {number:,}" for name, number in dropped_by.items())
    return f"{dropped:,} dropped" + (f" ({why})" if why else "")


def _batch(event: events.BatchDone) -> str:
    counts = event.counts
    parts = [f"{counts.consumed:,} consumed", f"{counts.written + counts.merged:,} written"]
    parts += [dropped_text(counts.dropped, event.dropped_by)] if counts.dropped else []
    parts += [f"{counts.dead_lettered:,} dead-lettered"] if counts.dead_lettered else []
    parts += [f"{event.rows_per_s:,.0f} rows/s"]
    parts += [f"{count(event.backlog, 'offset')} to go"] if event.backlog else []
    return ", ".join(parts)


def _without_trace(text: str) -> str:
    """An error's text as it is if it is one of ours, else its first line: the rest is a stack of Java."""
    lines = [line for line in text.splitlines() if line.strip()]
    return text if text.startswith("[") or not lines else lines[0].strip()
