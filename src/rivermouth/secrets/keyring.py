"""``${keyring:SERVICE/USER}``: a password from the keyring of the machine, by the package ``keyring``."""

from __future__ import annotations

from rivermouth.errors import SecretMissing


def read(reference: str) -> str:
    """The password of that user at that service.

    Raises:
        SecretMissing: The package is not installed, there is no keyring here, or it has no such password.
    """
    service, _, user = reference.rpartition("/")
    whole = f"${{keyring:{reference}}}"
    if not service or not user:
        raise SecretMissing(reference=whole, detail="it names no user", fix="write ${keyring:SERVICE/USER}")
    try:
        import keyring  # noqa: PLC0415 - it is optional
        from keyring.errors import KeyringError  # noqa: PLC0415
    except ImportError:
        fix = "pip install keyring"
        raise SecretMissing(reference=whole, detail="the package keyring is not installed", fix=fix) from None
    try:
        password = keyring.get_password(service, user)
    except KeyringError as error:
        detail = f"the keyring does not answer ({type(error).__name__})"
        raise SecretMissing(reference=whole, detail=detail, fix="keyring diagnose") from error
    if password is None:
        raise SecretMissing(reference=whole, detail="the keyring has none", fix=f"keyring set {service} {user}")
    return password


KIND = read
