"""The arguments of ``cloud_files(path, format, map(...))``, the old SQL form, as a path and options. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rivermouth.errors import FileOptionInvalid


def path_and_options(
    arguments: Sequence[str | Mapping[str, str]], *, at: str | None = None
) -> tuple[str, dict[str, str]]:
    """The path and the options that ``cloud_files`` was called with.

    Args:
        arguments: Path, format, and where it is given the map of options.
        at: Where it is called.

    Raises:
        FileOptionInvalid: They are not a path, a format and a map.
    """
    path, kind, options = [*arguments, {}, {}, {}][:3]
    fits = isinstance(path, str) and isinstance(kind, str) and isinstance(options, Mapping)
    if not fits or len(arguments) > len(("path", "format", "options")):
        raise FileOptionInvalid(
            at=at,
            option="cloud_files",
            detail="its arguments are not a path, a format and a map of options",
            fix="cloud_files('/a/folder', 'json', map('cloudFiles.inferColumnTypes', 'true'))",
        )
    given = {str(name): str(value) for name, value in options.items()} if isinstance(options, Mapping) else {}
    return str(path), {"format": str(kind), **given}
