"""What it costs to generate and land a simulated world: seconds, memory, and whether time is linear in events.

Each size runs in a process of its own, JVM start included; memory is the sum over the process and its children.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import psutil
import yaml

from benchmarks._lines import append, line
from benchmarks._memory import held_bytes
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.template import world_contract
from gem_pipeline.places import home_path

WORLD, SIZES, QUICK = "everyday", (1_000_000, 10_000_000, 50_000_000), (300_000, 1_000_000)
SAMPLE_S = 1.0


def generate(events: int, home: Path) -> None:
    """Land every day of the world at once (the child process)."""
    from resources.spark_session import local_session
    from resources.worlds import WorldLanding

    contract = DataContract.model_validate(yaml.safe_load(world_contract(WORLD, events=events)))
    landing = WorldLanding(
        contract=contract, log=WorldLog.of(contract), home=home, spark_provider=lambda: local_session(home)
    )
    landed = landing.land(landing.log.days())
    print(sum(day.num_engagements for day in landed))


def measure(events: int) -> tuple[float, float, int]:
    """Seconds, peak memory in GB, and engagement rows of one size."""
    with tempfile.TemporaryDirectory(prefix="gem-generation-") as folder:
        (Path(folder) / "jars").symlink_to((home_path() / "jars").absolute())
        command = [sys.executable, "-m", "benchmarks.generation", "--child", str(events), folder]
        started, peak = time.monotonic(), 0
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            family = psutil.Process(child.pid)
            while child.poll() is None:
                peak = max(peak, held_bytes(family))
                time.sleep(SAMPLE_S)
            seconds = time.monotonic() - started
            assert child.stdout is not None
            told = child.stdout.read()
        if child.returncode:
            raise RuntimeError(f"generating {events} events failed with code {child.returncode}")
    return seconds, peak / 1e9, int(told.split()[-1])


def lines(sizes: Sequence[int]) -> Iterator[dict[str, Any]]:
    """Figures of every size, then of the largest against the one before it."""
    per_million = []
    for events in sizes:
        seconds, gigabytes, rows = measure(events)
        per_million.append(1e6 * seconds / rows)
        size = f"{WORLD}, {events:.0e} events"
        yield line("generation", "seconds", seconds, unit="s", size=size)
        yield line("generation", "seconds_per_million_events", per_million[-1], unit="s", size=size)
        yield line("generation", "peak_rss_gb", gigabytes, unit="GB", size=size)
    yield line(
        "generation", "cost_per_event_over_smaller", per_million[-1] / per_million[-2], unit="ratio",
        size=f"{sizes[-1]:.0e} over {sizes[-2]:.0e} events", baseline="the smaller size",
    )  # fmt: skip


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.generation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to a million events")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--child", nargs=2, metavar=("EVENTS", "HOME"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        generate(int(options.child[0]), Path(options.child[1]))
        return 0
    if options.json is None:
        parser.error("--json FILE is needed")
    append(options.json, lines(QUICK if options.quick else SIZES))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
