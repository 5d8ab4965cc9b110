"""The demonstration: what it sends, what it leaves, and that every line which it prints can be pasted."""

from __future__ import annotations

import contextlib
import io
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, QueryBuilder
from tests.offline import offline

from rivermouth.cli.demo import commands
from rivermouth.cli.main import invoke
from rivermouth.errors import DemoFolderTaken
from rivermouth.ports.dev.broker import Broker
from rivermouth.ports.kafka.kafka_produce import produce
from rivermouth.project.api import Project
from rivermouth.project.commands.demo import Demo, demo, github_records, port_of, zeek_records

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "src/rivermouth"
BOUND_S = 280


JOB = """
import sys
import rivermouth
from rivermouth.spec import ProjectSpec

flow = {{"topics": "{topic}", "format": "text", "table": "bronze.lines"}}
spec = ProjectSpec(lake="./lake", kafka={{"bootstrap_servers": "{servers}"}}, flows={{"lines": flow}})
[outcome] = rivermouth.Project.from_spec(spec).run()
print("written", outcome.counts.written, "by", sys.prefix)
"""


def judged(records, expected):
    """Where the records belong, by Python's own json: (in all, written, dropped, dead letters)."""
    found = Counter()
    for _key, value, _headers in records:
        try:
            found[expected(json.loads(value.decode()))] += 1
        except ValueError:
            found["dead_letter"] += 1
    return sum(found.values()), found["table"], found["dropped"], found["dead_letter"]


def dns(record):
    if not isinstance(record, dict) or (record["_path"] == "dns" and record["id.orig_p"] <= 1023):
        return "dead_letter"
    return "table" if record["_path"] == "dns" else "dropped"


def github(record):
    if not isinstance(record, dict) or (record["type"] == "PushEvent" and record["payload"]["size"] == 0):
        return "dead_letter"
    return "dropped" if record["actor"]["login"].endswith("[bot]") else "table"


def run(command, folder):
    environ = {name: value for name, value in os.environ.items() if name not in {"PYTHONWARNINGS", "PYSPARK_PYTHON"}}
    return subprocess.run(
        ["bash", "-c", command], cwd=folder, env=environ, capture_output=True, text=True, timeout=BOUND_S, check=False
    )


def uv(*arguments):
    command = [shutil.which("uv") or str(ROOT / ".tools/bin/uv"), "--quiet", *arguments]
    subprocess.run(command, cwd=ROOT, check=True, timeout=BOUND_S)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory):
    folder = tmp_path_factory.mktemp("wheel")
    uv("build", "--wheel", "--out-dir", folder, ROOT)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def installed(tmp_path_factory, wheel):
    """The command, from a wheel in a virtual environment that had nothing else."""
    folder = tmp_path_factory.mktemp("installed")
    locked, place = folder / "locked.txt", folder / "venv"
    for step in (
        ["export", "--locked", "--no-emit-project", "--all-extras", "--no-hashes", "--output-file", locked],
        ["venv", "--python", sys.executable, place],
    ):
        uv(*step)
    uv("pip", "install", "--python", place, "--constraints", locked, f"{wheel}[demo]")
    return place / "bin" / "rivermouth"


@pytest.fixture(scope="module")
def shown(tmp_path_factory, installed):
    """(folder, what it said) of one demonstration, by the installed command, with the jars of a bundle alone."""
    folder, elsewhere = tmp_path_factory.mktemp("demo with a space"), tmp_path_factory.mktemp("elsewhere")
    bundle = elsewhere / "jars.tar"
    bundled = run(f"{installed} jars bundle {bundle}", elsewhere)
    assert bundled.returncode == 0, bundled.stderr
    there = f"{installed} jars unpack {bundle} >/dev/null && exec {installed} demo"
    cache = f"XDG_CACHE_HOME={elsewhere / 'cache'}"
    done = run(shlex.join(offline("env", cache, "bash", "-c", there)), folder)
    assert done.returncode == 0, done.stderr
    return folder, done


@pytest.fixture(scope="module")
def shown_here(tmp_path_factory, spark):
    """The same, in this process and its Spark session."""
    folder, out, err = tmp_path_factory.mktemp("demo with a space"), io.StringIO(), io.StringIO()
    with contextlib.chdir(folder), contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = invoke(["demo"])
    assert code == 0, err.getvalue()
    return folder, subprocess.CompletedProcess(["demo"], code, out.getvalue(), err.getvalue())


@pytest.fixture(params=["shown_here", pytest.param("shown", marks=pytest.mark.long)])
def either(request):
    return request.getfixturevalue(request.param)


def pasted(text, title):
    """The line under ``title``."""
    lines = text.splitlines()
    return lines[next(index for index, line in enumerate(lines) if line.startswith(title)) + 1].strip()


def rows(place, sql):
    return pa.table(QueryBuilder().register("t", DeltaTable(str(place))).execute(sql).read_all()).to_pylist()


def test_the_wheel_holds_the_whole_package(wheel):
    files = [path for path in PACKAGE.rglob("*") if path.is_file() and "__pycache__" not in path.parts]
    with zipfile.ZipFile(wheel) as found:
        held = {name: found.read(name) for name in found.namelist() if name.startswith("rivermouth/")}
    assert held == {str(path.relative_to(PACKAGE.parent)): path.read_bytes() for path in files}


@pytest.mark.long
def test_a_wheel_of_a_clone_has_the_jar_that_its_java_sources_give(tmp_path):
    clone = tmp_path / "clone"
    for name in ("src", "tools"):
        shutil.copytree(ROOT / name, clone / name, ignore=shutil.ignore_patterns("rivermouth.jar", "__pycache__"))
    for name in ("pyproject.toml", "LICENSE"):
        shutil.copy(ROOT / name, clone / name)
    uv("build", "--wheel", "--out-dir", tmp_path, clone)
    [wheel] = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as found:
        assert found.read("rivermouth/ports/rivermouth.jar") == (PACKAGE / "ports/rivermouth.jar").read_bytes()


def test_every_record_is_where_an_oracle_says(either):
    folder, done = either
    zeek, events = list(zeek_records()), list(github_records())
    table = {
        line.split()[0]: line.split()[1:5] for line in done.stdout.splitlines() if re.match(r"[a-z_]+ +[\d,]+ ", line)
    }
    assert table == {
        "zeek_raw": [f"{number:,}" for number in (len(zeek), len(zeek), 0, 0)],
        "zeek_dns": [f"{number:,}" for number in judged(zeek, dns)],
        "github_events": [f"{number:,}" for number in judged(events, github)],
    }
    assert re.match(rf"Sent {len(zeek):,} to zeek and {len(events):,} to github; ", done.stdout)
    lake = folder / "rivermouth-demo" / "lake"
    assert rows(lake / "bronze/zeek", "SELECT count(DISTINCT value) n FROM t") == [
        {"n": len({value for _key, value, _headers in zeek})}
    ]
    found = rows(lake / "silver/dns", "SELECT count(*) n, min(ts) AS first, count(rcode_name) AS answered FROM t")
    kept = [json.loads(value) for _key, value, _ in zeek if b'"_path":"dns"' in value]
    kept = [record for record in kept if dns(record) == "table"]
    assert (found[0]["n"], found[0]["answered"]) == (len(kept), sum("rcode_name" in record for record in kept))
    assert found[0]["first"].strftime("%Y-%m-%dT%H:%M:%S.%fZ") == min(record["ts"] for record in kept)
    failed = [record for record in kept if record.get("rcode_name", "NOERROR") != "NOERROR"]
    named = [record["query"] for record in failed if record.get("query") is not None]
    names = Counter(record.get("query") for record in kept)
    updates = {line.split()[0]: line.split()[1:6] for line in done.stdout.splitlines() if line.startswith("gold.")}
    assert updates == {
        "gold.failed_lookups": [
            "completed",
            *(f"{number:,}" for number in (len(failed), len(named), len(failed) - len(named), 0)),
        ],
        "gold.names": ["completed", f"{len(names):,}", f"{len(names):,}", "0", "0"],
    }
    table = rows(lake / "gold/names", "SELECT query, lookups FROM t")
    assert {row["query"]: row["lookups"] for row in table} == names
    table = rows(lake / "gold/failed_lookups", "SELECT query FROM t")
    assert Counter(row["query"] for row in table) == Counter(named)


def test_it_says_what_it_does_and_nothing_else(either, request):
    _folder, done = either
    told = [re.sub(r"[\d.,]+ rows/s|[\d.]+ s$", "~", line) for line in done.stderr.splitlines()]
    steps = ["starting a Kafka broker …", "sending records to topic zeek …", "sending records to topic github …"]
    if request.node.callspec.params["either"] == "shown":
        steps.append("starting Spark …")
    assert told[: len(steps)] == steps
    flows = told[len(steps) :]
    begin = next(index for index, line in enumerate(flows) if line.startswith(("starting Spark", "gold.")))
    kinds = "new table|batch 1: |done, 1 batch"
    assert begin
    assert all(re.match(f"(zeek_raw|zeek_dns|github_events): ({kinds})", line) for line in flows[:begin])
    updates = flows[begin:]
    assert updates[0] == "starting Spark …" or request.node.callspec.params["either"] == "shown_here"
    said = (
        r"gold\.failed_lookups: [\d,]+ rows written.*|gold\.names: ([\d,]+ rows written.*|refresh full: it was not .+)"
    )
    assert all(re.fullmatch(said, line) for line in updates if line != "starting Spark …")


@pytest.mark.long
def test_a_job_of_spark_submit_from_the_wheel(installed, broker, topic, tmp_path):
    name = topic()
    produce(broker.bootstrap_servers, {}, name, [b"one", b"two"])
    (tmp_path / "job.py").write_text(JOB.format(topic=name, servers=broker.bootstrap_servers))
    submit = "spark-submit --master 'local[2]' --jars \"$(rivermouth jars paths)\" job.py"
    done = run(f". {installed.with_name('activate')} && {submit}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].split() == ["written", "2", "by", str(installed.parents[1])]
    assert sorted(row["value"] for row in rows(tmp_path / "lake/bronze/lines", "SELECT value FROM t")) == ["one", "two"]


@pytest.mark.long
def test_the_line_with_spark(shown):
    folder, done = shown
    out = run(pasted(done.stdout, "Look at a table with Spark:"), folder)
    assert (out.returncode, out.stderr) == (0, "")
    assert re.search(r"\| +query\|count\|\n.+\n\| +ise\.wrccdc\.org\| *\d+\|", out.stdout)


@pytest.mark.long
def test_the_line_with_duckdb(either):
    folder, done = either
    out = run(pasted(done.stdout, "Look at it with duckdb:"), folder)
    assert (out.returncode, out.stderr) == (0, "")
    assert re.search(r"│ ise\.wrccdc\.org +│ +\d+ │", out.stdout)


@pytest.mark.long
def test_run_again_with_the_broker_that_it_left(shown, spark, monkeypatch, capsys):
    folder, done = shown
    command = pasted(done.stdout, "Run it again: its broker")
    found = re.fullmatch(r".+ dev kafka --port (\d+) --data-dir (\S+)", command)
    assert found, command
    with Broker.start(int(found[1]), folder / found[2]):
        again = run(pasted(done.stdout, "and then, after a change of"), folder)
        monkeypatch.chdir(folder)
        words = shlex.split(pasted(done.stdout, "See what did not fit"))
        assert invoke(words[words.index("dead-letters") :]) == 0
        letters = capsys.readouterr().out
    assert again.returncode == 0, again.stderr
    lines = [line.split() for line in again.stdout.splitlines()]
    assert [line[:2] for line in lines[1:4]] == [["zeek_raw", "0"], ["zeek_dns", "0"], ["github_events", "0"]]
    assert [line[:3] for line in lines if line and line[0].startswith("gold.")] == [
        ["gold.failed_lookups", "completed", "0"],
        ["gold.names", "completed", "0"],
    ]
    _head, *kinds = [re.split(r"\s{2,}", line)[:6] for line in letters.splitlines()]
    documents = {kind[0]: 0 for kind in kinds}
    for flow, _status, stage, _reason, _about, number in kinds:
        documents[flow] += int(number) if stage == "decode" else 0
    assert documents == {"zeek_dns": 12, "github_events": 3}
    assert any(flow == "zeek_dns" and "sane_port" in about for flow, _, _, _, about, _ in kinds)


def test_a_folder_with_something_else_is_left_alone(tmp_path):
    (tmp_path / "thesis.tex").write_text("mine")
    with pytest.raises(DemoFolderTaken) as failure:
        demo(tmp_path)
    assert str(failure.value) == (
        f"[DEMO_FOLDER_TAKEN] {tmp_path} holds something that is no demo; nothing was written\n"
        "  hint: rivermouth demo ANOTHER_FOLDER"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.tex"]


def test_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    done = run(f"{sys.executable} -m rivermouth demo file/demo", tmp_path)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        f"[LAKE_NOT_WRITABLE] cannot write into the lake {tmp_path}/file/demo: Not a directory; nothing was written\n"
        "  hint: check the owner and the free space of the folder, or set lake: to another one\n"
    )


def test_lines_for_a_shell_survive_any_folder(tmp_path):
    folder = tmp_path / "it's a demo"
    folder.mkdir()
    (folder / "rivermouth.yml").write_text(
        "lake: ./lake\nflows: {zeek_dns: {topics: [z], format: raw, table: silver.dns}}\n"
    )
    project = Project.load(folder / "rivermouth.yml")
    lines = commands(Demo(folder, project, "127.0.0.1:1234", {}, again=False, outcomes=[]))
    for line in lines.values():
        assert subprocess.run(["bash", "-nc", line], check=False).returncode == 0
    shown = subprocess.run(["bash", "-c", f"printf '%s\\n' {lines['run']}"], capture_output=True, text=True, check=True)
    assert shown.stdout.endswith(f"{folder}/rivermouth.yml\n")
    assert port_of(project) is None


@pytest.mark.long
def test_a_second_one_sends_again_and_goes_on(shown, spark, monkeypatch, capsys):
    folder, _done = shown
    monkeypatch.chdir(folder)
    assert invoke(["demo", "--output", "json"]) == 0
    *_, end = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert end["event"] == "demo_finished"
    zeek = judged(zeek_records(), dns)
    written = {flow["flow"]: flow["counts"]["written"] for flow in end["flows"]}
    assert (written["zeek_raw"], written["zeek_dns"]) == (zeek[0], zeek[1])
    assert rows(end["tables"]["zeek_dns"], "SELECT count(*) AS n FROM t") == [{"n": 2 * zeek[1]}]
