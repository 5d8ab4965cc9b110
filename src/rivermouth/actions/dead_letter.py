"""The record goes to the dead letters with the name of the expectation."""

from rivermouth.spec import Action

KIND = Action(name="dead_letter", strength=2, route="dead_letter")
