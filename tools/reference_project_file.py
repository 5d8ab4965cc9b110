"""The reference page of rivermouth.yml, of the models."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping
from typing import Any, Final

import yaml
from pydantic import BaseModel

from rivermouth import spec
from rivermouth.extend import find_kind, kind_names
from rivermouth.project.file import dump
from rivermouth.project.file.json_schema import project_schema
from tools.reference_markdown import PROSE, attributes_of, slug, summary_of, table_row

_PLAINEST_FLOW: Final = spec.Flow(name="plainest", topics="t", format="raw", table="s.t", sink="append")

_LINK_WORDS: Final[Mapping[str, str]] = {
    "StartingOffsets": "offsets",
    "EndingOffsets": "offsets",
    "Table": "text or mapping",
    "Maintenance": "`after_run` or mapping",
    "Optimize": "time or mapping",
    "Vacuum": "time or mapping",
}


def project_file() -> str:
    """The page of rivermouth.yml."""
    body = project_schema(variables=False)
    definitions = body["$defs"]
    places = dict(_noun_places(body))
    parts = [
        "# `rivermouth.yml`",
        PROSE["project_file_1"],
        PROSE["project_file_2"],
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
    meanings = attributes_of(model)
    shape = _object(definition)
    lines = [f"## {title}", "", summary_of(model)]
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
        lines.append(table_row(f"`{key}`", _type(value, places), default, meaning))
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
