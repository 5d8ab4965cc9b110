"""Files that are gone between the plan of a batch and its rows are reported, and never left out silently."""

PYTHON = """
from pyspark import pipelines as dp

options = {{"cloudFiles.format": "json", "cloudFiles.schemaHints": "a int", {ignored}}}

def files():
    return spark.readStream.format("cloudFiles").options(**options).load("in")

@dp.table
@dp.expect_or_fail("small", "a < 10")
def checked():
    return files()

dp.create_streaming_table("keyed")
dp.create_auto_cdc_flow("keyed", "changes", ["a"], "a")

@dp.temporary_view
def changes():
    return files().selectExpr("IF(a < 10, a, raise_error('great')) AS a")

@dp.foreach_batch_sink(name="told")
def told(rows, number):
    if rows.where("a >= 10").count():
        raise ValueError("great")

@dp.append_flow(target="told")
def telling():
    return files()
"""


def test_a_batch_whose_files_are_gone_is_not_written_without_them(folder):
    folder.write("src/a.py", PYTHON.format(ignored=""))
    folder.feed("in/1.json", {"a": 1})
    (folder.folder / "in/2.json").write_text('{"a": 10}\n')
    found = folder.run()
    codes = {name: each.error.code for name, each in found.items() if each.error}
    assert codes == {"checked": "ROW_EXPECTATION_FAILED", "keyed": "QUERY_FAILED", "told": "QUERY_FAILED"}
    (folder.folder / "in/2.json").unlink()
    told = {name: str(each.error) for name, each in folder.run().items() if each.error}
    assert told == {
        name: (
            f"[FILES_OF_BATCH_GONE] flow {flow}: files of its batch are gone (1, the first is "
            f"file:{folder.folder}/in/2.json); the batch was not read\n"
            f"  at: src/a.py:{line}\n"
            "  hint: put them back, or give the source the option ignoreMissingFiles: true; then they count as read, "
            "without rows"
        )
        for name, flow, line in (("checked", "checked", 9), ("keyed", "keyed", 15), ("told", "telling", 26))
    }
    assert folder.rows("default.checked") == folder.rows("default.keyed") == []
    folder.write("src/a.py", PYTHON.format(ignored='"ignoreMissingFiles": "true"'))
    assert {name: each.error for name, each in folder.run().items() if each.error} == {}
    assert [row[0] for row in folder.rows("default.checked")] == [1]
    assert [row[0] for row in folder.rows("default.keyed")] == [1]
