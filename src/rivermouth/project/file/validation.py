"""A file's values against the nouns: everything that does not fit, each with its line and one next step."""

from __future__ import annotations

import re
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rivermouth.decoding.declared.declared import INFER
from rivermouth.errors import NotSupported, ProjectInvalid, RivermouthError, UnknownKey, UnknownKind
from rivermouth.extend import find_kind, kind_names
from rivermouth.names import did_you_mean
from rivermouth.project.file.model_paths import KIND_FIELDS, model_at, resolved, scalars_at, value_at
from rivermouth.project.file.suggestions import hint_for, is_future_key, kind_hint
from rivermouth.project.file.yaml_source import SECRET, Document, Path
from rivermouth.spec import Flow, InferringFormat, ProjectSpec

_STAND_INS: Final = {"format": "raw", "key_format": "raw", "sink": "append"}
_EXPECTED: Final = {
    "string": "text",
    "int": "a whole number",
    "float": "a number",
    "finite_number": "a number",
    "bool": "true or false",
    "dict": "a mapping",
    "mapping": "a mapping",
    "model": "a mapping",
    "tuple": "a list",
    "list": "a list",
}
_MISSING_FIXES: Final = {
    "lake": "lake: ./lake",
    "files": "files: [transformations/**]",
    "format": "format: raw",
    "table": "table: bronze.orders",
    "schema": 'schema: "id bigint, at timestamp"',
    "condition": "condition: amount > 0",
    "pattern": "pattern: '(?<host>\\S+) (?<status>\\d+)'",
    "on": "on: customer_id",
    "columns": "columns: [name]",
    "sequence_by": "sequence_by: updated_at, or Kafka's own time: sequence_by: kafka_timestamp",
}
_MISSING_IN: Final[dict[tuple[str | int, ...], str]] = {
    ("sink", "format"): "format: parquet",
    ("sink", "path"): "path: archive/orders",
    ("sink", "topic"): "topic: good-orders",
}
_IN_TEXT: Final = re.compile(r"[ ()]")
# A separator between quotes is the user's text.
_STEP: Final = re.compile(r"""^((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|.)*?)[:;] (.+)$""", re.DOTALL)
_FIELD_OF: Final = {
    "metadata column": "metadata_columns",
    "is there twice": "expectations",
    "lookup adds": "lookup",
    "is listed twice": "lookup",
}
_DURATIONS: Final = frozenset({"every", "max_delay"})
_FIXES_BY_NAME: Final = {
    "flows": "write each flow as its name with a ':', indented under flows:",
    "format": "format: raw",
    "sink": "sink: append",
    "source": "source: {table: bronze.orders}",
    "schema": _MISSING_FIXES["schema"],
    "table": _MISSING_FIXES["table"],
    "evolution": "evolution: {on_new_column: evolve}",
    "trigger": "trigger: {every: 30 seconds}",
    "expectations": "expectations: [{name: positive_amount, condition: amount > 0, action: dead_letter}]",
    "lookup": "lookup: {table: silver.customers, on: customer_id, columns: [name]}",
    "on": "on: customer_id",
    "every": "every: 30 seconds",
    "max_delay": "max_delay: 30 seconds",
}
_FIXES: Final = {
    "a list": "write [one, two], or one '- ' line for each",
    "a mapping": "write key: value lines, indented under it",
    "a whole number": "write a whole number without quotes or unit",
    "a number": "write a number without quotes",
    "true or false": "write true or false without quotes",
    "text": "write text",
    "something else": "correct the value",
}


def validate_document(document: Document, file: str | None) -> tuple[ProjectSpec | None, list[RivermouthError]]:
    """The project that a document describes, and what is wrong with it, in the order of its lines.

    Returns:
        The project, None where a problem was found; and the problems.
    """
    judgement = Validator(document, file)
    spec = judgement.spec()
    problems = [*document.problems, *judgement.problems]
    problems.sort(key=lambda problem: int((problem.at or ":1").rpartition(":")[2]))
    return (None if problems else spec), problems


def path_text(path: Path) -> str:
    """``flows.orders.expectations[0].condition``; the root is ``the project``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "the project"


class Validator:
    """A document held against the models of a project file, problem by problem."""

    def __init__(self, document: Document, file: str | None) -> None:
        self.problems: list[RivermouthError] = []
        self._document = document
        self._file = file

    def spec(self) -> ProjectSpec | None:
        """The project; None where it has problems."""
        value = self._document.value
        if not isinstance(value, dict):
            fix = "write a space after each ':'" if isinstance(value, str) and ":" in value else "lake: ./lake"
            detail = f"the file holds {_found(value)}, and a project is a mapping of keys to values"
            self._invalid((), detail, fix)
            return None
        self._booleans((), value)
        prepared = {**value, "flows": self._flows(value["flows"])} if "flows" in value else dict(value)
        self._pipeline_names(value.get("pipelines"))
        self._future((), ProjectSpec, prepared)
        try:
            return ProjectSpec.model_validate(prepared)
        except ValidationError as error:
            self._translate(error, value)
            return None

    # --- before pydantic: what must be named better, or would stop it short ---

    def _flows(self, flows: object) -> object:
        if not isinstance(flows, dict):
            return flows
        return {name: self._flow(("flows", name), flow) for name, flow in flows.items()}

    def _pipeline_names(self, pipelines: object) -> None:
        for name, pipeline in pipelines.items() if isinstance(pipelines, dict) else ():
            if isinstance(pipeline, dict) and pipeline.get("name", name) != name:
                path: Path = ("pipelines", name)
                fix = f"remove name:, or write {pipeline['name']}: instead of {name}:"
                detail = f"{path_text(path)}: the pipeline is also called by another name"
                self._invalid((*path, "name"), detail, fix)

    def _flow(self, path: Path, value: object) -> object:
        if not isinstance(value, dict):
            return value
        flow = dict(value)
        self._future(path, Flow, flow)
        if flow.get("name", path[-1]) != path[-1]:
            fix = f"remove name:, or write {flow['name']}: instead of {path[-1]}:"
            self._invalid((*path, "name"), f"{path_text(path)}: the flow is also called by another name", fix)
            flow["name"] = path[-1]
        if isinstance(flow.get("table"), dict):
            flow["table"] = dict(flow["table"])
            self._future((*path, "table"), model_at((*path, "table"), {}) or Flow, flow["table"])
        for key, family in KIND_FIELDS.items():
            if not self._kind_known((*path, key), family, flow.get(key)):
                flow[key] = _STAND_INS[key]
        if isinstance(flow.get("expectations"), list):
            flow["expectations"] = [
                self._expectation((*path, "expectations", index), item)
                for index, item in enumerate(flow["expectations"])
            ]
        return flow

    def _future(self, path: Path, model: type[BaseModel], value: dict[Any, Any]) -> None:
        for key in [key for key in value if isinstance(key, str) and is_future_key(model, key)]:
            del value[key]
            self.problems.append(NotSupported(at=self._at((*path, key)), setting=path_text((*path, key))))

    def _kind_known(self, path: Path, family: str, value: object) -> bool:
        """Whether pydantic can judge this format or sink itself."""
        if isinstance(value, dict):
            if value.get("schema") == INFER and family == "formats" and not _can_infer(value.get("type")):
                why = f"only JSON documents tell their columns, those of {value['type']} are declared"
                self._invalid((*path, "schema"), f"{path_text(path)}.schema: {why}", _MISSING_FIXES["schema"])
                return False
            path, value = (*path, "type"), value.get("type")
        if path in self._document.doubtful:
            return False
        if not isinstance(value, str) or value in kind_names(family):
            return value is None or isinstance(value, str) or path[-1] != "type" or self._type_is_text(path, value)
        fix = kind_hint(family, value)
        self.problems.append(UnknownKind(at=self._at(path), family=family[:-1], name=value, fix=fix))
        return False

    def _type_is_text(self, path: Path, value: object) -> bool:
        self._mismatch(path, ["text"], value)
        return False

    def _expectation(self, path: Path, value: object) -> object:
        action = value.get("action") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(action, str) or action in kind_names("actions"):
            return value
        fix = kind_hint("actions", action)
        self.problems.append(UnknownKind(at=self._at((*path, "action")), family="action", name=action, fix=fix))
        return {**value, "action": "warn"}

    def _booleans(self, path: Path, value: object) -> None:
        """Refuses true and false where a number belongs: pydantic would take them for 1 and 0."""
        if isinstance(value, dict | list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, part in pairs:
                self._booleans((*path, key), part)
        elif isinstance(value, bool):
            types_ = scalars_at(path, self._document.value)
            if types_ and bool not in types_ and str not in types_:
                self._mismatch(path, [_EXPECTED["int" if int in types_ else "float"]], value)

    # --- pydantic's findings in our words ---

    def _translate(self, error: ValidationError, value: dict[Any, Any]) -> None:
        found: dict[Path, list[ErrorDetails]] = {}
        for detail in error.errors(include_url=False):
            if detail["type"] == "default_factory_not_called":
                continue  # another field has its own error, from which this one follows
            loc = detail["loc"]
            ends_in_key = detail["type"] in ("missing", "extra_forbidden")
            path = resolved(value, loc[:-1] if ends_in_key else loc)
            found.setdefault((*path, loc[-1]) if ends_in_key else path, []).append(detail)
        self._forget_missing(found)
        for path, details in found.items():
            if path in self._document.doubtful:
                continue
            # Of a union's branches the one that got deeper into the value is the one that was meant.
            deeper = any(len(other) > len(path) and other[: len(path)] == path for other in found)
            if not (deeper and all(detail["type"].endswith("_type") for detail in details)):
                self._one(path, details)

    def _forget_missing(self, found: dict[Path, list[ErrorDetails]]) -> None:
        """Drops the error about a missing key if an unknown key of the same mapping was meant to be that key."""
        for path in [path for path, details in found.items() if details[0]["type"] == "extra_forbidden"]:
            model = model_at(path[:-1], self._document.value)
            meant = re.fullmatch(r"did you mean '(\w+)'\?", hint_for(model, str(path[-1]), None)) if model else None
            missing = (*path[:-1], meant[1]) if meant else path
            if missing in found and found[missing][0]["type"] == "missing":
                del found[missing]

    def _one(self, path: Path, details: list[ErrorDetails]) -> None:
        kind, value = details[0]["type"], value_at(self._document.value, path)
        if kind == "extra_forbidden":
            self._unknown_key(path, value)
        elif kind == "missing":
            name = str(path[-1])
            fix = _MISSING_IN.get(path[-2:], _MISSING_FIXES.get(name, f"{name}: ..."))
            self._invalid(path[:-1], f"{path_text(path[:-1])}: {name} is missing", fix)
        elif kind == "value_error":
            error = details[0]["ctx"]["error"]
            for sentence in getattr(error, "sentences", (str(error),)):
                self._sentence(path, sentence)
        elif kind == "literal_error":
            self._choice(path, details[0]["ctx"]["expected"], value)
        elif kind == "invalid_key" or any(part == "[key]" for part in details[0]["loc"]):
            key = path[-1]
            kind_of_key = "a whole number" if details[0]["type"].startswith("int") else "text"
            self._invalid(path, f"{path_text(path)}: the key is not {kind_of_key}", _key_fix(key, kind_of_key))
        elif kind in _BOUNDS:
            bounds = details[0].get("ctx", {})
            self._invalid(path, f"{path_text(path)}: {_BOUNDS[kind].format(**bounds)}", _within(path, bounds))
        elif kind == "int_from_float":
            self._invalid(path, f"{path_text(path)}: expected a whole number, found a fraction", "write a whole number")
        else:
            expected = [_EXPECTED.get(_stem(detail["type"]), "something else") for detail in details]
            self._mismatch(path, list(dict.fromkeys(expected)), value)

    def _unknown_key(self, path: Path, value: object) -> None:
        model = model_at(path[:-1], self._document.value)
        key = str(path[-1])
        mapping = value_at(self._document.value, path[:-1])
        beside = mapping.keys() if isinstance(mapping, dict) else ()
        fix = hint_for(model, key, value, beside) if model else "remove it"
        if value is None and _IN_TEXT.search(key):
            # ``{schema: id bigint, amount decimal(10,2)}``: the mapping takes the commas for its own.
            fix = f"write a text with commas in quotes: {_MISSING_FIXES['schema']}"
        self.problems.append(UnknownKey(at=self._at(path), key=key, where=path_text(path[:-1]), fix=fix))

    def _sentence(self, path: Path, sentence: str) -> None:
        """A sentence of the nouns: what failed, a separator, and the next step."""
        parted = _STEP.match(sentence)
        # These are said of the whole flow, but stand in one of its fields.
        path = next(((*path, key) for start, key in _FIELD_OF.items() if start in sentence), path)
        if sentence.startswith("write "):
            value = value_at(self._document.value, path)
            self._invalid(path, f"{path_text(path)}: {_found(value)} does not fit", sentence)
        elif parted:
            self._invalid(path, f"{path_text(path)}: {parted[1]}", parted[2])
        else:
            self._invalid(path, f"{path_text(path)}: {sentence}", "write another value")

    def _choice(self, path: Path, expected: str, value: object) -> None:
        known = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
        fix = did_you_mean(value, known) if isinstance(value, str) else f"known: {', '.join(known)}"
        shown = f" {value!r}" if isinstance(value, str) else ""
        self._invalid(path, f"{path_text(path)}:{shown} is none of {', '.join(known)}", fix)

    def _mismatch(self, path: Path, expected: list[str], value: object) -> None:
        if path[-1:] == ("topics",):
            expected = ["text", *expected]
        wanted = " or ".join(filter(None, [", ".join(expected[:-1]), expected[-1]]))
        if path[-1] in _DURATIONS:
            wanted = "a duration"
        fix = _mismatch_fix(path, expected, value)
        self._invalid(path, f"{path_text(path)}: expected {wanted}, found {_found(value)}", fix)

    def _invalid(self, path: Path, detail: str, fix: str) -> None:
        self.problems.append(ProjectInvalid(at=self._at(path), detail=detail, fix=fix))

    def _at(self, path: Path) -> str | None:
        return f"{self._file}:{self._document.line(path)}" if self._file else None


_BOUNDS: Final = {
    "greater_than": "must be greater than {gt:g}",
    "greater_than_equal": "must be at least {ge:g}",
    "less_than": "must be less than {lt:g}",
    "less_than_equal": "must be at most {le:g}",
    "string_too_short": "the text is empty",
    "string_too_long": "the text is longer than {max_length} characters",
    "too_short": "the list is empty",
    "finite_number": "must be a finite number",
}


def _stem(kind: str) -> str:
    """``int_parsing``, ``int_type`` and ``int_from_float`` are all about an ``int``."""
    return kind if kind in _EXPECTED else kind.split("_", maxsplit=1)[0]


def _found(value: object) -> str:
    match value:
        case None:
            return "nothing"
        case bool():
            return "true or false"
        case int() | float():
            return "a number"
        case str():
            return "text"
        case list():
            return "a list"
        case _:
            return "a mapping"


def _mismatch_fix(path: Path, expected: list[str], value: object) -> str:
    name = str(path[-1]) if path else ""
    if value is None and path != ("flows",):
        return "give it a value, or remove the line"
    if name == "driver_memory" and isinstance(value, int):
        return f"driver_memory: {value:d}m"
    if "text" in expected and isinstance(value, bool | int | float):
        shown = "..." if SECRET & set(path) else str(value).lower() if isinstance(value, bool) else str(value)
        return f'write it in quotes: "{shown}"'
    if isinstance(value, dict) and path[-2:-1] in (("options",), ("conf",)):
        return "write the option's full name with its dots on one line"
    if isinstance(value, str) and re.match(r"\w+:\S", value):
        return "write a space after each ':'"
    if "text" in expected and isinstance(value, list):
        return "write one text, without [ ]" if SECRET & set(path) else _as_text(name, value)
    if isinstance(path[-1], int) and len(path) > 1 and name not in _FIXES_BY_NAME:
        name = str(path[-2])
    return _FIXES_BY_NAME.get(name) or _FIXES[expected[-1 if expected[-1] in ("a list", "a mapping") else 0]]


def _as_text(name: str, value: list[object]) -> str:
    """The setting with the parts of a list in one text."""
    parts = [part for part in value if isinstance(part, str)]
    if not parts or len(parts) < len(value) or (len(parts) > 1 and name not in _COMMAS):
        return _FIXES_BY_NAME.get(name, "write one text, without [ ]")
    text = _COMMAS.get(name, "").join(parts)
    return f'{name}: "{text}"' if re.search(r"[^\w.:/-]", text) else f"{name}: {text}"


_COMMAS: Final = {"bootstrap_servers": ",", "schema": ", ", "schema_hints": ", "}
"""The separator of settings that hold a list in one text."""


def _within(path: Path, bounds: dict[str, Any]) -> str:
    """The setting with the nearest value that keeps within its bounds."""
    name = str(path[-1])
    inside = next((bounds[each] + step for each, step in _STEPS.items() if each in bounds), None)
    if name in _FIXES_BY_NAME or inside is None:
        return _FIXES_BY_NAME.get(name, "write another value")
    return f"{name}: {inside:g}"


_STEPS: Final = {"ge": 0, "gt": 1, "le": 0, "lt": -1}


def _key_fix(key: object, kind_of_key: str) -> str:
    return f'write it in quotes: "{key}"' if kind_of_key == "text" else "write the number of a partition, as in {0: 23}"


def _can_infer(format_name: object) -> bool:
    """Whether a format can infer its columns; of one that nobody knows something else is told."""
    if not isinstance(format_name, str) or format_name not in kind_names("formats"):
        return True
    return issubclass(find_kind("formats", format_name), InferringFormat)
