"""Learning aids of GEM: ten days of the real log, one thing changed against the product's way, a day at a time.

Judged on the day of choice; the test days of `quality` are not read. Below 0: the change lowers NE. What is found
here is what `quality` trains GEM with.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._lines import append, line
from benchmarks.trials.cells import Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log
from benchmarks.trials.judging import against, interval, scored
from benchmarks.trials.truth import true_difference
from gem_pipeline.config.ladder import MATCH_WINDOWS, run_config
from gem_pipeline.metrics.pooling import ALL

MODEL = "tiny+no_matches+no_pairs"  # the reference is older than both, which are a row each
LEARNT = tuple(f"2022-04-{day}" for day in range(25, 31)) + tuple(f"2022-05-0{day}" for day in range(1, 5))
JUDGED = ("2022-05-05",)
TRAINING = {"batch_size": 256, "dense_lr": 1e-3}
OBJECTIVES = (ALL, "click", "long_view")
SEEDS, QUICK_ROWS = 1, 2
BASELINE = "tiny, a day at a time, two passes in batches of 256"
MATCHES = "numbers of matching events"
PAIRS = "weights of pairs of ids"
SIMILAR = f"{MATCHES}, and of those that look alike"
WORLD = Log(name="everyday", events=4_000_000, days=10)
WORLD_LEARNT, WORLD_JUDGED = ("2026-01-14", "2026-01-15", "2026-01-16"), ("2026-01-17",)

POOLED = {"pooled": True}
FALLING = {"final_rate": 0.1}
# What differs from TRAINING and from the rung: of training, of the model, of the trial.
AIDS: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
    MATCHES: ({}, {"match_windows": MATCH_WINDOWS, "matched_events": 1024}, {}),
    PAIRS: ({}, {"pair_rows": run_config("tiny").foundation.pair_rows}, {}),
    "one pass": ({"epochs": 1}, {}, {}),
    "three passes": ({"epochs": 3}, {}, {}),
    "a rate that falls over each day": (FALLING, {}, {}),
    "two days before it learnt again, one pass": ({"epochs": 1}, {}, {"replay_days": 2}),
    "all days at once, falling rate": (FALLING, {}, POOLED),
    "all days at once, falling rate, three passes": (FALLING | {"epochs": 3}, {}, POOLED),
    "all days at once, falling rate, batches of 128": (FALLING | {"batch_size": 128, "dense_lr": 7e-4}, {}, POOLED),
    "all days at once, falling rate, dropout 0.4": (FALLING, {"dropout": 0.4}, POOLED),
    "all days at once, falling rate, a user id": (FALLING, {}, POOLED | {"user_rows": 32_768}),
}


def trial(aid: str, seed: int) -> Trial:
    """A training with one aid changed; the empty name is the reference."""
    training, foundation, more = AIDS[aid] if aid else ({}, {}, {})
    whole = Trial(
        log=KUAIRAND, model=MODEL, seed=seed, learnt=LEARNT, judged=JUDGED,
        training=tuple((TRAINING | training).items()), foundation=tuple(foundation.items()),
    )  # fmt: skip
    return replace(whole, **more)


def lines(aids: Sequence[str], seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures of every aid."""
    names = ("", *aids)
    found = cells([trial(aid, seed) for aid in names for seed in range(seeds)], jobs=jobs)
    runs = {aid or "reference": found[place * seeds : (place + 1) * seeds] for place, aid in enumerate(names)}
    compared = against(scored(runs), KUAIRAND, [(aid, "reference") for aid in aids])
    for row in compared:
        if row.surface == ALL and row.objective in OBJECTIVES:
            yield line(
                "ablation", "ne_delta_of_aid", **interval(row.difference.relative), unit="relative NE",
                size=row.model if row.objective == ALL else f"{row.model}, {row.objective}",
                baseline=BASELINE, runs=seeds,
            )  # fmt: skip


def world_lines(aid: str, jobs: int) -> Iterator[dict[str, Any]]:
    """Matching events or pairs of ids on a world, one pass over three days, clicks judged by true probabilities."""
    reference = replace(trial("one pass", 0), log=WORLD.key, learnt=WORLD_LEARNT, judged=WORLD_JUDGED)
    matching = replace(reference, model="tiny+no_pairs")
    if aid == PAIRS:
        named = {PAIRS: replace(reference, model="tiny")}
        reference = matching
    else:
        named = {MATCHES: replace(matching, foundation=(("similar_share", 0.0),)), SIMILAR: matching}
    without, *found = cells([reference, *named.values()], jobs=jobs)
    for name, cell in zip(named, found, strict=True):
        yield line(
            "ablation", "ne_delta_of_aid", **interval(true_difference([cell], [without]).relative),
            unit="relative true NE, clicks", size=f"{WORLD.key}: {name}",
            baseline=f"{reference.model}, three days, one pass in batches of 256", runs=1,
        )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.aids", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two aids, one seed")
    parser.add_argument("--aids", nargs="*", default=list(AIDS), choices=list(AIDS), metavar="AID")
    parser.add_argument("--seeds", type=int, default=SEEDS)
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not Log().is_there():
        why = "the real log is not here"
        append(options.json, [line("ablation", "ne_delta_of_aid", None, unit="relative NE", size="all", why=why)])
        return 0
    aids, seeds = (options.aids[:QUICK_ROWS], 1) if options.quick else (options.aids, options.seeds)
    append(options.json, lines(aids, seeds, options.jobs))
    for aid in (MATCHES, PAIRS):
        if aid in aids and not options.quick:
            append(options.json, world_lines(aid, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
