"""Which views are refreshed by increments: the rules, without Spark."""

from dataclasses import replace

import pytest

from rivermouth.domain.query.query_entry import QueryCounts, QueryEntry, fingerprint
from rivermouth.domain.query.refresh_decision import SourceChange, ViewState, decide, policy_refused
from rivermouth.domain.query.view_rules import never_by_increments, way_of
from rivermouth.domain.query.view_tree import Key, PlanNode, TableRead
from rivermouth.engine.query.query_events import Note, ViewDecided
from rivermouth.pipelines.running.event_log import _described
from rivermouth.pipelines.running.update import NewDecisions


def numbered(node, start=0):
    """The tree with its nodes numbered from the top."""
    children, number = [], start + 1
    for each in node.children:
        child = numbered(each, number)
        children.append(child)
        number += sum(1 for _ in child.walk())
    return replace(node, number=start, children=tuple(children))


def table(name, *columns, **more):
    read = TableRead(f"/lake/{name}", more.pop("version", 1), "id", more.pop("fixed", False), more.pop("plain", True))
    return PlanNode(0, "Relation", tuple(enumerate(columns or ("k", "v"))), table=read)


def node(op, *children, **more):
    return PlanNode(0, op, more.pop("output", children[0].output if children else ()), children=children, **more)


def by(*columns, type_="string"):
    return tuple(Key(f"c{number}", type_, frozenset([number])) for number in columns)


A, B = table("a"), table("b")
GROUPED = node("Aggregate", A, keys=by(0))
PARTLY = node("Project", GROUPED, output=((1, "v"),), passes={1: 1})
CASES = {
    "row by row": (node("Project", node("Filter", A)), ["a"], "append"),
    "union": (node("Union", A, B), ["a"], "append"),
    "union, both": (node("Union", A, B), ["a", "b"], "append"),
    "inner join": (node("Join", A, B, join="INNER"), ["b"], "append"),
    "left join": (node("Join", A, B, join="LEFT OUTER"), ["a"], "append"),
    "anti join": (node("Join", A, B, join="LEFT ANTI"), ["a"], "append"),
    "group": (GROUPED, ["a"], "groups"),
    "group under a projection": (node("Project", GROUPED, passes={0: 0}), ["a"], "groups"),
    "group of a join": (node("Aggregate", node("Join", A, B, join="INNER"), keys=by(0)), ["b"], "groups"),
    "group joined": (node("Join", GROUPED, B, join="INNER"), ["a"], "groups"),
    "rows joined to a group": (node("Join", B, GROUPED, join="INNER"), ["b"], "append"),
    "union with a group that stays": (node("Union", B, GROUPED), ["b"], "append"),
    "distinct": (node("Distinct", A, keys=by(0, 1)), ["a"], "groups"),
    "version": (node("Union", A, table("a", fixed=True)), ["a"], "append"),
    "left join, right": (
        node("Join", A, B, join="LEFT OUTER"),
        ["b"],
        "b has changed on a side of a LEFT OUTER join that decides about older rows",
    ),
    "full join": (
        node("Join", A, B, join="FULL OUTER"),
        ["a"],
        "a has changed on a side of a FULL OUTER join that decides about older rows",
    ),
    "both sides": (node("Join", A, B, join="INNER"), ["a", "b"], "both sides of a join have changed: a and b"),
    "twice": (
        node("Aggregate", GROUPED, keys=by(0)),
        ["a"],
        "its query groups rows that are grouped or united already",
    ),
    "union of groups": (node("Union", GROUPED, B), ["a"], "its query groups rows that are grouped or united already"),
    "all rows": (node("Aggregate", A, keys=()), ["a"], "its query aggregates all rows, without GROUP BY"),
    "window": (node("Window", A, keys=()), ["a"], "its query has a window without PARTITION BY"),
    "limit": (
        node("GlobalLimit", A),
        ["a"],
        "its query has LIMIT, where a row can change what others come to",
    ),
    "key not there": (PARTLY, ["a"], "what its query groups by is not among its columns: c0"),
    "key of a float": (
        node("Aggregate", A, keys=by(0, type_="double")),
        ["a"],
        "its query groups by c0, which is a double",
    ),
    "python": (
        node("Project", A, functions=frozenset(["PythonUDF"])),
        ["a"],
        "its query calls a user's own function, whose code may have changed",
    ),
    "time": (
        node("Project", A, functions=frozenset(["CurrentTimestamp"])),
        ["a"],
        "its query depends on the time, the session or the user",
    ),
    "a word for a day": (
        node("Filter", A, functions=frozenset(["Cast", "CurrentTimeOfText"])),
        ["a"],
        "its query depends on the time, the session or the user",
    ),
    "chance": (
        node("Filter", A, unsure=("rand",)),
        ["a"],
        "its query calls rand(), which says something else each time",
    ),
    "subquery": (node("Filter", A, subqueries=(B,)), ["b"], "b is read by a subquery"),
    "files": (table("a", plain=False), ["a"], "its query reads more of a than its columns"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_rule_knows_a_way_or_says_why_not(name):
    tree, changed, said = CASES[name]
    found = way_of(numbered(tree), [f"/lake/{each}" for each in changed])
    assert said == (found if isinstance(found, str) else found.kind)


def test_a_policy_is_refused_where_no_table_can_be_followed():
    assert never_by_increments(numbered(node("Join", A, B, join="LEFT OUTER"))) == ""
    tree = numbered(node("GlobalLimit", A))
    reason = "its query has LIMIT, where a row can change what others come to"
    assert [policy_refused(tree, (), each) for each in ("auto", "full", "incremental", "incremental_strict")] == [
        "",
        "",
        reason,
        reason,
    ]
    assert policy_refused(tree, ("kafka t",), "incremental") == (
        "its query reads kafka t, and what changes there is not known"
    )
    assert never_by_increments(PlanNode(0, "Range")) == "its query reads no Delta table"


ENTRY = QueryEntry("v").after_refresh("full", "", {"/lake/a": (1, "id")})
ENTRY = replace(ENTRY, fingerprint="f").counted(QueryCounts(read=2, written=2))
NEW = SourceChange("appended", 2, changed_bytes=10, bytes=100)
STATE = ViewState(ENTRY, "f", numbered(GROUPED), {"/lake/a": NEW})
MOST = replace(NEW, changed_bytes=60)
LOST = SourceChange("lost", 2, "all of its rows were replaced in version 3")
DECISIONS = [
    ({}, "groups", "2 new versions of a"),
    ({"tree": numbered(A)}, "append", "2 new versions of a"),
    ({"sources": {"/lake/a": SourceChange("same")}}, "nothing", "no table that it reads has new rows"),
    ({"sources": {"/lake/a": SourceChange("changed", 1)}}, "groups", "1 new version of a"),
    (
        {"tree": numbered(A), "sources": {"/lake/a": SourceChange("changed", 1)}},
        "full",
        "1 new version of a; rows of a were changed or deleted",
    ),
    ({"sources": {"/lake/a": MOST}}, "full", "2 new versions of a; most of a is new"),
    ({"sources": {"/lake/a": MOST}, "policy": "incremental"}, "groups", "2 new versions of a"),
    ({"sources": {"/lake/a": LOST}}, "full", f"2 new versions of a; a: {LOST.reason}"),
    ({"policy": "full"}, "full", "2 new versions of a; its refresh_policy is full"),
    ({"entry": QueryEntry("v")}, "full", "it was not computed yet"),
    ({"fingerprint": "g"}, "full", "its definition has changed"),
    ({"sources": {"/lake/b": NEW}}, "full", "it reads other tables than before"),
    (
        {"changed_by_others": "DELETE in version 4"},
        "full",
        "its table was changed by somebody else: DELETE in version 4",
    ),
    ({"lacks_letters": True}, "full", "dead letters of its newest refresh are missing"),
    (
        {"judged": (node("Project", functions=frozenset(["PythonUDF"])),)},
        "full",
        "2 new versions of a; an expectation calls a user's own function, whose code may have changed",
    ),
    (
        {"judged": (node("Project", functions=frozenset(["CurrentTimestamp"])),)},
        "full",
        "an expectation depends on the time, the session or the user",
    ),
    (
        {"judged": (node("Project", unsure=("rand",)),)},
        "full",
        "an expectation calls rand(), which says something else each time",
    ),
    (
        {"judged": (node("Project"), node("Window"))},
        "full",
        "2 new versions of a; an expectation looks at several rows",
    ),
    ({"sources": {"/lake/a": replace(LOST, versions=0)}}, "full", f"a: {LOST.reason}"),
    ({"has_letters": True}, "full", "2 new versions of a; its groups would have dead letters of older refreshes"),
    ({"has_letters": True, "tree": numbered(A)}, "append", "2 new versions of a"),
    (
        {"unfit_columns": {"k": "is of another type in its table"}},
        "full",
        "2 new versions of a; column k is of another type in its table",
    ),
    ({"outside": ("files in",)}, "full", "it reads files in, and it is not known whether that has changed"),
    (
        {"tree": numbered(B), "entry": replace(ENTRY, sources={"/lake/a": 1})},
        "full",
        "2 new versions of a; the function of its query reads a itself",
    ),
]


@pytest.mark.parametrize(("changes", "kind", "reason"), DECISIONS)
def test_how_a_view_is_refreshed_and_why(changes, kind, reason):
    found = decide(replace(STATE, **changes))
    assert (found.kind, found.reason, found.refused) == (kind, reason, False)


def test_strict_refuses_a_full_refresh_unless_the_view_is_new_or_changed():
    strict = replace(STATE, policy="incremental_strict")
    assert decide(strict).kind == "groups"
    assert not decide(strict).refused
    assert decide(replace(strict, sources={"/lake/a": LOST})).refused
    assert decide(replace(strict, outside=("files in",))).refused
    for changes in ({"entry": QueryEntry("v")}, {"fingerprint": "g"}, {"changed_by_others": "DELETE in version 4"}):
        assert not decide(replace(strict, **changes)).refused


def test_numbers_of_temporary_views_are_no_part_of_a_definition():
    plans = [f"SubqueryAlias __rm_{number}_orders\n+- View (`__rm_{number}_orders`, [id#1])" for number in (1, 23)]
    assert fingerprint(plans[0]) == fingerprint(plans[1]) != fingerprint(plans[0].replace("orders", "others"))


def test_the_event_log_says_how_a_view_is_refreshed_where_databricks_does():
    kinds = {"nothing": "NO_OP", "append": "APPEND_ONLY", "groups": "GROUP_AGGREGATE", "full": "COMPLETE_RECOMPUTE"}
    for refresh, kind in kinds.items():
        (event,) = _described(ViewDecided("totals", "totals", refresh, "a reason"), counted=False)
        (chosen,) = event.details["planning_information"]["technique_information"]
        assert chosen == {"maintenance_type": f"MAINTENANCE_TYPE_{kind}", "is_chosen": True, "is_applicable": True}


def test_a_decision_to_leave_a_view_as_it_is_is_told_once():
    told = []
    hear = NewDecisions(told.append)
    nothing, other = (ViewDecided("v", "v", "nothing", reason) for reason in ("no new rows", "another reason"))
    append = ViewDecided("v", "v", "append", "1 new version of a")
    full, note = ViewDecided("v", "v", "full", "it depends on the time"), Note("v", "v", "a sentence")
    for event in (nothing, nothing, note, nothing, other, append, append, nothing, nothing, full, full):
        hear(event)
    assert told == [nothing, note, other, append, append, nothing, full, full]
