"""What a run of the UI needs: Dagster spawns it as a process whose main module has no file."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.graph
ROOT = Path(__file__).parents[2]


def test_the_quality_gates_can_be_imported_in_a_process_without_a_main_file():
    code = "from gem_pipeline.quality.validate import great_expectations; print(great_expectations().__name__)"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == "great_expectations", done.stderr
