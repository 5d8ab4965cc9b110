"""A project file and the environment as a ``Project``: a spec of which each field knows its line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from rivermouth.errors import (
    FlowUnknown,
    PlaceInvalid,
    ProjectInvalid,
    ProjectNotFound,
    ProjectProblems,
    RivermouthError,
)
from rivermouth.names import STATE_FOLDER, did_you_mean
from rivermouth.project import locate
from rivermouth.project.judge import judge
from rivermouth.project.secrets import Environment
from rivermouth.rows import broker_presets, kafka_client_options, kafka_options, places, source_table
from rivermouth.rows.catalog import metastore_conf
from rivermouth.rows.environment import expand, expand_flow
from rivermouth.rows.places import FlowPlaces
from rivermouth.rows.source_table import SourceTable
from rivermouth.spec import Flow, ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.audit import FlowAudit
    from rivermouth.engine.events import Listener
    from rivermouth.engine.plan import FlowPlan
    from rivermouth.engine.status import FlowStatus
    from rivermouth.engine.supervisor import FlowOutcome
    from rivermouth.engine.tables import TableDescription
    from rivermouth.project.rebuild import Rebuilt
    from rivermouth.rows.adoption import Adoption
    from rivermouth.rows.erasure import ForgetReport
    from rivermouth.rows.gone import LossDecision
    from rivermouth.spec import SparkSettings

FILE_NAME: Final = "rivermouth.yml"


@dataclass(frozen=True)
class Project:
    """A project with what surrounds it: the folder, the file and the environment that resolve its texts.

    Attributes:
        spec: What the user wrote; references to variables and secrets stand in it as written.
        base: Absolute folder against which relative local places are resolved.
        file: The file's name as it is told in messages; None for a project made in Python.
        environ: The environment variables, and secrets by ``provider:reference``; never printed.
        debug: Whether all places bear ``_debug`` and reads are limited.
        follow: What the door asked for: go on at each flow's trigger, or drain and stop.
    """

    spec: ProjectSpec
    base: Path
    file: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    debug: bool = False
    follow: bool = False
    lines: Mapping[locate.Path, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Secrets are read like variables from here on."""
        if not isinstance(self.environ, Environment):
            object.__setattr__(self, "environ", Environment(self.environ, self.base))

    @classmethod
    def load(cls, path: str | Path = FILE_NAME, environ: Mapping[str, str] | None = None) -> Self:
        """The project in a file.

        Args:
            path: The file; its folder is the base of relative places.
            environ: Environment variables; the process's own where None.

        Raises:
            ProjectNotFound: There is no such file.
            ProjectInvalid: The file cannot be read, is no YAML, or a value does not fit.
            UnknownKey: A key that no noun has.
            UnknownKind: A format, sink or action that nothing answers to.
            NotSupported: A setting that is known but not built yet.
            ProjectProblems: Several of these; all are told.
        """
        name = str(path)
        document = locate.read(read_text(Path(path), name), name)
        spec, problems = judge(document, name)
        raise_all(problems, name)
        if spec is None:
            raise ProjectInvalid(at=f"{name}:1", detail="the file is no project", fix="rivermouth init")
        return cls(
            spec=spec,
            base=Path(path).absolute().parent,
            file=name,
            environ=os.environ if environ is None else environ,
            lines=document.lines,
        )

    @classmethod
    def from_spec(
        cls, spec: ProjectSpec, base: str | Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Self:
        """A project made in Python; relative places are resolved against ``base``, by default the working folder."""
        folder = Path.cwd() if base is None else Path(base).absolute()
        return cls(spec=spec, base=folder, environ=os.environ if environ is None else environ)

    def with_debug(self, *, debug: bool = True) -> Self:
        """The same project as a trial: every table and state folder bears ``_debug``."""
        return replace(self, debug=debug)

    def asked(self, *, debug: bool, follow: bool) -> Self:
        """The same project with what a door was asked for."""
        return replace(self, debug=debug, follow=follow)

    def at(self, *path: str | int) -> str | None:
        """``rivermouth.yml:12`` of the field at ``path``, or of what holds it; None without a file."""
        if self.file is None:
            return None
        return f"{self.file}:{locate.Document(None, self.lines).line(path)}"

    def flow(self, name: str) -> Flow:
        """The flow of this name: references in its topics, pattern and group resolved, files against ``base``.

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        if name not in self.spec.flows:
            fix = did_you_mean(name, self.spec.flows) if self.spec.flows else "add it under flows:"
            raise FlowUnknown(name=name, fix=fix)
        with standing(self.at("flows", name)):
            flow = expand_flow(self.spec.flows[name], self.environ)
        if flow.maintenance is None and self.spec.maintenance is not None:
            flow = flow.model_copy(update={"maintenance": self.spec.maintenance})
        form = flow.format.below(self.base)
        return flow if form is flow.format else flow.model_copy(update={"format": form})

    def flows(self, names: tuple[str, ...] = ()) -> list[Flow]:
        """The flows of these names, or all, in the order of the file; see ``flow``.

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        chosen = {name: self.flow(name) for name in names or self.spec.flows}
        return [chosen[name] for name in self.spec.flows if name in chosen]

    def places(self, name: str) -> FlowPlaces:
        """Where the things of one flow lie; with ``debug`` those of its trial.

        Raises:
            FlowUnknown: The project has none of this name.
            PlaceInvalid: A template cannot be filled.
            EnvironmentMissing: A variable without default is not set.
        """
        flow = self.flow(name)
        try:
            return places.resolve(self.spec, flow, base=self.base, environ=self.environ, debug=self.debug)
        except PlaceInvalid as error:
            # "flow orders: places.table" stands in the flow, "places.table" at the top.
            owner, _, setting = str(error.facts["setting"]).rpartition(": ")
            path = setting.split(".")
            raise error.located(self.at("flows", name, *path) if owner else self.at(*path)) from None

    @property
    def tables(self) -> dict[str, str]:
        """The flow by the name of its table, with and without the catalog; those of a trial under their real names.

        Raises:
            PlaceInvalid: A template cannot be filled.
            EnvironmentMissing: A variable without default is not set.
        """
        found = [self.with_debug(debug=False).places(name) for name in self.spec.flows]
        return {table: each.flow for each in found for table in (each.name, each.full_name)}

    def source(self, name: str) -> SourceTable | None:
        """The table that this flow reads; None for one that reads Kafka.

        Raises:
            FlowUnknown: The project has no flow of this name.
            RivermouthError: What is wrong with the places of a flow.
        """
        owner = source_table.owner_of(self.flow(name), self.tables) if self.flow(name).source is not None else None
        return None if owner is None else SourceTable(self.flow(owner), self.places(owner))

    @property
    def lake(self) -> str:
        """The root of the lake, absolute.

        Raises:
            PlaceInvalid: The text cannot be a place.
            EnvironmentMissing: A variable without default is not set.
        """
        with standing(self.at("lake")):
            return places.lake_location(self.spec, base=self.base, environ=self.environ)

    @property
    def bootstrap_servers(self) -> str:
        """Where the brokers are, references resolved.

        Raises:
            EnvironmentMissing: A variable without default is not set.
        """
        with standing(self.at("kafka", "bootstrap_servers")):
            return expand(self.spec.kafka.bootstrap_servers, self.environ)

    def kafka_options(self) -> dict[str, str]:
        """Options of Kafka's Java client, checked, references resolved: secrets, so never print them.

        Raises:
            KafkaOptionRefused: An option that may not be set.
            EnvironmentMissing: A variable without default is not set.
        """
        return kafka_options.checked(self.expanded_options())

    def client_options(self) -> dict[str, str]:
        """The same options in librdkafka's words: secrets, so never print them.

        Raises:
            KafkaOptionRefused: An option that may not be set.
            KafkaClientUnable: A security option that librdkafka cannot take.
            EnvironmentMissing: A variable without default is not set.
        """
        return kafka_client_options.client_options(self.expanded_options())

    # --- what can be done with it; the work itself loads Spark, so it is imported when it is asked for ---

    def run(
        self,
        *names: str,
        follow: bool = False,
        listener: Listener | None = None,
        decision: LossDecision | None = None,
        adoption: Adoption | None = None,
    ) -> list[FlowOutcome]:
        """Carries the flows of these names, or all; see ``project.operate.run``.

        Args:
            names: Flows; all where none is named.
            follow: Go on at each flow's trigger; else end when all is read.
            listener: Gets every event.
            decision: One about data that is gone, for the one flow that is named.
            adoption: Of a table that another program wrote, for the one flow that is named.

        Returns:
            An outcome a flow, in the order of the file.

        Raises:
            FlowsFailed: A flow failed; the others went on.
            RivermouthError: Nothing was run at all.

        Guarantees:
            Run twice: the second run goes on where the tables' ledgers stand. Stopped anywhere: every record is in
            the table and its dead letters once, or comes with the next run.
        """
        from rivermouth.project import operate  # noqa: PLC0415

        door = operate.NOBODY if listener is None else operate.Door(listener=listener)
        outcomes = operate.run(self, names, follow=follow, door=door, decision=decision, adoption=adoption)
        operate.raise_failures(outcomes)
        return outcomes

    def rebuild(self, name: str, *, why: str = "", listener: Listener | None = None) -> Rebuilt:
        """Makes the table of one flow anew from the table that the flow reads; see ``project.rebuild.rebuild``.

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
        from rivermouth.project import operate  # noqa: PLC0415
        from rivermouth.project.rebuild import rebuild  # noqa: PLC0415

        door = operate.NOBODY if listener is None else operate.Door(listener=listener)
        done = rebuild(self, name, why=why, door=door)
        operate.raise_failures([done.outcome])
        return done

    def validate(self, *names: str) -> None:
        """Nothing, if nothing is wrong with these flows, or any, as far as no broker is needed.

        Raises:
            ProjectProblems: Several things are wrong; all are told.
            RivermouthError: The one thing that is wrong.
        """
        from rivermouth.project import operate  # noqa: PLC0415

        operate.validate(self, names)

    def plan(self, *names: str) -> list[FlowPlan]:
        """What ``run`` would do now, a plan a flow; nothing is made.

        Raises:
            RivermouthError: Nothing would be run at all.
        """
        from rivermouth.project import operate  # noqa: PLC0415

        return operate.plan(self, names)

    def status(self, *names: str) -> list[FlowStatus]:
        """How the flows are doing, without a Spark session.

        Raises:
            RivermouthError: The project itself is wrong.
        """
        from rivermouth.project import overview  # noqa: PLC0415

        return overview.status(self, names)

    def audit(self, *names: str) -> list[FlowAudit]:
        """Whether every record is in exactly one place, an audit a flow; changes nothing.

        Raises:
            RivermouthError: The project is wrong, or a table or a topic cannot be read.
        """
        from rivermouth.project import audit  # noqa: PLC0415

        return audit.audited(self, names)

    def describe_tables(self, *names: str) -> list[TableDescription]:
        """What the tables of these names, or all, consist of, and what would help them, without a Spark session.

        Args:
            names: ``schema.table``; a flow's name stands for its table.

        Raises:
            TableUnknown: No flow writes a table of that name.
            RivermouthError: The project itself is wrong, or the lake does not answer.
        """
        from rivermouth.project import tables  # noqa: PLC0415

        return tables.described(self, names)

    def read_table(self, name: str, columns: Sequence[str] | None = None, **asked: Any) -> DataFrame:
        """A table of a flow as a frame of Spark; see ``project.look_after.read_table``.

        Args:
            name: ``schema.table``; a flow's name stands for its table.
            columns: Names; all where None.
            asked: ``spark``, a session (``self.spark()`` by default), and ``version`` or ``timestamp``.

        Raises:
            TableMissing: It is not made yet.
            VersionMissing: The log tells nothing of that version or time.
        """
        from rivermouth.project import look_after  # noqa: PLC0415

        return look_after.read_table(self, name, columns=columns, **asked)

    def create_temp_views(self, *names: str, spark: SparkSession | None = None) -> dict[str, str]:
        """Temporary views of these tables, or of all that are there; the view's name by table.

        ``silver.orders`` is ``silver_orders`` in the session.

        Args:
            names: ``schema.table``; a flow's name stands for its table.
            spark: The session that gets them, ``self.spark()`` by default.

        Raises:
            ViewsCollide: Two tables would be one view.
        """
        from rivermouth.project import look_after  # noqa: PLC0415

        return look_after.create_temp_views(self, names, spark)

    def forget(
        self,
        name: str,
        *,
        where: str | None = None,
        dead_letters: str | None = None,
        why: str = "",
        dry_run: bool = False,
    ) -> ForgetReport:
        """Erases rows and dead letters of a flow's table; see ``project.forget.forgotten``.

        Args:
            name: ``schema.table``; a flow's name stands for its table.
            where: SQL over the table's columns.
            dead_letters: SQL over the columns of its dead letters.
            why: The reason; it is kept, so it should name nobody.
            dry_run: Only say what would go.

        Raises:
            TableUnknown: No flow writes a table of that name.
            ForgetRefused: A condition is none, or the table's rows cannot be erased.

        Guarantees:
            Run twice: the second time finds nothing. Stopped half-way: nothing is erased, or the next run of the flow,
            or of this, does the rest.
        """
        from rivermouth.project import forget  # noqa: PLC0415

        return forget.forgotten(self, name, where=where, dead_letters=dead_letters, why=why, dry_run=dry_run)

    def spark(self) -> SparkSession:
        """The Spark session of this process, started with the project's settings if there is none, to look at tables.

        What its JVM says goes to a file in the folder for temporary files. The session is the caller's to stop.

        Raises:
            JavaNotFound: No usable Java on this machine.
            JarsMissing: The jars are neither cached nor to be had.
            SparkNotStarted: The JVM or its session did not come up.
        """
        from rivermouth.ports import session  # noqa: PLC0415

        handle, log = tempfile.mkstemp(prefix="rivermouth-spark-", suffix=".log")
        os.close(handle)
        name = f"rivermouth {self.spec.name}"
        return session.start(self.spark_settings, app_name=name, schemes=self.schemes, log=Path(log))

    @property
    def schemes(self) -> frozenset[str]:
        """Those of the places of all flows, and of the lake, that are not on this machine: ``s3a``, for example.

        Raises:
            PlaceInvalid: A place cannot be one.
            EnvironmentMissing: A variable without default is not set.
        """
        of_flows = [self.places(flow.name) for flow in self.flows()]
        found = {self.lake}.union(*((each.table, each.checkpoint, each.dead_letter_table) for each in of_flows))
        return places.schemes(found)

    @property
    def spark_settings(self) -> SparkSettings:
        """Spark's settings, with the references in ``conf`` resolved, and those of the project's catalog.

        Raises:
            EnvironmentMissing: A variable without default is not set.
            SecretMissing: A provider does not have the secret.
        """
        state = ""
        if self.spec.catalog:
            state = f"{self.lake.rstrip('/')}/{STATE_FOLDER}{places.DEBUG_SUFFIX * self.debug}"
        conf: dict[str, str | float | bool] = {**metastore_conf(self.spec.catalog, state)}
        for name, value in self.spec.spark.conf.items():
            with standing(self.at("spark", "conf", name)):
                conf[name] = expand(kafka_options.text(value), self.environ)
        return self.spec.spark.model_copy(update={"conf": conf})

    @property
    def spark_conf(self) -> dict[str, str]:
        """Spark's options as text, with references resolved.

        Raises:
            EnvironmentMissing: A variable without default is not set.
            SecretMissing: A provider does not have the secret.
        """
        return {name: str(value) for name, value in self.spark_settings.conf.items()}

    def expanded_options(self) -> dict[str, str]:
        """Options of Kafka's Java client with those of the preset and the login, references resolved, not checked.

        Raises:
            ProjectInvalid: User name and password do not make a login.
            EnvironmentMissing: A variable without default is not set.
            SecretMissing: A provider does not have the secret.
        """
        if (wrong := broker_presets.login_problem(self.spec.kafka)) is not None:
            raise ProjectInvalid(at=self.at("kafka"), detail=f"kafka: {wrong[0]}", fix=wrong[1])
        options: dict[str, str] = {}
        for name, value in broker_presets.options_of(self.spec.kafka).items():
            with standing(self.at("kafka", "options", name)):
                options[name] = kafka_options.resolve(name, value, self.environ)
        with standing(self.at("kafka")):
            return options | broker_presets.login_of(self.spec.kafka, self.environ)


class standing:  # noqa: N801 - reads as a word of the with statement
    """Gives an error of ours that leaves the block the place at which it stands."""

    def __init__(self, at: str | None) -> None:
        self._at = at

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, RivermouthError) and error.at is None and self._at is not None:
            raise error.located(self._at) from error.__cause__


def raise_all(problems: list[RivermouthError], file: str | None) -> None:
    """Nothing where there is no problem; one is raised as it is, several together.

    Raises:
        ProjectProblems: There are several.
        RivermouthError: There is one.
    """
    if len(problems) == 1:
        raise problems[0]
    if problems:
        raise ProjectProblems(count=len(problems), file=file or "the project", problems=tuple(problems))


def read_text(path: Path, name: str) -> str:
    """The text of a project file.

    Raises:
        ProjectNotFound: There is no such file.
        ProjectInvalid: It is a folder, cannot be read, is too large or no UTF-8.
    """
    try:
        with path.open("rb") as stream:
            data = stream.read(locate.MAX_BYTES + 1)
    except FileNotFoundError:
        raise ProjectNotFound(path=name) from None
    except IsADirectoryError:
        fix = f"name the file in it: {path / FILE_NAME}"
        raise ProjectInvalid(detail=f"{name} is a folder", fix=fix) from None
    except OSError as error:
        fix = "check the path and its access rights"
        raise ProjectInvalid(detail=f"{name} cannot be read: {error.strerror}", fix=fix) from None
    if len(data) > locate.MAX_BYTES:
        fix = "name the project file, not one with data"
        raise ProjectInvalid(detail=f"{name} is larger than 1 MiB", fix=fix)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise ProjectInvalid(at=f"{name}:{line}", detail="the file is no UTF-8", fix="save it as UTF-8") from None
