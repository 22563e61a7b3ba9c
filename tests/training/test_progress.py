"""Progress never changes what it wraps."""

from __future__ import annotations

import pytest

from gem_pipeline.training.progress import BarProgress, SilentProgress


@pytest.mark.parametrize("progress", [BarProgress(), SilentProgress()])
def test_items_pass_unchanged(progress, capsys):
    assert list(progress.track(iter([1, 2, 3]), label="x", total=3)) == [1, 2, 3]
    assert capsys.readouterr().out == ""
