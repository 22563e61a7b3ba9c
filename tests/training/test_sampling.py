"""A share of the negatives is learnt from, every positive is, and predictions are those of the whole log."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.settings import ReaderConfig
from gem_pipeline.batches.sources import ResidentParts
from gem_pipeline.batches.stream import BatchStream
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.training.loop import masked_bce
from gem_pipeline.training.sampling import sample_cell, sample_negatives, sample_weights, share_table
from gem_pipeline.training.settings import CellShare, NegativeSampling
from gem_pipeline.transfer.distillation import label_loss
from tests.lake_factory import DAYS, contract, make_lake

ROWS, RATES = 60_000, (0.02, 0.10)  # base rates of the first two objectives
TENTH = NegativeSampling(share=0.1)


@pytest.fixture(scope="module")
def part(tmp_path_factory):
    """Examples whose first dense number says how likely the first two objectives are; the third is rarely there."""
    home = tmp_path_factory.mktemp("lake")
    make_lake(home, days=DAYS[:1], rows=ROWS)
    read = next(DayReader(contract(), home / "lake", window=WindowSpec(max_events=1)).day(DAYS[0]))
    rng = np.random.default_rng(0)
    x_N = rng.normal(size=read.size)
    label_NK = np.zeros_like(read.label_NK)
    mask_NK = np.zeros_like(read.mask_NK)
    for k, rate in enumerate(RATES):
        label_NK[:, k] = rng.random(read.size) < rate * np.exp(x_N) / np.exp(0.5)
    mask_NK[:, :2] = True
    mask_NK[:, 1] = read.surface_N == 0
    mask_NK[: read.size // 50, 2] = True
    dense_NF = np.zeros_like(read.dense_NF)
    dense_NF[:, 0] = x_N
    return replace(read, label_NK=(label_NK * mask_NK).astype(np.float32), mask_NK=mask_NK, dense_NF=dense_NF)


def fit(source, k_of_loss=None, steps=2000):
    """A logistic regression of every objective on the first number, by steps of few examples."""
    torch.manual_seed(0)
    model = nn.Linear(1, len(source.layout.objectives))
    nn.init.constant_(model.bias, -3.0)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.05)
    epochs = max(2, steps * 64 // sum(len(part.learnt_rows) for part in source))
    rates = torch.optim.lr_scheduler.ExponentialLR(optimizer, gamma=0.002 ** (1 / steps))
    for epoch in range(epochs):
        order = np.random.default_rng(epoch)
        for batch in BatchStream(source, batch_size=64, config=ReaderConfig(), generator=order):
            logit_BK = model(batch.dense_BF[:, :1])
            loss = (
                masked_bce(logit_BK, batch.label_BK, batch.mask_BK, batch.weight_BK)
                if k_of_loss is None
                else label_loss(logit_BK[:, k_of_loss], batch, k_of_loss)
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.step()
    return model


def calibration(model, part, k, rows):
    """Mean prediction over base rate."""
    with torch.no_grad():
        prob_N = torch.sigmoid(model(torch.from_numpy(part.dense_NF[rows, :1]))[:, k]).numpy()
    return prob_N.mean() / part.label_NK[rows, k].mean()


@pytest.mark.parametrize(
    "sampling", [TENTH, NegativeSampling(cells=(CellShare(objective="click", share=0.05),)), NegativeSampling()]
)
def test_what_is_learnt_from_a_sample_is_calibrated_on_the_whole_log(part, sampling):
    source = sample_negatives(ResidentParts([part]), sampling, seed=0)
    model = fit(source)
    for k in range(2):
        rows = np.flatnonzero(part.mask_NK[:, k])
        assert calibration(model, part, k, rows) == pytest.approx(1.0, abs=0.06)
        low = rows[part.dense_NF[rows, 0] < 0.5]
        assert calibration(model, part, k, low) == pytest.approx(1.0, abs=0.2)


def test_a_vertical_that_samples_is_calibrated_on_its_cell(part):
    index = np.flatnonzero((part.surface_N == 0) & part.mask_NK[:, 0])
    ((kept_part, kept),) = sample_cell([(part, index)], 0, TENTH, seed=0)
    assert len(kept) < 0.35 * len(index)
    assert kept_part.weight_NK[kept, 0].mean() == pytest.approx(1.0, abs=1e-5)
    only = np.zeros((part.size, 1), dtype=np.float32)
    only[kept] = 1.0
    model = fit(ResidentParts([replace(kept_part, weight_NK=kept_part.weight_NK * only)]), k_of_loss=0)
    assert calibration(model, part, 0, index) == pytest.approx(1.0, abs=0.06)


def test_unweighted_negatives_would_be_far_off(part):
    source = sample_negatives(ResidentParts([part]), TENTH, seed=0)
    blind = ResidentParts([replace(p, weight_NK=(p.weight_NK > 0).astype(np.float32)) for p in source])
    assert calibration(fit(blind), part, 0, np.arange(part.size)) > 2.0


@settings(max_examples=25)
@given(share=st.floats(0.01, 1.0), own=st.floats(0.01, 1.0), seed=st.integers(0, 50))
def test_examples_with_a_positive_are_kept_and_the_others_by_their_id_alone(part, share, own, seed):
    sampling = NegativeSampling(share=share, cells=(CellShare(objective="click", share=own),))
    weight_NK = sample_weights(part, sampling, seed=seed)
    positive_N = ((part.label_NK > 0) & part.mask_NK).any(axis=1)
    assert (weight_NK[positive_N] == part.mask_NK[positive_N]).all()
    assert (weight_NK[~part.mask_NK] == 0).all()
    share_SK = share_table(sampling, part.layout)
    kept_NK = weight_NK > 0
    assert (weight_NK[kept_NK] == np.where(positive_N[:, None], 1.0, 1.0 / share_SK[part.surface_N])[kept_NK]).all()
    wider = sample_weights(part, NegativeSampling(share=max(share, own)), seed=seed) > 0
    assert (wider | ~kept_NK).all()
    assert (sample_weights(part, sampling, seed=seed) == weight_NK).all()
    negatives = (~positive_N & part.mask_NK[:, 0]).sum()
    assert abs(kept_NK[~positive_N, 0].sum() - own * negatives) < 5 * np.sqrt(negatives)


def test_a_pass_goes_through_the_kept_examples_once_and_says_how_many(part):
    source = sample_negatives(ResidentParts([part, part]), TENTH, seed=3)
    batches = list(BatchStream(source, batch_size=64, config=ReaderConfig(), generator=np.random.default_rng(0)))
    assert sum(batch.size for batch in batches) == sum(source.sizes) < part.size
    assert len(batches) == sum(-(-size // 64) for size in source.sizes)
    assert source.costs == [int(kept + part.window.lengths[p.learnt_rows].sum()) for kept, p in zip(
        source.sizes, source, strict=True)]  # fmt: skip
    weight_BK, mask_BK = (torch.cat([getattr(b, name) for b in batches]) for name in ("weight_BK", "mask_BK"))
    torch.testing.assert_close(weight_BK.sum(0), mask_BK.sum(0).float(), rtol=1e-4, atol=0)
    assert len(source.impression_ids()) == 2 * part.size
    assert source.identity != sample_negatives(ResidentParts([part, part]), TENTH, seed=4).identity


def test_where_nothing_is_left_out_nothing_changes(part):
    source = ResidentParts([part])
    everything = NegativeSampling(cells=(CellShare(objective="click", share=1.0),))
    assert sample_negatives(source, everything, seed=0) is source
    assert part.batch(np.arange(3)).weight_BK is None


def test_the_share_of_a_surface_goes_before_that_of_its_objective(part):
    layout = part.layout
    cells = (
        CellShare(objective="click", surface=layout.surfaces[1], share=0.2),
        CellShare(objective="click", share=0.5),
    )
    share_SK = share_table(NegativeSampling(share=0.9, cells=cells), layout)
    k = layout.objectives.index("click")
    assert share_SK[1, k] == 0.2
    assert (np.delete(share_SK[:, k], 1) == 0.5).all()
    assert (np.delete(share_SK, k, axis=1) == 0.9).all()


@pytest.mark.parametrize(
    "wrong",
    [CellShare(objective="nap", share=0.5), CellShare(objective="click", surface="nap", share=0.5)],
)
def test_an_unknown_cell_is_refused(part, wrong):
    with pytest.raises(ConfigError, match="nap"):
        share_table(NegativeSampling(cells=(wrong,)), part.layout)
