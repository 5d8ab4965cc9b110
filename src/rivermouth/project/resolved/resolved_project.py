"""The flows of a project as they are meant here: what they read, where they write, what they need."""

from __future__ import annotations

import functools
import os
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rivermouth.domain.project import locations, snapshot_location, source_table, table_per_topic
from rivermouth.domain.project.locations import FlowPlaces
from rivermouth.domain.project.references import expand_flow
from rivermouth.domain.project.snapshot_location import SnapshotPlace
from rivermouth.domain.project.source_table import SourceTable
from rivermouth.errors import FlowUnknown, PlaceInvalid
from rivermouth.names import did_you_mean
from rivermouth.project.resolved.arguments import checked
from rivermouth.project.resolved.settings import ProjectSettings, located_errors
from rivermouth.sinks.kafka import KafkaSink
from rivermouth.spec import Flow, Format, JarFormat, Lookup, RegistryFormat, Sink, reads_registry

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True)
class ResolvedProject(ProjectSettings):
    """A project's settings, and its flows with everything resolved; a pure value, from which the commands work."""

    @checked
    def flow(self, name: str) -> Flow:
        """The flow of this name: references in its topics, pattern and group resolved, files against ``base``.

        Of a family it is what is written, and of ``FAMILY.TOPIC`` the child that carries that topic.

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        return self._with_lookups(self._without_lookups(name))

    def _with_lookups(self, flow: Flow) -> Flow:
        """The flow, with the places of the tables in which it looks up columns."""
        if not flow.lookup:
            return flow
        return flow.model_copy(update={"lookup": tuple(map(self._placed_lookup, flow.lookup))})

    def _placed_lookup(self, lookup: Lookup) -> Lookup:
        owner = self.tables.get(lookup.table)
        if owner is not None:
            # A trial looks up in the real table: it only reads it.
            places = self.with_debug(debug=False).places_of(self._without_lookups(owner))
            return lookup.at(places.table, owner, functools.partial(self.flow, owner))
        return lookup.at(self._table_location(lookup.table, "lookup"))

    def _table_location(self, text: str, setting: str) -> str:
        """The folder of a table that no flow writes: of ``schema.table`` in the lake, or of a path."""
        if not snapshot_location.is_path(text):
            return f"{self.lake}/{text.replace('.', '/')}"
        return locations.location(text, base=self.base, environ=self.environ, setting=setting)

    def _without_lookups(self, name: str) -> Flow:
        family, topic = table_per_topic.parted(name)
        if topic and family in self.spec.flows and self.spec.flows[family].is_family:
            return self._child(self._without_lookups(family), topic)
        if name not in self.spec.flows:
            fix = did_you_mean(name, self.spec.flows) if self.spec.flows else "add it under flows:"
            raise FlowUnknown(name=name, fix=fix)
        with located_errors(self.at("flows", name)):
            flow = expand_flow(self.spec.flows[name], self.environ)
        if flow.maintenance is None and self.spec.maintenance is not None:
            flow = flow.model_copy(update={"maintenance": self.spec.maintenance})
        # Some formats ask the registry only under policies, which the flow's own format does not know.
        asks = reads_registry(flow.format) or reads_registry(flow.value_format)
        placed: dict[str, Format | Sink] = {"format": self._placed(flow.format, asks=asks)}
        if isinstance(flow.sink, KafkaSink) and flow.sink.encoding is not None:
            form = self._placed(flow.sink.encoding, asks=flow.sink.registry_format is not None)
            placed["sink"] = flow.sink.model_copy(update={"format": form})
        if flow.key_format is not None:
            placed["key_format"] = self._placed(flow.key_format, asks=reads_registry(flow.key_format))
        changed = {name: form for name, form in placed.items() if form is not getattr(flow, name)}
        return flow.model_copy(update=changed) if changed else flow

    def _placed(self, form: Format, *, asks: bool) -> Format:
        """A format with its files below the project's folder, and with the schema registry if that is asked."""
        form = form.with_base_dir(self.base)
        if asks and isinstance(form, RegistryFormat) and (registry := self.schema_registry) is not None:
            return form.with_registry(registry)
        return form

    def flows(self, names: tuple[str, ...] = ()) -> list[Flow]:
        """The flows of these names, or all, in the order of the file; see ``flow``.

        A family is replaced by its children if these are known (``kept``).

        Raises:
            FlowUnknown: The project has none of this name.
            EnvironmentMissing: A variable without default is not set.
        """
        order = list(self.spec.flows)
        chosen = {flow.name: flow for name in names or order for flow in self._meant(name)}
        return sorted(chosen.values(), key=lambda flow: (order.index(table_per_topic.parted(flow.name)[0]), flow.name))

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
                child = table_per_topic.child_of(flow, f"{table_per_topic.STAND_IN}{flow.name}")
                found.append(child.model_copy(update={"name": f"{flow.name}.{table_per_topic.STAND_IN}"}))
            elif flow.is_family:
                found += [table_per_topic.child_of(flow, topic) for topic in table_per_topic.named_topics(flow)]
            else:
                found.append(flow)
        return found

    def _meant(self, name: str) -> list[Flow]:
        flow = self.flow(name)
        if not flow.is_family or self.kept is None:
            return [flow]
        known = self.kept.get(name, table_per_topic.Kept())
        return [self._child(flow, topic) for topic in {*table_per_topic.named_topics(flow), *known.topics}]

    def _child(self, family: Flow, topic: str) -> Flow:
        kept = (self.kept or {}).get(family.name, table_per_topic.Kept())
        if topic not in kept.topics and not table_per_topic.reads(family, topic):
            known = sorted({*table_per_topic.named_topics(family), *kept.topics})
            fix = did_you_mean(f"{family.name}.{topic}", [f"{family.name}.{each}" for each in known])
            if not known:
                fix = f"write it as {family.name}.TOPIC, with a topic that matches {family.topic_pattern}"
                if family.routed_by is not None:
                    fix = f"write it as {family.name}.VALUE, with a value of {family.routed_by}"
            raise FlowUnknown(name=f"{family.name}.{topic}", fix=fix)
        return table_per_topic.child_of(family, topic, is_late=kept.is_late(topic))

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
            return locations.resolve(self.spec, flow, base=self.base, environ=self.environ, debug=self.debug)
        except PlaceInvalid as error:
            # "flow orders: places.table" is a setting of the flow, "places.table" one of the whole project.
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
        found = [self.with_debug(debug=False).places_of(self._without_lookups(name)) for name in single]
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
        if is_table:
            location = self._table_location(text, "source")
        else:
            location = locations.location(text, base=self.base, environ=self.environ, setting="source")
        return SnapshotPlace(location, text, is_table, source.max_bytes)

    @property
    def schemes(self) -> frozenset[str]:
        """Those of all that flows write and read, and of other stores, unless they are on this machine: ``s3a``.

        Raises:
            PlaceInvalid: A place cannot be one.
            EnvironmentMissing: A variable without default is not set.
        """
        flows = self.stand_ins()
        of_flows = [self.places_of(flow) for flow in flows]
        found = {self.lake, *self.stores}.union(
            *((each.table, each.checkpoint, each.dead_letter_table, each.archive) for each in of_flows)
        )
        found |= {each.location for flow in flows for each in flow.lookup}
        found |= {each.location for each in map(self.snapshots_of, flows) if each is not None}
        return locations.schemes(found)

    @property
    def jars(self) -> list[Path]:
        """Files with classes that the formats of flows name, each once."""
        forms = (
            form for flow in self.spec.flows.values() for form in (flow.format, flow.key_format) if form is not None
        )
        placed = (form.with_base_dir(self.base) for form in forms)
        found = (jar for form in placed if isinstance(form, JarFormat) for jar in form.jars)
        return [Path(jar).absolute() for jar in dict.fromkeys(found)]

    def spark(self) -> SparkSession:
        """The Spark session of this process, started with the project's settings if there is none, to look at tables.

        What its JVM says goes to a file in the folder for temporary files. The session is the caller's to stop.

        Raises:
            JavaNotFound: No usable Java on this machine.
            JarsMissing: The jars are neither cached nor to be had.
            SparkNotStarted: The JVM or its session did not come up.
        """
        from rivermouth.ports.spark import session  # noqa: PLC0415

        handle, log = tempfile.mkstemp(prefix="rivermouth-spark-", suffix=".log")
        os.close(handle)
        name = f"rivermouth {self.spec.name}"
        return session.start(
            self.spark_settings, app_name=name, schemes=self.schemes, users_jars=self.jars, log=Path(log)
        )
