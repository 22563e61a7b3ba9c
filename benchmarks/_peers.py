"""Environments for other people's packages: they are no dependency of the product."""

from __future__ import annotations

import subprocess
import sys

from gem_pipeline.places import home_path

PINS = {
    "engines": ("polars==2.1.0", "duckdb==2.0.1"),
    "boosting": ("lightgbm==4.7.0", "numpy==2.4.6"),
    "neural": ("fuxictr==2.3.10", "polars==1.41.2", "torch==2.13.0", "numpy==2.4.6"),
}


def peer_python(family: str) -> str:
    """The interpreter that has a family of peers; made at the first call, in `peers/<family>` of the home."""
    folder = home_path().absolute() / "peers" / family
    python, done, pins = folder / "bin" / "python", folder / "pins.txt", PINS[family]
    if not done.exists() or done.read_text(encoding="ascii") != "\n".join(pins):
        subprocess.run([sys.executable, "-m", "venv", "--clear", str(folder)], check=True)
        subprocess.run([str(python), "-m", "pip", "install", "--quiet", *pins], check=True)
        done.write_text("\n".join(pins), encoding="ascii")
    return str(python)
