"""Teacher outputs are keyed by impression, replaced by one commit, and never silently incomplete."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from deltalake import DeltaTable

import gem_pipeline
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.errors import PartitionError
from gem_pipeline.training.loop import DayScores
from gem_pipeline.transfer.teacher_outputs import (
    prediction_rows,
    read_teacher,
    write_predictions,
    write_teacher_outputs,
)

CONTRACT = load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml")
K = len(CONTRACT.objectives)


def write(lake, date="2022-05-02", ids=("a", "b", "c"), shift=0.0):
    prob = (np.arange(len(ids) * K).reshape(len(ids), K) / 100 + shift).astype(np.float32)
    scores = DayScores(prob_NK=prob, representation_ND=np.ones((len(ids), 4), dtype=np.float32))
    write_teacher_outputs(
        CONTRACT, lake, date=date, teacher="gem", model_id="m1", trained_through="2022-05-01",
        impression_ids=pa.array(ids), scores=scores,
    )  # fmt: skip
    return prob


def read(lake, ids, date="2022-05-02"):
    return read_teacher(CONTRACT, lake, date=date, teacher="gem", impression_ids=pa.array(ids))


def test_probabilities_follow_the_impression_whatever_the_order(tmp_path):
    prob = write(tmp_path)
    model_id, found = read(tmp_path, ["c", "a"])
    assert model_id == "m1"
    assert np.array_equal(found, prob[[2, 0]])


def test_a_day_written_twice_holds_its_rows_once_and_other_days_stay(tmp_path):
    write(tmp_path)
    write(tmp_path, date="2022-05-03")
    second = write(tmp_path, shift=0.5)
    assert np.array_equal(read(tmp_path, ["a", "b", "c"])[1], second)
    assert DeltaTable(str(tmp_path / "teacher_outputs")).to_pyarrow_table().num_rows == 6


def test_a_day_without_teacher_is_none_and_a_missing_impression_is_an_error(tmp_path):
    assert read(tmp_path, ["a"]) is None
    write(tmp_path)
    assert read(tmp_path, ["a"], date="2022-05-09") is None
    with pytest.raises(PartitionError, match="lacks 1 of 2 impressions"):
        read(tmp_path, ["a", "new"])


def test_predictions_of_one_model_replace_only_its_own(tmp_path):
    def rows(model, value):
        return prediction_rows(
            date="2022-05-02", model=model, model_id="m", trained_through="2022-05-01", objective="click",
            impression_ids=pa.array(["a", "b"]), prob_N=np.full(2, value, dtype=np.float32),
        )  # fmt: skip

    write_predictions(tmp_path, date="2022-05-02", columns=[rows("x", 0.25), rows("y", 0.5)])
    write_predictions(tmp_path, date="2022-05-02", columns=[rows("x", 0.75)])
    table = DeltaTable(str(tmp_path / "predictions")).to_pyarrow_table().to_pandas()
    assert table.groupby("model").prob.first().to_dict() == {"x": 0.75, "y": 0.5}
    assert len(table) == 4
