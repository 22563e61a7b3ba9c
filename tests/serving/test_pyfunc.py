"""MLflow loads a registered model without pickle, and it scores as it did before."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from gem_pipeline.errors import ModelStoreError
from gem_pipeline.serving.pyfunc import _load_pyfunc
from gem_pipeline.serving.scoring import EVENTS, Scorer, load_model
from gem_pipeline.training.plan import GEM
from gem_pipeline.training.tracker import RunHeader
from resources.tracker import MlflowTracker
from tests.lake_factory import DAYS


def test_a_registered_model_is_loaded_by_mlflow_and_scores_alike(chain, tmp_path):
    from mlflow.pyfunc import load_model as load_registered

    stored = chain.store.require(GEM, DAYS[0])
    tracker = MlflowTracker(tmp_path)
    header = RunHeader(name=GEM, date=DAYS[0], model_id=stored.model_id, params={}, tags={})
    with tracker.start_run(header) as run:
        run.log_model(stored.path)
    source = tracker._client.get_model_version_by_alias(GEM, "candidate").source
    rows = chain.table("examples", DAYS[1]).head(20)
    rows = rows.assign(**{EVENTS: [[] for _ in range(len(rows))]})
    found = load_registered(source).predict(rows)
    pd.testing.assert_frame_equal(found, load_model(stored.path).predict(rows))


def test_the_loader_gives_a_scorer(chain):
    assert isinstance(_load_pyfunc(str(chain.store.require(GEM, DAYS[0]).path)), Scorer)


def test_an_incomplete_folder_is_a_plain_error(tmp_path: Path):
    with pytest.raises(ModelStoreError):
        _load_pyfunc(str(tmp_path))
