from __future__ import annotations

import pytest

from gem_pipeline.errors import SetupError
from resources.java import delta_artifacts, find_jars, resolve_jars


def fake_java(folder, version):
    binary = folder / "bin" / "java"
    binary.parent.mkdir(parents=True)
    binary.write_text(f"#!/bin/sh\necho 'openjdk version \"{version}\"' >&2\n")
    binary.chmod(0o755)
    return folder


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
