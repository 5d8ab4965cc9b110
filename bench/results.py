"""What one run of the bench found, and the machine on which it ran."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench.groups import Series
from rivermouth.ports import java
from rivermouth.ports.spark import jars


@dataclass(slots=True)
class Results:
    """Everything that one run of the bench found; a group that did not run is empty."""

    command: str
    backlogs: list[Series] = field(default_factory=list)
    formats: list[Series] = field(default_factory=list)
    wide: list[Series] = field(default_factory=list)
    inference: list[Series] = field(default_factory=list)
    routing: list[Series] = field(default_factory=list)
    small: dict[str, Any] = field(default_factory=dict)
    memory: dict[str, Any] = field(default_factory=dict)
    upserts: dict[str, Any] = field(default_factory=dict)
    pipelines: dict[str, Any] = field(default_factory=dict)
    streams: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> str:
        """All runs, not only their medians."""
        body = {
            "command": self.command,
            "machine": machine(),
            "backlogs": [series.to_json() for series in self.backlogs],
            "formats": [series.to_json() for series in self.formats],
            "wide": [series.to_json() for series in self.wide],
            "inference": [series.to_json() for series in self.inference],
            "routing": [series.to_json() for series in self.routing],
            "small": self.small,
            "memory": self.memory,
            "upserts": self.upserts,
            "pipelines": self.pipelines,
            "streams": self.streams,
        }
        return json.dumps(body, indent=1)


def machine() -> dict[str, str]:
    """What it ran on."""
    release = subprocess.run(
        [str(java.find().executable), "-version"], capture_output=True, text=True, check=True
    ).stderr.splitlines()[1]
    cpu = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    broker = [path.name for path in jars.classpath("broker") if path.name.startswith("kafka_")]
    return {
        "cores": str(os.cpu_count()),
        "cpu": cpu.group(1) if cpu else platform.machine(),
        "memory": f"{memory / 2**30:.0f} GiB",
        "kernel": platform.release(),
        "java": release.strip(),
        "python": platform.python_version(),
        "pyspark": version("pyspark"),
        "delta-spark": version("delta-spark"),
        "broker": broker[0].removesuffix(".jar") if broker else "",
        "load_before": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }
