"""Sources that leave out the files of the first start of their flow, when they are written in another way later."""

from __future__ import annotations

import shutil

import pytest

from rivermouth.engine.query.query_events import CheckpointMade

PYTHON = """
from pyspark import pipelines as dp

{view}
def files():
    options = {{"cloudFiles.format": "json", "cloudFiles.includeExistingFiles": "false", {more}}}
    return spark.readStream.format("cloudFiles").options(**options).schema("id INT").load({path})

@dp.table
def new():
    return {source}
"""
SQL = """
CREATE STREAMING TABLE fresh AS
SELECT * FROM STREAM read_files(PATH => 'in', format => 'json', schema => 'id INT', includeExistingFiles => false)
"""

LATER = """
CREATE FLOW later AS INSERT INTO fresh BY NAME
SELECT * FROM STREAM read_files('later', format => 'json', schema => 'id INT', includeExistingFiles => false);
"""


def test_the_first_start_is_that_of_the_flow(folder):
    """The table of the files that it has read says so, however the source is written and wherever its state is."""
    folder.write("src/a.py", PYTHON.format(view="", more="", path='"in"', source="files()"))
    folder.feed("in/1.json", {"id": 1})
    assert folder.run()["new"].error is None
    assert folder.rows("default.new") == []
    (folder.folder / "in/1.json").unlink()
    shutil.rmtree(folder.folder / "lake/_rivermouth")
    folder.write("src/b.sql", SQL)
    more = '"cloudFiles.schemaLocation": "kept", "path": "in/"'
    view, source = "@dp.temporary_view", 'spark.readStream.table("files")'
    folder.write("src/a.py", PYTHON.format(view=view, more=more, path="", source=source))
    folder.feed("in/2.json", {"id": 2})
    assert {name: each.error for name, each in folder.run().items()} == {"new": None, "fresh": None}
    assert (folder.rows("default.new"), folder.rows("default.fresh")) == ([(2,)], [])
    assert (folder.folder / "kept/_schemas/existing.txt").read_text() == ""
    # A flow that begins later, with a source of its own, has its own first start.
    folder.write("src/b.sql", f"{SQL.rstrip()};\n{LATER}")
    folder.feed("later/1.json", {"id": 9})
    folder.feed("in/3.json", {"id": 3})
    folder.run()
    assert (folder.rows("default.new"), folder.rows("default.fresh")) == ([(2,), (3,)], [(3,)])


FAILING = """
from pyspark import pipelines as dp

def rows():
    return spark.readStream.schema("id int").json("wrong").where("id IS NOT NULL")

@dp.table
@dp.expect_or_fail("positive", "id > 0")
def checked():
    return rows()

@dp.foreach_batch_sink(name="told")
def told(rows, number):
    if rows.where("id <= 0").count():
        raise ValueError("small")
    rows.write.format("delta").mode("append").save("{folder}/lake/told")

@dp.append_flow(target="told")
def telling():
    return rows()
"""


@pytest.mark.long
def test_a_first_batch_that_failed_is_planned_again_where_its_sources_were_wrong(folder):
    text = FAILING.replace("{folder}", str(folder.folder))
    folder.write("src/a.py", text)
    folder.feed("wrong/1.json", {"id": 0}, {"id": 5})
    folder.feed("right/1.json", {"id": 1})
    codes = {name: each.error.code for name, each in folder.run().items()}
    assert codes == {"checked": "ROW_EXPECTATION_FAILED", "told": "QUERY_FAILED"}

    def replaced():
        return {each.flow: each.reason for each in folder.events if isinstance(each, CheckpointMade)}

    # The same files in another query are the batch that was planned.
    folder.write("src/a.py", text.replace("id IS NOT NULL", "id < 9"))
    assert {name: each.error.code for name, each in folder.run().items()} == codes
    assert replaced() == {}
    folder.write("src/a.py", text.replace("wrong", "right"))
    assert {name: each.error for name, each in folder.run().items()} == {"checked": None, "told": None}
    reason = "its sources have changed since its first batch was planned"
    assert replaced() == {"checked": reason, "telling": reason}
    assert folder.rows("default.checked") == folder.rows("told") == [(1,)]
