"""Prints the tests to run for what differs from a commit. `python -m tools.changed_tests origin/main`.

A test module is chosen where it imports a changed module, or one that imports it, or where its harness does. Modules
that bring everything together (the commands, ``Project``) do not pass a change on. A kind also chooses the tests that
have its name, and a Java class those that name it or have the name of its package. A page chooses the tests of its
links, its place in the navigation and its blocks, and those that name it. Some tests are always chosen: the contracts,
the laws of the ledger, a flow that is killed, and the words of the package and the pages. What belongs to no test
(locked versions, a conftest) chooses all tests.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Collection, Iterable
from pathlib import Path

from tests.docs.blocks import pages_with_blocks

from tools.import_circles import ROOT, imports_of, modules_of

PACKAGES = {"rivermouth": ROOT / "src/rivermouth", "tools": ROOT / "tools"}
ALWAYS = (
    "tests/contracts",
    "tests/laws/test_ledger_laws.py",
    "tests/crashes/test_kills.py",
    "tests/docs/test_words.py",
)
LINKS = "tests/docs/test_links.py"
BLOCKS = "tests/docs/test_blocks.py"
TOP_PAGES = ("README.md", "CONTRIBUTING.md", "CHANGELOG.md")
HUBS = re.compile(r"rivermouth(\.cli\.main|\.project\.(api|methods|commands)\b.*|\.warm_up)?$")
KINDS = ("formats", "sinks", "actions")
STEPS = 2
"""The number of imports over which a change is followed."""


def changed_files(since: str) -> list[str]:
    """Paths that differ from the commit at which this branch left ``since``, and files that git does not know."""
    base = _git("merge-base", since, "HEAD")[0]
    return sorted({*_git("diff", "--name-only", base), *_git("ls-files", "--others", "--exclude-standard")})


def chosen(files: Iterable[str], sources: dict[str, Path], tests: Collection[Path]) -> list[str]:
    """The tests to run for these changed files; all of them as ``tests``.

    Args:
        files: Paths, relative to the repository.
        sources: The file of each module of the package and of the tools.
        tests: The files of all test modules.
    """
    by_path = {path.relative_to(ROOT).as_posix(): name for name, path in sources.items()}
    modules, found = set(), set(ALWAYS)
    for file in files:
        path = ROOT / file
        if file in by_path:
            modules.add(by_path[file])
            found |= {_shown(test) for test in tests if path.parent.name in KINDS and path.stem in test.stem}
            # Tests start tools as commands, too.
            if by_path[file].startswith("tools."):
                found |= {_shown(test) for test in tests if _names(test, by_path[file])}
        elif path in tests:
            found.add(file)
        elif file.startswith("src/java/"):
            found |= {_shown(test) for test in tests if path.parent.name in test.stem or _names(test, path.stem)}
        elif file.startswith(("docs/", "changelog.d/")) or file in TOP_PAGES:
            found |= _of_page(file, tests)
        elif file.startswith("tests/") and path.suffix == ".py" and path.name != "conftest.py":
            found |= {_shown(test) for test in tests if _names(test, path.stem)}
        elif file.startswith("bench/"):
            found.add("tests/docs/test_bench_smoke.py")
        elif file.startswith("tools/") and path.suffix != ".py":
            modules |= {name for name, source in sources.items() if name[:6] == "tools." and _names(source, path.name)}
        else:
            return ["tests"]
    reached = _reached(modules, sources)
    found |= {_shown(test) for test in tests if _imports(test, sources) & reached}
    return sorted(each for each in found if "::" in each or (ROOT / each).exists())


def _of_page(file: str, tests: Collection[Path]) -> set[str]:
    """The tests of a page, a picture, a schema or a fragment of the changelog; also of one that was deleted."""
    found = {LINKS}
    if file.startswith("docs/"):
        found |= {"tests/docs/test_site.py", *(_shown(test) for test in tests if _names(test, file))}
    if file.startswith("docs/reference/"):
        found.add("tests/docs/test_reference.py")
    if ROOT / file in pages_with_blocks():
        found |= {f"{BLOCKS}::{test}[{file}]" for test in ("test_page", "test_what_is_not_run_can_be_read")}
    return found


def _reached(modules: Iterable[str], sources: dict[str, Path]) -> set[str]:
    """The modules, and those that import them over at most ``STEPS`` imports, without what brings all together."""
    graph = {name: imports_of(path.read_text("utf-8"), sources) - {name} for name, path in sources.items()}
    reached = last = set(modules)
    for _ in range(STEPS):
        last = {name for name, needs in graph.items() if needs & last and not HUBS.match(name)} - reached
        reached = reached | last
    return reached


def _imports(test: Path, sources: dict[str, Path]) -> set[str]:
    """The modules that a test imports, by itself or in a harness of its folder (``_name.py``) that it names."""
    files = [test, *(each for each in test.parent.glob("_[a-z]*.py") if _names(test, each.stem))]
    return {name for file in files for name in imports_of(file.read_text("utf-8"), sources)}


def _names(test: Path, word: str) -> bool:
    return re.search(rf"\b{re.escape(word)}\b", test.read_text("utf-8")) is not None


def _shown(path: Path) -> str:
    return path.relative_to(ROOT).as_posix()


def _git(*arguments: str) -> list[str]:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main(arguments: list[str]) -> int:
    """Prints the chosen tests, separated by spaces."""
    sources = modules_of(PACKAGES)
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    print(*chosen(changed_files(arguments[0]), sources, tests))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
