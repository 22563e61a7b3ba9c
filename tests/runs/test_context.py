"""What the tasks of a day share: base rates smoothed by the pooled rate, and what was seen before."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.runs.context import PRIOR_ROWS, DayContext, label_rates
from tests.lake_factory import DAYS


@pytest.fixture(scope="module")
def parts(chain):
    return chain.read(DAYS[0], window=WindowSpec(max_events=4))


def test_a_surface_starts_from_its_rate_smoothed_by_the_rate_over_all(chain, parts):
    frame = chain.table("examples", DAYS[0])
    pooled = frame.label__click.mean()
    here = frame[frame.surface == "tab_1"].label__click
    expected = (here.sum() + PRIOR_ROWS * pooled) / (len(here) + PRIOR_ROWS)
    assert label_rates(parts)[0, 0] == pytest.approx(expected)


def test_a_surface_without_rows_starts_from_the_rate_over_all(chain, parts):
    pooled = chain.table("examples", DAYS[0]).label__like.mean()
    assert label_rates(parts)[5, 3] == pytest.approx(pooled)


def test_rates_that_do_not_ask_for_the_surface_are_those_over_all(chain, parts):
    frame = chain.table("examples", DAYS[0])
    rates = label_rates(parts, by_surface=False)
    assert rates.shape == (1, len(parts[0].layout.objectives))
    assert rates[0, 0] == pytest.approx(frame.label__click.mean())


def test_an_objective_without_labels_has_no_rate(parts):
    masks = [part.mask_NK.copy() for part in parts]
    for mask_NK in masks:
        mask_NK[:, 1] = False
    rates = label_rates([replace(part, mask_NK=mask) for part, mask in zip(parts, masks, strict=True)])
    assert np.isnan(rates[:, 1]).all()
    assert np.isfinite(np.delete(rates, 1, axis=1)).all()


def test_a_context_knows_what_its_models_have_seen(chain):
    assert DayContext(chain.plan(DAYS[0])).trained_through == ""
    assert DayContext(chain.plan(DAYS[2])).trained_through == DAYS[1]


def test_histories_are_cut_to_the_events_asked_for(chain):
    parts = DayContext(chain.plan(DAYS[2])).read(DAYS[2], window=WindowSpec(max_events=3))
    assert max(part.window.lengths.max() for part in parts) == 3
    assert sum(part.size for part in parts) == 240
