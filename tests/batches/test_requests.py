"""Each example finds the events of its request's window."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import strategies as st

from gem_pipeline.batches.requests import window_places


@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=6), data=st.data())
def test_the_events_of_a_request_are_laid_out_once_for_each_of_its_examples(lengths, data):
    asked = data.draw(st.lists(st.integers(0, len(lengths) - 1), max_size=9))
    length_R, request_B = torch.tensor(lengths), torch.tensor(asked, dtype=torch.int64)
    rows = torch.split(torch.arange(sum(lengths)), lengths)
    expected = [place for request in asked for place in rows[request].tolist()]
    assert window_places(length_R, request_B, length_R[request_B]).tolist() == expected
