"""docs/scaling.png: NE against compute of a training, one panel a log, one line an architecture with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._lines import ROOT
from benchmarks.scaling_study.ladder import DCNV2, DLRM, GEM, HSTU, INTERFORMER, PAIRED, TOLD, TOWERED, WUKONG
from benchmarks.scaling_study.laws import ARCHITECTURES, Fits, logs, means, of
from benchmarks.scaling_study.plan import LENGTHS, SIZE_DATA
from benchmarks.scaling_study.points import Point

PICTURE = ROOT / "docs" / "scaling.png"
COLUMNS = 2
COLORS = {
    GEM: "#d1495b", INTERFORMER: "#1f6f8b", WUKONG: "#8d9b2f", DCNV2: "#6c4f9c", DLRM: "#8a8a8a", HSTU: "#d98e04",
    TOLD: "#3b2a63", PAIRED: "#8a6d3b", TOWERED: "#e58f98",
}  # fmt: skip


def draw(points: Sequence[Point], fits: Sequence[Fits]) -> None:
    """Write the picture: the compared amount of data with its fits; other amounts as small dots; histories last."""
    from matplotlib.figure import Figure

    panels: list[Fits | str] = [*fits, *logs(points, LENGTHS)]
    if not panels:
        PICTURE.unlink(missing_ok=True)  # one of other points would mislead
        return
    columns = min(COLUMNS, len(panels))
    rows = -(-len(panels) // columns)
    figure = Figure(figsize=(5.6 * columns, 4.4 * rows), layout="constrained")
    places = figure.subplots(rows, columns, squeeze=False).ravel()
    for empty in places[len(panels) :]:
        empty.set_axis_off()
    for panel, shown in zip(places[: len(panels)], panels, strict=True):
        _compute(panel, points, shown) if isinstance(shown, Fits) else _lengths(panel, points, shown)
        panel.set_title(shown.log if isinstance(shown, Fits) else shown, fontsize=10)
        panel.set_xscale("log")
        panel.spines[["top", "right"]].set_visible(False)
        panel.legend(frameon=False, fontsize=8)
    figure.savefig(PICTURE, dpi=110)


def _compute(panel: Any, points: Sequence[Point], fit: Fits) -> None:
    compared = fit.compared
    for name in ARCHITECTURES:
        every = means(of(points, SIZE_DATA, fit.log, name), "days", "size")
        if not every:
            continue
        own = [p for (days, _), p in every.items() if compared is None or days == compared[0]]
        rest = [p for (days, _), p in every.items() if compared is not None and days != compared[0]]
        panel.scatter([p["compute"] for p in rest], [p["ne"] for p in rest], s=6, alpha=0.4, color=COLORS[name])
        panel.scatter([p["compute"] for p in own], [p["ne"] for p in own], s=28, color=COLORS[name])
        label = name
        if name in fit.laws:
            law = fit.laws[name]
            told = [p["compute"] for p in own]
            grid = np.geomspace(min(told), max(told), 30)
            drawn_RG = law.draw_R2[:, :1] - law.draw_R2[:, 1:] * np.log(grid / law.c0)
            panel.plot(grid, [law.at(c) for c in grid], color=COLORS[name])
            panel.fill_between(grid, *np.quantile(drawn_RG, [0.025, 0.975], axis=0), color=COLORS[name], alpha=0.1)
            label = f"{name}, eta {law.eta:.4f}"
        panel.plot([], [], color=COLORS[name], marker="o", label=label)
    panel.set_xlabel("FLOPs of the training")
    panel.set_ylabel("NE of later days" + (f" ({compared[0]} days large, others small)" if compared else ""))


def _lengths(panel: Any, points: Sequence[Point], log: str) -> None:
    for name in ARCHITECTURES:
        own = list(means(of(points, LENGTHS, log, name), "history").values())
        if own:
            panel.plot(
                [p["history"] for p in own], [p["ne"] for p in own], marker="o", color=COLORS[name], label=name
            )  # fmt: skip
    panel.set_xlabel("newest events that the model sees")
    panel.set_ylabel("NE of later days")
