"""Tables whose few commits have only added files: a stream may begin with the first of them."""

import json

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from rivermouth.ports.delta.young_table import is_young
from rivermouth.ports.lake.lake_files import LocalFiles


def append(place, *numbers, mode="append"):
    rows = pa.table({"id": pa.array(numbers, pa.int64()), "day": pa.array(numbers, pa.int64())})
    write_deltalake(place, rows, mode=mode)


def change(place, action, **values):
    """Changes an action of the commit that made the table."""
    commit = place / f"_delta_log/{0:020d}.json"
    actions = [json.loads(line) for line in commit.read_text().splitlines()]
    for each in actions:
        each.get(action, {}).update(values)
    commit.write_text("".join(f"{json.dumps(each)}\n" for each in actions))


def add_column(place):
    rows = pa.table({"id": pa.array([3], pa.int64()), "day": pa.array([3], pa.int64()), "note": pa.array(["a"])})
    write_deltalake(place, rows, mode="append", schema_mode="merge")


LATER = {
    "another commit": (lambda place: append(place, 4), True),
    "a deleted row": (lambda place: DeltaTable(place).delete("id = 1"), False),
    "an updated row": (lambda place: DeltaTable(place).update(predicate="id = 1", new_values={"id": 5}), False),
    "an overwritten table": (lambda place: append(place, 7, mode="overwrite"), False),
    "files put together": (lambda place: DeltaTable(place).optimize.compact(), False),
    "a new column": (add_column, False),
    "columns that have other names in the files": (
        lambda place: change(place, "metaData", configuration={"delta.columnMapping.mode": "name"}),
        False,
    ),
    "commits that a catalog keeps": (
        lambda place: change(place, "protocol", minReaderVersion=3, readerFeatures=["catalogManaged"]),
        False,
    ),
    "deletion vectors allowed": (
        lambda place: change(place, "protocol", minReaderVersion=3, readerFeatures=["deletionVectors"]),
        True,
    ),
    "a first commit that is gone": (lambda place: (place / f"_delta_log/{0:020d}.json").unlink(), False),
    "a first commit that is empty": (lambda place: (place / f"_delta_log/{0:020d}.json").write_text(""), False),
    "a first commit that is cut off": (lambda place: (place / f"_delta_log/{0:020d}.json").write_text("{"), False),
    "a first commit of a megabyte": (lambda place: change(place, "metaData", description="x" * (1 << 20)), False),
    "ten commits": (lambda place: [append(place, number) for number in range(8)], True),
    "eleven commits": (lambda place: [append(place, number) for number in range(9)], False),
}


@pytest.mark.parametrize("later", LATER)
def test_a_table_with(tmp_path, later):
    place = tmp_path / "table"
    append(place, 1, 2)
    append(place, 3)
    happens, expected = LATER[later]
    happens(place)
    assert is_young(LocalFiles(), str(place)) is expected


@pytest.mark.parametrize("made", [False, True])
def test_a_table_without_files_is_not_read_by_commits(tmp_path, made):
    if made:
        DeltaTable.create(tmp_path, pa.schema([("id", pa.int64())]))
    assert not is_young(LocalFiles(), str(tmp_path))
