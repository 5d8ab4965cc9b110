"""MERGE in one reading of the table, against Delta's own command and against plain Python."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from delta.exceptions import (
    ConcurrentAppendException,
    ConcurrentTransactionException,
)
from deltalake import DeltaTable, QueryBuilder
from pyspark.sql import functions as F
from tests.merge_strategies import WAYS, merging_by

from rivermouth.domain.delta.table_transaction import TableTransaction
from rivermouth.ports.delta.delta_merge import merge
from rivermouth.ports.internals import single_pass_merge
from rivermouth.rows.keyed.merge_plan import Merge

KEYS = 300
VALUES = {"`id`": "s.`id`", "`na-me`": "s.`na-me`", "`part`": "s.`part`", "`v`": "s.`v`"}
CLAUSES = {
    "delete": "s.gone AND s.v >= t.v",
    "update": "NOT s.gone AND s.v >= t.v",
    "insert": "NOT s.gone",
    "values": VALUES,
}
CHANGES = "id bigint, `na-me` string, part int, v bigint, gone boolean"
SHAPES = {
    "plain": ("", {}),
    "partitioned": ("PARTITIONED BY (part)", {}),
    "mapped": ("", {"delta.columnMapping.mode": "name"}),
    "clustered": ("CLUSTER BY (id)", {}),
}
ROWS_STAY = {"delta.enableDeletionVectors": "false"}
FEED = {"delta.enableChangeDataFeed": "true"}
ROW_IDS = {"delta.enableRowTracking": "true"}


def made(spark, place, shape="", properties=None, columns="id BIGINT, `na-me` STRING, part INT, v BIGINT"):
    told = {"delta.enableDeletionVectors": "true", **(properties or {})}
    listed = ", ".join(f"'{name}' = '{value}'" for name, value in told.items())
    spark.sql(f"CREATE TABLE delta.`{place}` ({columns}) USING delta {shape} TBLPROPERTIES ({listed})")
    return str(place)


def what_of(rows, *, key="id", ranged=True, **other):
    same = f"s.`{key}` = t.`{key}`" + (" AND s.part = t.part" if key != "id" else "")
    values = [row[("id", "na-me").index(key)] for row in rows]
    ranges = {key: (min(values), max(values))} if ranged and rows else {}
    return Merge(on=F.expr(same), ranges=ranges, **{**CLAUSES, **other})


def carry(spark, place, rows, number, what=None, *, few=True):
    frame = spark.createDataFrame(rows, CHANGES)
    what = what or what_of(rows)
    return merge(frame, len(rows), place, what, TableTransaction("app", number, f"m{number}"), few=few)


def found(place):
    told = QueryBuilder().register("t", DeltaTable(place)).execute('SELECT id, "na-me", part, v FROM t').read_all()
    return sorted(zip(*(column.to_pylist() for column in told.columns), strict=True))


def newest(place):
    path = max(Path(place, "_delta_log").glob("*.json"))
    return [json.loads(line) for line in path.read_text().splitlines()]


def some(chance, number):
    ids = chance.sample(range(KEYS), number)
    return [(each, f"k{each:03d}", each % 3, chance.randrange(50), chance.random() < 0.2) for each in ids]


def folded(table, rows):
    for each, name, part, v, gone in rows:
        old = table.get(each)
        if old is not None and v < old[3]:
            continue
        if gone:
            table.pop(each, None)
        elif old is None or v >= old[3]:
            table[each] = (each, name, part, v)


@pytest.mark.parametrize(
    ("shape", "key"),
    [
        ("mapped", "na-me"),
        ("plain", "na-me"),
        ("mapped", "id"),
        ("clustered", "id"),
        ("partitioned", "id"),
    ],
)
@pytest.mark.long
def test_a_table_is_what_its_changes_come_to_however_they_are_merged(shape, key, spark, tmp_path):
    chance, table, place = random.Random(f"{shape} {key}"), {}, made(spark, tmp_path / "t", *SHAPES[shape])
    taken = set()
    for number in range(1, 9):
        # At first all keys, so that files are replaced whole; then few; in the end none.
        rows = some(chance, {1: KEYS, 2: KEYS, 8: 0}.get(number, chance.choice((1, 30))))
        what = what_of(rows, key=key, ranged=chance.random() < 0.7)
        way = chance.choice(list(WAYS))
        with merging_by(way):
            looked = carry(spark, place, rows, number, what, few=way != "shuffled")
        assert (looked is None) == (way == "shuffled")
        taken.add(way)
        folded(table, rows)
        assert found(place) == sorted(table.values()), (number, way)
    assert taken == {*WAYS}


def actions_of(place):
    told = newest(place)
    [info] = [each["commitInfo"] for each in told if "commitInfo" in each]
    [transaction] = [each["txn"] for each in told if "txn" in each]
    names = ("numSourceRows", "numTargetRowsInserted", "numTargetRowsUpdated", "numTargetRowsDeleted")
    names += ("numTargetDeletionVectorsAdded", "numTargetDeletionVectorsUpdated", "numTargetDeletionVectorsRemoved")
    names += ("numTargetFilesRemoved", "numTargetRowsCopied", "numTargetFilesAdded")
    marked = sorted(
        each["add"]["deletionVector"]["cardinality"] for each in told if each.get("add", {}).get("deletionVector")
    )
    statistics = [json.loads(each["add"]["stats"]) for each in told if each.get("add", {}).get("deletionVector")]
    removed = sum(1 for each in told if "remove" in each)
    blind = info.get("isBlindAppend")
    metrics = {name: info["operationMetrics"][name] for name in names}
    counts = [(each["numRecords"], each["tightBounds"], [*each["minValues"].values()]) for each in statistics]
    return metrics, marked, sorted(counts), removed, blind, info["userMetadata"], transaction["version"]


@pytest.mark.long
@pytest.mark.parametrize("shape", [pytest.param("partitioned", marks=pytest.mark.long), "mapped"])
def test_the_commit_is_the_one_that_deltas_command_makes(shape, spark, tmp_path):
    told = {}
    for way in WAYS:
        place = made(spark, tmp_path / way, *SHAPES[shape])
        chance = random.Random(3)
        for number, size in enumerate((KEYS, 40, 40, KEYS), start=1):
            rows = some(chance, size)
            with merging_by(way):
                carry(spark, place, rows, number, few=way != "shuffled")
            told.setdefault(number, {})[way] = actions_of(place)
    for number, ways in told.items():
        assert ways["listed"] == ways["unlisted"] == ways["shuffled"], number


ONE_WAY = [way if way == "listed" else pytest.param(way, marks=pytest.mark.long) for way in WAYS]


@pytest.mark.parametrize("way", ONE_WAY)
def test_a_number_that_the_table_has_is_not_merged_again(way, spark, tmp_path):
    place = made(spark, tmp_path / "t")
    with merging_by(way):
        for v in (1, 2):
            carry(spark, place, [(1, "k", 0, v, False)], 7, few=way != "shuffled")
        assert found(place) == [(1, "k", 0, 1)]
        carry(spark, place, [(1, "k", 0, 3, False)], 8, few=way != "shuffled")
        assert found(place) == [(1, "k", 0, 3)]


@pytest.mark.parametrize("way", ONE_WAY)
def test_two_changes_of_one_row_are_refused(way, spark, tmp_path):
    place = made(spark, tmp_path / "t")
    carry(spark, place, [(1, "k", 0, 1, False)], 1)
    rows = [(1, "k", 0, 2, False), (1, "k", 0, 3, False)]
    with merging_by(way), pytest.raises(Exception, match="MULTIPLE_SOURCE_ROW_MATCHING"):
        carry(spark, place, rows, 2, few=way != "shuffled")
    assert found(place) == [(1, "k", 0, 1)]


@pytest.mark.long
@pytest.mark.parametrize(
    ("properties", "values"),
    [
        pytest.param(ROWS_STAY, VALUES, id="no vectors"),
        pytest.param(FEED, VALUES, id="change data feed", marks=pytest.mark.long),
        pytest.param(ROW_IDS, VALUES, id="row ids", marks=pytest.mark.long),
        pytest.param({}, {k: v for k, v in VALUES.items() if k != "`na-me`"}, id="a column that changes do not bring"),
    ],
)
def test_what_it_is_not_for_is_left_to_deltas_command(properties, values, spark, tmp_path):
    place = made(spark, tmp_path / "t", properties=properties)
    first = [(each, "k", 0, 1, False) for each in range(3)]
    carry(spark, place, first, 1, what_of(first))
    rows = [(1, "other", 1, 2, False)]
    assert carry(spark, place, rows, 2, what_of(rows, values=values)) is None
    kept = "other" if "`na-me`" in values else "k"
    assert found(place) == [(0, "k", 0, 1), (1, kept, 1, 2), (2, "k", 0, 1)]


def meanwhile(monkeypatch, act):
    """``act`` is called once, when all is read and nothing is committed."""
    honest, acted = single_pass_merge._written, []

    def written(*arguments):
        if not acted:
            acted.append(1)
            act()
        return honest(*arguments)

    monkeypatch.setattr(single_pass_merge, "_written", written)


SECOND = {
    "same number": ConcurrentTransactionException,
    "append": ConcurrentAppendException,
    "delete": ConcurrentAppendException,
    "optimize": ConcurrentAppendException,
}


@pytest.mark.long
@pytest.mark.parametrize("way", ["unlisted", "listed"])
@pytest.mark.parametrize("other", SECOND)
def test_who_comes_second_is_refused(other, way, spark, tmp_path, monkeypatch):
    place = made(spark, tmp_path / "t")
    for number in (1, 2, 3):
        carry(spark, place, [(each + number * 10, "k", 0, 1, False) for each in range(10)], number)
    assert len(DeltaTable(place).file_uris()) > 1  # so that OPTIMIZE has something to do
    statements = {
        "append": f"INSERT INTO delta.`{place}` VALUES (15, 'won', 0, 90)",
        "delete": f"DELETE FROM delta.`{place}` WHERE id = 15",
        "optimize": f"OPTIMIZE delta.`{place}`",
    }

    def act():
        theirs = spark.newSession()
        if other in statements:
            theirs.sql(statements[other]).collect()
        else:
            carry(theirs, place, [(15, "won", 0, 90, False)], 4)

    meanwhile(monkeypatch, act)
    before = found(place)
    with merging_by(way), pytest.raises(SECOND[other]):
        carry(spark, place, [(15, "lost", 0, 99, False), (77, "lost", 0, 99, False)], 4)
    assert [row for row in found(place) if row[1] == "lost"] == []
    assert len(found(place)) == len(before) + {"append": 1, "delete": -1}.get(other, 0)


@pytest.mark.parametrize(
    "cut",
    [pytest.param(0.5, id="half of the files"), pytest.param(0.0, id="none", marks=pytest.mark.long)],
)
def test_a_checksum_that_does_not_list_all_files_is_not_believed(cut, spark, tmp_path):
    place = made(spark, tmp_path / "t")
    for number in (1, 2, 3, 4):
        carry(spark, place, [(each, "k", 0, 1, False) for each in range(number * 10, number * 10 + 10)], number)
    path = max(Path(place, "_delta_log").glob("*.crc"))
    body = json.loads(path.read_text())
    assert len(body["allFiles"]) == body["numFiles"]
    body["allFiles"] = body["allFiles"][: int(body["numFiles"] * cut)]
    path.write_text(json.dumps(body))
    path.with_name(f".{path.name}.crc").unlink(missing_ok=True)
    other = spark.newSession()
    other._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()
    rows = [(each, "new", 0, 2, False) for each in range(10, 50)]
    assert carry(other, place, rows, 5) is not None
    assert found(place) == sorted(row[:4] for row in rows)


@pytest.mark.long
def test_texts_are_compared_as_files_tell_of_them(spark, tmp_path):
    """Statistics have 32 characters, and a character more where that is needed for the greatest."""
    place, long = made(spark, tmp_path / "t"), "ä" * 40
    texts = ["", "a", long, long + "z", "\U0001f600" * 33, "\uffff", "\ue000x"]
    for number, text in enumerate(texts, start=1):
        carry(spark, place, [(number, text, 0, 1, False)], number, what_of([(number, text)], key="na-me"))
    for number, text in enumerate(texts, start=1):
        rows = [(number, text, 0, 2, False)]
        assert carry(spark, place, rows, 20 + number, what_of(rows, key="na-me"))
    assert found(place) == sorted((number, text, 0, 2) for number, text in enumerate(texts, start=1))


@pytest.mark.long
def test_files_are_skipped_by_the_ranges(spark, tmp_path):
    place = made(spark, tmp_path / "t")
    for number in range(1, 5):
        carry(spark, place, [(each, "k", 0, 1, False) for each in range(number * 10, number * 10 + 10)], number)
    spark.sql(f"OPTIMIZE delta.`{place}` ZORDER BY (v)").collect()
    for number in (1, 2):
        carry(spark, place, [(number, "k", 0, 1, False)], 10 + number)
    files = DeltaTable(place).get_add_actions(flatten=True)
    sizes = dict(zip(files["max.id"].to_pylist(), files["size_bytes"].to_pylist(), strict=True))
    looked = carry(spark, place, [(2, "k", 0, 2, False), (12, "k", 0, 2, False)], 20)
    assert (looked.files, looked.all_files, looked.bytes) == (2, 3, sizes[2] + sizes[49])
    assert carry(spark, place, [(99, "k", 0, 2, False)], 21).files == 0
    assert len(found(place)) == 43


@pytest.mark.parametrize(
    ("large_bytes", "key"),
    [
        (0, "id"),
        *(pytest.param(*each, marks=pytest.mark.long) for each in ((1 << 30, "na-me"), (0, "na-me"), (1 << 30, "id"))),
    ],
)
def test_one_old_key_among_new_ones_reads_the_old_file_and_not_all_between(
    spark, tmp_path, monkeypatch, large_bytes, key
):
    place = made(spark, tmp_path / "t")
    monkeypatch.setattr(single_pass_merge, "LARGE_BYTES", large_bytes)
    for number in range(1, 8):
        rows = [(each, f"k{each}", 0, 1, False) for each in range(number * 10, number * 10 + 10)]
        carry(spark, place, rows, number, what_of([row[:2] for row in rows], key=key))
    files = DeltaTable(place).get_add_actions(flatten=True)
    spans = [*zip(files["min.id"].to_pylist(), files["max.id"].to_pylist(), strict=True)]
    between = sum(least <= 72 and greatest >= 15 for least, greatest in spans)
    needed = sum(any(least <= each <= greatest for each in (15, 71, 72)) for least, greatest in spans)
    assert needed < between
    rows = [(each, f"k{each}", 0, 2, False) for each in (15, 71, 72)]
    looked = carry(spark, place, rows, 20, what_of([row[:2] for row in rows], key=key))
    assert (looked.files, looked.by_each) == ((needed, True) if large_bytes == 0 else (between, False))
    expected = {each: (each, f"k{each}", 0, 1) for each in range(10, 80)} | {row[0]: row[:4] for row in rows}
    assert found(place) == sorted(expected.values())
