"""What the derivation of `user_events` costs: by size, by day, in memory, and beside Polars and DuckDB.

Spark runs the product's own transform and publication (judging, de-duplication, bits, attributes as of the event,
clustering, one Delta commit); start of the JVM excluded, writing included on every side, two threads each. The
first derivation of a process pays for loading and compiling classes, too ("fresh JVM"); one after it does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import psutil
import yaml
from deltalake import DeltaTable

from benchmarks._lines import append, line
from benchmarks._memory import held_bytes
from benchmarks._peers import peer_python
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.worlds.log import WorldLog
from gem_pipeline.datasets.worlds.template import world_contract
from gem_pipeline.places import home_path

ROOT = Path(__file__).resolve().parents[1]
SIZES, QUICK = (1_000_000, 10_000_000, 50_000_000), (300_000, 1_000_000)
COMPARED, COMPARED_QUICK = 10_000_000, 300_000
DAILY_EVENTS, DAYS, REPEATS = 1_500_000, 30, 3


def contract_of(events: int, days: int, history_days: int = 7) -> DataContract:
    """The contract of the everyday world of a size."""
    document = yaml.safe_load(world_contract("everyday", events=events))
    document["world"]["history_days"] = history_days
    first = date.fromisoformat(document["partition"]["first_day"])
    document["partition"]["last_day"] = str(first + timedelta(days=days - 1))
    return DataContract.model_validate(document)


def child(job: str, events: int, days: int, home: Path) -> dict[str, Any]:
    """Run one job in a process of its own, whose peak memory is watched; its last line is JSON."""
    command = [sys.executable, "-m", "benchmarks.derivation", "--child", job, str(events), str(days), str(home)]
    environment = os.environ | {"GEM_SPARK_MASTER": "local[2]"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment, cwd=ROOT) as running:
        family, peak = psutil.Process(running.pid), [0]

        def watch() -> None:
            while running.poll() is None:
                peak[0] = max(peak[0], held_bytes(family))
                time.sleep(1)  # asking stops the process for some milliseconds

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert running.stdout is not None
        told = running.stdout.read()
        watcher.join()
    if running.returncode:
        raise RuntimeError(f"job {job} at {events} events failed with code {running.returncode}")
    return json.loads(told.strip().splitlines()[-1]) | {"peak_rss_gb": peak[0] / 1e9}


def run_child(job: str, events: int, days: int, home: Path) -> dict[str, Any]:
    """The work of a child: `land`, `whole` (all days at once) or `daily` (day 3 and day 30, repeatedly)."""
    from resources.derivation import Derivation
    from resources.lake import DeltaLake
    from resources.spark_session import local_session
    from resources.worlds import WorldLanding
    from spark.user_events import user_events

    contract, spark = contract_of(events, days), local_session(home)
    log, lake = WorldLog.of(contract), DeltaLake(str(home / "lake"))
    spark.range(1000).count()
    if job == "land":
        WorldLanding(contract=contract, log=log, home=home, spark_provider=lambda: spark).land(log.days())
        return {}
    if job == "whole":
        schema = tables.user_events(contract)
        lake.ensure_table(schema)
        seconds = []
        for _ in range(2):  # in a JVM that has compiled nothing yet, and in one that has
            started = time.perf_counter()
            bronze = lake.read_bronze(spark, contract.tables.engagements)
            dimensions = [lake.read_bronze(spark, ref) for ref in (contract.tables.users, contract.tables.ads)]
            staged = lake.stage(user_events(bronze, *dimensions, contract), schema, log.days(), placed=True)
            lake.publish(staged, log.days(), {})
            seconds.append(time.perf_counter() - started)
            lake.discard(staged)
        return {"seconds": seconds, "rows": lake.read(spark, schema.name).count()}
    derivation = Derivation(contract=contract, lake=lake, spark_provider=lambda: spark, home=home)
    for step in (derivation.user_events, derivation.counter_increments, derivation.examples):
        step(log.days()[-DAYS:] if step != derivation.user_events else log.days())
    seconds_by_day: dict[str, list[float]] = {"3": [], "30": []}
    timed = [day for day in log.days() if log.has_impressions(day)]
    for _ in range(REPEATS):
        for name, seconds in seconds_by_day.items():
            day = (timed[int(name) - 1],)
            for gate in (home / "gates").glob(f"*/{day[0]}.json"):  # the day counts as never derived
                gate.unlink()
            started = time.perf_counter()
            for step in (derivation.user_events, derivation.counter_increments, derivation.examples):
                step(day)
            seconds.append(time.perf_counter() - started)
    return {name: statistics.median(values) for name, values in seconds_by_day.items()}


def files_by_date(path: Path) -> dict[str, list[str]]:
    """Active files of a Delta table by date; '' where it has no partitions."""
    table = DeltaTable(str(path))
    found: dict[str, list[str]] = {}
    for uri in table.file_uris():
        day = next((part.partition("=")[2] for part in uri.split("/") if part.startswith("date=")), "")
        found.setdefault(day, []).append(uri)
    return found


def peers(home: Path, folder: Path) -> dict[str, float]:
    """Median seconds of Polars and DuckDB on the bronze tables of a home, runs interleaved."""
    bronze, content = folder / "bronze.json", folder / "content.json"
    bronze.write_text(json.dumps(files_by_date(home / "lake" / "bronze" / "engagements")))
    content.write_text(json.dumps(files_by_date(home / "lake" / "bronze" / "content")[""]))
    found: dict[str, list[float]] = {"polars": [], "duckdb": []}
    for attempt in range(REPEATS):
        for engine, seconds in found.items():
            target = folder / f"{engine}{attempt}"
            command = [peer_python("engines"), str(ROOT / "benchmarks" / "_derivation_peers.py"), engine, str(bronze),
                       str(content), str(target)]  # fmt: skip
            told = subprocess.run(
                command, check=True, capture_output=True, text=True, env=os.environ | {"POLARS_MAX_THREADS": "2"}
            )
            seconds.append(float(told.stdout))
            shutil.rmtree(target)
    return {engine: statistics.median(seconds) for engine, seconds in found.items()}


def lines(quick: bool) -> Iterator[dict[str, Any]]:
    """Figures by size, and beside the peers."""
    compared = COMPARED_QUICK if quick else COMPARED
    for events in QUICK if quick else SIZES:
        with tempfile.TemporaryDirectory(prefix="gem-derivation-") as name:
            home, size = _home(Path(name)), f"{events:.0e} events"
            child("land", events, 21, home)
            runs = [child("whole", events, 21, home) for _ in range(REPEATS if events == compared else 1)]
            yield from _size_lines(runs, size)
            if events == compared:
                yield from _peer_lines(runs, peers(home, Path(name)), size)


def _size_lines(runs: list[dict[str, Any]], size: str) -> Iterator[dict[str, Any]]:
    for state, seconds in _seconds(runs).items():
        cost = 1e6 * seconds / runs[0]["rows"]
        where = f"{size}, {state} JVM"
        yield line("derivation", "seconds_per_million_events", cost, unit="s", size=where, runs=len(runs))
    yield line(
        "derivation", "peak_rss_gb", max(run["peak_rss_gb"] for run in runs), unit="GB", size=size, runs=len(runs)
    )


def _peer_lines(runs: list[dict[str, Any]], others: dict[str, float], size: str) -> Iterator[dict[str, Any]]:
    for engine, other in others.items():
        for state, seconds in _seconds(runs).items():
            yield line(
                "derivation", f"time_over_{engine}", seconds / other, unit="ratio", size=f"{size}, {state} JVM",
                runs=REPEATS, baseline=f"{engine}, two threads, {other:.1f} s",
            )  # fmt: skip


def _seconds(runs: list[dict[str, Any]]) -> dict[str, float]:
    """Median seconds of the first derivation of a process, and of one after it."""
    return {
        state: statistics.median(run["seconds"][index] for run in runs) for index, state in enumerate(("fresh", "warm"))
    }


def daily_lines(quick: bool) -> Iterator[dict[str, Any]]:
    """A late day against an early one of equal volume."""
    with tempfile.TemporaryDirectory(prefix="gem-derivation-") as name:
        home, events = _home(Path(name)), QUICK[0] if quick else DAILY_EVENTS
        child("land", events, 7 + DAYS, home)
        found = child("daily", events, 7 + DAYS, home)
        yield line(
            "derivation", "day30_over_day3", found["30"] / found["3"], unit="ratio", runs=REPEATS,
            size=f"{events:.0e} events over {7 + DAYS} days", baseline=f"day 3, {found['3']:.1f} s",
        )  # fmt: skip


def _home(folder: Path) -> Path:
    home = folder / "home"
    home.mkdir()
    (home / "jars").symlink_to((home_path() / "jars").absolute())
    return home


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmark and append its lines."""
    parser = argparse.ArgumentParser(prog="benchmarks.derivation", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="up to a million events")
    parser.add_argument("--daily-only", action="store_true", help="a late day against an early one, nothing else")
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--child", nargs=4, metavar=("JOB", "EVENTS", "DAYS", "HOME"), help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.child:
        job, events, days, home = options.child
        print(json.dumps(run_child(job, int(events), int(days), Path(home))))
        return 0
    if options.json is None:
        parser.error("--json FILE is needed")
    if not options.daily_only:
        append(options.json, lines(options.quick))
    append(options.json, daily_lines(options.quick))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
