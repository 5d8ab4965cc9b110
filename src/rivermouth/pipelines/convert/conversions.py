"""The two conversions: a flow to a file of a pipeline, and the files of a pipeline to a project file."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal

from rivermouth.errors import FlowNotConvertible, RivermouthError
from rivermouth.pipelines.convert.drafts import Pipeline, drafts
from rivermouth.pipelines.convert.flow_in_file import FlowInFile
from rivermouth.pipelines.convert.from_flow import draft_of
from rivermouth.pipelines.convert.model import Difference, Draft, NoFlow, NotReadable
from rivermouth.pipelines.convert.read_sql import SECRET
from rivermouth.pipelines.convert.to_flow import flow_of
from rivermouth.pipelines.convert.to_python import to_python
from rivermouth.pipelines.convert.to_sql import to_sql
from rivermouth.project.file.dump import to_yaml
from rivermouth.project.file.reading import read_mapping

if TYPE_CHECKING:
    from rivermouth.pipelines.running.pipeline import Pipeline as RunPipeline

Language = Literal["python", "sql"]
SERVERS: Final = "bootstrap.servers"
_OF_PIPELINES: Final = {
    "continuous": "flows go on with rivermouth run --follow",
    "storage": "the state of a flow is in its lake",
    "event_log": "a flow has no table of events",
}
_SECRET_WORDS: Final = ("password", "secret", "jaas", "token", "truststore", "keystore", "credential", "key")


@dataclass(frozen=True, slots=True)
class Converted:
    """The result of a conversion.

    Attributes:
        text: The text of the file; empty where nothing could be written.
        made: The names of the flows or tables that are in it.
        differences: What is different there.
        no_flows: The datasets that are no flows, with the reasons.
    """

    text: str
    made: tuple[str, ...] = ()
    differences: tuple[Difference, ...] = ()
    no_flows: tuple[NoFlow, ...] = ()


def to_pipeline(found: FlowInFile, language: Language, leave_out: Collection[str] = ()) -> Converted:
    """A file of a pipeline that makes the table of a flow of the same topic.

    Args:
        found: The flow.
        language: Of the file.
        leave_out: Settings that may be left out.

    Raises:
        FlowNotConvertible: There is no such file.
        FlowSettingsNotConvertible: It has other settings that a pipeline does not have.
    """
    flow = found.flow
    draft, differences = draft_of(found, leave_out, decodes=language == "python")
    origin = f"flow {flow.name} of {found.file}"
    text = to_python(draft, origin) if language == "python" else to_sql(draft, origin)
    if language == "sql" and "${" in text:
        detail = "it has a text with ${, which is a parameter in SQL"
        raise FlowNotConvertible(at=found.place(), flow=flow.name, detail=detail, fix=f"rivermouth convert {flow.name}")
    return Converted(text, (draft.dataset.name,), tuple(differences))


@dataclass
class _Flows:
    pipeline: Pipeline
    flows: dict[str, dict[str, Any]] = field(default_factory=dict)
    differences: list[Difference] = field(default_factory=list)
    no_flows: list[NoFlow] = field(default_factory=list)
    kafka: dict[str, Any] | None = None

    def take(self, draft: Draft) -> None:
        """Adds a table as a flow, or to those that are none."""
        try:
            body, differences = flow_of(draft, self.pipeline.names.schema)
            cluster = self._cluster(draft, differences)
            name = self._name(draft)
            if repr(SECRET)[1:-1] in repr(body):
                raise NotReadable(draft.at, "a secret is a part of its query")  # noqa: TRY301 - it is no flow, as others
            read_mapping({"lake": "./lake", "flows": {name: body}}, {})
        except NotReadable as error:
            self.no_flows.append(NoFlow(draft.dataset.name, str(error.at), error.reason))
            return
        except RivermouthError as error:
            self.no_flows.append(NoFlow(draft.dataset.name, str(draft.at), f"[{error.code}] {error.message}"))
            return
        self.kafka = cluster
        self.flows[name] = body
        self.differences += differences

    def _name(self, draft: Draft) -> str:
        name = draft.dataset.name.replace("`", "").rpartition(".")[2]
        number, wanted = 2, name
        while wanted in self.flows:
            wanted, number = f"{name}_{number}", number + 1
        return wanted

    def _cluster(self, draft: Draft, differences: list[Difference]) -> dict[str, Any]:
        options = {name[len("kafka.") :]: value for name, value in draft.cluster.items()}
        servers = options.pop(SERVERS, options.pop("bootstrapServers", None))
        found: dict[str, Any] = {} if servers is None or SECRET in servers else {"bootstrap_servers": servers}
        if self.kafka is not None and self.kafka.get("bootstrap_servers") != found.get("bootstrap_servers"):
            raise NotReadable(draft.at, "its brokers are others than those of the flows before it")
        is_secret = {
            name: SECRET in value or any(each in name.lower() for each in _SECRET_WORDS)
            for name, value in options.items()
        }
        hidden = [
            *([SERVERS] if servers is not None and not found else []),
            *(name for name in options if is_secret[name]),
        ]
        text = "it may hold a secret, and is left out: write it below kafka, with a reference"
        differences += [Difference(str(draft.at), f"kafka.{name}", text) for name in hidden]
        kept = {name: value for name, value in options.items() if not is_secret[name]}
        others = {} if self.kafka is None else self.kafka.get("options", {})
        if self.kafka is not None and others != kept:
            names = ", ".join(sorted(f"kafka.{name}" for name, _ in {*others.items()} ^ {*kept.items()}))
            raise NotReadable(draft.at, f"its options of the brokers are not those of the flows before it: {names}")
        return {**found, **({"options": kept} if kept else {})}


def left_behind(pipeline: RunPipeline) -> list[Difference]:
    """What settings of a pipeline and its project file say of more than tables, which the new file does not say."""
    settings, project = pipeline.settings, pipeline.project
    found = [
        Difference(None if settings.at is None else str(settings.at), name, text)
        for name, text in _OF_PIPELINES.items()
        if getattr(settings, name)
    ]
    if project.file is None:
        return found
    said = project.spec.model_fields_set - {"name", "lake", "flows", "pipelines"}
    text = f"{project.file} says it, and the new file does not: copy it"
    return found + [Difference(f"{project.file}:{project.lines[(name,)]}", name, text) for name in sorted(said)]


def to_flows(pipeline: Pipeline, name: str, lake: str) -> Converted:
    """A project file with those tables of a pipeline that are flows.

    Args:
        pipeline: The pipeline.
        name: The name of the project.
        lake: Its lake.
    """
    found = _Flows(pipeline)
    for each in drafts(pipeline):
        if isinstance(each, NoFlow):
            found.no_flows.append(each)
        else:
            found.take(each)
    if not found.flows:
        return Converted("", (), tuple(found.differences), tuple(found.no_flows))
    body: Mapping[str, Any] = {
        "name": name,
        "lake": lake,
        **({"kafka": found.kafka} if found.kafka else {}),
        "flows": found.flows,
    }
    text = to_yaml(read_mapping(body, {}))
    return Converted(text, tuple(found.flows), tuple(found.differences), tuple(found.no_flows))
