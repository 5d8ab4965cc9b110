"""What a project's texts mean here: flows, places and options, with the environment's values in them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Self

from rivermouth.errors import FlowUnknown, PlaceInvalid, ProjectInvalid, RivermouthError
from rivermouth.names import STATE_FOLDER, did_you_mean
from rivermouth.project import locate
from rivermouth.project.arguments import checked
from rivermouth.project.secrets import Environment
from rivermouth.rows import (
    broker_presets,
    families,
    kafka_client_options,
    kafka_options,
    places,
    schema_registry,
    snapshot_place,
    source_table,
)
from rivermouth.rows.catalog import metastore_conf
from rivermouth.rows.environment import expand, expand_flow
from rivermouth.rows.families import Kept
from rivermouth.rows.places import FlowPlaces
from rivermouth.rows.schema_registry import RegistryAccess
from rivermouth.rows.snapshot_place import SnapshotPlace
from rivermouth.rows.source_table import SourceTable
from rivermouth.spec import Flow, Format, ProjectSpec

if TYPE_CHECKING:
    from rivermouth.spec import SparkSettings


@dataclass(frozen=True)
class ResolvedProject:
    """A project with what surrounds it: the folder, the file and the environment that resolve its texts.

    Attributes:
        spec: What the user wrote; references to variables and secrets stand in it as written.
        base: Absolute folder against which relative local places are resolved.
        file: The file's name as it is told in messages; None for a project made in Python.
        environ: The environment variables, and secrets by ``provider:reference``; never printed.
        debug: Whether all places bear ``_debug`` and reads are limited.
        follow: What the door asked for: go on at each flow's trigger, or drain and stop.
        kept: What is known of families, by name: flows with a table for each of their topics. None as long as nobody
            looked: then a family stands for itself.
    """

    spec: ProjectSpec
    base: Path
    file: str | None = None
    environ: Mapping[str, str] = field(default_factory=dict, repr=False, compare=False)
    debug: bool = False
    follow: bool = False
    kept: Mapping[str, Kept] | None = field(default=None, repr=False, compare=False)
    lines: Mapping[locate.Path, int] = field(default_factory=dict, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Secrets are read like variables from here on."""
        if not isinstance(self.environ, Environment):
            object.__setattr__(self, "environ", Environment(self.environ, self.base))

    def with_debug(self, *, debug: bool = True) -> Self:
        """The same project as a trial: every table and state folder bears ``_debug``."""
        return replace(self, debug=debug)

    def asked(self, *, debug: bool, follow: bool) -> Self:
        """The same project with what a door was asked for."""
        return replace(self, debug=debug, follow=follow)

    def at(self, *path: str | int) -> str | None:
        """``rivermouth.yml:12`` of the field at ``path``, or of what holds it; None without a file.

        What a child has stands at its family.
        """
        if self.file is None:
            return None
        if path[:1] == ("flows",) and len(path) > 1:
            path = ("flows", families.parted(str(path[1]))[0], *path[2:])
        return f"{self.file}:{locate.Document(None, self.lines).line(path)}"

    @checked
    def flow(self, name: str) -> Flow:
        """The flow of this name: references in its topics, pattern and group resolved, files against ``base``.

        Of a family it is what is written, and of ``FAMILY.TOPIC`` the child that carries that topic.

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        family, topic = families.parted(name)
        if topic and family in self.spec.flows and self.spec.flows[family].is_family:
            return self._child(self.flow(family), topic)
        if name not in self.spec.flows:
            fix = did_you_mean(name, self.spec.flows) if self.spec.flows else "add it under flows:"
            raise FlowUnknown(name=name, fix=fix)
        with standing(self.at("flows", name)):
            flow = expand_flow(self.spec.flows[name], self.environ)
        if flow.maintenance is None and self.spec.maintenance is not None:
            flow = flow.model_copy(update={"maintenance": self.spec.maintenance})
        # Some formats ask the registry only under policies, which the flow's own format does not know.
        asks = flow.format.reads_registry or flow.value_format.reads_registry
        placed = {"format": self._placed(flow.format, asks=asks)}
        if flow.key_format is not None:
            placed["key_format"] = self._placed(flow.key_format, asks=flow.key_format.reads_registry)
        changed = {name: form for name, form in placed.items() if form is not getattr(flow, name)}
        return flow.model_copy(update=changed) if changed else flow

    def _placed(self, form: Format, *, asks: bool) -> Format:
        """A format with its files below the project's folder, and with the schema registry if that is asked."""
        form = form.below(self.base)
        if asks and (registry := self.schema_registry) is not None:
            return form.reaching(registry)
        return form

    def flows(self, names: tuple[str, ...] = ()) -> list[Flow]:
        """The flows of these names, or all, in the order of the file; see ``flow``.

        Once somebody looked which children a family has (``kept``), it stands for these.

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        order = list(self.spec.flows)
        chosen = {flow.name: flow for name in names or order for flow in self._meant(name)}
        return sorted(chosen.values(), key=lambda flow: (order.index(families.parted(flow.name)[0]), flow.name))

    def stand_ins(self) -> list[Flow]:
        """All flows as far as the file tells them: of a family the children of the topics that it names.

        Of one that has to look for them it is a child of no topic, whose places stand for those of all.

        Raises:
            EnvironmentMissing: A variable without default is not set.
        """
        found = []
        for flow in (self.flow(name) for name in self.spec.flows):
            if flow.is_found:
                # Two families whose tables are named alike may find different topics: a run tells if they do not.
                child = families.child_of(flow, f"{families.STAND_IN}{flow.name}")
                found.append(child.model_copy(update={"name": f"{flow.name}.{families.STAND_IN}"}))
            elif flow.is_family:
                found += [families.child_of(flow, topic) for topic in families.named_topics(flow)]
            else:
                found.append(flow)
        return found

    def _meant(self, name: str) -> list[Flow]:
        flow = self.flow(name)
        if not flow.is_family or self.kept is None:
            return [flow]
        known = self.kept.get(name, families.Kept())
        return [self._child(flow, topic) for topic in {*families.named_topics(flow), *known.topics}]

    def _child(self, family: Flow, topic: str) -> Flow:
        kept = (self.kept or {}).get(family.name, families.Kept())
        if topic not in kept.topics and not families.reads(family, topic):
            known = sorted({*families.named_topics(family), *kept.topics})
            fix = did_you_mean(f"{family.name}.{topic}", [f"{family.name}.{each}" for each in known])
            if not known:
                fix = f"write it as {family.name}.TOPIC, with a topic that matches {family.topic_pattern}"
                if family.routed_by is not None:
                    fix = f"write it as {family.name}.VALUE, with a value of {family.routed_by}"
            raise FlowUnknown(name=f"{family.name}.{topic}", fix=fix)
        return families.child_of(family, topic, is_late=kept.is_late(topic))

    @checked
    def places(self, name: str) -> FlowPlaces:
        """Where the things of one flow lie; with ``debug`` those of its trial.

        Raises:
            FlowUnknown: The project has none of this name.
            PlaceInvalid: A template cannot be filled.
            EnvironmentMissing: A variable without default is not set.
        """
        return self.places_of(self.flow(name))

    def places_of(self, flow: Flow) -> FlowPlaces:
        """As ``places``, of a flow that ``flow``, ``flows`` or ``stand_ins`` gave.

        Raises:
            PlaceInvalid: A template cannot be filled.
            EnvironmentMissing: A variable without default is not set.
        """
        try:
            return places.resolve(self.spec, flow, base=self.base, environ=self.environ, debug=self.debug)
        except PlaceInvalid as error:
            # "flow orders: places.table" stands in the flow, "places.table" at the top.
            owner, _, setting = str(error.facts["setting"]).rpartition(": ")
            path = setting.split(".")
            raise error.located(self.at("flows", flow.name, *path) if owner else self.at(*path)) from None

    @property
    def tables(self) -> dict[str, str]:
        """The flow by the name of its table, with and without the catalog; those of a trial under their real names.

        Those of families, one a topic, are left out.

        Raises:
            PlaceInvalid: A template cannot be filled.
            EnvironmentMissing: A variable without default is not set.
        """
        single = [name for name, flow in self.spec.flows.items() if not flow.is_family]
        found = [self.with_debug(debug=False).places(name) for name in single]
        return {table: each.flow for each in found for table in (each.name, each.full_name)}

    def source_of(self, flow: Flow) -> SourceTable | None:
        """The table that a flow reads that ``flow``, ``flows`` or ``stand_ins`` gave; None for one that reads Kafka.

        Raises:
            RivermouthError: What is wrong with the places of a flow.
        """
        owner = None if flow.source is None else source_table.owner_of(flow, self.tables)
        if owner is None or flow.source is None:
            return None
        return SourceTable(self.flow(owner), self.places(owner), where=flow.source.where)

    def snapshots_of(self, flow: Flow) -> SnapshotPlace | None:
        """Where the snapshots lie that a flow reads which are no messages; None for one that reads others."""
        source = flow.source
        if source is None or source.snapshots is None:
            return None
        text = source.snapshots
        is_table = source.versions_of is not None
        if is_table and not snapshot_place.is_path(text):
            location = f"{self.lake}/{text.replace('.', '/')}"
        else:
            location = places.location(text, base=self.base, environ=self.environ, setting="source")
        return SnapshotPlace(location, text, is_table, source.max_bytes)

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
            with standing(self.at("schema_registry", name)):
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
                at, detail = self.at("schema_registry", "ca_file"), f"the file {said['ca_file']} cannot be read: {why}"
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
        return kafka_client_options.client_options(self.expanded_options())

    @property
    def schemes(self) -> frozenset[str]:
        """Those of the places of all flows, and of the lake, that are not on this machine: ``s3a``, for example.

        Raises:
            PlaceInvalid: A place cannot be one.
            EnvironmentMissing: A variable without default is not set.
        """
        of_flows = [self.places_of(flow) for flow in self.stand_ins()]
        found = {self.lake}.union(*((each.table, each.checkpoint, each.dead_letter_table) for each in of_flows))
        return places.schemes(found)

    @property
    def jars(self) -> list[Path]:
        """Files with classes that the formats of flows name, each once."""
        forms = (
            form for flow in self.spec.flows.values() for form in (flow.format, flow.key_format) if form is not None
        )
        found = (jar for form in forms for jar in form.below(self.base).jars)
        return [Path(jar).absolute() for jar in dict.fromkeys(found)]

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
