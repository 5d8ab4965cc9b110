"""Ways in which people break a project file: each message is checked in whole, as in ``tests/data/projects``."""

from __future__ import annotations

import itertools
import json
import pickle
import re
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


# Where secrets are, with ``@`` in the place of a key and its value, and the keys.
PLACES_OF_SECRETS = {
    "kafka: {@}": ("password", "pasword", "pwd", "username", "sasl.jaas.config"),
    "kafka: {options: {@}}": ("ssl.key.password", "client.id"),
    "kafka:\n  options:\n    @\n": ("ssl.key.password",),
    "kafka: {sasl: {@}}": ("token",),
    "schema_registry: {url: 'http://r', @}": ("password", "basic.auth.user.info"),
    "spark: {conf: {@}}": ("spark.hadoop.fs.s3a.secret.key",),
    "spark:\n  conf:\n    @\n": ("spark.my.option",),
    "pipelines: {p: {files: [a.py], configuration: {@}}}": ("greeting",),
    "pipelines:\n  p:\n    files: [a.py]\n    profiles:\n      dev:\n        configuration:\n          @\n": (
        "api_key",
    ),
    "flows: {o: {topics: [o], table: s.o, format: {type: jvm, class: A, schema: id int, config: {@}}}}": ("url",),
    "flows: {o: {topics: [o], format: raw, table: {name: s.o, properties: {@}}}}": ("note",),
    "flows: {o: {topics: [o], format: raw, table: s.o, sink: {type: kafka, topic: t, options: {@}}}}": ("acks",),
}
# Ways in which people write them that are none: the digits are the secret.
SLIPS_OF_SECRETS = [
    *("48151623", "04815162", "0o4815162", "4_8:15:16", "4.8151623", "[x48151623]", "[04815162]", "[x, 'x48151623']"),
    *("{x48151623}", "{x48151623: 1, x48151623: 2}", "{04815162: 1}", "{4.8151623: 1}", "{a: {04815162: 04815162}}"),
    *("!x48151623!y z", "!x48151623 z", "*x48151623", "&x48151623 {a: b}", "'x48151623", '"x48151623', "'a' x48151623"),
    *('"\\x48151623"', "x48151623: x: y", "@x48151623", "`x48151623", "%x48151623", "|x48151623", "x48151623]"),
    *(
        "!<x48151623 y",
        "[x48151623",
        "{x48151623",
        "${x48151623",
        "${x 48151623}",
        "? x48151623",
        "- x48151623",
        "{<<: x48151623}",
    ),
]
SLIPS = [
    *((": ", each) for each in SLIPS_OF_SECRETS),
    *itertools.product((":", "=", " ", ": ? "), ("x48151623", "04815162", "[x48151623]")),
]


def test_no_message_quotes_what_may_be_a_secret():
    told = []
    for place, keys in PLACES_OF_SECRETS.items():
        for key, (between, written) in itertools.product(keys, SLIPS):
            text = place.replace("@", f"{key}{between}{written}")
            told += [(text, each) for each in (*judged(text), *judged_as_texts(text))]

    assert [(text, each) for text, each in told if re.search("4.?8.?15.?16|815162", each)] == []
    assert len({re.sub("rivermouth.yml:.", "", each) for _, each in told}) > 60


def judged_as_texts(text: str) -> list[str]:
    """What is told of a file of a bundle."""
    try:
        return [str(problem) for problem in yaml_source.read_texts(text, "rivermouth.yml").problems]
    except RivermouthError as error:
        return [str(error)]


# By path the text of a setting; ``$`` stands for a reference whose value nobody may see.
REFERENCES = {
    ("flows", "o", "table"): "a $",
    ("flows", "o", "format"): "$",
    ("flows", "o", "sink"): "$",
    ("flows", "o", "topics"): ["$"],
    ("flows", "o", "topic_pattern"): "($",
    ("flows", "o", "starting_offsets"): "$",
    ("flows", "o", "on_data_loss"): "$",
    ("flows", "o", "trigger", "every"): "$",
    ("flows", "o", "trigger", "max_offsets"): "$",
    ("flows", "o", "maintenance"): "$",
    ("flows", "o", "name"): "$",
    ("flows", "o", "expectations", 0, "action"): "$",
    ("flows", "o", "metadata_columns"): "$",
    ("kafka", "preset"): "$",
    ("kafka", "bootstrap_servers"): "$",
    ("schema_registry", "url"): "http://$",
    ("spark", "driver_memory"): "$",
    ("spark", "conf", "spark.driver.memory"): "$",
    ("catalog",): "$",
    ("catalog", "metastore"): "$",
    ("lake",): "file://$",
    ("places", "table"): "file://$",
    ("pipelines", "p", "name"): "$",
}


@pytest.mark.parametrize("path", REFERENCES, ids=lambda path: ".".join(map(str, path)))
def test_no_message_has_what_a_reference_stands_for(folder, path):
    flow = {"topics": ["o"], "format": "raw", "table": "s.o", "expectations": [{"name": "a", "condition": "true"}]}
    here = body = {"lake": "./lake", "flows": {"o": flow}, "pipelines": {"p": {"files": ["a.py"]}}}
    if path[-1] == "topic_pattern":
        del flow["topics"]
    for part in path[:-1]:
        here = here[part] if isinstance(here, list) else here.setdefault(part, {})
    here[path[-1]] = json.loads(json.dumps(REFERENCES[path]).replace("$", "${HUNTER}"))
    (folder / "rivermouth.yml").write_text(yaml.safe_dump(body))

    with pytest.raises(RivermouthError) as caught:
        validate_static(Project.load("rivermouth.yml", {"HUNTER": "x4815 162x'\\y"}))

    assert not re.search("4815|162", f"{caught.value}{caught.value.facts}")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("0", "flows.o.trigger.max_offsets: must be greater than 0"),
        ("a", "flows.o.trigger.max_offsets: expected a whole number, found text"),
    ],
)
def test_a_message_keeps_its_own_words_that_are_equal_to_the_value_of_a_reference(folder, value, told):
    flow = {"topics": ["o"], "format": "raw", "table": "s.o", "trigger": {"max_offsets": "${N}"}}
    (folder / "rivermouth.yml").write_text(yaml.safe_dump({"lake": "./lake", "flows": {"o": flow}}))

    with pytest.raises(RivermouthError) as caught:
        Project.load("rivermouth.yml", {"N": value})

    assert told in str(caught.value)


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
SLIPS_OF_THE_PEN = (
    st.integers(0, len(STARTER)),
    st.integers(0, 3),
    st.text("\t\n \"'#&*,-:<>?@[]`{|}!%0aé\\\ufeff\x7f", max_size=3),
)


@settings(max_examples=25)
@given(*SLIPS_OF_THE_PEN)
def test_law_some_slips_are_told_with_a_line_of_the_file(position, cut, typed):
    is_told_with_a_line(position, cut, typed)


@pytest.mark.long
@given(*SLIPS_OF_THE_PEN)
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
