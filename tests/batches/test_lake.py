"""Only the files that can hold a row of interest are opened, and a table that would be read wrongly is refused."""

from __future__ import annotations

import pyarrow.compute as pc
import pytest
from deltalake import DeltaTable, write_deltalake

from gem_pipeline.batches.lake import SilverTable
from gem_pipeline.contracts import tables
from gem_pipeline.errors import SchemaError
from tests.lake_factory import DAYS, contract, make_lake

EVENTS = tables.user_events(contract())


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    home = tmp_path_factory.mktemp("lake")
    make_lake(home)
    return home


def test_files_of_other_buckets_and_later_days_are_left_out(home):
    part = SilverTable(home / "lake", EVENTS).part([("date", "<=", DAYS[1]), ("bucket", "=", "2")])
    assert len(part.dataset.files) == 2
    rows = part.read(("date", "bucket"), pc.scalar(True))
    assert set(rows["date"].to_pylist()) == set(DAYS[:2])
    assert set(rows["bucket"].to_pylist()) == {2}
    assert part.num_rows == rows.num_rows


def test_files_that_a_condition_excludes_are_left_out_by_their_statistics(home):
    table = SilverTable(home / "lake", EVENTS)
    begin = table.part([]).read(("date", "event_ts"), pc.field("date") == DAYS[2])["event_ts"]
    part = table.part([("bucket", "=", "0")], pc.field("event_ts") >= pc.min(begin))
    assert len(part.dataset.files) == 1
    assert part.num_rows < table.part([("bucket", "=", "0")]).num_rows


def test_blocks_hold_the_rows_that_are_read_at_once(home):
    part = SilverTable(home / "lake", EVENTS).part([("bucket", "=", "1")])
    where = pc.field("user_id") < 30
    blocks = list(part.blocks(("user_id",), where))
    found = [user for block in blocks for user in block["user_id"].to_pylist()]
    assert found == part.read(("user_id",), where)["user_id"].to_pylist()


def test_an_earlier_version_is_read_as_it_was(home):
    newest = SilverTable(home / "lake", EVENTS)
    earlier = SilverTable(home / "lake", EVENTS, version=newest.version - 1)
    assert earlier.version == newest.version - 1
    assert earlier.part([]).num_rows < newest.part([]).num_rows


def test_a_missing_column_is_named(tmp_path):
    make_lake(tmp_path, days=DAYS[:1])
    path = str(tmp_path / "lake" / "user_events")
    rows = DeltaTable(path).to_pyarrow_table().drop_columns(["value"])
    write_deltalake(path, rows, mode="overwrite", schema_mode="overwrite", partition_by=["date", "bucket"])
    table = SilverTable(tmp_path / "lake", EVENTS)
    table.require(("user_id", "ad_id"))
    with pytest.raises(SchemaError, match=r"user_events lacks column.*value"):
        table.require(EVENTS.column_names)


def test_a_table_with_deletion_vectors_is_refused(tmp_path):
    DeltaTable.create(
        str(tmp_path / "user_events"), EVENTS.arrow(), configuration={"delta.enableDeletionVectors": "true"}
    )
    with pytest.raises(SchemaError, match="deletionVectors"):
        SilverTable(tmp_path, EVENTS)
