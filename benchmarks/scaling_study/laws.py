"""Laws of the points of one log: eta at equal data, exponents of size and data, efficiency, held-out points.

Every fit reads points only. Sizes are compared where all compared architectures have them, at the same learnt days.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from benchmarks.scaling_study.ladder import GEM, INTERFORMER, RUNGS, TOWERED, WUKONG
from benchmarks.scaling_study.plan import LENGTHS, SIZE_DATA, SURFACES
from benchmarks.scaling_study.points import Point
from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.compute_ratio import ComputeRatio, compute_ratio
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.scaling_law import LogLaw, SizeDataLaw, fit_log_law, fit_size_data_law
from gem_pipeline.metrics.state import Estimate, MetricState

CONFIG = BootstrapConfig()
SIZE_DATA_CONFIG = BootstrapConfig(resamples=200, auc_resamples=20)
ARCHITECTURES = tuple(RUNGS)
AXIS_FIELD = {LENGTHS: "history", SURFACES: "num_surfaces"}
MIN_SIZES = 4


@dataclass(frozen=True, kw_only=True)
class HeldOut:
    """A point that its fit did not see.

    Attributes:
        predicted: by the fit to the other points, with an interval for one more training.
        measured: NE, mean over seeds.
        size: rung of the point.
        days: learnt days of the point.
    """

    predicted: Estimate
    measured: float
    size: str
    days: int

    @property
    def relative_error(self) -> float:
        """Measured over predicted, minus 1."""
        return self.measured / self.predicted.value - 1.0


@dataclass(frozen=True, kw_only=True)
class Surface:
    """The law of size and data of one architecture.

    Attributes:
        law: the fit to all points.
        flops_per_pair: k of C = k N D, geometric mean over the points.
        held_out: the largest size at the most data, predicted from the rest.
    """

    law: SizeDataLaw
    flops_per_pair: float
    held_out: HeldOut | None


@dataclass(frozen=True, kw_only=True)
class Fits:
    """What the sizes and amounts of data of one log say, by architecture where its points allow it.

    Attributes:
        log: key of the log.
        lead: the GEM that peers are compared with: with a tower where that has its sizes, see `lead`.
        compared: learnt days and sizes that `laws` are over; None: too few are shared.
        laws: NE against compute.
        held_out: the largest of the sizes, as the smaller ones predict it.
        gains: learnt days, and sizes over which GEM gains monotonically there; the same of it with a growing tower.
        surfaces: laws of size and data.
        ratios: compute of each peer over the lead's, or why there is none.
    """

    log: str
    lead: str
    compared: tuple[int, tuple[str, ...]] | None
    laws: dict[str, LogLaw]
    held_out: dict[str, HeldOut]
    gains: dict[str, tuple[int, int]]
    surfaces: dict[str, Surface]
    ratios: dict[str, ComputeRatio | MetricState]


def fitted(points: Sequence[Point]) -> list[Fits]:
    """All fits, log by log: figures, page and picture tell of the same ones."""
    found = []
    for log in logs(points, SIZE_DATA):
        first, compared = lead(points, log), compared_amount(points, log)
        laws = log_laws(points, log, *compared) if compared else {}
        there = [name for name in ARCHITECTURES if of(points, SIZE_DATA, log, name)]
        held = {name: held_out_size(points, log, *compared, name) for name in laws} if compared else {}
        surfaces = {name: surface(points, log, name) for name in there}
        found.append(
            Fits(
                log=log, lead=first, compared=compared, laws=laws,
                held_out={name: one for name, one in held.items() if one},
                gains={name: gain for name in (GEM, TOWERED) if (gain := gains(points, log, name))},
                surfaces={name: one for name, one in surfaces.items() if one},
                ratios={peer: efficiency(points, log, peer) for peer in there if peer != first},
            )
        )  # fmt: skip
    return found


def logs(points: Iterable[Point], axis: str) -> list[str]:
    """Logs that have points on an axis."""
    return sorted({point["log"] for point in points if point["axis"] == axis})


def of(points: Iterable[Point], axis: str, log: str, architecture: str = "") -> list[Point]:
    """Points of an axis and log, of one architecture or of all."""
    return [
        p for p in points if p["axis"] == axis and p["log"] == log and architecture in {"", p["architecture"]}
    ]  # fmt: skip


def means(points: Iterable[Point], *names: str) -> dict[tuple, Point]:
    """Mean NE and compute over seeds by some fields."""
    groups: dict[tuple, list[Point]] = defaultdict(list)
    for point in points:
        groups[tuple(point[name] for name in names)].append(point)
    return {
        key: found[0]
        | {name: float(np.mean([p[name] for p in found])) for name in ("ne", "compute")}
        | {"seeds": len(found)}
        for key, found in sorted(groups.items())
    }


def lead(points: Iterable[Point], log: str) -> str:
    """The GEM of a log: with a growing tower where four sizes of it have learnt equally long, else without."""
    return TOWERED if most_days(points, log, TOWERED) else GEM


def most_days(points: Iterable[Point], log: str, architecture: str) -> int:
    """The most learnt days at which an architecture has at least four sizes; 0: it nowhere has."""
    sizes: dict[int, set[str]] = defaultdict(set)
    for point in of(points, SIZE_DATA, log, architecture):
        sizes[point["days"]].add(point["size"])
    return max((days for days, own in sizes.items() if len(own) >= MIN_SIZES), default=0)


def compared_amount(points: Sequence[Point], log: str) -> tuple[int, tuple[str, ...]] | None:
    """The most learnt days at which GEM, InterFormer and Wukong share at least four sizes, and these sizes."""
    found, first = of(points, SIZE_DATA, log), lead(points, log)
    for days in sorted({p["days"] for p in found}, reverse=True):
        sizes = [
            {p["size"] for p in found if p["days"] == days and p["architecture"] == name}
            for name in (first, INTERFORMER, WUKONG)
        ]
        common = tuple(sorted(set.intersection(*sizes)))
        if len(common) >= MIN_SIZES:
            return days, common
    return None


def log_laws(points: Sequence[Point], log: str, days: int, sizes: Sequence[str]) -> dict[str, LogLaw]:
    """NE against compute over sizes, at one amount of data, by architecture that has all of the sizes."""
    found = {}
    for architecture in ARCHITECTURES:
        own = [p for p in of(points, SIZE_DATA, log, architecture) if p["days"] == days and p["size"] in sizes]
        if {p["size"] for p in own} == set(sizes):
            found[architecture] = fit_log_law([p["compute"] for p in own], [p["ne"] for p in own], config=CONFIG)
    return found


def held_out_size(points: Sequence[Point], log: str, days: int, sizes: Sequence[str], name: str) -> HeldOut | None:
    """The largest of the sizes, predicted by the line through the smaller ones."""
    own = [p for p in of(points, SIZE_DATA, log, name) if p["days"] == days and p["size"] in sizes]
    last = max(sizes)
    rest = [p for p in own if p["size"] != last]
    try:
        law = fit_log_law([p["compute"] for p in rest], [p["ne"] for p in rest], config=CONFIG)
    except ConfigError:
        return None
    unseen = means((p for p in own if p["size"] == last), "size")[last,]
    return HeldOut(predicted=law.prediction(unseen["compute"]), measured=unseen["ne"], size=last, days=days)


def surface(points: Sequence[Point], log: str, architecture: str) -> Surface | None:
    """The law of size and data; None where the points are too few."""
    own = of(points, SIZE_DATA, log, architecture)
    last = max(own, key=lambda p: (p["days"], p["size"]))
    rest = [p for p in own if (p["days"], p["size"]) != (last["days"], last["size"])]
    try:
        law = _surface(own)
    except ConfigError:
        return None
    try:
        unseen = means(own, "days", "size")[last["days"], last["size"]]
        predicted = _surface(rest).prediction(last["parameters"], last["examples"])
        held = HeldOut(predicted=predicted, measured=unseen["ne"], size=last["size"], days=last["days"])
    except ConfigError:
        held = None
    k = np.exp(np.mean([np.log(p["compute"] / p["parameters"] / p["examples"]) for p in own]))
    return Surface(law=law, flops_per_pair=float(k), held_out=held)


def _surface(points: Sequence[Point]) -> SizeDataLaw:
    return fit_size_data_law(
        [p["parameters"] for p in points], [p["examples"] for p in points], [p["ne"] for p in points],
        config=SIZE_DATA_CONFIG,
    )  # fmt: skip


def efficiency(points: Sequence[Point], log: str, peer: str) -> ComputeRatio | MetricState:
    """Compute of a peer over that of GEM at the peer's best NE, over all sizes and amounts of data."""
    own, other = (
        list(means(of(points, SIZE_DATA, log, name), "size", "days").values()) for name in (lead(points, log), peer)
    )
    return compute_ratio(*([p[field] for p in group] for group in (own, other) for field in ("compute", "ne")))


def gains(points: Sequence[Point], log: str, architecture: str) -> tuple[int, int] | None:
    """The most learnt days at which an architecture has at least four sizes, and over how many of them it gains."""
    days = most_days(points, log, architecture)
    return (days, rising(points, log, days, architecture)) if days else None


def rising(points: Sequence[Point], log: str, days: int, architecture: str = GEM) -> int:
    """Sizes in the longest run of sizes each better than the one before, at some learnt days."""
    own = means((p for p in of(points, SIZE_DATA, log, architecture) if p["days"] == days), "size")
    values = [point["ne"] for point in own.values()]
    best = run = min(1, len(values))
    for before, after in pairwise(values):
        run = run + 1 if after < before else 1
        best = max(best, run)
    return best


def axis_law(points: Sequence[Point], axis: str, log: str, architecture: str) -> LogLaw | None:
    """NE against the logarithm of the history's length, or of the number of surfaces."""
    field, own = AXIS_FIELD[axis], of(points, axis, log, architecture)
    try:
        return fit_log_law([p[field] for p in own], [p["ne"] for p in own], config=CONFIG)
    except ConfigError:
        return None
