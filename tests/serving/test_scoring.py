"""A stored model scores in any process exactly as it did where it was trained."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from deltalake import DeltaTable

from gem_pipeline.batches.reader import DayReader
from gem_pipeline.errors import ModelStoreError, SchemaError
from gem_pipeline.serving.scoring import EVENTS, load_model
from gem_pipeline.training.plan import GEM, LOGISTIC, vertical_model
from gem_pipeline.training.store import ModelStore
from tests.chain_factory import VERTICALS, train_with_vectors
from tests.lake_factory import DAYS, contract
from tests.oracles.vectors import in_force

TAUGHT = vertical_model(VERTICALS[0], "kd")
KINDS = (GEM, TAUGHT, LOGISTIC)
OBJECTIVES = tuple(o.name for o in contract().objectives)


@pytest.fixture(scope="module")
def frame(chain) -> pd.DataFrame:
    """Examples of the second day, each with all events of its user: also those that it must not see."""
    events = DeltaTable(str(chain.lake / "user_events")).to_pyarrow_table(filters=[("date", "<=", DAYS[1])]).to_pylist()
    by_user: dict[int, list[dict]] = {}
    for event in events:
        by_user.setdefault(event["user_id"], []).append(event)
    rows = chain.table("examples", DAYS[1])
    return rows.assign(**{EVENTS: [by_user.get(user, []) for user in rows.user_id]}).set_index(rows.impression_id)


def load(chain, name):
    return load_model(chain.store.require(name, DAYS[0]).path)


def trained_scores(chain, name: str) -> pd.DataFrame:
    """What the trainer wrote for the second day with the model of the first, by impression and objective."""
    if name == GEM:
        rows = chain.table("teacher_outputs", DAYS[1]).set_index("impression_id")
        return pd.DataFrame({o: rows[f"prob__{o}"] for o in OBJECTIVES})
    rows = chain.table("predictions", DAYS[1])
    return rows[rows.model == name].pivot_table(index="impression_id", columns="objective", values="prob")


@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_model_scores_as_its_trainer_did(chain, name):
    model = load(chain, name)
    parts = chain.read(DAYS[1], window=model.window)
    ids = [i for part in parts for i in part.impression_ids.to_pylist()]
    found = pd.DataFrame(model.score(parts), index=ids, columns=list(model.objectives))
    expected = trained_scores(chain, name)
    assert len(expected) > 50
    assert np.allclose(found.loc[expected.index], expected[list(found)], atol=1e-6)


@pytest.mark.parametrize("name", KINDS)
def test_rows_that_bring_their_events_score_like_rows_of_the_lake(chain, frame, name):
    model = load(chain, name)
    parts = chain.read(DAYS[1], window=model.window)
    ids = [i for part in parts for i in part.impression_ids.to_pylist()]
    expected = pd.DataFrame(model.score(parts), index=ids, columns=list(model.objectives))
    found = model.predict(frame.drop(columns=[f"label__{o}" for o in OBJECTIVES]))
    assert list(found.index) == list(frame.index)
    assert np.allclose(found, expected.loc[found.index], atol=1e-6)


def test_a_row_scores_the_same_alone_and_among_others(chain, frame):
    model = load(chain, GEM)
    together = model.predict(frame)
    assert np.allclose(model.predict(frame.iloc[[5]]), together.iloc[[5]], atol=1e-6)


def test_objectives_and_histories_are_those_of_the_model(chain):
    assert load(chain, GEM).objectives == OBJECTIVES
    assert load(chain, TAUGHT).objectives == ("click",)
    assert (load(chain, GEM).window.max_events, load(chain, TAUGHT).window.max_events) == (1024, 16)


@pytest.mark.parametrize("name", KINDS)
def test_users_without_any_event_are_scored(chain, frame, name):
    found = load(chain, name).predict(frame.assign(**{EVENTS: [[]] * len(frame)}))
    assert np.isfinite(found.to_numpy()).all()


@pytest.mark.parametrize("name", KINDS)
def test_no_rows_give_no_scores(chain, frame, name):
    model = load(chain, name)
    found = model.predict(frame.iloc[:0])
    assert found.shape == (0, len(model.objectives))


def test_a_fresh_process_needs_nothing_but_the_folder_and_the_rows(chain, frame, tmp_path):
    folder = tmp_path / "copied"
    folder.mkdir()
    for file in ("model.safetensors", "config.json"):
        (folder / file).write_bytes((chain.store.require(TAUGHT, DAYS[0]).path / file).read_bytes())
    frame.to_pickle(tmp_path / "rows.pkl")
    code = f"""
import pandas, pathlib, torch
torch.set_num_threads(1)
from gem_pipeline.serving.scoring import load_model
rows = pandas.read_pickle({str(tmp_path / "rows.pkl")!r})
load_model(pathlib.Path({str(folder)!r})).predict(rows).to_pickle({str(tmp_path / "scores.pkl")!r})
"""
    subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)
    pd.testing.assert_frame_equal(pd.read_pickle(tmp_path / "scores.pkl"), load(chain, TAUGHT).predict(frame))


@pytest.mark.parametrize("column", ["ad_id", EVENTS])
def test_a_missing_column_is_named(chain, frame, column):
    with pytest.raises(SchemaError, match=f"lack column.*{column}"):
        load(chain, GEM).predict(frame.drop(columns=[column]))


def test_a_folder_that_is_no_model_is_refused(chain, tmp_path):
    with pytest.raises(ModelStoreError, match="cannot be read"):
        load_model(tmp_path)
    config = chain.store.require(GEM, DAYS[0]).config() | {"kind": "oracle"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelStoreError, match="unknown kind 'oracle'"):
        load_model(tmp_path)


@pytest.fixture(scope="module")
def with_vectors(tmp_path_factory):
    home = tmp_path_factory.mktemp("vectors") / "home"
    train_with_vectors(home)
    return home


@pytest.mark.parametrize("name", [GEM, TAUGHT.replace("kd", "alone")])
def test_rows_bring_their_vectors_as_columns(with_vectors, name):
    model = load_model(ModelStore(with_vectors).require(name, DAYS[0]).path)
    lake = with_vectors / "lake"
    model.window = replace(model.window, max_events=2)
    parts = list(DayReader(model.contract, lake, window=model.window).day(DAYS[0]))
    expected = pd.DataFrame(model.score(parts), columns=list(model.objectives))
    rows = DeltaTable(str(lake / "examples")).to_pyarrow_table().to_pandas().set_index("impression_id", drop=False)
    rows = rows.loc[[i for part in parts for i in part.impression_ids.to_pylist()]]
    for feature in model.layout.vectors:
        taken = [part.vectors[feature.name].take(np.arange(part.size)) for part in parts]
        rows[feature.name] = [v if there else None for vs, has in taken for v, there in zip(vs, has, strict=True)]
    events = DeltaTable(str(lake / "user_events")).to_pyarrow_table().to_pylist()
    ads = DeltaTable(str(lake / "ad_vectors")).to_pyarrow_table().to_pylist()
    for e in events:
        at = {"entity": e["ad_id"], "time": e["event_ts"]}
        e["image"] = in_force(ads, key="ad_id", name="image", since="valid_from", **at)
    rows[EVENTS] = [[e for e in events if e["user_id"] == user] for user in rows.user_id]
    found = model.predict(rows)
    assert np.allclose(found, expected, atol=1e-6)
    without = model.predict(rows.drop(columns=["image", "taste"]))
    assert np.isfinite(without.to_numpy()).all()
    assert not np.allclose(without, found, atol=1e-6)
    with pytest.raises(SchemaError, match="not 3 finite numbers"):
        model.predict(rows.assign(image=[[1.0]] * len(rows)))
