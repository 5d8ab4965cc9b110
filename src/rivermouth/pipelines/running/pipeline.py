"""A pipeline with what surrounds it: the project that gives lake, cluster and Spark, and where its things lie."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rivermouth.domain.project import locations
from rivermouth.domain.project.catalog import registered_name
from rivermouth.engine.query.query_run import QueryPlaces
from rivermouth.errors import CatalogNameTwice
from rivermouth.names import STATE_FOLDER
from rivermouth.pipelines.files.paths import resolved, written
from rivermouth.pipelines.names import Names, TableName

if TYPE_CHECKING:
    from rivermouth.pipelines.graph import Graph, Node
    from rivermouth.pipelines.settings.model import PipelineSettings
    from rivermouth.pipelines.spec import Dataset
    from rivermouth.project.resolved.resolved_project import ResolvedProject

PATHS: Final = "rivermouth.paths."
"""Settings whose names begin so say where a path of Databricks' is: ``rivermouth.paths./Volumes/main: ./data``."""
DEFAULT_SCHEMA: Final = "default"


@dataclass(frozen=True)
class Pipeline:
    """A pipeline that is to be run.

    Attributes:
        settings: What its settings file says.
        project: Gives the lake, the cluster and Spark.
        configuration: The settings with references resolved; secrets may be among them, so they are never printed.
        is_alone: Whether a command that names nothing is about it alone, and about no other pipeline and no flow.
    """

    settings: PipelineSettings
    project: ResolvedProject
    configuration: Mapping[str, str] = field(default_factory=dict, repr=False)
    is_alone: bool = True

    @property
    def name(self) -> str:
        """Its name."""
        return self.settings.name

    @property
    def names(self) -> Names:
        """How names are resolved in it."""
        return Names(self.settings.schema or DEFAULT_SCHEMA, self.settings.catalog)

    @property
    def root(self) -> Path:
        """The folder from which its modules are imported."""
        return self.settings.root_path or self.settings.folder

    @property
    def state(self) -> str:
        """The folder of its state in the lake."""
        return self._state_of(self.name)

    def _state_of(self, name: str) -> str:
        return f"{self._lake_state}/pipelines/{file_name(name)}"

    @property
    def _lake_state(self) -> str:
        return f"{self.project.lake.rstrip('/')}/{STATE_FOLDER}"

    @property
    def lease_file(self) -> str:
        """The file by which one process at a time updates it."""
        return f"{self._lake_state}/leases/pipelines/{file_name(self.name)}.json"

    @property
    def failures(self) -> str:
        """The folder of the last failure of each flow."""
        return f"{self.state}/failures"

    @property
    def known(self) -> str:
        """The file that says which datasets the newest update knew."""
        return f"{self.state}/datasets.json"

    @property
    def paths(self) -> dict[str, str]:
        """By prefix of a path that only Databricks knows, the folder that is read in its place."""
        found = {name.removeprefix(PATHS): text for name, text in self.configuration.items() if name.startswith(PATHS)}
        return {prefix: self._absolute(text) for prefix, text in found.items()}

    def located(self, path: str, at: str | None = None) -> str:
        """A path as Spark finds it: Databricks' by ``paths``, a relative one below the pipeline's folder.

        Raises:
            FilePathUnmapped: It is one of ``dbfs:``, and no setting has it.
        """
        return self._absolute(resolved(path, self.paths, at))

    def written(self, path: str, at: str | None = None) -> str:
        """As ``located``, of a path that is written to.

        Raises:
            FilePathUnmapped: It is one of Databricks, no setting has it, and this machine has no such folder.
        """
        return self._absolute(written(path, self.paths, at))

    def _absolute(self, path: str) -> str:
        if path.startswith("/") or ":" in path.split("/", 1)[0]:
            return path
        # Files that are named on the command line are of no folder but the working one.
        base = self.settings.folder if self.settings.at is not None else Path.cwd()
        return str(base / path) + ("/" if path.endswith("/") else "")

    def table(self, name: TableName, dataset: Dataset | None = None) -> str:
        """The folder of a table."""
        if dataset is not None and dataset.path:
            return self.written(dataset.path, str(dataset.at)).rstrip("/")
        return f"{self.project.lake.rstrip('/')}/{name.schema}/{name.table}"

    def registered(self, node: Node) -> str | None:
        """The name of a node's table in the project's catalog; None where it has none, as a private table.

        Raises:
            PlaceInvalid: The template of the schema's name there is wrong.
        """
        catalog = self.project.spec.catalog
        is_public = node.is_table and node.dataset is not None and not node.dataset.private
        return registered_name(catalog, node.name.schema, node.name.table) if catalog and is_public else None

    def check_registered(self, graph: Graph) -> None:
        """Checks that no two tables have the same name in the catalog, which ignores case.

        Raises:
            CatalogNameTwice: Two have.
        """
        first: dict[str, Node] = {}
        for node in graph.nodes:
            name = self.registered(node)
            other = node if name is None else first.setdefault(name.lower(), node)
            if other is not node:
                shown, known = graph.names.shown(node.name), graph.names.shown(other.name)
                raise CatalogNameTwice(at=str(node.at), dataset=shown, other=known, name=name)

    def flow_places(self, name: TableName, flow: str, dataset: Dataset | None = None) -> QueryPlaces:
        """Where the things of one flow lie."""
        table = self.table(name, dataset) if name.schema else f"{self.state}/sinks/{file_name(name.table)}"
        below = f"{name if name.schema else f'sink.{name.table}'}/{file_name(flow)}"
        checkpoints = f"{self.state}/checkpoints"
        if self.settings.storage:
            environ, base = self.project.environ, self.settings.folder
            root = locations.location(self.settings.storage, base=base, environ=environ, setting="storage")
            checkpoints = f"{root}/{file_name(self.name)}/checkpoints"
        return QueryPlaces(
            table=table,
            checkpoint=f"{checkpoints}/{below}",
            side_file=f"{self.state}/ledger/{below}.json",
            dead_letters=f"{table}__dead_letters",
        )

    def event_log_of(self, name: str) -> str:
        """The folder of the table of events of a pipeline of the lake."""
        return self.event_log if name == self.name else f"{self._state_of(name)}/event_log"

    @property
    def event_log(self) -> str:
        """The folder of the table of events."""
        said = self.settings.event_log
        if said is None:
            return f"{self.state}/event_log"
        schema = (said.schema or self.names.schema).lower()
        return f"{self.project.lake.rstrip('/')}/{schema}/{said.name.lower()}"


def file_name(name: str) -> str:
    """A name as the name of a file."""
    return "".join(each if each.isalnum() or each in "._-" else "_" for each in name)
