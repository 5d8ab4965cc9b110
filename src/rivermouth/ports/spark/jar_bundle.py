"""All jars in one file, for a machine without network: written on one, unpacked on the other."""

from __future__ import annotations

import hashlib
import os
import shutil
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from rivermouth.errors import BundleUnusable
from rivermouth.ports.spark import jars


def write(file: Path) -> list[Path]:
    """Writes all jars that are needed to run into a tar file, downloading those that are missing.

    Returns:
        The jars that are in it.

    Raises:
        JarsMissing: At least one is neither there nor to be had.
        JarChecksum: A file has another content than the lock says.
        BundleUnusable: The file cannot be written.

    Guarantees:
        Run twice: the second takes the place of the first. Stopped half-way: the file is as it was before.
    """
    found = jars.fetch_all()
    try:
        with _beside(file) as beside, tarfile.open(fileobj=beside, mode="w", dereference=True) as bundle:
            for path in found:
                bundle.add(path, arcname=path.name)
    except OSError as error:
        raise BundleUnusable(file=file, detail=_said(error), outcome="it was not written") from error
    return found


def unpack(file: Path) -> list[Path]:
    """Puts the jars of a bundle into this user's cache, where every command finds them.

    Returns:
        The jars, where they are now.

    Raises:
        BundleUnusable: It cannot be read, lacks a jar, or holds one with another content than the lock says.

    Guarantees:
        Nothing but jars of the lock is taken out of the file, and nothing at all if one of them is not right. Run
        twice: the second time changes nothing. Stopped half-way: complete jars, and the next time brings the rest.
    """
    wanted = [jar for group in jars.groups_to_run() for jar in jars.locked()[group]]
    folder = jars.cache_folder()
    try:
        with tarfile.open(file, mode="r:") as bundle:
            for jar in wanted:
                if jar.file_name not in bundle.getnames():
                    raise _unfit(file, f"it lacks {jar.file_name}")
                if _sha256(_member(bundle, jar)) != jar.sha256:
                    raise _unfit(file, f"{jar.file_name} is not the one that this version of rivermouth was locked to")
            folder.mkdir(parents=True, exist_ok=True)
            for jar in wanted:
                path = folder / jar.file_name
                # A JVM takes no archive of classes from a jar that was written after it.
                if not path.is_file() or _sha256(path.open("rb")) != jar.sha256:
                    _put(_member(bundle, jar), path)
    except tarfile.TarError as error:
        raise _unfit(file, "it is no bundle of jars") from error
    except OSError as error:
        raise _unfit(file, _said(error)) from error
    return [folder / jar.file_name for jar in wanted]


def _unfit(file: Path, detail: str) -> BundleUnusable:
    return BundleUnusable(file=file, detail=detail, outcome="nothing was unpacked")


def _member(bundle: tarfile.TarFile, jar: jars.Jar) -> IO[bytes]:
    member = bundle.getmember(jar.file_name)
    content = bundle.extractfile(member) if member.isreg() else None
    if content is None:
        raise tarfile.ReadError(f"{jar.file_name} is no file")
    return content


def _sha256(content: IO[bytes]) -> str:
    with content:
        return hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]


def _put(content: IO[bytes], path: Path) -> None:
    with content, _beside(path) as beside:
        shutil.copyfileobj(content, beside)


@contextmanager
def _beside(path: Path) -> Iterator[IO[bytes]]:
    """A file that takes the place of ``path`` once the block has ended well."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
        Path(name).chmod(0o644)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


def _said(error: OSError) -> str:
    return error.strerror or type(error).__name__
