"""Where things lie, and what runs are made of, when nobody says otherwise. Ours.

Read from the environment when asked, never at import.

Standard library only: the command line and the installation use it before anything heavy is loaded.
"""

from __future__ import annotations

import os
from importlib.resources import files
from pathlib import Path

from gem_pipeline.errors import ConfigError

DEFAULT_HOME = ".gem"
DEFAULT_DATA = Path("../shared/data")
DEFAULT_SIZE = "tiny"


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


def run_size() -> str:
    """The size of GEM, with variants: GEM_SIZE, else `tiny`."""
    return os.environ.get("GEM_SIZE") or DEFAULT_SIZE


def replay_days() -> int:
    """Earlier days that GEM learns again with each day: GEM_REPLAY_DAYS, else 0.

    Raises:
        ConfigError: it is no number of days.
    """
    told = os.environ.get("GEM_REPLAY_DAYS") or "0"
    if not told.isdecimal():
        raise ConfigError(f"GEM_REPLAY_DAYS is {told!r}.", remedy="Set it to 0 or more days.")
    return int(told)
