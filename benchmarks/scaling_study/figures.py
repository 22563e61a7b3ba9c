"""Figures of the study as lines: names as DESIGN section 11 has them, null with a reason where points are too few."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Any

from benchmarks._lines import line
from benchmarks.scaling_study.ladder import GEM, INTERFORMER, WUKONG
from benchmarks.scaling_study.laws import ARCHITECTURES, Fits, axis_law, logs, of
from benchmarks.scaling_study.plan import LENGTHS, SIZE_DATA, SURFACES
from benchmarks.scaling_study.points import Point
from gem_pipeline.metrics.compute_ratio import ComputeRatio
from gem_pipeline.metrics.scaling_law import ratio_of_etas
from gem_pipeline.metrics.state import Estimate

FEW = "too few points in benchmarks/points/scaling.jsonl"
PER_E = "NE an e-fold of compute"


def lines(points: Sequence[Point], fits: Sequence[Fits]) -> Iterator[dict[str, Any]]:
    """All figures of the points and their fits."""
    if not fits:
        for figure in ("eta_gem", "eta_interformer", "eta_wukong", "eta_ratio", "compute_ratio_dcnv2", "data_exponent"):
            yield line("scaling", figure, None, unit="", size="all logs", why=FEW)
    for fit in fits:
        yield from eta_lines(points, fit)
        yield from efficiency_lines(fit)
        yield from surface_lines(points, fit)
    for axis, figure, unit in (
        (LENGTHS, "eta_history", "NE an e-fold of events"), (SURFACES, "eta_surfaces", "NE an e-fold of surfaces"),
    ):  # fmt: skip
        for log in logs(points, axis):
            for name in ARCHITECTURES:
                law, runs = axis_law(points, axis, log, name), len(of(points, axis, log, name))
                if runs:
                    told = valued(law.eta_interval) if law else {"value": None, "why": FEW}
                    yield line("scaling", figure, **told, unit=unit, size=f"{name}, {log}", runs=runs)


def eta_lines(points: Sequence[Point], fit: Fits) -> Iterator[dict[str, Any]]:
    """Eta by architecture, its ratios, what the line through smaller sizes says of the largest, gains by size."""
    log = fit.log
    for name, (days, gained) in fit.gains.items():
        told = "sizes_of_monotone_gain" if name == GEM else f"sizes_of_monotone_gain_{short(name)}"
        yield line("scaling", told, float(gained), unit="sizes", size=f"{log}, {days} days")
    if fit.compared is None:
        for figure in ("eta_gem", "eta_interformer", "eta_wukong", "eta_ratio"):
            yield line("scaling", figure, None, unit=PER_E, size=log, why=FEW)
        return
    days, sizes = fit.compared
    place = f"{log}, {days} days, {len(sizes)} sizes"
    for name, law in fit.laws.items():
        runs = sum(p["days"] == days and p["size"] in sizes for p in of(points, SIZE_DATA, log, name))
        yield line(
            "scaling", f"eta_{short(name)}", **valued(law.eta_interval), unit=PER_E, size=place, runs=runs
        )  # fmt: skip
        held = fit.held_out.get(name)
        if held is not None:
            inside = held.predicted.low <= held.measured <= held.predicted.high
            yield line(
                "scaling", "heldout_error", held.relative_error, unit="measured NE over predicted - 1",
                size=f"{name}, {log}, {held.size}, {held.days} days",
                baseline=f"{'inside' if inside else 'outside'} the interval",
            )  # fmt: skip
    for name in (INTERFORMER, WUKONG):
        ratio = ratio_of_etas(fit.laws[fit.lead], fit.laws[name])
        yield line(
            "scaling", "eta_ratio", **valued(ratio), unit=f"eta of {fit.lead} over the baseline's", baseline=name,
            size=f"{name}, {place}",
        )  # fmt: skip


def efficiency_lines(fit: Fits) -> Iterator[dict[str, Any]]:
    """Compute of each peer over that of GEM for equal NE."""
    for peer, found in fit.ratios.items():
        told: dict[str, Any] = {"value": None, "why": f"state {found}"}
        if isinstance(found, ComputeRatio):
            bound = f"at least: the cheapest training of {fit.lead} reaches it" if found.at_least else ""
            told = {"value": found.ratio, "baseline": f"{peer}'s best NE {found.ne:.4f}; {bound}".rstrip("; ")}
        yield line(
            "scaling",
            f"compute_ratio_{short(peer)}",
            **told,
            unit=f"peer's compute over that of {fit.lead}",
            size=fit.log,
        )


def surface_lines(points: Sequence[Point], fit: Fits) -> Iterator[dict[str, Any]]:
    """Exponents of size and data, and the held-out point."""
    for name in ARCHITECTURES:
        size, runs = f"{name}, {fit.log}", len(of(points, SIZE_DATA, fit.log, name))
        found = fit.surfaces.get(name)
        if found is None:
            if runs:
                yield line("scaling", "data_exponent", None, unit="exponent", size=size, why=FEW)
            continue
        yield line("scaling", "data_exponent", **valued(found.law.data_exponent), unit="exponent", size=size, runs=runs)
        yield line("scaling", "size_exponent", **valued(found.law.size_exponent), unit="exponent", size=size, runs=runs)
        if found.held_out is not None:
            yield line(
                "scaling", "heldout_error", found.held_out.relative_error, unit="measured NE over predicted - 1",
                size=f"{size}, law of size and data",
            )  # fmt: skip


def short(architecture: str) -> str:
    """Its name in a figure's."""
    return architecture.removesuffix("_alone")


def valued(found: Estimate) -> dict[str, Any]:
    """Fields of a line; an interval without an end is told in words."""
    if not math.isfinite(found.value):
        return {"value": None, "why": "the baseline gains nothing from compute"}
    if not math.isfinite(found.high):
        return {"value": found.value, "why": f"interval from {found.low:.3g} upwards, without end"}
    return {"value": found.value, "low": found.low, "high": found.high}
