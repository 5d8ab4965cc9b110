"""The bench in its smallest form: every contestant carries every record to where it belongs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

# It takes minutes: its own target is make bench.
pytestmark = [pytest.mark.long, pytest.mark.timeout(1800)]

ROOT = Path(__file__).resolve().parents[2]
RECORDS = 4_000
BAD = 40


@pytest.fixture(scope="module")
def quick(tmp_path_factory):
    """Everything that ``python -m bench --quick`` measured; it ends with an error if a table's rows are wrong."""
    folder = tmp_path_factory.mktemp("bench")
    command = [sys.executable, "-m", "bench", "--quick", "--json", str(folder / "all.json"), "--folder", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-4000:]
    assert [path.name for path in folder.iterdir()] == ["all.json"]
    return json.loads((folder / "all.json").read_text()), done.stdout


def test_every_contestant_carries_the_whole_backlog(quick):
    results, _printed = quick
    carried = {(each["contestant"], each["topic"]): each["records"] for each in results["backlogs"]}
    assert carried == {
        ("limit", "bronze"): RECORDS,
        ("rivermouth_bronze", "bronze"): RECORDS,
        ("native_bronze", "bronze"): RECORDS,
        ("usual", "json"): RECORDS,
        ("usual", "json_bad"): RECORDS,
        ("usual_cached", "json"): RECORDS,
        ("usual_cached", "json_bad"): RECORDS,
        ("native_json", "json"): RECORDS,
        ("rivermouth_json", "json"): RECORDS,
        ("rivermouth_json", "json_bad"): RECORDS,
    }


def test_every_format_brings_the_same_orders(quick):
    results, _printed = quick
    told = {
        each["contestant"]: [(run["answer"]["written"], run["answer"]["dead_lettered"]) for run in each["runs"]]
        for each in results["formats"]
    }
    assert told == {f"rivermouth_{form}": [(RECORDS, 0)] for form in ("json", "avro", "protobuf", "csv")}
    wide = {each["contestant"]: [run["answer"]["written"] for run in each["runs"]] for each in results["wide"]}
    assert wide == {"rivermouth_wide_few": [500], "rivermouth_wide_all": [500]}
    inferred = {each["contestant"]: len(each["runs"]) for each in results["inference"]}
    assert inferred == {"rivermouth_infer": 1, "rivermouth_infer_all": 1, "usual_infer": 1}
    routed = {
        each["contestant"]: [(run["answer"]["written"], run["answer"]["flows"]) for run in each["runs"]]
        for each in results["routing"]
    }
    assert routed == {
        "one_table": [(RECORDS, 1)],
        "one_table_by_raw": [(RECORDS, 2)],
        "many_tables": [(RECORDS, 33)],
    }


def test_rivermouth_counts_what_it_carried(quick):
    results, _printed = quick
    told = {
        (each["contestant"], each["topic"]): [
            (run["answer"]["consumed"], run["answer"]["written"], run["answer"]["dead_lettered"])
            for run in each["runs"]
        ]
        for each in results["backlogs"]
        if each["contestant"].startswith("rivermouth")
    }
    assert told == {
        ("rivermouth_bronze", "bronze"): [(RECORDS, RECORDS, 0)],
        ("rivermouth_json", "json"): [(RECORDS, RECORDS, 0)],
        ("rivermouth_json", "json_bad"): [(RECORDS, RECORDS - BAD, BAD)],
    }
    small = results["small"]
    assert small["hundred_clean"]["dead_lettered"] == 0
    assert small["hundred_dead_letters"]["dead_lettered"] == small["hundred_dead_letters"]["consumed"] // 50 > 0
    assert small["latency"]["records"] > 0


def test_the_report_holds_every_figure_against_its_target(quick):
    _results, printed = quick
    rows = [line for line in printed.splitlines() if line.endswith(("| met |", "| **not met** |"))]
    assert [row.split(" | ")[0] for row in rows] == [
        "| bronze: rivermouth / the limit",
        "| json: rivermouth / the usual script",
        "| json, 1 % bad: rivermouth / the usual script",
        "| json: rivermouth / plain native sink",
        "| avro: seconds / those of JSON",
        "| protobuf: seconds / those of JSON",
        "| 10 of 500 fields / all of them",
        "| inference: rivermouth / the usual way",
        "| fields of 0.1 % of the records that a sample finds",
        "| new tables: seconds for 32 / for one",
        "| tables that are there: seconds for 32 / for one",
        "| a look without new offsets, median",
        "| a batch of 100, median",
        "| a batch of 100 with dead letters, median",
        "| produce to readable, p99",
        "| upserts, recent keys: rivermouth / the usual script",
        "| upserts, random keys: rivermouth / the usual script",
        "| upserts, recent keys: a table ten times as large",
        "| reading after upserts / after OPTIMIZE",
        "| reading after many batches / after OPTIMIZE",
        "| plan of 30 datasets, cold",
        "| an update with nothing new, 30 datasets, cold",
        "| an update with nothing new, two datasets, warm",
        "| of an update with nothing new: each dataset more",
        "| a backlog: two datasets by decode / two flows",
        "| a backlog: two datasets by from_json / two flows",
        "| a backlog, by CPU: two datasets by decode / two flows",
        "| a backlog, by CPU: two datasets by from_json / two flows",
        "| commit of a query / of a flow",
        "| Kafka to Kafka: at least once / plain writeStream",
        "| Kafka to Kafka: exactly once / plain writeStream",
        "| a flow with a lookup: seconds / without it",
    ]


def test_pipelines_carry_what_flows_carry_and_nothing_where_nothing_is_new(quick):
    found = quick[0]["pipelines"]
    assert {name: (each["tables"], each["written"]) for name, each in found["nothing_new"].items()} == {
        "two": (2, 0),
        "thirty": (25, 0),
    }
    # The table of events is written without one.
    assert {job for each in found["nothing_new"].values() for job in each["jobs"]} == {0}
    assert {each["contestant"]: [run["answer"]["written"] for run in each["runs"]] for each in found["backlog"]} == {
        "two_flows": [2 * RECORDS],
        "two_decoded": [2 * RECORDS],
        "two_datasets": [2 * RECORDS],
        "two_streams": [2 * RECORDS],
    }
    assert {name: len(each["steps"]) for name, each in found["commits"].items()} == {"flow": 2, "query": 2}


def test_streams_copy_look_up_and_count_every_record(quick):
    found = quick[0]["streams"]
    series = [*found["to_kafka"], *found["lookup"]]
    assert {each["contestant"]: [run["answer"]["written"] for run in each["runs"]] for each in series} == {
        "kafka_plain": [RECORDS],
        "kafka_at_least_once": [RECORDS],
        "kafka_exactly_once": [RECORDS],
        "without_lookup": [RECORDS],
        "with_lookup": [RECORDS],
    }
    assert set(found["latency"]) == {"plain", "at_least_once", "exactly_once", "plain_real_time", "real_time"}
    assert all(0 < each["p50_ms"] <= each["p99_ms"] and each["records"] > 0 for each in found["latency"].values())
    windows = found["windows"]
    written = [windows[part]["answer"]["written"] for part in ("filled", "closed")]
    assert (windows["keys"], windows["records"], written) == (2_000, 4_000, [0, 2_000])


def test_every_batch_of_upserts_is_one_merge(quick):
    results, _printed = quick
    series = dict(results["upserts"]["series"])
    # Where the table is optimized meanwhile, that may be a commit of its own.
    optimized = series.pop("rivermouth, recent, optimize: 15 seconds")
    assert len(optimized["batches_s"]) == 3 <= len(optimized["bytes"])
    assert {name: (len(each["batches_s"]), len(each["bytes"])) for name, each in series.items()} == {
        "rivermouth, small table, recent": (1, 1),
        "rivermouth, recent": (3, 3),
        "rivermouth, random": (1, 1),
        "usual, recent": (1, 1),
        "usual, random": (1, 1),
    }
    assert results["upserts"]["many"]["files"] == 3
    assert results["upserts"]["load"]["task_peak_bytes"] > 0
