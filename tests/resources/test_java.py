from __future__ import annotations

import pytest

from gem_pipeline.errors import SetupError
from resources.java import check_java, delta_artifacts, find_jars, resolve_jars


def fake_java(folder, version, code=0):
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\nexit {code}\n")
    binary.chmod(0o755)
    return folder


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25.0.1", 25)])
def test_java_seventeen_and_later_is_accepted(tmp_path, monkeypatch, version, major):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    assert check_java() == major


@pytest.mark.parametrize(("version", "major"), [("1.8.0_402", 8), ("11.0.2", 11)])
def test_an_older_java_is_refused_by_its_number(tmp_path, monkeypatch, version, major):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, version)))
    with pytest.raises(SetupError, match=f"is Java {major}"):
        check_java()


def test_a_java_home_without_java_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(SetupError, match="holds no bin/java"):
        check_java()


def test_a_machine_without_java_is_told_so(tmp_path, monkeypatch):
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SetupError, match="No Java was found") as refusal:
        check_java()
    assert "Install" in refusal.value.remedy


def test_a_broken_java_is_refused(tmp_path, monkeypatch):
    monkeypatch.setenv("JAVA_HOME", str(fake_java(tmp_path, "17", code=1)))
    with pytest.raises(SetupError, match="failed with exit code 1"):
        check_java()


def test_missing_jars_are_named_and_not_fetched(tmp_path):
    with pytest.raises(SetupError, match="lacks delta-spark") as refusal:
        find_jars(tmp_path)
    assert "make install" in refusal.value.remedy


def test_jars_that_are_there_are_not_fetched_again(tmp_path, monkeypatch):
    (tmp_path / "jars").mkdir()
    for artifact, revision in delta_artifacts():
        (tmp_path / "jars" / f"{artifact}-{revision}.jar").touch()
    monkeypatch.setattr("resources.java.check_java", lambda: 17)
    monkeypatch.setattr("resources.java.subprocess.run", lambda *_, **__: pytest.fail("something was started"))
    assert resolve_jars(tmp_path) == find_jars(tmp_path)


def test_a_failed_fetch_leaves_no_jar(tmp_path, monkeypatch):
    java = fake_java(tmp_path / "java", "17")
    monkeypatch.setenv("JAVA_HOME", str(java))
    with pytest.raises(SetupError, match="could not be fetched"):
        resolve_jars(tmp_path)
    assert list((tmp_path / "jars").glob("*.jar")) == []
