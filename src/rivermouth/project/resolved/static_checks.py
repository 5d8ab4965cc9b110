"""Every check of a project that needs neither Spark nor a broker."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator
from typing import Final

from rivermouth.domain.kafka import kafka_options
from rivermouth.domain.kafka.broker_addresses import wrong_addresses
from rivermouth.domain.project import source_table, table_per_topic
from rivermouth.domain.project.distinct_locations import check_apart, check_distinct
from rivermouth.domain.project.locations import FlowPlaces, schemes
from rivermouth.domain.project.references import expand, references, texts_with_references
from rivermouth.errors import (
    EnvironmentMissing,
    ProjectInvalid,
    RivermouthError,
    SecretMissing,
    TopicNameEmpty,
    TopicNameInvalid,
    TopicPatternInvalid,
)
from rivermouth.names import did_you_mean
from rivermouth.project.file.reading import raise_all
from rivermouth.project.file.validation import path_text
from rivermouth.project.file.yaml_source import Path
from rivermouth.project.resolved.resolved_project import ResolvedProject
from rivermouth.sinks.kafka import KafkaSink
from rivermouth.spec import Flow, reads_registry
from rivermouth.spec.values import heap_problem

MAX_TOPIC_CHARACTERS: Final = 249
_TOPIC: Final = re.compile(r"^[A-Za-z0-9._-]+$")
_REFERENCE: Final = re.compile(r"(?<!\$)\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-[^{}]*)?\}")
# Delta refuses these in column names unless the table maps its columns.
_NOT_IN_COLUMNS: Final = re.compile(r"[ ,;{}()\n\t=]")
_A_FLOW: Final = "flows: {events: {topics: [events], format: raw, table: bronze.events}}"
_DRIVER_MEMORY: Final = "spark.driver.memory"
_LOWEST: Final = {"starting_offsets": -2, "ending_offsets": -1}


def validate_static(project: ResolvedProject) -> None:
    """Checks whether the project can run, as far as possible without Spark and without a broker.

    Raises:
        ProjectProblems: There are several problems; the error lists all of them.
        RivermouthError: The only problem.
    """
    raise_all(static_problems(project), project.file)


def static_problems(project: ResolvedProject) -> list[RivermouthError]:
    """All that is wrong, each with its place; in the order of the checks, the environment first."""
    missing = list(_environment(project))
    if missing:
        # What hangs on a missing variable cannot be judged; the rest would only repeat it.
        return missing
    found: list[RivermouthError] = []
    for check in (_flows, _kafka, _registry, _spark, _each_flow, _places, _groups, _sources):
        found += check(project)
    return found


def topic_problem(name: str, where: str, written: str | None = None) -> RivermouthError | None:
    """Why ``name`` is no legal name of a Kafka topic, as an error not yet raised; None where it is one.

    Args:
        name: The name.
        where: Its place, for the message.
        written: The text that the message has in the place of the name.
    """
    fix = "name a topic, for example: orders"
    if not name.strip():
        return TopicNameEmpty(where=where, fix=fix)
    if name in (".", ".."):
        reason = "'.' and '..' are no names"
    elif len(name) > MAX_TOPIC_CHARACTERS:
        reason = f"it has {len(name)} characters, and Kafka allows {MAX_TOPIC_CHARACTERS}"
    elif not _TOPIC.match(name):
        reason = "only letters, digits, '.', '_' and '-' are allowed"
    else:
        return None
    return TopicNameInvalid(where=where, name=written or name, reason=reason, fix=fix)


def _environment(project: ResolvedProject) -> Iterator[RivermouthError]:
    resolved = set()
    for path, text in texts_with_references(project.spec):
        resolved.add(path)
        try:
            expand(text, project.environ)
        except (EnvironmentMissing, ProjectInvalid, SecretMissing) as error:
            yield error.located(project.at(*path))
    if project.file is not None:
        return  # what looks like a reference in other texts was written as plain text
    for path, text in _texts((), project.spec.model_dump()):
        if path not in resolved and _REFERENCE.search(text):
            name = next(references(text), "NAME")
            detail = f"{path_text(path)}: ${{{name}}} is not resolved here, as this project was not read from a file"
            yield ProjectInvalid(detail=detail, fix=f"write its value: os.environ[{name!r}]")


def _texts(path: Path, value: object) -> Iterator[tuple[Path, str]]:
    if isinstance(value, str):
        yield path, value
    elif isinstance(value, dict):
        for key, part in value.items():
            # Offsets of topics stand one level deeper in the noun than in the file.
            yield from _texts(path if key == "offsets" else (*path, key), part)
    elif isinstance(value, list | tuple):
        for index, part in enumerate(value):
            yield from _texts((*path, index), part)


def _flows(project: ResolvedProject) -> Iterator[RivermouthError]:
    flows = project.spec.flows
    if not flows and not project.spec.pipelines:
        yield _invalid(project, ("flows",), "the project has no flow", _A_FLOW)
    for name in sorted(flows.keys() & project.spec.pipelines.keys()):
        detail = f"{path_text(('pipelines', name))}: a flow has this name too"
        yield _invalid(project, ("pipelines", name), detail, "give it another name")
    for name, flow in flows.items():
        if flow.name != name:
            detail = f"{path_text(('flows', name))}: the flow is also called {flow.name!r}"
            yield _invalid(project, ("flows", name), detail, "give it one name")
        if flow.previously in flows:
            detail = f"{path_text(('flows', name))}: previously names {flow.previously!r}, which is still a flow"
            yield _invalid(project, ("flows", name, "previously"), detail, "remove previously:, or the other flow")


def _kafka(project: ResolvedProject) -> Iterator[RivermouthError]:
    wrong = wrong_addresses(project.bootstrap_servers)
    if wrong is not None:
        detail, instead = wrong
        path: Path = ("kafka", "bootstrap_servers")
        yield _invalid(project, path, f"{path_text(path)}: {detail}", f"bootstrap_servers: {instead}")
    try:
        options = project.expanded_options()
    except ProjectInvalid as error:
        yield error
        return
    for problem in kafka_options.problems(options):
        yield problem.located(project.at("kafka", "options", str(problem.facts["option"])))


def _spark(project: ResolvedProject) -> Iterator[RivermouthError]:
    """The heap of the driver, where it is written as Spark's own option."""
    size = project.spark_conf.get(_DRIVER_MEMORY)
    wrong = None if size is None else heap_problem(size)
    if wrong is not None:
        path: Path = ("spark", "conf", _DRIVER_MEMORY)
        detail, fix = wrong
        if (written := project.spec.spark.conf.get(_DRIVER_MEMORY)) != size:
            detail, fix = f"{written!r} is no size of a heap", "write 1g"
        yield _invalid(project, path, f"{path_text(path)}: {detail}", fix)


def _registry(project: ResolvedProject) -> Iterator[RivermouthError]:
    """The schema registry's address and login, and flows that need one where there is none."""
    try:
        registry = project.schema_registry
    except RivermouthError as wrong:
        yield wrong
        return
    if registry is not None:
        return
    fix = "schema_registry: {url: ...}, at the top of the file"
    for name, flow in project.spec.flows.items():
        for key, form in (("format", flow.format), ("key_format", flow.key_format)):
            if reads_registry(form):
                path: Path = ("flows", name, key)
                detail = f"{path_text(path)}: its schemas are in a schema registry, and the project names none"
                yield _invalid(project, path, detail, fix)
        if isinstance(flow.sink, KafkaSink) and flow.sink.registry_format is not None:
            path = ("flows", name, "sink", "format")
            detail = f"{path_text(path)}: its schema is in a schema registry, and the project names none"
            yield _invalid(project, path, detail, fix)
        if reads_registry(flow.value_format) and not reads_registry(flow.format):
            path = ("flows", name, "evolution")
            detail = f"{path_text(path)}: a schema registry has the schemas of writers, and the project names none"
            yield _invalid(project, path, detail, fix)


def _each_flow(project: ResolvedProject) -> Iterator[RivermouthError]:
    checks: tuple[Callable[[ResolvedProject, Flow], Iterator[RivermouthError]], ...] = (
        _topics,
        _pattern,
        _assigned,
        _offset_values,
        _offset_order,
        _metadata,
    )
    for name in project.spec.flows:
        flow = project.flow(name)
        for check in checks:
            yield from check(project, flow)


def _topics(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    seen: set[str] = set()
    # With its references: what is no topic's name may be a secret that was meant for another setting.
    written = project.spec.flows[flow.name]
    for index, (topic, text) in enumerate(zip(flow.topics, written.topics, strict=True)):
        path = ("flows", flow.name, "topics", index)
        if topic in seen:
            yield _invalid(project, path, f"{path_text(path)}: topic {text!r} is there twice", "name each topic once")
        seen.add(topic)
        yield from _topic_name(project, path, topic, text)
    for text in written.assign:
        yield from _topic_name(project, ("flows", flow.name, "assign", text), expand(text, project.environ), text)


def _topic_name(project: ResolvedProject, path: Path, topic: str, text: str) -> Iterator[RivermouthError]:
    problem = topic_problem(topic, path_text(path), text)
    if problem is not None:
        yield problem.located(project.at(*path))


def _pattern(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    if flow.topic_pattern is None:
        return
    at = project.at("flows", flow.name, "topic_pattern")
    try:
        re.compile(flow.topic_pattern)
    except re.error as error:
        written = project.spec.flows[flow.name].topic_pattern or ""
        detail = str(error) if written == flow.topic_pattern else "its references make it none"
        yield TopicPatternInvalid(at=at, flow=flow.name, pattern=written, detail=detail)


def _texts_of_topics(project: ResolvedProject, written: Iterable[str]) -> dict[str, str]:
    """By name of a topic the text that the project has for it, with its references."""
    return {expand(text, project.environ): text for text in written}


def _assigned(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    for topic, partitions in project.spec.flows[flow.name].assign.items():
        path = ("flows", flow.name, "assign", topic)
        fix = f"assign: {{{topic}: [0, 1]}}"
        if not partitions:
            yield _invalid(project, path, f"{path_text(path)}: no partition is named", fix)
        elif min(partitions) < 0:
            yield _invalid(project, path, f"{path_text(path)}: partitions are counted from 0", fix)
        elif len(set(partitions)) < len(partitions):
            yield _invalid(project, path, f"{path_text(path)}: a partition is there twice", "name each partition once")


def _offset_values(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    known, written = {*flow.topics, *flow.assign}, project.spec.flows[flow.name]
    for setting, lowest in _LOWEST.items():
        texts = _texts_of_topics(project, getattr(getattr(written, setting), "offsets", ()))
        offsets = getattr(getattr(flow, setting), "offsets", {})
        for topic, partitions in offsets.items():
            text = texts[topic]
            path = ("flows", flow.name, setting, text)
            if known and topic not in known:
                fix = did_you_mean(text, (*written.topics, *written.assign))
                yield _invalid(project, path, f"{path_text(path)}: the flow does not read topic {text!r}", fix)
                continue
            if flow.is_family and not table_per_topic.reads(flow, topic):
                # No child would say so: each has the offsets of its own topic.
                fix = f"name a topic that matches {written.topic_pattern}, or leave it out"
                yield _invalid(project, path, f"{path_text(path)}: the flow does not read topic {text!r}", fix)
                continue
            for partition, offset in partitions.items():
                here = (*path, partition)
                if partition < 0 or partition not in (flow.assign.get(topic) or (partition,)):
                    detail = f"{path_text(path)}: the flow does not read partition {partition}"
                    yield _invalid(project, here, detail, "correct the partition, or assign:")
                if offset < lowest:
                    also = "-2 is earliest, -1 latest" if lowest == -2 else "-1 is latest"  # noqa: PLR2004
                    detail = f"{path_text(path)}: partition {partition} has offset {offset}"
                    yield _invalid(project, here, detail, f"write an offset from 0 on; {also}")


def _offset_order(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    start, end = flow.starting_offsets, flow.ending_offsets
    if end is None:
        return
    path: Path = ("flows", flow.name, "ending_offsets")
    if start.timestamp and end.timestamp and end.timestamp < start.timestamp:
        yield _invalid(project, path, f"{path_text(path)}: it is before starting_offsets", "exchange the two")
    written = project.spec.flows[flow.name].ending_offsets or end
    for topic, text in _texts_of_topics(project, written.offsets).items():
        for partition, last in end.offsets[topic].items():
            first = start.offsets.get(topic, {}).get(partition, -2)
            if 0 <= last < first:
                detail = f"{path_text((*path, text))}: partition {partition} ends at {last} and starts at {first}"
                yield _invalid(project, (*path, text, partition), detail, "exchange the two")


def _metadata(project: ResolvedProject, flow: Flow) -> Iterator[RivermouthError]:
    path = ("flows", flow.name, "metadata_columns")
    seen: dict[str, str] = {}
    for metadata, column in flow.metadata_columns.items():
        if not column or _NOT_IN_COLUMNS.search(column) or column.startswith("__"):
            detail = f"{path_text(path)}: {metadata} cannot be called {column!r}"
            fix = "use letters, digits and _, and no two _ at the beginning"
            yield _invalid(project, (*path, metadata), detail, fix)
        if column.lower() in seen:
            detail = f"{path_text(path)}: {seen[column.lower()]} and {metadata} are both called {column!r}"
            yield _invalid(project, (*path, metadata), detail, "give each a name of its own")
        seen[column.lower()] = metadata


def _places(project: ResolvedProject) -> Iterator[RivermouthError]:
    resolved: list[FlowPlaces] = []
    real: list[FlowPlaces] = []
    # A broken lake or template of the whole project is one problem, not one for each flow.
    found: dict[str, RivermouthError] = {}
    for flow in project.stand_ins():
        try:
            resolved.append(project.places_of(flow))
            real.append(project.with_debug(debug=False).places_of(flow))
        except RivermouthError as error:
            found.setdefault(str(error), error)
    if found:
        yield from found.values()
        return
    catalog = project.spec.catalog
    if catalog is not None and catalog.is_embedded and schemes([project.lake]):
        detail = "catalog: the embedded metastore is a file on this machine, and the lake is elsewhere"
        yield _invalid(project, ("catalog",), detail, "catalog: {metastore: thrift://host:9083}")
    try:
        check_distinct(resolved)
        if project.debug:
            check_apart(resolved, real)
    except RivermouthError as error:
        owner = str(error.facts.get("second", error.facts.get("setting", ""))).removeprefix("flow ")
        owner, _, setting = owner.partition(": ")
        yield error.located(project.at("flows", owner, *(setting or "table").split(".")))


def _sources(project: ResolvedProject) -> Iterator[RivermouthError]:
    """Flows that read tables: of this project, and such as hold all that they need."""
    try:
        tables = project.tables
    except RivermouthError:
        return  # told of the places
    flows = {name: project.flow(name) for name in project.spec.flows}
    for name, flow in flows.items():
        for each in (
            *source_table.problems(flow, flows, tables),
            *source_table.lookup_problems(flow, flows, tables),
        ):
            path = ("flows", name, each.field)
            yield _invalid(project, path, f"{path_text(path)}: {each.detail}", each.fix)


def _groups(project: ResolvedProject) -> Iterator[RivermouthError]:
    """Two flows that commit one topic under one group would overwrite each other's progress."""
    flows = [flow for flow in project.flows() if flow.group_id]
    for first, second in itertools.combinations(flows, 2):
        shared = {*first.topics, *first.assign} & {*second.topics, *second.assign}
        if first.group_id == second.group_id and shared:
            path = ("flows", second.name, "group_id")
            written = project.spec.flows[table_per_topic.parted(second.name)[0]]
            topic = _texts_of_topics(project, (*written.topics, *written.assign)).get(min(shared), min(shared))
            detail = f"flows {first.name!r} and {second.name!r} show topic {topic!r} under one group_id"
            yield _invalid(project, path, detail, "give each flow a group_id of its own")


def _invalid(project: ResolvedProject, path: Path, detail: str, fix: str) -> ProjectInvalid:
    return ProjectInvalid(at=project.at(*path), detail=detail, fix=fix)
