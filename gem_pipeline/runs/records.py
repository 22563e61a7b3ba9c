"""Records of finished tasks: which inputs a task had, and what it reported.

Torch is not imported here, so that a caller can tell without a trainer process that nothing is to be done.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from deltalake import DeltaTable

from gem_pipeline.atomic import write_json
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.contracts.tables import gate_date, vector_tables
from gem_pipeline.quality.gate import read_gate
from gem_pipeline.training.maturity import all_matured, conversions_digest, matured_days
from gem_pipeline.training.plan import (
    ARMS,
    GEM,
    LOGISTIC,
    TASKS,
    DayPlan,
    Task,
    code_fingerprint,
    digest,
    split_vertical,
    vertical_model,
)


@dataclass(frozen=True, kw_only=True)
class ModelReport:
    """One trained model.

    Attributes:
        metrics: finite numbers by name.
        unchanged: the model was there already.
    """

    name: str
    date: str
    model_id: str
    metrics: dict[str, float]
    seconds: float
    mlflow_run_id: str | None = None
    registered_version: int | None = None
    unchanged: bool = False


@dataclass(kw_only=True)
class DayReport:
    """What a trainer process did for a date."""

    date: str
    models: list[ModelReport] = field(default_factory=list)
    teacher_outputs: dict[str, Any] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON-ready form."""
        return asdict(self)

    @staticmethod
    def from_dict(document: dict[str, Any]) -> DayReport:
        """Rebuild a report from `to_dict`."""
        return DayReport(
            date=document["date"],
            models=[ModelReport(**model) for model in document["models"]],
            teacher_outputs=document["teacher_outputs"],
            seconds=document["seconds"],
        )

    def merge(self, other: DayReport) -> None:
        """Add the results of another task of the same date."""
        self.models.extend(other.models)
        self.teacher_outputs.update(other.teacher_outputs)
        self.seconds.update(other.seconds)


def model_id_in_force(home: Path, name: str, date: str | None) -> str | None:
    """Content id of the model in force for a date, read without torch."""
    folder = home / "models" / name / (date or "-")
    pointer = folder / "current.json"
    model_id: str | None = json.loads(pointer.read_text())["model_id"] if pointer.exists() else None
    return model_id if model_id and (folder / model_id).is_dir() else None


def learnt_conversions(home: Path, model_id: str) -> frozenset[str]:
    """Conversion objectives that a foundation model has had labels of; its predictions of others mean nothing."""
    found = next((home / "models" / GEM).glob(f"*/{model_id}/config.json"), None)
    return frozenset(json.loads(found.read_text()).get("learnt", ())) if found else frozenset()


def model_date(home: Path, name: str, model_id: str) -> str | None:
    """Date of a stored model."""
    found = next((home / "models" / name).glob(f"*/{model_id}"), None)
    return found.parent.name if found else None


def scored_by(home: Path, date: str) -> str | None:
    """Content id of the foundation model whose outputs for a date are in the lake, read without torch."""
    path = str(home / "lake" / "teacher_outputs")
    if not DeltaTable.is_deltatable(path):
        return None
    filters = [("date", "=", date), ("teacher", "=", GEM)]
    rows = DeltaTable(path).to_pyarrow_table(filters=filters, columns=["model_id"])
    return str(rows["model_id"][0].as_py()) if rows.num_rows else None


def task_fingerprint(plan: DayPlan, contract: DataContract, task: Task) -> str:
    """Identity of everything that decides a task's result: data, contract, code, sizes, seed, parent models.

    Of conversions only the labels count that had arrived by the day: a later arrival changes nothing of its models.
    Verticals depend on the teacher outputs that are in the lake, whichever model wrote them.
    """
    home = Path(plan.home)
    past_examples, past_events = (content_until(home, table, plan.date) for table in ("examples", "user_events"))
    vectors = [(s.name, content_until(home, s.name, gate_date(s.name, plan.date))) for _, s in vector_tables(contract)]
    there = tuple(date for date, _ in past_examples)
    matured = [day.date for day in matured_days(contract, plan.date, there)]
    read = [content for content in past_examples if content[0] in (plan.date, *matured)]
    again = [content for content in past_examples if content[0] in plan.replayed(there)]
    lessons = (read, past_events, vectors, conversions_digest(home / "lake", matured, plan.date))
    settled = [day.date for day in all_matured(contract, plan.date, there)]
    own = {
        "score": (past_examples[-1:], past_events, vectors),
        "foundation": (*lessons, again),
        "baseline": (past_examples, past_events, model_id_in_force(home, LOGISTIC, plan.previous_date),
                     conversions_digest(home / "lake", settled, plan.date)),
        "verticals": (*lessons, plan.verticals, _parents(plan),
                      [scored_by(home, date) for date in (plan.date, *matured)]),
    }[task]  # fmt: skip
    teacher = model_id_in_force(home, GEM, plan.previous_date)
    settings = (contract.content_hash, code_fingerprint(), plan.date, plan.size, plan.seed, plan.threads)
    return digest(task, settings, own, teacher)


def content_until(home: Path, table: str, date: str) -> list[tuple[str, str]]:
    """Date and content hash of every validated partition of a table up to a date, oldest first."""
    marks = []
    for path in sorted((home / "gates" / table).glob("*.json")):
        marker = read_gate(home, table, path.stem)
        if marker is not None and marker.date <= date:
            marks.append((marker.date, marker.content_hash))
    return marks


def vertical_parent(plan: DayPlan, name: str) -> str | None:
    """Date of the model that a vertical goes on from: the newest, for a cell may have had nothing to learn since."""
    pointers = (Path(plan.home) / "models" / name).glob("*/current.json")
    dates = [pointer.parent.name for pointer in pointers]
    return max((date for date in dates if plan.previous_date and date <= plan.previous_date), default=None)


def _parents(plan: DayPlan) -> list[str | None]:
    names = [vertical_model(key, arm) for key in plan.verticals for arm in ARMS]
    return [model_id_in_force(Path(plan.home), name, vertical_parent(plan, name)) for name in names]


def _record_path(plan: DayPlan, task: Task) -> Path:
    return Path(plan.home) / "records" / plan.date / f"{task}.json"


def write_record(plan: DayPlan, task: Task, fingerprint: str, report: DayReport) -> None:
    """Record that a task finished; the last write of the task."""
    write_json(_record_path(plan, task), {"fingerprint": fingerprint, "report": report.to_dict()})


def read_record(plan: DayPlan, task: Task, fingerprint: str) -> DayReport | None:
    """The report of a finished task with this fingerprint, its models marked unchanged.

    None as well where a model of it is not in force any more, or its teacher outputs have gone.
    """
    path = _record_path(plan, task)
    if not path.exists():
        return None
    document = json.loads(path.read_text())
    if document["fingerprint"] != fingerprint:
        return None
    report = DayReport.from_dict(document["report"])
    home = Path(plan.home)
    if any(model_id_in_force(home, model.name, model.date) != model.model_id for model in report.models):
        return None
    if report.teacher_outputs and scored_by(home, plan.date) != report.teacher_outputs["model_id"]:
        return None
    report.models = [ModelReport(**{**asdict(model), "unchanged": True}) for model in report.models]
    return report


def finished(plan: DayPlan) -> DayReport | None:
    """The report of a plan whose tasks are all done with the same inputs, else None."""
    contract = load_contract(Path(plan.contract_path))
    whole = DayReport(date=plan.date)
    for task in TASKS:
        if task in plan.tasks:
            done = read_record(plan, task, task_fingerprint(plan, contract, task))
            if done is None:
                return None
            whole.merge(done)
    return whole


def vertical_cells(plan: DayPlan) -> list[tuple[str, str, str]]:
    """Key, surface and objective of every vertical of a plan."""
    return [(key, *split_vertical(key)) for key in plan.verticals]
