"""Installation: a second one is instant, an interrupted one is redone, another extra or pin asks for a new one."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gem_pipeline import installation as subject
from gem_pipeline.errors import SetupError
from gem_pipeline.installation import Installation, has_jars, has_packages, install, record_in_home, requirements


@pytest.fixture(autouse=True)
def _fast_environments(monkeypatch):
    def create(folder: Path, **_) -> None:
        (folder / "bin").mkdir(parents=True)
        (folder / "bin" / "python").write_text("")

    monkeypatch.setattr(subject.venv, "create", create)


@pytest.fixture
def checkout(tmp_path):
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    (tmp_path / "constraints.txt").write_text("fbgemm-gpu-cpu==1.8.0\ntorch==2.13.0\n")
    return Installation(root=tmp_path, home=tmp_path / ".gem", extra="cpu")


class Commands:
    """Records the commands; fails those whose words contain `failing`; the last step fetches the jars."""

    def __init__(self, home: Path, failing: str = "nothing fails") -> None:
        self.home, self.failing, self.seen = home, failing, []

    def __call__(self, command) -> int:
        words = " ".join(command)
        self.seen.append(words)
        if self.failing in words:
            return 1
        if "--fetch-jars" in words:
            (self.home / "jars").mkdir(parents=True, exist_ok=True)
            (self.home / "jars" / "delta-storage.jar").write_text("")
        return 0


def is_complete(checkout) -> bool:
    return has_packages(checkout) and has_jars(checkout)


def test_installation_is_complete_after_its_last_step_and_is_recorded(checkout):
    assert not is_complete(checkout)
    install(checkout, Commands(checkout.home))
    assert is_complete(checkout)
    assert record_in_home(checkout) >= 0
    assert json.loads((checkout.home / "install.json").read_text())["extra"] == "cpu"


def test_second_installation_runs_no_command(checkout):
    install(checkout, Commands(checkout.home))
    commands = Commands(checkout.home)
    install(checkout, commands)
    assert commands.seen == []


def test_changed_pins_or_another_extra_ask_for_a_new_installation(checkout):
    install(checkout, Commands(checkout.home))
    assert not has_packages(Installation(root=checkout.root, home=checkout.home, extra="cuda"))
    (checkout.root / "constraints.txt").write_text("torch==2.14.0\n")
    assert not has_packages(checkout)


def test_changed_settings_of_a_tool_ask_for_nothing(checkout):
    install(checkout, Commands(checkout.home))
    (checkout.root / "pyproject.toml").write_text("[project]\n[tool.ruff]\nline-length = 80\n")
    assert is_complete(checkout)


def test_another_home_gets_its_jars_and_no_packages(checkout, tmp_path):
    install(checkout, Commands(checkout.home))
    other = Installation(root=checkout.root, home=tmp_path / "other", extra="cpu")
    commands = Commands(other.home)
    install(other, commands)
    assert is_complete(other)
    assert len(commands.seen) == 1


def test_unreadable_stamp_asks_for_a_new_installation(checkout):
    install(checkout, Commands(checkout.home))
    (checkout.venv / subject.STAMP).write_text("{")
    assert not has_packages(checkout)


def test_interrupted_installation_is_redone_from_nothing(checkout, capsys):
    with pytest.raises(SetupError, match="packages could not be installed"):
        install(checkout, Commands(checkout.home, failing="requirements.txt"))
    (checkout.venv / "half-written").write_text("")
    assert not is_complete(checkout)
    install(checkout, Commands(checkout.home))
    assert is_complete(checkout)
    assert not (checkout.venv / "half-written").exists()
    assert "starting again from nothing" in capsys.readouterr().out


def test_failed_fetch_of_the_jars_keeps_the_packages(checkout):
    with pytest.raises(SetupError, match="not complete"):
        install(checkout, Commands(checkout.home, failing="--fetch-jars"))
    (checkout.venv / "kept").write_text("")
    install(checkout, Commands(checkout.home))
    assert (checkout.venv / "kept").exists()


def test_pip_installs_where_uv_is_not_to_be_had(checkout, monkeypatch):
    monkeypatch.setattr(subject.shutil, "which", lambda _: None)
    commands = Commands(checkout.home, failing="uv==")
    install(checkout, commands)
    assert any("-m pip install --quiet --no-deps -r" in words for words in commands.seen)


def test_cuda_takes_the_other_build_of_fbgemm_at_the_same_version(checkout):
    constraints = (checkout.root / "constraints.txt").read_text()
    assert requirements(constraints, "cuda").splitlines() == ["fbgemm-gpu==1.8.0", "torch==2.13.0"]
    assert requirements(constraints, "cpu") == constraints


def test_another_python_is_refused_and_nothing_is_written(monkeypatch, capsys, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(subject, "PYTHON_VERSION", (2, 7))
    assert subject.main([]) == SetupError.exit_code
    assert "2.7 is needed" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []
