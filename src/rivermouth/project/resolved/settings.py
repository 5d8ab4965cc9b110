"""What a project file says of its surroundings: lake, cluster, registry, Spark, with the environment's values in it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rivermouth.decoding.registry import schema_registry
from rivermouth.decoding.registry.schema_registry import RegistryAccess
from rivermouth.domain.kafka import broker_presets, kafka_options, librdkafka_options
from rivermouth.domain.project import locations, table_per_topic
from rivermouth.domain.project.catalog import metastore_conf
from rivermouth.domain.project.references import expand
from rivermouth.domain.project.table_per_topic import Kept
from rivermouth.errors import ProjectInvalid, RivermouthError
from rivermouth.names import STATE_FOLDER
from rivermouth.project.file import yaml_source
from rivermouth.project.file.reading import FILE_NAME, read_mapping, read_project
from rivermouth.project.resolved.arguments import checked
from rivermouth.project.resolved.secrets import Environment
from rivermouth.spec import ProjectSpec

if TYPE_CHECKING:
    from rivermouth.spec import SparkSettings


@dataclass(frozen=True)
class ProjectSettings:
    """A project with what surrounds it: the folder, the file and the environment that resolve its texts.

    Attributes:
        spec: What the user wrote; references to variables and secrets are not replaced in it.
        base: Absolute folder against which relative local places are resolved.
        file: The file's name as messages show it; None for a project made in Python.
        environ: The environment variables, and secrets by ``provider:reference``; never printed.
        debug: Whether all paths end in ``_debug`` and reads are limited.
        follow: What the door asked for: go on at each flow's trigger, or drain and stop.
        kept: What is known of families (flows with a table for each of their topics), by name. None before the first
            lookup: then a family is not replaced by its children.
        stores: Object stores that are read by what is no flow, as ``s3a://``.
    """

    spec: ProjectSpec
    base: Path
    file: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    debug: bool = False
    follow: bool = False
    kept: Mapping[str, Kept] | None = field(default=None, repr=False, compare=False)
    lines: Mapping[yaml_source.Path, int] = field(default_factory=dict, repr=False, compare=False)
    stores: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        """Secrets are read like variables from here on."""
        if not isinstance(self.environ, Environment):
            object.__setattr__(self, "environ", Environment(self.environ, self.base))

    @classmethod
    @checked
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
        environ = os.environ if environ is None else environ
        spec, lines = read_project(Path(path), str(path), environ)
        return cls(spec=spec, base=Path(path).absolute().parent, file=str(path), environ=environ, lines=lines)

    @classmethod
    @checked
    def from_spec(
        cls,
        spec: ProjectSpec | Mapping[str, Any],
        base: str | Path | None = None,
        environ: Mapping[str, str] | None = None,
    ) -> Self:
        """A project made in Python.

        Args:
            spec: The project; or what a project file would hold, as a mapping.
            base: The folder of relative places; the working folder by default.
            environ: Environment variables; the process's own where None.

        Raises:
            ProjectProblems: Several things in a mapping are wrong; all are told.
            RivermouthError: The one thing that is wrong, as of ``load``.
        """
        folder = Path.cwd() if base is None else Path(base).absolute()
        environ = os.environ if environ is None else environ
        if not isinstance(spec, ProjectSpec):
            spec = read_mapping(spec, environ)
        return cls(spec=spec, base=folder, environ=environ)

    def with_debug(self, *, debug: bool = True) -> Self:
        """The same project as a trial: every table and state folder has a name with ``_debug``."""
        return replace(self, debug=debug)

    def asked(self, *, debug: bool, follow: bool) -> Self:
        """The same project with what a door was asked for."""
        return replace(self, debug=debug, follow=follow)

    def at(self, *path: str | int) -> str | None:
        """``rivermouth.yml:12`` of the field at ``path``, or of what holds it; None without a file.

        The settings of a child are those of its family.
        """
        if self.file is None:
            return None
        if path[:1] == ("flows",) and len(path) > 1:
            path = ("flows", table_per_topic.parted(str(path[1]))[0], *path[2:])
        return f"{self.file}:{yaml_source.Document(None, self.lines).line(path)}"

    @property
    def lake(self) -> str:
        """The root of the lake, absolute.

        Raises:
            PlaceInvalid: The text cannot be a place.
            EnvironmentMissing: A variable without default is not set.
        """
        with located_errors(self.at("lake")):
            return locations.lake_location(self.spec, base=self.base, environ=self.environ)

    @property
    def bootstrap_servers(self) -> str:
        """Where the brokers are, references resolved.

        Raises:
            EnvironmentMissing: A variable without default is not set.
        """
        with located_errors(self.at("kafka", "bootstrap_servers")):
            return expand(self.spec.kafka.bootstrap_servers, self.environ)

    @property
    def schema_registry(self) -> RegistryAccess | None:
        """How to reach the schema registry, references resolved; None where there is none.

        Raises:
            ProjectInvalid: The file with certificates cannot be read, or the address or login is none.
            EnvironmentMissing: A variable without default is not set.
            SecretMissing: A provider does not have the secret.
        """
        spec = self.spec.schema_registry
        if spec is None:
            return None
        said = {}
        for name in ("url", "username", "password", "ca_file"):
            with located_errors(self.at("schema_registry", name)):
                said[name] = expand(getattr(spec, name) or "", self.environ)
        for setting, detail, fix in schema_registry.problems(spec, said["url"]):
            at = self.at("schema_registry", setting)
            raise ProjectInvalid(at=at, detail=f"schema_registry.{setting}: {detail}", fix=fix)
        pem = ""
        if said["ca_file"]:
            try:
                pem = (self.base / said["ca_file"]).read_text(encoding="ascii")
            except (OSError, ValueError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no PEM"
                at, detail = self.at("schema_registry", "ca_file"), f"the file {spec.ca_file} cannot be read: {why}"
                fix = "ca_file: ca.pem, a file with certificates in PEM"
                raise ProjectInvalid(at=at, detail=f"schema_registry.ca_file: {detail}", fix=fix) from None
        login = {"username": said["username"], "password": said["password"], "authorities": pem}
        return RegistryAccess(url=said["url"], **login, timeout_s=spec.timeout_s, max_bytes=spec.max_bytes)

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
        return librdkafka_options.client_options(self.expanded_options())

    @property
    def spark_settings(self) -> SparkSettings:
        """Spark's settings, with the references in ``conf`` resolved, and those of the project's catalog.

        Raises:
            EnvironmentMissing: A variable without default is not set.
            SecretMissing: A provider does not have the secret.
        """
        state = ""
        if self.spec.catalog:
            state = f"{self.lake.rstrip('/')}/{STATE_FOLDER}{locations.DEBUG_SUFFIX * self.debug}"
        conf: dict[str, str | float | bool] = {**metastore_conf(self.spec.catalog, state)}
        for name, value in self.spec.spark.conf.items():
            with located_errors(self.at("spark", "conf", name)):
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
            with located_errors(self.at("kafka", "options", name)):
                options[name] = kafka_options.resolve(name, value, self.environ)
        with located_errors(self.at("kafka")):
            return options | broker_presets.login_of(self.spec.kafka, self.environ)


class located_errors:  # noqa: N801 - reads as a word of the with statement
    """Adds the place in the file to a ``RivermouthError`` that leaves the block."""

    def __init__(self, at: str | None) -> None:
        self._at = at

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, RivermouthError) and error.at is None and self._at is not None:
            raise error.located(self._at) from error.__cause__
