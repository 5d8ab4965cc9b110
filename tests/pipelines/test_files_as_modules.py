"""The code of a pipeline's files: it is that of a module, and what it prints is not the answer of the command."""

import importlib
import sys

import pytest
from pyspark import cloudpickle

from rivermouth.errors import PythonFileFailed
from rivermouth.pipelines.python.files import Evaluation, user_line
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.printed import output_apart
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.python.user_modules import importing

TEXT = """
from __future__ import annotations
import enum, typing
from dataclasses import dataclass, field
from pyspark import cloudpickle, pipelines as dp

@dataclass(frozen=True)
class Settings:
    limit: int = 3
    names: list[str] = field(default_factory=list)

class Kind(enum.Enum):
    ONE = 1

class Pair(typing.NamedTuple):
    left: int

def double(value):
    return Settings(value * 2).limit

SENT = cloudpickle.dumps(double)
print("at the top", typing.get_type_hints(Settings)["limit"].__name__, Kind.ONE.name, Pair(1).left)

@dp.foreach_batch_sink(name="out")
def out(frame, number):
    print("in a sink")

@dp.on_event_hook
def hook(event):
    print("in a hook")
"""


def test_a_file_may_have_classes_and_print(tmp_path, capsys):
    file = tmp_path / "code.py"
    file.write_text(TEXT)
    with output_apart(), importable({}), importing(tmp_path, [file]):
        found = Evaluation(tmp_path, {"spark": None}, {}, Registry(tmp_path)).evaluate([file])
        sent = sys.modules["<code.py>"].SENT
        print("the answer")
        found.sinks[0].function(None, 0)
        found.hooks[0].function({})
    assert "<code.py>" not in sys.modules
    out, err = capsys.readouterr()
    assert out == "the answer\n"
    assert err == "at the top int ONE 1\nin a sink\nin a hook\n"
    # A worker has no such module.
    assert cloudpickle.loads(sent)(4) == 8


NO_PYTHON = {
    "import helpers\n": ("helpers.py:3", "SyntaxError: invalid syntax"),
    "import ast\nast.parse('(:')\n": ("src/a.py:2", "SyntaxError: invalid syntax (<unknown>, line 1)"),
    "raise SyntaxError('mine')\n": ("src/a.py:1", "SyntaxError: mine"),
    "x = 1\ny = (:\n": ("src/a.py:2", "SyntaxError: invalid syntax"),
}


def test_text_that_is_no_python_is_reported_where_it_is(tmp_path):
    file = tmp_path / "src/a.py"
    file.parent.mkdir()
    (tmp_path / "helpers.py").write_text("X = 1\n\ndef broken(:\n")
    for text, (place, said) in NO_PYTHON.items():
        file.write_text(text)
        with importing(tmp_path, [file]), pytest.raises(PythonFileFailed) as raised:
            Evaluation(tmp_path, {}, {}, Registry(tmp_path)).evaluate([file])
        assert str(raised.value) == (
            f"[PYTHON_FILE_FAILED] src/a.py failed with {said}; the pipeline was not run\n"
            f"  at: {place}\n"
            "  hint: rivermouth validate, after the line above is corrected"
        )
    # As where a query imports it.
    file.write_text("def query():\n    import helpers\n\nkept.append(query)\n")
    registry, kept = Registry(tmp_path), []
    with importing(tmp_path, [file]):
        Evaluation(tmp_path, {"kept": kept}, {}, registry).evaluate([file])
        with pytest.raises(SyntaxError) as broken:
            kept[0]()
    assert str(user_line(registry, broken.value, tmp_path)) == "helpers.py:3"


def test_names_of_notebooks_are_imported_too_and_packages_beside_the_file_are_found(tmp_path):
    (tmp_path / "databricks/labs").mkdir(parents=True)
    (tmp_path / "databricks/labs/mine.py").write_text("X = 5\n")
    file, found = tmp_path / "code.py", []
    file.write_text(
        "from databricks.labs.mine import X\n"
        "from databricks.sdk.runtime import dbutils, spark as session\n"
        "from pyspark.dbutils import DBUtils\n"
        "from databricks import dlt, pipelines\n"
        "note((X, session, dbutils, DBUtils(session), pipelines.table is dlt.table))\n"
    )
    names = {"spark": "session", "dbutils": "dbutils", "note": found.append}
    before = set(sys.modules)
    with importing(tmp_path, [file]), importable(names):
        Evaluation(tmp_path, names, {}, Registry(tmp_path)).evaluate([file])
    assert found == [(5, "session", "dbutils", "dbutils", True)]
    assert not {each for each in set(sys.modules) - before if each.startswith(("databricks", "pyspark.dbutils"))}


def test_modules_of_the_working_folder_are_found_after_all_others(tmp_path):
    """Its packages need no ``__init__.py``; what is installed, or beside the file, is not hidden."""
    for name, text in {
        "work/json.py": "X = 'ours'",
        "work/beside_it.py": "X = 'of the working folder'",
        "work/utilities/words.py": "X = 'words'\n\ndef get():\n    return X\n",
        "work/utilities/more/deep.py": "from utilities import words\nX = words.X + ' deep'",
        "work/files/beside_it.py": "X = 'beside'",
        "work/files/code.py": "import json\nfrom beside_it import X\nfrom utilities.more.deep import X as deep\n"
        "from utilities import words\nimport only_here\nprint((hasattr(json, 'X'), X, deep, words.get, only_here.X))\n",
        "work/only_here.py": "X = 1",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    work, file, found = tmp_path / "work", tmp_path / "work/files/code.py", []
    names, before = {"spark": None, "print": found.append}, set(sys.modules)
    with importing(file.parent, [file], work) as folders, importable({}):
        shared = []
        folders.share(shared.append)
        Evaluation(tmp_path, names, {}, Registry(tmp_path)).evaluate([file])
        # Workers hear of it before the first module is loaded.
        assert [work in each for each in shared] == [False, True]
        sent = cloudpickle.dumps(found[0][3])
    assert found[0][:3] == (False, "beside", "words deep")
    assert found[0][4] == 1
    assert not [each for each in set(sys.modules) - before if each.startswith(("utilities", "only_here"))]
    assert cloudpickle.loads(sent)() == "words"


def test_the_packages_of_a_pipeline_are_imported_and_sent_to_workers(tmp_path):
    file, found = tmp_path / "files/code.py", []
    for name, text in {
        "lib/src/of_bundle/words.py": "def get():\n    return 'words'\n",
        "lib/src/beside.py": "X = 'hidden'",
        "files/beside.py": "X = 'beside'",
        "files/code.py": "import beside\nfrom of_bundle import words\nprint((beside.X, words.get))\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    package = tmp_path / "lib/src"
    with importing(file.parent, [file], None, [package]) as folders, importable({}):
        Evaluation(tmp_path, {"print": found.append}, {}, Registry(tmp_path)).evaluate([file])
        assert folders.all()[:2] == [file.parent, package]
        sent = cloudpickle.dumps(found[0][1])
    assert found[0][0] == "beside"
    assert str(package) not in sys.path
    assert cloudpickle.loads(sent)() == "words"


@pytest.mark.parametrize("known", [False, True])
def test_modules_are_read_again_by_the_next_run(tmp_path, monkeypatch, known):
    """Also where the folder was known before: test runners add it."""
    if known:
        monkeypatch.syspath_prepend(tmp_path)
    file = tmp_path / "code.py"
    # Its annotations are values: it has no future statement of ours.
    file.write_text("import beside\n\ndef f(x: int): pass\n\nprint(beside.VALUE + f.__annotations__['x'](0))\n")
    found = []
    for value in (1, 2):
        (tmp_path / "beside.py").write_text(f"VALUE = {value}{' ' * value}\n\ndef get():\n    return VALUE\n")
        names = {"spark": None, "print": found.append}
        with importable({}), importing(tmp_path, [file]) as folders:
            Evaluation(tmp_path, names, {}, Registry(tmp_path)).evaluate([file])
            module = sys.modules["beside"]
            assert module.__reduce__() == (importlib.import_module, ("beside",))
            sent = cloudpickle.dumps(module.get)
            assert folders.all()[0] == tmp_path
        assert "beside" not in sys.modules
        # A worker that has no such module.
        (tmp_path / "beside.py").unlink()
        assert cloudpickle.loads(sent)() == value
    assert found == [1, 2]
