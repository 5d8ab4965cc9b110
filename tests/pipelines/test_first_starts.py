"""Sources that leave out the files of the first start of their flow, when they are written in another way later."""

from __future__ import annotations

import shutil

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
