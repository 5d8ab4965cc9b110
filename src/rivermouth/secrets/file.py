"""``${file:/run/secrets/kafka}``: the text of a file, as Docker, Kubernetes and systemd mount secrets."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from rivermouth.errors import SecretMissing

MAX_BYTES: Final = 1 << 20


def read(reference: str) -> str:
    """The text of the file without its last line break.

    Raises:
        SecretMissing: There is no such file, it cannot be read, or holds no text.
    """
    path = Path(reference)
    try:
        with path.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise _missing(reference, f"the file has more than {MAX_BYTES} bytes")
        return content.decode("utf-8").removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise _missing(reference, error.strerror or type(error).__name__) from error
    except UnicodeDecodeError:
        # Not as its cause: that error holds the bytes.
        raise _missing(reference, "the file is no UTF-8 text") from None


def _missing(reference: str, detail: str) -> SecretMissing:
    return SecretMissing(reference=f"${{file:{reference}}}", detail=detail, fix=f"ls -l {reference}")


KIND = read
