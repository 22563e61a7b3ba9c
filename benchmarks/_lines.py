"""One JSON line a figure, as DESIGN section 11 fixes it."""

from __future__ import annotations

import json
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]


def commit() -> str:
    """The commit that is measured."""
    found = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=ROOT)
    return found.stdout.strip()


def line(bench: str, figure: str, value: float | None, *, unit: str, size: str, **more: Any) -> dict[str, Any]:
    """A figure; `value` None needs a `why`."""
    known = {"baseline": None, "low": None, "high": None, "runs": 1, "seed": 0, "config_hash": "", "why": ""}
    machine = f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores"
    head = {"bench": bench, "figure": figure, "value": value, "unit": unit, "size": size}
    return head | known | more | {"commit": commit(), "cpu": machine}


def append(target: Path, rows: Iterable[dict[str, Any]]) -> None:
    """Append lines to a file and tell them."""
    with target.open("a", encoding="utf-8") as file:
        for row in rows:
            file.write(json.dumps(row) + "\n")
            print(row["figure"], row["size"], row["value"], row["unit"], row["why"], flush=True)
