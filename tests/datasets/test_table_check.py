"""Bronze tables against the contract: what does not fit is named, all at once."""

from __future__ import annotations

from datetime import UTC, date, datetime
from importlib.resources import files

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import yaml
from deltalake import write_deltalake

from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.table_check import check_tables, expected_columns
from gem_pipeline.errors import DataSourceError, SchemaError

NOW = datetime(2026, 1, 2, tzinfo=UTC)
ROWS = {
    "impressions": {
        "impression_id": ["i"], "user_id": [1], "ad_id": ["a"], "surface": ["feed"], "shown_at": [NOW],
        "received_at": [NOW], "date": [date(2026, 1, 2)], "clicked": [True], "position": [3],
    },
    "engagements": {
        "event_id": [1], "user_id": [1], "ad_id": ["a"], "surface": ["feed"], "source": ["ads"], "action": [["view"]],
        "dwell_s": [1.5], "happened_at": [NOW], "received_at": [NOW], "date": ["2026-01-02"],
    },
    "conversions": {
        "conversion_id": [5], "user_id": [1], "ad_id": ["a"], "type": ["purchase"], "amount": [9.5],
        "converted_at": [NOW], "received_at": [NOW], "date": ["2026-01-02"],
    },
    "users": {"user_id": [1], "country": ["de"], "tenure_days": [3]},
    "ads": {
        "ad_id": ["a"], "valid_from": [NOW], "advertiser_id": [7], "format": ["video"], "topics": ["1,2"],
        "length_s": [9.5],
    },
}  # fmt: skip


@pytest.fixture
def contract():
    document = yaml.safe_load((files("gem_pipeline") / "contracts" / "template.yaml").read_text(encoding="utf-8"))
    for role, table in document["tables"].items():
        table["path"] = role
    document["tables"]["users"]["format"] = "parquet"
    return DataContract.model_validate(document)


def write(lake, role, columns):
    table = pa.table(columns)
    if role == "users":
        lake.mkdir(exist_ok=True)
        pq.write_table(table, lake / role)
    else:
        write_deltalake(str(lake / role), table, mode="overwrite", schema_mode="overwrite")


@pytest.fixture
def lake(tmp_path):
    for role, columns in ROWS.items():
        write(tmp_path / "lake", role, columns)
    return tmp_path / "lake"


def test_tables_that_fit_pass_in_delta_and_parquet(contract, lake):
    assert len(list(check_tables(contract, lake))) == 5


def test_every_column_of_the_contract_is_expected(contract):
    columns = expected_columns(contract)
    named = {(role, expected.column) for role, group in columns.items() for expected in group}
    assert named == {(role, column) for role, group in ROWS.items() for column in group}


@pytest.mark.parametrize(
    ("role", "column", "values", "said"),
    [
        ("impressions", "shown_at", ["2026-01-02"], "not a timestamp"),
        ("impressions", "shown_at", [NOW.replace(tzinfo=None)], "not a timestamp with a zone"),
        ("engagements", "received_at", [NOW.replace(tzinfo=None)], "not a timestamp with a zone"),
        ("impressions", "clicked", [0.5], "not an integer or a boolean"),
        ("impressions", "user_id", [1.0], "not an integer or a string"),
        ("engagements", "action", [[1]], "not a string or an array of strings"),
        ("engagements", "surface", [1], "not a string"),
        ("users", "tenure_days", ["three"], "not a number"),
        ("ads", "format", [["video"]], "not a single value"),
        ("ads", "topics", [1.5], "not an array or a comma separated string"),
    ],
)
def test_wrong_type_is_named_with_its_column(contract, lake, role, column, values, said):
    write(lake, role, {**ROWS[role], column: values})
    with pytest.raises(SchemaError, match=f"column {column} .* {said}"):
        list(check_tables(contract, lake))


def test_all_missing_columns_of_a_table_are_named_at_once(contract, lake):
    write(lake, "ads", {"ad_id": ["a"]})
    with pytest.raises(SchemaError) as caught:
        list(check_tables(contract, lake))
    for column in ("valid_from", "advertiser_id", "format", "topics", "length_s"):
        assert f"column {column} " in caught.value.message


def test_missing_table_is_named_with_its_place(contract, tmp_path):
    with pytest.raises(DataSourceError, match="no readable delta table"):
        list(check_tables(contract, tmp_path / "nowhere"))


def test_unreadable_parquet_is_refused(contract, lake):
    (lake / "users").write_bytes(b"no parquet")
    with pytest.raises(DataSourceError, match="no readable parquet table"):
        list(check_tables(contract, lake))


def test_an_opt_out_must_be_a_boolean_and_an_unknown_column_is_nobodys_business(contract, lake):
    document = contract.model_dump(mode="json")
    document["tables"]["users"]["opt_out"] = "hidden"
    asked = DataContract.model_validate(document)
    with pytest.raises(SchemaError, match=r"column hidden \(opt_out\) is missing"):
        list(check_tables(asked, lake))
    write(lake, "users", {**ROWS["users"], "hidden": ["yes"]})
    with pytest.raises(SchemaError, match=r"column hidden \(opt_out\) is string, not a boolean"):
        list(check_tables(asked, lake))
    write(lake, "users", {**ROWS["users"], "hidden": [True], "more": [1]})
    assert len(list(check_tables(asked, lake))) == 5


@pytest.mark.parametrize("int96", [True, False])
def test_times_of_parquet_are_instants_where_spark_wrote_int96_and_refused_where_they_are_naive(contract, lake, int96):
    document = contract.model_dump(mode="json")
    document["tables"]["users"]["valid_from"] = "since"
    rows = pa.table({**ROWS["users"], "since": [NOW.replace(tzinfo=None)]})
    pq.write_table(rows, lake / "users", use_deprecated_int96_timestamps=int96)
    checked = check_tables(DataContract.model_validate(document), lake)
    if int96:
        assert len(list(checked)) == 5
    else:
        with pytest.raises(SchemaError, match=r"Table users .*column since .*not a timestamp with a zone"):
            list(checked)


def with_image(contract):
    document = contract.model_dump(mode="json")
    document["features"].append({"name": "image", "origin": "ads", "column": "image", "kind": "vector", "dim": 2})
    return DataContract.model_validate(document)


@pytest.mark.parametrize("kind", [pa.list_(pa.float32()), pa.list_(pa.float64()), pa.large_list(pa.float32())])
def test_a_vector_is_an_array_of_floats(contract, lake, kind):
    write(lake, "ads", ROWS["ads"] | {"image": pa.array([[1.0, 2.0]], kind)})
    assert len(list(check_tables(with_image(contract), lake))) == len(ROWS)


@pytest.mark.parametrize("values", [pa.array([[1, 2]]), pa.array([1.0]), pa.array([["a"]])])
def test_what_is_no_array_of_floats_is_no_vector(contract, lake, values):
    write(lake, "ads", ROWS["ads"] | {"image": values})
    with pytest.raises(SchemaError, match=r"column image \(feature image\) is .*, not an array of floats"):
        list(check_tables(with_image(contract), lake))
