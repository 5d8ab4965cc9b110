"""Ways in which people break a project file: each message is checked in whole, as in ``tests/data/projects``."""

from __future__ import annotations

import pickle
from pathlib import Path

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from rivermouth.errors import ProjectInvalid, ProjectNotFound, ProjectProblems, RivermouthError
from rivermouth.project.api import Project
from rivermouth.project.file import yaml_source
from rivermouth.project.file.validation import validate_document
from rivermouth.project.resolved.static_checks import validate_static

DATA = Path(__file__).parents[1] / "data" / "projects"
STARTER = (Path(__file__).parents[2] / "src" / "rivermouth" / "project" / "starter.yml").read_text(encoding="utf-8")
KEYS = [
    *("name", "lake", "kafka", "options", "spark", "conf", "places", "flows", "topics", "assign", "format", "type"),
    *("schema", "table", "sink", "trigger", "every", "expectations", "action", "starting_offsets", "group", "orders"),
    *("metadata_columns", "partition_by", "kind", "offsets", "evolution", "<<"),
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.sampled_from([*KEYS, "raw", "json", "append", "1 s", "a.b"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS) | st.integers(0, 2), inner, max_size=4)
    ),
    max_leaves=12,
)
ENVIRON = {"SET": "1", "BLANK": ""}


def cases(name: str) -> list:
    text = (DATA / name).read_text(encoding="utf-8")
    parts = [part.partition("\n") for part in text.split("=== ")[1:]]
    return [pytest.param(*body.split("--- is told\n"), id=title) for title, _, body in parts]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize(("text", "told"), cases("broken.txt"))
def test_a_broken_file_is_told_in_whole(folder, text, told):
    (folder / "rivermouth.yml").write_text(text, encoding="utf-8")

    with pytest.raises(RivermouthError) as caught:
        Project.load("rivermouth.yml", ENVIRON)

    assert f"{caught.value}\n" == told


@pytest.mark.parametrize(("text", "told"), cases("refused.txt"))
def test_a_file_that_cannot_be_run_is_told_in_whole(folder, text, told):
    (folder / "rivermouth.yml").write_text(text, encoding="utf-8")
    project = Project.load("rivermouth.yml", ENVIRON)

    with pytest.raises(RivermouthError) as caught:
        validate_static(project)

    assert f"{caught.value}\n" == told.replace("<folder>", str(folder))


@pytest.mark.parametrize(
    ("data", "told"),
    [
        pytest.param(
            b"lake: ./lake\nname: caf\xe9\n",
            "[PROJECT_INVALID] the file is no UTF-8; nothing was run\n  at: rivermouth.yml:2\n  hint: save it as UTF-8",
            id="latin-1",
        ),
        pytest.param(
            "lake: ./lake\n".encode("utf-16"),
            "[PROJECT_INVALID] the file is no UTF-8; nothing was run\n  at: rivermouth.yml:1\n  hint: save it as UTF-8",
            id="utf-16",
        ),
        pytest.param(
            b"lake: ./lake\nname: a\x00b\n",
            "[PROJECT_INVALID] the file holds a character that YAML does not allow (U+0000); nothing was run\n"
            "  at: rivermouth.yml:2\n  hint: save it as plain UTF-8 text",
            id="a null byte",
        ),
        pytest.param(
            b"#" * ((1 << 20) + 1),
            "[PROJECT_INVALID] rivermouth.yml is larger than 1 MiB; nothing was run\n"
            "  hint: name the project file, not one with data",
            id="too large",
        ),
    ],
)
def test_a_file_that_is_no_text_is_told_in_whole(folder, data, told):
    (folder / "rivermouth.yml").write_bytes(data)

    with pytest.raises(ProjectInvalid) as caught:
        Project.load("rivermouth.yml", ENVIRON)

    assert str(caught.value) == told


def test_no_file_is_told_in_whole(folder):
    with pytest.raises(ProjectNotFound) as caught:
        Project.load("nowhere.yml")

    assert str(caught.value) == (
        "[PROJECT_NOT_FOUND] no project file at nowhere.yml; nothing was read\n  hint: rivermouth init"
    )


def test_a_folder_is_told_in_whole(folder):
    (folder / "shop").mkdir()

    with pytest.raises(ProjectInvalid) as caught:
        Project.load("shop")

    assert str(caught.value) == (
        "[PROJECT_INVALID] shop is a folder; nothing was run\n  hint: name the file in it: shop/rivermouth.yml"
    )


def test_a_path_that_cannot_be_opened_is_told_in_whole(folder):
    name = "x" * 300

    with pytest.raises(ProjectInvalid) as caught:
        Project.load(name)

    assert str(caught.value) == (
        f"[PROJECT_INVALID] {name} cannot be read: File name too long; nothing was run\n"
        "  hint: check the path and its access rights"
    )


def test_no_message_quotes_what_may_be_a_secret():
    hidden = [case for case in cases("broken.txt") if "password" in case.id or "option" in case.id]

    assert len(hidden) >= 3
    for case in hidden:
        told = case.values[1].replace("ssl.key.password", "")
        assert "secret" not in told
        assert "0123" not in told


def test_several_problems_are_one_error_that_keeps_each(folder):
    (folder / "rivermouth.yml").write_text("lake: [a]\nkafak: {}\n", encoding="utf-8")

    with pytest.raises(ProjectProblems) as caught:
        Project.load("rivermouth.yml", ENVIRON)

    again = pickle.loads(pickle.dumps(caught.value))
    assert str(again) == str(caught.value)
    assert [problem.code for problem in again.facts["problems"]] == ["PROJECT_INVALID", "UNKNOWN_KEY"]
    assert [problem.at for problem in again.facts["problems"]] == ["rivermouth.yml:1", "rivermouth.yml:2"]


def judged(text: str) -> list[str]:
    """All that is told of a file; nothing but our own errors may come out of it."""
    try:
        spec, problems = validate_document(yaml_source.read(text, "rivermouth.yml"), "rivermouth.yml")
    except RivermouthError as error:
        return [str(error)]
    assert (spec is None) is bool(problems)
    return [str(problem) for problem in problems]


# Where, how much of the file is cut out, and what is typed there.
SLIPS = (
    st.integers(0, len(STARTER)),
    st.integers(0, 3),
    st.text("\t\n \"'#&*,-:<>?@[]`{|}!%0aé\\\ufeff\x7f", max_size=3),
)


@settings(max_examples=25)
@given(*SLIPS)
def test_law_some_slips_are_told_with_a_line_of_the_file(position, cut, typed):
    is_told_with_a_line(position, cut, typed)


@pytest.mark.long
@given(*SLIPS)
def test_law_a_slip_anywhere_is_told_with_a_line_of_the_file(position, cut, typed):
    is_told_with_a_line(position, cut, typed)


def is_told_with_a_line(position, cut, typed):
    text = STARTER[:position] + typed + STARTER[position + cut :]

    for told in judged(text):
        line = int(told.split("at: rivermouth.yml:")[1].split("\n")[0])
        assert 1 <= line <= text.count("\n") + 2
        assert "hint: " in told


@given(st.dictionaries(st.sampled_from(KEYS), VALUES, max_size=4), st.booleans())
def test_law_whatever_stands_in_a_file_is_judged(value, in_a_flow):
    flow = {"topics": ["a"], "format": "raw", "table": "x.a", **value}
    text = yaml.safe_dump({"lake": "x", "flows": {"a": flow}} if in_a_flow else value)

    for told in judged(text):
        assert told.startswith("[")
        assert "  at: rivermouth.yml:" in told
        assert "  hint: " in told
