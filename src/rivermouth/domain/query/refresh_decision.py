"""Whether and how a materialized view is refreshed: by what changed in its tables, its query and its policy. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, Literal

from rivermouth.domain.query.view_rules import (
    Way,
    calls_users_code,
    changes_by_itself,
    never_by_increments,
    way_of,
)
from rivermouth.domain.query.view_tree import table_name

if TYPE_CHECKING:
    from rivermouth.domain.query.query_entry import QueryEntry
    from rivermouth.domain.query.view_tree import PlanNode

_OF_ONE_ROW: Final = ("Project", "Filter")
"""Nodes that make a row of one row."""
RefreshKind = Literal["nothing", "append", "groups", "full"]
POLICIES: Final = ("auto", "full", "incremental", "incremental_strict")
_MOST: Final = 2
"""Groups are not computed one by one if changed files hold more than a table's bytes divided by this number."""


@dataclass(frozen=True, slots=True)
class SourceChange:
    """What happened to a table since a view read it.

    Attributes:
        kind: ``same``: it has the same rows. ``appended``: rows came. ``changed``: rows went, or became others.
            ``lost``: what happened cannot be known, or all of its rows were replaced.
        versions: How many versions brought that.
        reason: Why it is lost.
        changed_bytes: How much of the files that came and went is new or gone.
        feed_bytes: The same as its change data feed has it.
        bytes: Size of the table; None where it is not known.
        same_settings: Whether its settings are those of before, so that its change data feed tells all or nothing.
    """

    kind: Literal["same", "appended", "changed", "lost"]
    versions: int = 0
    reason: str = ""
    changed_bytes: int = 0
    feed_bytes: int = 0
    bytes: int | None = None
    same_settings: bool = True

    def and_then(self, kind: Literal["same", "appended", "changed", "lost"]) -> SourceChange:
        """The change with another one behind it."""
        if kind == "same" or self.kind == "lost":
            return self
        if kind == "lost":
            return SourceChange("lost", reason="it will be computed or filled again")
        worse: Literal["appended", "changed"] = "appended" if self.kind in ("same", "appended") else "changed"
        return replace(self, kind="changed" if kind == "changed" else worse, versions=self.versions + 1)


@dataclass(frozen=True, slots=True)
class ViewState:
    """What is known of a materialized view before it is refreshed.

    Attributes:
        entry: Its newest ledger entry.
        fingerprint: Of its query as it is now.
        tree: Its query as it is now.
        sources: What happened to each table that it reads, by folder.
        outside: What else it reads; whether that has changed is unknown.
        changed_by_others: What somebody else did to its own table; empty where nobody did.
        lacks_letters: Whether dead letters of its newest refresh are missing, and are not held.
        judged: Nodes that judge its rows by its expectations.
        has_letters: Whether one of its expectations makes dead letters.
        unfit_columns: Columns of its query by which no row of its table is found, and why.
        policy: Its ``refresh_policy``.
        is_redefined: Whether its table gets other columns or partition columns with its rows.
    """

    entry: QueryEntry
    fingerprint: str
    tree: PlanNode
    sources: Mapping[str, SourceChange]
    outside: tuple[str, ...] = ()
    changed_by_others: str = ""
    lacks_letters: bool = False
    judged: tuple[PlanNode, ...] = ()
    has_letters: bool = False
    unfit_columns: Mapping[str, str] = field(default_factory=dict)
    policy: str = "auto"
    is_redefined: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """How a view is refreshed.

    Attributes:
        kind: ``nothing``, ``append`` (new rows are appended), ``groups`` (groups in which a row changed are computed
            again) or ``full``.
        reason: Why.
        way: How, for ``append`` and ``groups``.
        refused: Whether its policy forbids that.
    """

    kind: RefreshKind
    reason: str
    way: Way | None = None
    refused: bool = False


def decide(view: ViewState) -> Decision:
    """How a view is refreshed now."""
    if reason := _anew(view):
        return Decision("full", reason)
    if reason := _unknown(view):
        return Decision("full", reason, refused=view.policy == "incremental_strict")
    changed = {path: each for path, each in view.sources.items() if each.kind != "same"}
    if not changed:
        return Decision("nothing", "no table that it reads has new rows")
    if view.policy == "full":
        return Decision("full", _and(_new(changed), "its refresh_policy is full"))
    found = _incremental(view, changed)
    if isinstance(found, Way):
        return Decision(found.kind, _new(changed), found)
    return Decision("full", _and(_new(changed), found), refused=view.policy == "incremental_strict")


def policy_refused(tree: PlanNode, outside: tuple[str, ...], policy: str) -> str:
    """Why a query cannot have its policy; empty where it can."""
    if policy not in ("incremental", "incremental_strict"):
        return ""
    if outside:
        return f"its query reads {outside[0]}, and what changes there is not known"
    return never_by_increments(tree)


def _anew(view: ViewState) -> str:
    """Why there is nothing that could be brought up to date."""
    entry = view.entry
    if entry.kind != "refresh":
        return "it was not computed yet"
    if view.is_redefined:
        return "its columns or partition columns have changed"
    if entry.fingerprint != view.fingerprint:
        return "its definition has changed"
    if set(entry.sources) != set(view.sources):
        return "it reads other tables than before"
    if view.changed_by_others:
        return f"its table was changed by somebody else: {view.changed_by_others}"
    if view.lacks_letters:
        return "dead letters of its newest refresh are missing"
    return ""


def _unknown(view: ViewState) -> str:
    """Why it has to be computed, whatever happened to its tables."""
    if view.outside:
        return f"it reads {view.outside[0]}, and it is not known whether that has changed"
    return changes_by_itself(view.tree) or _judged(view, changes_by_itself)


def _judged(view: ViewState, rule: Callable[..., str]) -> str:
    """The first reason that a rule finds in the expectations."""
    return next(filter(None, (rule(each, "an expectation") for each in view.judged)), "")


def _new(changed: Mapping[str, SourceChange]) -> str:
    """The new versions of tables, in words; empty where their number is not known."""
    counts = ((each.versions, table_name(path)) for path, each in changed.items())
    return ", ".join(f"{count} new version{'' if count == 1 else 's'} of {name}" for count, name in counts if count)


def _and(*reasons: str) -> str:
    return "; ".join(filter(None, reasons))


def _incremental(view: ViewState, changed: Mapping[str, SourceChange]) -> Way | str:
    for path, each in changed.items():
        if each.kind == "lost":
            return f"{table_name(path)}: {each.reason}"
        if not view.tree.reads_any(frozenset([path])):
            return f"the function of its query reads {table_name(path)} itself"
    found = way_of(view.tree, changed)
    if isinstance(found, str):
        return found
    if reason := _judged(view, calls_users_code):
        return reason
    if any(each.op not in _OF_ONE_ROW for each in view.judged):
        return "an expectation looks at several rows"
    if found.kind == "append":
        gone = next((path for path, each in changed.items() if each.kind == "changed"), None)
        return found if gone is None else f"rows of {table_name(gone)} were changed or deleted"
    if view.has_letters:
        return "its groups would have dead letters of older refreshes"
    names = [view.tree.output[each.place][1].lower() for each in found.columns]
    if unfit := next((name for name in names if name in view.unfit_columns), None):
        return f"column {unfit} {view.unfit_columns[unfit]}"
    most = next((path for path, each in changed.items() if view.policy == "auto" and _is_most(each)), None)
    return found if most is None else f"most of {table_name(most)} is new"


def _is_most(change: SourceChange) -> bool:
    return change.bytes is not None and change.changed_bytes * _MOST > change.bytes
