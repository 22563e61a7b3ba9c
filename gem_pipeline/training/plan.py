"""The plan of a day: what a trainer process is asked for, and what its inputs were.

Torch is not imported here: whether everything a plan asks for exists already is told from files.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pyarrow.compute as pc
from deltalake import DeltaTable

import gem_pipeline
from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.contracts.conversions import days_before
from gem_pipeline.errors import ConfigError, PartitionError
from gem_pipeline.training.maturity import all_matured, label_counts, matured_days

Task = Literal["score", "foundation", "baseline", "verticals"]
TASKS: tuple[Task, ...] = ("score", "foundation", "baseline", "verticals")
GEM, LOGISTIC = "gem", "logistic_regression"
ARMS = ("alone", "kd")  # a vertical without a teacher, and with plain distillation
_CODE = ("batches", "kernels", "models", "training", "transfer", "config", "runs")


@dataclass(frozen=True, kw_only=True, slots=True)
class DayPlan:
    """One trainer process: tasks of one date.

    Attributes:
        date: the partition to work on.
        previous_date: date of the models that score the day and are trained further; None: cold start.
        tasks: in any order; they run as score, foundation, baseline, verticals.
        verticals: `<surface>__<objective>` keys.
        size: rung of the size ladder, or variants of one, joined by `+`.
        seed: root seed.
        threads: CPU threads of the trainer; part of what makes a run repeatable.
        replay_days: earlier days whose examples the foundation model learns again with those of the date.
    """

    date: str
    previous_date: str | None
    contract_path: str
    home: str
    tasks: tuple[Task, ...] = TASKS
    verticals: tuple[str, ...] = ()
    size: str = "tiny"
    seed: int = 0
    threads: int = 1
    replay_days: int = 0

    def __post_init__(self) -> None:
        if strangers := set(self.tasks) - set(TASKS):
            raise ConfigError(f"Unknown tasks {sorted(strangers)}.", remedy=f"Choose from {', '.join(TASKS)}.")
        if self.previous_date is not None and self.previous_date >= self.date:
            raise ConfigError(
                f"The previous date {self.previous_date} of day {self.date} is not earlier.",
                remedy="A day is scored by a model that has not seen it: name an earlier date, or none.",
            )
        if self.replay_days < 0:
            raise ConfigError(f"replay_days is {self.replay_days}.", remedy="Name 0 or more earlier days.")

    def replayed(self, there: Iterable[str]) -> tuple[str, ...]:
        """The newest `replay_days` dates before the plan's, oldest first, of those that are `there`."""
        return tuple(sorted(day for day in there if day < self.date))[-self.replay_days :] if self.replay_days else ()

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> DayPlan:
        """Rebuild a plan from `to_dict`."""
        fields: dict[str, Any] = dict(document)
        fields |= {key: tuple(document[key]) for key in ("tasks", "verticals")}
        return DayPlan(**fields)


def vertical_key(surface: str, objective: str) -> str:
    """Key of a vertical model."""
    return f"{surface}__{objective}"


def split_vertical(key: str) -> tuple[str, str]:
    """Surface and objective of a key."""
    surface, _, objective = key.partition("__")
    return surface, objective


def vertical_model(key: str, arm: str) -> str:
    """Name of a vertical model: key and arm."""
    return f"vertical-{key}-{arm}"


def digest(*parts: object) -> str:
    """Content id of JSON-ready parts, 16 hex digits."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, default=str).encode()).hexdigest()[:16]


def code_fingerprint() -> str:
    """Hash of the source files that decide a model's weights: other code makes another model."""
    root = Path(gem_pipeline.__file__).parent
    files = sorted(path for package in _CODE for path in (root / package).rglob("*.py"))
    content = hashlib.sha256()
    for path in files:
        content.update(str(path.relative_to(root)).encode())
        content.update(path.read_bytes())
    return content.hexdigest()[:16]


def partition_dates(home: Path, table: str) -> tuple[str, ...]:
    """Dates that a table of the lake holds rows of, oldest first; none where there is no table."""
    path = str(home / "lake" / table)
    if not DeltaTable.is_deltatable(path):
        return ()
    return tuple(sorted({str(partition["date"]) for partition in DeltaTable(path).partitions()}))


def example_dates(contract: DataContract, home: Path) -> tuple[str, ...]:
    """Dates that have examples, oldest first."""
    return partition_dates(home, tables.examples(contract).name)


def previous_model_date(contract: DataContract, home: Path, date: str) -> str | None:
    """Date of the foundation model that day `date` starts from, chosen by partition, never by recency of writing.

    Returns:
        The newest earlier date with examples, or None where the chain starts.

    Raises:
        PartitionError: the chain has begun, but the model of the newest earlier day is missing.
    """
    store = home / "models" / GEM
    earlier = [day for day in example_dates(contract, home) if day < date]
    started = [day for day in earlier if (store / day / "current.json").exists()]
    if not started:
        return None
    if started[-1] != earlier[-1]:
        raise PartitionError(
            f"Model {GEM} of {earlier[-1]} is missing, so day {date} cannot be trained in order.",
            remedy=f"Materialise foundation_model for {earlier[-1]} first, or backfill the range from there.",
        )
    return earlier[-1]


def eligible_verticals(contract: DataContract, home: Path, dates: Iterable[str]) -> tuple[str, ...]:
    """Cells with enough positives and negatives over `dates`, the ones with the most positives first.

    A conversion counts on the date on which its label matured.
    """
    schema = tables.examples(contract)
    path = str(home / "lake" / schema.name)
    if not DeltaTable.is_deltatable(path):
        return ()
    days = sorted(set(dates))
    labels = {o.name: tables.label_column(o.name) for o in contract.column_objectives}
    rows = DeltaTable(path).to_pyarrow_table(filters=[("date", "in", days)], columns=["surface", *labels.values()])
    counted = rows.group_by("surface").aggregate([(label, f) for label in labels.values() for f in ("sum", "count")])
    counts = {
        (row["surface"], objective): [row[f"{label}_sum"] or 0, row[f"{label}_count"]]
        for row in counted.to_pylist()
        for objective, label in labels.items()
    }
    there = example_dates(contract, home)
    counts |= label_counts(
        contract, home / "lake", [m for day in days for m in matured_days(contract, day, there)]
    )  # fmt: skip
    rule = contract.verticals
    cells = [
        (-positives, vertical_key(surface, objective))
        for (surface, objective), (positives, total) in counts.items()
        if positives >= rule.min_positives and total - positives >= rule.min_negatives
    ]
    return tuple(key for _, key in sorted(cells)[: rule.max_models])


def base_rates(contract: DataContract, home: Path, before: str) -> dict[str, dict[str, float]]:
    """Base rate by surface and objective (and over all surfaces, as `all`) of the labels known before a date."""
    schema = tables.examples(contract)
    labels = {o.name: tables.label_column(o.name) for o in contract.column_objectives}
    table = DeltaTable(str(home / "lake" / schema.name))
    rows = table.to_pyarrow_table(filters=[("date", "<", before)], columns=["surface", *labels.values()])
    matured = all_matured(contract, days_before(before, 1), example_dates(contract, home))
    counts = label_counts(contract, home / "lake", matured)
    rates: dict[str, dict[str, float]] = {}
    for surface in ("all", *contract.surfaces):
        part = rows if surface == "all" else rows.filter(pc.equal(rows["surface"], surface))
        rates[surface] = {o: pc.mean(part[column]).as_py() for o, column in labels.items() if part.num_rows}
        rates[surface] = {o: rate for o, rate in rates[surface].items() if rate is not None}
        for o in contract.conversion_objectives:
            cells = [counts.get((s, o.name), [0, 0]) for s in contract.surfaces if surface in ("all", s)]
            positives, total = (sum(column) for column in zip(*cells, strict=True))
            rates[surface] |= {o.name: positives / total} if total else {}
    return rates
