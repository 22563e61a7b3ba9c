"""Terms of pairs equal their equation written out, and find the features whose pairs matter."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import IdFeature, InputLayout, TableSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.pairs import PAIR, SCALE, PairTerms
from gem_pipeline.models.support import EXAMPLES, Support
from gem_pipeline.training.optimizer import ModelOptimizer
from gem_pipeline.training.settings import TrainConfig
from tests.batches_factory import batch_of_ids, random_batch, small_layout, take_rows

LAYOUT = replace(
    small_layout(),
    tables=(TableSpec(name="ad", rows=50), TableSpec(name="content", rows=20), TableSpec(name="place", rows=8)),
    tokens=(
        IdFeature(name="ad", table="ad", origin="ads"),
        IdFeature(name="surface", table="place", origin="impressions"),
        IdFeature(name="tags", table="content", origin="ads"),
        IdFeature(name="region", table="place", origin="users"),
    ),
)
ROWS = 4096


def batch_of(ids: list[dict[str, list[int]]]) -> Batch:
    return batch_of_ids(LAYOUT, ids)


def terms(rows: int = ROWS, layout: InputLayout = LAYOUT) -> PairTerms:
    torch.manual_seed(0)
    module = PairTerms(layout, rows)
    torch.nn.init.normal_(module.log_strength_FK, std=0.02)
    torch.nn.init.normal_(next(module.collection.parameters()))
    return module


def the_row(module: PairTerms, other: tuple[str, int], ad: tuple[str, int]) -> int:
    """The row of a pair, by a batch that has one id of the two features and none of the others."""
    empty = {f.name: [] for f in LAYOUT.tokens}
    pairs = module.all_pairs(batch_of([empty | {other[0]: [other[1]], ad[0]: [ad[1]]}]))
    assert pairs.length_B.tolist() == [1]
    assert module.names[int(pairs.feature_P)] == (other[0], ad[0])
    return int(pairs.row_P)


ID = st.lists(st.integers(0, 7), max_size=3)


@settings(max_examples=30)
@given(st.lists(st.fixed_dictionaries({feature.name: ID for feature in LAYOUT.tokens}), min_size=1, max_size=4))
def test_logits_equal_the_sum_over_all_pairs_written_out(ids):
    module = terms()
    table = next(module.collection.parameters())
    strength = dict(zip(module.names, module.strengths(), strict=True))
    found = module(batch_of(ids))
    for row, own in enumerate(ids):
        expected = torch.zeros(len(LAYOUT.objectives))
        for other in ("surface", "region"):
            for ad in ("ad", "tags"):
                for a in own[other]:
                    for b in own[ad]:
                        weight = table[the_row(module, (other, a), (ad, b))][: len(LAYOUT.objectives)]
                        expected = expected + strength[other, ad] * weight / (len(own[other]) * len(own[ad]))
        assert torch.allclose(found[row], expected, atol=1e-5)


def test_pairs_of_other_features_or_with_sides_exchanged_are_other_pairs():
    module = terms()
    module.rows = 2**31  # too many to hold, enough to tell all apart
    places = [(("surface", "region"), ("ad", "tags"), a, b) for a in range(8) for b in range(8)]
    rows = [the_row(module, (o, a), (d, b)) for others, ads, a, b in places for o in others for d in ads]
    assert len(set(rows)) == 4 * 64


def test_an_example_scores_the_same_in_any_company():
    module, batch = terms(), random_batch(LAYOUT, [2, 0, 1, 3, 0])
    assert torch.allclose(module(take_rows(batch, LAYOUT, [3, 1])), module(batch)[[3, 1]], atol=1e-6)


def test_pairs_say_nothing_before_they_are_learnt():
    module = PairTerms(LAYOUT, ROWS)
    assert torch.equal(module(random_batch(LAYOUT, [0, 1])), torch.zeros(2, 2))
    assert torch.allclose(module.strengths(), torch.full((4, 2), SCALE))


def test_strength_goes_to_the_features_whose_pairs_matter():
    """Clicks depend on region and tag together, on neither alone: the pairs of both grow strong, ad x surface weak."""
    torch.manual_seed(1)
    module = PairTerms(LAYOUT, ROWS)
    optimizer = ModelOptimizer(module, TrainConfig(batch_size=64, dense_lr=2e-3, embedding_lr=0.01))
    for step in range(300):
        generator = torch.Generator().manual_seed(step)
        drawn = torch.randint(0, 4, (64, 4), generator=generator)
        names = ("ad", "surface", "tags", "region")
        batch = batch_of([dict(zip(names, ([int(i)] for i in row), strict=True)) for row in drawn])
        agree_B = (drawn[:, 2] + drawn[:, 3]) % 2 == 0
        label_B = (torch.rand(64, generator=generator) < torch.where(agree_B, 0.8, 0.2)).float()
        optimizer.step(torch.nn.functional.binary_cross_entropy_with_logits(module(batch)[:, 0], label_B))
    strength = dict(zip(module.names, module.strengths()[:, 0].tolist(), strict=True))
    assert list(module.strongest(1)) == [("region", "tags")]
    assert strength["region", "tags"] > 2 * max(value for pair, value in strength.items() if pair != ("region", "tags"))


def test_a_layout_that_tells_no_sides_is_refused():
    blind = replace(LAYOUT, tokens=tuple(replace(f, origin="") for f in LAYOUT.tokens))
    with pytest.raises(ConfigError, match="origin"):
        PairTerms(blind, ROWS)


def test_features_are_crossed_where_examples_are_many_for_the_pairs_of_their_ids():
    module = terms()
    ids = [{"ad": [n], "surface": [1], "tags": [n % 2], "region": [n % 3]} for n in range(50)] * 2
    support = Support(module)
    for first in range(0, len(ids), 16):
        support.add(batch_of(ids[first : first + 16]))
    support.fix()
    assert module.is_fitted
    found = dict(zip(module.names, module.support_F.tolist(), strict=True))
    expected = {("surface", "ad"): 2, ("surface", "tags"): 50, ("region", "ad"): 2, ("region", "tags"): 100 / 6}
    assert found == pytest.approx(expected, rel=0.05)  # rows collide
    crossed = module.pairs(batch_of(ids[:4]), torch.nonzero(module.support_F >= EXAMPLES).flatten())
    assert crossed.length_B.tolist() == [1] * 4
    assert [module.names[place] for place in crossed.feature_P.tolist()] == [("surface", "tags")] * 4


def test_features_never_seen_together_are_judged_when_they_are():
    module, empty = terms(), {"ad": [], "surface": [1], "tags": [2], "region": []}
    support = Support(module)
    support.add(batch_of([empty] * 40))
    support.fix()
    assert not module.is_fitted
    later = Support(module)
    later.add(batch_of([{"ad": [3], "surface": [n], "tags": [2], "region": [4]} for n in range(8)]))
    later.fix()
    found = dict(zip(module.names, module.support_F.tolist(), strict=True))
    assert found == {("surface", "ad"): 1, ("surface", "tags"): 40, ("region", "ad"): 8, ("region", "tags"): 8}


def test_pairs_learn_from_news_alone_and_are_heard_all_the_same():
    torch.manual_seed(0)
    model, batch = FoundationModel(LAYOUT, FoundationConfig(dim=8, pair_rows=ROWS)), random_batch(LAYOUT, [3, 0, 5])
    assert model.pairs is not None
    support = Support(model.pairs)
    for _ in range(40):
        support.add(batch)
    support.fix()
    table = next(model.pairs.collection.parameters())
    torch.nn.init.normal_(table)
    found = model(batch).logit_BK.detach()
    optimizer = ModelOptimizer(model, TrainConfig(batch_size=3, dense_lr=1e-3, embedding_lr=0.01, weight_decay=0.1))
    for news in (False, True):
        model.expect_news(news)
        before = {name: value.clone() for name, value in model.state_dict().items()}
        optimizer.step(model(batch).logit_BK.square().sum())
        moved = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
        assert {"pairs.log_strength_FK" in moved, f"pairs.collection.embeddings.{PAIR}.weight" in moved} == {news}
        assert "heads.shared.weight" in moved
        if not news:
            model.load_state_dict(before)
            torch.testing.assert_close(model(batch).logit_BK, found)


@pytest.mark.parametrize("id_tables", ["hashed", "lfu"])
@pytest.mark.parametrize("alike", [False, True])
def test_a_model_hears_the_pairs_of_its_ids_as_they_were_read(id_tables, alike):
    layout = LAYOUT if id_tables == "hashed" else LAYOUT.managed()
    torch.manual_seed(0)
    config = FoundationConfig(dim=8, pair_rows=ROWS, id_tables=id_tables, surfaces_alike=alike)
    model, batch = FoundationModel(layout, config), random_batch(LAYOUT, [3, 0, 5])
    silent = model(batch).logit_BK
    assert model.pairs is not None
    torch.nn.init.normal_(next(model.pairs.collection.parameters()))
    read = batch.shown_anywhere("surface") if alike else batch
    torch.testing.assert_close(model(batch).logit_BK, silent + model.pairs(read), rtol=0, atol=1e-5)
    assert model.pairs(read).any()


def test_a_table_of_less_than_no_rows_is_refused():
    with pytest.raises(ConfigError, match="below 0"):
        FoundationConfig(pair_rows=-1)
