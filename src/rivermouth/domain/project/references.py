"""References to environment variables and secrets, and ``$${`` for a plain ``${``.

Variables are ``${NAME}`` and ``${NAME:-default}``, secrets ``${PROVIDER:REFERENCE}`` and ``{{secrets/SCOPE/KEY}}``.

What a user wrote keeps its references; they are resolved where the text is used, so that no printout of a
project shows what a variable holds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Final

from rivermouth.errors import EnvironmentMissing, ProjectInvalid
from rivermouth.spec import JarFormat

if TYPE_CHECKING:
    from rivermouth.spec import Flow, Format, Pipeline, ProjectSpec

_REFERENCE: Final = re.compile(
    r"(?P<escaped>\$\$\{)"
    r"|\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)(?::-(?P<default>[^{}]*))?\}"
    r"|\$\{(?P<provider>[a-z][a-z0-9_]*):(?P<reference>[^-{}][^{}]*)\}"
    r"|\{\{secrets/(?P<scoped>[^/{}]+/[^/{}]+)\}\}"
    r"|(?P<broken>\$\{)"
)


def expand(text: str, environ: Mapping[str, str], *, as_text: Callable[[str], str] = str) -> str:
    """``text`` with each reference replaced; what a variable holds is not looked into again.

    A default replaces a variable that is not set or empty, as in a shell. ``environ`` has secrets under
    ``provider:reference``; ``as_text`` converts a value to the text that replaces its reference.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        SecretMissing: A provider does not have the secret.
        ProjectInvalid: A ``${`` begins no reference.
    """

    def written(match: re.Match[str]) -> str:
        _judge_reference(match)
        return "${" if match["escaped"] else as_text(_value(match, environ))

    return _REFERENCE.sub(written, text)


def _value(match: re.Match[str], environ: Mapping[str, str]) -> str:
    if secret := _secret_name(match):
        return environ[secret]
    name, default = match["name"], match["default"]
    if default is not None:
        return environ.get(name) or default
    if name not in environ:
        raise EnvironmentMissing(name=name)
    return environ[name]


def references(text: str) -> Iterator[str]:
    """The names of the variables and secrets that ``text`` refers to, in order.

    Raises:
        ProjectInvalid: A ``${`` begins no reference.
    """
    for match in _REFERENCE.finditer(text):
        _judge_reference(match)
        if name := match["name"] or _secret_name(match):
            yield name


def values_in(text: str, environ: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """(reference as it is written, value in its place) of each reference in ``text``.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        SecretMissing: A provider does not have the secret.
        ProjectInvalid: A ``${`` begins no reference.
    """
    for match in _REFERENCE.finditer(text):
        _judge_reference(match)
        if not match["escaped"]:
            yield match[0], _value(match, environ)


def expand_flow(flow: Flow, environ: Mapping[str, str]) -> Flow:
    """``flow`` with the references in its topics, pattern, group and format resolved.

    Those are all fields of a flow that may hold references, but for its places.

    Raises:
        EnvironmentMissing: A variable without default is not set.
        ProjectInvalid: A ``${`` begins no reference.
    """
    changes: dict[str, Any] = {
        "topics": tuple(expand(topic, environ) for topic in flow.topics),
        "assign": {expand(topic, environ): partitions for topic, partitions in flow.assign.items()},
        "topic_pattern": flow.topic_pattern and expand(flow.topic_pattern, environ),
        "group_id": flow.group_id and expand(flow.group_id, environ),
        "starting_offsets": flow.starting_offsets.model_copy(
            update={
                "offsets": {expand(topic, environ): part for topic, part in flow.starting_offsets.offsets.items()},
                "group": flow.starting_offsets.group and expand(flow.starting_offsets.group, environ),
            }
        ),
    }
    for name in ("format", "key_format"):
        form: Format | None = getattr(flow, name)
        if isinstance(form, JarFormat):
            texts = {called: expand(text, environ) for called, text in form.config_texts.items()}
            changes[name] = form.with_config_texts(texts)
    if flow.ending_offsets is not None:
        ends = {expand(topic, environ): part for topic, part in flow.ending_offsets.offsets.items()}
        changes["ending_offsets"] = flow.ending_offsets.model_copy(update={"offsets": ends})
    changed = {name: value for name, value in changes.items() if value != getattr(flow, name)}
    return flow.model_copy(update=changed) if changed else flow


def texts_with_references(project: ProjectSpec) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """(path, text) of each text in which references are resolved, references or not."""
    yield ("lake",), project.lake
    yield ("kafka", "bootstrap_servers"), project.kafka.bootstrap_servers
    for field in ("username", "password"):
        if (said := getattr(project.kafka, field)) is not None:
            yield ("kafka", field), said
    for name, value in project.kafka.options.items():
        yield ("kafka", "options", name), str(value)
    for field in ("url", "username", "password", "ca_file"):
        if (said := getattr(project.schema_registry, field, None)) is not None:
            yield ("schema_registry", field), said
    for name, conf in project.spark.conf.items():
        yield ("spark", "conf", name), str(conf)
    yield from _of_places((), project)
    for name, flow in project.flows.items():
        yield from _of_flow(("flows", name), flow)
        yield from _of_places(("flows", name), flow)
    for name, pipeline in project.pipelines.items():
        yield from _of_pipeline(("pipelines", name), pipeline)


def _of_pipeline(path: tuple[str, ...], pipeline: Pipeline) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for key, value in pipeline.configuration.items():
        yield (*path, "configuration", key), str(value)
    for profile, over in pipeline.profiles.items():
        for key, value in over.configuration.items():
            yield (*path, "profiles", profile, "configuration", key), str(value)


def _of_flow(path: tuple[str, ...], flow: Flow) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for index, topic in enumerate(flow.topics):
        yield (*path, "topics", index), topic
    for topic in flow.assign:
        yield (*path, "assign", topic), topic
    for name in ("topic_pattern", "group_id"):
        if getattr(flow, name):
            yield (*path, name), getattr(flow, name)
    for name in ("starting_offsets", "ending_offsets"):
        for topic in getattr(getattr(flow, name), "offsets", ()):
            yield (*path, name, topic), topic
    for setting in ("format", "key_format"):
        for name, text in getattr(getattr(flow, setting), "texts", {}).items():
            yield (*path, setting, "config", name), text
    if flow.starting_offsets.group:
        yield (*path, "starting_offsets", "group"), flow.starting_offsets.group


def _of_places(path: tuple[str, ...], owner: ProjectSpec | Flow) -> Iterator[tuple[tuple[str | int, ...], str]]:
    for name, template in owner.places:
        if template is not None:
            yield (*path, "places", name), template


def _secret_name(match: re.Match[str]) -> str | None:
    if match["scoped"]:
        return f"databricks:{match['scoped']}"
    return f"{match['provider']}:{match['reference']}" if match["provider"] else None


def _judge_reference(match: re.Match[str]) -> None:
    if match["broken"]:
        # The text itself may be a secret: it is not quoted.
        raise ProjectInvalid(
            detail="a '${' begins no reference",
            fix="write ${NAME}, ${NAME:-default} or ${file:PATH}; for a plain '${' write $${",
        )
