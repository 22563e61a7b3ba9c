"""The results table: pooled days, the 'all' surface, partly scored models, comparisons."""

from __future__ import annotations

import json

import numpy as np
import pytest

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.cell import CellRule
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.ne import normalized_entropy
from gem_pipeline.metrics.pooling import Comparison, ScoredRows, TableRow, comparison_rows, pool_days, table_rows
from gem_pipeline.metrics.state import Estimate, MetricState
from tests.metrics.scored_rows import sigmoid

CONFIG = BootstrapConfig(resamples=60, auc_resamples=20)
SURFACES, OBJECTIVES = ("feed", "reels", "stories"), ("click", "buy")


def scored_day(seed: int, *, num_rows: int = 600) -> ScoredRows:
    """A day on the first two surfaces; `buy` exists on feed only; `vertical` scores click on feed only."""
    generator = np.random.default_rng(seed)
    surface_N = generator.integers(0, 2, num_rows)
    logit_NK = generator.normal(size=(num_rows, 2))
    mask_NK = np.ones((num_rows, 2), dtype=bool)
    mask_NK[:, 1] = surface_N == 0
    vertical_NK = np.full((num_rows, 2), np.nan)
    vertical_NK[surface_N == 0, 0] = 0.5
    return ScoredRows(
        surface_N=surface_N,
        user_N=generator.integers(0, 50, num_rows),
        label_NK=np.where(mask_NK, generator.random((num_rows, 2)) < sigmoid(logit_NK), 0.0).astype(np.float64),
        mask_NK=mask_NK,
        prob_by_model={"gem": sigmoid(logit_NK), "constant": np.full((num_rows, 2), 0.45), "vertical": vertical_NK},
    )


def rows_by_cell(rows: ScoredRows) -> dict[tuple[str, str, str], TableRow]:
    table = table_rows(
        rows, surfaces=SURFACES, objectives=OBJECTIVES, config=CONFIG, rule=CellRule(min_positives=50, min_negatives=50)
    )
    return {(row.surface, row.objective, row.model): row for row in table}


def test_a_cell_pools_its_rows_over_days() -> None:
    days = [scored_day(0), scored_day(1)]
    pooled = pool_days(days)
    cell = rows_by_cell(pooled)["feed", "click", "gem"].metrics
    feed_N = pooled.surface_N == 0
    expected = normalized_entropy(pooled.label_NK[feed_N, 0], pooled.prob_by_model["gem"][feed_N, 0])
    assert isinstance(cell.ne, Estimate)
    assert cell.ne.value == pytest.approx(expected)
    assert cell.num_rows == sum(int((day.surface_N == 0).sum()) for day in days)
    assert cell.judged


def test_all_pools_every_surface_and_masked_rows_are_left_out() -> None:
    pooled = pool_days([scored_day(2)])
    table = rows_by_cell(pooled)
    assert table["all", "click", "gem"].metrics.num_rows == 600
    assert table["all", "buy", "gem"].metrics.num_rows == int(pooled.mask_NK[:, 1].sum())
    assert table["reels", "buy", "gem"].metrics.state is MetricState.NO_ROWS
    assert table["stories", "click", "gem"].metrics.state is MetricState.NO_ROWS


def test_a_model_without_a_score_in_a_cell_has_no_row_and_one_with_some_is_named() -> None:
    table = rows_by_cell(pool_days([scored_day(3)]))
    assert ("reels", "click", "vertical") not in table
    assert ("feed", "buy", "vertical") not in table
    assert table["feed", "click", "vertical"].metrics.state is MetricState.OK
    partly = table["all", "click", "vertical"].metrics
    assert partly.state is partly.ne is MetricState.PARTLY_SCORED
    assert not partly.judged


def test_a_model_that_missed_a_day_is_partly_scored() -> None:
    first, second = scored_day(4), scored_day(5)
    late = ScoredRows(
        surface_N=second.surface_N, user_N=second.user_N, label_NK=second.label_NK, mask_NK=second.mask_NK,
        prob_by_model={**second.prob_by_model, "late": second.prob_by_model["gem"]},
    )  # fmt: skip
    assert rows_by_cell(pool_days([first, late]))["feed", "click", "late"].metrics.state is MetricState.PARTLY_SCORED


def test_table_is_in_a_stable_order_and_json_ready() -> None:
    table = table_rows(
        pool_days([scored_day(6)]), surfaces=SURFACES, objectives=OBJECTIVES, config=CONFIG, rule=CellRule()
    )
    assert [(row.objective, row.surface) for row in table if row.model == "gem"] == [
        (objective, surface) for objective in OBJECTIVES for surface in ("all", *SURFACES)
    ]
    document = json.loads(json.dumps([row.to_dict() for row in table], allow_nan=False))
    assert document[0]["surface"] == "all"
    assert document[0]["ne"]["low"] <= document[0]["ne"]["value"]


def test_comparison_uses_rows_that_both_scored_and_pools_every_cell() -> None:
    pooled = pool_days([scored_day(7)])
    pairs = [
        Comparison(model="gem", baseline="constant", model_runs=("gem", "gem"), baseline_runs=("constant", "constant")),
        Comparison(model="gem", baseline="vertical", model_runs=("gem",), baseline_runs=("vertical",)),
    ]
    found = comparison_rows(pooled, pairs, surfaces=SURFACES, objectives=OBJECTIVES, config=CONFIG)
    table = {(row.surface, row.objective, row.baseline): row for row in found}
    everything = table["all", "all", "constant"].difference
    assert everything.num_rows == int(pooled.mask_NK.sum())
    assert everything.num_seeds == 2
    assert everything.better()
    assert table["all", "click", "vertical"].difference.num_rows == int((pooled.surface_N == 0).sum())
    assert ("reels", "click", "vertical") not in table
    assert json.dumps(table["feed", "click", "constant"].to_dict(), allow_nan=False)


def test_what_does_not_fit_is_refused() -> None:
    day = scored_day(8, num_rows=10)
    with pytest.raises(ConfigError, match="models that do not"):
        ScoredRows(
            surface_N=day.surface_N, user_N=day.user_N, label_NK=day.label_NK, mask_NK=day.mask_NK,
            prob_by_model={"gem": np.zeros((9, 2))},
        )  # fmt: skip
    with pytest.raises(ConfigError, match="no scored day"):
        pool_days([])
    with pytest.raises(ConfigError, match="1 objectives for 2"):
        table_rows(day, surfaces=SURFACES, objectives=("click",), config=CONFIG, rule=CellRule())
    with pytest.raises(ConfigError, match="beyond the 1 named"):
        table_rows(day, surfaces=("feed",), objectives=OBJECTIVES, config=CONFIG, rule=CellRule())
    with pytest.raises(ConfigError, match="Pair at least one run"):
        Comparison(model="a", baseline="b", model_runs=("a",), baseline_runs=())
    unknown = Comparison(model="a", baseline="b", model_runs=("a",), baseline_runs=("gem",))
    with pytest.raises(ConfigError, match=r"\['a'\]"):
        comparison_rows(day, [unknown], surfaces=SURFACES, objectives=OBJECTIVES, config=CONFIG)
