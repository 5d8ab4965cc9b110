"""Writes docs/reference from the classes that it describes, the JSON Schema too; ``--check`` only compares.

Whoever changes a noun, an error, a command or a column runs ``python tools/docs_reference.py``.
"""

# ruff: noqa: SLF001 - it describes what it looks into

from __future__ import annotations

import argparse
import dataclasses
import difflib
import inspect
import json
import re
import sys
import textwrap
import tomllib
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from string import Formatter
from typing import Any, Final

import click
import yaml
from pydantic import BaseModel
from pyspark.sql.types import StructType

from rivermouth import errors, names, spec
from rivermouth.cli import event_text, progress
from rivermouth.cli.main import cli
from rivermouth.decoding.cdc import change_format, connect_format
from rivermouth.decoding.json import json_explain
from rivermouth.decoding.protobuf import (
    protobuf_decode,
    protobuf_descriptor,
    protobuf_reader,
    protobuf_wire_check,
    protobuf_writer_reader,
    protobuf_writer_schemas,
)
from rivermouth.decoding.python import python_arrays, python_decode, python_values
from rivermouth.domain.delta import maintenance, merge_report
from rivermouth.domain.ledger import ledger
from rivermouth.engine import events
from rivermouth.extend import find_kind, kind_names
from rivermouth.project.file import dump
from rivermouth.project.file.json_schema import project_schema, to_text
from rivermouth.rows import conform, dead_letter, lookups
from rivermouth.rows.columns import time_ranges
from rivermouth.rows.keyed import changes, snapshots
from rivermouth.rows.reasons import REASONS

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.compatibility_page import compatibility_page

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"
_COMMAND: Final = "python tools/docs_reference.py"
_HEADER: Final = f"<!-- Written by `{_COMMAND}` from the classes; edit those. -->\n"

_ENTRY: Final = re.compile(r"^(?: {4})(\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)
_SECTION: Final = re.compile(r"^(Attributes|Args|Returns|Raises|Guarantees):$", re.MULTILINE)

_PLAINEST_FLOW: Final = spec.Flow(name="plainest", topics="t", format="raw", table="s.t", sink="append")
_JSON_TYPES: Final[Mapping[str, str]] = {
    "tuple[StillFailing, ...]": "list of [reasons](#reasons)",
    "Decision": "[decision](ledger-entry.md#decision)",
    "tuple[str, ...]": "list of text",
    "tuple[Decision, ...]": "list of [decisions](#decision)",
    "Mapping[int, tuple[int, int]]": "object of [from, to]",
    "MaintenanceReport": "[report](#reports)",
    "tuple[LetterReason, ...]": "list of objects: `reason`, `field`, `failed_expectations`, `letters`",
    "MergeReport | None": "[merge](#merge) or null",
    "Join": "`broadcast`, `shuffle`",
    "Operation": "`optimize`, `vacuum`",
    "Figures": "[figures](#figures)",
    "tuple[tuple[int, int], ...]": "list of [first, last]",
    "Mapping[str, Mapping[int, tuple[int, ...]]]": "object of object of list of number",
}
_FIELDS_HEAD: Final = ("| field | type | meaning |", "|---|---|---|")
_LINK_WORDS: Final[Mapping[str, str]] = {
    "StartingOffsets": "offsets",
    "EndingOffsets": "offsets",
    "Table": "text or mapping",
    "Maintenance": "`after_run` or mapping",
    "Optimize": "time or mapping",
    "Vacuum": "time or mapping",
}

# Where formats whose values are read by Python say their reasons.
_IN_RULES: Final = (json_explain, changes, snapshots, change_format, connect_format)
_IN_PYTHON: Final = (
    python_arrays,
    python_decode,
    python_values,
    protobuf_descriptor,
    protobuf_writer_reader,
    protobuf_reader,
    protobuf_decode,
    protobuf_wire_check,
    protobuf_writer_schemas,
)
_WORDS: Final = tomllib.loads(Path(__file__).with_name("docs_words.toml").read_text("utf-8"))
_PROSE: Final[Mapping[str, str]] = _WORDS["prose"]
_CHANGES: Final = {
    "operation": "with an append of changes",
    "primary_key": "with changes by that key",
    **dict.fromkeys(("source_timestamp", "source_position"), "on request, of changes"),
}
_METADATA: Final[Mapping[str, str]] = _WORDS["metadata_columns"]


def project_file() -> str:
    """The page of rivermouth.yml."""
    body = project_schema(variables=False)
    definitions = body["$defs"]
    places = dict(_noun_places(body))
    parts = [
        "# `rivermouth.yml`",
        _PROSE["project_file_1"],
        _PROSE["project_file_2"],
        _keys("The project", "", spec.ProjectSpec, body, places),
    ]
    models = _models()
    for name, place in places.items():
        title = f"`{place}`" if name not in _kind_models() else f"`{place}: {{type: {_kind_models()[name]}}}`"
        parts.append(_keys(title, name, models[name], definitions[name], places))
    return "\n\n".join(parts)


def _models() -> dict[str, type[BaseModel]]:
    kinds = [find_kind(family, name) for family in ("formats", "sinks") for name in kind_names(family)]
    own = [value for value in vars(spec).values() if inspect.isclass(value) and issubclass(value, BaseModel)]
    return {model.__name__: model for model in (*own, *kinds)}


def _kind_models() -> dict[str, str]:
    return {find_kind(family, name).__name__: name for family in ("formats", "sinks") for name in kind_names(family)}


def _noun_places(body: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Noun and its first place in the file, breadth first."""
    waiting: list[tuple[Any, str]] = [(body, "")]
    seen: set[str] = set()
    while waiting:
        node, place = waiting.pop(0)
        for key, value in _object(node).get("properties", {}).items():
            here = f"{place}.{key}".lstrip(".")
            for name, step in _references(value):
                if name not in seen:
                    seen.add(name)
                    yield name, here + step
                    waiting.append((body["$defs"][name], here + step))


def _object(node: Mapping[str, Any]) -> Mapping[str, Any]:
    """The form of a noun that has keys."""
    return next((form for form in node.get("anyOf", ()) if "properties" in form), node)


def _references(node: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if "$ref" in node:
        yield node["$ref"].rpartition("/")[2], ""
    for form in node.get("anyOf", ()):
        yield from _references(form)
    if isinstance(node.get("items"), dict):
        yield from ((name, f"[]{step}") for name, step in _references(node["items"]))
    if isinstance(node.get("additionalProperties"), dict):
        yield from ((name, f".<name>{step}") for name, step in _references(node["additionalProperties"]))


def _keys(title: str, name: str, model: type[BaseModel], definition: Mapping[str, Any], places: Any) -> str:
    meanings = _attributes(model)
    shape = _object(definition)
    lines = [f"## {title}", "", _summary(model)]
    properties = {key: value for key, value in shape.get("properties", {}).items() if "const" not in value}
    if name in {"StartingOffsets", "EndingOffsets"} or not properties:
        return "\n".join(lines)
    if shape is not definition:
        forms = ", ".join(_type(form, places) for form in definition["anyOf"] if form is not shape)
        lines += ["", f"Either {forms}, or a mapping:"]
    lines += ["", "| key | type | default | meaning |", "|---|---|---|---|"]
    required = set(shape.get("required", ()))
    for key, value in properties.items():
        field = next((f for n, f in model.model_fields.items() if key in (n, f.alias)), None)
        default = "required" if key in required else _default(model, key, field)
        meaning = meanings.get(key) or (meanings.get(_python_name(model, key)) or "")
        if not meaning:
            raise SystemExit(f"{model.__module__}.{model.__name__}: {key} has no line under Attributes")
        lines.append(_row(f"`{key}`", _type(value, places), default, meaning))
    return "\n".join(lines)


def _python_name(model: type[BaseModel], key: str) -> str:
    return next((name for name, field in model.model_fields.items() if field.alias == key), key)


def _default(model: type[BaseModel], key: str, field: Any) -> str:
    if model is spec.Places:
        return f"`{model.DEFAULTS[key]}`" if model.DEFAULTS[key] else "empty"
    if field is None:
        return ""
    # A key that the nouns fill in themselves has no default of its own: look at what they made of it.
    others = {name: each.default for name, each in model.model_fields.items() if each.default_factory is None}
    default = field.get_default(call_default_factory=True, validated_data=others)
    value = getattr(_PLAINEST_FLOW, key) if field.is_required() else default
    in_words = spec.every_text if model in (spec.Optimize, spec.Vacuum) and key == "every" else spec.duration_text
    text = in_words(value) if isinstance(value, float) and not key.endswith("_s") else dump.plain(value)
    if text in (None, {}, (), [], ""):
        return ""
    if key == "metadata_columns":
        text = list(value)
    written = text if isinstance(text, str) else yaml.safe_dump(text, default_flow_style=True, width=999)
    # A plain scalar is a document of its own, which YAML ends.
    return f"`{written.strip().removesuffix('...').strip()}`"


def _type(node: Mapping[str, Any], places: Mapping[str, str]) -> str:
    if "$ref" in node:
        name = node["$ref"].rpartition("/")[2]
        kinds = _kind_models()
        text = f"`{{type: {kinds[name]}}}`" if name in kinds else _LINK_WORDS.get(name, "mapping")
        heading = f"{places[name]}: {{type: {kinds[name]}}}" if name in kinds else places[name]
        return f"[{text}](#{slug(heading)})"
    if "const" in node:
        return f"`{node['const']}`"
    if "enum" in node:
        return ", ".join(f"`{value}`" for value in node["enum"])
    if "anyOf" in node:
        forms = [_type(form, places) for form in node["anyOf"] if form.get("type") != "null"]
        return " or ".join(dict.fromkeys(forms))
    return _plain_type(node, places)


def _plain_type(node: Mapping[str, Any], places: Mapping[str, str]) -> str:
    kind = node.get("type", "anything")
    if isinstance(kind, list):
        known = [each for each in kind if each != "null"]
        return _plain_type({"type": known[0]}, places) if len(known) == 1 else "text, number or boolean"
    if kind == "array":
        return f"list of {_type(node['items'], places)}"
    if kind == "object":
        inside = node.get("additionalProperties")
        if isinstance(inside, dict):
            return f"mapping of name to {_type(inside, places)}"
        return "mapping"
    words = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    examples = [str(example) for example in node.get("examples", ())]
    if "daily" in examples:
        return "`hourly`, `daily`, `weekly` or a duration"
    if examples and "seconds" in examples[0]:
        return "duration"
    above = f", above {node['exclusiveMinimum']}" if "exclusiveMinimum" in node else ""
    return words[kind] + above


def error_page() -> str:
    """The page of the errors."""
    parts = [
        "# Errors",
        _PROSE["error_1"],
        _PROSE["error_2"],
    ]
    for room in (
        errors.written,
        errors.lake,
        errors.ledger,
        errors.kafka,
        errors.running,
        errors.tables,
        errors.lookups,
        errors.pipelines,
        errors.pipeline_settings,
        errors.pipeline_sql,
        errors.pipeline_sources,
        errors.testing,
        errors.machine,
    ):
        parts.append(f"## {(room.__doc__ or '').partition(':')[0]}")
        parts += [_error(value) for value in vars(room).values() if getattr(value, "__module__", "") == room.__name__]
    return "\n\n".join(parts)


def _error(cls: type[errors.RivermouthError]) -> str:
    lines = [f"[{cls.code}] {_template(cls.what)}"]
    if cls.hint:
        lines.append(f"  hint: {_template(cls.hint)}")
    return f"### {cls.code}: {cls.__name__}\n\n{_summary(cls)}\n\n```text\n" + "\n".join(lines) + "\n```"


def _template(text: str) -> str:
    return "".join(
        literal + (f"<{field}>" if field is not None else "") for literal, field, _, _ in Formatter().parse(text)
    )


def event_page() -> str:
    """The page of the events."""
    parts = [
        "# Events",
        _PROSE["event_1"],
        _PROSE["event_2"],
    ]
    for cls, kind in event_text._KINDS.items():
        more = [_row("`rows_per_s`", "number", "Records consumed a second.")] if cls is events.BatchDone else []
        parts.append(f"## `{kind}`\n\n{_summary(cls)}\n\n" + "\n".join([_fields(cls), *more]))
    finished = progress.summary_json([], stopped=False)["event"]
    rows = [
        _row("`stopped`", "true or false", "Whether somebody ended the run before it was done."),
        _row("`flows`", "list", "A flow each: `flow`, `counts`, `batches`, `duration_s`, `rows_per_s`, `error`."),
    ]
    parts.append("\n".join([f"## `{finished}`\n\nThe run has ended.\n", *_FIELDS_HEAD, *rows]))
    parts.append(f"## Counts\n\n{_summary(ledger.Counts)}\n\n{_fields(ledger.Counts)}")
    parts.append(f"## Merge\n\n{_summary(merge_report.MergeReport)}\n\n{_fields(merge_report.MergeReport)}")
    more = [
        _row("`saved_bytes`", "number", "How many bytes fewer are on storage; below 0 where there are more."),
        _row("`saved_percent`", "number", "The same in per cent of what was on storage before."),
    ]
    report = "\n".join([_fields(maintenance.MaintenanceReport), *more])
    parts.append(f"## Reports\n\n{_summary(maintenance.MaintenanceReport)}\n\n{report}")
    more = [_row("`average_file_bytes`", "number", "Of a data file.")]
    parts.append(
        f"## Figures\n\n{_summary(maintenance.Figures)}\n\n" + "\n".join([_fields(maintenance.Figures), *more])
    )
    parts.append(f"## Reasons\n\n{_summary(events.StillFailing)}\n\n{_fields(events.StillFailing)}")
    return "\n\n".join(parts)


def _fields(cls: type) -> str:
    meanings: dict[str, str] = dict(_WORDS["fields"])
    for base in (*event_text._KINDS, *reversed(cls.__mro__[:-1])):
        # What one event says of a field holds for the others that have it and say nothing.
        meanings = {**meanings, **_attributes(base)}
    rows = [
        _row(f"`{field.name}`", _json_type(str(field.type)), meanings[field.name].replace("None", "null"))
        for field in dataclasses.fields(cls)
    ]
    return "\n".join([*_FIELDS_HEAD, *rows])


def _json_type(annotation: str) -> str:
    """A Python type in the words of JSON; offsets, ranges and counts keep their name."""
    if annotation.startswith("Literal["):
        return ", ".join(f"`{word}`" for word in re.findall(r"'(\w+)'|\"(\w+)\"", annotation) for word in word if word)
    words = {"str": "text", "int": "number", "float": "number", "bool": "true or false", "None": "null"}
    words |= {"Offsets": "offsets", "Ranges": "ranges", "Counts": "[counts](#counts)"}
    if annotation in _JSON_TYPES:
        return _JSON_TYPES[annotation]
    if annotation.startswith("Mapping["):
        inner = annotation.removeprefix("Mapping[str, ").removesuffix("]")
        return f"object of {_json_type(inner)}"
    return " or ".join(words[part.strip()] for part in annotation.split("|"))


def table_columns_page() -> str:
    """The page of the columns that a table gets besides its payload."""
    types = {name: f"`{kind.simpleString()}`" for name, kind in conform._METADATA_TYPES.items()}
    types["kafka_key"] = "`string`, `binary` or by `key_format`"
    rows = [
        _row(
            f"`{name}`",
            types[name],
            _presence(name),
            _METADATA[name],
        )
        for name in names.METADATA_COLUMNS
    ]
    return "\n\n".join(
        [
            "# Columns of a table",
            _PROSE["table_columns_1"],
            "\n".join(["| column | type | there | meaning |", "|---|---|---|---|", *rows]),
            _PROSE["table_columns_2"],
        ]
    )


def _presence(column: str) -> str:
    if column in names.COORDINATES:
        return "always"
    if column in names.ROW_IN_TABLE.values():
        return "with `explode`"
    if column in names.CHANGE_METADATA_COLUMNS:
        return _CHANGES[column]
    return "yes" if column in names.DEFAULT_METADATA_COLUMNS else "on request"


def dead_letter_page() -> str:
    """The page of the dead letters."""
    columns = StructType([*dead_letter.COLUMNS.fields, dead_letter.POSITION])
    meanings = _METADATA | _WORDS["dead_letter_columns"]
    rows = [_row(f"`{c.name}`", f"`{c.dataType.simpleString()}`", meanings[c.name]) for c in columns]
    return "\n\n".join(
        [
            "# Columns of a table of dead letters",
            _PROSE["dead_letter_1"],
            "\n".join(["| column | type | meaning |", "|---|---|---|", *rows]),
            "## Reasons",
            "| reason | stage | meaning |\n|---|---|---|\n" + "\n".join(_row(*row) for row in _reasons()),
            _PROSE["dead_letter_2"],
        ]
    )


def _reasons() -> Iterator[tuple[str, str, str]]:
    sources = [
        inspect.getsource(each)
        for each in (*_IN_RULES, dead_letter._reason, dead_letter._of_key, find_kind("formats", "connect_json"))
    ]
    sources += [inspect.getsource(each) for each in _IN_PYTHON]
    sources += [inspect.getsource(find_kind("formats", name).explain) for name in kind_names("formats")]
    sources += [
        path.read_text(encoding="utf-8")
        for folder in ("avro", "values")
        for path in (Path(__file__).parents[1] / "src/java/rivermouth" / folder).glob("*.java")
    ]
    found = {code for source in sources for code in re.findall(r"""["']([A-Z][A-Z0-9_]{5,})["']""", source)}
    found |= {dead_letter.TIMESTAMP_REASON, time_ranges.TIME_REASON, lookups.REASON}
    reasons = _WORDS["reasons"]
    if not found == set(reasons) == REASONS:
        raise SystemExit(
            f"reasons without a meaning or not in rows/reasons.py: {sorted((found ^ set(reasons)) | (REASONS ^ found))}"
        )
    for code, (stage, meaning) in reasons.items():
        yield f"`{code}`", stage, meaning


def ledger_page() -> str:
    """The page of the ledger entry."""
    start = {"orders": {0: 0, 1: 0}}
    ids = {"orders": "pSg3vLyVQ3qxKk2UjHn0Nw"}
    entry = ledger.first_entry("orders", start, ids)
    entry = entry.after_batch({"orders": {0: (0, 120), 1: (0, 80)}}, ledger.Counts(), ids)
    entry = dataclasses.replace(entry, attempt="5a2f0c7be1d94c6f8a3e6b1d2c4f7a90")
    text = json.dumps(json.loads(entry.to_json()), indent=2)
    return "\n\n".join(
        [
            "# The ledger entry",
            _PROSE["ledger_0"].format(format=ledger.FORMAT),
            f"```json\n{text}\n```",
            _PROSE["ledger_1"],
            f"## Entry\n\n{_summary(ledger.Entry)}\n\n{_fields(ledger.Entry)}",
            f"## Decision\n\n{_summary(ledger.Decision)}\n\n{_fields(ledger.Decision)}",
            f"## Counts\n\n{_summary(ledger.Counts)}\n\n{_fields(ledger.Counts)}",
        ]
    )


def cli_page() -> str:
    """The page of the commands."""
    parts = ["# Commands", *_command(cli, click.Context(cli, info_name="rivermouth"), top=True)]
    return "\n\n".join(parts)


def _command(command: click.Command, context: click.Context, *, top: bool = False) -> Iterator[str]:
    usage = " ".join([context.command_path, *command.collect_usage_pieces(context)])
    if not top:
        yield f"## `{context.command_path}`"
    yield _help(command.help or "")
    if not isinstance(command, click.Group):
        yield f"```text\n{usage}\n```"
    rows = [row for parameter in command.get_params(context) if (row := _option(parameter, context))]
    if rows:
        yield "\n".join(["| option | default | meaning |", "|---|---|---|", *rows])
    if isinstance(command, click.Group):
        for name, child in command.commands.items():
            if not child.hidden:
                yield from _command(child, click.Context(child, info_name=name, parent=context))


def _option(parameter: click.Parameter, context: click.Context) -> str | None:
    record = parameter.get_help_record(context)
    if not isinstance(parameter, click.Option) or record is None or "--help" in parameter.opts:
        return None
    default = parameter.get_default(context)
    default = ", ".join(default) if isinstance(default, tuple) else default
    given = isinstance(default, str | int | float) and default not in (False, "")
    shown = "required" if parameter.required else f"`{default}`" if given else ""
    return _row(f"`{record[0]}`", shown, _help(parameter.help or ""))


def _help(text: str) -> str:
    paragraphs = textwrap.dedent(text).replace("\b", "").strip().split("\n\n")
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)


def _summary(cls: type) -> str:
    text = inspect.cleandoc(cls.__doc__ or "")
    section = _SECTION.search(text)
    body = text[: section.start()] if section else text
    return "\n\n".join(" ".join(paragraph.split()) for paragraph in _markdown(body).strip().split("\n\n"))


def _attributes(cls: type) -> dict[str, str]:
    told: dict[str, str] = {}
    for each in reversed(cls.__mro__):  # nouns inherit fields
        text = inspect.cleandoc(each.__doc__ or "") if issubclass(each, spec.ConfigModel) or each is cls else ""
        section = _SECTION.search(text)
        found = _ENTRY.findall(text[section.end() :]) if section else []
        told |= {name: " ".join(_markdown(words).split()) for name, words in found}
    return told


def _markdown(text: str) -> str:
    return text.replace("``", "`")


def _row(*cells: str) -> str:
    return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"


def slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "project-file.md": project_file,
    "cli.md": cli_page,
    "errors.md": error_page,
    "events.md": event_page,
    "table-columns.md": table_columns_page,
    "dead-letter-columns.md": dead_letter_page,
    "ledger-entry.md": ledger_page,
    "pipelines-compatibility.md": compatibility_page,
    "rivermouth.schema.json": lambda: to_text(project_schema()),
}


def page(name: str) -> str:
    """The text of a page as it should stand in the folder."""
    text = PAGES[name]()
    return f"{_HEADER}{text}\n" if name.endswith(".md") else text


def main() -> int:
    """Writes the pages, or with ``--check`` says which of them differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a page differs")
    check = parser.parse_args().check
    stale = 0
    for name in PAGES:
        path, text = FOLDER / name, page(name)
        found = path.read_text("utf-8") if path.is_file() else ""
        if found == text:
            continue
        stale += 1
        if check:
            sys.stdout.writelines(
                difflib.unified_diff(found.splitlines(True), text.splitlines(True), str(path), "the classes", n=0)
            )
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote docs/reference/{name}")
    if check and stale:
        print(f"{stale} pages differ from the classes: {_COMMAND}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
