"""What can be done with a project in Python: a method for each command of the shell, over the same functions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from rivermouth.project.resolved.arguments import checked
from rivermouth.project.resolved.resolved_project import ResolvedProject

if TYPE_CHECKING:
    from rivermouth.domain.ledger.adoption import Adoption
    from rivermouth.domain.ledger.data_loss import LossDecision
    from rivermouth.domain.project.sample_records import RecordVerdict
    from rivermouth.engine.audit.audit import FlowAudit
    from rivermouth.engine.events import Listener
    from rivermouth.engine.flow.jobs import FlowOutcome
    from rivermouth.engine.report.checkpoints import CheckpointReport
    from rivermouth.engine.report.flow_status import FlowStatus
    from rivermouth.engine.report.plan import FlowPlan
    from rivermouth.engine.schema.infer import Inference
    from rivermouth.engine.schema.kept_schemas import SchemaUpdate
    from rivermouth.project.commands.checks.doctor import Finding
    from rivermouth.project.commands.checks.health import BrokenRule
    from rivermouth.project.commands.managed_session import RunHooks
    from rivermouth.project.commands.rebuild import Rebuilt
    from rivermouth.schemas.schema_versions import KeptSchema


class Operations(ResolvedProject):
    """The methods; the work itself loads Spark, so it is imported when it is asked for.

    Names of flows and tables are arguments of their own; without any, all are meant. Where Spark is needed, a session
    that is there already is used, in a clone; else one is started and ended.
    """

    @checked
    def run(
        self,
        *names: str,
        follow: bool = False,
        listener: Listener | None = None,
        decision: LossDecision | None = None,
        adoption: Adoption | None = None,
        update_schema: bool = False,
    ) -> list[FlowOutcome]:
        """Carries the flows of these names, or all; see ``project.commands.run_flows.run``.

        Args:
            names: Flows; all where none is named.
            follow: Go on at each flow's trigger; else end when all is read.
            listener: Gets every event.
            decision: One about data that is gone, for the one flow that is named.
            adoption: Of a table that another program wrote, for the one flow that is named.
            update_schema: Infer the schemas again of those flows that infer theirs, and take what is new.

        Returns:
            An outcome a flow, in the order of the file.

        Raises:
            FlowsFailed: A flow failed; the others went on.
            RivermouthError: Nothing was run at all.

        Guarantees:
            Run twice: the second run goes on where the tables' ledgers stand. Stopped anywhere: every record is in
            the table and its dead letters once, or comes with the next run.
        """
        from rivermouth.engine.flow.jobs import StartActions  # noqa: PLC0415
        from rivermouth.project.commands import run_flows  # noqa: PLC0415

        outcomes = run_flows.run(
            self,
            names,
            follow=follow,
            hooks=_hooks(listener),
            start=StartActions(decision=decision, adoption=adoption, update_schema=update_schema),
        )
        run_flows.raise_failures(outcomes)
        return outcomes

    @checked
    def rebuild(self, name: str, *, why: str = "", listener: Listener | None = None) -> Rebuilt:
        """Makes the table of one flow again, from the table that the flow reads.

        Args:
            name: A flow with ``source: {table: ...}``.
            why: The reason, for the ledger.
            listener: Gets every event.

        Raises:
            RebuildRefused: The flow does not read a table, or its own has rows that the source could not bring back.
            FlowsFailed: The flow failed.
            RivermouthError: Nothing was run at all.

        Guarantees:
            Run twice: emptied and made twice, with the same rows. Stopped anywhere: the table is as it was, or emptied
            and partly filled, and the next run of the flow carries the rest.
        """
        from rivermouth.project.commands import run_flows  # noqa: PLC0415
        from rivermouth.project.commands.rebuild import rebuild  # noqa: PLC0415

        done = rebuild(self, name, why=why, hooks=_hooks(listener))
        run_flows.raise_failures([done.outcome])
        return done

    @checked
    def validate(self, *names: str) -> None:
        """Checks these flows, or all, as far as no broker is needed.

        Raises:
            ProjectProblems: There are several problems; the error lists all of them.
            RivermouthError: The only problem.
        """
        from rivermouth.project.commands import run_flows  # noqa: PLC0415

        run_flows.validate(self, names)

    @checked
    def plan(self, *names: str, adoption: Adoption | None = None) -> list[FlowPlan]:
        """What ``run`` would do now, with the same ``adoption``, a plan a flow; nothing is made.

        Raises:
            RivermouthError: Nothing would be run at all.
        """
        from rivermouth.project.commands import run_flows  # noqa: PLC0415

        return run_flows.plan(self, names, adoption=adoption)

    @checked
    def check_records(self, flow: str, records: Iterable[Any]) -> list[RecordVerdict]:
        """What the rules of one flow say of sample records, without Kafka and without writing; for tests of rules.

        Args:
            flow: Its name; ``FLOW.TOPIC`` of one with a table for each topic.
            records: Values, or ``rivermouth.Record`` where key, headers or timestamp matter. Bytes and text are sent as
                they are, what else JSON knows as a JSON document; None is a tombstone.

        Returns:
            A verdict for each record, in their order; for each row of records that are several rows.

        Raises:
            FlowUnknown: The project has none of this name.
            ArgumentInvalid: One of the records is none.
            RivermouthError: What is wrong with the flow.

        Guarantees:
            Reads the lake's state and a schema registry only; nothing is written.
        """
        from rivermouth.project.commands.checks import sample_verdicts  # noqa: PLC0415

        return sample_verdicts.check_records(self, flow, records)

    @checked
    def infer_schema(
        self,
        name: str,
        *,
        sample: int | None = None,
        whole: bool = False,
        infer_times: bool | None = None,
        max_fields: int | None = None,
        latest_per_key: bool | None = None,
    ) -> Inference:
        """The schema of what a flow reads, whatever its format says; see ``project.commands.schema.of_flow``.

        Args:
            name: The flow.
            sample: About how many records are read; 50,000 by default.
            whole: Read all records.
            infer_times: Whether strings that are all dates or timestamps get such a type.
            max_fields: An object with more fields is a map.
            latest_per_key: Whether of each key only the newest record counts.

        Raises:
            SchemaEmpty: There is no record with a value.
            SchemaNotInferred: No value is a JSON object, or there are too many fields.

        Guarantees:
            Reads only; nothing is kept.
        """
        from rivermouth.project.commands import schema  # noqa: PLC0415

        asked = schema.Asked(sample, whole, infer_times, max_fields, latest_per_key)
        return schema.of_flow(self, name, asked)

    @checked
    def update_schema(
        self,
        name: str,
        *,
        sample: int | None = None,
        whole: bool = False,
        infer_times: bool | None = None,
        max_fields: int | None = None,
        latest_per_key: bool | None = None,
    ) -> SchemaUpdate:
        """Infers the schema of a flow again, and keeps what is different as a new version; its next run uses it.

        Args:
            name: A flow with ``schema: infer``.
            sample: As of ``infer_schema``.
            whole: As of ``infer_schema``.
            infer_times: As of ``infer_schema``.
            max_fields: As of ``infer_schema``.
            latest_per_key: As of ``infer_schema``.

        Raises:
            ArgumentInvalid: The flow does not infer its schema.
            SchemaUpdateRefused: What is different no table can be changed to.

        Guarantees:
            Run twice: the second time finds nothing new. Stopped half-way: a version is kept whole or not at all.
        """
        from rivermouth.project.commands import schema  # noqa: PLC0415

        asked = schema.Asked(sample, whole, infer_times, max_fields, latest_per_key)
        return schema.update(self, name, asked)

    @checked
    def schema_versions(self, name: str) -> list[KeptSchema]:
        """The versions of the schema that a flow keeps, inferred or grown, the newest first; without a Spark session.

        Raises:
            ArgumentInvalid: The flow's schema is declared, and cannot grow.
            SchemaNotKept: It is to be inferred, and was not yet.
            SchemaNotGrown: It is declared, and did not grow yet.
        """
        from rivermouth.project.commands import schema  # noqa: PLC0415

        return schema.history(self, name)

    @checked
    def status(self, *names: str) -> list[FlowStatus]:
        """How the flows are doing, without a Spark session.

        Raises:
            RivermouthError: The project itself is wrong.
        """
        from rivermouth.project.commands import status as overview  # noqa: PLC0415

        return overview.status(self, names)

    @checked
    def broken_rules(
        self,
        *names: str,
        max_lag: int | None = None,
        max_dead_letters: int | str | None = None,
        max_age: float | str | None = None,
    ) -> list[BrokenRule]:
        """What ``status --check`` finds: errors of the flows now or in their last run, and broken rules.

        Without a Spark session.

        Args:
            names: Flows; all where none is named.
            max_lag: The most offsets that may be left to read.
            max_dead_letters: The most records that may ever have become dead letters, or ``"5%"`` of all consumed
                records.
            max_age: While records wait, the most seconds that may have passed since the last batch, or
                ``"10 minutes"``.

        Returns:
            A ``BrokenRule`` with ``flow``, ``rule`` and ``detail`` for each, in the order of the file; empty if all is
            well.

        Raises:
            ArgumentInvalid: A rule cannot be read.
            RivermouthError: The project itself is wrong.

        Guarantees:
            Reads only.
        """
        from rivermouth.project.commands import status as overview  # noqa: PLC0415
        from rivermouth.project.commands.checks import health  # noqa: PLC0415

        rules = health.HealthRules.of(max_lag=max_lag, max_dead_letters=max_dead_letters, max_age=max_age)
        return health.broken_rules(overview.status(self, names), rules)

    @checked
    def checkpoints(self, name: str) -> list[CheckpointReport]:
        """The checkpoint of a flow compared with its ledger, and what a restart would do; without a Spark session.

        A flow with a table for each topic has one report for each topic.

        Raises:
            FlowUnknown: The project has none of this name.
        """
        from rivermouth.project.commands import status as overview  # noqa: PLC0415

        return overview.checkpoints(self, name)

    @checked
    def audit(self, *names: str) -> list[FlowAudit]:
        """Whether every record is in exactly one place, an audit a flow; changes nothing.

        Raises:
            RivermouthError: The project is wrong, or a table or a topic cannot be read.
        """
        from rivermouth.project.commands import audit  # noqa: PLC0415

        return audit.audited(self, names)

    @checked
    def doctor(self, *, no_spark: bool = False) -> list[Finding]:
        """What a run needs of this machine and for this project, looked at one by one.

        Args:
            no_spark: Start no Spark: whether an object store can be written is not tried then.

        Returns:
            A finding for each thing. What keeps a flow from running is the ``problem`` of a finding, and not raised.
        """
        from rivermouth.project.commands.checks.doctor import examine  # noqa: PLC0415
        from rivermouth.project.commands.checks.storage_check import tried  # noqa: PLC0415

        return examine(self, stores=None if no_spark else tried)

    @checked
    def create_topics(
        self,
        *topics: str,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, str] | None = None,
    ) -> dict[str, bool]:
        """Sees to it that topics exist in the project's cluster; by name, whether each had to be made.

        Args:
            topics: Names.
            partitions: Of each topic that is made.
            replication_factor: Of each topic that is made; the broker's default where None.
            config: Settings of topics that are made, for example ``{"cleanup.policy": "compact"}``.

        Raises:
            TopicNameInvalid: Kafka allows no such name; nothing was made.
            BrokerUnreachable: No broker answered.
            KafkaRefused: The broker does not make a topic.

        Guarantees:
            A topic that exists stays as it is. Run twice: the second time makes none.
        """
        from rivermouth.project.commands.topics import TopicSettings, created  # noqa: PLC0415

        wanted = TopicSettings(partitions, replication_factor, config)
        return created(self.bootstrap_servers, self.kafka_options(), topics, wanted)


def _hooks(listener: Listener | None) -> RunHooks:
    from rivermouth.project.commands import managed_session  # noqa: PLC0415

    return managed_session.NO_HOOKS if listener is None else managed_session.RunHooks(listener=listener)
