"""Table schemas derive from the contract; Spark and Arrow agree on them."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import gem_pipeline
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import load_contract
from tests.lake_factory import vector_contract
from tests.oracles.conversions import conversion_contract

CONTRACT = load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml")
SCHEMAS = (
    *tables.silver_tables(conversion_contract()),
    *tables.silver_tables(vector_contract())[2:4],
    tables.teacher_outputs(CONTRACT),
    tables.predictions(),
)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.name)
def test_keys_sort_and_partition_columns_exist_and_the_date_comes_first(schema):
    named = {*schema.partition_by, *schema.sort_by, *schema.key}
    assert named <= set(schema.column_names)
    assert schema.partition_by[0] == "date"
    assert len(set(schema.column_names)) == len(schema.column_names)


@pytest.mark.parametrize("schema", SCHEMAS, ids=lambda s: s.name)
def test_ddl_and_arrow_name_the_same_columns(schema):
    assert [part.split("`")[1] for part in schema.ddl().split(", ")] == schema.arrow().names
    assert [field.nullable for field in schema.arrow()] == [c.nullable for c in schema.columns]


def test_examples_hold_a_pointer_and_no_copy_of_the_history():
    schema = tables.examples(CONTRACT)
    assert {"bucket", "user_id", "impression_ts"} <= set(schema.column_names)
    lists = [field.name for field in schema.arrow() if pa.types.is_list(field.type)]
    assert lists == [f.name for f in CONTRACT.features if f.kind == "multi_hot"]


def test_an_ad_attribute_that_events_carry_has_one_type_in_both_tables():
    advertiser = next(f for f in CONTRACT.features if f.name == "advertiser")
    assert tables.is_event_attribute(CONTRACT, advertiser)
    assert tables.examples(CONTRACT).spark_type("advertiser") == "BIGINT"
    assert tables.user_events(CONTRACT).spark_type("advertiser") == "BIGINT"


def test_conversions_are_a_table_of_their_own_where_the_contract_has_them():
    assert [schema.name for schema in tables.silver_tables(CONTRACT)][-1] == "examples"
    delayed = conversion_contract()
    assert tables.silver_tables(delayed)[-1] == tables.attributed_conversions()
    names = tables.examples(delayed).column_names
    assert [name for name in names if name.startswith("label__")] == ["label__click", "label__buy"]


def test_vectors_are_stored_once_an_ad_or_user_and_never_in_the_examples():
    own = vector_contract()
    names = [schema.name for schema in tables.silver_tables(own)]
    assert names == ["user_events", "counter_increments", "ad_vectors", "user_vectors", "examples"]
    assert tables.vectors(own, "ads").key == ("ad_id", "valid_from")
    assert tables.examples(own).column_names == tables.examples(CONTRACT).column_names
    assert tables.vector_tables(CONTRACT) == ()


def test_gates_of_vectors_stand_for_every_day():
    assert tables.gate_date("ad_vectors", "2026-01-02") == tables.ALL_DAYS
    assert tables.gate_date("examples", "2026-01-02") == "2026-01-02"
