"""An environment of its own for other people's engines: they are no dependency of the product."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from gem_pipeline.places import home_path

PINS = ("polars==2.1.0", "duckdb==2.0.1")


def peer_python() -> Path:
    """The interpreter that has the peers; made at the first call, in `peers/` of the home."""
    folder = home_path().absolute() / "peers"
    python, done = folder / "bin" / "python", folder / "pins.txt"
    if not done.exists() or done.read_text() != "\n".join(PINS):
        subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *PINS], check=True)
        done.write_text("\n".join(PINS))
    return python
