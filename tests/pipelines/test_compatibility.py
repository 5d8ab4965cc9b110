"""What pipeline files have, ranked by how many public ones have it: each item works, differs, or is refused by name."""

import re
from pathlib import Path

import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.pipelines.compatibility_defined import DEFINED, REFUSED
from tests.pipelines.compatibility_run import BASE, ENVIRON, FIRST, FUNCTIONS, KINESIS, PARAMS, ROWS, RUN, TOPICS

from rivermouth.domain.kinesis.options import read_options
from rivermouth.errors import RivermouthError
from rivermouth.pipelines.python.files import Evaluation
from rivermouth.pipelines.python.modules import importable
from rivermouth.pipelines.python.registry import Registry
from rivermouth.pipelines.running.sql_text import _called
from rivermouth.pipelines.sql.sources import functions
from rivermouth.testing import run_pipeline

ITEMS = (*DEFINED, *RUN, *REFUSED, *FUNCTIONS, *KINESIS)


def _definitions(folder, item):
    """What the file of an item defines; no query is run."""
    file = folder / f"item{item.suffix}"
    file.write_text(item.text)
    with importable({}):
        return Evaluation(folder, {"spark": None}, {"param": "7"}, Registry(folder)).evaluate([file])


def _found(definitions, name):
    if name == "notes":
        return [text for _, text in definitions.notes]
    kind, _, rest = name.rpartition(":")
    several = {"flow": definitions.flows, "sink": definitions.sinks, "hook": definitions.hooks}
    return next(each for each in several.get(kind, definitions.datasets) if each.name == rest)


def _value(found, path):
    for part in path.split("."):
        found = getattr(found, part)
    if callable(found):
        found = found()
    return [(each.name, each.condition, each.action) for each in found] if path == "expectations" else found


@pytest.mark.parametrize("item", DEFINED, ids=[each.name for each in DEFINED])
def test_it_is_defined(tmp_path, item):
    definitions = _definitions(tmp_path, item)
    for name, values in item.want.items():
        found = _found(definitions, name)
        if name == "notes":
            assert found == values
        else:
            assert {path: _value(found, path) for path in values} == values


@pytest.mark.parametrize("item", REFUSED, ids=[each.name for each in REFUSED])
def test_it_is_refused_by_name_and_line(tmp_path, item):
    with pytest.raises(RivermouthError) as refused:
        _definitions(tmp_path, item)
    assert str(refused.value) == item.want


# What most pipelines have is run with each commit.
RUN_CASES = [pytest.param(each, id=each.name, marks=[] if each.tier == "A" else [pytest.mark.long]) for each in RUN]


@pytest.fixture(scope="module")
def ran(request, tmp_path_factory, spark):
    """The pipeline of all items that are run in this session, run once. The first one makes the table of the others."""
    folder = tmp_path_factory.mktemp("items")
    mine = (each for each in request.session.items if each.path == request.path and "ran" in each.fixturenames)
    asked = [each.callspec.params["item"] for each in mine]
    for number, item in enumerate(each for each in RUN if each is FIRST or each in asked):
        for name, text in {f"code/{number:03}{item.suffix}": item.text, **item.files}.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_text(text)
    (folder / "pipeline.yml").write_text(
        "name: items\ncatalog: main\nschema: items\nlibraries: [{glob: {include: code/**}}]\n"
    )
    given = {"topics": TOPICS, "files": {BASE: ROWS}, "params": PARAMS, "environ": ENVIRON}
    return run_pipeline(folder, spark=spark, check=False, **given)


@pytest.mark.parametrize("item", RUN_CASES)
def test_it_runs(ran, item):
    for table, (columns, rows) in item.want.items():
        outcome = ran.outcome(table)
        assert (outcome.error and str(outcome.error), outcome.result) == (None, "completed")
        assert rows_of(ran, table, columns) == sorted(rows, key=repr)


def rows_of(ran, table, columns):
    """Read without Spark, which takes a job or more for each table."""
    names = columns if columns == "*" else ", ".join(f'"{name}"' for name in columns.split(", "))
    found = DeltaTable(ran._pipeline.table(ran._resolved(table)))
    read = QueryBuilder().register("t", found).execute(f"SELECT {names} FROM t").read_all()
    return sorted(
        zip(*(column.to_pylist() for column in map(read.column, range(read.num_columns))), strict=True), key=repr
    )


class _NoSecrets:
    def secret(self, scope, key):
        return f"{scope}/{key}"


@pytest.mark.parametrize("item", FUNCTIONS, ids=[each.name for each in FUNCTIONS])
def test_a_source_that_spark_does_not_have_is_refused_by_name_and_line(item):
    [call] = functions(item.text)
    with pytest.raises(RivermouthError) as refused:
        _called(call, _NoSecrets())
    assert str(refused.value).startswith(item.want)
    assert "  at: <sql>:1:" in str(refused.value)


@pytest.mark.parametrize("item", KINESIS, ids=[each.name for each in KINESIS])
def test_its_options_are_read(item):
    [call] = functions(item.text)
    assert call.is_streaming
    assert read_options(call.options(_NoSecrets().secret)) == item.want


def test_each_item_is_there_once():
    names = [each.name for each in ITEMS]
    assert [name for name in names if names.count(name) > 1] == []


def test_the_page_names_functions_of_this_module_and_every_item():
    page = (Path(__file__).parents[2] / "docs/reference/pipelines-compatibility.md").read_text()
    named = set(re.findall(r"\| `(test_\w+)` \|", page))
    assert named == {name for name in named if callable(globals().get(name))} != set()
    missing = [each.name for each in ITEMS if f"| {each.name} | {each.verdict} |" not in page.replace("\\|", "|")]
    assert missing == []
