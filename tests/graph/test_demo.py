"""The demo says in one sentence what was wrong."""

from __future__ import annotations

import json
from pathlib import Path

import dagster as dg
import pytest

from gem_pipeline import cli
from gem_pipeline.errors import RunError
from gem_pipeline.places import contract_path
from gem_pipeline.runs.evaluation import EvaluationReport
from jobs import demo
from jobs.demo import DemoOptions, run_demo

pytestmark = pytest.mark.graph


@pytest.fixture
def _failing_trainer(monkeypatch):
    def fail(*_: object, **__: object) -> None:
        raise dg.Failure("The loss of gem became nan at step 3. Lower the learning rates.")

    monkeypatch.setenv("DAGSTER_HOME", "")
    monkeypatch.setenv("GEM_CONTRACT", str(contract_path()))
    monkeypatch.setattr("jobs.demo.run_in_process", fail)


@pytest.mark.usefixtures("_failing_trainer")
def test_the_sentence_of_a_failed_trainer_is_handed_on(tmp_path):
    options = DemoOptions(days=3, home=tmp_path, contract=contract_path(), data="generated:40", reports=tmp_path)
    with pytest.raises(RunError, match="nan at step 3"):
        run_demo(options)
    assert not (tmp_path / "demo.json").exists()


@pytest.mark.usefixtures("_failing_trainer")
def test_the_command_ends_with_that_sentence_and_the_code_of_a_failed_run(tmp_path, capsys):
    code = cli.main(["demo", "--home", str(tmp_path / "home"), "--data", "generated:40"])
    told = capsys.readouterr().err
    assert code == RunError.exit_code
    assert "nan at step 3" in told
    assert "Traceback" not in told
    assert not Path(tmp_path / "home" / "lake").exists()


def test_the_report_tells_all_days_of_the_chain_and_the_installation_apart(tmp_path):
    days = ["2022-05-01", "2022-05-02", "2022-05-03", "2022-05-04"]
    report = EvaluationReport(dates=("2022-05-03", "2022-05-04"), judged={}, rows=[], comparisons=[], transfer={})
    options = DemoOptions(days=4, home=tmp_path, contract=contract_path(), data=None, reports=tmp_path)
    (tmp_path / "install.json").write_text('{"install_s": 61.5, "extra": "cpu"}')
    demo.write_report(options, tmp_path, report, name="kuairand", seconds={"features": 3.0}, chain_s=9.0, chosen=days)
    document = json.loads((tmp_path / "demo.json").read_text())
    assert document["dates"] == days
    assert document["pooled_dates"] == days[2:]
    assert (document["install_s"], document["chain_s"]) == (61.5, 9.0)
    assert (tmp_path / "demo.png").read_bytes().startswith(b"\x89PNG")
