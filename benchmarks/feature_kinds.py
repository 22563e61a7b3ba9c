"""What each kind of signal is worth on a simulated world, judged by the true click probabilities.

One row a kind taken away, at an unchanged model size (`inputs.without`); above 0: the kind helps. In `cold_start`
vectors must pay, in `everyday` each kind a little.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from benchmarks._lines import append, line
from benchmarks.trials.cells import Trial, cells
from benchmarks.trials.homes import Log
from benchmarks.trials.judging import interval, log_days
from benchmarks.trials.truth import true_difference

MODEL = "tiny"
KINDS = {
    "dwell": ("log_value",),
    "survey": ("did_survey_positive", "did_survey_negative"),
    "graph lists": ("communities",),
    "measurement": ("measured_quality",),
    "vectors": ("image_vector", "text_vector", "audio_vector"),
}
LOGS = (Log(name="everyday", events=400_000, days=10), Log(name="cold_start", events=400_000, days=10))
JUDGED_DAYS, SEEDS = 3, 3


def lines(logs: Sequence[Log], kinds: Sequence[str], seeds: int, jobs: int) -> Iterator[dict[str, Any]]:
    """Figures of every world and kind."""
    for log in logs:
        days = log_days(log.key)
        learnt, judged = days[:-JUDGED_DAYS], days[-JUDGED_DAYS:]
        wanted = {
            kind: [
                Trial(log=log.key, model=MODEL, seed=seed, learnt=learnt, judged=judged, missing=KINDS.get(kind, ()))
                for seed in range(seeds)
            ]
            for kind in ("", *kinds)
        }
        found = {cell.trial: cell for cell in cells([t for runs in wanted.values() for t in runs], jobs=jobs)}
        by_kind = {kind: [found[trial] for trial in runs] for kind, runs in wanted.items()}
        for kind in kinds:
            difference = true_difference(by_kind[kind], by_kind[""])
            yield line(
                "ablation", "ne_delta_relative", **interval(difference.relative), unit="relative true NE, clicks",
                size=f"{log.name}: without {kind}", baseline=f"{MODEL} with every kind", runs=seeds,
            )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.feature_kinds", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one world, one seed, two kinds")
    parser.add_argument("--jobs", type=int, default=2, help="cells trained at a time")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    logs, kinds, seeds = (LOGS[:1], tuple(KINDS)[:2], 1) if options.quick else (LOGS, tuple(KINDS), SEEDS)
    append(options.json, lines(logs, kinds, seeds, options.jobs))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
