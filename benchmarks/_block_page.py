"""docs/blocks.md: what blocks, kinds of signal, joining and CompSkip are worth, from the newest lines of results."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from benchmarks import aids, ranking
from benchmarks._lines import ROOT
from benchmarks.ablation import JUDGED, LEARNT, OBJECTIVES, ROWS, WHOLE, WORLD, sized
from gem_pipeline.atomic import write_text
from gem_pipeline.config.variants import VARIANTS

PAGE = ROOT / "docs" / "blocks.md"
BENCHES = ("ablation", "joint", "compskip")
Line = Mapping[str, Any]
Known = Mapping[tuple[str, str, str], Line]


def write(rows: Iterable[Line]) -> None:
    """Rewrite the page; nothing is written while no training has been run."""
    known = {(row["bench"], row["figure"], str(row["size"])): row for row in rows if row["bench"] in BENCHES}
    if ("ablation", "ne_delta_relative", ROWS[0]) not in known:
        return
    sections = (_head(), _blocks(known), _kinds(known), _joint(known), _compskip(known), _aids(known), _ranking(known))
    write_text(PAGE, "\n".join(text for section in sections for text in section) + "\n")


def percent(line: Line | None) -> str:
    """A relative difference with its interval, in bold where the interval is on one side of 0."""
    if line is None:
        return "not run"
    if line["value"] is None:
        return f"none: {line['why']}"
    told = f"{100 * line['value']:+.2f} % [{100 * line['low']:+.2f}, {100 * line['high']:+.2f}]"
    return f"**{told}**" if line["low"] > 0 or line["high"] < 0 else told


def _head() -> Iterator[str]:
    yield "# What each part earns\n"
    yield (
        "Written by `make bench` from the lines of `ablation`, `feature_kinds`, `joint`, `compskip`, `aids` and "
        "`ranking` in benchmarks/results.jsonl, which name commit and machine. Relative NE on days that were not "
        "learnt, 95 % over users and seeds; bold: the interval is on one side of 0. What the figures say is in "
        "[results.md](results.md).\n"
    )


def _blocks(known: Known) -> Iterator[str]:
    yield "## A block removed or replaced\n"
    runs = known["ablation", "ne_delta_relative", ROWS[0]]["runs"]
    yield (
        f"`{WHOLE}` (every block at a width that two cores train) against the same model with the change, above 0: "
        f"the block helps. Real log: KuaiRand, learnt {LEARNT[0]} to {LEARNT[-1]}, judged {JUDGED[0]} and "
        f"{JUDGED[-1]}, {runs} seeds. World: `{WORLD.name}`, {WORLD.events:,} events, clicks judged by their true "
        "probabilities. FLOPs: forward, of an example of the real log.\n"
    )
    yield "| change | real log, all objectives | " + " | ".join(OBJECTIVES[1:]) + " | world, click | FLOPs |"
    yield "|---" * (3 + len(OBJECTIVES)) + "|"
    for row in ROWS:
        figures = [known.get(("ablation", "ne_delta_relative", sized(row, part))) for part in (*OBJECTIVES, WORLD.key)]
        flops = known.get(("ablation", "flops_relative", row))
        cost = "" if flops is None else f"{flops['value']:.2f}"
        told = (VARIANTS[row].__doc__ or "").split(";")[0].rstrip(".")
        yield f"| `{row}`: {told} | " + " | ".join(map(percent, figures)) + f" | {cost} |"
    yield ""


def _kinds(known: Known) -> Iterator[str]:
    yield "## A kind of signal taken away\n"
    yield "Worlds of 400 000 events, `tiny`, clicks judged by their true probabilities; above 0: the kind helps.\n"
    yield "| world | without | NE |"
    yield "|---|---|---|"
    for (_, _, size), line in known.items():
        world, without, kind = size.partition(": without ")
        if without:
            yield f"| {world} | {kind} | {percent(line)} |"
    yield ""


def _joint(known: Known) -> Iterator[str]:
    yield "## One model of all surfaces\n"
    yield (
        "`tiny`, ten days learnt; below 0: the joint model is better. `isolated`: a model a surface; `identical "
        "treatment`: one model that is not told the surface. Parts with under 300 positives or negatives are not "
        "judged and marked.\n"
    )
    yield "| part, objective | against isolated | against identical treatment | rows |"
    yield "|---|---|---|---|"
    for (bench, figure, size), line in known.items():
        if bench == "joint" and figure == "ne_over_isolated" and line["value"] is not None:
            same = known.get(("joint", "ne_over_identical_treatment", size))
            rows = str(line["baseline"]).partition(", ")[2]
            yield f"| {size} | {percent(line)} | {percent(same)} | {rows} |"
    yield ""


def _compskip(known: Known) -> Iterator[str]:
    yield "## CompSkip\n"
    yield "Against the same layers with none skipped.\n"
    yield "| figure | size | value |"
    yield "|---|---|---|"
    for (bench, figure, size), line in known.items():
        if bench == "compskip" and line["value"] is not None:
            relative = figure.startswith("ne_") and line["low"] is not None
            yield f"| {figure} | {size} | {percent(line) if relative else _plain(line)} |"
    yield ""


def _aids(known: Known) -> Iterator[str]:
    """The search of learning aids."""
    yield "## Learning aids\n"
    yield (
        f"`{aids.MODEL}` on the days {aids.LEARNT[0]} to {aids.LEARNT[-1]} of KuaiRand, one after the other as the "
        "product learns them, two passes a day in batches of 256, with one thing changed; judged on "
        f"{aids.JUDGED[0]}, below 0: the change is better. One seed unless said; seeds are about 0.05 % of NE "
        "apart.\n"
    )
    yield "| change | all objectives | " + " | ".join(aids.OBJECTIVES[1:]) + " |"
    yield "|---" * (1 + len(aids.OBJECTIVES)) + "|"
    for aid in aids.AIDS:
        found = [known.get(("ablation", "ne_delta_of_aid", sized(aid, part))) for part in aids.OBJECTIVES]
        yield f"| {aid} | " + " | ".join(map(percent, found)) + " |"
    yield ""


def _ranking(known: Known) -> Iterator[str]:
    """Whether the light size ranks as the full one does."""
    yield "## Light models against the full size\n"
    for (_, figure, size), line in known.items():
        if figure == "rank_agreement_light" and line["value"] is not None:
            yield f"- Spearman's correlation, {size}: {line['value']:.2f} [{line['low']:.2f}, {line['high']:.2f}]."
    yield "\n| experiment | " + " | ".join((ranking.FULL, ranking.LIGHT)) + " |"
    yield "|---|---|---|"
    for row in ranking.ROWS:
        found = [known.get(("ablation", "ne_delta_ranked", f"{row}, {size}")) for size in (ranking.FULL, ranking.LIGHT)]
        yield f"| {row} | " + " | ".join(f"{100 * one['value']:+.2f} %" if one else "not run" for one in found) + " |"


def _plain(line: Line) -> str:
    limits = "" if line["low"] is None else f" [{line['low']:.4g}, {line['high']:.4g}]"
    return f"{line['value']:.4g}{limits} ({line['unit']})"
