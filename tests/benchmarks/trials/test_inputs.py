"""Inputs given to encoded days."""

from __future__ import annotations

import numpy as np

from benchmarks.trials.inputs import with_user_id
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import WindowSpec
from tests.lake_factory import DAYS, contract, make_lake


def test_a_user_id_is_one_more_token_with_rows_of_its_own(tmp_path):
    make_lake(tmp_path)
    (part, *_) = DayReader(contract(), tmp_path / "lake", window=WindowSpec(max_events=4)).day(DAYS[-1])
    told = with_user_id(part, 64)
    assert with_user_id(part, 0) is part
    ids, length_N = told.token_ids["user"]
    assert ids.min() >= 1
    assert ids.max() < 64
    np.testing.assert_array_equal(length_N, 1)
    same = part.user_N[:, None] == part.user_N
    assert (ids[:, None] == ids)[same].all()
    assert told.batch(np.arange(part.size)).ids.keys() == list(told.layout.keys)
