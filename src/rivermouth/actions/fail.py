"""The flow stops before the batch is written."""

from rivermouth.spec import Action

KIND = Action(name="fail", strength=3, route="fail")
