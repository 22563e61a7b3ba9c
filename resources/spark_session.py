"""The one Spark session of a process: local by default, a cluster by master URL; always with Delta, always UTC."""

import logging
import os
import re
import sys
from pathlib import Path

import dagster as dg
from pyspark import SparkContext
from pyspark.sql import SparkSession

from gem_pipeline.errors import SetupError
from gem_pipeline.preflight import check_java
from resources.java import find_jars

logger = logging.getLogger(__name__)

_EXTENSION = "io.delta.sql.DeltaSparkSessionExtension"
_LOG4J = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = console
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
appender.console.type = Console
appender.console.name = console
appender.console.target = SYSTEM_ERR
appender.console.layout.type = PatternLayout
appender.console.layout.pattern = spark %p %c{1}: %m%n
"""


def _local_cores(master: str) -> int | None:
    """Cores of a local master, None for a cluster."""
    found = re.fullmatch(r"local(?:\[(\*|\d+)(?:,\d+)?\])?", master)
    if not found:
        return None
    return (os.cpu_count() or 1) if found.group(1) == "*" else int(found.group(1) or 1)


def _log4j_file(home: Path) -> Path:
    """Write the log4j configuration (errors only) and return its path."""
    path = home / "spark" / "log4j2.properties"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(_LOG4J, encoding="ascii")
    return path


def session_options(home: Path, master: str) -> dict[str, str]:
    """Every Spark option that is set, and nothing else; needs the jars, starts nothing.

    Raises:
        SetupError: the Delta jars are missing.
    """
    options = {
        "spark.jars": ",".join(str(jar.resolve()) for jar in find_jars(home)),
        "spark.sql.extensions": _EXTENSION,
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.compression.codec": "zstd",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.adaptive.enabled": "true",
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        # Kept for the UI even where it is off: a thousand plans of these sizes fill the driver of a long-lived process.
        "spark.sql.ui.retainedExecutions": "10",
        "spark.ui.retainedJobs": "50",
        "spark.ui.retainedStages": "50",
        "spark.ui.retainedTasks": "1000",
        "spark.sql.warehouse.dir": str((home / "spark" / "warehouse").resolve()),
    }
    if (cores := _local_cores(master)) is not None:
        # Code that Spark makes for wide tables has methods above 8 kB, which the JVM would never compile.
        java = (
            f"-Dlog4j2.configurationFile={_log4j_file(home).resolve().as_uri()} -XX:+UseParallelGC "
            "-XX:-DontCompileHugeMethods -Dderby.system.home="
        )
        options |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.driver.memory": os.environ.get("GEM_SPARK_MEMORY", "2g"),
            "spark.driver.extraJavaOptions": java + str((home / "spark").resolve()),
            "spark.local.dir": str((home / "spark" / "tmp").resolve()),
            "spark.sql.shuffle.partitions": str(max(2, min(cores, 16))),
            "spark.databricks.delta.snapshotPartitions": "1",
            "spark.sql.files.openCostInBytes": "524288",
            "spark.shuffle.compress": "false",
        }
    return options


def running_session() -> SparkSession | None:
    """The session of this process, if one is alive."""
    session = SparkSession.getActiveSession() or SparkSession._instantiatedSession
    alive = session is not None and SparkContext._active_spark_context is not None
    return session if alive else None


def spark_session(home: Path, master: str = "local[*]") -> SparkSession:
    """The process's Spark session; started at the first call.

    Args:
        home: folder of everything the product keeps (GEM_HOME); its `jars/` holds the Delta jars.
        master: Spark master URL.

    Raises:
        SetupError: Java is missing or older than 17, the Delta jars are missing, or another part of
            this process started a session without Delta.
    """
    if (session := running_session()) is not None:
        extensions = session.conf.get("spark.sql.extensions", "") or ""
        if _EXTENSION not in extensions.split(","):
            raise SetupError(
                "This process already runs a Spark session without the Delta extension.",
                remedy="Stop that session, or start this step in a process of its own.",
            )
        return session
    check_java()
    if _local_cores(master) is not None:
        os.environ["PYSPARK_PYTHON"] = sys.executable  # else workers run whatever python3 is on the PATH
    builder = SparkSession.builder.appName("gem_pipeline").master(master)
    for name, value in session_options(home, master).items():
        builder = builder.config(name, value)
    logger.info("starting Spark on %s", master)
    return builder.getOrCreate()


def local_session(home: Path, master: str = "") -> SparkSession:
    """`spark_session` on the master that is named, else GEM_SPARK_MASTER, else all cores of this machine."""
    return spark_session(home, master or os.environ.get("GEM_SPARK_MASTER") or "local[*]")


class SparkSessionResource(dg.ConfigurableResource):
    """Spark for assets: nothing starts before `session` is called."""

    home: str
    master: str = "local[*]"

    def session(self) -> SparkSession:
        """The process's session; see `spark_session`."""
        return spark_session(Path(self.home), self.master)
