"""GEM against what a user would pick instead, on a real log: the same rows, features, days and number of trials.

Learnt are the days up to 2022-05-04, every choice is made on 2022-05-05, and 2022-05-06 and 2022-05-07 are scored
once per published result. The best peer of a figure is the one that is best in that figure on the test days, so the
choice favours the peers. What is trained stays on disk: a run that was stopped goes on where it was.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks._lines import append, line
from benchmarks.peers.conditioning import conditioning
from benchmarks.peers.export import exported
from benchmarks.peers.gains import METRICS, Points, gains, points
from benchmarks.peers.page import Report, Standing, write_page
from benchmarks.peers.search import Parameters, searched
from benchmarks.peers.trials import DETERMINISTIC, LIGHTGBM, LOGISTIC, NEURAL, PEERS, PeerTrial, as_cell, peer_scores
from benchmarks.trials.cells import Cell, Trial, cells
from benchmarks.trials.homes import KUAIRAND, Log, derived
from benchmarks.trials.judging import CONFIG, interval, judged_rows, scored
from gem_pipeline.metrics.pooling import ALL, ScoredRows

GEM = "GEM"
DAYS = tuple(f"2022-04-{day}" for day in range(25, 31)) + tuple(f"2022-05-0{day}" for day in range(1, 5))
CHOSEN_ON, TEST = "2022-05-05", ("2022-05-06", "2022-05-07")
OBJECTIVES = ("click", "long_view")
UNITS = {"ne": "relative NE", "auc": "AUC", "gauc": "GAUC"}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "quality.md"


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What is compared.

    Attributes:
        model: size and variants of GEM.
        own: other models of our code, by size and variants; they stand in the table and are no peers.
        peers: names of the peers.
        trials: settings tried for each peer and objective.
        seeds: runs of every model.
        learnt: days that are learnt.
        training: what differs in GEM's training.
        name: what the figures' sizes begin with.
    """

    model: str = "tiny"
    own: tuple[str, ...] = ()
    peers: tuple[str, ...] = PEERS
    trials: int = 6
    seeds: int = 5
    learnt: tuple[str, ...] = DAYS
    training: tuple[tuple[str, Any], ...] = (("batch_size", 256), ("dense_lr", 1e-3))
    name: str = ""

    def gem(self, model: str, log: str) -> list[Trial]:
        """Trainings of a model of our code, one a seed."""
        return [
            Trial(
                log=log, model=model, seed=seed, learnt=self.learnt, judged=(CHOSEN_ON, *TEST), training=self.training
            )
            for seed in range(self.seeds)
        ]  # fmt: skip


def quick_plan(model: str) -> Plan:
    """The smallest run of the same path."""
    return Plan(
        model=model, peers=(LIGHTGBM, LOGISTIC), trials=1, seeds=1, learnt=DAYS[-2:],
        training=(("epochs", 1),), name="quick, ",
    )  # fmt: skip


def settings_of(plan: Plan) -> dict[str, dict[str, Parameters]]:
    """The setting of each peer and objective that the day of choice prefers."""
    found: dict[str, dict[str, Parameters]] = {}
    for peer in plan.peers:
        for objective in OBJECTIVES:
            trial = PeerTrial(
                log=KUAIRAND, peer=peer, objective=objective, learnt=plan.learnt, chosen_on=CHOSEN_ON,
                judged=(CHOSEN_ON,),
            )  # fmt: skip
            best, tried = searched(trial, plan.trials)
            losses = ", ".join(f"{loss:.5f}" for loss, _ in tried)
            print(f"{peer} {objective}: {dict(best)}, log losses of the trials: {losses or 'one setting'}", flush=True)
            found.setdefault(peer, {})[objective] = best
    return found


def peer_runs(plan: Plan, settings: Mapping[str, Mapping[str, Parameters]], *, frozen: bool) -> dict[str, list[Cell]]:
    """Cells of every peer at its chosen settings, one a seed; what no seed changes is trained once."""
    runs: dict[str, list[Cell]] = {}
    for peer, by_objective in settings.items():
        for seed in range(plan.seeds):
            scores = {
                objective: peer_scores(
                    PeerTrial(
                        log=KUAIRAND, peer=peer, objective=objective, seed=0 if peer in DETERMINISTIC else seed,
                        learnt=plan.learnt, chosen_on=CHOSEN_ON, judged=(CHOSEN_ON, *TEST), parameters=parameters,
                    )
                )
                for objective, parameters in by_objective.items()
            }  # fmt: skip
            runs.setdefault(peer, []).append(as_cell(scores, seed, frozen=frozen))
    return runs


def all_runs(
    plan: Plan, settings: Mapping[str, Mapping[str, Parameters]], *, frozen: bool = False
) -> dict[str, list[Cell]]:
    """Cells of GEM, the peers, and the other models of our code, on the log or the frozen one.

    Peers score both at once; models of our code are trained again, from the same rows and seed.
    """
    log = Log(frozen=max(plan.learnt)).key if frozen else KUAIRAND
    runs = {GEM: cells(plan.gem(plan.model, log))}
    runs |= peer_runs(plan, settings, frozen=frozen)
    return runs | {name: cells(plan.gem(name, log)) for name in plan.own}


def standings(runs: Mapping[str, Sequence[Cell]], days: tuple[str, ...]) -> Standing:
    """Every model on every cell of some of the days that were scored."""
    rows = _rows_of(runs, days)
    names = tuple(objective.name for objective in derived(Log()).objectives)
    surfaces = derived(Log()).surfaces
    table: dict[tuple[str, str, str], Points] = {}
    for objective in OBJECTIVES:
        for place, surface in enumerate((ALL, *surfaces)):
            chosen_N = (rows.surface_N == place - 1) | (surface == ALL)
            for name, found in runs.items():
                table[surface, objective, name] = points(rows, _keys(name, found), names.index(objective), chosen_N)
    return Standing(rows=rows, table=table, surfaces=(ALL, *surfaces), objectives=OBJECTIVES, columns=names)


def figures(plan: Plan, runs: Mapping[str, Sequence[Cell]], standing: Standing) -> Iterator[dict[str, Any]]:
    """Gains of GEM over the best peer, by surface and objective, and over all of them."""
    cells_of = [(surface, (objective,)) for surface in standing.surfaces for objective in standing.objectives]
    for surface, objectives in [*cells_of, (ALL, standing.objectives)]:
        chosen_N = (standing.rows.surface_N == standing.surfaces.index(surface) - 1) | (surface == ALL)
        columns = [standing.columns.index(objective) for objective in objectives]
        label_n = standing.rows.label_NK[chosen_N][:, columns]
        small = min(label_n.sum(axis=0).min(), (1 - label_n).sum(axis=0).min()) < 300
        size = f"{surface}, {objectives[0] if len(objectives) == 1 else 'mean of objectives'}"
        for metric in METRICS:
            peer = standing.best(surface, objectives, metric, plan.peers)
            found = gains(
                standing.rows, _keys(GEM, runs[GEM]), _keys(peer, runs[peer]), columns, chosen_N, config=CONFIG
            )[metric]
            yield line(
                "quality", f"{metric}_gain_over_best_peer", **interval(found), unit=UNITS[metric], runs=plan.seeds,
                size=f"{plan.name}{plan.model}: {size}",
                baseline=f"{peer}, best of {len(plan.peers)} peers on the test days"
                + (", too few to judge" if small else ""),
            )  # fmt: skip


def report(
    plan: Plan,
    command: str,
    settings: Mapping[str, Mapping[str, Parameters]],
    runs: Mapping[str, Sequence[Cell]],
    test: Standing,
    lines: Sequence[Mapping[str, Any]],
) -> Report:
    """What the page tells; the models of one seed are trained again on the frozen log."""
    judged, once = (CHOSEN_ON, *TEST), replace(plan, seeds=1)
    frozen = all_runs(once, settings, frozen=True)
    export = exported(Log(), (*plan.learnt, *judged))
    columns = test.columns
    return Report(
        command=command, intro=_intro(plan), lines=lines, runs=runs, settings=settings, test=test,
        chosen=standings(runs, (CHOSEN_ON,)), frozen=standings(frozen, judged),
        thawed=standings({name: found[:1] for name, found in runs.items()}, judged),
        conditioning={
            name: conditioning(export, (*plan.learnt, CHOSEN_ON), TEST, columns.index(name)) for name in OBJECTIVES
        },
    )  # fmt: skip


def command(plan: Plan) -> str:
    """What runs a plan of the command line again."""
    own = f" --own {' '.join(plan.own)}" if plan.own else ""
    return (
        f"python -m benchmarks.quality --model {plan.model}{own} --peers {' '.join(plan.peers)} "
        f"--trials {plan.trials} --seeds {plan.seeds}"
    )


def _intro(plan: Plan) -> list[str]:
    """Split, search and peers in words."""
    return [
        f"KuaiRand (CC BY-SA 4.0; Gao et al., CIKM 2022), learnt {plan.learnt[0]} to {plan.learnt[-1]}, every choice "
        f"on {CHOSEN_ON}, test {TEST[0]} and {TEST[-1]}. All models stop learning at the same label date and read the "
        "same rows and features: ids, dense inputs with day-lagged counters, the newest 50 events of the user with "
        "their surfaces and outcomes; where it helps them on the day of choice the peers also get the user's id, "
        "which GEM does not.",
        f"Every peer and objective got {plan.trials} settings (its default, then uniform draws from its space in "
        "benchmarks/peers/search.py), chosen by NE on the day of choice with seed 0, then a run for each of "
        f"{plan.seeds} seed(s). With one setting there is no search: the default is taken. Peers of this run: "
        f"{', '.join(plan.peers)}. LightGBM 4.7.0 reads histories as summaries (counts, rates, ages); FuxiCTR 2.3.10 "
        f"gives {', '.join(NEURAL)}, with its own loop and early stopping and batches of ours; the logistic regression "
        "is the product's. The peer of a figure is the best one in that figure on the test days.",
        f"GEM is `{plan.model}`, trained as the product trains it, a day at a time ({dict(plan.training)}); its own "
        f"settings were chosen on days up to {CHOSEN_ON} ([blocks.md](blocks.md#learning-aids)).",
    ]


def _rows_of(runs: Mapping[str, Sequence[Cell]], days: tuple[str, ...]) -> ScoredRows:
    """The scored rows of some of the judged days."""
    every = (CHOSEN_ON, *TEST)
    lengths = [len(judged_rows(KUAIRAND, (day,)).surface_N) for day in every]
    chosen = np.flatnonzero(np.repeat([day in days for day in every], lengths))
    return scored({name: [_cut(cell, days, chosen) for cell in found] for name, found in runs.items()})


def _cut(cell: Cell, days: tuple[str, ...], chosen: NDArray[np.int64]) -> Cell:
    return replace(cell, trial=replace(cell.trial, log=KUAIRAND, judged=days), prob_NK=cell.prob_NK[chosen])


def _keys(name: str, found: Sequence[Cell]) -> list[str]:
    """Keys of a model's runs among the scored rows."""
    return [f"{name}@{cell.trial.seed}" for cell in found]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark, append its lines and, unless told otherwise or quick, rewrite docs/quality.md."""
    parser = argparse.ArgumentParser(prog="benchmarks.quality", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="LightGBM and the logistic regression, two days, one seed")
    parser.add_argument("--model", default="tiny", help="size and variants of GEM")
    parser.add_argument("--own", nargs="*", default=[], metavar="MODEL", help="other models of our code")
    parser.add_argument("--peers", nargs="*", default=list(PEERS), choices=PEERS)
    parser.add_argument("--trials", type=int, default=Plan.trials, help="settings tried for each peer and objective")
    parser.add_argument("--seeds", type=int, default=Plan.seeds)
    parser.add_argument("--no-page", action="store_true", help="append lines only")
    parser.add_argument("--json", type=Path, required=True, metavar="FILE")
    options = parser.parse_args(arguments)
    if not Log().is_there():
        why = "the real log is not here"
        append(options.json, [line("quality", "ne_gain_over_best_peer", None, unit=UNITS["ne"], size="all", why=why)])
        return 0
    plan = quick_plan(options.model) if options.quick else Plan(
        model=options.model, own=tuple(options.own), peers=tuple(options.peers), trials=options.trials,
        seeds=options.seeds, name="" if {*options.peers} & {*NEURAL} else "without neural peers, ",
    )  # fmt: skip
    settings = settings_of(plan)
    runs = all_runs(plan, settings)
    standing = standings(runs, TEST)
    lines = list(figures(plan, runs, standing))
    append(options.json, lines)
    if not (options.quick or options.no_page):
        write_page(PAGE, report(plan, command(plan), settings, runs, standing, lines))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
