"""Every code block of the documentation does what the page says."""

from __future__ import annotations

import configparser
import json
import os
import re
import shlex
import signal
import subprocess
import sys
import threading
import time
import tomllib
from contextlib import ExitStack
from pathlib import Path
from typing import Self

import kubernetes_validate
import pytest
import yaml
from confluent_kafka.admin import AdminClient
from tests.databases import postgres
from tests.docs.blocks import ROOT, Block, blocks, output_pattern, pages_with_blocks
from tests.kinesis.server import kinesis

from rivermouth.pipelines.settings.find import SPEC_FILES, find_pipelines
from rivermouth.project.api import Project
from rivermouth.project.resolved.static_checks import validate_static
from rivermouth.spec import Flow, ProjectSpec

PAGES = pages_with_blocks()
HOW_TO = [path for path in PAGES if path.parent.name == "how-to"]
WITHOUT_SPARK = {"mirror-and-offline.md"}
COMMAND_TIMEOUT_S = 240
_SENT_TO = re.compile(r'rivermouth dev produce ([\w.-]+)|NewTopic\("([\w.-]+)"')
KUBERNETES = "1.34"
_OF_A_CONTAINER = "livenessProbe"
_POD = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}}
DOCKER_WORDS = {"FROM", "COPY", "RUN", "USER", "ENV", "WORKDIR", "ENTRYPOINT", "CMD"}

FLOW_DEFAULTS = {"topics": ["orders"], "format": "raw", "table": "bronze.orders"}
ENVIRON = {"KAFKA": "localhost:9092", "KAFKA_USER": "u", "KAFKA_PASSWORD": "p", "BUCKET": "b", "STAGE": "test"}
ENVIRON |= {"POD_IP": "10.0.0.7", "POD_NAME": "p", "POD_NAMESPACE": "default"}
ENVIRON |= {"CLIENT_ID": "u", "CLIENT_SECRET": "p", "REGISTRY_USER": "u", "REGISTRY_PASSWORD": "p"}


def runs_commands(path: Path) -> bool:
    return any(block.language in {"bash", "python"} and "skip" not in block.mark for block in blocks(path))


def page_parameter(path: Path):
    # Most commands are processes with a Spark of their own. In the short run the pages without one stand for all.
    is_long = runs_commands(path) and path.name not in {"README.md", *WITHOUT_SPARK}
    return pytest.param(path, id=str(path.relative_to(ROOT)), marks=pytest.mark.long if is_long else ())


@pytest.mark.timeout(900)
@pytest.mark.parametrize("path", [page_parameter(path) for path in PAGES])
def test_page(path, tmp_path, request):
    servers = request.getfixturevalue("broker").bootstrap_servers if runs_commands(path) else ""
    with ExitStack() as running:
        database = {}
        if any("psql" in block.text for block in blocks(path)):
            database = running.enter_context(postgres()).environ
        if any("boto3" in block.text for block in blocks(path) if "skip" not in block.mark):
            streams = running.enter_context(kinesis(tmp_path))
            streams.create("clicks")
            database = streams.environ
        page = running.enter_context(_Page(tmp_path, servers, database))
        for block in blocks(path):
            if "skip" not in block.mark:
                page.do(block)


class _Page:
    """A page at work: one folder, one environment, and what it left running."""

    def __init__(self, folder: Path, servers: str, environ: dict[str, str]) -> None:
        self._folder = folder
        self._servers = servers
        self._running: list[_Running] = []
        self._environ = {
            **os.environ,
            **environ,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
            "KAFKA": servers,
            "COLUMNS": "110",
            "NO_COLOR": "1",
            "TERM": "dumb",
        }

    def __enter__(self) -> Self:
        self._topics = self._topic_names()
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        for running in self._running:
            running.stop(check=kind is None)
        new = self._topic_names() - self._topics
        if new:
            admin = self._admin()  # it must outlive the answers
            for done in admin.delete_topics(sorted(new)).values():
                done.result(30)

    def do(self, block: Block) -> None:
        if "file" in block.mark:
            (self._folder / block.mark["file"]).write_text(block.text)
        match block.language:
            case "bash":
                self._bash(block)
            case "python":
                self._python(block)
            case "yaml":
                self._yaml(block)
            case "json":
                json.loads(block.text)
            case "jsonl" | "sql":
                assert "file" in block.mark, f"{block.place}: lines for nobody"
            case "toml":
                tomllib.loads(block.text)
            case "ini":
                configparser.ConfigParser(strict=True).read_string(block.text)
            case "dockerfile":
                words = re.findall(r"^([A-Z]+) ", block.text, re.MULTILINE)
                assert len(words) == len(block.text.splitlines()), f"{block.place}: a line is no instruction"
                assert words[0] == "FROM"
                assert set(words) <= DOCKER_WORDS
                for command in re.findall(r"^RUN rivermouth (.+)$", block.text, re.MULTILINE):
                    self._command(block, ["rivermouth", *command.split()])
            case "text":
                assert block.text.strip(), f"{block.place}: empty"
            case other:
                pytest.fail(f"{block.place}: no rule says how to test a block of language {other!r}")

    def _bash(self, block: Block) -> None:
        after = block.mark.get("stop after") or block.mark.get("background after")
        if after is None:
            self._command(block, ["bash", "-euo", "pipefail", "-c", block.text])
            return
        running = _Running(block, shlex.split(block.text, comments=True), self._folder, self._environ)
        self._running.append(running)
        running.wait_for(after)
        if "stop after" in block.mark:
            self._running.remove(running)
            running.stop(check=True)

    def _python(self, block: Block) -> None:
        if "file" in block.mark:
            compile(block.text, block.place, "exec")  # a command of the page runs it
        else:
            self._command(block, [sys.executable, "-c", block.text])

    def _command(self, block: Block, command: list[str]) -> None:
        done = subprocess.run(
            command,
            cwd=self._folder,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=COMMAND_TIMEOUT_S,
            check=False,
        )
        wanted = int(block.mark.get("exit", 0))
        assert done.returncode == wanted, f"{block.place} ended with {done.returncode}:\n{block.text}\n{done.stdout}"
        if block.expected is not None:
            shown = done.stdout.strip("\n") + "\n"
            fits = output_pattern(block.expected).fullmatch(shown) is not None
            assert fits, f"{block.place} printed:\n{shown}\nthe page says:\n{block.expected}"

    def _yaml(self, block: Block) -> None:
        name = block.mark.get("file", "rivermouth.yml")
        path = self._folder / name if "file" in block.mark else self._folder / "block.yml"
        if name.endswith(".k8s.yaml") or block.text.startswith(_OF_A_CONTAINER):
            _check_kubernetes(block, path.with_suffix(".yml"))
            return
        if name in SPEC_FILES:
            assert find_pipelines(path), f"{block.place}: no pipeline"
        elif name.endswith(".yml"):
            if "file" not in block.mark:
                path.write_text(_whole_project(block))
            validate_static(Project.load(path, {**os.environ, **ENVIRON}))

    def _topic_names(self) -> set[str]:
        return set(self._admin().list_topics(timeout=10).topics) if self._servers else set()

    def _admin(self) -> AdminClient:
        return AdminClient({"bootstrap.servers": self._servers})


class _Running:
    """A command that does not end by itself."""

    def __init__(self, block: Block, command: list[str], folder: Path, environ: dict[str, str]) -> None:
        self._block = block
        self._lines: list[str] = []
        self._process = subprocess.Popen(
            command, cwd=folder, env=environ, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def wait_for(self, text: str) -> None:
        deadline = time.monotonic() + COMMAND_TIMEOUT_S
        while not any(text in line for line in list(self._lines)):
            if self._process.poll() is not None or time.monotonic() > deadline:
                self.stop(check=False)
                pytest.fail(f"{self._block.place}: {text!r} was not printed:\n{''.join(self._lines)}")
            time.sleep(0.1)

    def stop(self, *, check: bool) -> None:
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        try:
            code = self._process.wait(90)
        except subprocess.TimeoutExpired:
            self._process.kill()
            code = self._process.wait(10)
        self._reader.join(10)
        self._process.stdout.close()
        if check:
            assert code == int(self._block.mark.get("exit", 0)), (
                f"{self._block.place} ended with {code}:\n{''.join(self._lines)}"
            )

    def _read(self) -> None:
        for line in self._process.stdout:
            self._lines.append(line)


def _check_kubernetes(block: Block, place: Path) -> None:
    """Nothing, if the parts of a file for Kubernetes fit their schema, and the projects in it can be read."""
    whole = list(yaml.safe_load_all(block.text))
    if "kind" not in whole[0]:
        whole = [{**_POD, "spec": {"containers": [{"name": "p", "image": "p", **whole[0]}]}}]
    for each in whole:
        kubernetes_validate.validate(each, KUBERNETES, strict=True)
        for text in each.get("data", {}).values():
            # Files with secrets are in the pod only.
            place.write_text(re.sub(r"\$\{file:[^}]*\}", "p", text))
            validate_static(Project.load(place, {**os.environ, **ENVIRON}))


def _whole_project(block: Block) -> str:
    """A block of YAML as a project: keys of a flow, or of a project without what the page need not repeat."""
    body = yaml.safe_load(block.text)
    assert isinstance(body, dict), f"{block.place}: no mapping"
    if set(body) <= set(ProjectSpec.model_fields):
        whole = {"lake": "./lake", "flows": {"orders": FLOW_DEFAULTS}, **body}
        whole["flows"] = {name: FLOW_DEFAULTS | _without_topics(flow) for name, flow in whole["flows"].items()}
    else:
        unknown = set(body) - set(Flow.model_fields)
        assert not unknown, f"{block.place}: {sorted(unknown)} are keys neither of a project nor of a flow"
        registry = {"url": "https://registry.example:8081"}
        flow = FLOW_DEFAULTS | _without_topics(body)
        whole = {"lake": "./lake", "schema_registry": registry, "flows": {"orders": flow}}
    return yaml.safe_dump(whole, sort_keys=False)


def _without_topics(flow: dict) -> dict:
    """The flow; with ``topics`` taken out of the defaults where it names its source otherwise."""
    if {"topic_pattern", "assign", "source"} & set(flow):
        return {"topics": [], **flow}
    return flow


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_not_run_says_why(path):
    for block in blocks(path):
        reason = block.mark.get("skip", "because of something")
        assert re.search(r"\w+ \w+", reason), f"{block.place}: skip needs a reason"
        assert block.language, f"{block.place}: a block without a language"


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_a_reader_can_follow_each_step(path):
    for block in blocks(path):
        name = block.mark.get("file", "")
        first_line = block.text.partition("\n")[0]
        assert name in first_line or f"`{name}`" in block.prose, f"{block.place}: the page does not say {name!r}"
        # A reader need not set the variable: the broker's usual address is the default.
        needs = re.search(r'"\$KAFKA"|environ\["KAFKA"\]', "" if "skip" in block.mark else block.text)
        assert needs is None, f"{block.place}: fails without the variable KAFKA"


def test_a_page_that_sends_records_says_where_to():
    pages = [path for path in HOW_TO if any(_SENT_TO.search(block.text) for block in blocks(path))]
    assert len(pages) > 25
    without = [path for path in pages if "](../tutorial.md#1-a-broker)" not in path.read_text("utf-8")]
    # It starts one of its own.
    assert [path.name for path in without] == ["secured-kafka.md"]


def test_no_page_sends_records_to_a_topic_of_another_page():
    pages: dict[str, set[str]] = {}
    for path in PAGES:
        for block in blocks(path):
            for topic in () if "skip" in block.mark else _SENT_TO.findall(block.text):
                pages.setdefault("".join(topic), set()).add(path.name)
    assert len(pages) > 30
    assert {topic: names for topic, names in pages.items() if len(names) > 1} == {}


@pytest.mark.parametrize("path", PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_what_is_not_run_can_be_read(path, tmp_path):
    for block in blocks(path):
        if block.mark.get("file", "").endswith(".k8s.yaml"):
            _check_kubernetes(block, tmp_path / "rivermouth.yml")
        elif "skip" in block.mark and block.language == "bash":
            done = subprocess.run(["bash", "-n"], input=block.text, stderr=subprocess.PIPE, text=True, check=False)
            assert done.returncode == 0, f"{block.place}: {done.stderr}"
        elif "skip" in block.mark and block.language == "python":
            compile(block.text, block.place, "exec")


@pytest.mark.parametrize(
    ("expected", "printed", "fits"),
    [
        ("a\nb\n", "a\nb\n", True),
        ("a\n", "a\nb\n", False),
        ("took ... s\n", "took 3.4 s\n", True),
        ("took ... s\n", "took 3.4 min\n", False),
        ("a\n...\nd\n", "a\nb\nc\nd\n", True),
        ("a\n...\nd\n", "a\nd\n", True),
        ("...\nd\n", "a\nb\n", False),
        ("1.2 (x)\n", "1a2 (x)\n", False),
    ],
)
def test_output_pattern(expected, printed, fits):
    assert bool(output_pattern(expected).fullmatch(printed)) is fits
