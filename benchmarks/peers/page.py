"""docs/quality.md, written whole by the command that measured it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks._lines import commit
from benchmarks.peers.conditioning import Conditioning
from benchmarks.peers.gains import METRICS, Points
from benchmarks.trials.cells import Cell, training_flops
from gem_pipeline.atomic import write_text
from gem_pipeline.metrics.pooling import ALL, ScoredRows

TITLES = {"ne": "NE", "auc": "AUC", "gauc": "GAUC"}


@dataclass(frozen=True, kw_only=True)
class Standing:
    """Every model on every cell of the same rows.

    Attributes:
        rows: scored rows.
        table: metrics by surface, objective and model.
        surfaces: all pooled, then each.
        objectives: those that are judged.
        columns: objectives of the log, by column.
    """

    rows: ScoredRows
    table: Mapping[tuple[str, str, str], Points]
    surfaces: tuple[str, ...]
    objectives: tuple[str, ...]
    columns: tuple[str, ...]

    def best(self, surface: str, objectives: Sequence[str], metric: str, peers: Sequence[str]) -> str:
        """The peer with the best mean of a metric over some objectives of a surface."""
        value = {
            peer: float(np.mean([getattr(self.table[surface, name, peer], metric) for name in objectives]))
            for peer in peers
        }
        return min(peers, key=lambda peer: value[peer] if metric == "ne" else -value[peer])


@dataclass(frozen=True, kw_only=True)
class Report:
    """What the page tells.

    Attributes:
        command: that made it.
        intro: paragraphs on split, search and peers.
        lines: figures, as published.
        runs: cells by model, one a seed.
        settings: chosen hyper-parameters by peer and objective.
        test: on the test days.
        chosen: on the day of choice.
        frozen: with history and counters as of the last learnt day, on the day of choice and the test days.
        thawed: the same models and rows with all that the log knew.
        conditioning: by objective, what the user's rate alone reaches.
    """

    command: str
    intro: Sequence[str]
    lines: Sequence[Mapping[str, Any]]
    runs: Mapping[str, Sequence[Cell]]
    settings: Mapping[str, Mapping[str, Sequence[tuple[str, Any]]]]
    test: Standing
    chosen: Standing
    frozen: Standing
    thawed: Standing
    conditioning: Mapping[str, Conditioning]


def write_page(target: Path, report: Report) -> None:
    """Rewrite the page."""
    sections = [_head(report), _gains(report), _models(report), _ranking(report), _settings(report)]
    write_text(target, "\n".join(text for section in sections for text in section) + "\n")


def _head(report: Report) -> Iterator[str]:
    yield "# Quality: GEM against what a user would pick instead\n"
    yield f"Written by `{report.command}` at commit {commit()[:9]}.\n"
    for paragraph in report.intro:
        yield f"{paragraph}\n"


def _gains(report: Report) -> Iterator[str]:
    yield "## Gain over the best peer, test days\n"
    yield "Above 0: GEM is better. NE relative, AUC and GAUC absolute; 95 % over users and seeds.\n"
    yield "| surface, objective | figure | gain | interval | peer |"
    yield "|---|---|---|---|---|"
    for line in report.lines:
        metric = line["figure"].partition("_")[0]
        value = "none: " + line["why"] if line["value"] is None else f"{line['value']:+.4f}"
        limits = "" if line["low"] is None else f"{line['low']:+.4f} to {line['high']:+.4f}"
        yield f"| {line['size']} | {TITLES[metric]} | {value} | {limits} | {line['baseline']} |"
    yield ""


def _models(report: Report) -> Iterator[str]:
    """Every model, all surfaces pooled; then NE, AUC and GAUC by surface."""
    for objective in report.test.objectives:
        yield f"## Models: {objective}, all surfaces, mean over seeds\n"
        yield (
            "| model | NE | AUC | GAUC | calibration | NE, day of choice | AUC | GAUC | training examples/s |"
            " training TFLOP | seeds |"
        )
        yield "|---" * 11 + "|"
        for name, found in report.runs.items():
            test, chosen = (s.table[ALL, objective, name] for s in (report.test, report.chosen))
            rate, flops = _cost(found[0], objective)
            yield (
                f"| {name} | {test.ne:.4f} | {test.auc:.4f} | {test.gauc:.4f} | {test.calibration:.3f} |"
                f" {chosen.ne:.4f} | {chosen.auc:.4f} | {chosen.gauc:.4f} | {rate:.0f} | {flops} | {len(found)} |"
            )
        yield ""
    yield "One training of GEM learns all objectives and stands in each table; a peer has one an objective."
    yield "FLOP: three forward passes an example and pass; trees and the linear model are not counted.\n"
    yield "## Models by surface, test days: NE / AUC / GAUC\n"
    for objective in report.test.objectives:
        surfaces = report.test.surfaces[1:]
        yield f"| {objective} | " + " | ".join(surfaces) + " |"
        yield "|---" * (1 + len(surfaces)) + "|"
        for name in report.runs:
            cells = [report.test.table[surface, objective, name] for surface in surfaces]
            yield f"| {name} | " + " | ".join(f"{c.ne:.4f} / {c.auc:.4f} / {c.gauc:.4f}" for c in cells) + " |"
        yield ""


def _cost(cell: Cell, objective: str) -> tuple[float, str]:
    """Examples a second of training, and the FLOP of the training."""
    facts = cell.facts.get(objective, cell.facts)
    rate = facts["examples"] / facts["train_seconds"]
    if "flops_per_example" not in facts:
        return rate, "not counted"
    return rate, f"{training_flops(facts) / 1e12:.2f}"


def _ranking(report: Report) -> Iterator[str]:
    yield "## What GAUC measures on this log\n"
    some = next(iter(report.conditioning.values()))
    yield (
        "GAUC keeps the users with both classes and ranks the rows of each. Users have "
        f"{some.rows_per_user:.1f} judged rows here, and given that both classes occur among two or three rows, the "
        "row after a positive is less likely a positive. So GAUC punishes every feature that follows the user's own "
        "recent outcomes: a true signal of who clicks (AUC) ranks the user's own rows the wrong way round, by "
        "conditioning alone. Check: the smoothed day-lagged rate of the user as the only score, with the log's labels "
        "and with labels drawn independently given the user, where no order exists that could be learnt.\n"
    )
    yield "| objective | AUC, log | GAUC, log | AUC, independent labels | GAUC, independent labels | rows GAUC keeps |"
    yield "|---|---|---|---|---|---|"
    for objective, c in report.conditioning.items():
        yield (
            f"| {objective} | {c.auc:.4f} | {c.gauc:.4f} | {c.chance_auc:.4f} | {c.chance_gauc:.4f} |"
            f" {c.ranked_share:.0%} |"
        )
    yield (
        "\nWith history and counters frozen at the end of the last learnt day no score can follow outcomes of judged "
        "rows, so GAUC compares models without that artefact. The same trainings, one seed, the day of choice and the "
        "test days together; `frozen` against `as logged`:\n"
    )
    yield "| objective | model | " + " | ".join(f"{TITLES[m]} frozen | {TITLES[m]} as logged" for m in METRICS) + " |"
    yield "|---" * (2 + 2 * len(METRICS)) + "|"
    for objective in report.frozen.objectives:
        for name in report.runs:
            frozen, thawed = (s.table[ALL, objective, name] for s in (report.frozen, report.thawed))
            values = [f"{getattr(one, metric):.4f}" for metric in METRICS for one in (frozen, thawed)]
            yield f"| {objective} | {name} | " + " | ".join(values) + " |"
    yield ""


def _settings(report: Report) -> Iterator[str]:
    yield "## Settings chosen on the day of choice\n"
    yield "| peer | objective | setting |"
    yield "|---|---|---|"
    for peer, by_objective in report.settings.items():
        for objective, setting in by_objective.items():
            yield f"| {peer} | {objective} | " + ", ".join(f"{name} {value}" for name, value in setting) + " |"
