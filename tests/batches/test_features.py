"""Columns become inputs: the ones a layout names and no others, with the values of the full layout."""

from __future__ import annotations

import numpy as np
import pytest

from gem_pipeline.batches.features import POINTER, event_columns
from gem_pipeline.batches.layout import input_layout
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.batches.windows import EventGroup, WindowSpec
from tests.lake_factory import DAYS, contract, make_lake

FULL = WindowSpec(max_events=8)
NARROW = WindowSpec(max_events=8, inputs=("event_ad", "did_click"))


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home


def test_a_model_without_attributes_does_not_read_them():
    own = contract()
    attributes = {a.name for a in own.sequence.attributes}
    full = event_columns(own, input_layout(own), FULL)
    narrow = event_columns(own, input_layout(own).narrowed(NARROW.inputs), NARROW)
    assert attributes <= set(full)
    assert set(narrow) == {*POINTER, "ad_id", "actions"}


def test_what_selects_events_is_read_although_no_input_needs_it():
    own = contract()
    spec = WindowSpec(max_events=8, inputs=("event_ad",), groups=(EventGroup(max_events=1, surfaces=own.surfaces[:1]),))
    assert set(event_columns(own, input_layout(own).narrowed(spec.inputs), spec)) == {*POINTER, "ad_id", "surface"}


def test_inputs_of_a_narrow_layout_are_those_of_the_full_one(home):
    full = next(DayReader(contract(), home / "lake", window=FULL).day(DAYS[2]))
    narrow = next(DayReader(contract(), home / "lake", window=NARROW).day(DAYS[2]))
    assert list(narrow.event_ids) == ["event_ad"]
    assert narrow.layout.event_dense == ("log_gap_s", "did_click")
    rows = np.arange(full.size)
    wide, slim = full.batch(rows), narrow.batch(rows)
    assert slim.ids["event_ad"].values().tolist() == wide.ids["event_ad"].values().tolist()
    columns = [full.layout.event_dense.index(name) for name in narrow.layout.event_dense]
    assert np.array_equal(slim.event_dense_TE.numpy(), wide.event_dense_TE.numpy()[:, columns])
