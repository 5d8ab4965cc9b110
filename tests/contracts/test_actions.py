"""What every action promises."""

from rivermouth.extend import find_kind, kind_names
from rivermouth.spec import Action

ROUTES = {"warn": "table", "drop": "dropped", "dead_letter": "dead_letter", "fail": "fail"}


def test_each_action_bears_its_files_name_and_has_a_route():
    found = {name: find_kind("actions", name) for name in kind_names("actions")}
    assert all(isinstance(action, Action) and action.name == name for name, action in found.items())
    assert {name: action.route for name, action in found.items()} == ROUTES


def test_no_two_actions_are_equally_strong():
    strengths = [find_kind("actions", name).strength for name in kind_names("actions")]
    assert sorted(strengths) == sorted(set(strengths))
