"""The demo: the whole chain over the last days of a log, in this process, with one Spark session.

It runs the same jobs that the Dagster UI shows, on the instance that `make dev` opens afterwards.
"""

import json
import logging
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import dagster as dg

from assets.partitions import register_verticals
from gem_pipeline.atomic import write_json
from gem_pipeline.contracts.contract import load_contract
from gem_pipeline.datasets.landing import available_dates, open_source
from gem_pipeline.errors import PartitionError, RunError
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.places import DEFAULT_DATA
from gem_pipeline.runs.evaluation import EvaluationReport, evaluate, scored_dates
from gem_pipeline.runs.results import picture, text_table, transfer_table, verdicts
from gem_pipeline.training.plan import GEM, LOGISTIC
from jobs.graph import build_definitions
from jobs.ranges import run_in_process
from resources.dagster_home import write_dagster_home
from resources.settings import GemSettings

GENERATED_NOTE = (
    "GENERATED DATA: no real log was found, so this ran on a small generated one; it is evidence for nothing."
)


@dataclass(frozen=True, kw_only=True)
class DemoOptions:
    """What a user may choose.

    Attributes:
        days: scored and trained days, the newest of the log.
        data: folder of the log, `generated`, or None for the default folder.
    """

    days: int
    home: Path
    contract: Path
    data: str | None
    reports: Path = Path("reports")


@dataclass(kw_only=True)
class Stopwatch:
    """Seconds by step, told as they pass."""

    seconds: dict[str, float] = field(default_factory=dict)

    def run(self, step: str, text: str, work: Callable[[], object]) -> None:
        """Run a step and tell how long it took."""
        _say(f"[{len(self.seconds) + 1}/5] {text} ...")
        started = time.perf_counter()
        work()
        self.seconds[step] = round(time.perf_counter() - started, 1)
        _say(f"      done in {self.seconds[step]:.1f} s")


def run_demo(options: DemoOptions) -> EvaluationReport:
    """Run the chain and print the results; a second run finds everything done.

    Raises:
        GemError: bad input, with a remedy.
        RunError: a trainer failed; its own sentence.
    """
    started = time.perf_counter()
    contract = load_contract(options.contract)
    home = options.home.absolute()
    source = open_source(contract, options.data, DEFAULT_DATA)
    generated = source is not None and source.name == "generated"
    if generated:
        _say(GENERATED_NOTE)
    dates = available_dates(contract, source, home / "lake")
    timed = [day for day in dates if source is None or source.has_impressions(day)]
    chosen = timed[-options.days :]
    if len(chosen) < 3:
        raise PartitionError(
            f"{len(chosen)} day(s) with impressions were chosen of {len(timed)}; the demo needs 3: one to learn, "
            "one to warm up, one to judge.",
            remedy="Name a log with more days, or raise --days.",
        )
    name = source.name if source else contract.name
    _say(f"gem demo: {name}, {len(chosen)} days {chosen[0]} ... {chosen[-1]}, state in {_shown(home)}")
    settings = GemSettings(home=str(home), contract=str(options.contract.absolute()), data=options.data or "")
    watch = _run_chain(settings, list(dates), timed, chosen, home)
    scored = [day for day in scored_dates(contract, home) if chosen[0] < day <= chosen[-1]]
    report = evaluate(settings.contract, str(home), tuple(scored[1:]), BootstrapConfig())
    chain_s = round(time.perf_counter() - started, 1)
    write_report(options, home, report, name=name, seconds=watch.seconds, chain_s=chain_s, chosen=chosen)
    _tell(options, report, chain_s)
    if generated:
        _say(GENERATED_NOTE)
    return report


def _run_chain(settings: GemSettings, dates: list[str], timed: list[str], chosen: list[str], home: Path) -> Stopwatch:
    os.environ["DAGSTER_HOME"] = str(write_dagster_home(home))
    logging.getLogger("dagster").setLevel(logging.ERROR)
    definitions, watch = build_definitions(settings), Stopwatch()
    earlier = [day for day in dates if day < chosen[0]]
    with dg.DagsterInstance.get() as instance:

        def run(job: str, days: list[str], verticals: tuple[str, ...] = ()) -> None:
            if not days:
                return
            try:
                run_in_process(definitions, job, days, instance=instance, verticals=verticals, quiet=True)
            except dg.Failure as failed:
                raise RunError(
                    failed.description or f"Job {job} failed.",
                    remedy="What was finished is kept: the same command goes on from there.",
                ) from failed

        def history() -> None:
            run("refresh_history", earlier)
            run("refresh_counters", [day for day in earlier if day in timed])

        watch.run("history", f"history: {len(earlier)} earlier day(s) as events and counters", history)
        watch.run("features", "features: events, counters, examples, quality gates",
                  lambda: run("refresh_features", chosen))  # fmt: skip
        watch.run("foundation", "foundation model: day by day it scores, then learns; logistic regression beside it",
                  lambda: run("refresh_models", chosen))  # fmt: skip
        keys = tuple(register_verticals(instance, settings, chosen))
        watch.run("verticals", f"{len(keys)} vertical models, without and with the teacher",
                  lambda: run("refresh_verticals", chosen if keys else [], keys))  # fmt: skip
        watch.run("evaluation", "evaluation of every scored day", lambda: run("refresh_evaluation", chosen))
    return watch


def write_report(
    options: DemoOptions, home: Path, report: EvaluationReport, *, name: str, seconds: dict[str, float],
    chain_s: float, chosen: list[str],
) -> None:  # fmt: skip
    """Write `demo.json` and `demo.png`: results, dates of the chain, seconds of the installation and of each step."""
    install = home / "install.json"
    install_s = json.loads(install.read_text())["install_s"] if install.exists() else None
    document: dict[str, Any] = {
        **report.to_dict(), "source": name, "dates": chosen, "pooled_dates": list(report.dates),
        "install_s": install_s, "chain_s": chain_s, "seconds": seconds,
    }  # fmt: skip
    write_json(options.reports / "demo.json", document)
    title = f"{name}: days {report.dates[0]} ... {report.dates[-1]}, each scored before it was learnt"
    (options.reports / "demo.png").write_bytes(picture(report, title))


def _tell(options: DemoOptions, report: EvaluationReport, chain_s: float) -> None:
    _say(f"\nResults, pooled over {', '.join(report.dates)} (each day scored by models of the day before;")
    _say("95 % intervals, bootstrap by user; cells with fewer than 300 positives or negatives are left out)\n")
    _say(text_table(report))
    _say("NE of the GEM relative to the logistic regression (negative: GEM is better)")
    _say("\n".join(verdicts(report, model=GEM, baseline=LOGISTIC)) + "\n")
    _say(transfer_table(report) + "\n")
    _say(f"Chain: {chain_s:.0f} s. Table: {options.reports / 'demo.json'}; picture: {options.reports / 'demo.png'}")
    _say("Look around:  make dev      (Dagster: assets, partitions, checks, plots; http://127.0.0.1:3000)")
    _say("              make mlflow   (MLflow: runs, curves, registered models; http://127.0.0.1:5000)")


def _shown(path: Path) -> str:
    try:
        return str(path.relative_to(Path.cwd()))
    except ValueError:
        return str(path)


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
