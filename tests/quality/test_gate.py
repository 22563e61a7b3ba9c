from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from gem_pipeline.errors import GateError
from gem_pipeline.quality.gate import (
    CheckResult,
    GateMarker,
    marker_path,
    partition_files,
    read_gate,
    verify_gate,
    write_gate,
)
from gem_pipeline.quality.suites import suite_hash
from tests.oracles.event_log import log_contract

CONTRACT = log_contract()
DATE = "2024-03-01"


def write(lake, date, values):
    rows = pa.table({"date": [date] * len(values), "v": values})
    exists = DeltaTable.is_deltatable(str(lake / "examples"))
    replaced = {"predicate": f"date = '{date}'"} if exists else {}
    write_deltalake(str(lake / "examples"), rows, mode="overwrite", partition_by=["date"], **replaced)


@pytest.fixture
def gated(tmp_path):
    """A home and a lake with one validated partition."""
    home, lake = tmp_path / "home", tmp_path / "lake"
    write(lake, DATE, [1, 2])
    files = partition_files(DeltaTable(str(lake / "examples")), "date")[DATE]
    marker = GateMarker(
        table="examples", date=DATE, delta_version=0, partition_fingerprint=files.fingerprint, content_hash="c",
        input_fingerprint="i", contract_hash=CONTRACT.content_hash, suite_hash=suite_hash(CONTRACT, "examples"),
        num_rows=2, passed=True, checks=(CheckResult(name="no_nulls", passed=True, unexpected_count=0),),
        quarantined={"null user_id": 1}, written_at="2024-03-02T00:00:00+00:00",
    )  # fmt: skip
    write_gate(home, marker)
    return home, lake, marker


def test_a_validated_partition_passes_and_its_marker_survives_the_disk(gated):
    home, lake, marker = gated
    assert verify_gate(home, lake, "examples", DATE, CONTRACT) == marker
    assert [path.name for path in marker_path(home, "examples", DATE).parent.iterdir()] == [f"{DATE}.json"]


def test_another_date_may_change(gated):
    home, lake, _ = gated
    write(lake, "2024-03-02", [5])
    verify_gate(home, lake, "examples", DATE, CONTRACT)


def test_rows_that_were_written_after_the_validation_have_no_gate(gated):
    home, lake, _ = gated
    write(lake, DATE, [1, 2, 3])
    with pytest.raises(GateError, match="has changed since it was validated"):
        verify_gate(home, lake, "examples", DATE, CONTRACT)


def test_a_partition_without_marker_has_no_gate(gated):
    home, lake, _ = gated
    with pytest.raises(GateError, match="date 2024-03-09, has no quality gate"):
        verify_gate(home, lake, "examples", "2024-03-09", CONTRACT)


def test_a_failed_gate_names_its_rules(gated):
    home, lake, marker = gated
    write_gate(home, replace(marker, passed=False, checks=(CheckResult(name="no_nulls", passed=False),)))
    with pytest.raises(GateError, match="failed its quality gate: no_nulls"):
        verify_gate(home, lake, "examples", DATE, CONTRACT)


def test_another_contract_asks_for_another_validation(gated):
    home, lake, _ = gated
    with pytest.raises(GateError, match="under another contract"):
        verify_gate(home, lake, "examples", DATE, log_contract(user_buckets=7))


def test_a_table_that_is_gone_has_no_gate(gated, tmp_path):
    home, _, _ = gated
    with pytest.raises(GateError, match="does not exist"):
        verify_gate(home, tmp_path / "nowhere", "examples", DATE, CONTRACT)


@pytest.mark.parametrize("text", ["", "{", "{}", '{"checks": [{"no": 1}]}', "[]", '{"checks": 3}'])
def test_a_marker_that_cannot_be_understood_is_none(gated, text):
    home, _, _ = gated
    marker_path(home, "examples", DATE).write_text(text)
    assert read_gate(home, "examples", DATE) is None
