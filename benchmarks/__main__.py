"""Run every benchmark and rewrite docs/benchmarks.md: `python -m benchmarks [--quick] [NAME ...]`.

A benchmark is a file `benchmarks/<name>.py`, run as `python -m benchmarks.<name> [--quick] --json FILE`;
it appends JSON lines to FILE. Only the newest line of each figure and size is published.
"""

from __future__ import annotations

import argparse
import ast
import json
import subprocess
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent
RESULTS = ROOT / "results.jsonl"
PAGE = ROOT.parent / "docs" / "benchmarks.md"
SEVERAL = {  # lines that more than one benchmark writes
    "ablation": "What each block earns (`ablation`), what each kind of signal is worth (`feature_kinds`), what each "
    "learning aid does (`aids`), and whether light models rank experiments as the full size does (`ranking`).",
    "training": "What a training step costs: histories shared or not (`sharing`), one sequence against several and "
    "mixed surfaces against one (`sequences`), 100 000 examples (`joint`).",
}


def benchmark_names() -> tuple[str, ...]:
    """Names of all benchmarks, sorted."""
    return tuple(sorted(path.stem for path in ROOT.glob("*.py") if not path.stem.startswith("_")))


def newest_lines(text: str) -> list[dict[str, Any]]:
    """Keep the last line of each (bench, figure, size), in order of bench and figure."""
    newest = {}
    for line in filter(None, text.splitlines()):
        row = json.loads(line)
        newest[row["bench"], row["figure"], str(row.get("size") or "")] = row
    return [newest[key] for key in sorted(newest)]


def page(rows: Iterable[dict[str, Any]]) -> str:
    """Write the results as a page of Markdown, a table a bench; what could not be measured says why."""
    by_bench: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        by_bench.setdefault(row["bench"], []).append(row)
    lines = [
        "# Benchmarks",
        "",
        "Written by `make bench`. The baseline is the best configuration found for the other side.",
    ]
    for bench, found in by_bench.items():
        lines += ["", f"## {bench}", "", purpose(bench), "", *_table(found)]
    return "\n".join(lines) + "\n"


def purpose(bench: str) -> str:
    """What these lines tell: the first paragraph of the benchmark that writes them."""
    path = ROOT / f"{bench}.py"
    if bench in SEVERAL or not path.exists():
        return SEVERAL.get(bench, "")
    return (ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or "").split("\n\n")[0].replace("\n", " ")


def _table(rows: Iterable[dict[str, Any]]) -> list[str]:
    lines = [
        "| figure | size | value | interval | unit | baseline | runs | commit | machine |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    for row in rows:
        value = _number(row["value"]) if row["value"] is not None else f"not measured: {row['why']}"
        interval = f"{_number(row['low'])} to {_number(row['high'])}" if row.get("low") is not None else ""
        cells = [row["figure"], row.get("size"), value, interval, row["unit"], row.get("baseline")]
        cells += [row.get("runs"), str(row.get("commit") or "")[:9], row.get("cpu")]
        lines.append("| " + " | ".join("" if cell is None else str(cell) for cell in cells) + " |")
    return lines


def _number(value: float) -> str:
    return f"{value:.4g}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks one after the other; returns 1 where one failed, after running the others."""
    parser = argparse.ArgumentParser(prog="benchmarks", description="Run benchmarks, rewrite docs/benchmarks.md.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="default: all")
    parser.add_argument("--quick", action="store_true", help="at most three minutes each, smaller sizes")
    options = parser.parse_args(arguments)
    names = options.names or benchmark_names()
    if not names:
        print("There is no benchmark in benchmarks/.")
        return 0
    failed = []
    for name in names:
        print(f"{name} ...", flush=True)
        command = [sys.executable, "-m", f"benchmarks.{name}", "--json", str(RESULTS), *(["--quick"] * options.quick)]
        if subprocess.run(command, cwd=ROOT.parent, check=False).returncode != 0:
            failed.append(name)
    if RESULTS.exists():
        from benchmarks import _block_page  # it brings torch along, which nothing else here needs

        rows = newest_lines(RESULTS.read_text(encoding="utf-8"))
        PAGE.write_text(page(rows), encoding="utf-8")
        _block_page.write(rows)
        print(f"Wrote {PAGE.relative_to(ROOT.parent)}.")
    if failed:
        print(f"Failed: {', '.join(failed)}.", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
