"""What PySpark keeps of a function for ``foreachBatch``."""

from __future__ import annotations

import pytest
from pyspark.errors import StreamingQueryException
from tests.pipelines.conftest import kept_functions

from rivermouth.ports.internals import gateway


class Flow:
    """Has Java objects, which keep the query in the JVM."""

    def __init__(self, *, fails):
        self.batches = []
        self.fails = fails

    def __call__(self, frame, batch_id):
        self.batches.append((batch_id, frame))
        if self.fails:
            raise RuntimeError


@pytest.mark.parametrize("fails", [False, True])
def test_of_a_query_that_has_ended_nothing_is_kept(spark, tmp_path, fails):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"id": 1}\n')
    stream = spark.readStream.schema("id bigint").json(str(tmp_path / "in"))
    before, flow = kept_functions(), Flow(fails=fails)
    writer = stream.writeStream.foreachBatch(flow).option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start()
    try:
        query.awaitTermination(60)
    except StreamingQueryException:
        assert fails
    assert [number for number, _ in flow.batches] == [0]
    assert len([each for each in kept_functions() if each not in before]) == 1
    for _ in range(2):
        gateway.release_function(spark, flow)
        assert not [each for each in kept_functions() if each not in before]
