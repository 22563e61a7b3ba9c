"""Logs derived once by the product's own Spark job, in folders that every quality benchmark reads."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import date, timedelta
from pathlib import Path

import yaml

import gem_pipeline
from benchmarks.trials.frozen import freeze
from benchmarks.trials.movies import CONTRACT, MOVIES, MovieLens, wheel
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.datasets.worlds.template import world_contract
from gem_pipeline.places import home_path

ROOT = Path(__file__).resolve().parents[2]
KUAIRAND = "kuairand"
REAL = (KUAIRAND, MOVIES)
LOGS = Path(os.environ.get("GEM_DATA", ROOT.parent / "shared" / "data"))


@dataclass(frozen=True, kw_only=True, slots=True)
class Log:
    """A log that models are trained on.

    Attributes:
        name: `kuairand`, `movielens`, or the name of a world.
        events: events of a world; a real log has as many as it has.
        days: days with impressions of a world.
        seed: of a world.
        frozen: the last day whose events the later impressions see, see `frozen.freeze`; empty: they see all.
        events_a_day: mean events of a user and day of a world; 0: as the packaged contract has it.
        history_days: days of a world before the first impressions; 0: as the packaged contract has it.
    """

    name: str = KUAIRAND
    events: int = 0
    days: int = 0
    seed: int = 0
    frozen: str = ""
    events_a_day: int = 0
    history_days: int = 0

    @property
    def key(self) -> str:
        """Name of its folder."""
        whole = self.name if self.name in REAL else f"{self.name}-{self.events}-{self.days}-{self.seed}"
        if self.events_a_day or self.history_days:
            whole += f"~{self.events_a_day}x{self.history_days}"
        return f"{whole}@{self.frozen}" if self.frozen else whole

    @property
    def home(self) -> Path:
        """Where its tables are, under GEM_HOME."""
        return home_path() / "bench" / self.key

    @property
    def contract_file(self) -> Path:
        """Its contract, beside its tables."""
        return self.home / "contract.yaml"

    def contract_text(self) -> str:
        """The contract: that of the real log, or that of the world with its length."""
        if self.name == MOVIES:
            return CONTRACT.read_text(encoding="utf-8")
        if self.name == KUAIRAND:
            return (Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml").read_text(encoding="utf-8")
        document = yaml.safe_load(world_contract(self.name, events=self.events))
        told = {"events_a_day": self.events_a_day, "history_days": self.history_days}
        document["world"] |= {name: value for name, value in told.items() if value}
        first = date.fromisoformat(document["partition"]["first_day"])
        last = first + timedelta(days=document["world"]["history_days"] + self.days - 1)
        document["partition"]["last_day"] = str(last)
        document["world"]["seed"] = self.seed
        return yaml.safe_dump(document, sort_keys=False)

    @staticmethod
    def parse(key: str) -> Log:
        """Read `key` back."""
        whole, _, frozen = key.partition("@")
        if whole in REAL:
            return Log(name=whole, frozen=frozen)
        whole, _, dense = whole.partition("~")
        events_a_day, _, history_days = dense.partition("x")
        name, events, days, seed = whole.rsplit("-", 3)
        return Log(
            name=name, events=int(events), days=int(days), seed=int(seed), frozen=frozen,
            events_a_day=int(events_a_day or 0), history_days=int(history_days or 0),
        )  # fmt: skip

    def is_there(self) -> bool:
        """Whether the real log can be read here; worlds and what the package registry has always can."""
        return self.name != KUAIRAND or (LOGS / KUAIRAND / "impressions.parquet").exists()


def derived(log: Log) -> DataContract:
    """The contract of a log whose tables are derived; the first call derives them in a process of its own.

    Raises:
        RuntimeError: the derivation failed.
    """
    contract = DataContract.model_validate(yaml.safe_load(log.contract_text()))
    whole = replace(log, frozen="")
    if log.frozen:
        derived(whole)
    done = log.home / "derived"
    if not done.exists() or done.read_text(encoding="ascii") != contract.content_hash:
        log.home.mkdir(parents=True, exist_ok=True)
        log.contract_file.write_text(log.contract_text(), encoding="utf-8")
        command = [sys.executable, "-m", "benchmarks.trials.homes", log.key]
        if log.frozen:
            freeze(contract, whole.home / "lake", log.home / "lake", log.frozen)
        elif subprocess.run(command, cwd=ROOT, check=False).returncode:
            raise RuntimeError(f"log {log.key} could not be derived")
        done.write_text(contract.content_hash, encoding="ascii")
    return contract


def _derive(log: Log) -> None:
    from gem_pipeline.datasets.landing import land_partitions, open_source
    from resources.derivation import Derivation
    from resources.lake import DeltaLake
    from resources.spark_session import local_session
    from resources.worlds import WorldLanding

    contract = DataContract.model_validate(yaml.safe_load(log.contract_text()))
    jars = log.home / "jars"
    if not jars.exists():
        jars.symlink_to((home_path() / "jars").absolute())
    spark = local_session(log.home)
    if log.name in REAL:
        source = MovieLens.of(wheel()) if log.name == MOVIES else open_source(contract, None, LOGS)
        days = tuple(source.days())
        land_partitions(contract, source, log.home, days)
    else:
        from gem_pipeline.datasets.worlds.log import WorldLog

        world = WorldLog.of(contract)
        days = tuple(world.days())
        WorldLanding(contract=contract, log=world, home=log.home, spark_provider=lambda: spark).land(days)
    derivation = Derivation(
        contract=contract, lake=DeltaLake(str(log.home / "lake")), spark_provider=lambda: spark, home=log.home
    )
    derivation.user_events(days)
    shown = tuple(sorted(day for day in days if day in derivation.inputs.impressions))
    for step in (derivation.counter_increments, derivation.examples, derivation.attributed_conversions):
        step(shown)


def main(arguments: Sequence[str] | None = None) -> int:
    """Derive one log, named by its key."""
    parser = argparse.ArgumentParser(prog="benchmarks.trials.homes", description=__doc__)
    parser.add_argument("log")
    _derive(Log.parse(parser.parse_args(arguments).log))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
