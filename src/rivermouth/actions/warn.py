"""The record is written and the failure is counted."""

from rivermouth.spec import Action

KIND = Action(name="warn", strength=0, route="table")
