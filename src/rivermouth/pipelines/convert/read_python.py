"""A query function in Python as SELECTs over one source: its body is read, and no frame is made."""

from __future__ import annotations

import ast
import builtins
import inspect
import linecache
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from types import FunctionType, ModuleType
from typing import Any, Final

from pyspark.sql import Column, DataFrame

from rivermouth.pipelines.convert.model import NotReadable, Relation, Step
from rivermouth.pipelines.convert.python_columns import OPERATORS, Sql, Unread, column, function, operand
from rivermouth.pipelines.convert.read_sql import SECRET
from rivermouth.pipelines.spec import SourceLine

_DEEPEST: Final = 8
_PLAIN: Final = (str, int, float, bool, dict, list, tuple, type(None))
_BUILTINS: Final = (str, int, float, bool, len, dict, list, tuple, sorted)
_OURS: Final = "rivermouth."


@dataclass(frozen=True, slots=True)
class _Spark:
    """The session."""


@dataclass(frozen=True, slots=True)
class _Reader:
    """``spark.read`` or ``spark.readStream`` with its format and options."""

    stream: bool
    format: str = "delta"
    options: Mapping[str, str] = field(default_factory=dict)


def relation_of_python(query: Callable[..., Any], at: SourceLine) -> Relation:
    """The query as SELECTs over one source.

    Args:
        query: Takes no argument.
        at: Where it is defined.

    Raises:
        NotReadable: It is more than that, or it is written in another way than as a chain of methods.
    """
    found = _called(query, [], {}, at, 0)
    if not isinstance(found, Relation):
        raise NotReadable(at, "its function returns no frame that can be read")
    return replace(found, at=at)


def _called(query: Callable[..., Any], arguments: list[Any], named: dict[str, Any], at: SourceLine, depth: int) -> Any:
    if not isinstance(query, FunctionType) or depth > _DEEPEST:
        raise NotReadable(at, "its query is no function with a body that can be read")
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(query)))
        bound = inspect.signature(query).bind(*arguments, **named)
    except (OSError, SyntaxError, TypeError):
        raise NotReadable(at, "the text of its function cannot be read") from None
    bound.apply_defaults()
    body = tree.body[0]
    if not isinstance(body, ast.FunctionDef):
        raise NotReadable(at, "its query is no function with a body that can be read")
    closure = inspect.getclosurevars(query)
    names = {**vars(builtins), **query.__globals__, **closure.nonlocals, **bound.arguments}
    first = query.__code__.co_firstlineno - 1
    return _Body(names, SourceLine(at.file, first, at.cell), query.__globals__, depth).run(body)


@dataclass
class _Body:
    """The body of a function, or a part of a module, that is read statement by statement."""

    names: dict[str, Any]
    before: SourceLine
    module: dict[str, Any]
    depth: int

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
                return [self.value(part) for part in parts if not isinstance(part, ast.Starred)]
            case ast.Dict(keys=keys, values=values) if None not in keys:
                pairs = zip(keys, values, strict=True)
                return {self.value(key): self.value(value) for key, value in pairs if key is not None}
            case ast.BinOp(left=left, op=operator, right=right):
                return self._operation(node, operator, self.value(left), self.value(right))
            case ast.Compare(left=left, ops=[operator], comparators=[right]):
                return self._operation(node, operator, self.value(left), self.value(right))
            case ast.UnaryOp(op=ast.Invert(), operand=inner):
                return Sql(f"NOT ({operand(self.value(inner))})")
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as number)):
                return -number
            case ast.Subscript(value=inner, slice=key):
                return self._element(node, self.value(inner), self.value(key))
        raise self._no(node, f"its function has an expression that is not read: {type(node).__name__}")

    def _part(self, node: ast.expr) -> str:
        inner = self.value(node.value if isinstance(node, ast.FormattedValue) else node)
        if not isinstance(inner, _PLAIN):
            raise self._no(node, "a text is made of a frame or a column")
        return str(inner)

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
        for statement in reversed(tree.body):
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
            case Relation():
                return column(name)
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
            return left % (tuple(right) if isinstance(right, list) else right)
        raise self._no(node, "its function computes a value that is not read")

    # Calls

    def _call(self, node: ast.Call) -> Any:
        arguments, named = self._arguments(node)
        if not isinstance(node.func, ast.Attribute):
            name = node.func.id if isinstance(node.func, ast.Name) else "a function"
            return self._function(node, self.value(node.func), name, arguments, named)
        base, name = self.value(node.func.value), node.func.attr
        match base:
            case Sql():
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
        arguments: list[Any] = []
        for each in node.args:
            if isinstance(each, ast.Starred):
                arguments += list(self.value(each.value))
            else:
                arguments.append(self.value(each))
        named: dict[str, Any] = {}
        for keyword in node.keywords:
            found = self.value(keyword.value)
            named |= found if keyword.arg is None else {keyword.arg: found}
        return arguments, named

    def _function(self, node: ast.Call, called: Any, name: str, arguments: list[Any], named: dict[str, Any]) -> Any:
        module = getattr(called, "__module__", "") or ""
        if module.startswith("pyspark.sql") and not isinstance(called, type):
            return function(getattr(called, "__name__", name), arguments, named)
        if module.startswith("pyspark.sql.types") or called in _BUILTINS:
            return called(*arguments, **named)
        if module.startswith(_OURS) and name in ("read", "read_stream", "readStream"):
            return self._table(node, str(arguments[0]), stream=name != "read")
        if module.startswith(_OURS) and name == "decode":
            return self._decoded(node, arguments, named)
        if isinstance(called, FunctionType) and not module.startswith((_OURS, "pyspark")):
            return _called(called, arguments, named, self._at(node), self.depth + 1)
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
                text = str(value).lower() if isinstance(value, bool) else str(value)
                return replace(reader, options={**reader.options, str(key): text})
            case "options", []:
                return replace(reader, options={**reader.options, **{k: str(v) for k, v in named.items()}})
            case "table", [str() as table]:
                return self._table(node, table, stream=reader.stream)
            case "load", [] if reader.format.lower() == "kafka":
                if not reader.stream:
                    raise self._no(node, "it is a batch query over Kafka")
                return Relation(self._at(node), dict(reader.options))
            case "load", _:
                raise self._no(node, f"it reads {reader.format}, and not Kafka")
        raise self._no(node, f".{name}() of a reader is not read")

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
                return frame.then(Step(("*", Sql(column(value).text, (new,)).item)))
            case "withColumns", [dict() as several]:
                items = (Sql(column(value).text, (new,)).item for new, value in several.items())
                return frame.then(Step(("*", *items)))
            case "drop", [_, *_] if not named:
                return frame.then(Step((f"* EXCEPT ({', '.join(column(each).text for each in flat)})",)))
            case "alias", [_]:
                return frame
        raise self._no(node, f"a flow has nothing like .{name}()")

    def _at(self, node: ast.AST) -> SourceLine:
        return replace(self.before, line=self.before.line + getattr(node, "lineno", 1))

    def _no(self, node: ast.AST, reason: str) -> NotReadable:
        return NotReadable(self._at(node), reason)
