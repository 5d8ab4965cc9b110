"""The record is counted and kept nowhere."""

from rivermouth.spec import Action

KIND = Action(name="drop", strength=1, route="dropped")
