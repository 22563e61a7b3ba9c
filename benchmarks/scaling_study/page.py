"""docs/scaling.md, written from the points alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from benchmarks._lines import ROOT
from benchmarks.scaling_study.ladder import HISTORY, RATE, RATES
from benchmarks.scaling_study.laws import ARCHITECTURES, AXIS_FIELD, Fits, axis_law, logs, means, of
from benchmarks.scaling_study.plan import CHOICE, CHOICE_DAY, CONTROLS, LENGTHS, REAL, SIZE_DATA, SOURCES, SURFACES
from benchmarks.scaling_study.plan import plan as whole_plan
from benchmarks.scaling_study.points import Point, missing
from gem_pipeline.atomic import write_text
from gem_pipeline.metrics.compute_ratio import ComputeRatio
from gem_pipeline.metrics.scaling_law import ratio_of_etas
from gem_pipeline.metrics.state import Estimate

PAGE = ROOT / "docs" / "scaling.md"
HEAD = f"""# Scaling

Written by `python -m benchmarks scaling` from `benchmarks/points/scaling.jsonl`, one line a trained cell. Micro-sizes
of about 0.3 to 60 MFLOP an example (`benchmarks/scaling_study/ladder.py`) learn nested amounts of days that end on
the same date, in one pass, and are judged on later days: on the real log by NE of click and long_view pooled, on a
world by the true NE of clicks. MovieLens-1M, where histories are long, is judged by NE of like and love. Compute of a
training is three forward passes of every example. All sizes see the newest {HISTORY} events. The learning rate of the
dense part is the best of three for each architecture at one size and amount of data (`gem_tower`: the better of two on
2026-01-16 of `entangled`); all other settings are shared, and none was tuned by size. Wukong, InterFormer, DCN V2 and
DLRM are those built here, with GEM's embeddings, dense inputs, first-order terms and heads. FLOPs count every
example's history by itself, though the impressions of a
request share part of it when GEM learns. Numbers of matching events and weights of pairs of ids, which the peers
lack, are part of GEM; on the worlds events are counted among the newest 1 024, by equal ids and by vectors that look
alike. `dcnv2_matches` is DCN V2 with the very same numbers, `dcnv2_matches_pairs` with the weights of pairs as well:
what it lacks of GEM is the architecture's, what it gains over DCN V2 that of what it is told. Counting costs time, but
no FLOPs. The logit of `everyday` is a sum of terms, of which a larger model finds no more than a small one; that of
`entangled` is for the most part a function of seven columns together ([worlds.md](worlds.md)). `gem_tower` is
GEM with networks over the vectors of all frequent ids that grow with the size (variant `tower`). GEM's points of
MovieLens and those of the search of rates are older: without either.

NE(C) = NE0 - eta ln C (natural logarithm) is fitted over sizes at the same data; NE(N, D) = E + A / N^a + B / D^b over
all cells, N without embedding tables. Intervals are 95 %, from resampled residuals; each seed is a point.
"""


def write(points: Sequence[Point], fits: Sequence[Fits]) -> None:
    """Write the page."""
    write_text(PAGE, "\n".join(page(points, fits)) + "\n")


def page(points: Sequence[Point], fits: Sequence[Fits]) -> Iterator[str]:
    """Lines of the page."""
    yield HEAD
    commits = sorted({point["commit"][:9] for point in points})
    hours = sum(point["seconds"] for point in points) / 3600.0
    if fits or logs(points, LENGTHS):
        yield "![NE against compute](scaling.png)\n"
    yield f"{len(points)} cells, {hours:.1f} CPU hours, commits {', '.join(commits) or 'none'}.\n"
    for fit in fits:
        yield f"## {fit.log}\n"
        yield from _etas(fit)
        yield from _surfaces_of_size_and_data(fit)
        yield from _efficiency(fit)
        yield from _points(points, fit.log)
    for axis, title in ((LENGTHS, "Length of the history"), (SURFACES, "Number of surfaces")):
        for log in logs(points, axis):
            yield f"## {title}: {log}\n"
            if axis == SURFACES:
                yield f"Judged on {SOURCES[log].surfaces[0]} alone.\n"
            yield from _axis(points, axis, log)
    yield from _rates(points)
    yield "## Not shown yet\n"
    cells = whole_plan()
    rest = missing(cells, points)
    yield f"{len(rest)} of {len(cells)} planned cells are not trained yet (`python -m benchmarks.scaling --plan`)."


def _etas(fit: Fits) -> Iterator[str]:
    for name, (days, sizes) in fit.gains.items():
        yield f"{name} gains monotonically over {sizes} sizes at {days} learnt days.\n"
    if fit.compared is None:
        yield "GEM, InterFormer and Wukong do not share four sizes yet: no eta.\n"
        return
    compared, common = fit.compared
    yield f"Sizes {', '.join(common)} at {compared} learnt days.\n"
    yield f"| architecture | eta | eta of {fit.lead} over it | largest size: predicted | measured |"
    yield "|---|---|---|---|---|"
    for name, law in fit.laws.items():
        ratio = "" if name == fit.lead else _told(ratio_of_etas(fit.laws[fit.lead], law), 2)
        held = fit.held_out.get(name)
        told = (_told(held.predicted, 4), f"{held.measured:.4f}") if held else ("too few", "")
        yield f"| {name} | {_told(law.eta_interval, 5)} | {ratio} | {told[0]} | {told[1]} |"
    yield ""


def _surfaces_of_size_and_data(fit: Fits) -> Iterator[str]:
    if not fit.surfaces:
        yield "Too few points for a law of size and data.\n"
        return
    yield "| architecture | E | a (size) | b (data) | best size grows as C to the | held out: predicted | measured |"
    yield "|---|---|---|---|---|---|---|"
    for name, one in fit.surfaces.items():
        law, held = one.law, one.held_out
        split = law.optimal_split(1e12, flops_per_pair=one.flops_per_pair)
        told = (_told(held.predicted, 4), f"{held.measured:.4f} ({held.size}, {held.days} days)") if held else ("", "")
        yield (
            f"| {name} | {_told(law.floor, 4)} | {_told(law.size_exponent, 2)} | {_told(law.data_exponent, 2)} "
            f"| {_told(split.size_share, 2)} | {told[0]} | {told[1]} |"
        )
    yield ""


def _efficiency(fit: Fits) -> Iterator[str]:
    yield f"| peer | its best NE in the common range | its compute over that of {fit.lead} for that NE |"
    yield "|---|---|---|"
    for peer, found in fit.ratios.items():
        if isinstance(found, ComputeRatio):
            yield f"| {peer} | {found.ne:.4f} | {'at least ' if found.at_least else ''}{found.ratio:.2f} |"
        else:
            yield f"| {peer} | | {str(found).replace('_', ' ')} |"
    yield ""


def _points(points: Sequence[Point], log: str) -> Iterator[str]:
    """NE by architecture, size and learnt days, means over seeds; on a world its floor."""
    own = of(points, SIZE_DATA, log)
    amounts = sorted({point["days"] for point in own})
    floors = {point["floor"] for point in own} - {None}
    if floors:
        yield f"The NE of the true probabilities is {min(floors):.4f}: subtract it for the excess.\n"
    yield "| architecture | size | parameters | MFLOP an example | " + " | ".join(f"{d} days" for d in amounts) + " |"
    yield "|---|---|---|---|" + "---|" * len(amounts)
    by_cell = means(own, "architecture", "size", "days")
    for name in ARCHITECTURES:
        for size in sorted({point["size"] for point in own if point["architecture"] == name}):
            found = [by_cell.get((name, size, days)) for days in amounts]
            first = next(point for point in found if point)
            told = " | ".join(f"{p['ne']:.4f} ({p['seeds']})" if p else "" for p in found)
            yield f"| {name} | {size} | {first['parameters']} | {first['flops_per_example'] / 1e6:.2f} | {told} |"
    yield "\nIn parentheses: seeds.\n"


def _axis(points: Sequence[Point], axis: str, log: str) -> Iterator[str]:
    field = AXIS_FIELD[axis]
    values = sorted({point[field] for point in of(points, axis, log)})
    yield "| architecture | " + " | ".join(map(str, values)) + " | NE gained an e-fold |"
    yield "|---|" + "---|" * (len(values) + 1)
    for name in ARCHITECTURES:
        own = means(of(points, axis, log, name), field)
        if own:
            law = axis_law(points, axis, log, name)
            told = " | ".join(f"{own[value,]['ne']:.4f}" if (value,) in own else "" for value in values)
            yield f"| {name} | {told} | {_told(law.eta_interval, 5) if law else 'too few'} |"
    yield ""


def _rates(points: Sequence[Point]) -> Iterator[str]:
    """The search of learning rates."""
    own = {(p["architecture"], p["dense_lr"]): p["ne"] for p in points if p["axis"] == CHOICE}
    if not own:
        return
    yield "## Learning rates\n"
    yield f"Size s2, {REAL.amounts[1]} days of the real log, NE on {CHOICE_DAY}, which is judged nowhere else.\n"
    yield "| architecture | " + " | ".join(f"{rate:g}" for rate in RATES) + " | chosen |"
    yield "|---|" + "---|" * (len(RATES) + 1)
    for name in (name for name in ARCHITECTURES if name not in CONTROLS):
        told = " | ".join(f"{own[name, rate]:.4f}" if (name, rate) in own else "" for rate in RATES)
        yield f"| {name} | {told} | {RATE[name]:g} |"
    yield ""


def _told(found: Estimate, digits: int) -> str:
    return f"{found.value:.{digits}f} [{found.low:.{digits}f}, {found.high:.{digits}f}]"
