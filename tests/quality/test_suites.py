from __future__ import annotations

from itertools import pairwise

import pytest

from gem_pipeline.contracts import tables
from gem_pipeline.errors import ConfigError
from gem_pipeline.quality.suites import least_rows, suite, suite_hash
from tests.lake_factory import vector_contract
from tests.oracles.conversions import conversion_contract

TABLES = ("user_events", "counter_increments", "examples", "attributed_conversions")


@pytest.mark.parametrize("table", TABLES)
def test_every_suite_counts_rows_first_and_names_its_rules_once(table):
    rules = suite(conversion_contract(), table)
    assert rules[0].kind == "ExpectTableRowCountToBeBetween"
    names = [rule.name for rule in rules]
    assert len(names) == len(set(names))
    assert all(name.isidentifier() for name in names)


def test_every_column_that_must_not_be_null_is_judged():
    contract = conversion_contract()
    for schema in tables.silver_tables(contract):
        query = next(r for r in suite(contract, schema.name) if r.name == "no_nulls").arguments["unexpected_rows_query"]
        assert all((f"`{c.name}` IS NULL" in query) != c.nullable for c in schema.columns)


def test_a_contract_with_other_rules_has_another_hash():
    one, other = conversion_contract(), conversion_contract(user_buckets=4)
    assert suite_hash(one, "examples") == suite_hash(conversion_contract(), "examples")
    hashes = [suite_hash(one, table) for table in TABLES] + [suite_hash(other, "examples")]
    assert all(first != second for first, second in pairwise(hashes))


def test_only_increments_and_conversions_may_be_empty():
    assert [least_rows(conversion_contract(), table) for table in TABLES] == [1, 0, 1, 0]


def test_vectors_are_judged_by_their_own_dimension():
    queries = {
        table: next(r for r in suite(vector_contract(), table) if r.name == "vectors_fit").arguments
        for table in tables.VECTOR_TABLES
    }
    assert "size(`image`) <> 3" in queries["ad_vectors"]["unexpected_rows_query"]
    assert "size(`taste`) <> 2" in queries["user_vectors"]["unexpected_rows_query"]
    with pytest.raises(ConfigError, match="no suite for table ad_vectors"):
        suite(conversion_contract(), "ad_vectors")


def test_an_unknown_table_has_no_suite():
    with pytest.raises(ConfigError, match="no suite for table raw"):
        suite(conversion_contract(), "raw")
