"""A file's values against the nouns: everything that does not fit, each with its line and one next step."""

from __future__ import annotations

import re
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from rivermouth.errors import NotSupported, ProjectInvalid, RivermouthError, UnknownKey, UnknownKind
from rivermouth.extend import find_kind, kind_names
from rivermouth.names import did_you_mean
from rivermouth.project.locate import Document, Path
from rivermouth.project.words import hint_for, is_future_key, is_future_kind
from rivermouth.spec import EndingOffsets, Flow, ProjectSpec, StartingOffsets

_KINDS: Final = {"format": "formats", "sink": "sinks"}
_STAND_INS: Final = {"format": "raw", "sink": "append"}
# Values below these keys may be secrets: no message quotes them.
_SECRET: Final = frozenset({"options", "conf", "properties"})
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
    "format": "format: raw",
    "table": "table: bronze.orders",
    "schema": 'schema: "id bigint, at timestamp"',
    "condition": "condition: amount > 0",
}
# A separator between quotes is the user's text.
_STEP: Final = re.compile(r"""^((?:'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|.)*?)[:;] (.+)$""", re.DOTALL)
_FLOWS_FIX: Final = "write each flow as its name with a ':', indented under flows:"


def judge(document: Document, file: str) -> tuple[ProjectSpec | None, list[RivermouthError]]:
    """The project that a document describes, and what is wrong with it, in the order of its lines.

    Returns:
        The project, None where a problem was found; and the problems.
    """
    judgement = _Judgement(document, file)
    spec = judgement.spec()
    problems = [*document.problems, *judgement.problems]
    problems.sort(key=lambda problem: int((problem.at or ":1").rpartition(":")[2]))
    return (None if problems else spec), problems


def words(path: Path) -> str:
    """``flows.orders.expectations[0].condition``; the root is ``the project``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.lstrip(".") or "the project"


class _Judgement:
    def __init__(self, document: Document, file: str) -> None:
        self.problems: list[RivermouthError] = []
        self._document = document
        self._file = file

    def spec(self) -> ProjectSpec | None:
        value = self._document.value
        if not isinstance(value, dict):
            fix = "write a space after each ':'" if isinstance(value, str) and ":" in value else "lake: ./lake"
            detail = f"the file holds {_found(value)}, and a project is a mapping of keys to values"
            self._invalid((), detail, fix)
            return None
        self._booleans((), value)
        prepared = {**value, "flows": self._flows(value["flows"])} if "flows" in value else dict(value)
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

    def _flow(self, path: Path, value: object) -> object:
        if not isinstance(value, dict):
            return value
        flow = dict(value)
        self._future(path, Flow, flow)
        if flow.get("name", path[-1]) != path[-1]:
            fix = f"remove name:, or write {flow['name']}: instead of {path[-1]}:"
            self._invalid((*path, "name"), f"{words(path)}: the flow is also called by another name", fix)
            flow["name"] = path[-1]
        if isinstance(flow.get("table"), dict):
            flow["table"] = dict(flow["table"])
            self._future((*path, "table"), _model_at((*path, "table"), {}) or Flow, flow["table"])
        for key, family in _KINDS.items():
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
            self.problems.append(NotSupported(at=self._at((*path, key)), setting=words((*path, key))))

    def _kind_known(self, path: Path, family: str, value: object) -> bool:
        """Whether pydantic can judge this format or sink itself."""
        if isinstance(value, dict):
            if value.get("schema") == "infer" and family == "formats":
                setting = f"{words(path)}.schema: infer"
                self.problems.append(NotSupported(at=self._at((*path, "schema")), setting=setting))
                return False
            path, value = (*path, "type"), value.get("type")
        if not isinstance(value, str) or value in kind_names(family):
            return value is None or isinstance(value, str) or path[-1] != "type" or self._type_is_text(path, value)
        if is_future_kind(family, value):
            setting = f"{words(path)}: {value}"
            self.problems.append(NotSupported(at=self._at(path), setting=setting))
        else:
            fix = did_you_mean(value, kind_names(family))
            self.problems.append(UnknownKind(at=self._at(path), family=family[:-1], name=value, fix=fix))
        return False

    def _type_is_text(self, path: Path, value: object) -> bool:
        self._mismatch(path, ["text"], value)
        return False

    def _expectation(self, path: Path, value: object) -> object:
        action = value.get("action") if isinstance(value, dict) else None
        if not isinstance(value, dict) or not isinstance(action, str) or action in kind_names("actions"):
            return value
        fix = did_you_mean(action, kind_names("actions"))
        self.problems.append(UnknownKind(at=self._at((*path, "action")), family="action", name=action, fix=fix))
        return {**value, "action": "warn"}

    def _booleans(self, path: Path, value: object) -> None:
        """Refuses true and false where a number belongs: pydantic would take them for 1 and 0."""
        if isinstance(value, dict | list):
            pairs = value.items() if isinstance(value, dict) else enumerate(value)
            for key, part in pairs:
                self._booleans((*path, key), part)
        elif isinstance(value, bool):
            types_ = _scalars_at(path, self._document.value)
            if types_ and bool not in types_ and str not in types_:
                self._mismatch(path, [_EXPECTED["int" if int in types_ else "float"]], value)

    # --- pydantic's findings in our words ---

    def _translate(self, error: ValidationError, value: dict[Any, Any]) -> None:
        found: dict[Path, list[ErrorDetails]] = {}
        for detail in error.errors(include_url=False):
            loc = detail["loc"]
            ends_in_key = detail["type"] in ("missing", "extra_forbidden")
            path = _resolved(value, loc[:-1] if ends_in_key else loc)
            found.setdefault((*path, loc[-1]) if ends_in_key else path, []).append(detail)
        for path, details in found.items():
            # Of a union's branches the one that got deeper into the value is the one that was meant.
            deeper = any(len(other) > len(path) and other[: len(path)] == path for other in found)
            if not (deeper and all(detail["type"].endswith("_type") for detail in details)):
                self._one(path, details)

    def _one(self, path: Path, details: list[ErrorDetails]) -> None:
        kind, value = details[0]["type"], _value_at(self._document.value, path)
        if kind == "extra_forbidden":
            self._unknown_key(path, value)
        elif kind == "missing":
            name = str(path[-1])
            fix = _MISSING_FIXES.get(name, f"{name}: ...")
            self._invalid(path[:-1], f"{words(path[:-1])}: {name} is missing", fix)
        elif kind == "value_error":
            self._sentence(path, str(details[0]["ctx"]["error"]))
        elif kind == "literal_error":
            self._choice(path, details[0]["ctx"]["expected"], value)
        elif kind == "invalid_key" or any(part == "[key]" for part in details[0]["loc"]):
            key = path[-1]
            kind_of_key = "a whole number" if details[0]["type"].startswith("int") else "text"
            self._invalid(path, f"{words(path)}: the key is not {kind_of_key}", _key_fix(key, kind_of_key))
        elif kind in _BOUNDS:
            self._invalid(path, f"{words(path)}: {_BOUNDS[kind].format(**details[0].get('ctx', {}))}", "correct the value")
        elif kind == "int_from_float":
            self._invalid(path, f"{words(path)}: expected a whole number, found a fraction", "write a whole number")
        else:
            expected = [_EXPECTED.get(_stem(detail["type"]), "something else") for detail in details]
            self._mismatch(path, list(dict.fromkeys(expected)), value)

    def _unknown_key(self, path: Path, value: object) -> None:
        model = _model_at(path[:-1], self._document.value)
        key = str(path[-1])
        fix = hint_for(model, key, value) if model else "remove it"
        self.problems.append(UnknownKey(at=self._at(path), key=key, where=words(path[:-1]), fix=fix))

    def _sentence(self, path: Path, sentence: str) -> None:
        """A sentence of the nouns: what failed, a separator, and the next step."""
        parted = _STEP.match(sentence)
        if sentence.startswith("write "):
            value = _value_at(self._document.value, path)
            self._invalid(path, f"{words(path)}: {_found(value)} does not fit", sentence)
        elif parted:
            self._invalid(path, f"{words(path)}: {parted[1]}", parted[2])
        else:
            self._invalid(path, f"{words(path)}: {sentence}", "correct the value")

    def _choice(self, path: Path, expected: str, value: object) -> None:
        known = [part.strip("'") for part in expected.replace(" or ", ", ").split(", ")]
        fix = did_you_mean(value, known) if isinstance(value, str) else f"known: {', '.join(known)}"
        shown = f" {value!r}" if isinstance(value, str) else ""
        self._invalid(path, f"{words(path)}:{shown} is none of {', '.join(known)}", fix)

    def _mismatch(self, path: Path, expected: list[str], value: object) -> None:
        wanted = " or ".join(expected)
        fix = _mismatch_fix(path, expected, value)
        self._invalid(path, f"{words(path)}: expected {wanted}, found {_found(value)}", fix)

    def _invalid(self, path: Path, detail: str, fix: str) -> None:
        self.problems.append(ProjectInvalid(at=self._at(path), detail=detail, fix=fix))

    def _at(self, path: Path) -> str:
        return f"{self._file}:{self._document.line(path)}"


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
    return kind if kind in _EXPECTED else kind.split("_")[0]


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
    if path == ("flows",) or (len(path) == 2 and path[0] == "flows"):  # noqa: PLR2004 - flows and a name
        return _FLOWS_FIX
    if value is None:
        return "give it a value, or remove the line"
    if "text" in expected and isinstance(value, bool | int | float):
        shown = "..." if _SECRET & set(path) else str(value).lower() if isinstance(value, bool) else str(value)
        return f'write it in quotes: "{shown}"'
    if isinstance(value, str) and "${" in value:
        return "write the value itself: ${NAME} stands only where text belongs"
    if "options" in path or "conf" in path:
        return "write the option's full name with its dots on one line"
    return {
        "a list": "write [one, two], or one '- ' line for each",
        "a mapping": "write key: value lines, indented under it",
        "a whole number": "write a whole number without quotes or unit",
        "a number": "write a number without quotes",
    }.get(expected[0], "write text")


def _key_fix(key: object, kind_of_key: str) -> str:
    return f'write it in quotes: "{key}"' if kind_of_key == "text" else "write the number of a partition, as in {0: 23}"


def _resolved(value: object, loc: tuple[str | int, ...]) -> Path:
    """``loc`` without the parts that are pydantic's and not the file's."""
    path: list[str | int] = []
    for part in loc:
        if isinstance(value, dict):
            key = part if part in value else next((key for key in value if str(key) == str(part)), None)
            if key is not None:
                path.append(key)
                value = value[key]
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            path.append(part)
            value = value[part]
    return tuple(path)


def _value_at(value: Any, path: Path) -> Any:
    for part in path:
        if isinstance(value, dict):
            value = value.get(part)
        elif isinstance(value, list) and isinstance(part, int) and part < len(value):
            value = value[part]
        else:
            return None
    return value


def _model_at(path: Path, value: object) -> type[BaseModel] | None:
    """The noun that describes the mapping at ``path``; None where that is no noun."""
    models = [found for found in _annotations_at(path, value) if isinstance(found, type) and issubclass(found, BaseModel)]
    return models[0] if models else None


def _scalars_at(path: Path, value: object) -> set[object]:
    """The scalar types that may stand at ``path``."""
    return {found for found in _annotations_at(path, value) if found in (str, int, float, bool)}


def _annotations_at(path: Path, value: object) -> list[Any]:
    found: list[Any] = [ProjectSpec]
    for index, part in enumerate(path):
        here = _value_at(value, path[: index + 1])
        found = [deeper for annotation in found for deeper in _step(annotation, part, here)]
    return found


def _step(annotation: Any, part: str | int, value: object) -> Iterator[Any]:
    if isinstance(annotation, type) and issubclass(annotation, StartingOffsets | EndingOffsets):
        # Below a topic's name stand partitions and offsets.
        yield {"group": str}.get(str(part), dict[int, int])
    elif isinstance(annotation, type) and issubclass(annotation, BaseModel):
        field = annotation.model_fields.get(str(part))
        if annotation is Flow and part in _KINDS:
            yield from _kind_model(_KINDS[str(part)], value)
        elif field is not None:
            yield from _unwrapped(field.annotation)
    else:
        arguments = [argument for argument in typing.get_args(annotation) if argument is not Ellipsis]
        if arguments:
            yield from _unwrapped(arguments[-1])


def _kind_model(family: str, value: object) -> Iterator[type[BaseModel]]:
    name = value.get("type") if isinstance(value, Mapping) else value
    if isinstance(name, str) and name in kind_names(family):
        yield find_kind(family, name)


def _unwrapped(annotation: Any) -> Iterator[Any]:
    origin = typing.get_origin(annotation)
    if origin is typing.Annotated:
        yield from _unwrapped(typing.get_args(annotation)[0])
    elif origin in (types.UnionType, typing.Union):
        for argument in typing.get_args(annotation):
            yield from _unwrapped(argument)
    else:
        yield annotation
