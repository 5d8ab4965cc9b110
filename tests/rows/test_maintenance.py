"""When maintenance is due, told by the names of what is kept of it; and what it came to."""

from __future__ import annotations

import datetime as dt

import pytest
from pydantic import ValidationError

from rivermouth.domain.delta.maintenance import (
    KEPT_REPORTS,
    Figures,
    MaintenanceReport,
    last_run,
    next_due,
    outdated,
    percent,
    report_name,
    whole_hours,
)
from rivermouth.project.file.dump import plain
from rivermouth.spec import Flow, Maintenance, ProjectSpec

NOON = dt.datetime(2026, 1, 31, 12, tzinfo=dt.UTC).timestamp()
DAY = 86400.0


def test_the_newest_run_of_an_operation_counts():
    names = [report_name("optimize", NOON - 5), report_name("optimize", NOON - 50), report_name("vacuum", NOON)]
    assert last_run(names, "optimize", NOON) == NOON - 5
    assert last_run(reversed(names), "vacuum", NOON + 0.001) == NOON
    assert last_run(["x.json", ".a", "20260131T120000.000Z-optimize-x.json"], "optimize", NOON) is None


def test_a_time_that_has_not_come_yet_says_nothing():
    assert last_run([report_name("optimize", NOON + 60)], "optimize", NOON) is None


def test_it_is_due_at_once_and_then_from_time_to_time():
    assert next_due(None, DAY) <= NOON
    assert next_due(NOON, DAY) == NOON + DAY


def test_enough_of_each_operation_is_kept():
    optimized = [report_name("optimize", NOON + second) for second in range(KEPT_REPORTS + 2)]
    vacuumed = [report_name("vacuum", NOON)]
    assert outdated([*reversed(optimized), *vacuumed, "other.txt"]) == optimized[:2]


@pytest.mark.parametrize(("seconds", "hours"), [(0, 0), (1, 1), (1800, 1), (3600, 1), (3601, 2), (604800, 168)])
def test_a_retention_is_never_rounded_down(seconds, hours):
    assert whole_hours(seconds) == hours


def test_a_report_is_read_as_it_was_written():
    report = MaintenanceReport(
        "s.t",
        "vacuum",
        "2026-01-31T12:00:00.000+00:00",
        Figures(3, 4, 100, 200),
        Figures(5, 4, 100, 150),
        1.5,
        ((1, 2),),
    )
    assert MaintenanceReport.from_json(report.to_json()) == report
    assert (report.saved_bytes, report.saved_percent, report.before.average_file_bytes) == (50, 25.0, 25)
    assert (percent(1, 0), Figures(0, 0, 0, 0).average_file_bytes) == (0.0, 0)


@pytest.mark.parametrize(
    ("written", "text"),
    [
        ({"optimize": "daily"}, {"optimize": "daily"}),
        ({"optimize": "6 hours", "vacuum": {}}, {"optimize": "21600 seconds", "vacuum": "daily"}),
        (
            {"optimize": {"zorder": ["a"]}, "vacuum": {"every": "weekly", "retain": "30 days"}},
            {"optimize": {"every": "daily", "zorder": ["a"]}, "vacuum": {"every": "weekly", "retain": "30 days"}},
        ),
        ("after_run", "after_run"),
        ({"optimize": "daily", "vacuum": "daily", "after_run": True}, "after_run"),
        ({"vacuum": "weekly", "after_run": True}, {"vacuum": "weekly", "after_run": True}),
    ],
)
def test_maintenance_is_written_as_it_is_read(written, text):
    found = Maintenance.model_validate(written)
    assert plain(found) == text
    assert Maintenance.model_validate(text) == found


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("daily", "'daily' is no maintenance: write after_run, or a mapping: {optimize: daily, vacuum: weekly}"),
        ({"after_run": True}, "after_run does what optimize and vacuum say: write {optimize: daily, after_run: true}"),
        (
            {"vacuum": {"retain": "6 days"}},
            (
                "6 days is under 168 hours, in which a reader may still need the files: write retain: 7 days, or "
                "even_below_168_hours: true"
            ),
        ),
    ],
)
def test_what_cannot_be_meant_is_refused(written, message):
    with pytest.raises(ValidationError) as found:
        Maintenance.model_validate(written)
    assert found.value.errors()[0]["msg"] == f"Value error, {message}"


def test_the_order_of_a_table_is_said_once_and_by_its_flow():
    flow = {"topics": "t", "format": "raw", "table": {"name": "s.t", "cluster_by": ["a"]}}
    zorder = {"optimize": {"zorder": ["a"]}}
    with pytest.raises(ValidationError, match="a clustered table has its order by cluster_by: leave zorder out"):
        Flow.model_validate({"name": "f", **flow, "maintenance": zorder})
    with pytest.raises(ValidationError, match="zorder names columns of one table: write maintenance in the flow"):
        ProjectSpec.model_validate({"lake": "x", "maintenance": zorder})
