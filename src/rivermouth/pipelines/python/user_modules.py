"""Modules of the user's own, which files of a pipeline import: from which folders, and how Spark's workers get them."""

from __future__ import annotations

import contextlib
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import Any, Final

from pyspark import cloudpickle as untyped_cloudpickle

cloudpickle: Any = untyped_cloudpickle
_OF_WORKERS: Final = Path(__file__).parent / "of_workers"
"""What Spark's workers import in the place of the modules that only a run has."""


@contextlib.contextmanager
def importing(
    root: Path, files: Sequence[Path], working: Path | None = None, packages: Sequence[Path] = ()
) -> Iterator[UserFolders]:
    """Modules in the folders of the files can be imported in the block; afterwards they are removed again.

    The functions and classes of the files are sent to workers by value, with what they use. If a worker imported their
    module, its top level would run in a process without a session. What they import when they are called is imported
    there.

    Args:
        root: A folder with modules.
        files: Files of the pipeline. The modules are in their folders too.
        packages: More folders with modules, which come behind these.
        working: A folder in which a module is looked for that is found nowhere else.

    Gives the folders from which modules are imported.
    """
    before, known = list(sys.path), set(sys.modules)
    own = list(dict.fromkeys([str(root), *(str(file.parent) for file in files), *map(str, packages)]))

    def folders() -> list[Path]:
        # Some of its own may have been there before: a test runner adds the working folder.
        added = (each for each in sys.path if each not in before)
        return [Path(each) for each in dict.fromkeys([*own, *added])]

    finder = _UserModules(folders)
    last = _WorkingFolder(working, finder)
    sys.path[:0] = own
    sys.meta_path.insert(sys.meta_path.index(PathFinder) if PathFinder in sys.meta_path else 0, finder)
    sys.meta_path.append(last)
    importlib.invalidate_caches()
    try:
        for module in list(sys.modules.values()):
            if finder.has(getattr(module, "__file__", None)):
                finder.take(module)
        yield UserFolders(folders, last)
    finally:
        sys.meta_path.remove(finder)
        sys.meta_path.remove(last)
        sys.path[:] = before
        finder.give_back()
        own_modules = {name for name, module in sys.modules.items() if isinstance(module, _FileModule)}
        own_modules |= {name for name in sys.modules if finder.is_taken(name)}
        for name in (finder.taken.keys() | own_modules) - known:
            sys.modules.pop(name, None)


class _FileModule(ModuleType):
    """The module of a file that defines datasets."""


def file_module(name: str) -> ModuleType:
    """A new module for the code of a file; it is known by its name until the block of ``importing`` ends.

    Python looks for the module of a class where it makes a dataclass of it. Workers get functions and classes whole.
    """
    module = _FileModule(name)
    sys.modules[name] = module
    cloudpickle.register_pickle_by_value(module)
    return module


class _UserModule(ModuleType):
    """A module that workers import by its name."""

    def __reduce__(self) -> tuple[Callable[[str], ModuleType], tuple[str]]:
        return importlib.import_module, (self.__name__,)


class _UserModules:
    """Finds modules as Python does, and takes those of the user's folders.

    Attributes:
        taken: These modules by their names.
        elsewhere: Names of packages and modules of the working folder, which are taken too.
    """

    def __init__(self, folders: Callable[[], list[Path]]) -> None:
        self._folders = folders
        self.taken: dict[str, ModuleType] = {}
        self.elsewhere: set[str] = set()

    def has(self, file: str | None) -> bool:
        """Whether a file is in one of the folders, and of no installed package."""
        path = Path(file or "")
        return "site-packages" not in path.parts and any(path.is_relative_to(each) for each in self._folders())

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """What Python's own finder finds; None leaves it to the others."""
        found = PathFinder.find_spec(name, path, target)
        if found is None or not (self.is_taken(name) or self.has(found.origin)):
            return None
        return self.taking(found)

    def is_taken(self, name: str) -> bool:
        """Whether a module is one of the working folder."""
        return name.partition(".")[0] in self.elsewhere

    def taking(self, found: ModuleSpec) -> ModuleSpec | None:
        """The same module, which is taken when it is loaded; None if it is no file of Python."""
        if not isinstance(found.loader, SourceFileLoader):
            return None
        # Each of these loaders loads one module.
        run = found.loader.exec_module

        def take_and_run(module: ModuleType) -> None:
            self.take(module)
            run(module)

        found.loader.exec_module = take_and_run  # type: ignore[method-assign]
        return found

    def take(self, module: ModuleType) -> None:
        """Its functions and classes are sent to workers whole from now on, and the module itself by its name."""
        if type(module) is ModuleType and module.__name__ in sys.modules:
            self.taken[module.__name__] = module
            module.__class__ = _UserModule
            cloudpickle.register_pickle_by_value(module)

    def give_back(self) -> None:
        """Modules are again what they were."""
        for name, module in self.taken.items():
            module.__class__ = ModuleType
            if name in cloudpickle.list_registry_pickle_by_value():
                cloudpickle.unregister_pickle_by_value(module)


class _WorkingFolder:
    """Finds what no other finder has found in the working folder, so that this hides no installed package.

    Args:
        folder: The working folder; None looks nowhere.
        modules: Takes the modules.

    Attributes:
        used: The folder, once a module was found in it.
        when_used: Called when the first module is found.
    """

    def __init__(self, folder: Path | None, modules: _UserModules) -> None:
        self._folder, self._modules = folder, modules
        self.used: list[Path] = []
        self.when_used: Callable[[], None] = lambda: None

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: Any = None) -> ModuleSpec | None:
        """A module or package of the folder."""
        if self._folder is None or path is not None:
            return None
        found = PathFinder.find_spec(name, [str(self._folder)], target)
        if found is None:
            return None
        self._modules.elsewhere.add(name)
        if not self.used:
            self.used = [self._folder]
            self.when_used()
        return self._modules.taking(found) or found


@dataclass(frozen=True, slots=True)
class UserFolders:
    """The folders from which files of a pipeline import modules."""

    _own: Callable[[], list[Path]]
    _last: _WorkingFolder

    def share(self, with_workers: Callable[[Sequence[Path]], None]) -> None:
        """Says to Spark's workers which folders there are now, and again when the working folder becomes one.

        A query may be what imports the first module of the working folder, after all files.

        Args:
            with_workers: Gets the folders, with those that the files have added to ``sys.path``.
        """
        self._last.when_used = lambda: with_workers(self.all())
        with_workers(self.all())

    def all(self) -> list[Path]:
        """The folders now, and the one of modules that workers have in the place of those of a run."""
        return [*self._own(), *self._last.used, _OF_WORKERS]
