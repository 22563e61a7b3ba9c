"""The layout of a contract is complete, consistent and survives storage."""

from __future__ import annotations

import json

import pytest

from gem_pipeline.batches.layout import (
    EVENT_AD,
    PLACE_TABLE,
    WHOLE_IDS,
    InputLayout,
    dense_names,
    input_layout,
)
from gem_pipeline.errors import ConfigError
from tests.batches_factory import kuairand_layout, small_layout
from tests.lake_factory import contract, vector_contract

OWN = contract()
LAYOUT = input_layout(OWN)


def test_a_layout_survives_json():
    for layout in (kuairand_layout(), small_layout()):
        assert InputLayout.from_dict(json.loads(json.dumps(layout.to_dict()))) == layout


def test_every_feature_is_read_once_as_an_id_or_as_a_number():
    ids = [feature.name for feature in LAYOUT.tokens]
    assert ids[:2] == ["ad", "surface"]
    assert ids[2:] == [f.name for f in OWN.features if f.kind != "dense"]
    assert set(LAYOUT.dense) >= {f.name for f in OWN.features if f.kind == "dense"}
    assert len(set(LAYOUT.keys)) == len(LAYOUT.keys)
    assert len(set(LAYOUT.dense)) == len(LAYOUT.dense)


def test_keys_are_tokens_and_then_event_ids():
    assert LAYOUT.keys == tuple(f.name for f in (*LAYOUT.tokens, *LAYOUT.event_ids))
    assert LAYOUT.event_ids[0].name == EVENT_AD


def test_every_id_has_a_table_and_the_ad_shares_its_own_with_the_history():
    rows = {table.name: table.rows for table in LAYOUT.tables}
    assert {f.table for f in (*LAYOUT.tokens, *LAYOUT.event_ids)} <= set(rows)
    assert LAYOUT.tokens[0].table == LAYOUT.event_ids[0].table == OWN.sequence.ad_table


def test_surfaces_and_sources_fit_into_the_place_table_beside_the_missing_value():
    (place,) = [table for table in LAYOUT.tables if table.name == PLACE_TABLE]
    assert place.rows == 1 + len(OWN.surfaces) + len(OWN.sequence.sources)


def test_a_counter_gives_its_size_and_a_rate_a_kind():
    group = OWN.counters.groups[0]
    names = dense_names(OWN)
    first = names.index(f"{group.name}__log_events")
    rates = tuple(f"{group.name}__logit_{kind}" for kind in group.kinds)
    assert names[first + 1 : first + 1 + len(rates)] == rates


def test_events_carry_a_flag_a_kind():
    assert LAYOUT.event_dense == ("log_gap_s", "log_value", *(f"did_{kind}" for kind in OWN.sequence.kinds))


def test_surfaces_and_objectives_keep_the_order_of_the_contract():
    assert LAYOUT.surfaces == OWN.surfaces
    assert LAYOUT.objectives == tuple(o.name for o in OWN.objectives)


def test_a_narrower_layout_keeps_the_order_and_always_the_time_gap():
    narrow = LAYOUT.narrowed(("log_value", EVENT_AD))
    assert narrow.event_ids == LAYOUT.event_ids[:1]
    assert narrow.event_dense == ("log_gap_s", "log_value")
    assert narrow.event_columns == ("ad_id", "value")
    assert LAYOUT.narrowed(()) == LAYOUT


@pytest.mark.parametrize(
    ("inputs", "named"), [(("event_ad", "event_mood"), "event_mood"), (("log_value",), "event id")]
)
def test_a_layout_without_an_event_id_or_with_a_stranger_is_refused(inputs, named):
    with pytest.raises(ConfigError, match=named):
        LAYOUT.narrowed(inputs)


def test_vectors_are_inputs_of_their_own_and_layouts_from_before_have_none():
    own = input_layout(vector_contract())
    assert [(v.name, v.dim) for v in own.vectors] == [("image", 3), ("taste", 2)]
    assert (own.tokens, own.dense) == (LAYOUT.tokens, LAYOUT.dense)
    assert InputLayout.from_dict(json.loads(json.dumps(own.to_dict()))) == own
    assert InputLayout.from_dict({k: v for k, v in LAYOUT.to_dict().items() if k != "vectors"}) == LAYOUT


def test_a_managed_layout_takes_whole_ids_to_all_tables_but_places():
    managed = LAYOUT.managed()
    assert managed.whole_ids
    assert not LAYOUT.whole_ids
    assert {table.name for table in managed.tables if not table.managed} == {PLACE_TABLE}
    assert all(table.encoded_rows == (WHOLE_IDS if table.managed else table.rows) for table in managed.tables)
    assert InputLayout.from_dict(json.loads(json.dumps(managed.to_dict()))) == managed
