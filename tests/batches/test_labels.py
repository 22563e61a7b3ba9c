"""A conversion's label exists when it is mature, and is what had arrived by then."""

from __future__ import annotations

from dataclasses import replace
from datetime import date, timedelta

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.batches.labels import NOTHING_KNOWN, credited_rows, known_conversions, labels_and_masks
from gem_pipeline.contracts import tables
from gem_pipeline.errors import PartitionError
from tests.oracles.conversions import DAYS, conversion_contract

CONTRACT = conversion_contract()
NAMES = [o.name for o in CONTRACT.objectives]
SCHEMA = tables.attributed_conversions()
IDS = ("a", "b", "c")
ROWS = pa.table(
    {"impression_id": list(IDS), "surface": ["s1", "s2", "s1"],
     "label__click": pa.array([1, 0, None], pa.int8()), "label__buy": pa.array([None, 1, 0], pa.int8())}
)  # fmt: skip


def credit(impression, objective, arrived, *, day=DAYS[0], key="k"):
    stamp = arrived + "T00:00:00+00:00"
    return {"date": day, "bucket": 0, "impression_id": impression, "objective": objective, "conversion_key": key,
            "conversion_ts": stamp, "ingest_ts": stamp, "arrived": arrived, "value": None,
            "attribution": "click"}  # fmt: skip


def write(lake, rows):
    columns = {
        c.name: pa.array([row[c.name] for row in rows]).cast(SCHEMA.arrow().field(c.name).type) for c in SCHEMA.columns
    }
    write_deltalake(str(lake / SCHEMA.name), pa.table(columns, schema=SCHEMA.arrow()), mode="overwrite")


credits_drawn = st.lists(
    st.builds(credit, st.sampled_from(IDS), st.sampled_from(NAMES[2:]), st.sampled_from(DAYS),
              day=st.sampled_from(DAYS[:2]), key=st.text("xyz", min_size=1, max_size=3)),
    min_size=1, max_size=8,
)  # fmt: skip


@settings(max_examples=25)
@given(credited=credits_drawn, as_of=st.sampled_from(DAYS))
def test_labels_are_the_mature_conversions_that_had_arrived(tmp_path_factory, credited, as_of):
    lake = tmp_path_factory.mktemp("lake")
    write(lake, credited)
    label_NK, mask_NK = labels_and_masks(CONTRACT, ROWS, known_conversions(CONTRACT, lake, DAYS[0], as_of))
    for k, o in enumerate(CONTRACT.objectives[2:], start=2):
        final = date.fromisoformat(as_of) - date.fromisoformat(DAYS[0]) >= timedelta(days=o.window_days)
        for n, impression in enumerate(IDS):
            shown = final and (not o.surfaces or ROWS["surface"][n].as_py() in o.surfaces)
            there = any(
                (c["impression_id"], c["objective"], c["date"]) == (impression, o.name, DAYS[0])
                and c["arrived"] <= as_of
                for c in credited
            )
            assert (mask_NK[n, k], label_NK[n, k]) == (shown, float(shown and there))


def test_columns_of_the_impressions_are_labels_whatever_is_known():
    label_NK, mask_NK = labels_and_masks(CONTRACT, ROWS, NOTHING_KNOWN)
    assert label_NK[:, :2].tolist() == [[1, 0], [0, 1], [0, 0]]
    assert mask_NK[:, :2].tolist() == [[True, False], [True, True], [False, True]]
    assert not mask_NK[:, 2:].any()


def test_without_a_day_or_before_maturity_the_table_is_not_even_opened(tmp_path):
    assert known_conversions(CONTRACT, tmp_path, DAYS[0], None) is NOTHING_KNOWN
    assert known_conversions(CONTRACT, tmp_path, DAYS[0], DAYS[0]) is NOTHING_KNOWN


def test_labels_that_are_not_shown_do_not_exist():
    label_NK, mask_NK = labels_and_masks(CONTRACT, ROWS, replace(NOTHING_KNOWN, shown=frozenset({"buy"})))
    assert not mask_NK[:, 0].any()
    assert not label_NK[:, 0].any()
    assert mask_NK[:, 1].tolist() == [False, True, True]


def test_a_missing_table_is_named(tmp_path):
    with pytest.raises(PartitionError, match=f"attributed_conversions does not exist, and labels of {DAYS[0]}"):
        known_conversions(CONTRACT, tmp_path, DAYS[0], DAYS[4])


def test_the_version_of_the_table_can_be_pinned_and_rows_come_in_a_fixed_order(tmp_path):
    write(tmp_path, [credit("b", "order", DAYS[1]), credit("a", "order", DAYS[1])])
    version = DeltaTable(str(tmp_path / SCHEMA.name)).version()
    write(tmp_path, [credit("c", "order", DAYS[1])])
    rows = credited_rows(tmp_path, DAYS[:1], DAYS[2], version=version)
    assert rows["impression_id"].to_pylist() == ["a", "b"]
    known = known_conversions(CONTRACT, tmp_path, DAYS[0], DAYS[2])
    assert known.impressions["order"].to_pylist() == ["c"]
    assert known.mature == {"order", "fast_order", "lead"}
    label_NK, _ = labels_and_masks(CONTRACT, ROWS, known)
    assert np.array_equal(label_NK[:, NAMES.index("order")], [0, 0, 1])


def test_a_label_that_no_surface_restricts_exists_on_all(tmp_path):
    write(tmp_path, [credit("b", "fast_order", DAYS[1])])
    _, mask_NK = labels_and_masks(CONTRACT, ROWS, known_conversions(CONTRACT, tmp_path, DAYS[0], DAYS[1]))
    assert mask_NK[:, NAMES.index("fast_order")].tolist() == [True, False, True]
    assert not mask_NK[:, NAMES.index("order")].any()


def test_of_an_example_whose_user_had_opted_out_no_label_of_a_conversion_exists(tmp_path):
    write(tmp_path, [credit("a", "order", DAYS[1])])
    known = known_conversions(CONTRACT, tmp_path, DAYS[0], DAYS[-1])
    assert CONTRACT.tables.users.opt_out is not None
    rows = ROWS.append_column(tables.OPTED_OUT, pa.array([0, 1, None], pa.int8()))
    _, mask_NK = labels_and_masks(CONTRACT, rows, known)
    order = NAMES.index("order")
    assert mask_NK[:, order].tolist() == [True, False, True]
    assert mask_NK[:, :2].tolist() == labels_and_masks(CONTRACT, ROWS, known)[1][:, :2].tolist()  # columns stay
