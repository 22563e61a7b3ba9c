"""What plain distillation gives the vertical models, over several seeds, on the days of a finished chain.

Reads the home of `make demo` (GEM_HOME) and trains its verticals again from other seeds in a copy, in both arms:
without a teacher and with one. Every day is scored before it is learnt; the first scored day is left out.
"""

from __future__ import annotations

import argparse
import json
import platform
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks._lines import commit
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.pooling import ALL, Comparison, ScoredRows, comparison_rows, pool_days
from gem_pipeline.metrics.state import Estimate
from gem_pipeline.metrics.transfer_ratio import transfer_ratio
from gem_pipeline.places import contract_path, home_path
from gem_pipeline.runs.day import train_day
from gem_pipeline.runs.evaluation import ALONE, TAUGHT, load_day, scored_dates
from gem_pipeline.training.plan import GEM, DayPlan, eligible_verticals, example_dates

COPIED = ("gates", "records", "models/gem", "lake/examples", "lake/user_events", "lake/teacher_outputs")
SEEDS = 3


def train_seed(contract: DataContract, source: Path, home: Path, days: Sequence[str], seed: int) -> list[ScoredRows]:
    """Train all verticals of the days in a copy of the home; what was scored on each day but the first scored one."""
    for folder in COPIED:
        shutil.copytree(source / folder, home / folder)
    keys = eligible_verticals(contract, home, days)
    for previous, day in zip((None, *days[:-1]), days, strict=True):
        plan = DayPlan(
            date=day, previous_date=previous, contract_path=str(contract_path()), home=str(home),
            tasks=("verticals",), verticals=keys, seed=seed,
        )  # fmt: skip
        train_day(plan)
    return [load_day(contract, home, day) for day in scored_dates(contract, home)[1:]]


def pooled(by_seed: dict[int, list[ScoredRows]]) -> ScoredRows:
    """Rows of all days with one column of predictions a seed and arm."""
    whole = [pool_days(days) for days in by_seed.values()]
    probs = {GEM: whole[0].prob_by_model[GEM]}
    for seed, rows in zip(by_seed, whole, strict=True):
        probs |= {f"{arm}@{seed}": rows.prob_by_model[arm] for arm in (ALONE, TAUGHT)}
    return replace(whole[0], prob_by_model=probs)


def lines(contract: DataContract, rows: ScoredRows, seeds: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Figures: relative NE of the taught student against the untaught one, and the transfer ratio."""
    config = BootstrapConfig()
    arms = {arm: tuple(f"{arm}@{seed}" for seed in seeds) for arm in (ALONE, TAUGHT)}
    names = {"surfaces": contract.surfaces, "objectives": tuple(o.name for o in contract.objectives)}
    wanted = [Comparison(model=TAUGHT, baseline=ALONE, model_runs=arms[TAUGHT], baseline_runs=arms[ALONE])]
    for row in comparison_rows(rows, wanted, config=config, **names):
        if row.surface != ALL or row.objective == ALL:
            size = "pooled" if row.surface == ALL else f"{row.surface}__{row.objective}"
            yield _line("ne_kd_over_alone", row.difference.relative, unit="relative NE", size=size, runs=len(seeds))
    scored = rows.mask_NK.copy()
    for runs in arms.values():
        for name in runs:
            scored &= rows.prob_by_model[name] == rows.prob_by_model[name]  # not NaN
    user_NK = rows.user_N[:, None].repeat(scored.shape[1], axis=1)
    for seed in seeds:
        ratio = transfer_ratio(
            rows.label_NK[scored], alone_N=rows.prob_by_model[f"{ALONE}@{seed}"][scored],
            taught_N=rows.prob_by_model[f"{TAUGHT}@{seed}"][scored], teacher_N=rows.prob_by_model[GEM][scored],
            user_N=user_NK[scored], config=config,
        )  # fmt: skip
        yield _line("transfer_ratio_kd", ratio, unit="share of the teacher's gain", size=f"seed {seed}", runs=1)


def _line(figure: str, metric: object, *, unit: str, size: str, runs: int) -> dict[str, Any]:
    found = isinstance(metric, Estimate)
    return {
        "bench": "transfer", "figure": figure, "value": metric.value if isinstance(metric, Estimate) else None,
        "unit": unit, "baseline": "vertical without a teacher", "runs": runs, "seed": 0, "size": size,
        "low": metric.low if isinstance(metric, Estimate) else None,
        "high": metric.high if isinstance(metric, Estimate) else None,
        "why": "" if found else f"state {metric}", "commit": commit(),
        "cpu": platform.processor() or platform.machine(),
    }  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.transfer", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one seed")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    contract, source = load_contract(contract_path()), home_path()
    seeds = range(1 if options.quick else SEEDS)
    days = example_dates(contract, source)
    if len(scored_dates(contract, source)) < 2:
        found = [_line("ne_kd_over_alone", "no chain: run make demo first", unit="relative NE", size="pooled", runs=0)]
    else:
        by_seed = {}
        for seed in seeds:
            with tempfile.TemporaryDirectory(prefix="gem-transfer-") as home:
                by_seed[seed] = train_seed(contract, source, Path(home), days, seed)
                print(f"seed {seed} done", flush=True)
        found = list(lines(contract, pooled(by_seed), seeds))
    with options.json.open("a", encoding="utf-8") as target:
        for line in found:
            target.write(json.dumps(line | {"config_hash": contract.content_hash}) + "\n")
            print(line["figure"], line["size"], line["value"], line["low"], line["high"], line["why"])
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
