"""A batch cut to its newest events is the batch that a reader with a shorter window hands over, bit by bit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.sharing import expand_histories
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from gem_pipeline.errors import ConfigError
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.newest import newest_windows
from tests.lake_factory import DAYS, contract, make_lake

LONG = WindowSpec(max_events=24)
KINDS = contract().sequence.kinds[1:2]
GROUPED = replace(LONG, groups=(EventGroup(max_events=6), EventGroup(max_events=9, kinds=KINDS)))
SHORT = (1, 4, 7)


@pytest.fixture(scope="module")
def parts(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)

    def read(spec):
        return next(DayReader(contract(), home / "lake", window=spec).day(DAYS[2]))

    return {
        (spec, kept): read(replace(spec, max_events=kept)) for spec in (LONG, GROUPED) for kept in (24, *SHORT)
    }  # fmt: skip


@settings(max_examples=40)
@given(data=st.data(), spec=st.sampled_from([LONG, GROUPED]), kept=st.sampled_from(SHORT), share=st.booleans())
def test_a_cut_batch_is_the_one_that_a_shorter_window_gives(parts, data, spec, kept, share):
    whole, shorter = parts[spec, 24], parts[spec, kept]
    rows = np.array(data.draw(st.lists(st.integers(0, whole.size - 1), min_size=1, max_size=30)))
    cut, wanted = newest_windows(whole.batch(rows, share=share), whole.layout, kept), shorter.batch(rows, share=share)
    if share:
        assert cut.event_dense_TE.shape == wanted.event_dense_TE.shape  # no stored event that no window holds
        assert torch.equal(cut.shared.length_R, wanted.shared.length_R)
        cut, wanted = expand_histories(cut, whole.layout), expand_histories(wanted, whole.layout)
    assert torch.equal(cut.ids.values(), wanted.ids.values())
    assert torch.equal(cut.ids.lengths(), wanted.ids.lengths())
    assert torch.equal(cut.event_dense_TE, wanted.event_dense_TE)


@pytest.mark.parametrize("share", [False, True])
def test_what_is_only_counted_changes_the_counts_and_nothing_else(parts, share):
    far = FoundationConfig(dim=8, history=WindowSpec(max_events=4), match_windows=(2,), matched_events=24)
    assert far.read_window == LONG
    near = replace(far, matched_events=0)
    torch.manual_seed(0)
    model = FoundationModel(parts[LONG, 24].layout, far).eval()
    same = FoundationModel(parts[LONG, 24].layout, near).eval()
    same.load_state_dict(model.state_dict())
    rows = np.arange(60)
    batches = [parts[LONG, kept].batch(rows, share=share) for kept in (24, 4)]
    assert torch.equal(model.matches(batches[1]), same.matches(batches[1]))
    assert not torch.equal(model.matches(batches[0]), model.matches(batches[1]))
    assert torch.equal(model.attended(batches[0]).window_numbers(), batches[1].window_numbers())
    assert not torch.equal(model(batches[0]).logit_BK, same(batches[1]).logit_BK)
    for module in (model, same):
        module.matches.forward = lambda batch: torch.zeros(batch.size, model.matches.num_numbers)
    assert torch.equal(model(batches[0]).logit_BK, same(batches[1]).logit_BK)


def test_events_that_nobody_counts_are_refused():
    with pytest.raises(ConfigError, match="no match_windows"):
        FoundationConfig(matched_events=100)
