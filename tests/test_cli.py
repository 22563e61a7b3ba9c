"""The command line: bad input ends in one plain sentence, an exit code that is not 0, and nothing written."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest
import yaml

from gem_pipeline import cli, preflight
from gem_pipeline.contracts.contract import load_contract


@pytest.fixture(autouse=True)
def _own_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("GEM_HOME", "GEM_DATA", "GEM_CONTRACT", "GEM_DEBUG"):
        monkeypatch.delenv(name, raising=False)


def refuse(capsys, *words: str) -> str:
    """Run a command that must fail; returns its message after checking its form."""
    code = cli.main(words)
    captured = capsys.readouterr()
    assert code not in (0, 1), "a failure has the exit code of its kind"
    assert captured.err.count("\n") == 1, "one sentence, no traceback"
    assert "Traceback" not in captured.err
    return captured.err


def edited_contract(path: Path, **changes) -> Path:
    document = yaml.safe_load((Path(cli.__file__).parent / "contracts" / "template.yaml").read_text())
    path.write_text(yaml.safe_dump({**document, **changes}))
    return path


def test_help_comes_without_heavy_imports():
    code = "import sys, gem_pipeline.cli as c\ntry: c.main(['--help'])\nexcept SystemExit: pass\n"
    code += "print(sorted({'torch', 'pyspark', 'dagster', 'mlflow', 'pandas', 'pydantic'} & set(sys.modules)))"
    started = time.monotonic()
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert answer.stdout.splitlines()[-1] == "[]"
    assert time.monotonic() - started < 5  # 0.1 s on an idle machine


def test_init_writes_a_contract_that_loads_and_never_overwrites(capsys, tmp_path):
    assert cli.main(["init"]) == 0
    assert load_contract(tmp_path / "contract.yaml").source == "tables"
    (tmp_path / "contract.yaml").write_text("mine")
    assert "exists already" in refuse(capsys, "init")
    assert (tmp_path / "contract.yaml").read_text() == "mine"


def test_init_into_a_missing_folder_is_refused(capsys, tmp_path):
    assert "cannot be written" in refuse(capsys, "init", str(tmp_path / "no" / "contract.yaml"))


def test_contract_that_is_missing_or_no_yaml_is_refused(capsys, tmp_path):
    assert "cannot be read" in refuse(capsys, "check", "--contract", str(tmp_path / "none.yaml"))
    (tmp_path / "bytes.yaml").write_bytes(b"\xff\xfe\x00")
    assert "cannot be read" in refuse(capsys, "check", "--contract", str(tmp_path / "bytes.yaml"))


def test_unknown_key_of_a_contract_is_named(capsys, tmp_path):
    path = edited_contract(tmp_path / "c.yaml", partitions={"column": "date"})
    assert "partitions" in refuse(capsys, "check", "--contract", str(path))


def test_unknown_column_is_named(capsys, tmp_path):
    import pyarrow as pa
    from deltalake import write_deltalake

    path = edited_contract(tmp_path / "c.yaml")
    document = yaml.safe_load(path.read_text())
    document["tables"]["impressions"]["path"] = "mine"
    path.write_text(yaml.safe_dump(document))
    write_deltalake(str(tmp_path / ".gem" / "lake" / "mine"), pa.table({"impression_id": ["a"], "ad_id": ["x"]}))
    assert "column user_id (user) is missing" in refuse(capsys, "check", "--contract", str(path))


def test_missing_table_is_named(capsys, tmp_path):
    path = edited_contract(tmp_path / "c.yaml")
    assert "no readable delta table at /data/ads/impressions" in refuse(capsys, "check", "--contract", str(path))


def test_check_of_the_packaged_contract_says_that_the_demo_lands_its_tables(capsys):
    assert cli.main(["check"]) == 0
    assert "`gem demo` lands them" in capsys.readouterr().out


def test_demo_without_java_is_refused_and_writes_nothing(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert "Java was not found" in refuse(capsys, "demo")
    assert list(tmp_path.iterdir()) == []


def test_demo_with_a_named_data_folder_that_is_missing_is_refused_and_writes_nothing(capsys, monkeypatch, tmp_path):
    assert "nowhere does not exist" in refuse(capsys, "demo", "--data", str(tmp_path / "nowhere"))
    monkeypatch.setenv("GEM_DATA", str(tmp_path / "nowhere"))
    assert "nowhere does not exist" in refuse(capsys, "demo")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--days"])
def test_demo_with_no_day_or_seed_is_refused(capsys, option):
    assert f"{option} is 0" in refuse(capsys, "demo", option, "0")


def test_doctor_refuses_a_port_in_use(capsys):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        assert "cannot be opened" in refuse(capsys, "doctor", "--port", str(other.getsockname()[1]))


def test_doctor_lists_every_check_and_ends_with_the_code_of_the_first_failure(capsys, monkeypatch):
    assert cli.main(["doctor"]) == 0
    assert capsys.readouterr().out.count("ok ") == 4
    monkeypatch.setattr(preflight, "check_java", lambda _: preflight.check_port(0))
    assert cli.main(["doctor"]) == 12
    assert "FAILED  java" in capsys.readouterr().out


def test_debug_adds_the_traceback(capsys, monkeypatch):
    monkeypatch.setenv("GEM_DEBUG", "1")
    assert cli.main(["demo", "--days", "0"]) == 12
    assert "Traceback" in capsys.readouterr().err


def test_wrong_option_is_refused_with_the_usage():
    with pytest.raises(SystemExit) as caught:
        cli.main(["demo", "--dyas", "3"])
    assert caught.value.code == 2


def test_installed_command_answers():
    command = Path(sys.executable).with_name("gem")
    answer = subprocess.run([command, "--help"], capture_output=True, text=True, check=True, env=os.environ)
    assert "commands:" in answer.stdout
