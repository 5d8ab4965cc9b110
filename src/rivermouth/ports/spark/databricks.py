"""What a Databricks notebook or job was given: its widgets."""

from __future__ import annotations

from rivermouth.errors import WidgetsMissing


def widgets() -> dict[str, str]:
    """The values of all widgets by name; parameters of a job are among them.

    Raises:
        WidgetsMissing: This is no Databricks notebook or job, or it does not hand them out.
    """
    try:
        from databricks.sdk.runtime import dbutils  # noqa: PLC0415 - only there

        found = dbutils.widgets.getAll()
    except ImportError:
        detail, fix = "this does not run on Databricks", "give the arguments themselves, without widgets=True"
        raise WidgetsMissing(detail=detail, fix=fix) from None
    except Exception as error:
        detail = f"Databricks refuses them ({type(error).__name__})"
        fix = "try dbutils.widgets.getAll() in a cell of its own, or give the arguments themselves"
        raise WidgetsMissing(detail=detail, fix=fix) from error
    return {str(name): str(value) for name, value in found.items()}
