"""One picture a world for docs/worlds.md: all panels show the truth, none a label."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from benchmarks._lines import ROOT
from gem_pipeline.datasets.worlds.response import topic_drift
from gem_pipeline.datasets.worlds.serve import Served
from gem_pipeline.datasets.worlds.world import Scale, World
from gem_pipeline.runs.world_properties import cold_shares, days_served, interest_from_last, logit_shares

SCALE = Scale(users=1000)
LONG = Scale(users=60, events_a_day=200, history_days=20)
LAST = (1, 5, 20, 50, 100, 200, 500, 1000, 2000)
COLORS = ("#1f6f8b", "#d1495b", "#8d9b2f")
TOPICS = 6


def draw(world: World) -> None:
    """Write docs/world_NAME.png."""
    from matplotlib.figure import Figure

    served = days_served(world, SCALE, range(0, SCALE.days, 2))
    figure = Figure(figsize=(12, 6.2), layout="constrained")
    panels = figure.subplots(2, 3).ravel()
    _probabilities(panels[0], world, served)
    _positions(panels[1], world, served)
    _terms(panels[2], world, served)
    _memory(panels[3], world)
    _drift(panels[4], world)
    _delays(panels[5], world)
    for panel in panels:
        panel.spines[["top", "right"]].set_visible(False)
        panel.title.set_fontsize(9)
        panel.tick_params(labelsize=8)
    figure.suptitle(f"{world.name}: {world.property}", fontsize=10)
    figure.savefig(ROOT / "docs" / f"world_{world.name}.png", dpi=80)


def _joined(served: Sequence[Served]) -> tuple[Any, Any, Any]:
    surface = np.concatenate([part.slots.at.surface_N for part in served])
    position = np.concatenate([part.slots.at.position_N for part in served])
    return surface, position, np.concatenate([part.truth.p_click for part in served])


def _probabilities(panel: Any, world: World, served: Sequence[Served]) -> None:
    surface, _, prob = _joined(served)
    edges = np.geomspace(1e-3, 1, 40)
    for index, name in enumerate(world.surface_names()):
        mine = prob[surface == index]
        label = f"{name}: {len(mine) / len(prob):.0%}, mean {mine.mean():.3f}"
        panel.hist(mine, edges, density=False, weights=np.full(len(mine), 1 / len(mine)), histtype="step",
                   color=COLORS[index], label=label)  # fmt: skip
    panel.set_xscale("log")
    panel.legend(fontsize=7, frameon=False)
    panel.set_title("True click probability of impressions")


def _positions(panel: Any, world: World, served: Sequence[Served]) -> None:
    surface, position, prob = _joined(served)
    for index, name in enumerate(world.surface_names()):
        places = np.unique(position[surface == index])
        mean = [prob[(surface == index) & (position == place)].mean() for place in places]
        panel.plot(places + 1, mean, "o-", color=COLORS[index], label=name)
    panel.set_ylim(0)
    panel.set_xticks(range(1, 4))
    panel.set_title("Mean true click probability by position in the session")


def _terms(panel: Any, world: World, served: Sequence[Served]) -> None:
    shares = logit_shares(world, SCALE, served)
    users, ads = cold_shares(world, SCALE, served)
    panel.barh(list(shares), list(shares.values()), color=["#999999" if n == "hidden" else COLORS[0] for n in shares])
    panel.invert_yaxis()
    panel.set_xlabel(f"impressions: new users {users:.0%}, new ads {ads:.0%}", fontsize=8)
    panel.set_title("Share of the logit's variance")


def _memory(panel: Any, world: World) -> None:
    told = interest_from_last(world, LONG, LAST, days=range(-LONG.history_days, 0))
    panel.plot(LAST, told, "o-", color=COLORS[1])
    panel.set_xscale("log")
    panel.set_ylim(-0.02, 1)
    panel.set_xlabel("last organic events of the days before", fontsize=8)
    panel.set_title("Variance of interests that topics of events explain")


def _drift(panel: Any, world: World) -> None:
    days = np.arange(29)
    appeal = np.stack([topic_drift(world, SCALE, int(day)) for day in days])
    panel.plot(days, appeal[:, :TOPICS], linewidth=1)
    panel.set_ylim(-1.8, 1.8)
    panel.set_xlabel("day", fontsize=8)
    panel.set_title(f"Appeal of {TOPICS} topics, logit")


def _delays(panel: Any, world: World) -> None:
    days = np.linspace(0, max(c.window_days for c in world.conversions), 500)
    for index, kind in enumerate(world.conversions):
        fast, slow = (
            np.expm1(-days * 86_400 / mean) / np.expm1(-kind.window_days * 86_400 / mean)
            for mean in (kind.fast_s, kind.slow_days * 86_400)
        )
        share = np.minimum(kind.fast_share * fast + (1 - kind.fast_share) * slow, 1)
        panel.plot(days, np.where(days > kind.window_days, 1, share), color=COLORS[index], label=kind.name)
    panel.set_ylim(0, 1.02)
    panel.set_xlabel("days after the impression", fontsize=8)
    panel.legend(fontsize=7, frameon=False)
    panel.set_title("Conversions that have happened")
