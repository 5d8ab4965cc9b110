"""What a door does with a project: run, plan, validate. The shell and Python share it."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql.types import StructType

from rivermouth.engine.events import Event, FlowFailed, Listener
from rivermouth.engine.orders import FlowOrder, FlowOutcome, Order, located
from rivermouth.engine.plan import FlowPlan, ahead, plan_order
from rivermouth.engine.requests import serve
from rivermouth.engine.schemas import settled, with_columns
from rivermouth.engine.sources import check_where
from rivermouth.engine.supervisor import Supervisor
from rivermouth.engine.table import table_shape
from rivermouth.errors import ArgumentInvalid, FlowBroken, FlowsFailed, ProjectProblems, RivermouthError, SchemaNotKept
from rivermouth.ports import delta, session
from rivermouth.ports.kafka import Kafka
from rivermouth.ports.lake_writer import LakeWriter
from rivermouth.ports.spark_errors import outlasting
from rivermouth.ports.storage import files_for
from rivermouth.project.arguments import check, checked, kinds_of, known
from rivermouth.project.ingest import Switch, ingest_spec, parse_switch
from rivermouth.project.orders import (
    DEBUG_OFFSETS,
    check_decision,
    check_static,
    each_of,
    order_of,
    run_orders,
    updating,
)
from rivermouth.project.reading import raise_all
from rivermouth.project.resolved import ResolvedProject, standing
from rivermouth.project.unstarted import TIMEOUT_S, noting
from rivermouth.rows import families, ledger, worker_failures
from rivermouth.spec import EndingOffsets

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from rivermouth.rows.adoption import Adoption
    from rivermouth.rows.gone import LossDecision
    from rivermouth.spec import Flow

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
class Door:
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


NOBODY: Final = Door()


class Spark:
    """The session of a door's work: the one that this process has already, or one that ends with the work."""

    def __init__(self, project: ResolvedProject, door: Door = NOBODY) -> None:
        self._project = project
        self._door = door
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
            outlasting(error)
        foreign = error is not None and not isinstance(error, RivermouthError)
        registry = worker_failures.failure(str(error)) if foreign else None
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
            log=self._door.log,
        )
        return self._session


def reach(project: ResolvedProject, chosen: Sequence[Order] | None = None) -> None:
    """Nothing, if the project's cluster answers: a broker that is not there is told before Spark is started.

    For flows that are all over tables it is not asked.

    Raises:
        BrokerUnreachable: No broker answered.
        KafkaRefused: The broker does not let this client in.
    """
    if chosen is not None and all(each.flow.source is not None for each in chosen):
        return
    servers, options = project.bootstrap_servers, project.kafka_options()
    with standing(project.at("kafka", "bootstrap_servers")), Kafka(servers, options) as kafka:
        kafka.cluster_id()


def run(
    project: ResolvedProject,
    names: Sequence[str] = (),
    *,
    follow: bool = False,
    door: Door = NOBODY,
    decision: LossDecision | None = None,
    adoption: Adoption | None = None,
    update_schema: bool = False,
) -> list[FlowOutcome]:
    """Carries the flows of these names, or all, side by side in one Spark session.

    Args:
        project: Its flows.
        names: Flows; all where empty.
        follow: Go on at each flow's trigger until ``door.stop`` is asked; else end when all is read.
        door: Hears of it, and may stop it.
        decision: About data that is gone, for the one flow that is named.
        adoption: Of a table that another program wrote, for the one flow that is named.
        update_schema: Infer the schemas again of those flows that infer theirs, and take what is new.

    Returns:
        An outcome a flow, in the order of the file; a flow that failed did not stop the others.

    Raises:
        ArgumentInvalid: A decision for more than one flow, or for a trial.
        RivermouthError: Nothing was run at all.

    Guarantees:
        Run twice: the second run goes on where the tables' ledgers stand. Stopped anywhere: every record is in
        the table and its dead letters once, or comes with the next run.
    """
    chosen = run_orders(project, names, follow=follow)
    if decision or adoption:
        check_decision(project, chosen)
        chosen = each_of(chosen, lambda order: replace(order, decision=decision, adoption=adoption))
    if update_schema:
        chosen = updating(chosen)
    engine = Spark(project, door)
    with noting(project, chosen):
        reach(project, chosen)
    with noting(project, chosen), engine as spark:
        if project.debug and not follow:
            chosen = each_of(chosen, functools.partial(_limited, spark))
        supervisor = _supervisor(project, door, engine, spark)
        with door.stop.over(supervisor, engine.kill):
            outcomes = supervisor.run(chosen, keep_following=follow)
    if door.stop.asked:
        # Whoever told the flows to end may have ended Spark too: what broke by that is no failure.
        return [replace(each, error=None) if isinstance(each.error, FlowBroken) else each for each in outcomes]
    return outcomes


def carried_alone(project: ResolvedProject, order: FlowOrder, door: Door) -> tuple[FlowOutcome, int | None]:
    """One flow drained, and the rows of its table afterwards; None if there is no table.

    Raises:
        RivermouthError: Nothing was run at all.
    """
    engine = Spark(project, door)
    with noting(project, [order]), engine as spark:
        supervisor = _supervisor(project, door, engine, spark)
        with door.stop.over(supervisor, engine.kill):
            (outcome,) = supervisor.run([order], keep_following=False)
        there = not session.has_ended(supervisor.spark) and delta.exists(
            files_for(order.places.table, supervisor.spark), order.places.table
        )
        rows = supervisor.spark.read.format("delta").load(order.places.table).count() if there else None
    if door.stop.asked and isinstance(outcome.error, FlowBroken):
        outcome = replace(outcome, error=None)
    return outcome, rows


def _supervisor(project: ResolvedProject, door: Door, engine: Spark, spark: SparkSession) -> Supervisor:
    lake = LakeWriter(project.spark_conf, timeout_s=TIMEOUT_S)
    return Supervisor(spark, _without_echo(door), serve, restart=engine.restart, lake=lake)


def raise_failures(outcomes: Sequence[FlowOutcome]) -> None:
    """Nothing, if no flow failed.

    Raises:
        FlowsFailed: Some did; names them.
    """
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if failed:
        names = ", ".join(outcome.flow for outcome in failed)
        raise FlowsFailed(failed=len(failed), total=len(outcomes), names=names) from failed[0].error


def validate(project: ResolvedProject, names: Sequence[str] = (), door: Door = NOBODY) -> list[Flow]:
    """The flows, after everything was checked that needs no broker: by ourselves first, then by Spark.

    Raises:
        ProjectProblems: Several things are wrong; all are told.
        RivermouthError: The one thing that is wrong.
    """
    check_static(project, names)
    flows = project.flows(tuple(dict.fromkeys(families.parted(name)[0] for name in names)))
    # One child says for all what is wrong with a family.
    shown = {families.parted(each.name)[0]: each for each in reversed(project.stand_ins())}
    problems: list[RivermouthError] = []
    with Spark(project, door) as spark:
        for order in [order_of(project, shown[flow.name]) for flow in flows]:
            try:
                _check_shape(spark, order)
            except ProjectProblems as several:
                problems += located(several, order).problems
            except RivermouthError as error:
                problems.append(located(error, order))
    problems.sort(key=lambda problem: int((problem.at or ":0").rpartition(":")[2]))
    raise_all(problems, project.file)
    return flows


def _check_shape(spark: SparkSession, order: FlowOrder) -> None:
    """Nothing, if Spark takes the flow's schema, expectations and table layout, and the condition on its source."""
    if order.source is not None:
        check_where(session.for_flow(spark), order.source, order.flow.name)
    try:
        flow = settled(spark, order.flow, files_for(order.places.lake, spark), order.places)
    except SchemaNotKept:
        # Its columns come with its first run. What it says of them itself can be read.
        with_columns(order.flow, StructType([]))
    else:
        table_shape(session.for_flow(spark), flow)


def plan(
    project: ResolvedProject, names: Sequence[str] = (), door: Door = NOBODY, *, adoption: Adoption | None = None
) -> list[FlowPlan]:
    """What a run would do now, a plan a flow; what would stop a flow is its plan's ``problem``.

    With ``adoption``, for the one flow that is named, what a run with it would do.

    Raises:
        ArgumentInvalid: An adoption for more than one flow.
        RivermouthError: Nothing would be run at all.

    Guarantees:
        Reads only: no table, no checkpoint, no lease is made.
    """
    run_as = run_orders(project, names)
    if adoption:
        check_decision(project, run_as)
    reach(project, run_as)
    wanted = each_of(run_as, lambda order: replace(order, adoption=adoption))
    with Spark(project, door) as spark:
        return [plan for order in wanted for plan in plan_order(spark, order)]


@checked
def ingest(topic: str | None = None, *, widgets: bool = False, door: Door = NOBODY, **arguments: Any) -> FlowOutcome:
    """One topic into one table, without a file: ``ingest("orders", lake="./lake")``.

    Without ``format`` and ``schema`` the schema is inferred at the first run, and a topic that is not JSON stays bytes.

    Args:
        topic: Name of the topic.
        widgets: Whether the widgets of a Databricks notebook or job are arguments too, the topic among them. Those
            are taken that bear the name of an argument, all others are left alone, and so is an empty one. What is
            given here wins, also where it is None; one of ``follow``, ``once`` and ``streaming`` wins over all three.
            Where an argument is a mapping or a list, its widget holds JSON.
        door: Hears of it, and may stop it.
        **arguments: As ``project.ingest.ingest_spec`` takes them: ``bootstrap_servers``, ``lake``, ``format``,
            ``schema``, ``key_format``, ``table``, ``starting_offsets``, ``kafka_options``, ``follow``, ``debug`` …

    Raises:
        WidgetsMissing: The widgets were asked for, and this is no Databricks notebook or job.
        ArgumentInvalid: There is no such argument, or it is of another type.
        RivermouthError: The arguments contradict each other, or the flow failed.

    Guarantees:
        As ``run``.
    """
    from rivermouth.project.schema import ingest_project  # noqa: PLC0415 - that imports this one where it starts Spark

    kinds = kinds_of(ingest_spec)
    known("ingest", arguments, kinds)
    check("ingest", kinds, arguments)
    if topic is not None:
        arguments["topic"] = topic
    if widgets:
        from rivermouth.project.widgets import with_widgets  # noqa: PLC0415 - hardly anybody asks for them

        arguments = with_widgets(arguments)
    if "topic" not in arguments:
        detail = "it is neither an argument nor a widget" if widgets else "it is missing"
        raise ArgumentInvalid(argument="topic", detail=detail, fix='rivermouth.ingest("orders", ...)')
    project, _ = ingest_project(**arguments)
    update = wants_update(project, arguments.get("update_schema"))
    (outcome,) = run(project, follow=project.follow, door=door, update_schema=update)
    if outcome.error is not None:
        raise outcome.error
    return outcome


def wants_update(project: ResolvedProject, switch: Switch) -> bool:
    """Whether a run shall infer the schema again; a topic whose values stay bytes has none."""
    return bool(parse_switch("update_schema", switch)) and any(flow.format.infers for flow in project.flows())


def _without_echo(door: Door) -> Listener:
    """The door's listener, spared what breaks because somebody wanted the run to end."""
    echo = f"[{FlowBroken.code}]"

    def hear(event: Event) -> None:
        if not (door.stop.asked and isinstance(event, FlowFailed) and event.error.startswith(echo)):
            door.listener(event)

    return hear


def _limited(spark: SparkSession, order: FlowOrder) -> FlowOrder:
    """The order with an end after its first ``DEBUG_OFFSETS`` offsets; as it is where they cannot be known."""
    try:
        ranges = ledger.limited(ahead(spark, order), DEBUG_OFFSETS)
    except RivermouthError:
        return order  # the run itself will say so, as this flow's own failure
    ending = EndingOffsets(kind="offsets", offsets=ledger.ends(ranges))
    return replace(order, flow=order.flow.model_copy(update={"ending_offsets": ending}))
