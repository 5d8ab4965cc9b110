"""``{{secrets/SCOPE/KEY}}``: a secret of a Databricks scope, as its clusters write it."""

from __future__ import annotations

from rivermouth.errors import SecretMissing


def read(reference: str) -> str:
    """The secret of that key in that scope.

    Raises:
        SecretMissing: This is no Databricks cluster or job, or it does not hand the secret out.
    """
    scope, _, key = reference.partition("/")
    whole = f"{{{{secrets/{reference}}}}}"
    try:
        from databricks.sdk.runtime import dbutils  # noqa: PLC0415 - only there
    except ImportError:
        detail, fix = "this does not run on Databricks", "write ${NAME} or ${file:PATH} where it runs elsewhere"
        raise SecretMissing(reference=whole, detail=detail, fix=fix) from None
    try:
        return str(dbutils.secrets.get(scope=scope, key=key))
    except Exception as error:
        detail, fix = f"Databricks refuses it ({type(error).__name__})", f"databricks secrets list-secrets {scope}"
        raise SecretMissing(reference=whole, detail=detail, fix=fix) from error


KIND = read
