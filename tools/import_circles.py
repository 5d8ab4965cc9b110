"""Finds circles of imports between modules. `python -m tools.import_circles` lists them and exits with 1.

import-linter sees the imports between floors. This check sees every import: at the top of a module, within a function,
and below `TYPE_CHECKING`. Two modules that name each other only for types still cannot be read one after the other.
"""

import ast
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = {"rivermouth": ROOT / "src/rivermouth", "bench": ROOT / "bench", "tools": ROOT / "tools"}


def modules_of(packages: dict[str, Path]) -> dict[str, Path]:
    """Returns the file of each module, by the module's full name; a package's name is that of its `__init__.py`."""
    found = {}
    for package, folder in packages.items():
        for path in sorted(folder.rglob("*.py")):
            parts = (package, *path.relative_to(folder).with_suffix("").parts)
            found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(source: str, modules: Iterable[str]) -> set[str]:
    """Returns the modules, among `modules`, that a module with this source names in its imports, wherever they are."""
    known = set(modules)
    found: set[str] = set()
    for node in _imports(source):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names if alias.name in known}
        elif node.module and not node.level:
            inner = {f"{node.module}.{alias.name}" for alias in node.names}
            found |= inner & known
            # `from package import module` needs the package only for a name that is no module.
            if node.module in known and inner - known:
                found.add(node.module)
    return found


@cache
def _imports(source: str) -> list[ast.Import | ast.ImportFrom]:
    return [node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Import | ast.ImportFrom)]


def circles(graph: dict[str, set[str]]) -> Iterator[list[str]]:
    """Yields each largest group of modules that all import each other, sorted (strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []

    def visit(module: str) -> Iterator[list[str]]:
        order[module] = low[module] = len(order)
        stack.append(module)
        for other in sorted(graph[module]):
            if other not in order:
                yield from visit(other)
                low[module] = min(low[module], low[other])
            elif other in stack:
                low[module] = min(low[module], order[other])
        if low[module] == order[module]:
            group = stack[stack.index(module) :]
            del stack[stack.index(module) :]
            if len(group) > 1:
                yield sorted(group)

    for module in sorted(graph):
        if module not in order:
            yield from visit(module)


def main() -> int:
    """Prints each circle, one a line. Returns 1 if there is one, else 0."""
    modules = modules_of(PACKAGES)
    graph = {name: imports_of(path.read_text("utf-8"), modules) - {name} for name, path in modules.items()}
    found = list(circles(graph))
    for group in found:
        sys.stdout.write(f"circle of {len(group)} modules: {', '.join(group)}\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
