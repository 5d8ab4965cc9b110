"""Java classes of a user's, compiled by the compiler of the lock and packed into a jar."""

from __future__ import annotations

import os
import subprocess
import zipfile
from pathlib import Path

from tools.build_jar import shipped

from rivermouth.ports import java
from rivermouth.ports.spark import jars

SOURCES = Path(__file__).parents[1] / "data/deserializers"


def jar(folder, leave_out=()):
    """A jar with all classes of the test data but those that are left out."""
    classes = folder / "classes"
    (compiler,) = jars.classpath("compiler")
    path = os.pathsep.join(map(str, [*shipped(), *jars.classpath("spark")]))
    options = ["-source", "17", "-target", "17", "-encoding", "UTF-8", "-nowarn", "-proc:none"]
    sources = sorted(map(str, SOURCES.rglob("*.java")))
    command = [java.find().executable, "-jar", compiler, *options, "-classpath", path, "-d", classes, *sources]
    subprocess.run([str(part) for part in command], check=True)
    made = folder / "orders.jar"
    with zipfile.ZipFile(made, "w") as packed:
        for each in sorted(classes.rglob("*.class")):
            if each.stem not in leave_out:
                packed.write(each, each.relative_to(classes).as_posix())
    return made
