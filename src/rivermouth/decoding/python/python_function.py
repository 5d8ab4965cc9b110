"""A user's own function that decodes values: found by its name, in this process and in Spark's workers.

It is named as ``module:function``, or by the name of an entry point. Installed modules are found
before a module in the folder of the project file, so that a file called ``json.py`` there hides nothing.
"""

from __future__ import annotations

import contextlib
import functools
import importlib
import importlib.machinery
import inspect
import re
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from rivermouth.errors import FunctionLost, FunctionUnusable, first_line
from rivermouth.extend import function_names, installed_function
from rivermouth.names import did_you_mean

BESIDE: Final = ("topic", "key", "headers")
"""What a function may ask for by the names of its parameters, besides the value."""

_REFERENCE: Final = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_][\w.]*", re.ASCII)
_POSITIONAL: Final = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
_REST: Final = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
_MARK: Final = "RIVERMOUTH_FUNCTION_LOST"
_FAILURE: Final = re.compile(_MARK + r"\|([\w.]+):([\w.]+)\|(.*)")
_OF_ARROW: Final = re.compile(r"\b(pyarrow|pa)\.\w*Array\b")
_OF_ONE: Final = re.compile(r"^(bytes|dict\b.*)$")


@dataclass(frozen=True, slots=True)
class Reference:
    """Where a function is.

    Attributes:
        module: Name of its module.
        attribute: Its name there; with dots for one within a class.
        folder: The project file's folder, where a module may lie; None for none.
    """

    module: str
    attribute: str
    folder: str | None = None

    def __str__(self) -> str:
        return f"{self.module}:{self.attribute}"


class _Unusable(Exception):
    """What keeps a function from being used, and one step that mends it."""

    def __init__(self, detail: str, fix: str) -> None:
        super().__init__(detail)
        self.fix = fix


def reference(name: str, folder: str | None) -> Reference:
    """Where the function of that name is: ``module:function``, or an entry point's name.

    Raises:
        FunctionUnusable: It is neither.
    """
    text = name if ":" in name else installed_function(name)
    if text is None:
        known = function_names()
        fix = did_you_mean(name, known) if known else "name it with its module: function: decode:orders"
        detail = "no entry point of the group rivermouth.functions has that name"
        raise FunctionUnusable(function=name, detail=detail, fix=fix)
    if not _REFERENCE.fullmatch(text):
        fix = "write module:function, for example: function: decode:orders"
        raise FunctionUnusable(function=name, detail="this is no name of a module and a function", fix=fix)
    module, _, attribute = text.partition(":")
    if module.endswith(".py"):
        fix = f"function: {module.removesuffix('.py')}:{attribute}"
        raise FunctionUnusable(function=name, detail="this names a file, and not its module", fix=fix)
    return Reference(module, attribute, folder)


def asked_for(where: Reference, *, arrow: bool) -> tuple[str, ...]:
    """What the function asks for besides the value, of ``BESIDE``; its module is imported for it.

    Args:
        where: The function.
        arrow: Whether it shall take whole Arrow arrays.

    Raises:
        FunctionUnusable: It cannot be imported or called, or asks for something else.
    """
    try:
        with _beside(where.folder), contextlib.redirect_stdout(sys.stderr):
            return _asked_for(_found(where), arrow=arrow)
    except _Unusable as error:
        raise FunctionUnusable(function=str(where), detail=str(error), fix=error.fix) from error.__cause__


@functools.cache
def loaded(where: Reference) -> Callable[..., Any]:
    """The function, in one of Spark's workers: once for each of these processes.

    Raises:
        RuntimeError: It cannot be imported here; ``failure`` reads the text.
    """
    if where.folder is not None and where.folder not in sys.path:
        # For good: the function may import its neighbours when it is called.
        sys.path.append(where.folder)
    try:
        found: Callable[..., Any] = _found(where)
    except _Unusable as error:
        raise RuntimeError(f"{_MARK}|{where}|{error}") from None
    return found


def failure(error_text: str) -> FunctionLost | None:
    """The typed error behind a Spark job that ended because a worker could not use its function; else None."""
    match = _FAILURE.search(error_text)
    if match is None:
        return None
    module, attribute, detail = match.groups()
    file = f"{module.partition('.')[0]}.{'zip' if '.' in module else 'py'}"
    return FunctionLost(function=f"{module}:{attribute}", detail=detail.strip(), file=file)


@contextlib.contextmanager
def _beside(folder: str | None) -> Iterator[None]:
    """Modules in ``folder`` can be imported in the block."""
    if folder is None or folder in sys.path:
        yield
        return
    sys.path.append(folder)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):
            sys.path.remove(folder)


def _found(where: Reference) -> Any:
    importlib.invalidate_caches()
    try:
        module = importlib.import_module(where.module)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # sys.exit() and panics of extensions are no Exceptions
        detail = f"module {where.module} cannot be imported: {type(error).__name__}: {first_line(error)}"
        file = f"{where.module.replace('.', '/')}.py"
        known = isinstance(error, ModuleNotFoundError) and error.name in where.module.split(".")[:1]
        fix = f"put {file} into the folder of the project file, or install its package" if known else f"correct {file}"
        raise _Unusable(detail, fix) from error
    _check_place(where)
    found: Any = module
    for name in where.attribute.split("."):
        found = getattr(found, name, None)
    if found is None:
        detail = f"module {where.module} ({getattr(module, '__file__', None) or 'built in'}) has no {where.attribute}"
        names = [name for name in vars(module) if not name.startswith("_") and callable(getattr(module, name))]
        raise _Unusable(detail, did_you_mean(where.attribute, names) if names else "correct its name")
    if not callable(found):
        raise _Unusable(f"it is {_article(found)}, and no function", "name a function: def orders(value): ...")
    return found


def _check_place(where: Reference) -> None:
    """Makes sure that a module in the folder of the project file is not hidden by another one of its name."""
    if where.folder is None:
        return
    top = where.module.partition(".")[0]
    mine = importlib.machinery.PathFinder.find_spec(top, [where.folder])
    origin = getattr(getattr(sys.modules.get(top), "__spec__", None), "origin", None)
    if mine is not None and mine.origin is not None and mine.origin != origin:
        detail = f"Python has another module {top} ({origin}), which hides the one in the project file's folder"
        raise _Unusable(
            detail, f"rename {top} in the folder of the project file, and name it so: function: my_{top}:..."
        )


def _asked_for(found: Any, *, arrow: bool) -> tuple[str, ...]:
    called = found if inspect.isroutine(found) or inspect.isclass(found) else type(found).__call__
    if inspect.iscoroutinefunction(called) or inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        raise _Unusable("it is a coroutine or a generator, and no plain function", "write: def orders(value): ...")
    try:
        signature = inspect.signature(found)
    except (TypeError, ValueError):
        return ()  # one written in C takes the value
    parameters = list(signature.parameters.values())
    if not parameters or parameters[0].kind not in (*_POSITIONAL, inspect.Parameter.VAR_POSITIONAL):
        raise _Unusable("its first parameter does not take the value", "write: def orders(value): ...")
    first, *others = parameters
    _check_annotations(first, signature, arrow=arrow)
    if first.name in BESIDE:
        detail = f"its first parameter is called {first.name}, and takes the value"
        raise _Unusable(detail, f"write: def orders(value, *, {first.name}): ...")
    asked = {each.name for each in others if each.kind not in _REST}
    unknown = [
        each.name
        for each in others
        if each.name not in BESIDE and each.default is inspect.Parameter.empty and each.kind not in _REST
    ]
    if unknown:
        detail = f"it has a parameter {unknown[0]!r}, and nothing is known to pass for it"
        raise _Unusable(detail, "def orders(value, *, topic, key, headers), or fewer of these; or give it a default")
    if any(each.name in BESIDE and each.kind is inspect.Parameter.POSITIONAL_ONLY for each in others):
        raise _Unusable("topic, key and headers are passed by name", "write: def orders(value, *, topic): ...")
    return tuple(name for name in BESIDE if name in asked)


def _check_annotations(first: inspect.Parameter, signature: inspect.Signature, *, arrow: bool) -> None:
    """Makes sure that a function which says what it takes is not used for the other thing."""
    told = [_text(first.annotation), _text(signature.return_annotation)]
    if not arrow and any(_OF_ARROW.search(each) for each in told):
        raise _Unusable("it takes Arrow arrays, and the format hands it single values", "add arrow: true to the format")
    if arrow and any(_OF_ONE.match(each) for each in told):
        raise _Unusable("it takes single values, and the format hands it Arrow arrays", "remove arrow: true")


def _text(annotation: object) -> str:
    if annotation is inspect.Parameter.empty:
        return ""
    if isinstance(annotation, str):
        return annotation
    if not isinstance(annotation, type):
        return str(annotation)
    if annotation.__module__.partition(".")[0] == "pyarrow":
        return f"pyarrow.{annotation.__name__}"
    return annotation.__name__


def _article(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
