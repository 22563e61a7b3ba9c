"""Where things lie when nobody says otherwise. Read from the environment when asked, never at import. Ours.

Standard library only: the command line and the installation use it before anything heavy is loaded.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

DEFAULT_HOME = ".gem"
DEFAULT_DATA = Path("../shared/data")


def home_path() -> Path:
    """The folder of all state: GEM_HOME, else `.gem` in the working directory."""
    return Path(os.environ.get("GEM_HOME") or DEFAULT_HOME)


def contract_path() -> Path:
    """The data contract: GEM_CONTRACT, else the packaged one."""
    named = os.environ.get("GEM_CONTRACT")
    return Path(named) if named else Path(str(files("gem_pipeline") / "datasets" / "kuairand.yaml"))


def named_data() -> str | None:
    """The log that somebody named with GEM_DATA: a folder, or `generated`; None where nobody did."""
    return os.environ.get("GEM_DATA") or None
