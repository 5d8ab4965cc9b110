"""Who is at work: what decisions and erasures are signed with."""

from __future__ import annotations

import getpass
import os
import socket


def current_user() -> str:
    """User and host."""
    return f"{_user()}@{socket.gethostname()}"


def _user() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):
        return str(os.getuid())  # in a container it may have no name
