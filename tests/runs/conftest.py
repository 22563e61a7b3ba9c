"""One trained chain for all tests of this folder; they read it, and change copies only."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.chain_factory import Chain, train_chain


@pytest.fixture(scope="session")
def chain(tmp_path_factory: pytest.TempPathFactory) -> Chain:
    """Three days trained in order."""
    return train_chain(tmp_path_factory.mktemp("chain") / "home")


@pytest.fixture
def own(chain: Chain, tmp_path: Path) -> Chain:
    """A copy that a test may change."""
    return chain.copy(tmp_path / "home")
