"""One contestant in a process of its own: started, warmed up and timed at the parent's word.

Commands come as JSON lines on stdin, answers go as JSON lines to a file descriptor of their own, because
Spark talks on stdout. The process ends with its stdin.
"""

from __future__ import annotations

import json
import os
import sys
import time
import traceback
from typing import Any

from bench import contestants, small

DOORS = {name: contestant for name, (_session, contestant) in contestants.CONTESTANTS.items()}
SESSIONS = {name: make for name, (make, _contestant) in contestants.CONTESTANTS.items()}


def main(name: str, replies: int) -> None:
    """Starts the contestant's session, says so, and answers commands until there are no more."""
    spark = SESSIONS.get(name, contestants.tuned_session)()
    with os.fdopen(replies, "w") as out:
        print(json.dumps({"ready": True}), file=out, flush=True)
        for line in sys.stdin:
            print(json.dumps(_answer(name, spark, json.loads(line))), file=out, flush=True)
    spark.stop()


def _answer(name: str, spark: Any, command: dict[str, Any]) -> dict[str, Any]:
    what = command.pop("what", None)
    job = contestants.Job(command.pop("servers"), command.pop("topic"), command.pop("folder"))
    started = time.monotonic()
    try:
        extra = getattr(small, what)(spark, job, **command) if what else DOORS[name](spark, job)
    except Exception as error:  # noqa: BLE001 - the parent shows it
        traceback.print_exc()
        return {"error": f"{type(error).__name__}: {error}"}
    return {"seconds": time.monotonic() - started, **extra}


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
