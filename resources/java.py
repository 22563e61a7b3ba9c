"""Java and the two Delta jars: found, checked, and fetched once at set-up."""

import logging
import os
import re
import shutil
import subprocess
from functools import lru_cache
from importlib.metadata import version
from pathlib import Path

import pyspark

from gem_pipeline.errors import SetupError

logger = logging.getLogger(__name__)

MIN_JAVA = 17  # Spark 4 runs on Java 17 and later
_SCALA = "2.13"


def java_command() -> str:
    """The java program that Spark will start: `JAVA_HOME` first, then the PATH.

    Raises:
        SetupError: there is none, or `JAVA_HOME` names a folder without one.
    """
    if java_home := os.environ.get("JAVA_HOME"):
        candidate = Path(java_home) / "bin" / "java"
        if not candidate.is_file():
            raise SetupError(
                f"JAVA_HOME names {java_home}, which holds no bin/java.",
                remedy=f"Point JAVA_HOME to a Java {MIN_JAVA} (or later) installation, or unset it.",
            )
        return str(candidate)
    if found := shutil.which("java"):
        return found
    raise SetupError(
        "No Java was found: JAVA_HOME is not set and there is no java on the PATH.",
        remedy=f"Install a Java {MIN_JAVA} runtime (for example openjdk-{MIN_JAVA}-jre-headless) and try again.",
    )


@lru_cache(maxsize=8)
def _java_major(command: str) -> int:
    result = subprocess.run([command, "-version"], capture_output=True, text=True, timeout=60, check=False)
    found = re.search(r'version "(\d+)(?:\.(\d+))?', result.stderr + result.stdout)
    if result.returncode != 0 or not found:
        raise SetupError(
            f"{command} -version failed with exit code {result.returncode}.",
            remedy=f"Install a working Java {MIN_JAVA} (or later) and point JAVA_HOME to it.",
        )
    major = int(found.group(1))
    return int(found.group(2) or 0) if major == 1 else major  # Java 8 calls itself 1.8


def check_java() -> int:
    """Major version of the Java that Spark will start.

    Raises:
        SetupError: Java is missing, broken, or older than 17.
    """
    command = java_command()
    major = _java_major(command)
    if major < MIN_JAVA:
        raise SetupError(
            f"Spark needs Java {MIN_JAVA} or later, and {command} is Java {major}.",
            remedy=f"Install Java {MIN_JAVA} and point JAVA_HOME to it.",
        )
    return major


def delta_artifacts() -> tuple[tuple[str, str], ...]:
    """(artifact, revision) of the jars that Delta needs beside those that pyspark ships.

    Delta's other dependencies (parquet, hadoop-client, jackson, ...) are in pyspark's own jars folder.
    """
    revision = version("delta-spark")
    spark_line = ".".join(pyspark.__version__.split(".")[:2])
    return (f"delta-spark_{spark_line}_{_SCALA}", revision), ("delta-storage", revision)


def find_jars(home: Path) -> list[Path]:
    """The Delta jars under `home/jars`.

    Raises:
        SetupError: a jar is missing; nothing is downloaded here.
    """
    jars = [home / "jars" / f"{artifact}-{revision}.jar" for artifact, revision in delta_artifacts()]
    if missing := [jar.name for jar in jars if not jar.is_file()]:
        raise SetupError(
            f"The folder {home / 'jars'} lacks {', '.join(missing)}.",
            remedy="Run `make install` (it fetches them once), or copy these jars there.",
        )
    return jars


def resolve_jars(home: Path) -> list[Path]:
    """Fetch the Delta jars into `home/jars` with the Ivy that pyspark ships; does nothing when they are there.

    Each jar is moved into place only when whole, so a cut download leaves nothing half-written.

    Raises:
        SetupError: Java is missing or wrong, or Ivy could not fetch a jar.
    """
    check_java()
    folder = home / "jars"
    folder.mkdir(parents=True, exist_ok=True)
    shipped = Path(pyspark.__file__).parent / "jars"
    classpath = os.pathsep.join(
        str(jar) for pattern in ("ivy-*.jar", "commons-cli-*.jar") for jar in shipped.glob(pattern)
    )
    for artifact, revision in delta_artifacts():
        target = folder / f"{artifact}-{revision}.jar"
        if target.is_file():
            continue
        partial = folder / ".partial"
        command = [
            *(java_command(), "-cp", classpath, "org.apache.ivy.Main", "-error"),
            *("-cache", str(folder / ".ivy"), "-dependency", "io.delta", artifact, revision),
            *("-confs", "default", "-notransitive", "-retrieve", f"{partial}/[artifact]-[revision].[ext]"),
        ]
        logger.info("fetching %s", target.name)
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        fetched = partial / target.name
        if result.returncode != 0 or not fetched.is_file():
            reason = " ".join((result.stderr + result.stdout).split())[-400:]
            raise SetupError(
                f"The jar io.delta:{artifact}:{revision} could not be fetched: {reason}",
                remedy=f"Check the network and run `make install` again, or copy the jar into {folder}.",
            )
        fetched.replace(target)
    for leftover in (".partial", ".ivy"):
        shutil.rmtree(folder / leftover, ignore_errors=True)
    return find_jars(home)
