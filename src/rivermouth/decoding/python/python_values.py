"""Python values as Arrow arrays of declared types: each fits wholly, or is named with its reason.

A column is built at once where its values have the one Python type that its declared type is for. What single values
become is the matter of ``python_scalars``. No text holds a value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import types as T  # noqa: N812 - the field's own name for it

from rivermouth.decoding.python import python_scalars
from rivermouth.decoding.python.python_scalars import NAME_LENGTH, SCALARS, Misfit, arrow_type, kind_of, wrong
from rivermouth.names import below


def check(declared: T.StructType, path: str = "", *, of: str = "Python", keyed: str = "dict") -> None:
    """Makes sure that a language has values for every type and that names are unambiguous.

    Args:
        declared: The schema, or a struct within it.
        path: Of that struct.
        of: The language.
        keyed: What it calls a value with keys.

    Raises:
        ValueError: It has not; or two fields differ in nothing but case; the text says which.
    """
    if not declared.fields:
        msg = f"{f'column {path}' if path else 'the schema'} has no fields"
        raise ValueError(msg)
    seen: dict[str, str] = {}
    for each in declared.fields:
        name = below(path, each.name)
        if "json_name" in each.metadata:
            msg = f"column {name}: json_name is for columns of the table itself, in the format json"
            raise ValueError(msg)
        twin = seen.setdefault(each.name.lower(), each.name)
        if twin is not each.name:
            msg = f"columns {twin!r} and {each.name!r} are the same to Spark and Delta"
            raise ValueError(msg)
        _check_type(each.dataType, name, of, keyed)


def _check_type(declared: T.DataType, path: str, of: str, keyed: str) -> None:
    match declared:
        case T.StructType():
            check(declared, path, of=of, keyed=keyed)
        case T.ArrayType():
            _check_type(declared.elementType, f"{path}[]", of, keyed)
        case T.MapType():
            if type(declared.keyType) in _NESTED:
                msg = f"column {path}: the keys of a {keyed} are no {declared.keyType.simpleString()}"
                raise ValueError(msg)
            _check_type(declared.keyType, f"{path}[]", of, keyed)
            _check_type(declared.valueType, f"{path}[]", of, keyed)
        case _ if type(declared) not in SCALARS or (isinstance(declared, T.StringType) and declared != T.StringType()):
            msg = f"column {path}: no values of {of} become type {declared.simpleString()}"
            raise ValueError(msg)


def rows(values: Sequence[Any], declared: T.StructType) -> pa.StructArray:
    """Dicts with the declared columns, and no others, as rows.

    Raises:
        Misfit: One of them does not fit.
    """
    return _struct(values, declared, "")


def sifted(values: Sequence[Any], declared: T.StructType) -> tuple[pa.StructArray, dict[int, Misfit]]:
    """The rows of those dicts that fit, in their order, and by the places of the others why they do not."""
    parts: list[pa.StructArray] = []
    misfits: dict[int, Misfit] = {}
    waiting = [(0, len(values))]
    while waiting:
        start, end = waiting.pop()
        try:
            parts.append(rows(values[start:end], declared))
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - methods of a user's own classes may raise whatever they like
            if end - start == 1:
                misfits[start] = error if isinstance(error, Misfit) else _unreadable(error)
            else:
                middle = (start + end) // 2
                waiting += [(middle, end), (start, middle)]
    return pa.concat_arrays(parts) if parts else pa.array([], arrow_type(declared)), misfits


def _unreadable(error: BaseException) -> Misfit:
    return Misfit("FUNCTION_FAILED", None, f"what it returned cannot be read: {type(error).__name__}")


def copier(declared: T.DataType) -> Callable[[Any], Any] | None:
    """A function that copies what may be changed in a value of the type before it is looked at; None if nothing may.

    A function of the user's may return the same dict each time, or lists that it fills again.
    """
    match declared:
        case T.StructType():
            inner = {field.name: copier(field.dataType) for field in declared.fields}
            parts = {name: part for name, part in inner.items() if part is not None}

            def of_struct(value: Any) -> Any:
                made = _plain_dict(value)
                for name, part in parts.items() if isinstance(made, dict) else ():
                    if name in made:
                        made[name] = part(made[name])
                return made

            return of_struct
        case T.ArrayType():
            item = copier(declared.elementType) or _itself
            return lambda value: list(map(item, value)) if isinstance(value, list | tuple) else value
        case T.MapType():
            item = copier(declared.valueType) or _itself

            def of_map(value: Any) -> Any:
                made = _plain_dict(value)
                return {key: item(each) for key, each in made.items()} if isinstance(made, dict) else made

            return of_map
        case T.BinaryType():
            return lambda value: bytes(value) if isinstance(value, bytearray | memoryview) else value
    return None


def _itself(value: Any) -> Any:
    return value


def _plain_dict(value: Any) -> Any:
    if type(value) is dict:
        return value.copy()
    return {key: value[key] for key in value} if isinstance(value, dict) else value


def has_required(declared: T.DataType) -> bool:
    """Whether something in the type is declared NOT NULL."""
    match declared:
        case T.StructType():
            return any(not field.nullable or has_required(field.dataType) for field in declared.fields)
        case T.ArrayType():
            return not declared.containsNull or has_required(declared.elementType)
        case T.MapType():
            return not declared.valueContainsNull or has_required(declared.valueType)
    return False


def _column(values: Sequence[Any], declared: T.DataType, path: str, *, required: bool) -> pa.Array:
    """Values of one field, None among them."""
    present = [value for value in values if value is not None]
    if len(present) < len(values) and required:
        raise Misfit("FIELD_MISSING", path, f"field {path} is declared NOT NULL and is None")
    if type(declared) in _NESTED:
        array = _NESTED[type(declared)](present, declared, path)
        if len(present) == len(values):
            return array
        places, count = [], 0
        for value in values:
            places.append(None if value is None else count)
            count += value is not None
        return array.take(pa.array(places, pa.int64()))
    return python_scalars.column(values, declared, path)


def _struct(values: Sequence[Any], declared: T.StructType, path: str) -> pa.StructArray:
    names, target = declared.names, arrow_type(declared)
    wanted = set(names)
    for value in values:
        if not isinstance(value, dict):
            raise wrong(path, declared, kind_of(value))
        if value.keys() != wanted:
            raise _other_fields(value, names, path)
    columns = [
        _column(
            [value[field.name] for value in values],
            field.dataType,
            below(path, field.name),
            required=not field.nullable,
        )
        for field in declared.fields
    ]
    return pa.StructArray.from_arrays(columns, fields=[target.field(place) for place in range(target.num_fields)])


def _other_fields(value: Mapping[Any, Any], names: Sequence[str], path: str) -> Misfit:
    missing = next((name for name in names if name not in value), None)
    if missing is not None:
        name = below(path, missing)
        return Misfit("FIELD_MISSING", name, f"field {name} is declared, and the dict lacks it")
    extra = next(iter(value.keys() - set(names)))
    shown = repr(extra[:NAME_LENGTH]) if isinstance(extra, str) else kind_of(extra)
    where = f"the dict of field {path}" if path else "the dict"
    message = f"{where} has a key that the schema lacks: {shown}"
    return Misfit("FIELD_UNKNOWN", path or None, message.encode("utf-8", "backslashreplace").decode())


def _list(values: Sequence[Any], declared: T.ArrayType, path: str) -> pa.ListArray:
    offsets: list[int] = [0]
    items: list[Any] = []
    for value in values:
        if not isinstance(value, list | tuple):
            raise wrong(path, declared, kind_of(value))
        items += value
        offsets.append(len(items))
    inner = _column(items, declared.elementType, f"{path}[]", required=not declared.containsNull)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, type=arrow_type(declared))


def _map(values: Sequence[Any], declared: T.MapType, path: str) -> pa.MapArray:
    offsets: list[int] = [0]
    keys: list[Any] = []
    items: list[Any] = []
    for value in values:
        if not isinstance(value, dict):
            raise wrong(path, declared, kind_of(value))
        keys += value.keys()
        items += value.values()
        offsets.append(len(keys))
    keyed = _column(keys, declared.keyType, f"{path}[]", required=True)
    inner = _column(items, declared.valueType, f"{path}[]", required=not declared.valueContainsNull)
    array = pa.MapArray.from_arrays(pa.array(offsets, pa.int32()), keyed, inner, type=arrow_type(declared))
    if keys_twice(array):
        raise wrong(path, declared, "a key twice")
    return array


def keys_twice(array: pa.MapArray) -> bool:
    """Whether one of the maps has a key twice; those of nulls may count, too."""
    keys = pa.ListArray.from_arrays(array.offsets, array.keys)
    flat, of_map = keys.flatten(), pc.list_parent_indices(keys).cast(pa.int64())
    told_apart = pc.add(pc.multiply(of_map, len(flat)), flat.dictionary_encode().indices.cast(pa.int64()))
    return bool(pc.count_distinct(told_apart).as_py() < len(flat))


_NESTED: Final[Mapping[type[T.DataType], Callable[..., pa.Array]]] = {
    T.StructType: _struct,
    T.ArrayType: _list,
    T.MapType: _map,
}
