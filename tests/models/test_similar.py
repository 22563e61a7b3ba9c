"""Events whose vectors look like the ad's are found, by their vectors as of the event, shared or not."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

import numpy as np
import pytest
import torch
from deltalake import DeltaTable
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.batches.windows import WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.matches import COUNT_SCALE, MatchedHistory
from gem_pipeline.models.newest import newest_windows
from gem_pipeline.runs.moments import fit_moments
from tests.lake_factory import DAYS, make_lake, put_vectors, vector_contract
from tests.oracles.vectors import in_force

WINDOWS, SHARE = (3,), 0.3


@pytest.fixture(scope="module")
def lake(tmp_path_factory):
    home, own = tmp_path_factory.mktemp("similar"), vector_contract()
    make_lake(home, own=own)
    return home, own, put_vectors(home, own)


def read(lake, most=12, *, vectors=True):
    return next(DayReader(lake[1], lake[0] / "lake", window=WindowSpec(max_events=most, vectors=vectors)).day(DAYS[2]))


@pytest.fixture(scope="module")
def part(lake):
    return read(lake)


@pytest.fixture(scope="module")
def matched(part):
    module = MatchedHistory(part.layout, WINDOWS, SHARE)
    module.fit(part.batch(np.arange(part.size)))
    return module


def vectors_of(batch):
    """For each window event its vector, or None."""
    (value_PD,), place_T = batch.event_vectors.values, batch.spread_events(batch.event_vectors.place_UF)[:, 0]
    return [value_PD[place].tolist() if place >= 0 else None for place in place_T.tolist()]


def test_events_bring_the_vectors_that_were_in_force_when_they_happened(lake, part):
    home, _, rows = lake
    events = DeltaTable(str(home / "lake" / "user_events")).to_pyarrow_table()
    ads = defaultdict(set)
    for user, at, ad in zip(*(events[c].to_pylist() for c in ("user_id", "event_ts", "ad_id")), strict=True):
        ads[user, at].add(ad)
    times = np.asarray(part.window.happened_E).astype("datetime64[us]")
    found, present = part.event_vectors["image"].take(np.arange(len(times)))
    assert 0 < present.sum() < len(present)
    for user, at, value, there in zip(
        part.window.user_E.tolist(), times, found.tolist(), present.tolist(), strict=True
    ):
        (when,) = (t for u, t in ads if u == user and np.datetime64(t.replace(tzinfo=None), "us") == at)
        allowed = [
            in_force(rows["ads"], key="ad_id", entity=ad, time=when, name="image", since="valid_from")
            for ad in ads[user, when]
        ]
        assert any(a is None if not there else a is not None and np.allclose(a, value) for a in allowed)


def test_a_window_without_vectors_reads_none_and_is_the_same_otherwise(lake, part):
    plain = read(lake, vectors=False)
    batch, other = plain.batch(np.arange(9)), part.batch(np.arange(9))
    assert batch.event_vectors is None
    assert torch.equal(batch.ids.values(), other.ids.values())
    assert MatchedHistory(plain.layout, WINDOWS, SHARE).similar is None


@settings(max_examples=20)
@given(data=st.data(), share=st.booleans())
def test_counts_of_similar_events_are_those_counted_one_by_one(part, matched, data, share):
    rows = np.array(data.draw(st.lists(st.integers(0, part.size - 1), min_size=1, max_size=12)))
    batch = part.batch(rows, share=share)
    plain = expand_histories(batch, part.layout)
    vectors, bound = vectors_of(plain), float(matched.similar.bound_V[0])
    told_BAWE = matched(batch)[:, :-1].view(len(rows), matched.num_features, len(WINDOWS) + 1, -1)
    lengths, first = plain.ids[part.layout.event_ids[0].name].lengths().tolist(), 0
    start = sum(f.dim for f in part.layout.vectors[: matched.similar.places[0]])
    for row, length in enumerate(lengths):
        own = plain.vectors.value_BV[row, start : start + len(plain.event_vectors.values[0][0])].numpy()
        here, first = vectors[first : first + length], first + length
        there = bool(plain.vectors.present_BF[row, matched.similar.places[0]]) and np.linalg.norm(own) > 0
        alike = [there and v is not None and cosine(own, v) >= bound for v in here]
        for column, window in enumerate((*WINDOWS, length)):
            count = sum(alike[max(0, length - window) :]) if window else 0
            assert told_BAWE[row, -1, column, 0] == pytest.approx(np.log1p(count) / COUNT_SCALE, abs=1e-6)


def cosine(a, b):
    return float(np.dot(a, b) / max(np.linalg.norm(a) * np.linalg.norm(b), 1e-9)) if np.linalg.norm(b) else -2.0


def test_the_bound_is_that_of_the_asked_share_and_stays(part, matched):
    batch = part.batch(np.arange(part.size))
    length_B = batch.ids[part.layout.event_ids[0].name].lengths()
    row_T = torch.repeat_interleave(torch.arange(batch.size), length_B)
    cosine_TV = matched.similar.cosines(batch, torch.arange(len(row_T)), row_T)
    known = cosine_TV[~cosine_TV.isnan()]
    assert float((known >= matched.similar.bound_V[0]).float().mean()) == pytest.approx(SHARE, abs=0.05)
    before = matched.similar.bound_V.clone()
    matched.fit(part.batch(np.arange(3)))
    assert torch.equal(matched.similar.bound_V, before)


def test_a_batch_without_vectors_finds_nothing_alike_and_fixes_no_bound(part):
    module = MatchedHistory(part.layout, WINDOWS, SHARE)
    bare = replace(part.batch(np.arange(9)), event_vectors=None)
    module.fit(bare)
    told = module(bare)[:, :-1].view(9, module.num_features, -1)
    assert not told[:, -1].any()
    assert (module.similar.bound_V > 1.0).all()


@pytest.mark.parametrize("share", [False, True])
def test_a_cut_batch_keeps_the_vectors_of_its_events(lake, part, share):
    rows = np.arange(40)
    cut, wanted = newest_windows(part.batch(rows, share=share), part.layout, 4), read(lake, 4).batch(rows, share=share)
    assert vectors_of(expand_histories(cut, part.layout)) == vectors_of(expand_histories(wanted, part.layout))


def test_a_model_hears_of_similar_events(part):
    config = FoundationConfig(dim=8, history=WindowSpec(max_events=4), match_windows=WINDOWS, matched_events=12,
                              similar_share=SHARE)  # fmt: skip
    assert config.read_window == WindowSpec(max_events=12, vectors=True)
    torch.manual_seed(0)
    model = FoundationModel(part.layout, config)
    fit_moments(model, [part])
    batch = part.batch(np.arange(30), share=True)
    said = model(batch).logit_BK
    said.sum().backward()
    deaf = model(replace(batch, event_vectors=None)).logit_BK
    assert said.isfinite().all()
    assert not torch.equal(said, deaf)
    for moved in vars(batch.to(torch.device("meta")).event_vectors).values():
        assert {t.device.type for t in (moved if isinstance(moved, tuple) else (moved,))} == {"meta"}


def test_a_share_that_is_none_or_counts_nothing_is_refused():
    with pytest.raises(ConfigError, match="is no share"):
        FoundationConfig(match_windows=(2,), similar_share=1.0)
    with pytest.raises(ConfigError, match="no match_windows"):
        FoundationConfig(similar_share=0.1)
