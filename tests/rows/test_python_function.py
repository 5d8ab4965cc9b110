"""A user's function by its name: where it is found, what it may ask for, and what is said where it cannot be used."""

from __future__ import annotations

import sys
import uuid

import pytest

from rivermouth.decoding.python import python_function
from rivermouth.decoding.python.python_function import Reference
from rivermouth.errors import FunctionUnusable


@pytest.fixture
def module(tmp_path):
    """Writes a module of a name that no other test uses into a folder; its name."""

    def write(code, name=None):
        name = name or f"functions_{uuid.uuid4().hex}"
        (tmp_path / f"{name}.py").write_text(code)
        return name

    return write


def asked(tmp_path, name, attribute="f", *, arrow=False):
    return python_function.asked_for(Reference(name, attribute, str(tmp_path)), arrow=arrow)


def refused(tmp_path, name, attribute="f", *, arrow=False):
    with pytest.raises(FunctionUnusable) as caught:
        asked(tmp_path, name, attribute, arrow=arrow)
    text = str(caught.value).replace(name, "M").replace(str(tmp_path), "FOLDER")
    first, hint = text.split("\n  hint: ")
    start, end = f"[FUNCTION_UNUSABLE] function 'M:{attribute}' cannot be used: ", "; nothing was run"
    assert first.startswith(start)
    assert first.endswith(end)
    return first[len(start) : -len(end)], hint


@pytest.mark.parametrize(
    ("code", "asks"),
    [
        ("def f(value): ...", ()),
        ("def f(v, /, *, topic): ...", ("topic",)),
        ("def f(value, *, headers, key, topic): ...", ("topic", "key", "headers")),
        ("def f(value, key=None, other=1, *args, **more): ...", ("key",)),
        ("def f(*args): ...", ()),
        ("def f(value, *topic, **headers): ...", ()),
        ("f = lambda value: None", ()),
        ("class C:\n    def __call__(self, value, *, topic): ...\nf = C()", ("topic",)),
        ("import functools\ndef g(topic, value): ...\nf = functools.partial(g, 't')", ()),
        ("from zlib import decompress as f", ()),
        ("class C:\n    @staticmethod\n    def g(value, *, key): ...\nf = C.g", ("key",)),
        ("def f(value: bytes) -> 'dict | None': ...", ()),
    ],
)
def test_what_a_function_asks_for(tmp_path, module, code, asks):
    assert asked(tmp_path, module(code)) == asks
    assert str(tmp_path) not in sys.path


@pytest.mark.parametrize("annotation", ["pa.Array", "pyarrow.BinaryArray", "'pa.Array'", "object"])
def test_a_function_over_arrays(tmp_path, module, annotation):
    name = module(f"import pyarrow\npa = pyarrow\ndef f(values: {annotation}, *, key): ...")
    assert asked(tmp_path, name, arrow=True) == ("key",)


IMPORT = "module M cannot be imported: "
PLAIN = ("it is a coroutine or a generator, and no plain function", "write: def orders(value): ...")
NO_NAME = ("this is no name of a module and a function", "write module:function, for example: function: decode:orders")
FIRST = ("its first parameter does not take the value", "write: def orders(value): ...")


@pytest.mark.parametrize(
    ("code", "attribute", "told"),
    [
        ("def g(value): ...", "f", ("module M (FOLDER/M.py) has no f", "known: g")),
        ("def order(value): ...", "orders", ("module M (FOLDER/M.py) has no orders", "did you mean 'order'?")),
        ("f = 5", "f", ("it is an int, and no function", "name a function: def orders(value): ...")),
        ("import nothing", "f", (f"{IMPORT}ModuleNotFoundError: No module named 'nothing'", "correct M.py")),
        ("raise ValueError('at once')", "f", (f"{IMPORT}ValueError: at once", "correct M.py")),
        ("class Panic(BaseException): ...\nraise Panic('at once')", "f", (f"{IMPORT}Panic: at once", "correct M.py")),
        (
            "def f(key, *, topic): ...",
            "f",
            ("its first parameter is called key, and takes the value", "write: def orders(value, *, key): ..."),
        ),
        ("import sys; sys.exit(3)", "f", (f"{IMPORT}SystemExit: 3", "correct M.py")),
        ("def f(:", "f", (f"{IMPORT}SyntaxError: invalid syntax (M.py, line 1)", "correct M.py")),
        ("async def f(value): ...", "f", PLAIN),
        ("def f(value):\n    yield 1", "f", PLAIN),
        ("def f(): ...", "f", FIRST),
        ("def f(*, value): ...", "f", FIRST),
        (
            "def f(value, offset): ...",
            "f",
            (
                "it has a parameter 'offset', and nothing is known to pass for it",
                "def orders(value, *, topic, key, headers), or fewer of these; or give it a default",
            ),
        ),
        (
            "def f(value, topic, /): ...",
            "f",
            ("topic, key and headers are passed by name", "write: def orders(value, *, topic): ..."),
        ),
        (
            "import pyarrow as pa\ndef f(values: pa.Array) -> pa.StructArray: ...",
            "f",
            ("it takes Arrow arrays, and the format hands it single values", "add arrow: true to the format"),
        ),
    ],
)
def test_what_cannot_be_used(tmp_path, module, code, attribute, told):
    assert refused(tmp_path, module(code), attribute) == told


def test_single_values_where_arrays_are_meant(tmp_path, module):
    told = ("it takes single values, and the format hands it Arrow arrays", "remove arrow: true")
    assert refused(tmp_path, module("def f(value: bytes) -> dict: ..."), arrow=True) == told


def test_a_module_that_is_not_there(tmp_path):
    name = f"no_module_{uuid.uuid4().hex}"
    told = (
        "module M cannot be imported: ModuleNotFoundError: No module named 'M'",
        "put M.py into the folder of the project file, or install its package",
    )
    assert refused(tmp_path, name) == told


def test_a_module_that_hides_one_beside_the_project_file(tmp_path, module):
    told, hint = refused(tmp_path, module("def loads(value): ...", "wave"), "loads")
    assert told.startswith("Python has another module M (")
    assert told.endswith("), which hides the one in the project file's folder")
    assert hint == "rename M in the folder of the project file, and name it so: function: my_M:..."
    # One of that name which is not there hides nothing.
    assert python_function.asked_for(Reference("json", "loads", str(tmp_path)), arrow=False) == ()


def test_what_a_module_prints_is_no_output_of_the_command(tmp_path, module, capsys):
    assert asked(tmp_path, module("print('hello')\ndef f(value): ...")) == ()
    assert capsys.readouterr() == ("", "hello\n")


def test_a_function_of_an_entry_point(tmp_path, monkeypatch):
    installed = tmp_path / "shop-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: shop\nVersion: 1.0\n")
    (installed / "entry_points.txt").write_text("[rivermouth.functions]\norders = shop.decode:orders [extra]\n")
    monkeypatch.syspath_prepend(tmp_path)
    assert python_function.reference("orders", "/f") == Reference("shop.decode", "orders", "/f")
    with pytest.raises(FunctionUnusable) as caught:
        python_function.reference("order", None)
    assert str(caught.value) == (
        "[FUNCTION_UNUSABLE] function 'order' cannot be used: no entry point of the group rivermouth.functions has "
        "that name; nothing was run\n  hint: did you mean 'orders'?"
    )


@pytest.mark.parametrize(
    ("name", "told"),
    [
        (
            "orders",
            (
                "no entry point of the group rivermouth.functions has that name",
                "name it with its module: function: decode:orders",
            ),
        ),
        ("decode.py:orders", ("this names a file, and not its module", "function: decode:orders")),
        ("decode:", NO_NAME),
        ("a b:c", NO_NAME),
        ("./decode.py:orders", NO_NAME),
    ],
)
def test_what_is_no_name_of_a_function(name, told):
    with pytest.raises(FunctionUnusable) as caught:
        python_function.reference(name, None)
    assert str(caught.value) == (
        f"[FUNCTION_UNUSABLE] function {name!r} cannot be used: {told[0]}; nothing was run\n  hint: {told[1]}"
    )
