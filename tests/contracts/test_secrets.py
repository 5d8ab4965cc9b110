"""What every provider of secrets promises: the text, or one clear error that does not hold it."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import keyring
import pytest
from keyring.backend import KeyringBackend
from keyring.errors import KeyringLocked

from rivermouth.errors import SecretMissing
from rivermouth.extend import find_kind, kind_names
from rivermouth.project.api import Project
from rivermouth.project.resolved.secrets import Environment
from rivermouth.spec import ProjectSpec


class Drawer(KeyringBackend):
    """A keyring of this process."""

    priority = 1

    def get_password(self, service, username):
        if service == "locked":
            raise KeyringLocked
        return {("kafka", "reader"): "hunter2"}.get((service, username))

    def set_password(self, service, username, password):
        raise NotImplementedError

    def delete_password(self, service, username):
        raise NotImplementedError


@pytest.fixture
def drawer():
    before = keyring.get_keyring()
    keyring.set_keyring(Drawer())
    yield
    keyring.set_keyring(before)


@pytest.fixture
def workspace(monkeypatch):
    """As a notebook on Databricks finds it."""

    class Scopes:
        def get(self, scope, key):
            return {("kafka", "password"): "hunter2"}[scope, key]

    runtime = types.ModuleType("databricks.sdk.runtime")
    runtime.dbutils = types.SimpleNamespace(secrets=Scopes())
    for name, module in {
        "databricks": types.ModuleType("databricks"),
        "databricks.sdk": types.ModuleType("databricks.sdk"),
        "databricks.sdk.runtime": runtime,
    }.items():
        monkeypatch.setitem(sys.modules, name, module)


def refusal(name):
    with pytest.raises(SecretMissing) as caught:
        Environment({}, Path.cwd())[name]
    return str(caught.value)


def test_each_provider_is_a_function_in_a_file_of_its_name():
    assert kind_names("secrets") == ["databricks", "file", "keyring"]
    assert all(callable(find_kind("secrets", name)) for name in kind_names("secrets"))


@pytest.mark.parametrize(
    ("content", "text"),
    [(b"hunter2", "hunter2"), (b"hunter2\n", "hunter2"), (b"hunter2\r\n", "hunter2"), (b" a\nb\n\n", " a\nb\n")],
)
def test_a_file(content, text, tmp_path):
    (tmp_path / "password").write_bytes(content)
    environ = Environment({}, Path.cwd())
    assert environ[f"file:{tmp_path}/password"] == text
    assert Environment({}, tmp_path)["file:password"] == text
    (tmp_path / "password").write_bytes(b"renewed")
    assert environ[f"file:{tmp_path}/password"] == "renewed"


def test_a_file_that_cannot_be_read(tmp_path):
    place = tmp_path / "password"
    assert refusal(f"file:{place}") == (
        f"[SECRET_MISSING] secret ${{file:{place}}}: No such file or directory; nothing was run\n  hint: ls -l {place}"
    )
    place.write_bytes(b"\xff hunter2")
    assert refusal(f"file:{place}") == (
        f"[SECRET_MISSING] secret ${{file:{place}}}: the file is no UTF-8 text; nothing was run\n  hint: ls -l {place}"
    )
    place.write_bytes(bytes((1 << 20) + 1))
    assert refusal(f"file:{place}") == (
        f"[SECRET_MISSING] secret ${{file:{place}}}: the file has more than 1048576 bytes; nothing was run\n"
        f"  hint: ls -l {place}"
    )


def test_a_keyring(drawer):
    assert Environment({}, Path.cwd())["keyring:kafka/reader"] == "hunter2"
    assert refusal("keyring:kafka/writer") == (
        "[SECRET_MISSING] secret ${keyring:kafka/writer}: the keyring has none; nothing was run\n"
        "  hint: keyring set kafka writer"
    )
    assert refusal("keyring:kafka") == (
        "[SECRET_MISSING] secret ${keyring:kafka}: it names no user; nothing was run\n"
        "  hint: write ${keyring:SERVICE/USER}"
    )
    assert refusal("keyring:locked/x") == (
        "[SECRET_MISSING] secret ${keyring:locked/x}: the keyring does not answer (KeyringLocked); nothing was run\n"
        "  hint: keyring diagnose"
    )


def test_without_the_package(monkeypatch):
    monkeypatch.setitem(sys.modules, "keyring", None)
    assert refusal("keyring:kafka/reader") == (
        "[SECRET_MISSING] secret ${keyring:kafka/reader}: the package keyring is not installed; nothing was run\n"
        "  hint: pip install keyring"
    )


def test_a_scope_of_databricks(workspace):
    assert Environment({}, Path.cwd())["databricks:kafka/password"] == "hunter2"
    assert refusal("databricks:kafka/user") == (
        "[SECRET_MISSING] secret {{secrets/kafka/user}}: Databricks refuses it (KeyError); nothing was run\n"
        "  hint: databricks secrets list-secrets kafka"
    )


def test_elsewhere_there_are_no_scopes():
    assert refusal("databricks:kafka/user") == (
        "[SECRET_MISSING] secret {{secrets/kafka/user}}: this does not run on Databricks; nothing was run\n"
        "  hint: write ${NAME} or ${file:PATH} where it runs elsewhere"
    )


def test_a_provider_that_nobody_brought():
    assert refusal("flie:/x") == (
        "[SECRET_MISSING] secret ${flie:/x}: no provider is named 'flie'; nothing was run\n  hint: did you mean 'file'?"
    )


def test_a_project_resolves_them_and_shows_none(tmp_path):
    (tmp_path / "password").write_text("hunter2\n")
    reference = f"${{file:{tmp_path}/password}}"
    project = Project.from_spec(
        ProjectSpec.model_validate(
            {
                "lake": "./lake",
                "kafka": {"bootstrap_servers": "localhost:9092", "options": {"ssl.key.password": reference}},
                "spark": {"conf": {"spark.hadoop.fs.s3a.secret.key": reference, "spark.ui.enabled": False}},
            }
        ),
        environ={"HOME": "/root"},
    )
    assert project.spark_settings.conf == {"spark.hadoop.fs.s3a.secret.key": "hunter2", "spark.ui.enabled": "false"}
    assert project.kafka_options()["ssl.key.password"] == "hunter2"
    assert "hunter2" not in repr(project) + repr(project.environ) + str(project.spec)
    assert dict(project.environ) == {"HOME": "/root"}
