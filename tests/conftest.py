"""Shared by all tests: golden files, and one Spark session for the whole run."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import hypothesis
import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tests.spark_frames import Frames


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite tests/golden from what is there now")


# A busy machine must not fail a test.
hypothesis.settings.register_profile("gem", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow])
hypothesis.settings.load_profile("gem")

LONGEST_FIRST = ("smoke", "spark", "resources", "runs", "batches", "config", "models", "kernels")  # by their seconds


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Keep a folder's tests in one process where several share the run: they share a Spark session or a chain.

    Folders that take longest come first, or one of two processes would be left with a long one at the end.
    """
    here = Path(__file__).parent
    folders = {item: item.path.relative_to(here).parts[0] for item in items}
    for item, folder in folders.items():
        item.add_marker(pytest.mark.xdist_group(folder))
    rank = {folder: place for place, folder in enumerate(LONGEST_FIRST)}
    items.sort(key=lambda item: rank.get(folders[item], len(rank)))


@pytest.fixture
def golden(request: pytest.FixtureRequest):
    """Compare plain values with a golden file, or rewrite it when asked to."""

    def compare(name: str, found: object) -> None:
        path = Path(__file__).parent / "golden" / name
        text = json.dumps(found, indent=1, sort_keys=True) + "\n"
        if request.config.getoption("--update-golden"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text, f"{name} differs: review, then pytest --update-golden"

    return compare


@pytest.fixture(scope="session")
def jars() -> Path:
    """The folder of Delta jars: GEM_HOME_JARS, else the one that the installation filled."""
    return Path(os.environ.get("GEM_HOME_JARS") or Path(__file__).parents[1] / ".gem" / "jars").absolute()


@pytest.fixture(scope="session")
def spark(jars: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the test run."""
    from resources.spark_session import spark_session

    home = tmp_path_factory.mktemp("spark")
    (home / "jars").symlink_to(jars)
    os.environ.setdefault("GEM_SPARK_MEMORY", "3g")  # one driver for every module of the run
    session = spark_session(home, "local[2]")
    yield session
    session.stop()


@pytest.fixture(autouse=True, scope="module")
def _spark_forgets_a_module_that_is_over() -> Iterator[None]:
    """Let go of cached frames and of Delta's snapshots, which would fill the driver in the course of the run."""
    yield
    if "pyspark" not in sys.modules:
        return
    from resources.spark_session import running_session

    if (session := running_session()) is not None:
        session.catalog.clearCache()
        session._jvm.org.apache.spark.sql.delta.DeltaLog.clearCache()


@pytest.fixture(scope="session")
def logs(spark: SparkSession) -> Frames:
    """The frames of 2 000 random logs in one set of tables, so that few jobs judge many logs."""
    from tests.oracles.event_log import log_contract, random_logs
    from tests.spark_frames import NUM_LOGS, frames_of

    return frames_of(spark, random_logs(NUM_LOGS, seed=7), log_contract())


@pytest.fixture
def frames(spark: SparkSession):
    """Make frames of hand-written rows."""
    from tests.oracles.event_log import log_contract
    from tests.spark_frames import BRONZE, frames_of

    def make(rows, contract=None) -> Frames:
        return frames_of(spark, {table: rows.get(table, []) for table in BRONZE}, contract or log_contract())

    return make
