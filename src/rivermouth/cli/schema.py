"""``rivermouth schema``: schemas of topics inferred, kept and shown, and the schema of the project file."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from rivermouth.cli.attend import hooks
from rivermouth.cli.options import FILE_NAME, WholeNumber, pairs, speaking, with_project
from rivermouth.cli.output import Output, count, indented
from rivermouth.cli.text_table import columns
from rivermouth.errors import ArgumentInvalid
from rivermouth.names import printable

if TYPE_CHECKING:
    from rivermouth.engine.schema.infer import Inference
    from rivermouth.engine.schema.kept_schemas import SchemaUpdate
    from rivermouth.project.api import Project
    from rivermouth.project.commands.schema import Asked
    from rivermouth.schemas.inferred import Conflict, FieldFound
    from rivermouth.schemas.schema_versions import KeptSchema


@click.group()
def schema() -> None:
    """Schemas of what rivermouth reads."""


@schema.command("infer", short_help="Infer the schema of a topic or of a flow.")
@click.argument("name", metavar="TOPIC|FLOW")
@click.option("--all", "whole", is_flag=True, help="Read all records, not a sample.")
@click.option("--sample", type=WholeNumber(min=1), metavar="N", help="Read about N records; 50,000 by default.")
@click.option("--infer-times", is_flag=True, default=None, help="Strings that are all dates or timestamps become such.")
@click.option("--max-fields", type=WholeNumber(1, 5000), metavar="N", help="An object with more fields is a map; 500.")
@click.option("--latest-per-key", is_flag=True, default=None, help="Of each key the newest record alone.")
@click.option("--save", metavar="FILE", help="Write the schema to a .json file, which schema: takes.")
@click.option("--update", is_flag=True, help="Of a flow with schema: infer: keep what is different as a new version.")
@click.option("--debug", is_flag=True, help="With --update: the kept schema of the flow's trial.")
@click.option(
    "--bootstrap-servers", help="Kafka's brokers, host:port, of a TOPIC; the project's by default, else localhost:9092."
)
@click.option(
    "--kafka-option", "kafka_options", multiple=True, metavar="NAME=VALUE", help="An option of the client, for a TOPIC."
)
@with_project
def infer(
    output: Output,
    name: str,
    file: str,
    save: str | None,
    bootstrap_servers: str | None,
    kafka_options: tuple[str, ...],
    *,
    update: bool,
    debug: bool,
    **asked: Any,
) -> None:
    """Infer the schema of the JSON documents in a TOPIC, or in the topics of a FLOW of the project.

    A sample is read that is spread over partitions and time; with --all everything. Values that are no JSON objects,
    and records without one, are counted and left out. Prints each field with the share of records that have it.
    Nothing is changed, except with --save and --update.
    """
    from rivermouth.project.commands import schema as of_project
    from rivermouth.project.resolved.known_tables import flows_called, where_there

    if save:
        of_project.check_save(save)
    look = of_project.Asked(**asked)
    project = _project(file, of_cluster=bool(bootstrap_servers or kafka_options), debug=debug)
    flows = flows_called(project, name)
    if save and len(flows) > 1:
        detail = f"one file has one schema, and {name} is {len(flows)} flows"
        fix = f"rivermouth schema infer {flows[0]} --save {save}"
        raise ArgumentInvalid(argument="--save", detail=detail, fix=fix)
    found: dict[str, tuple[Inference, SchemaUpdate | None]]
    with hooks(output) as given:
        if update and (project is None or not flows):
            detail, fix = f"there is no flow {name!r} whose schema is kept", "rivermouth ingest TOPIC"
            raise ArgumentInvalid(argument="--update", detail=detail, fix=fix)
        if project is not None and flows:
            of = _updated if update else _inferred
            found = where_there(flows, name, lambda flow: of(project, flow, look, given))
        else:
            found = {name: (_found(name, project, look, bootstrap_servers, pairs(kafka_options)), None)}
    if save:
        of_project.save(found[name if name in found else flows[0]][0], save)
    _tell(output, name, {each: _text(*done) for each, done in found.items()}, {e: _json(*d) for e, d in found.items()})
    if save:
        output.note(f"written: {save}")


def _inferred(project: Project, flow: str, look: Asked, given: Any) -> tuple[Inference, None]:
    from rivermouth.project.commands import schema as of_project

    return of_project.of_flow(project, flow, look, given), None


def _updated(project: Project, flow: str, look: Asked, given: Any) -> tuple[Inference, SchemaUpdate]:
    from rivermouth.project.commands import schema as of_project

    done = of_project.update(project, flow, look, given)
    return done.inference, done


def _tell(output: Output, name: str, texts: dict[str, str], bodies: dict[str, Any]) -> None:
    """Says what there is of one flow or topic, or of each child of a family."""
    if [*texts] == [name]:
        output.result(texts[name], bodies[name])
        return
    headed = (f"{each}:\n{indented(text, '  ')}" for each, text in texts.items())
    output.result("\n\n".join(headed) or "no topic has a table yet", {"flows": bodies})


@schema.command("show", short_help="Show the schema that a flow keeps.")
@click.argument("flow")
@click.option("--history", is_flag=True, help="All versions, with what each changed.")
@click.option("--debug", is_flag=True, help="The kept schema of the flow's trial.")
@with_project
def show(output: Output, flow: str, file: str, *, history: bool, debug: bool) -> None:
    """Show the schema that FLOW keeps: inferred, or grown as it ran."""
    from rivermouth.project.api import Project
    from rivermouth.project.commands import schema as of_project
    from rivermouth.project.resolved.known_tables import names_of

    project = Project.load(file).with_debug(debug=debug)
    flows = names_of(project, flow)
    found = {name: of_project.history(project, name) for name in flows}
    texts = {name: _history(each) if history else _shown(each[0]) for name, each in found.items()}
    bodies: dict[str, Any] = {
        name: {"versions": [_version(one) for one in each]} if history else _version(each[0])
        for name, each in found.items()
    }
    _tell(output, flow, texts, bodies)


@schema.command("json")
@speaking
def schema_json(output: Output) -> None:
    """Print the JSON Schema of the project file, for editors."""
    from rivermouth.project.file.json_schema import project_schema, to_text

    found = project_schema()
    output.result(to_text(found).rstrip("\n"), found, whole=True)


def _shown(newest: KeptSchema) -> str:
    head = f"version {newest.version} of {newest.kept_at}, {_seen(newest)}"
    fields = [f"{field.name} {field.dataType.simpleString()}" for field in newest.schema.fields]
    fields += [f"{_dotted(path)} void (no column until a value comes)" for path in newest.open]
    return "\n".join([head, *(f"  {printable(each)}" for each in fields)])


def _project(file: str, *, of_cluster: bool, debug: bool) -> Project | None:
    """The project, if there is one and no other cluster was named."""
    from rivermouth.project.api import Project

    if of_cluster or (file == FILE_NAME and not Path(file).exists()):
        return None
    return Project.load(file).with_debug(debug=debug)


def _found(name: str, project: Project | None, look: Asked, servers: str | None, options: Any) -> Inference:
    from rivermouth.project.commands import schema as of_project

    if project is not None:
        return of_project.of_topic(name, look, beside=project)
    servers = servers or "localhost:9092"
    return of_project.of_topic(name, look, bootstrap_servers=servers, kafka_options=options)


def _text(found: Inference, done: SchemaUpdate | None) -> str:
    seen, inferred = found.seen, found.inferred
    rows = [_field(each) for each in inferred.fields]
    parts = [columns(("field", "type", "in", ""), rows)]
    if inferred.conflicts:
        parts += ["", "conflicts, kept as text:", *(f"  {printable(_conflict(each))}" for each in inferred.conflicts)]
    corrupt = "; ".join(
        f"{reason} {each.count:,}, first {_place(each.example)}" for reason, each in sorted(seen.shape.corrupt.items())
    )
    parts += ["", f"corrupt, left out: {corrupt}"] if corrupt else [""]
    part = "all" if seen.whole else f"a sample of {seen.offsets:,} offsets"
    newest = ", the newest of each key" if seen.latest_per_key else ""
    parts.append(
        f"{seen.subject}: {count(seen.read, 'record')} read in {seen.seconds:.1f} s ({part}{newest}), "
        f"{seen.shape.corrupt_records:,} corrupt, {seen.shape.without_value:,} without a value"
    )
    if done is not None:
        parts.append(_update(done))
    return "\n".join(parts)


def _update(done: SchemaUpdate) -> str:
    if not done.is_new:
        return f"nothing new: version {done.kept.version} stays"
    changes = "".join(f"\n  {printable(change)}" for change in done.kept.changes)
    return f"kept as version {done.kept.version}; the next run uses it{changes}"


def _field(field: FieldFound) -> tuple[str, str, str, str]:
    *_, name = (part for part in field.path if part not in ("[]", "{}")) if _named(field) else ("",)
    depth = sum(part not in ("[]", "{}") for part in field.path) - 1
    share = "" if field.share is None else f"{100 * field.share:.4g} %"
    notes = [f"column {field.column}" if field.column else None, field.note]
    return "  " * depth + (name or '""'), field.type, share, ", ".join(filter(None, notes))


def _named(field: FieldFound) -> bool:
    return any(part not in ("[]", "{}") for part in field.path)


def _conflict(conflict: Conflict) -> str:
    kinds = ", ".join(f"{kind} {seen.count:,} ({_place(seen.example)})" for kind, seen in conflict.kinds.items())
    return f"{_dotted(conflict.path)}: {kinds}"


def _dotted(path: tuple[str, ...]) -> str:
    return ".".join(path).replace(".[]", "[]").replace(".{}", "{}")


def _place(example: tuple[str, int, int]) -> str:
    topic, partition, offset = example
    return f"{topic}-{partition} offset {offset}"


def _json(found: Inference, done: SchemaUpdate | None) -> dict[str, Any]:
    seen, inferred = found.seen, found.inferred

    def kinds(each: dict[str, Any]) -> dict[str, Any]:
        return {name: {"count": part.count, "example": list(part.example)} for name, part in sorted(each.items())}

    body: dict[str, Any] = {
        "subject": seen.subject,
        "schema": inferred.complete.jsonValue(),
        "open": [_dotted(path) for path in inferred.open],
        "fields": inferred.fields,
        "conflicts": [
            {"path": each.path, "type": each.type, "kinds": kinds(dict(each.kinds))} for each in inferred.conflicts
        ],
        "corrupt": kinds(seen.shape.corrupt),
        "records": seen.read,
        "corrupt_records": seen.shape.corrupt_records,
        "without_value": seen.shape.without_value,
        "offsets": seen.offsets,
        "whole": seen.whole,
        "latest_per_key": seen.latest_per_key,
        "seconds": round(seen.seconds, 3),
    }
    if done is not None:
        body |= {
            "version": done.kept.version,
            "is_new": done.is_new,
            "changes": done.kept.changes if done.is_new else (),
        }
    return body


def _history(versions: list[KeptSchema]) -> str:
    rows = [
        (each.version, each.kept_at, len(each.schema.fields), _seen(each), "; ".join(each.changes) or "first version")
        for each in versions
    ]
    return columns(("version", "kept at", "columns", "made of", "changes"), rows)


def _seen(kept: KeptSchema) -> str:
    part = "all" if kept.whole else "a sample"
    return f"{count(kept.records, 'record')} ({part}), {kept.corrupt:,} corrupt"


def _version(kept: KeptSchema) -> dict[str, Any]:
    return {
        "version": kept.version,
        "kept_at": kept.kept_at,
        "records": kept.records,
        "corrupt": kept.corrupt,
        "whole": kept.whole,
        "changes": list(kept.changes),
        "open": [_dotted(path) for path in kept.open],
        "schema": kept.schema.jsonValue(),
    }
