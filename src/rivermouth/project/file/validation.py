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
from rivermouth.project.file import bounds, corrections, secret_keys
from rivermouth.project.file.model_paths import KIND_FIELDS, model_at, resolved, scalars_at, value_at
from rivermouth.project.file.suggestions import hint_for, is_future_key, kind_hint
from rivermouth.project.file.yaml_source import Document, Path
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
    """``flows.orders.expectations[0].condition``, without what may be secret in it; the root is ``the project``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in secret_keys.shown(path))
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
            detail = f"the file holds {corrections.found_in(value)}, and a project is a mapping of keys to values"
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
                self._invalid((*path, "schema"), f"{path_text(path)}.schema: {why}", corrections.MISSING["schema"])
                return False
            path, value = (*path, "type"), value.get("type")
        if path in self._document.doubtful:
            return False
        if not isinstance(value, str) or value in kind_names(family):
            return value is None or isinstance(value, str) or path[-1] != "type" or self._type_is_text(path, value)
        fix = kind_hint(family, value)
        self._unknown_kind(path, family[:-1], value, fix)
        return False

    def _type_is_text(self, path: Path, value: object) -> bool:
        self._mismatch(path, ["text"], value)
        return False

    def _expectation(self, path: Path, value: object) -> object:
        action = value.get("action") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(action, str) or action in kind_names("actions"):
            return value
        fix = kind_hint("actions", action)
        self._unknown_kind((*path, "action"), "action", action, fix)
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
            fix = corrections.of_missing(path)
            self._invalid(path[:-1], f"{path_text(path[:-1])}: {path[-1]} is missing", fix)
        elif kind == "value_error":
            error = details[0]["ctx"]["error"]
            for sentence in getattr(error, "sentences", (str(error),)):
                self._sentence(path, sentence)
        elif kind == "literal_error":
            self._choice(path, details[0]["ctx"]["expected"], value)
        elif kind == "invalid_key" or any(part == "[key]" for part in details[0]["loc"]):
            key = path[-1]
            kind_of_key = "a whole number" if details[0]["type"].startswith("int") else "text"
            fix = corrections.of_key(key, kind_of_key)
            self._invalid(path, f"{path_text(path)}: the key is not {kind_of_key}", fix)
        elif kind in bounds.BOUNDS:
            limits = details[0].get("ctx", {})
            fix = corrections.within_bounds(path, limits)
            # It has nothing of the value, and a bound can be equal to the value of a reference.
            self._told(path, f"{path_text(path)}: {bounds.beyond(kind, limits)}", fix)
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
            fix = f"write a text with commas in quotes: {corrections.MISSING['schema']}"
        if (name := secret_keys.name_of(path)) != key:
            key, fix = name, f"write a ':' and a space behind it: {name}: ..."
        self.problems.append(UnknownKey(at=self._at(path), key=key, where=path_text(path[:-1]), fix=fix))

    def _sentence(self, path: Path, sentence: str) -> None:
        """A sentence of the nouns: what failed, a separator, and the next step."""
        parted = _STEP.match(sentence)
        # These are said of the whole flow, but stand in one of its fields.
        place = next(((*path, key) for start, key in _FIELD_OF.items() if start in sentence), path)
        if sentence.startswith("write "):
            detail, fix = f"{corrections.found_in(value_at(self._document.value, place))} does not fit", sentence
        else:
            detail, fix = (parted[1], parted[2]) if parted else (sentence, "write another value")
        detail, fix = (self._with_references(path, text) for text in (detail, fix))
        self._told(place, f"{path_text(place)}: {detail}", fix)

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
        fix = corrections.of_mismatch(path, expected, value)
        # Of a value with references only a list is quoted.
        fix = self._with_references(path, fix) if isinstance(value, list) else fix
        self._told(path, f"{path_text(path)}: expected {wanted}, found {corrections.found_in(value)}", fix)

    def _invalid(self, path: Path, detail: str, fix: str) -> None:
        about = path_text(path)
        rest = self._with_references(path, detail.removeprefix(about))
        self._told(path, about + rest if detail.startswith(about) else rest, self._with_references(path, fix))

    def _told(self, path: Path, detail: str, fix: str) -> None:
        self.problems.append(ProjectInvalid(at=self._at(path), detail=detail, fix=fix))

    def _unknown_kind(self, path: Path, family: str, name: str, fix: str) -> None:
        name = self._with_references(path, name)
        self.problems.append(UnknownKind(at=self._at(path), family=family, name=name, fix=fix))

    def _with_references(self, path: Path, text: str) -> str:
        """A text with references in the places of their values, which are not in the file."""
        found = [
            pair
            for where, pairs in self._document.references.items()
            if where[: len(path)] == path or path[: len(where)] == where
            for pair in pairs
        ]
        return secret_keys.with_references(text, found)

    def _at(self, path: Path) -> str | None:
        return f"{self._file}:{self._document.line(path)}" if self._file else None


def _stem(kind: str) -> str:
    """``int_parsing``, ``int_type`` and ``int_from_float`` are all about an ``int``."""
    return kind if kind in _EXPECTED else kind.split("_", maxsplit=1)[0]


def _can_infer(format_name: object) -> bool:
    """Whether a format can infer its columns; of one that nobody knows something else is told."""
    if not isinstance(format_name, str) or format_name not in kind_names("formats"):
        return True
    return issubclass(find_kind("formats", format_name), InferringFormat)
