from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

from gem_pipeline.errors import SetupError
from resources.spark_session import SparkSessionResource, running_session, session_options, spark_session


@pytest.mark.spark
def test_a_process_has_one_session_in_utc_with_delta(spark, tmp_path):
    assert spark_session(tmp_path) is spark
    assert SparkSessionResource(home=str(tmp_path)).session() is spark
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.sql("SELECT to_date(TIMESTAMP'2026-01-02T03:00:00Z')").first()[0].isoformat() == "2026-01-02"


@pytest.mark.spark
def test_workers_run_the_python_of_this_process(spark):
    found = spark.range(1).rdd.map(lambda _: __import__("sys").executable).collect()
    assert found == [sys.executable]


def test_a_session_without_delta_is_refused(tmp_path, monkeypatch):
    other = SimpleNamespace(conf={"spark.sql.extensions": "com.example.Other"})
    monkeypatch.setattr("resources.spark_session.running_session", lambda: other)
    with pytest.raises(SetupError, match="without the Delta extension"):
        spark_session(tmp_path)


def test_nothing_starts_without_java(tmp_path, monkeypatch):
    monkeypatch.setattr("resources.spark_session.running_session", lambda: None)
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="JAVA_HOME"):
        spark_session(tmp_path)


def test_a_cluster_keeps_its_own_address_and_partitions(jars, tmp_path):
    (tmp_path / "jars").symlink_to(jars)
    local, cluster = session_options(tmp_path, "local[4]"), session_options(tmp_path, "spark://host:7077")
    assert local["spark.driver.bindAddress"] == "127.0.0.1"
    assert local["spark.sql.shuffle.partitions"] == "4"
    assert not {"spark.driver.bindAddress", "spark.sql.shuffle.partitions"} & set(cluster)
    assert local["spark.ui.enabled"] == cluster["spark.ui.enabled"] == "false"


def test_asking_for_the_running_session_starts_none(monkeypatch):
    monkeypatch.setattr("resources.spark_session.SparkContext._active_spark_context", None)
    assert running_session() is None
