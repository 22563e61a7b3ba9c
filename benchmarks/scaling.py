"""How NE falls with compute, size, data, history and surfaces, for GEM and its peers: laws from resumable cells.

A finished cell is a line of benchmarks/points/scaling.jsonl, which is committed: it is not trained again, on no
machine, and figures, docs/scaling.md and docs/scaling.png come from these lines alone.
"""

from __future__ import annotations

import argparse
import multiprocessing
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from pathlib import Path
from typing import Any

from benchmarks._lines import append as publish
from benchmarks.scaling_study import page, picture, points, room
from benchmarks.scaling_study.figures import lines
from benchmarks.scaling_study.laws import fitted
from benchmarks.scaling_study.plan import PLAN_SECONDS, Planned, plan, quick_plan, total_hours
from benchmarks.trials.homes import Log, derived


def run(cells: Sequence[Planned], file: Path, *, jobs: int, hours: float) -> list[str]:
    """Train what is missing in order, some at a time, and write a line when a cell ends; none starts after `hours`.

    Returns:
        Names of cells that failed; they have no line and are tried again by the next run.
    """
    failed: list[str] = []
    begun, waiting = time.monotonic(), iter(points.missing(cells, points.read(file)))
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context) as pool:
        running: dict[Future[points.Point], Planned] = {}
        while True:
            while len(running) < jobs and time.monotonic() - begun < hours * 3600.0:
                cell = next(waiting, None)
                if cell is None:
                    break
                derived(Log.parse(cell.trial.log))
                running[pool.submit(points.measure, cell)] = cell
            if not running:
                return failed
            for future in wait(running, return_when=FIRST_COMPLETED).done:
                cell = running.pop(future)
                if (error := future.exception()) is not None:
                    failed.append(cell.name)
                    print(f"{cell.name}: failed: {error!r}", flush=True)
                    continue
                point = future.result()
                points.append(file, point)
                print(f"{cell.name}: NE {point['ne']:.4f}, {point['seconds']:.0f} s", flush=True)


def tell(cells: Sequence[Planned], known: Sequence[points.Point]) -> Iterator[str]:
    """The plan: estimated seconds of every cell that has no line, and the sum so far."""
    spent, rest = 0.0, points.missing(cells, known)
    for cell in rest:
        spent += cell.seconds
        yield f"{cell.seconds:7.0f} s  {spent / 3600:6.2f} h  {cell.name}"
    yield f"{len(rest)} of {len(cells)} cells to train, about {total_hours(rest):.1f} CPU hours."


def study(options: argparse.Namespace, failed: list[str]) -> Iterator[dict[str, Any]]:
    """Train and fit; a quick run has points of its own and leaves page and picture alone."""
    if options.quick:
        with tempfile.TemporaryDirectory(prefix="gem-scaling-") as folder:
            file = Path(folder) / "points.jsonl"
            failed += run(quick_plan(), file, jobs=options.jobs, hours=options.hours)
            known = points.read(file)
            yield from lines(known, fitted(known))
            yield from room.lines(quick=True)
        return
    if not options.fit_only:
        failed += run(chosen(options.only), points.POINTS, jobs=options.jobs, hours=options.hours)
    known = points.read(points.POINTS)
    fits = fitted(known)
    yield from lines(known, fits)
    if not options.fit_only and not options.only:
        yield from room.lines(quick=False)
    page.write(known, fits)
    picture.draw(known, fits)


def chosen(only: str) -> list[Planned]:
    """Cells of the plan whose name holds a text and whose log can be read here."""
    return [cell for cell in plan() if only in cell.name and Log.parse(cell.trial.log).is_there()]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.scaling", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few cells of seconds, kept nowhere")
    parser.add_argument("--plan", action="store_true", help="show the cells that are left with estimates, and stop")
    parser.add_argument("--fit-only", action="store_true", help="train nothing")
    parser.add_argument("--hours", type=float, default=PLAN_SECONDS / 3600, help="start no cell after so many hours")
    parser.add_argument(
        "--only", default="", metavar="TEXT", help="cells whose name in --plan holds this text, and nothing else"
    )
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args(arguments)
    if options.plan:
        print("\n".join(tell(chosen(options.only), points.read(points.POINTS))))
        return 0
    if options.json is None:
        parser.error("--json FILE is needed")
    failed: list[str] = []
    publish(options.json, study(options, failed))
    return 1 if failed else 0


if __name__ == "__main__":
    raise SystemExit(main())
