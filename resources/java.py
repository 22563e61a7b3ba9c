"""The two Delta jars: found, and fetched once at set-up."""

import logging
import os
import shutil
import subprocess
from importlib.metadata import version
from pathlib import Path

import pyspark

from gem_pipeline.errors import SetupError
from gem_pipeline.preflight import check_java, java_command

logger = logging.getLogger(__name__)

_SCALA = "2.13"


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
            *(java_command(os.environ), "-cp", classpath, "org.apache.ivy.Main", "-error"),
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
