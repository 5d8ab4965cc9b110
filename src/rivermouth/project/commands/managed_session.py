"""What a caller gives to the work of a command, and the Spark session in which it is done."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from rivermouth.engine.events import Listener
from rivermouth.engine.flow import task_failures
from rivermouth.engine.flow.jobs import Job
from rivermouth.engine.run.supervisor import Supervisor
from rivermouth.errors import RivermouthError
from rivermouth.ports.kafka.kafka_cluster import Kafka
from rivermouth.ports.spark import session, session_conf
from rivermouth.ports.spark.spark_errors import detach_from_jvm
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.project.resolved.settings import located_errors

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.ports.spark.session_conf import JvmUse


STOP_TIMEOUT_S: Final = 65.0
"""Bound on a stop that was asked for: a little more than the engine gives its batch in hand."""


class Stop:
    """The wish that a run ends. Any thread and a signal handler may utter it, before the run or during it."""

    def __init__(self) -> None:
        self._asked = threading.Event()
        self._supervisor: Supervisor | None = None
        self._kill: Callable[[], None] | None = None
        self._timer: threading.Timer | None = None
        self._begun = threading.Event()

    @property
    def begun(self) -> bool:
        """Whether flows have begun, which then end by themselves once they are told to."""
        return self._begun.is_set()

    @property
    def asked(self) -> bool:
        """Whether somebody wants the run to end."""
        return self._asked.is_set()

    def ask(self) -> None:
        """Lets every flow end after the batch in hand, and ends Spark if that takes longer than the bound.

        Guarantees:
            A batch that is not finished in time is not in the table; the next run carries it.
        """
        self._asked.set()
        if self._supervisor is not None:
            self._supervisor.stop()
            if self._timer is None:
                self._timer = threading.Timer(STOP_TIMEOUT_S, self.at_once)
                self._timer.daemon = True
                self._timer.start()

    def at_once(self) -> None:
        """Ends Spark, and with it the batch in hand, which is then not in the table."""
        self.ask()
        if self._kill is not None:
            self._kill()

    @contextmanager
    def over(self, supervisor: Supervisor, kill: Callable[[], None]) -> Iterator[None]:
        """Hands the wish on to ``supervisor`` while the block lasts."""
        self._supervisor, self._kill = supervisor, kill
        self._begun.set()
        if self.asked:
            self.ask()
        try:
            yield
        finally:
            self._supervisor = self._kill = None
            if self._timer is not None:
                self._timer.cancel()


def _ignore(_: Any) -> None:
    """Hears, and does nothing."""


@dataclass(frozen=True)
class RunHooks:
    """How the one who asks takes part in the work.

    Attributes:
        listener: Gets every event, one at a time.
        say: Gets a word on what goes on where there is no flow yet.
        waits: Gets a word on what takes its time, and is left when that is done.
        log: File for what Spark's JVM says; without one it goes to this process's own output.
        stop: Where the wish to end is uttered.
    """

    listener: Listener = _ignore
    say: Callable[[str], None] = _ignore
    waits: Callable[[str], AbstractContextManager[Any]] = nullcontext
    log: Path | None = None
    stop: Stop = field(default_factory=Stop)


NO_HOOKS: Final = RunHooks()


class ManagedSession:
    """The session of a door's work: the one that this process has already, or one that ends with the work.

    Args:
        project: Says how Spark is started.
        hooks: Whose log the JVM writes.
        use: What the JVM is for, if one is started for the work.
    """

    def __init__(self, project: ResolvedProject, hooks: RunHooks = NO_HOOKS, *, use: JvmUse = "drain") -> None:
        self._project = project
        self._extra = session_conf.jvm_conf(use)
        self._door = hooks
        self._owned = False
        self._session: SparkSession | None = None

    def __enter__(self) -> SparkSession:
        self._owned = not session.is_given()
        if not self._owned:
            return self._start()
        with self._door.waits("starting Spark"):
            return self._start()

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if self._owned and error is not None:
            detach_from_jvm(error)
        foreign = error is not None and not isinstance(error, RivermouthError)
        registry = task_failures.failure(str(error)) if foreign else None
        if self._owned and self._session is not None:
            session.end(self._session)
        if registry is not None:
            raise registry from error

    @property
    def restart(self) -> Callable[[], SparkSession] | None:
        """Makes another session after the JVM was lost; None for a session that is not ours."""
        return self._start if self._owned else None

    def kill(self) -> None:
        """Ends the JVM at once, if it is ours."""
        if self._owned and self._session is not None:
            session.kill(self._session)

    def _start(self) -> SparkSession:
        name = f"rivermouth {self._project.spec.name}"
        self._session = session.start(
            self._project.spark_settings,
            app_name=name,
            schemes=self._project.schemes,
            users_jars=self._project.jars,
            extra=self._extra,
            log=self._door.log,
        )
        return self._session


def check_broker(project: ResolvedProject, chosen: Sequence[Job] | None = None) -> None:
    """Checks that the project's Kafka cluster answers, so that a missing broker is reported before Spark starts.

    The cluster is not asked if all flows read tables.

    Raises:
        BrokerUnreachable: No broker answered.
        KafkaRefused: The broker does not let this client in.
    """
    if chosen is not None and all(each.flow.source is not None for each in chosen):
        return
    servers, options = project.bootstrap_servers, project.kafka_options()
    with located_errors(project.at("kafka", "bootstrap_servers")), Kafka(servers, options) as kafka:
        kafka.cluster_id()
