"""A process with one Spark session: started, warmed up and timed at the parent's word.

Commands come as JSON lines on stdin, answers go as JSON lines to a file descriptor of their own, because
Spark talks on stdout. The process ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import TYPE_CHECKING, Any

from bench import contestants, kafka_sinks, lookups, pipelines, routing, small, upserts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SMALL = {"hundreds": small.hundreds, "looks": small.looks, "follow": small.follow}


def main(session: str, replies: int) -> None:
    """Starts the session, says so, and answers commands until there are no more."""
    spark = contestants.SESSIONS[session]()
    with os.fdopen(replies, "w") as out:
        print(json.dumps({"ready": True}), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(_answer(spark, json.loads(line))), file=out, flush=True)
    spark.stop()


def _answer(spark: SparkSession, command: dict[str, Any]) -> dict[str, Any]:
    what = command.pop("what")
    job = contestants.Job(command.pop("servers"), command.pop("topic"), command.pop("folder"))
    carry = (
        SMALL.get(what)
        or {
            **contestants.CONTESTANTS,
            **upserts.UPSERTS,
            **routing.ROUTES,
            **pipelines.PIPELINES,
            **kafka_sinks.KAFKA_SINKS,
            **lookups.LOOKUPS,
        }[what][1]
    )
    started = time.monotonic()
    try:
        extra = carry(spark, job, **command)
    except Exception as error:  # noqa: BLE001 - the parent shows it
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    return {"seconds": time.monotonic() - started, **extra}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
