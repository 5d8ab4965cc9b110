"""Files that a source deletes or moves once they are in the table, and tables that are clustered."""

from __future__ import annotations

import json
import shutil

import pytest

PYTHON = """
from pyspark import pipelines as dp

@dp.table(cluster_by=["id"])
def deleted():
    return (spark.readStream.format("cloudFiles").option("cloudFiles.format", "json").schema("id bigint, name string")
            .option("cloudFiles.cleanSource", "DELETE").option("cloudFiles.cleanSource.retentionDuration", "0 seconds")
            .option("cloudFiles.maxFilesPerTrigger", 1).load("{folder}/in"))
"""
SQL = """
CREATE STREAMING TABLE moved CLUSTER BY (name, id) AS
SELECT * FROM STREAM read_files('{folder}/more', format => 'json', schema => 'id BIGINT, name STRING',
  `cloudFiles.cleanSource` => 'MOVE', `cloudFiles.cleanSource.retentionDuration` => '0 seconds',
  `cloudFiles.cleanSource.moveDestination` => '{folder}/done', maxFilesPerTrigger => 1);
"""


def clustering(folder, table):
    """The columns of Delta's domain ``delta.clustering`` in the first commit of a table."""
    log = folder.folder / f"lake/default/{table}/_delta_log/{0:020d}.json"
    domains = [json.loads(line).get("domainMetadata") for line in log.read_text().splitlines()]
    (found,) = (each for each in domains if each is not None and each["domain"] == "delta.clustering")
    return [column for (column,) in json.loads(found["configuration"])["clusteringColumns"]]


def names(place):
    return sorted(path.name for path in place.rglob("*.json"))


@pytest.mark.long
def test_files_of_committed_batches_are_cleaned_and_each_row_is_there_once(folder):
    here = folder.folder
    folder.write("src/a.py", PYTHON.replace("{folder}", str(here)))
    folder.write("src/b.sql", SQL.replace("{folder}", str(here)))
    for number in (1, 2, 3):
        for place in ("in", "more"):
            folder.feed(f"{place}/{number}.json", {"id": number, "name": "x"})
    assert {each.result for each in folder.run().values()} == {"completed"}
    # A file is cleaned when the batch behind its own begins: that of the last batch is still there.
    left, moved = names(here / "more"), names(here / "done")
    assert (len(names(here / "in")), len(left), sorted(left + moved)) == (1, 1, ["1.json", "2.json", "3.json"])
    for place in ("in", "more"):
        folder.feed(f"{place}/4.json", {"id": 4, "name": "x"})
    # Without their checkpoints flows go on from the ledgers, though files of it are gone.
    shutil.rmtree(here / "lake/_rivermouth/pipelines/shop/checkpoints")
    assert {each.result for each in folder.run().values()} == {"completed"}
    for table in ("deleted", "moved"):
        assert folder.rows(f"default.{table}", "id") == [(1,), (2,), (3,), (4,)]
    assert "4.json" in names(here / "in")
    assert (clustering(folder, "deleted"), clustering(folder, "moved")) == (["id"], ["name", "id"])
