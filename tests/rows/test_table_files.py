"""What VACUUM would delete, which versions need it, and what would help a table: over values written by hand."""

from __future__ import annotations

import pytest

from rivermouth.domain.delta.table_files import (
    MIB,
    TARGET_BYTES,
    Compaction,
    DataFile,
    Removal,
    Snapshot,
    StoredFile,
    advice,
    bytes_text,
    compaction,
    histogram,
    interval_s,
    spans,
    spans_text,
    unneeded,
    unreadable,
)


def stored(path, at=0.0, size=10):
    return StoredFile(path, size, at)


def files(number, size, partition=""):
    return tuple(DataFile(f"{partition}{n}", size, 1, partition=partition) for n in range(number))


def test_a_file_that_the_newest_version_has_is_needed_however_old_it_is():
    snapshot = Snapshot(1, files=(DataFile("a", 1, vector="v"),))
    assert unneeded(snapshot, [stored("a"), stored("v"), stored("b")], before=100) == [stored("b")]


def test_a_file_is_needed_as_long_as_what_removed_it_is_young():
    snapshot = Snapshot(1, removals=(Removal("a", 99, vector="v"), Removal("b", 100, vector="w")))
    lying = [stored(name) for name in "avbw"]
    assert unneeded(snapshot, lying, before=100) == [stored("a"), stored("v")]


def test_a_file_that_no_version_knows_goes_once_it_is_old():
    lying = [stored("new", 100), stored("old", 99)]
    assert unneeded(Snapshot(1), lying, before=100) == [stored("old", 99)]


def test_a_vector_goes_without_its_file():
    snapshot = Snapshot(2, files=(DataFile("a", 1, vector="second"),), removals=(Removal("a", 5, vector="first"),))
    assert unneeded(snapshot, [stored("a"), stored("first"), stored("second")], before=10) == [stored("first")]


def test_versions_that_have_a_file_that_goes_become_unreadable():
    removals = [Removal("a", 0, added_in=3, removed_in=6), Removal("b", 0, added_in=8, removed_in=9)]
    assert unreadable(removals, {"a", "b"}, {"a", "b"}, 0) == ((3, 5), (8, 8))


def test_versions_that_cannot_be_read_any_more_become_nothing():
    removals = [Removal("gone", 0, added_in=1, removed_in=4), Removal("a", 0, added_in=2, removed_in=6)]
    assert unreadable(removals, {"a"}, {"a"}, 0) == ((4, 5),)


def test_a_file_from_before_the_log_was_in_all_versions_until_it_was_removed():
    assert unreadable([Removal("a", 0, removed_in=12)], {"a"}, {"a"}, 10) == ((10, 11),)


def test_a_file_that_stays_keeps_its_versions():
    assert unreadable([Removal("a", 0, added_in=0, removed_in=2)], set(), {"a"}, 0) == ()


@pytest.mark.parametrize(
    ("numbers", "text"), [((), "none"), ((4,), "4"), ((0, 1, 2, 5, 7, 8), "0 to 2, 5, 7 to 8"), ((2, 1), "1 to 2")]
)
def test_neighbours_are_told_together(numbers, text):
    assert spans_text(spans(numbers)) == text


@pytest.mark.parametrize(
    ("number", "text"),
    [(0, "0 B"), (1023, "1023 B"), (1536, "1.5 KiB"), (-3 * 1024**3, "-3.0 GiB"), (5 * 1024**5, "5,120.0 TiB")],
)
def test_sizes_have_units(number, text):
    assert bytes_text(number) == text


def test_every_file_is_in_one_class():
    sizes = [0, MIB - 1, MIB, 16 * MIB, 128 * MIB, TARGET_BYTES - 1, TARGET_BYTES]
    found = histogram(DataFile(str(size), size) for size in sizes)
    assert [each.files for each in found] == [2, 1, 1, 2, 1]
    assert sum(each.bytes for each in found) == sum(sizes)


def test_files_are_put_together_within_their_partition():
    mixed = (*files(3, MIB, "a"), *files(1, MIB, "b"), *files(2, TARGET_BYTES, "a"))
    assert compaction(mixed) == Compaction(3, 1, 0)


def test_a_lone_file_is_written_anew_if_many_of_its_rows_are_deleted():
    assert compaction([DataFile("a", TARGET_BYTES, rows=100, deleted_rows=6)]) == Compaction(1, 1, 6)
    assert compaction([DataFile("a", TARGET_BYTES, rows=100, deleted_rows=5)]) == Compaction(0, 0, 0)


def told(snapshot, stored_bytes=0, free_now=0, free_later=0):
    return advice("s.t", snapshot, stored_bytes, free_now=free_now, free_later=free_later, retain="7 days")


def test_a_table_in_order_needs_nothing():
    assert told(Snapshot(1, files=files(10, MIB)), stored_bytes=20 * MIB, free_later=10 * MIB) == ()
    assert told(Snapshot(0)) == ()


def test_many_small_files_want_optimize():
    assert told(Snapshot(1, files=files(11, MIB))) == (
        "many small files: rivermouth tables optimize s.t would make about 1 of 11",
    )


def test_many_deleted_rows_want_optimize():
    snapshot = Snapshot(1, files=(DataFile("a", MIB, rows=1000, deleted_rows=60),))
    assert told(snapshot) == (
        "60 rows are only marked as deleted: rivermouth tables optimize s.t would write their files without them",
    )


def test_small_partitions_are_told():
    many = tuple(file for n in range(12) for file in files(1, 1024, f"day={n}"))
    assert told(Snapshot(1, files=many, partition_by=("day",))) == (
        "12 partitions of 1.0 KiB on average: for a new table, cluster_by instead of partition_by",
    )


def test_storage_far_above_the_live_bytes_wants_vacuum():
    snapshot = Snapshot(1, files=files(1, MIB))
    (words,) = told(snapshot, 3 * MIB, MIB, MIB)
    assert words == (
        "storage holds 3.0 MiB, 3.0 times the live bytes: rivermouth tables vacuum s.t would free 1.0 MiB now, and "
        "1.0 MiB when 7 days are over"
    )
    (words,) = told(Snapshot(1), 2048, 0, 2048)
    assert words == (
        "storage holds 2.0 KiB, and no byte of it is live: rivermouth tables vacuum s.t would free 0 B now, and "
        "2.0 KiB when 7 days are over"
    )


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("interval 7 days", 604800),
        ("interval 1 week", 604800),
        ("168 hours", 604800),
        ("INTERVAL 1 DAY 12 hours", 129600),
        ("interval 2 months", None),
        ("interval 1 day and more", None),
        ("", None),
    ],
)
def test_intervals_of_table_properties(text, seconds):
    assert interval_s(text) == seconds
