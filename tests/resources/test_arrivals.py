"""Bronze partitions and their fingerprints, told from files."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from deltalake import write_deltalake

from gem_pipeline.errors import PartitionError
from resources.arrivals import bronze_fingerprints, days_without_impressions, land_or_find
from resources.settings import GemSettings
from tests.lake_factory import write_delayed_contract


@pytest.fixture
def own_tables(tmp_path: Path) -> GemSettings:
    """Settings over tables of the user's own: two days of Delta facts, one of which the log has not begun for."""
    path = tmp_path / "contract.yaml"
    write_delayed_contract(path)
    path.write_text(yaml.safe_dump(yaml.safe_load(path.read_text()) | {"source": "tables"}))
    for table in ("impressions", "engagements", "conversions"):
        for day in ("2022-04-23", "2022-04-25", "2022-04-26"):
            append(tmp_path, table, day)
    return GemSettings(home=str(tmp_path), contract=str(tmp_path / "contract.yaml"))


def append(home: Path, table: str, day: str) -> None:
    rows = pa.table({"id": [1], "date": [day]})
    write_deltalake(str(home / "lake" / "bronze" / table), rows, mode="append", partition_by=["date"])


def test_days_of_the_contract_are_found_with_a_fingerprint_each(own_tables):
    found = bronze_fingerprints(own_tables)
    assert list(found) == ["2022-04-25", "2022-04-26"]


@pytest.mark.parametrize("table", ["impressions", "engagements", "conversions"])
def test_a_change_of_any_fact_table_changes_the_day_and_no_other(own_tables, tmp_path, table):
    before = bronze_fingerprints(own_tables)
    append(tmp_path, table, "2022-04-26")
    after = bronze_fingerprints(own_tables)
    assert before["2022-04-26"] != after["2022-04-26"]
    assert before["2022-04-25"] == after["2022-04-25"]


def test_a_missing_day_is_refused_with_its_name(own_tables):
    assert [day.date for day in land_or_find(own_tables, ["2022-04-25"])] == ["2022-04-25"]
    with pytest.raises(PartitionError, match="no partition 2022-04-27"):
        land_or_find(own_tables, ["2022-04-25", "2022-04-27"])


def test_a_day_of_events_alone_has_landed_as_history(own_tables, tmp_path):
    append(tmp_path, "engagements", "2022-04-24")
    found = bronze_fingerprints(own_tables)
    assert list(found) == ["2022-04-24", "2022-04-25", "2022-04-26"]
    assert days_without_impressions(own_tables, found) == {"2022-04-24"}
    assert [day.date for day in land_or_find(own_tables, ["2022-04-24"])] == ["2022-04-24"]


def test_the_history_day_of_a_log_has_no_impressions(tmp_path):
    settings = GemSettings(home=str(tmp_path), data="generated:40")
    assert days_without_impressions(settings, ["2022-04-24", "2022-04-30"]) == {"2022-04-24"}


def test_a_log_is_watched_by_its_source(tmp_path):
    settings = GemSettings(home=str(tmp_path), data="generated")
    found = bronze_fingerprints(settings)
    assert list(found) == sorted(found)
    assert len(set(found.values())) == len(found) > 5
    assert not (tmp_path / "lake").exists()
