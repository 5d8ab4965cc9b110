"""A project file and the environment as a ``Project``: a spec of which each field knows its line."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from rivermouth.errors import ProjectInvalid, ProjectNotFound, ProjectProblems, RivermouthError
from rivermouth.project import locate
from rivermouth.project.judge import judge
from rivermouth.project.resolved import ResolvedProject
from rivermouth.project.variables import resolved
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from rivermouth.engine.audit import FlowAudit
    from rivermouth.engine.events import Listener
    from rivermouth.engine.infer import Inference
    from rivermouth.engine.orders import FlowOutcome
    from rivermouth.engine.plan import FlowPlan
    from rivermouth.engine.status import FlowStatus
    from rivermouth.engine.tables import TableDescription
    from rivermouth.project.rebuild import Rebuilt
    from rivermouth.rows.adoption import Adoption
    from rivermouth.rows.erasure import ForgetReport
    from rivermouth.rows.gone import LossDecision

FILE_NAME: Final = "rivermouth.yml"


@dataclass(frozen=True)
class Project(ResolvedProject):
    """A project and what can be done with it; the work itself loads Spark, so it is imported when it is asked for."""

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
            EnvironmentMissing: A variable without default is not set.
            ProjectProblems: Several of these; all are told.
        """
        name = str(path)
        environ = os.environ if environ is None else environ
        document = resolved(locate.read(read_text(Path(path), name), name), name, environ)
        spec, problems = judge(document, name)
        raise_all(problems, name)
        if spec is None:
            raise ProjectInvalid(at=f"{name}:1", detail="the file is no project", fix="rivermouth init -f new.yml")
        return cls(
            spec=spec,
            base=Path(path).absolute().parent,
            file=name,
            environ=environ,
            lines=document.lines,
        )

    @classmethod
    def from_spec(
        cls, spec: ProjectSpec, base: str | Path | None = None, environ: Mapping[str, str] | None = None
    ) -> Self:
        """A project made in Python; relative places are resolved against ``base``, by default the working folder."""
        folder = Path.cwd() if base is None else Path(base).absolute()
        return cls(spec=spec, base=folder, environ=os.environ if environ is None else environ)

    def run(
        self,
        *names: str,
        follow: bool = False,
        listener: Listener | None = None,
        decision: LossDecision | None = None,
        adoption: Adoption | None = None,
        update_schema: bool = False,
    ) -> list[FlowOutcome]:
        """Carries the flows of these names, or all; see ``project.operate.run``.

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
        from rivermouth.project import operate  # noqa: PLC0415

        door = operate.NOBODY if listener is None else operate.Door(listener=listener)
        outcomes = operate.run(
            self, names, follow=follow, door=door, decision=decision, adoption=adoption, update_schema=update_schema
        )
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

    def plan(self, *names: str, adoption: Adoption | None = None) -> list[FlowPlan]:
        """What ``run`` would do now, with the same ``adoption``, a plan a flow; nothing is made.

        Raises:
            RivermouthError: Nothing would be run at all.
        """
        from rivermouth.project import operate  # noqa: PLC0415

        return operate.plan(self, names, adoption=adoption)

    def infer_schema(self, name: str, **asked: Any) -> Inference:
        """The schema of what a flow reads, whatever its format says; see ``project.schema.of_flow``.

        Args:
            name: The flow.
            asked: ``sample`` (records), ``whole``, ``infer_times``, ``max_fields`` and ``latest_per_key``.

        Raises:
            SchemaEmpty: There is no record with a value.
            SchemaNotInferred: No value is a JSON object, or there are too many fields.

        Guarantees:
            Reads only; nothing is kept.
        """
        from rivermouth.project import schema  # noqa: PLC0415

        return schema.of_flow(self, name, schema.Asked(**asked))

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
        return session.start(
            self.spark_settings, app_name=name, schemes=self.schemes, users_jars=self.jars, log=Path(log)
        )


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
