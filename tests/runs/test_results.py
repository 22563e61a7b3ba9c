"""Results are read on a terminal and as a picture; what has no value says why."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import Estimate, MetricState
from gem_pipeline.runs.evaluation import ALONE, BASE_RATE, MODEL_ORDER, TAUGHT, EvaluationReport, evaluate
from gem_pipeline.runs.results import (
    LABELS,
    interval,
    judged_cells,
    percent,
    picture,
    text_table,
    transfer_table,
    verdicts,
)
from gem_pipeline.training.plan import GEM
from tests.chain_factory import VERTICALS
from tests.lake_factory import CONTRACT_PATH, DAYS

EMPTY = EvaluationReport(dates=(), judged={}, rows=[], comparisons=[], transfer={})


@pytest.fixture(scope="module")
def report(chain, tmp_path_factory) -> EvaluationReport:
    """The chain's results, judged from 60 rows of each class on."""
    text = CONTRACT_PATH.read_text().replace(
        "min_positives: 300, min_negatives: 300", "min_positives: 60, min_negatives: 60"
    )
    path = tmp_path_factory.mktemp("contract") / "contract.yaml"
    path.write_text(text)
    return evaluate(str(path), str(chain.home), DAYS, BootstrapConfig(resamples=30, auc_resamples=20))


def test_cells_that_are_large_enough_are_shown_with_all_surfaces_first(report):
    cells = judged_cells(report)
    assert ("all", "click") in cells
    assert ("tab_1", "click") in cells
    pooled = [surface == "all" for surface, _ in cells]
    assert pooled == sorted(pooled, reverse=True)
    assert not any(surface == "tab_6" for surface, _ in cells)


def test_the_table_has_a_line_a_cell_and_model(report):
    lines = text_table(report).splitlines()
    here = [line for line in lines if line.startswith("tab_1    click")]
    assert [line[24:45].strip() for line in here] == [LABELS[model] for model in MODEL_ORDER]
    assert len({line[: line.index("(")].split()[-1] for line in here}) == 1, "all models on the same rows"
    assert len([line for line in lines if line.startswith("all      click")]) == 3, "verticals scored a part only"


def test_values_come_with_their_intervals(report):
    ne = report.find("tab_1", "click", GEM).metrics.ne
    assert f"{ne.value:.4f} [{ne.low:.4f},{ne.high:.4f}]" in text_table(report)


def test_a_verdict_is_given_for_every_judged_cell_that_was_compared(report):
    said = verdicts(report, model=GEM, baseline=BASE_RATE)
    assert len(said) == len(judged_cells(report))
    assert all(line.endswith("]") and " % [" in line for line in said)
    taught = {tuple(line.split()[:2]) for line in verdicts(report, model=TAUGHT, baseline=ALONE)}
    assert taught <= set(judged_cells(report))
    assert ("tab_1", "click") in taught
    assert ("tab_1", "like") not in taught
    assert verdicts(report, model=BASE_RATE, baseline=GEM) == []


def test_every_vertical_says_what_the_teacher_gave(report):
    lines = transfer_table(replace(report, transfer={VERTICALS[0]: MetricState.NO_TEACHER_GAIN})).splitlines()
    assert len(lines) == 2
    assert lines[1].startswith(VERTICALS[0])
    assert lines[1].endswith("no_teacher_gain")
    assert " % [" in lines[1]


@pytest.mark.parametrize("shown", ["report", "empty"])
def test_the_picture_is_a_png_of_some_size(report, shown):
    image = picture(report if shown == "report" else EMPTY, "scores")
    assert image.startswith(b"\x89PNG\r\n\x1a\n")
    assert int.from_bytes(image[16:20], "big") > 500


def test_a_report_without_results_is_a_table_without_lines():
    assert len(text_table(EMPTY).splitlines()) == 2
    assert verdicts(EMPTY, model=GEM, baseline=BASE_RATE) == []
    assert len(transfer_table(EMPTY).splitlines()) == 1


def test_a_missing_value_is_named():
    estimate = Estimate(value=-0.0123, low=-0.02, high=0.001)
    assert interval(MetricState.ONE_CLASS) == percent(MetricState.ONE_CLASS) == "one_class"
    assert percent(estimate) == "-1.23 % [-2.00,+0.10]"
    assert interval(0.25) == "0.2500"
