"""The plan of the study keeps its bounds, finished cells stay finished, and figures follow from points alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks.scaling import tell
from benchmarks.scaling_study import laws, page, points
from benchmarks.scaling_study.figures import lines, valued
from benchmarks.scaling_study.ladder import GEM, INTERFORMER, MODELS, RATE, RATES, RUNGS, TOWERED, overrides
from benchmarks.scaling_study.laws import compared_amount, efficiency, fitted, lead, rising
from benchmarks.scaling_study.plan import (
    CELL_SECONDS,
    CONTROLS,
    ENTANGLED,
    MFLOP,
    PLAN_SECONDS,
    REAL,
    SIZE_DATA,
    WORLD,
    plan,
    planned,
    quick_plan,
)  # fmt: skip
from benchmarks.scaling_study.room import Cost, flops_at
from benchmarks.trials.cells import Trial
from benchmarks.trials.homes import Log
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.state import Estimate, MetricState


@pytest.fixture(autouse=True)
def few_replicates(monkeypatch):
    config = BootstrapConfig(resamples=20, auc_resamples=20)
    monkeypatch.setattr(laws, "CONFIG", config)
    monkeypatch.setattr(laws, "SIZE_DATA_CONFIG", config)


ETAS = {"gem": 0.004, "interformer_alone": 0.002, "wukong_alone": 0.001, "dlrm": 0.0005}


def point(cell, noise=0.0, head_start=0.0):
    mflop = MFLOP[cell.architecture][int(cell.size[1:])]
    examples = cell.days * 17_000
    compute = 3e6 * mflop * examples
    return {
        "axis": cell.axis, "log": cell.trial.log, "architecture": cell.architecture, "size": cell.size,
        "days": cell.days, "history": cell.history, "num_surfaces": cell.num_surfaces, "seed": cell.trial.seed,
        "parameters": int(1e5 * mflop), "embedding": 0, "examples": examples, "flops_per_example": 1e6 * mflop,
        "compute": compute, "floor": 0.5, "seconds": 10.0, "train_seconds": 8.0, "commit": "0" * 40,
        "ne": 0.95 - head_start - ETAS[cell.architecture] * np.log(compute / 1e9) + noise, "ne_by_objective": {},
        "key": cell.trial.key,
    }  # fmt: skip


def known(source=REAL, seeds=1, names=tuple(ETAS)):
    cells = [
        planned(source, name, size, days=days, seed=seed)
        for name in names for size in RUNGS[name] for days in source.amounts for seed in range(seeds)
    ]  # fmt: skip
    rng = np.random.default_rng(0)
    return [point(cell, rng.normal(0, 1e-5)) for cell in cells]


def figures(own):
    return list(lines(own, fitted(own)))


def test_the_plan_keeps_to_an_hour_a_cell_and_a_day_in_all():
    cells = plan()
    assert max(cell.seconds for cell in cells) <= CELL_SECONDS
    assert sum(cell.seconds for cell in cells) <= PLAN_SECONDS
    assert len({cell.key for cell in cells}) == len(cells)


def test_the_plan_spans_sizes_amounts_of_data_histories_and_surfaces_of_all_logs():
    cells = plan()
    for source in (REAL, WORLD, ENTANGLED):
        for name in ("gem", "interformer_alone", "wukong_alone", "dcnv2", "dlrm"):
            own = [c for c in cells if c.axis == SIZE_DATA and c.trial.log == source.log.key and c.architecture == name]
            assert len({c.size for c in own}) >= 5
            assert len({c.days for c in own}) >= 3
    assert {c.history for c in cells if c.axis == "history"} == {16, 64, 256, 1024, 4096}
    assert len({c.num_surfaces for c in cells if c.axis == "surfaces"}) == len(REAL.surfaces)


def test_a_prefix_of_the_plan_holds_every_architecture_and_cheaper_cells_only():
    first = plan()[:120]
    assert {cell.architecture for cell in first} >= set(RUNGS)
    assert max(cell.seconds for cell in first) < 200


def test_amounts_of_data_are_nested_and_end_on_the_same_day():
    few, many = (planned(REAL, GEM, "s0", days=days, seed=0).trial.learnt for days in (1, 10))
    assert many[-1:] == few
    assert many == tuple(sorted(many))
    assert max(many) < min(REAL.judged)


def test_the_rates_are_the_best_of_the_committed_search():
    found = [p for p in points.read(points.POINTS) if p["axis"] == "rates"]
    assert all(RATE[name] == RATE[other] for name, other in CONTROLS.items() if name != TOWERED)
    for name in set(RUNGS) - set(CONTROLS):
        by_rate = {p["dense_lr"]: p["ne"] for p in found if p["architecture"] == name}
        assert set(by_rate) == set(RATES)
        assert min(by_rate, key=by_rate.get) == RATE[name]


def test_a_cell_that_has_a_line_is_left_out():
    cells = quick_plan()
    line = {"axis": cells[0].axis, "key": cells[0].trial.key}
    assert points.missing(cells, [line]) == cells[1:]
    assert list(tell(cells, [line]))[-1].startswith(f"{len(cells) - 1} of {len(cells)} cells")


def test_lines_survive_a_file(tmp_path):
    file = tmp_path / "points" / "scaling.jsonl"
    assert points.read(file) == []
    for one in known()[:2]:
        points.append(file, one)
    assert points.read(file) == known()[:2]


def test_every_size_is_a_model_and_sizes_grow():
    for name, sizes in RUNGS.items():
        widths = [
            Trial(log="x", model=MODELS[name], learnt=(), judged=(), foundation=overrides(name, size)).run_config()
            for size in sizes
        ]
        assert [run.foundation.dim for run in widths] == sorted({run.foundation.dim for run in widths})
        assert list(MFLOP[name]) == sorted(MFLOP[name])


def test_gem_reads_the_same_shares_of_any_history():
    branches = dict(overrides(GEM, "s2", 4096))["pyramid"].branches
    assert [branch.newest for branch in branches] == [1024, 4096, 2048]


def test_eta_and_its_ratio_are_found_again():
    rows = {(row["figure"], row["size"].split(",")[0]): row for row in figures(known(seeds=2))}
    assert rows["eta_gem", "kuairand"]["value"] == pytest.approx(0.004, rel=0.02)
    assert rows["eta_ratio", INTERFORMER]["value"] == pytest.approx(2.0, rel=0.03)
    assert rows["sizes_of_monotone_gain", "kuairand"]["value"] == 6
    assert abs(rows["heldout_error", GEM]["value"]) < 1e-3


def test_equal_compute_is_compared_where_all_three_have_four_sizes():
    every = known()
    assert compared_amount(every, "kuairand") == (10, tuple(RUNGS[GEM]))
    fewer = [p for p in every if not (p["architecture"] == INTERFORMER and p["days"] == 10 and p["size"] > "s2")]
    assert compared_amount(fewer, "kuairand") == (3, tuple(RUNGS[GEM]))
    assert compared_amount(every, "elsewhere") is None


def test_a_gem_with_a_tower_leads_where_it_has_its_sizes():
    towered = [p | {"architecture": TOWERED, "ne": p["ne"] - 0.001} for p in known() if p["architecture"] == GEM]
    three = [p for p in towered if p["size"] in {"s0", "s1", "s2"}]
    assert lead(known() + three, "kuairand") == GEM
    every = [p for p in known() if p["architecture"] != GEM] + towered
    assert lead(every, "kuairand") == TOWERED
    (fit,) = fitted(every)
    assert fit.compared == (10, tuple(RUNGS[GEM]))
    assert TOWERED not in fit.ratios
    ratios = {row["baseline"]: row for row in figures(every) if row["figure"] == "eta_ratio"}
    assert ratios[INTERFORMER]["value"] == pytest.approx(2.0, rel=0.03)
    assert "eta of gem_tower over it" in "\n".join(page.page(every, [fit]))


def test_what_gem_does_not_reach_is_a_state_and_a_line_with_its_reason():
    ahead = [p | {"ne": p["ne"] - 0.2} if p["architecture"] == "dlrm" else p for p in known()]
    assert efficiency(ahead, "kuairand", "dlrm") is MetricState.NOT_REACHED
    rows = [row for row in figures(ahead) if row["figure"] == "compute_ratio_dlrm"]
    assert rows[0]["value"] is None
    assert "not_reached" in rows[0]["why"]


def test_no_points_are_lines_without_values():
    rows = figures([])
    assert {"eta_gem", "eta_ratio", "data_exponent"} <= {row["figure"] for row in rows}
    assert all(row["value"] is None and row["why"] for row in rows)


def test_an_interval_without_end_is_told_in_words():
    told = valued(Estimate(value=2.0, low=1.0, high=float("inf")))
    assert "low" not in told
    assert "upwards" in told["why"]


def test_gains_are_told_of_the_most_days_with_four_sizes_though_no_peer_is_there():
    some = [p for p in known() if p["architecture"] == "gem" and (p["days"] == 3 or p["size"] in {"s0", "s1", "s2"})]
    (fit,) = fitted(some)
    assert fit.compared is None
    assert fit.gains == {"gem": (3, 6)}
    assert "gem gains monotonically over 6 sizes at 3 learnt days.\n" in list(page.page(some, [fit]))


def test_gains_are_counted_over_neighbouring_sizes():
    worse = [p | {"ne": 1.0} if p["size"] == "s2" else p for p in known()]
    assert rising(worse, "kuairand", 10) == 4


def test_the_page_has_a_table_a_log_and_says_what_is_missing():
    text = "\n".join(page.page(known(), fitted(known())))
    assert "## kuairand" in text
    assert "| gem | s0 |" in text
    assert "planned cells are not trained yet" in text


def test_flops_at_a_cost_are_read_between_sizes_only():
    costs = [Cost(flops=10.0**n, seconds=2.0**n, kept_bytes=1.0) for n in range(3)]
    assert flops_at(costs, "seconds", 2.0) == pytest.approx(10.0)
    assert flops_at(costs, "seconds", 8.0) is None


@pytest.mark.parametrize("key", ["long_range-3000000-6-0~120x42", "everyday-400000-10-0", "kuairand@2022-05-04"])
def test_a_log_with_denser_histories_is_read_back_from_its_key(key):
    assert Log.parse(key).key == key
