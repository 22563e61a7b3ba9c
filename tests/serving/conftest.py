"""Stored models of every kind, for all tests of this folder."""

from __future__ import annotations

import pytest

from tests.chain_factory import Chain, train_chain
from tests.lake_factory import DAYS


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Two days trained in order: the second one is scored by the models of the first."""
    return train_chain(tmp_path_factory.mktemp("served") / "home", days=DAYS[:2], rows=160)
