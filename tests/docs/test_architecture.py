"""The page of the architecture names the floors and the rooms of the engine that import-linter checks."""

from __future__ import annotations

import re
import tomllib

import pytest
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs/explanation/architecture.md"


def _layers(contract: str) -> list[set[str]]:
    """The layers of a contract in pyproject.toml, the highest first."""
    tool = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["tool"]
    (found,) = [each for each in tool["importlinter"]["contracts"] if each["id"] == contract]
    return [set(layer.split(" | ")) for layer in found["layers"]]


def _first_cells(head: str) -> list[list[str]]:
    """The modules in the first cell of each row of a table with this head."""
    _, table = PAGE.read_text("utf-8").split(f"| {head} | what it is |\n|---|---|\n")
    rows = table.partition("\n\n")[0].splitlines()
    return [re.findall(r"`(\w+)(?:/|\.py)`", row.split(" | ")[0]) for row in rows]


@pytest.mark.parametrize(("head", "contract"), [("floor", "floors"), ("room of `engine/`", "engine")])
def test_a_table_has_the_layers_in_their_order(head, contract):
    layers = _layers(contract)
    named = [name for row in _first_cells(head) for name in row]
    assert sorted(named) == sorted(set().union(*layers))
    places = [index for name in named for index, layer in enumerate(layers) if name in layer]
    assert places == sorted(places)


def test_what_is_one_layer_of_the_engine_is_one_row():
    assert [set(row) for row in _first_cells("room of `engine/`")] == _layers("engine")
