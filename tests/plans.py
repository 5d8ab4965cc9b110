"""Texts of Spark's plans, for tests that look at them."""

from rivermouth.ports.internals.sessions import active, settings

WHOLE_TEXT = 2147483632


def plan_text(frame, stage):
    """The plan of a frame, whole: ``analyzed``, ``optimizedPlan`` or ``executedPlan``.

    Spark cuts the text as the session says that is active in the calling thread, whichever session has the frame.
    """
    spark = frame.sparkSession
    with settings(spark, {"spark.sql.maxPlanStringLength": WHOLE_TEXT}), active(spark):
        return getattr(frame._jdf.queryExecution(), stage)().toString()
