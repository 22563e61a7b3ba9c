"""Landing is atomic, idempotent and picks the source that the user named."""

from __future__ import annotations

from pathlib import Path

import pytest
from deltalake import DeltaTable

import gem_pipeline
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.datasets.generated import DAYS, GeneratedLog
from gem_pipeline.datasets.landing import available_dates, land_partitions, open_source
from gem_pipeline.errors import DataSourceError, PartitionError

CONTRACT = load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml")


def content(home, table):
    rows = DeltaTable(str(home / "lake" / "bronze" / table)).to_pyarrow_table()
    return rows.sort_by([(name, "ascending") for name in ("date", rows.column_names[0])])


def test_a_day_landed_twice_is_the_same_day(tmp_path):
    source = GeneratedLog()
    first = land_partitions(CONTRACT, source, tmp_path, DAYS[:2])
    before = content(tmp_path, "impressions")
    again = land_partitions(CONTRACT, source, tmp_path, DAYS[:2])
    assert [day.unchanged for day in first] == [False, False]
    assert [day.unchanged for day in again] == [True, True]
    assert content(tmp_path, "impressions").equals(before)


def test_landing_one_day_again_leaves_the_other_days_alone(tmp_path):
    land_partitions(CONTRACT, GeneratedLog(), tmp_path, DAYS[:3])
    (tmp_path / "landed" / f"{DAYS[1]}.json").unlink()  # as after a kill before the marker
    before = content(tmp_path, "engagements")
    land_partitions(CONTRACT, GeneratedLog(), tmp_path, (DAYS[1],))
    assert content(tmp_path, "engagements").equals(before)


def test_a_changed_source_replaces_exactly_its_day(tmp_path):
    land_partitions(CONTRACT, GeneratedLog(), tmp_path, DAYS[:2])
    landed = land_partitions(CONTRACT, GeneratedLog(seed=1), tmp_path, (DAYS[0],))
    assert not landed[0].unchanged
    rows = content(tmp_path, "impressions").to_pandas()
    assert rows.groupby("date").size().to_dict() == {DAYS[0]: 6000, DAYS[1]: 6000}


def test_a_day_that_the_source_lacks_is_refused(tmp_path):
    with pytest.raises(PartitionError, match="1999-01-01"):
        land_partitions(CONTRACT, GeneratedLog(), tmp_path, ("1999-01-01",))
    assert not (tmp_path / "lake").exists()


def test_a_named_folder_must_exist_but_the_default_may_be_missing(tmp_path):
    with pytest.raises(DataSourceError, match="does not exist"):
        open_source(CONTRACT, str(tmp_path / "absent"), tmp_path)
    assert open_source(CONTRACT, None, tmp_path / "absent").name == "generated"


def test_days_before_the_first_day_of_the_contract_are_not_offered(tmp_path):
    dates = available_dates(CONTRACT, GeneratedLog(), tmp_path)
    assert min(dates) == CONTRACT.partition.first_day
    assert list(dates) == sorted(dates)
