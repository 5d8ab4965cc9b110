"""The JSON Schema (draft 2020-12) of ``rivermouth.yml``, for editors: made of the nouns and their docstrings.

``rivermouth schema json`` prints it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, Final

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, models_json_schema

from rivermouth.extend import find_kind, kind_names
from rivermouth.names import METADATA_COLUMNS
from rivermouth.spec import ConfigModel, EncodingFormat, ProjectSpec

TITLE: Final = "rivermouth project"

_SECTION: Final = re.compile(r"^(Attributes|Args|Returns|Raises|Guarantees|Example|Examples):$", re.MULTILINE)
_ENTRY: Final = re.compile(r"^    (\w+): (.+(?:\n {5,}.+)*)", re.MULTILINE)
_MARKUP: Final = re.compile(r"``([^`]*)``")
_NUMBER_OR_TEXT: Final = {"type": ["string", "integer", "number", "boolean"]}
_VARIABLE: Final = {
    "type": "string",
    "pattern": r"\$\{[A-Za-z_][A-Za-z0-9_]*(:-[^{}]*)?\}",
    "description": "an environment variable: ${NAME} or ${NAME:-default}",
}
_NO_TEXTS: Final = ("integer", "number", "boolean")
_OFFSETS: Final = {
    "type": "object",
    "description": "{topic: {partition: offset}}; -2 is earliest, -1 latest",
    "additionalProperties": {
        "type": "object",
        "patternProperties": {"^[0-9]+$": {"type": "integer", "minimum": -2}},
        "additionalProperties": False,
    },
}
_TIMESTAMP: Final = {
    "type": "string",
    "pattern": "^[0-9]{4}-",
    "description": "a timestamp in ISO 8601; without an offset it is UTC",
}
_GROUP: Final = {
    "type": "object",
    "description": "the committed offsets of a consumer group",
    "properties": {"group": {"type": "string"}},
    "required": ["group"],
    "additionalProperties": False,
}


def project_schema(*, variables: bool = True) -> dict[str, Any]:
    """The schema, with every format, sink and action that can be found and with the short forms of the YAML.

    Args:
        variables: Whether an environment variable is taken in the place of a number, a word, true or false as well.
    """
    kinds = {family: [find_kind(family, name) for name in kind_names(family)] for family in ("formats", "sinks")}
    models: list[type[ConfigModel]] = [ProjectSpec, *kinds["formats"], *kinds["sinks"]]
    refs, body = models_json_schema([(model, "validation") for model in models], by_alias=True)
    definitions: dict[str, Any] = body["$defs"]
    models_by_name = _by_name(models)
    for name, definition in definitions.items():
        _describe(definition, models_by_name.get(name))
    for unused in ("Format", "Sink", "Action"):
        definitions.pop(unused, None)
    _short_forms(definitions)
    for family, key in (("formats", "format"), ("formats", "key_format"), ("sinks", "sink")):
        here = [refs[(model, "validation")]["$ref"].rpartition("/")[2] for model in kinds[family]]
        _kind(definitions, key, dict(zip(kind_names(family), here, strict=True)))
    _value_formats(definitions)
    root = definitions.pop("ProjectSpec")
    root["properties"]["flows"]["propertyNames"] = {"pattern": "^[A-Za-z][A-Za-z0-9_-]{0,99}$"}
    root["properties"]["pipelines"]["propertyNames"] = {"pattern": "^[A-Za-z][A-Za-z0-9_-]{0,99}$"}
    root["required"] = ["lake"]
    root.pop("title", None)
    _drop_defaults(root)
    _drop_defaults(definitions)
    if variables:
        root, definitions = _with_variables(root), {**_with_variables(definitions), "Variable": _VARIABLE}
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        "title": TITLE,
        **root,
        "$defs": dict(sorted(definitions.items())),
    }


def to_text(schema: Mapping[str, Any]) -> str:
    """The schema as it is written in the documentation, with a line feed at its end."""
    return json.dumps(schema, indent=2, ensure_ascii=False) + "\n"


def _by_name(models: list[type[ConfigModel]]) -> dict[str, type[BaseModel]]:
    """Every noun below the given ones by the name of its class."""
    found: dict[str, type[BaseModel]] = {}
    waiting: list[Any] = list(models)
    while waiting:
        each = waiting.pop()
        if isinstance(each, type) and issubclass(each, BaseModel):
            if each.__name__ not in found:
                found[each.__name__] = each
                waiting += [field.annotation for field in each.model_fields.values()]
        else:
            waiting += getattr(each, "__args__", ())
    return found


def _describe(definition: dict[str, Any], model: type[BaseModel] | None) -> None:
    """Puts the first paragraphs of a noun's docstring on it, and of each attribute on its property."""
    definition.pop("title", None)
    for field in definition.get("properties", {}).values():
        field.pop("title", None)
    if model is None or not model.__doc__:
        return
    for each in reversed(model.__mro__):  # nouns inherit fields
        if not issubclass(each, ConfigModel) or each is ConfigModel or not each.__doc__:
            continue
        text = re.sub(r"\n {4}", "\n", each.__doc__)
        section = _SECTION.search(text)
        definition["description"] = _prose(text[: section.start()] if section else text)
        for name, words in _ENTRY.findall(text[section.end() :] if section else ""):
            field = model.model_fields.get(name)
            written = (field.alias if field else None) or name
            if written in definition.get("properties", {}):
                definition["properties"][written]["description"] = _prose(words)


def _prose(text: str) -> str:
    paragraphs = [" ".join(paragraph.split()) for paragraph in text.strip().split("\n\n")]
    return _MARKUP.sub(r"\1", "\n".join(paragraphs))


def _short_forms(definitions: dict[str, Any]) -> None:
    """What the nouns take besides their fields."""
    del definitions["Pipeline"]["properties"]["name"]
    definitions["Pipeline"]["required"] = ["files"]
    for noun in ("Pipeline", "PipelineProfile"):
        definitions[noun]["properties"]["configuration"]["additionalProperties"] = _NUMBER_OR_TEXT
    flow = definitions["Flow"]["properties"]
    del flow["name"]
    definitions["Flow"]["required"] = ["format", "table"]
    definitions["Flow"]["oneOf"] = [
        {"required": [source]} for source in ("topics", "topic_pattern", "assign", "source")
    ]
    flow["topics"] = {**_described(flow["topics"]), "anyOf": [{"type": "string"}, _texts(1)]}
    flow["metadata_columns"] = {
        **_described(flow["metadata_columns"]),
        "anyOf": [
            {"type": "array", "items": {"enum": list(METADATA_COLUMNS)}, "uniqueItems": True},
            {
                "type": "object",
                "properties": {name: {"type": ["string", "null"]} for name in METADATA_COLUMNS},
                "additionalProperties": False,
            },
        ],
    }
    lookup = {"$ref": "#/$defs/Lookup"}
    many = {"type": "array", "items": lookup, "minItems": 1}
    flow["lookup"] = {**_described(flow["lookup"]), "anyOf": [lookup, many]}
    starting = definitions["StartingOffsets"]
    forms = [{"enum": ["earliest", "latest"]}, _TIMESTAMP, _GROUP, _OFFSETS]
    definitions["StartingOffsets"] = {**_described(starting), "anyOf": forms}
    ending = definitions["EndingOffsets"]
    definitions["EndingOffsets"] = {**_described(ending), "anyOf": [{"enum": ["latest"]}, _TIMESTAMP, _OFFSETS]}
    definitions["Table"] = _or(definitions["Table"], {"type": "string"})
    for name in ("Optimize", "Vacuum"):
        definitions[name] = _or(definitions[name], {"type": "string", "examples": ["daily", "weekly", "6 hours"]})
    definitions["Maintenance"] = _or(definitions["Maintenance"], {"const": "after_run"})
    definitions["Expectation"]["properties"]["action"]["enum"] = kind_names("actions")
    definitions["KafkaCluster"]["properties"]["options"]["additionalProperties"] = _NUMBER_OR_TEXT
    definitions["SparkSettings"]["properties"]["conf"]["additionalProperties"] = _NUMBER_OR_TEXT


def _value_formats(definitions: dict[str, Any]) -> None:
    """What the Kafka sink makes of rows: the formats that can write."""
    written = [find_kind("formats", name) for name in kind_names("formats")]
    forms = [{"$ref": f"#/$defs/{each.__name__}"} for each in written if issubclass(each, EncodingFormat)]
    json_ = {"type": "object", "properties": {"type": {"const": "json"}}, "required": ["type"]}
    properties = definitions["KafkaSink"]["properties"]
    short = [{"const": "json"}, {**json_, "additionalProperties": False}]
    properties["format"] = {**_described(properties["format"]), "anyOf": [*short, *forms], "default": "json"}


def _or(noun: dict[str, Any], short: Mapping[str, Any]) -> dict[str, Any]:
    """A noun that may also be written in a short form."""
    whole = {name: part for name, part in noun.items() if name != "description"}
    return {**_described(noun), "anyOf": [dict(short), whole]}


def _kind(definitions: dict[str, Any], key: str, names: dict[str, str]) -> None:
    """A format or sink: its bare name where it needs nothing else, or a mapping with its type."""
    bare = []
    for kind, name in names.items():
        definition = definitions[name]
        needed = [field for field in definition.get("required", []) if field != "type"]
        if not needed and "anyOf" not in definition:
            bare.append(kind)
        definition["properties"]["type"] = {"const": kind}
        definition["required"] = ["type", *needed]
    field = definitions["Flow"]["properties"][key]
    forms = [{"enum": bare}] if bare else []
    definitions["Flow"]["properties"][key] = {
        **_described(field),
        "anyOf": [*forms, *({"$ref": f"#/$defs/{name}"} for name in names.values())],
    }


def _drop_defaults(schema: Any) -> None:
    """Keeps the defaults that a person would write; empty and nested ones only fill an editor's page."""
    if isinstance(schema, list):
        for part in schema:
            _drop_defaults(part)
    elif isinstance(schema, dict):
        if isinstance(schema.get("default"), dict | list | None):
            schema.pop("default", None)
        for part in schema.values():
            _drop_defaults(part)


def _with_variables(schema: Any) -> Any:
    """The same; where a number, true or false or one of some words belongs, a variable may stand as well."""
    if isinstance(schema, list):
        return [_with_variables(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") in _NO_TEXTS or isinstance(schema.get("enum"), list):
        beside = {key: schema[key] for key in ("description", "default") if key in schema}
        inner = {key: part for key, part in schema.items() if key not in beside}
        return {**beside, "anyOf": [inner, {"$ref": "#/$defs/Variable"}]}
    return {key: _with_variables(part) for key, part in schema.items()}


def _described(schema: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": schema["description"]} if "description" in schema else {}


def _texts(at_least: int) -> dict[str, Any]:
    return {"type": "array", "items": {"type": "string"}, "minItems": at_least}
