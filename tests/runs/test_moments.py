"""Moments of a day: of all rows, whatever the parts; histories that appear later are measured later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.models.foundation import SMALLEST_DEVIATION, FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.runs.moments import dense_moments, fit_moments
from tests.lake_factory import DAYS

CONFIG = FoundationConfig(dim=8, history=WindowSpec(max_events=4), match_windows=(2,), matched_events=12)


@pytest.fixture(scope="module")
def parts(chain):
    return chain.read(DAYS[2], window=CONFIG.read_window)


def whole(parts):
    return [part.batch(np.arange(part.size)) for part in parts]


def test_dense_moments_are_those_of_all_rows_whatever_the_parts(parts):
    mean_F, std_F = dense_moments(parts)
    dense_NF = np.concatenate([part.dense_NF for part in parts])
    assert np.allclose(mean_F, dense_NF.mean(axis=0), atol=1e-5)
    assert np.allclose(std_F, dense_NF.std(axis=0), atol=1e-5)


@pytest.mark.parametrize("alike", [False, True])
def test_numbers_of_histories_reach_the_model_centred_and_scaled(parts, alike):
    model = FoundationModel(parts[0].layout, replace(CONFIG, surfaces_alike=alike))
    fit_moments(model, parts)
    told_NH = torch.cat([model.history_numbers(batch) for batch in whole(parts)]).double()
    seen_NH = torch.cat([model.normalize_history(model.history_numbers(batch)) for batch in whole(parts)])
    std_H = told_NH.std(dim=0, correction=0)
    spread, wide = std_H > model.normalize_history.CONSTANT, std_H > SMALLEST_DEVIATION
    assert spread.any()
    assert not seen_NH[:, ~spread].any()
    plain_NH = (told_NH - told_NH.mean(dim=0)) / std_H.clamp(min=SMALLEST_DEVIATION)
    expected_NH = plain_NH.clamp(-5.0, 5.0).float()
    torch.testing.assert_close(seen_NH[:, spread], expected_NH[:, spread], rtol=0, atol=1e-3)
    assert wide.any()


def test_a_model_that_began_without_histories_hears_them_once_there_are_any(parts):
    model = FoundationModel(parts[0].layout, CONFIG)
    nothing = torch.zeros(model.normalize_history.mean_F.shape[0])
    model.init_history(nothing, nothing)
    assert not model.normalize_history(model.history_numbers(whole(parts)[0])).any()
    fit_moments(model, parts, late=True)
    assert model.normalize_history(model.history_numbers(whole(parts)[0])).any()
    before = model.normalize_history.scale_F.clone()
    fit_moments(model, [replace(part, dense_NF=part.dense_NF * 9.0) for part in parts], late=True)
    assert torch.equal(model.normalize_history.scale_F, before)


def test_features_to_cross_are_chosen_by_the_first_day_and_stay(parts):
    model = FoundationModel(parts[0].layout, replace(CONFIG, pair_rows=4096))
    assert model.pairs is not None
    assert not model.pairs.is_fitted
    fit_moments(model, parts)
    support_F = model.pairs.support_F.clone()
    rows, surfaces = sum(part.size for part in parts), len(np.unique(np.concatenate([p.surface_N for p in parts])))
    ads = len(np.unique(np.concatenate([part.token_ids["ad"][0] for part in parts])))
    least, most = rows / (surfaces * ads), rows / max(surfaces, ads)
    assert least <= float(support_F[model.pairs.names.index(("surface", "ad"))]) <= most
    fit_moments(model, parts[:1], late=True)
    assert torch.equal(model.pairs.support_F, support_F)


def test_ids_that_are_frequent_are_known_after_the_first_day_and_stay(parts):
    model = FoundationModel(parts[0].layout, replace(CONFIG, tower_hidden=(4,)))
    assert model.tower is not None
    assert not model.tower.is_fitted
    fit_moments(model, parts)
    support_F = model.tower.support_F.clone()
    rows, surfaces = sum(part.size for part in parts), len(np.unique(np.concatenate([p.surface_N for p in parts])))
    assert float(support_F[model.tower.names.index("surface")]) == pytest.approx(rows / surfaces)
    fit_moments(model, parts[:1], late=True)
    assert torch.equal(model.tower.support_F, support_F)
