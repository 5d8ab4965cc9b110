"""Writes docs/reference from the classes that it describes, the JSON Schema too; ``--check`` only compares.

After a change of a noun, an error, a command or a column, run ``python tools/docs_reference.py``.
"""

from __future__ import annotations

import argparse
import difflib
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from rivermouth.project.file.json_schema import project_schema, to_text

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from tools.compatibility_page import compatibility_page
from tools.reference_cli import cli_page
from tools.reference_errors import error_page, event_page
from tools.reference_project_file import project_file
from tools.reference_tables import dead_letter_page, ledger_page, table_columns_page

FOLDER: Final = Path(__file__).resolve().parents[1] / "docs" / "reference"

_COMMAND: Final = "python tools/docs_reference.py"

_HEADER: Final = f"<!-- Written by `{_COMMAND}` from the classes; edit those. -->\n"

PAGES: Final[Mapping[str, Callable[[], str]]] = {
    "project-file.md": project_file,
    "cli.md": cli_page,
    "errors.md": error_page,
    "events.md": event_page,
    "table-columns.md": table_columns_page,
    "dead-letter-columns.md": dead_letter_page,
    "ledger-entry.md": ledger_page,
    "pipelines-compatibility.md": compatibility_page,
    "rivermouth.schema.json": lambda: to_text(project_schema()),
}


def page(name: str) -> str:
    """The text of a page as it should be in the folder."""
    text = PAGES[name]()
    return f"{_HEADER}{text}\n" if name.endswith(".md") else text


def main() -> int:
    """Writes the pages, or with ``--check`` says which of them differ."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="compare only; exit code 1 if a page differs")
    check = parser.parse_args().check
    stale = 0
    for name in PAGES:
        path, text = FOLDER / name, page(name)
        found = path.read_text("utf-8") if path.is_file() else ""
        if found == text:
            continue
        stale += 1
        if check:
            sys.stdout.writelines(
                difflib.unified_diff(found.splitlines(True), text.splitlines(True), str(path), "the classes", n=0)
            )
        else:
            FOLDER.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")
            print(f"wrote docs/reference/{name}")
    if check and stale:
        print(f"{stale} pages differ from the classes: {_COMMAND}", file=sys.stderr)
    return 1 if check and stale else 0


if __name__ == "__main__":
    sys.exit(main())
