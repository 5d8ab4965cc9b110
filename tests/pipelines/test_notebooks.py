"""Source files as cells: each language, each kind of notebook, and the user's own line numbers."""

from __future__ import annotations

import json
import sys
import traceback

import pytest

from rivermouth.errors import NotebookInvalid
from rivermouth.pipelines.notebooks import Cell, cells, missing, pip_requirements, run_target
from rivermouth.pipelines.python.dbutils import DbUtils
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.spec import SourceLine

PY = "# Databricks notebook source\n"
SQL = "-- Databricks notebook source\n"


def read(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text)
    return cells(path, name)


def parts(found):
    """(language, line, text without empty lines around it) of each cell."""
    return [(cell.language, cell.at.line, cell.text.strip("\n")) for cell in found]


TABLE = {
    "a plain file of Python": ("a.py", "import dlt\n\nx = 1\n", [("python", 1, "import dlt\n\nx = 1")]),
    "a plain file of SQL": ("a.sql", "-- a\nSELECT 1;", [("sql", 1, "-- a\nSELECT 1;")]),
    "an empty file": ("a.py", "\n\n", []),
    "line ends of Windows": ("a.py", PY.replace("\n", "\r\n") + "x = 1\r\n", [("python", 2, "x = 1")]),
    "a byte order mark": ("a.py", "\ufeff" + PY + "x = 1", [("python", 2, "x = 1")]),
    "cells of Python": (
        "a.py",
        PY + "x = 1\n\n# COMMAND ----------\n\ny = 2\n",
        [("python", 2, "x = 1"), ("python", 5, "y = 2")],
    ),
    "marks without the first line": (
        "a.py",
        "x = 1\n# COMMAND ----------\n# MAGIC %md\n# MAGIC # Title\n",
        [("python", 1, "x = 1"), ("markdown", 3, "# Title")],
    ),
    "MAGIC in a file without marks is a comment": ("a.py", "# MAGIC %md\nx = 1", [("python", 1, "# MAGIC %md\nx = 1")]),
    "a title and SQL": (
        "a.py",
        PY + "# DBTITLE 1,Daily\n# MAGIC %sql\n# MAGIC SELECT 1\n# MAGIC\n# MAGIC FROM t\n",
        [("sql", 3, "SELECT 1\n\nFROM t")],
    ),
    "SQL on the line of its magic": ("a.py", PY + "# MAGIC %sql SELECT 1", [("sql", 2, "SELECT 1")]),
    "%python in Python": ("a.py", PY + "# MAGIC %python\n# MAGIC x = 1", [("python", 2, "x = 1")]),
    "other languages": (
        "a.py",
        PY + "# MAGIC %scala\n# MAGIC val x = 1\n# COMMAND ----------\n# MAGIC %r\n# MAGIC x <- 1\n"
        "# COMMAND ----------\n# MAGIC %sh ls\n# COMMAND ----------\n# MAGIC %fs ls /\n"
        "# COMMAND ----------\n# MAGIC %md-sandbox <b>a</b>\n# COMMAND ----------\n# MAGIC %skip\n# MAGIC x = 1",
        [
            ("scala", 2, "val x = 1"),
            ("r", 5, "x <- 1"),
            ("shell", 8, "ls"),
            ("shell", 10, "ls /"),
            ("markdown", 12, "<b>a</b>"),
            ("markdown", 14, "x = 1"),
        ],
    ),
    "%run, its path bare, in quotes, with parameters": (
        "a.py",
        PY + '# MAGIC %run ./_setup\n# COMMAND ----------\n# MAGIC %run "../a b" $env="dev"\n'
        "# COMMAND ----------\n# MAGIC %run ../a b $env=dev\n# COMMAND ----------\n# MAGIC %run './c'",
        [("run", 2, "./_setup"), ("run", 4, "../a b"), ("run", 6, "../a b"), ("run", 8, "./c")],
    ),
    "Python beside %run": (
        "a.py",
        PY + "# MAGIC %run ./_setup\n# MAGIC x = 1",
        [("python", 2, "x = 1"), ("run", 2, "./_setup")],
    ),
    "%pip and Python in one cell": (
        "a.py",
        PY + "# MAGIC %pip install faker==1.0 -q\n# MAGIC dbutils.library.restartPython()\n# MAGIC %restart_python",
        [
            ("pip", 2, "install faker==1.0 -q"),
            ("shell", 4, "%restart_python"),
            ("python", 2, "dbutils.library.restartPython()"),
        ],
    ),
    "pip without a mark": (
        "a.py",
        "import dlt\npip install faker\n!pip install a\n!ls\n%pip3 install b\nx = 1",
        [
            ("pip", 2, "install faker"),
            ("pip", 3, "install a"),
            ("shell", 4, "!ls"),
            ("pip", 5, "install b"),
            ("python", 1, "import dlt\n\n\n\n\nx = 1"),
        ],
    ),
    "what looks like a magic within Python that Python reads": (
        "a.py",
        'x = (7\n%y)\nz = """\n%pip install a\n!b\n"""',
        [("python", 1, 'x = (7\n%y)\nz = """\n%pip install a\n!b\n"""')],
    ),
    "a notebook of SQL": (
        "a.sql",
        SQL + "SELECT 1\n-- COMMAND ----------\n-- MAGIC %python\n-- MAGIC x = 1\n"
        "-- COMMAND ----------\n-- MAGIC %md\n-- MAGIC text\n-- COMMAND ----------\n-- MAGIC %pip install a\n"
        "-- COMMAND ----------\n-- DBTITLE 1,Two\nSELECT 2",
        [
            ("sql", 2, "SELECT 1"),
            ("python", 4, "x = 1"),
            ("markdown", 7, "text"),
            ("pip", 10, "install a"),
            ("sql", 12, "-- DBTITLE 1,Two\nSELECT 2"),
        ],
    ),
    "SQL that says %": ("a.sql", "SELECT 5\n%2", [("sql", 1, "SELECT 5\n%2")]),
}


@pytest.mark.parametrize("case", TABLE)
def test_files_with_marks(tmp_path, case):
    name, text, expected = TABLE[case]
    assert parts(read(tmp_path, name, text)) == expected


def notebook(*sources, language="python", kind="code", metadata=None):
    said = {"language_info": {"name": language}} if metadata is None else metadata
    return json.dumps(
        {"nbformat": 4, "metadata": said, "cells": [{"cell_type": kind, "source": each} for each in sources]}
    )


def test_a_notebook_of_jupyter_counts_lines_in_the_cell(tmp_path):
    text = notebook(
        ["import dlt\n", "%pip install a\n", "x = 1"],
        "%%sql\nSELECT 1",
        "%sql SELECT 2",
        "!ls",
        "",
        "%%time\ny",
        "%%writefile a\nz",
    )
    found = read(tmp_path, "a.ipynb", text)
    assert [(cell.language, str(cell.at), cell.text) for cell in found] == [
        ("pip", "a.ipynb cell 1:2", "install a"),
        ("python", "a.ipynb cell 1:1", "import dlt\n\nx = 1"),
        ("sql", "a.ipynb cell 2:1", "\nSELECT 1"),
        ("sql", "a.ipynb cell 3:1", "SELECT 2"),
        ("shell", "a.ipynb cell 4:1", "!ls"),
        ("python", "a.ipynb cell 6:1", "\ny"),
        ("shell", "a.ipynb cell 7:1", "a\nz"),
    ]


@pytest.mark.parametrize(
    ("text", "language"),
    [
        (notebook("x", language="python"), "python"),
        (notebook("x", metadata={}), "python"),
        (notebook("x", language="SQL"), "sql"),
        (notebook("x", metadata={"kernelspec": {"language": "sql"}}), "sql"),
        (notebook("x", metadata={"application/vnd.databricks.v1+notebook": {"language": "sql"}}), "sql"),
        (notebook("x", metadata={"language_info": None}), "python"),
        (notebook("x", kind="markdown"), "markdown"),
        (notebook("x", kind="raw"), "markdown"),
        (
            json.dumps(
                {"cells": [{"cell_type": "code", "source": "x", "metadata": {"vscode": {"languageId": "sql"}}}]}
            ),
            "sql",
        ),
        (json.dumps({"nbformat": 3, "worksheets": [{"cells": [{"cell_type": "code", "input": ["x"]}]}]}), "python"),
    ],
)
def test_the_language_of_a_notebook_of_jupyter(tmp_path, text, language):
    assert [(cell.language, cell.text) for cell in read(tmp_path, "a.ipynb", text)] == [(language, "x")]


def test_a_traceback_shows_the_line_of_the_file(tmp_path):
    text = PY + "x = 1\n# COMMAND ----------\n# MAGIC %pip install a\n# MAGIC y = 2\n# MAGIC raise ValueError('here')\n"
    *_, cell = read(tmp_path, "a.py", text)
    with pytest.raises(ValueError, match="here") as raised:
        exec(compile(cell.padded, "a.py", "exec"), {})
    assert (
        traceback.extract_tb(raised.value.__traceback__)[-1].lineno
        == text.split("\n").index("# MAGIC raise ValueError('here')") + 1
    )


RUNS = [
    ('%run ./a $env="prod"', "./a", {"env": "prod"}),
    ("%run './a b' $env='it \"is\"' $n = 1 $x=", None, {}),
    ("%run './a b' $env='it \"is\"'  $n = 1", "./a b", {"env": 'it "is"', "n": "1"}),
    ('%run ./a $a.b="" $c="$d"', "./a", {"a.b": "", "c": "$d"}),
    ("%run ./a", "./a", {}),
    ("%run ./a $env", None, {}),
    ("%run ./a $env=a b", None, {}),
]


@pytest.mark.parametrize(("line", "path", "arguments"), RUNS)
@pytest.mark.parametrize("more", ["", "\n# MAGIC x = 1"])
def test_the_arguments_of_run(tmp_path, line, path, arguments, more):
    text = f"{PY}# MAGIC {line}{more}\n"
    if path is None:
        with pytest.raises(NotebookInvalid) as raised:
            read(tmp_path, "a.py", text)
        meant = "./a b" if "./a b" in line else "./a"
        assert str(raised.value) == (
            f"[NOTEBOOK_INVALID] a.py: %run: the arguments behind {meant} cannot be read; nothing was run\n"
            '  at: a.py:2\n  hint: write $name="value" for each of them'
        )
    else:
        found = next(each for each in read(tmp_path, "a.py", text) if each.language == "run")
        assert (found.text, found.arguments) == (path, arguments)


SETUP = (
    PY
    + """\
dbutils.widgets.text("env", "dev")
dbutils.widgets.text("size", "small")
SETUP = [dbutils.widgets.get(each) for each in ("env", "size", "given")], getArgument("env"), dbutils.widgets.getAll()
def later():
    return dbutils.widgets.get("env"), dbutils.widgets.get("other")
# COMMAND ----------
# MAGIC %sql CREATE TEMPORARY VIEW of_setup COMMENT :env AS SELECT '${other}'
"""
)
MAIN = (
    PY
    + """\
dbutils.widgets.text("size", "big")
# COMMAND ----------
# MAGIC %run ./setup $env="prod" $other=2 $given=3
# COMMAND ----------
FOUND.append((SETUP, later(), dbutils.widgets.get("size"), dbutils.widgets.get("given")))
# COMMAND ----------
# MAGIC %run ./setup
# COMMAND ----------
FOUND.append((SETUP[0][0], dbutils.widgets.get("size")))
# COMMAND ----------
# MAGIC %sql CREATE TEMPORARY VIEW of_main COMMENT :other AS SELECT 1
"""
)


def test_the_arguments_of_run_are_values_of_widgets_of_the_notebook_that_is_run(tmp_path):
    found, dbutils = [], DbUtils(lambda: None, {}, {"given": "1", "other": "1"})
    names = {"dbutils": dbutils, "getArgument": dbutils.widgets.getArgument, "FOUND": found}
    (tmp_path / "setup.py").write_text(SETUP)
    (tmp_path / "main.py").write_text(MAIN)
    evaluated = Evaluation(tmp_path, names, {"env": "none", "other": "1"}, Registry(tmp_path))
    definitions = evaluated.evaluate([tmp_path / "main.py"])
    shown = {"env": "prod", "size": "small", "other": "2", "given": "3"}
    assert found == [
        ((["prod", "small", "3"], "prod", shown), ("prod", "1"), "big", "1"),
        ("dev", "big"),
    ]
    assert [(each.name, each.comment, each.query.conf["other"]) for each in definitions.datasets] == [
        ("of_setup", "prod", "2"),
        ("of_setup", "none", "1"),
        ("of_main", "1", "1"),
    ]


FIRST = """\
import databricks_names
dbutils.widgets.text("env", "a")
databricks_names.widgets.text("shared", "s")
FUNCTIONS.append(lambda: (dbutils.widgets.get("env"), getArgument("shared"), getArgument("gone", "none")))
dbutils.widgets.text("gone", "x")
dbutils.widgets.remove("gone")
"""
SECOND = """\
dbutils.widgets.text("env", "b")
dbutils.widgets.text("shared", "b")
FUNCTIONS.append(lambda: (getArgument("env"), sorted(dbutils.widgets.getAll())))
FUNCTIONS.append(lambda: databricks_names.widgets.get("env"))
import databricks_names
"""
THIRD = """\
dbutils.widgets.text("env", "c")
dbutils.widgets.removeAll()
"""


def test_widgets_belong_to_a_file(tmp_path, monkeypatch):
    functions, dbutils = [], DbUtils(lambda: None, {}, {})
    names = {"dbutils": dbutils, "getArgument": dbutils.widgets.getArgument, "FUNCTIONS": functions}
    monkeypatch.setitem(sys.modules, "databricks_names", dbutils)
    files = [tmp_path / name for name in ("a.py", "b.py", "c.py")]
    for file, text in zip(files, (FIRST, SECOND, THIRD), strict=True):
        file.write_text(text)
    Evaluation(tmp_path, names, {}, Registry(tmp_path)).evaluate(files[:2])
    assert [each() for each in functions] == [("a", "b", "none"), ("b", ["env", "shared"]), "b"]
    Evaluation(tmp_path, names, {}, Registry(tmp_path)).evaluate(files[2:])
    assert [each() for each in functions[:2]] == [("a", "b", "none"), ("b", ["env", "shared"])]


def test_what_run_means(tmp_path):
    (tmp_path / "etl").mkdir()
    for name in ("setup.py", "etl/names.sql", "etl/a.ipynb"):
        (tmp_path / name).touch()
    texts = {"../setup": "setup.py", "./names": "etl/names.sql", "a.ipynb": "etl/a.ipynb"}
    for text, expected in texts.items():
        cell = Cell("run", text, SourceLine("etl/b.py", 3))
        assert run_target(cell, tmp_path / "etl" / "b.py") == tmp_path / expected
    with pytest.raises(NotebookInvalid) as raised:
        run_target(Cell("run", "./gone", SourceLine("etl/b.py", 3)), tmp_path / "etl" / "b.py")
    assert str(raised.value) == (
        "[NOTEBOOK_INVALID] etl/b.py: %run: there is no notebook ./gone; nothing was run\n"
        "  at: etl/b.py:3\n  hint: write a path relative to etl/b.py"
    )


@pytest.mark.parametrize("case", TABLE)
def test_each_line_of_a_cell_is_on_its_line_of_the_file(tmp_path, case):
    name, text, _ = TABLE[case]
    lines = text.removeprefix("\ufeff").split("\n")
    for cell in read(tmp_path, name, text):
        for number, line in enumerate(cell.text.split("\n"), cell.at.line):
            assert line in lines[number - 1]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("install faker", ["faker"]),
        ('install -U "pandas>=2,<3" pyyaml==6.0 --quiet', ["pandas>=2,<3", "pyyaml==6.0"]),
        ("install a[extra]~=1 # why", ["a[extra]~=1"]),
        ("install -r ../requirements.txt --index-url https://x/y a", ["a"]),
        ("install -e . ./dist /Volumes/x", []),
        ("install git+https://github.com/o/dbldatagen.git@v1", ["dbldatagen"]),
        ("install git+https://github.com/o/r#egg=name", ["name"]),
        ("install /dbfs/a/my_lib-1.0-py3-none-any.whl", ["my_lib"]),
        ("install $package", []),
        ("install a a 'b", ["a"]),
        ("uninstall a", []),
    ],
)
def test_what_pip_would_install(text, expected):
    assert pip_requirements(Cell("pip", text, SourceLine("a.py", 1))) == expected


def test_which_packages_are_missing():
    assert missing(["pyyaml>=6", "no-such-package-here==1", "pydantic[email]"]) == ["no-such-package-here==1"]


@pytest.mark.parametrize(
    ("name", "data", "text"),
    [
        (
            "a.scala",
            b"x",
            (
                "[NOTEBOOK_INVALID] a.scala: it is no Python, SQL or Jupyter file; nothing was run\n"
                "  hint: name a file that ends in .py, .sql, .ipynb"
            ),
        ),
        (
            "a.py",
            b"\xff",
            "[NOTEBOOK_INVALID] a.py: it is no UTF-8; nothing was run\n  hint: save it as UTF-8",
        ),
        (
            "gone.py",
            None,
            (
                "[NOTEBOOK_INVALID] gone.py: it cannot be read: No such file or directory; nothing was run\n"
                "  hint: check the path and its access rights"
            ),
        ),
        (
            "a.ipynb",
            b'{"cells":\n',
            (
                "[NOTEBOOK_INVALID] a.ipynb: it is no JSON; nothing was run\n  at: a.ipynb:2\n"
                "  hint: save it again with Jupyter or Databricks"
            ),
        ),
        (
            "a.ipynb",
            b"[]",
            (
                "[NOTEBOOK_INVALID] a.ipynb: it is JSON, but no notebook: it has no cells; nothing was run\n"
                "  hint: save it again with Jupyter or Databricks"
            ),
        ),
    ],
)
def test_what_is_no_source_file(tmp_path, name, data, text):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    with pytest.raises(NotebookInvalid) as raised:
        cells(tmp_path / name, name)
    assert str(raised.value) == text
