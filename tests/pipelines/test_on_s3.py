"""A pipeline whose files and lake are on S3: the same tables, read, written, looked at and audited there."""

import json
from pathlib import Path

import pytest
from deltalake import DeltaTable

from rivermouth.pipelines import commands, dead_letters, status
from rivermouth.pipelines.audit import audited
from rivermouth.pipelines.tables.described import chosen, described

PYTHON = """
from pyspark import pipelines as dp

@dp.table
@dp.expect_or_dead_letter("small", "amount < 10")
def orders():
    return (
        spark.readStream.format("cloudFiles")
        .option("cloudFiles.format", "json")
        .option("cloudFiles.schemaHints", "amount int")
        .load(spark.conf.get("orders.path"))
        .select("id", "amount")
    )

@dp.materialized_view
def total():
    return spark.read.table("orders").selectExpr("sum(amount) AS total")
"""


def rows_of(table, options, columns):
    found = DeltaTable(table.replace("s3a://", "s3://"), storage_options=options).to_pyarrow_table(columns=columns)
    return sorted(tuple(row.values()) for row in found.to_pylist())


@pytest.mark.long
def test_a_pipeline_reads_files_and_keeps_tables_on_s3(tmp_path, s3, bucket, spark):
    bucket_name = bucket()
    lake, store = f"s3a://{bucket_name}/lake", s3.store
    (tmp_path / "code.py").write_text(PYTHON)
    conf = "".join(f"    {key}: '{value}'\n" for key, value in s3.spark_conf.items())
    (tmp_path / "rivermouth.yml").write_text(
        f"name: shop\nlake: {lake}\nspark:\n  conf:\n{conf}"
        "pipelines:\n  shop:\n    files: [code.py]\n"
        f"    configuration: {{orders.path: 's3://{bucket_name}/in'}}\n"
    )

    def feed(name, *rows):
        with store.open_output_stream(f"{bucket_name}/in/{name}") as stream:
            stream.write("".join(f"{json.dumps(row)}\n" for row in rows).encode())

    def run():
        (pipeline,) = commands.pipelines(tmp_path / "rivermouth.yml")
        return pipeline, {each.dataset: each.error and str(each.error) for each in commands.run(pipeline)}

    feed("1.json", {"id": 1, "amount": 5}, {"id": 2, "amount": 50})
    pipeline, failures = run()
    assert failures == {"orders": None, "total": None}
    feed("2.json", {"id": 3, "amount": 7})
    # A checkpoint that is gone brings no file twice.
    checkpoints = f"{lake.removeprefix('s3a://')}/_rivermouth/pipelines/shop/checkpoints"
    store.delete_dir(checkpoints)
    assert run()[1] == failures
    options = {
        "AWS_ENDPOINT_URL": s3.endpoint,
        "AWS_ACCESS_KEY_ID": s3.spark_conf["spark.hadoop.fs.s3a.access.key"],
        "AWS_SECRET_ACCESS_KEY": s3.spark_conf["spark.hadoop.fs.s3a.secret.key"],
        "AWS_REGION": "us-east-1",
        "AWS_ALLOW_HTTP": "true",
    }
    assert rows_of(f"{lake}/default/orders", options, ["id", "amount"]) == [("1", 5), ("3", 7)]
    assert rows_of(f"{lake}/default/total", options, ["total"]) == [(12,)]
    found = status.status(pipeline)
    assert not found.is_wrong, found
    assert [(each.dataset, each.totals.written, each.totals.dead_lettered) for each in found.datasets] == [
        ("orders", 2, 1),
        ("total", 1, 0),
    ]
    assert [(each.dataset, each.rows, each.dead_letters, each.problems) for each in audited(pipeline)] == [
        ("orders", 2, 1, ()),
        ("total", 1, 0, ()),
    ]
    assert {each.table: each.rows for each in described(chosen([pipeline])) if each.exists} == {
        "default.orders": 2,
        "default.orders__dead_letters": 1,
        "default.total": 1,
    }
    (letter,) = dead_letters.shown(pipeline, ["orders"], dead_letters.LetterFilter(), limit=5)
    assert json.loads(letter.row) == {"id": "2", "amount": 50}
    assert not any(Path(tmp_path).glob("**/_delta_log"))
