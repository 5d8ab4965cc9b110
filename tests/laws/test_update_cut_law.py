"""A pipeline run in any cut into updates is what one update over all files makes, and what plain Python makes of them.

Each case has its own cut: the number of the update in which a change arrives is drawn by chance, so changes of a key
also arrive in any order. All cases lie side by side in the same tables.
"""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import strategies as st
from tests.laws.gathering import gathered
from tests.pipelines.conftest import PipelineFolder

PYTHON = """
from pyspark import pipelines as dp

COLUMNS = "case int, k int, op string, a int, b int, ts int"

@dp.table
@dp.expect("small", "b < 5")
@dp.expect_or_drop("not negative", "b >= 0")
@dp.expect_or_dead_letter("known", "a < 2")
def events():
    return spark.readStream.schema(COLUMNS).json("in")

dp.create_streaming_table("copies")

@dp.append_flow(target="copies")
def kept():
    return spark.readStream.table("events").select("case", "ts")

@dp.append_flow(target="copies")
def raw():
    return spark.readStream.schema(COLUMNS).json("in").where("op = 'D'").selectExpr("case", "-ts AS ts")

@dp.temporary_view
def changes():
    return spark.readStream.schema(COLUMNS).json("in")

CDC = dict(source="changes", keys=["case", "k"], sequence_by="ts", apply_as_deletes="op = 'D'",
           except_column_list=["op", "ts"])
dp.create_streaming_table("newest")
dp.create_auto_cdc_flow("newest", **CDC)
dp.create_streaming_table("filled")
dp.create_auto_cdc_flow("filled", **CDC, name="filling", ignore_null_updates=True)
dp.create_streaming_table("versions")
dp.create_auto_cdc_flow("versions", **CDC, name="of_versions", stored_as_scd_type=2)
dp.create_streaming_table("tracked")
dp.create_auto_cdc_flow("tracked", **CDC, name="of_tracked", stored_as_scd_type=2, track_history_column_list=["a"])
"""
SQL = """
CREATE STREAMING TABLE tracked_but;
CREATE FLOW of_tracked_but AS AUTO CDC INTO tracked_but FROM STREAM(changes) KEYS (case, k)
APPLY AS DELETE WHEN op = 'D' SEQUENCE BY ts COLUMNS * EXCEPT (op, ts)
STORED AS SCD TYPE 2 TRACK HISTORY ON * EXCEPT (b);
CREATE MATERIALIZED VIEW totals AS SELECT case, count(*) AS n, sum(b) AS s FROM events GROUP BY case;
"""
CASES, UPDATES = 60, 3
CHANGES = st.lists(
    st.tuples(
        st.integers(0, UPDATES - 1),
        st.integers(0, 2),
        st.sampled_from("UUUD"),
        st.integers(0, 2),
        st.one_of(st.none(), st.integers(-1, 9)),
    ),
    max_size=14,
)


def files(cases):
    """The changes of all cases by the update in which they arrive; ``ts`` is their order within a case."""
    found = [[] for _ in range(UPDATES)]
    for case, changes in enumerate(cases):
        for ts, (update, k, op, a, b) in enumerate(changes, start=1):
            found[update].append({"case": case, "k": k, "op": op, "a": a, "b": b, "ts": ts})
    return found


def good(row):
    return row["b"] is not None and row["b"] >= 0 and row["a"] < 2


def by_key(rows):
    found = {}
    for row in sorted(rows, key=lambda each: each["ts"]):
        found.setdefault((row["case"], row["k"]), []).append(row)
    return found


def newest(rows, *, fills=False):
    found = Counter()
    for key, changes in by_key(rows).items():
        values = None
        for row in changes:
            before = values if fills and values is not None else (None, None)
            b = row["b"] if row["b"] is not None else before[1]
            values = None if row["op"] == "D" else (row["a"], b)
        if values is not None:
            found[(*key, *values)] += 1
    return found


def versions(rows, tracked):
    """The spans of each key; a change of other columns than the tracked ones changes the newest version."""
    found = Counter()
    for key, changes in by_key(rows).items():
        spans = []
        for row in changes:
            current = spans[-1] if spans and spans[-1]["end"] is None else None
            if row["op"] == "D":
                if current is not None:
                    current["end"] = row["ts"]
            elif current is not None and all(current["values"][each] == row[each] for each in tracked):
                current["values"] = row
            else:
                if current is not None:
                    current["end"] = row["ts"]
                spans.append({"values": row, "start": row["ts"], "end": None})
        for each in spans:
            found[(*key, each["values"]["a"], each["values"]["b"], each["start"], each["end"])] += 1
    return found


def expected(rows):
    taken = [row for row in rows if good(row)]
    totals = {}
    for row in taken:
        n, s = totals.get(row["case"], (0, 0))
        totals[row["case"]] = (n + 1, s + row["b"])
    copies = [(row["case"], row["ts"]) for row in taken] + [
        (row["case"], -row["ts"]) for row in rows if row["op"] == "D"
    ]
    return {
        "events": Counter((row["case"], row["ts"]) for row in taken),
        "copies": Counter(copies),
        "newest": newest(rows),
        "filled": newest(rows, fills=True),
        "versions": versions(rows, ("a", "b")),
        "tracked": versions(rows, ("a",)),
        "tracked_but": versions(rows, ("a",)),
        "totals": Counter((case, n, s) for case, (n, s) in totals.items()),
    }


KEYED, SPANS = '"case", k, a, b', '"case", k, a, b, "__START_AT", "__END_AT"'
READ = {
    "events": '"case", ts',
    "copies": '"case", ts',
    "newest": KEYED,
    "filled": KEYED,
    "versions": SPANS,
    "tracked": SPANS,
    "tracked_but": SPANS,
    "totals": '"case", n, s',
}


def pipeline(path):
    folder = PipelineFolder(path)
    folder.write("pipeline.yml", "name: law\nlibraries:\n  - glob: {include: src/**}\n")
    folder.write("src/a.py", PYTHON.replace('"in"', repr(f"{path}/in")))
    folder.write("src/b.sql", SQL)
    return folder


def tables(folder):
    return {name: Counter(folder.rows(f"default.{name}", columns)) for name, columns in READ.items()}


def outcomes(folder):
    found = folder.run()
    assert {name: each.error and str(each.error) for name, each in found.items()} == dict.fromkeys(found)
    return found


@pytest.mark.long
def test_any_cut_into_updates_is_one_update_over_all(tmp_path, spark):
    parts = files(gathered(CHANGES, CASES))
    rows = [row for part in parts for row in part]
    cut, whole = pipeline(tmp_path / "cut"), pipeline(tmp_path / "whole")
    seen, counts, refreshes = [], [], []
    for number, part in enumerate(parts):
        cut.feed(f"in/{number}.json", *part)
        whole.feed(f"in/{number}.json", *part)
        seen += part
        found = outcomes(cut)
        counts.append(found["events"].counts)
        refreshes.append(found["totals"].refresh)
        assert tables(cut) == expected(seen)
    outcomes(whole)
    assert tables(whole) == tables(cut)
    assert "groups" in refreshes
    total = sum(counts[1:], counts[0])
    # A row that fails both of these is a dead letter.
    letters = sum(1 for row in rows if row["a"] >= 2)
    assert (total.read, total.written, total.dead_lettered) == (len(rows), sum(map(good, rows)), letters)
    assert total.dropped == total.read - total.written - total.dead_lettered
    assert total.expectations == {
        "small": sum(1 for row in rows if row["b"] is None or row["b"] >= 5),
        "not negative": sum(1 for row in rows if row["b"] is None or row["b"] < 0),
        "known": letters,
    }
    assert len(cut.rows("default.events__dead_letters", "flow")) == letters
