"""Checks before any work: each failure is one plain sentence with its remedy."""

from __future__ import annotations

import socket
from importlib import metadata
from pathlib import Path

import pytest

from gem_pipeline import preflight
from gem_pipeline.errors import ConfigError, SetupError


def fake_java(folder: Path, answer: str, code: int = 0) -> dict[str, str]:
    """An environment whose PATH holds only a `java` that prints `answer`."""
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "java"
    program.write_text(f"#!/bin/sh\necho '{answer}' >&2\nexit {code}\n")
    program.chmod(0o755)
    return {"PATH": str(folder)}


def test_missing_java_is_refused_with_the_package_to_install(tmp_path):
    with pytest.raises(SetupError, match="Java was not found") as caught:
        preflight.check_java({"PATH": str(tmp_path)})
    assert "Install Java 17" in caught.value.remedy


@pytest.mark.parametrize(("answer", "major"), [('java version "1.8.0_392"', 8), ('openjdk version "11.0.2"', 11)])
def test_java_older_than_17_is_refused_with_its_version(tmp_path, answer, major):
    with pytest.raises(SetupError, match=f"is version {major}; Spark needs 17"):
        preflight.check_java(fake_java(tmp_path, answer))


@pytest.mark.parametrize(("answer", "major"), [('openjdk version "17.0.15" 2025-04-15', 17), ('java version "21"', 21)])
def test_java_17_and_newer_pass(tmp_path, answer, major):
    assert preflight.check_java(fake_java(tmp_path, answer)) == major


@pytest.mark.parametrize(("answer", "code"), [("I am a coffee machine", 0), ('openjdk version "17.0.1"', 1)])
def test_java_that_does_not_say_its_version_is_refused(tmp_path, answer, code):
    with pytest.raises(SetupError, match="does not say its version"):
        preflight.check_java(fake_java(tmp_path, answer, code))


def test_java_home_wins_over_path(tmp_path):
    fake_java(tmp_path / "old" / "bin", 'openjdk version "11.0.2"')
    on_path = fake_java(tmp_path / "new", 'openjdk version "17"')
    with pytest.raises(SetupError, match="is version 11"):
        preflight.check_java({**on_path, "JAVA_HOME": str(tmp_path / "old")})


def test_java_home_without_java_is_refused(tmp_path):
    with pytest.raises(SetupError, match="there is no bin/java in it"):
        preflight.check_java({"JAVA_HOME": str(tmp_path), "PATH": "/usr/bin"})


def test_java_that_cannot_be_started_is_refused(tmp_path):
    program = tmp_path / "java"
    program.write_text("no program")
    program.chmod(0o755)
    with pytest.raises(SetupError, match="does not run"):
        preflight.check_java({"PATH": str(tmp_path)})


def test_port_in_use_is_refused_and_a_free_one_passes():
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        with pytest.raises(SetupError, match=f"Port {port} cannot be opened") as caught:
            preflight.check_port(port)
        assert "another port" in caught.value.remedy
    preflight.check_port(port)


@pytest.mark.parametrize("port", [0, -1, 65536])
def test_number_that_is_no_port_is_refused(port):
    with pytest.raises(ConfigError, match="does not exist"):
        preflight.check_port(port)


def test_disk_with_too_little_room_is_refused_and_nothing_is_made(tmp_path):
    with pytest.raises(SetupError, match="GiB free"):
        preflight.check_disk(tmp_path / "home", needed_bytes=2**62)
    assert list(tmp_path.iterdir()) == []


def test_home_below_a_file_is_refused(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(SetupError, match="cannot be written"):
        preflight.check_disk(tmp_path / "file" / "home")


def test_missing_compiler_is_a_note_and_no_error(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert "eagerly" in preflight.compiler_note()
    compiler = tmp_path / "g++"
    compiler.write_text("")
    compiler.chmod(0o755)
    assert preflight.compiler_note() is None


def test_this_environment_has_every_pinned_package():
    assert preflight.check_installation() >= 20


def test_distribution_that_is_not_installed_is_refused():
    with pytest.raises(SetupError, match="is not installed") as caught:
        preflight.check_installation("no-such-distribution")
    assert "make install" in caught.value.remedy


def test_half_installed_environment_names_each_package(monkeypatch):
    pins = ["numpy==0.1", "no-such-package==1.0", 'fbgemm-gpu==9 ; extra == "cuda"', "ruff==1; extra == 'dev'"]
    monkeypatch.setattr(metadata, "requires", lambda _: pins)
    with pytest.raises(SetupError) as caught:
        preflight.check_installation()
    assert "numpy is " in caught.value.message
    assert "no-such-package 1.0 is missing" in caught.value.message
    assert "fbgemm" not in caught.value.message, "the other build of fbgemm is not asked for"
    assert "ruff" not in caught.value.message, "tools of development are not asked for"


def test_package_whose_files_are_gone_is_named(monkeypatch):
    monkeypatch.setattr(preflight.importlib.util, "find_spec", lambda _: None)
    with pytest.raises(SetupError, match="the files of dagster are gone"):
        preflight.check_installation()


def test_every_check_runs_although_an_earlier_one_failed(monkeypatch, tmp_path):
    monkeypatch.setattr(metadata, "requires", lambda _: ["no-such-package==1.0"])
    findings = preflight.run_checks(tmp_path, environ={"PATH": ""})
    assert [f.name for f in findings if f.error] == ["packages", "java"]
    assert [f.name for f in findings] == ["packages", "java", "disk", "compiler"]
