"""A process that runs a flow and kills itself, or its JVM, at a given event.

Started as ``python -m tests.crashes.child``. It starts Spark at once (on ``CHILD_MASTER``; ``CHILD_CONF`` has further
options, such as those of a lake on S3), or attaches to a JVM that is there already (``CHILD_GATEWAY``), says
``{"jvm": pid}`` and waits for one line of JSON on its standard input:

``scene``: see ``Scene.to_json``; ``follow``: whether it follows; ``kill``: none, or
``on`` (name of a step, or of a class of events), ``nth`` (counted from 1), ``who`` (python, jvm, both),
``after_return`` (kill only after foreachBatch's callback has returned, with the JVM frozen before it hears of
it), ``keep_jvm`` (the JVM outlives Python: its standard input stays open), ``freeze_jvm`` (stop it, so that it
goes on later), ``delay_s``, ``once_writing`` (kill when a data file of that table has been begun);
``replay``: ask for a replay before (drain) or between batches (follow);
``restart``: make a new session when the JVM is gone;
a ``scene`` of a ``pipeline`` is the folder of one, which is run once, with ``kill`` as above;
``tidy``: run no flow, but OPTIMIZE, VACUUM or RESTORE to ``version`` on its table. A child that follows and is not
killed stops when it has caught up, unless it shall ``stay``.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from delta.tables import DeltaTable
from pyspark import SparkConf, SparkContext
from pyspark.java_gateway import launch_gateway
from pyspark.sql import SparkSession
from tests.audit.planted import plant_what_the_environment_says
from tests.crashes.scene import CaughtUp, Scene

from rivermouth.engine.events import BatchDone, Event, StepReached
from rivermouth.engine.run.requests import handle_pending
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.pipelines import commands
from rivermouth.ports.lake.lake_reader import LakeReader
from rivermouth.ports.spark import session, session_conf
from rivermouth.spec import SparkSettings

SHORT_LIVED = {
    "spark.driver.extraJavaOptions": "-Xss16m -XX:+UseSerialGC",
    "spark.sql.codegen.wholeStage": "false",
}


TIDY: dict[str, Callable[[DeltaTable, dict[str, Any]], object]] = {
    "optimize": lambda table, _job: table.optimize().executeCompaction(),
    "vacuum": lambda table, _job: table.vacuum(),
    "restore": lambda table, job: table.restoreToVersion(job["version"]),
}


def say(told: dict[str, Any]) -> None:
    """Says a line on the standard output, in one write: threads of several flows say theirs at one time."""
    os.write(sys.stdout.fileno(), f"{json.dumps(told)}\n".encode())


def start_spark() -> Any:
    folder = Path(os.environ["CHILD_FOLDER"]) / str(time.time_ns())
    conf = json.loads(os.environ.get("CHILD_CONF", "{}"))
    settings = SparkSettings(master=os.environ["CHILD_MASTER"], driver_memory="1g", conf=conf)
    extra = {**session_conf.local_folder_conf(folder), **SHORT_LIVED}
    return session.start(
        settings, app_name="child", schemes=["s3a"] if any("s3a" in name for name in conf) else [], extra=extra
    )


def look_at(scene: Scene) -> Callable[[], Scene]:
    """Gives the scene as plain readers find it on this machine."""
    if not scene.lake:
        return lambda: scene
    store = LakeReader(json.loads(os.environ["CHILD_CONF"]), timeout_s=10)._system(scene.lake)
    return lambda: replace(scene, folder=scene.folder / str(os.getpid())).fetched(store)


def gateway_of(spark: Any) -> dict[str, Any]:
    """How another process finds the JVM of ``spark``."""
    gateway = spark.sparkContext._gateway
    parameters = gateway.gateway_parameters
    return {"port": parameters.port, "secret": parameters.auth_token, "jvm": gateway.proc.pid}


def attach(gateway: dict[str, Any]) -> Any:
    """A session in the JVM of another process, which it will outlive."""
    os.environ["PYSPARK_GATEWAY_PORT"] = str(gateway["port"])
    os.environ["PYSPARK_GATEWAY_SECRET"] = gateway["secret"]
    link = launch_gateway()
    java_session = link.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    java_context = link.jvm.org.apache.spark.api.java.JavaSparkContext.fromSparkContext(java_session.sparkContext())
    context = SparkContext(gateway=link, jsc=java_context, conf=SparkConf(_jconf=java_context.getConf()))
    return SparkSession(context, java_session)


class Killer:
    """Hears all events and kills at the one that it waits for."""

    def __init__(self, spark: Any, jvm: int, order: dict[str, Any] | None) -> None:
        self._order = order
        self._spark = spark
        self._jvm = jvm
        self._seen = 0

    def __call__(self, event: Event) -> None:
        self.at(event.step if isinstance(event, StepReached) else type(event).__name__)

    def at(self, name: str) -> None:
        """Hears the name of a step or event."""
        say({"event": name})
        if self._order is None or name != self._order["on"]:
            return
        self._seen += 1
        if self._seen == self._order.get("nth", 1):
            self._prepare()

    def _prepare(self) -> None:
        order = self._order or {}
        if order.get("keep_jvm"):
            pipe = self._spark.sparkContext._gateway.proc.stdin
            holder = subprocess.Popen(["sleep", "600"], pass_fds=[pipe.fileno()])
            say({"holder": holder.pid})
        if order.get("after_return"):
            # The JVM cannot hear that the callback has returned, so its own commit file is never written.
            os.kill(self._jvm, signal.SIGSTOP)
            threading.Timer(0.3, self._kill).start()
        elif order.get("once_writing"):
            threading.Thread(target=self._kill_once_writing, args=[Path(order["once_writing"])], daemon=True).start()
        elif order.get("delay_s"):
            threading.Timer(order["delay_s"], self._kill).start()
        else:
            self._kill()

    def _kill_once_writing(self, table: Path) -> None:
        """Kills as soon as the JVM has begun another data file of the table."""
        before = set(table.glob("**/*.parquet"))
        while set(table.glob("**/*.parquet")) <= before:
            time.sleep(0.001)
        self._kill()

    def _kill(self) -> None:
        order = self._order or {}
        if order.get("freeze_jvm"):
            os.kill(self._jvm, signal.SIGSTOP)
        if order["who"] in {"jvm", "both"}:
            os.kill(self._jvm, signal.SIGKILL)
        if order["who"] in {"python", "both"}:
            os.kill(os.getpid(), signal.SIGKILL)


def update(kill: Killer, folder: str) -> int:
    """Runs the pipeline in a folder."""
    (pipeline,) = commands.pipelines(folder)
    options = commands.UpdateOptions(listener=lambda event: kill.at(type(event).__name__), step=kill.at)
    failed = [str(each.error) for each in commands.run(pipeline, options) if each.error is not None]
    say({"error": failed[0] if failed else None})
    return 1 if failed else 0


def main() -> int:
    there = json.loads(os.environ.get("CHILD_GATEWAY", "null"))
    spark = attach(there) if there else start_spark()
    say(there or gateway_of(spark))
    line = sys.stdin.readline()
    if not line:
        return 0  # this process only kept its JVM for others
    plant_what_the_environment_says()
    job = json.loads(line)
    if "pipeline" in job["scene"]:
        return update(Killer(spark, (there or gateway_of(spark))["jvm"], job.get("kill")), job["scene"]["pipeline"])
    scene = Scene.from_json(job["scene"])
    if "tidy" in job:
        TIDY[job["tidy"]](DeltaTable.forPath(spark, scene.places.table), job)
        return 0
    restart = start_spark if job.get("restart") else None
    jvm = (there or gateway_of(spark))["jvm"]
    kill = Killer(spark, jvm, job.get("kill"))
    caught_up = CaughtUp(scene, look_at(scene))
    follows = job.get("follow", False)
    if follows and not job.get("stay") and job.get("kill") is None and caught_up.is_done():
        # No batch would come after which it could stop.
        follows = False

    def hear(event: Event) -> None:
        kill(event)
        if follows and isinstance(event, BatchDone) and not job.get("stay") and caught_up(event):
            supervisor.stop()

    supervisor = Supervisor(spark, hear, handle_pending, restart)
    outcome = supervisor.run([scene.order], keep_following=follows)[0]
    say({"error": None if outcome.error is None else str(outcome.error)})
    return 0 if outcome.error is None else 1


if __name__ == "__main__":
    # Spark's own shutdown costs a second, and nothing here needs it.
    code = main()
    sys.stdout.flush()
    os._exit(code)
