"""Contracts that break a rule are refused in plain words that name the key."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import yaml

import gem_pipeline
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.errors import ContractError

KUAIRAND = Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml"


@pytest.fixture
def document():
    return copy.deepcopy(yaml.safe_load(KUAIRAND.read_text()))


@pytest.fixture
def load(tmp_path):
    def _load(document):
        path = tmp_path / "contract.yaml"
        path.write_text(yaml.safe_dump(document))
        return load_contract(path)

    return _load


def test_the_packaged_contract_is_valid_and_its_hash_ignores_comments_and_order(document, load):
    assert load(document).content_hash == load_contract(KUAIRAND).content_hash


def test_another_meaning_has_another_hash(document, load):
    document["visibility"]["allowance_s"] = 5
    assert load(document).content_hash != load_contract(KUAIRAND).content_hash


def break_unknown_key(d):
    d["visibility"]["alowance_s"] = 1


def break_table(d):
    d["features"][0]["table"] = "nowhere"


def break_surface(d):
    d["objectives"][0]["surfaces"] = ["tab_99"]


def break_kind(d):
    d["counters"]["groups"][0]["kinds"] = ["purchase"]


def break_prior(d):
    d["counters"]["groups"] = [g for g in d["counters"]["groups"] if g["name"] != "all_history"]


def break_double(d):
    d["surfaces"].append("tab_1")


def break_boundaries(d):
    next(f for f in d["features"] if f["name"] == "length")["boundaries"] = [3, 2]


def break_dense(d):
    next(f for f in d["features"] if f["kind"] == "dense")["table"] = "content"


def break_context(d):
    next(f for f in d["features"] if f["origin"] == "context")["column"] = "minute"


@pytest.mark.parametrize(
    ("break_it", "says"),
    [
        (break_unknown_key, "alowance_s"),
        (break_table, "embedding table nowhere is not declared"),
        (break_surface, "unknown surfaces ['tab_99']"),
        (break_kind, "unknown kinds ['purchase']"),
        (break_prior, "needs a counter without keys"),
        (break_double, "surface named twice"),
        (break_boundaries, "boundaries must strictly increase"),
        (break_dense, "takes no embedding table"),
        (break_context, "context offers hour_of_day and day_of_week"),
    ],
)
def test_a_broken_rule_is_named(document, load, break_it, says):
    break_it(document)
    with pytest.raises(ContractError) as caught:
        load(document)
    assert says in caught.value.message
    assert caught.value.remedy


def test_a_missing_file_and_bad_yaml_are_plain_errors(tmp_path):
    with pytest.raises(ContractError, match="cannot be read"):
        load_contract(tmp_path / "absent.yaml")
    (tmp_path / "bad.yaml").write_text("a: [1")
    with pytest.raises(ContractError, match="not valid YAML"):
        load_contract(tmp_path / "bad.yaml")


def vector(**changes):
    return {"name": "image", "origin": "ads", "column": "pixels", "kind": "vector", "dim": 16} | changes


def test_a_vector_belongs_to_ads_or_users(document, load):
    document["features"] += [vector(), vector(name="taste", origin="users", dim=1)]
    own = load(document)
    assert [f.name for f in own.vectors_of("ads")] == ["image"]
    assert [(f.name, f.dim) for f in own.vectors_of("users")] == [("taste", 1)]


@pytest.mark.parametrize(
    ("feature", "words"),
    [
        (vector(dim=None), "dim belongs to kind vector"),
        (vector(dim=0), "greater than or equal to 1"),
        (vector(origin="impressions"), "a vector belongs to ads or users, not to impressions"),
        (vector(table="ad"), "a vector feature takes no embedding table"),
        (vector(boundaries=[1.0]), "boundaries belong to kind bucketed"),
        (vector(transform="log1p"), "a vector takes no transform"),
        (vector(kind="dense"), "dim belongs to kind vector"),
    ],
)
def test_a_vector_that_breaks_a_rule_is_refused(document, load, feature, words):
    document["features"].append(feature)
    with pytest.raises(ContractError, match=words):
        load(document)
