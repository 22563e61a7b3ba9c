"""A model names what it was trained on, and the same bytes come out again, whatever was written since."""

from __future__ import annotations

import json

import pytest
from deltalake import DeltaTable

from gem_pipeline.errors import ModelStoreError
from gem_pipeline.runs.lineage import newest_versions, rebuild_rows
from gem_pipeline.runs.upkeep import UpkeepPolicy, keep_up, pinned_versions
from gem_pipeline.training.plan import GEM, LOGISTIC, vertical_model
from tests.chain_factory import VERTICALS
from tests.lake_factory import DAYS

MODELS = (GEM, LOGISTIC, vertical_model(VERTICALS[0], "kd"))


@pytest.mark.parametrize("name", MODELS)
def test_a_model_names_versions_window_and_digest_of_every_day_it_read(chain, name):
    config = chain.store.require(name, DAYS[1]).config()
    assert config["inputs"].keys() == newest_versions(chain.lake).keys() >= {"examples", "user_events"}
    assert DAYS[1] in {row["date"] for row in config["rows"]}
    assert all(row["num_examples"] > 0 for row in config["rows"])


@pytest.mark.parametrize("name", MODELS)
def test_its_rows_come_out_again_byte_for_byte(chain, name):
    rebuilt = list(rebuild_rows(chain.store.require(name, DAYS[1]), chain.lake))
    assert rebuilt
    assert all(day.identical for day in rebuilt)


def test_they_still_do_after_the_day_was_rewritten_and_the_tables_were_kept_up(own):
    before = own.table("examples", DAYS[1])
    own.rewrite_examples(DAYS[1], length_s=before["length_s"] + 1)
    keep_up(own.home, UpkeepPolicy(retention_days=1))
    stored = own.store.require(GEM, DAYS[1])
    assert DeltaTable(str(own.lake / "examples")).version() > stored.config()["inputs"]["examples"]
    assert all(day.identical for day in rebuild_rows(stored, own.lake))
    assert stored.config()["inputs"]["examples"] in pinned_versions(own.home)["examples"]


def test_a_version_whose_files_are_gone_is_refused_and_not_replaced_by_another(own):
    stored = own.store.require(GEM, DAYS[0])
    version = stored.config()["inputs"]["examples"]
    for uri in DeltaTable(str(own.lake / "examples"), version=version).file_uris():
        (own.lake / "examples" / uri.split("/examples/")[1]).unlink()
    with pytest.raises(ModelStoreError, match=r"lost \d+ file"):
        list(rebuild_rows(stored, own.lake))


def test_a_changed_row_is_noticed(own):
    stored = own.store.require(GEM, DAYS[0])
    document = stored.config()
    own.rewrite_examples(DAYS[0], length_s=own.table("examples", DAYS[0])["length_s"] + 1)
    document["inputs"] = newest_versions(own.lake)
    (stored.path / "config.json").write_text(json.dumps(document))
    assert [day.identical for day in rebuild_rows(stored, own.lake)] == [False]
