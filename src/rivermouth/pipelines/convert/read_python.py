"""A query function in Python as SELECTs over one source: its body is read, and no frame is made."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, Final

from pyspark.sql import Column, DataFrame

from rivermouth.pipelines.convert.model import NotReadable, Relation, Step, word
from rivermouth.pipelines.convert.python_columns import (
    OPERATORS,
    Sql,
    Unread,
    column,
    function,
    negated,
    operand,
)
from rivermouth.pipelines.convert.read_sql import SECRET
from rivermouth.pipelines.spec import SourceLine

_DEEPEST: Final = 8
_PLAIN: Final = (str, int, float, bool, dict, list, tuple, type(None))
_BUILTINS: Final = (str, int, float, bool, len, dict, list, tuple, sorted)
_CONVERSIONS: Final[Mapping[int, Callable[[Any], str]]] = {ord("s"): str, ord("r"): repr, ord("a"): ascii}
_FAILS: Final = (LookupError, TypeError, ValueError)
_OURS: Final = "rivermouth."
_OF_TABLES: Final = ("skipchangecommits", "ignorechanges", "ignoredeletes", "maxfilespertrigger", "maxbytespertrigger")
"""Options of a table that is read: they change no row of one that is only appended to."""


@dataclass(frozen=True, slots=True)
class _Spark:
    """The session."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """``spark.read`` or ``spark.readStream`` with its format and options."""

    stream: bool
    format: str = "delta"
    options: Mapping[str, str] = field(default_factory=dict)

    def having(self, options: Mapping[str, Any]) -> _Reader:
        """The same with further options."""
        texts = {name: str(value).lower() if isinstance(value, bool) else str(value) for name, value in options.items()}
        return replace(self, options={**self.options, **texts})


def relation_of_python(query: Callable[..., Any], at: SourceLine) -> Relation:
    """The query as SELECTs over one source.

    Args:
        query: Takes no argument.
        at: Where it is defined.

    Raises:
        NotReadable: It is more than that, or it is written in another way than as a chain of methods.
    """
    found = _called(query, [], {}, at)
    if not isinstance(found, Relation):
        raise NotReadable(at, "its function returns no frame that can be read")
    return replace(found, at=at)


def _with_columns(several: Mapping[str, Any]) -> Step:
    """Further columns, each in the place of one that has its name."""
    items = (Sql(column(value).text, (name,)).item for name, value in several.items())
    return Step(("*", *items), replaces=tuple(several))


def _called(
    query: Callable[..., Any], arguments: list[Any], named: dict[str, Any], at: SourceLine, caller: _Body | None = None
) -> Any:
    depth = 0 if caller is None else caller.depth + 1
    if not isinstance(query, FunctionType) or depth > _DEEPEST:
        raise NotReadable(at, "its query is no function with a body that can be read")
    try:
        # Of a function that a decorator wraps, the text and the arguments are those of the wrapper.
        tree = ast.parse(textwrap.dedent(inspect.getsource(query.__code__)))
        bound = inspect.signature(query, follow_wrapped=False).bind(*arguments, **named)
    except (OSError, SyntaxError, TypeError):
        raise NotReadable(at, "the text of its function cannot be read") from None
    bound.apply_defaults()
    body = tree.body[0]
    if not isinstance(body, ast.FunctionDef):
        raise NotReadable(at, "its query is no function with a body that can be read")
    closure = inspect.getclosurevars(query)
    names = {**vars(builtins), **query.__globals__, **closure.nonlocals, **bound.arguments}
    first = query.__code__.co_firstlineno - 1
    is_elsewhere = caller is not None and caller.module is not query.__globals__
    return _Body(
        names, SourceLine(at.file, first, at.cell), query.__globals__, depth, at if is_elsewhere else None
    ).run(body)


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The names that statements of a module assign, each as often as they do; those of functions are their own."""
    for node in nodes:
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            yield node.id
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            yield from _assigned(ast.iter_child_nodes(node))


@dataclass
class _Body:
    """The body of a function, or a part of a module, that is read statement by statement."""

    names: dict[str, Any]
    before: SourceLine
    module: dict[str, Any]
    depth: int
    call: SourceLine | None = None
    """Where it is called, of a function of another file."""

    def run(self, body: ast.FunctionDef) -> Any:
        """What the function returns."""
        for statement in body.body:
            match statement:
                case ast.Expr(value=ast.Constant()):
                    continue
                case ast.Assign(targets=[ast.Name(id=name)], value=value):
                    self.names[name] = self.value(value)
                case ast.Import() | ast.ImportFrom():
                    self._import(statement)
                case ast.Return(value=ast.expr() as value):
                    return self.value(value)
                case _:
                    raise self._no(statement, f"its function has a statement {type(statement).__name__.lower()}")
        raise self._no(body, "its function returns nothing")

    def _import(self, statement: ast.stmt) -> None:
        found: dict[str, Any] = {}
        exec(compile(ast.Module([statement], []), "<import>", "exec"), found)  # noqa: S102 - an import of the user's file
        self.names |= found

    def value(self, node: ast.expr) -> Any:
        """The value of an expression: a plain one, a column as SQL, a reader or a relation."""
        try:
            return self._value(node)
        except Unread as error:
            raise self._no(node, str(error)) from None
        except _FAILS as error:
            raise self._no(node, f"a value of its function cannot be computed: {type(error).__name__}") from None

    def _value(self, node: ast.expr) -> Any:  # noqa: C901 - a case for each kind of expression
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self._named(node, name)
            case ast.Attribute(value=inner, attr=attribute):
                return self._attribute(node, self.value(inner), attribute)
            case ast.Call():
                return self._call(node)
            case ast.JoinedStr(values=parts):
                return "".join(map(self._part, parts))
            case ast.List(elts=parts) | ast.Tuple(elts=parts):
                return (tuple if isinstance(node, ast.Tuple) else list)(self._elements(parts))
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self.value(key): self.value(value) for key, value in pairs if key is not None}
            case ast.BinOp(left=left, op=operator, right=right):
                return self._operation(node, operator, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._operation(node, operator, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                return negated(self.value(inner))
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Subscript(value=inner, slice=key):
                return self._element(node, self.value(inner), self.value(key))
        raise self._no(node, f"its function has an expression that is not read: {type(node).__name__}")

    def _elements(self, nodes: list[ast.expr]) -> list[Any]:
        found: list[Any] = []
        for each in nodes:
            if isinstance(each, ast.Starred):
                found += list(self.value(each.value))
            else:
                found.append(self.value(each))
        return found

    def _part(self, node: ast.expr) -> str:
        """A part of an f-string."""
        if not isinstance(node, ast.FormattedValue):
            return str(self.value(node))
        inner = self.value(node.value)
        if not isinstance(inner, _PLAIN):
            raise self._no(node, "a text is made of a frame or a column")
        turned = _CONVERSIONS.get(node.conversion)
        kind = self.value(node.format_spec) if node.format_spec is not None else ""
        return format(inner if turned is None else turned(inner), kind)

    def _named(self, node: ast.expr, name: str) -> Any:
        if name not in self.names:
            raise self._no(node, f"{name} is not known")
        found = self.names[name]
        if name == "spark":
            return _Spark()
        if isinstance(found, DataFrame | Column):
            return self._of_module(node, name)
        return found

    def _of_module(self, node: ast.expr, name: str) -> Any:
        """A frame or column that the module made: the statement that made it is read."""
        file = str(self.module.get("__file__"))
        try:
            tree = ast.parse("".join(linecache.getlines(file)))
        except SyntaxError:
            raise self._no(node, f"{name} is a frame that is made elsewhere") from None
        if [*_assigned(tree.body)].count(name) != 1:
            raise self._no(node, f"{name} is a frame that is made in more than one place")
        for statement in tree.body:
            match statement:
                case ast.Assign(targets=[ast.Name(id=found)], value=value) if found == name:
                    above = replace(self.before, line=0)
                    return _Body({**vars(builtins), **self.module}, above, self.module, self.depth + 1).value(value)
        raise self._no(node, f"{name} is a frame that is made elsewhere")

    def _attribute(self, node: ast.expr, base: Any, name: str) -> Any:
        match base:
            case _Spark() if name in ("read", "readStream"):
                return _Reader(stream=name == "readStream")
            case _Spark() if name == "conf":
                return self.names["spark"].conf
            case Relation() if not hasattr(DataFrame, name):
                return column(name)
            case Sql() if not hasattr(Column, name):
                return base.method("getField", [name])
            case Relation() | Sql():
                raise self._no(node, f".{name} is not read")
            case ModuleType() | type():
                return getattr(base, name)
        if type(base).__module__.startswith(_OURS):
            return getattr(base, name)
        raise self._no(node, f".{name} is not read")

    def _element(self, node: ast.expr, base: Any, key: Any) -> Any:
        match base, key:
            case Relation(), str():
                return column(key)
            case Sql(), str() | int():
                return base.method("getItem", [key])
            case ((dict() | list() | tuple()), _):
                return base[key]
        raise self._no(node, "an element is taken of something that is not read")

    def _operation(self, node: ast.expr, operator: ast.AST, left: Any, right: Any) -> Any:
        if isinstance(left, Sql) or isinstance(right, Sql):
            if type(operator) not in OPERATORS:
                raise self._no(node, "a column has an operator that is not read: write it with expr()")
            return Sql(f"({operand(left)} {OPERATORS[type(operator)]} {operand(right)})")
        if isinstance(operator, ast.Add) and isinstance(left, str) and isinstance(right, str):
            return left + right
        if isinstance(operator, ast.Mod) and isinstance(left, str):
            return left % right
        raise self._no(node, "its function computes a value that is not read")

    # Calls

    def _call(self, node: ast.Call) -> Any:
        arguments, named = self._arguments(node)
        if not isinstance(node.func, ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else "a function"
            return self._function(node, self.value(node.func), name, arguments, named)
        base, name = self.value(node.func.value), node.func.attr
        match base:
            case Sql() if not named:
                return base.method(name, arguments)
            case _Reader():
                return self._reader(node, base, name, arguments, named)
            case Relation():
                return self._frame(node, base, name, arguments, named)
            case _Spark():
                return self._session(node, name, arguments)
            case str():
                return getattr(base, name)(*arguments, **named)
            case ModuleType():
                return self._function(node, getattr(base, name, None), name, arguments, named)
        if name == "get" and type(base).__name__ == "_Secrets":
            return SECRET
        if name == "get" and all(isinstance(each, _PLAIN) for each in arguments):
            return base.get(*arguments, **named)
        raise self._no(node, f".{name}() is not read")

    def _arguments(self, node: ast.Call) -> tuple[list[Any], dict[str, Any]]:
        arguments = self._elements(node.args)
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            found = self.value(keyword.value)
            named |= found if keyword.arg is None else {keyword.arg: found}
        return arguments, named

    def _function(self, node: ast.Call, called: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        module = getattr(called, "__module__", "") or ""
        if module.startswith("pyspark.sql.functions") and isinstance(called, FunctionType):
            return function(called, arguments, named)
        if module.startswith("pyspark.sql.types") or called in _BUILTINS:
            return called(*arguments, **named)
        if module.startswith(_OURS) and name in ("read", "read_stream", "readStream"):
            return self._table(node, str(arguments[0]), stream=name != "read")
        if module.startswith(_OURS) and name == "decode":
            return self._decoded(node, arguments, named)
        is_udf = hasattr(called, "evalType")
        if isinstance(called, FunctionType) and not module.startswith((_OURS, "pyspark")) and not is_udf:
            return _called(called, arguments, named, self._at(node), self)
        raise self._no(node, f"{name}() is not read")

    def _decoded(self, node: ast.Call, arguments: list[Any], named: dict[str, Any]) -> Relation:
        match arguments:
            case [Relation(options=options, steps=(), decode={}) as records] if options is not None:
                return replace(records, decode=named)
            case [Relation(options=options, steps=(), decode={}) as records, form] if options is not None:
                return replace(records, decode={"format": form, **named})
        raise self._no(node, "decode() gets other rows than those of a topic")

    def _session(self, node: ast.Call, name: str, arguments: list[Any]) -> Relation:
        if name == "table" and arguments:
            return self._table(node, str(arguments[0]), stream=False)
        raise self._no(node, f"spark.{name}() is not read: write the query as a chain of methods")

    def _table(self, node: ast.Call, name: str, *, stream: bool) -> Relation:
        if not stream:
            raise self._no(node, f"it is a batch query over {name}")
        return Relation(self._at(node), table=name)

    def _reader(self, node: ast.Call, reader: _Reader, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        match name, arguments:
            case "format", [str() as kind]:
                return replace(reader, format=kind)
            case "option", [key, value]:
                return reader.having({str(key): value})
            case "options", []:
                return reader.having(named)
            case "table", [str() as table]:
                if further := [each for each in reader.options if each.lower() not in _OF_TABLES]:
                    raise self._no(node, f"it reads {table} with options: {', '.join(further)}")
                return self._table(node, table, stream=reader.stream)
            case "load", []:
                return self._loaded(node, replace(reader, format=named.pop("format", reader.format)).having(named))
            case "load", _:
                raise self._no(node, f"it reads {reader.format}, and not Kafka")
        raise self._no(node, f".{name}() of a reader is not read")

    def _loaded(self, node: ast.Call, reader: _Reader) -> Relation:
        if reader.format.lower() != "kafka":
            raise self._no(node, f"it reads {reader.format}, and not Kafka")
        if not reader.stream:
            raise self._no(node, "it is a batch query over Kafka")
        return Relation(self._at(node), dict(reader.options))

    def _frame(self, node: ast.Call, frame: Relation, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        flat = arguments[0] if len(arguments) == 1 and isinstance(arguments[0], list) else arguments
        match name, flat:
            case "select", [_, *_]:
                return frame.then(Step(tuple(column(each).item for each in flat)))
            case "selectExpr", [_, *_] if all(isinstance(each, str) for each in flat):
                return frame.then(Step(tuple(flat)))
            case (("where" | "filter"), [condition]):
                return frame.then(Step(("*",), condition if isinstance(condition, str) else column(condition).text))
            case "withColumn", [str() as new, value]:
                return frame.then(_with_columns({new: value}))
            case "withColumns", [dict() as several]:
                return frame.then(_with_columns(several))
            case "drop", [_, *_] if not named:
                left = (word(each) if isinstance(each, str) else column(each).text for each in flat)
                return frame.then(Step((f"* EXCEPT ({', '.join(left)})",)))
            case "alias", [_]:
                return frame
        raise self._no(node, f"a flow has nothing like .{name}()")

    def _at(self, node: ast.AST) -> SourceLine:
        return self.call or replace(self.before, line=self.before.line + getattr(node, "lineno", 1))

    def _no(self, node: ast.AST, reason: str) -> NotReadable:
        return NotReadable(self._at(node), reason)
