"""docs/attention_length.png: time of attention by the length of a history, linear and quadratic in one plot."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks._lines import ROOT

KINDS = {"block": "#1f6f8b", "window": "#8d9b2f", "full": "#d1495b"}


def draw(rows: Iterable[dict[str, Any]]) -> None:
    """Write the picture from the lines of `kernels`: one curve a kind, both axes logarithmic."""
    from matplotlib.figure import Figure

    known = list(rows)
    figure = Figure(figsize=(6.4, 4.2), layout="constrained")
    panel = figure.subplots()
    for kind, color in KINDS.items():
        told = [row for row in known if row["figure"] == f"{kind}_attention_ms" and row["value"] is not None]
        points = sorted((int(row["size"]), row["value"]) for row in told)
        slope = next((r["value"] for r in known if r["figure"] == f"{kind}_attention_length_exponent"), None)
        label = f"{kind} attention" if slope is None else f"{kind} attention, exponent {slope:.2f}"
        panel.loglog(*zip(*points, strict=True), marker="o", color=color, label=label)
    panel.set_xlabel("events of a history")
    panel.set_ylabel("ms a history, forward and backward")
    panel.spines[["top", "right"]].set_visible(False)
    panel.legend(frameon=False)
    figure.savefig(ROOT / "docs" / "attention_length.png", dpi=110)


def draw_newest(results: Path) -> None:
    """The picture of the newest lines of a file of results."""
    newest = {}
    for text in filter(None, results.read_text(encoding="utf-8").splitlines()):
        row = json.loads(text)
        if row["bench"] == "kernels":
            newest[row["figure"], row["size"]] = row
    draw(newest.values())
