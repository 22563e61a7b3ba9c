"""The whole chain over three generated days, as the tests run it: in process, or `python -m tests.smoke.chain HOME`."""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import pyarrow as pa
from deltalake import DeltaTable

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract, load_contract
from gem_pipeline.places import contract_path
from gem_pipeline.training.plan import DayPlan
from jobs.graph import build_definitions
from jobs.ranges import run_in_process
from resources.dagster_home import write_dagster_home
from resources.launcher import TrainerLauncher
from resources.settings import GemSettings

HISTORY = "2022-04-24"
DATES = ("2022-04-30", "2022-05-01", "2022-05-02")
ROWS_A_DAY = 2400
Runs = list[dg.ExecuteInProcessResult]


class LocalTrainer(TrainerLauncher):
    """Trains in this process: saves the start of a process for each day."""

    def launch(self, context: dg.AssetExecutionContext, plans: Sequence[DayPlan]) -> dict[str, dict[str, Any]]:
        """Work off plans in order."""
        from gem_pipeline.runs.day import train_day
        from resources.tracker import MlflowTracker

        del context
        return {plan.date: train_day(plan, MlflowTracker(Path(plan.home))).to_dict() for plan in plans}


def settings_of(home: Path) -> GemSettings:
    """Settings of a home on the small generated log."""
    return GemSettings(home=str(home), data=f"generated:{ROWS_A_DAY}")


def instance_of(home: Path) -> dg.DagsterInstance:
    """The Dagster instance of a home."""
    return dg.DagsterInstance.from_config(str(write_dagster_home(home)))


def contract() -> DataContract:
    """The packaged contract."""
    return load_contract(contract_path())


def run(
    home: Path, job: str, dates: Sequence[str], *, launcher: TrainerLauncher | None = None, verticals: bool = False
) -> Runs:
    """Run one job over some dates in this process."""
    definitions = build_definitions(settings_of(home), launcher)
    with instance_of(home) as instance:
        keys = tuple(instance.get_dynamic_partitions("vertical")) if verticals else ()
        return run_in_process(definitions, job, dates, instance=instance, verticals=keys, quiet=True)


def derive(home: Path) -> Runs:
    """Everything that Spark makes."""
    return run(home, "refresh_history", [HISTORY]) + run(home, "refresh_features", DATES)


def train(home: Path) -> Runs:
    """Everything after it; `refresh` finds the features done."""
    runs = run(home, "refresh", DATES)
    runs += run(home, "refresh_verticals", DATES, verticals=True)
    return runs + run(home, "refresh_evaluation", DATES)


def table_of(home: Path, schema: tables.TableSchema) -> pa.Table:
    """All rows of a table, in an order of their own: what is left when file layout is taken away."""
    rows = DeltaTable(str(home / "lake" / schema.name)).to_pyarrow_table(columns=list(schema.column_names))
    order = dict.fromkeys((*schema.partition_by, *schema.sort_by, *schema.key))
    return rows.sort_by([(name, "ascending") for name in order]).combine_chunks()


def features_of(home: Path) -> dict[str, pa.Table]:
    """Rows of the tables that Spark makes."""
    own = contract()
    made = (tables.user_events(own), tables.counter_increments(own), tables.examples(own))
    return {schema.name: table_of(home, schema) for schema in made}


def scores_of(home: Path) -> dict[str, pa.Table]:
    """Rows of the tables that trainers make."""
    return {
        schema.name: table_of(home, schema) for schema in (tables.teacher_outputs(contract()), tables.predictions())
    }


def weights_of(home: Path, pattern: str = "*") -> dict[str, str]:
    """Hash of weights, optimiser state and configuration of every model in force, by name and date.

    Delta versions are left out: they count commits, and a range makes fewer of them.
    """
    found = {}
    for pointer in sorted((home / "models").glob(f"{pattern}/*/current.json")):
        folder = pointer.parent / json.loads(pointer.read_text())["model_id"]
        for file in ("model.safetensors", "optimizer.safetensors", "config.json"):
            if (path := folder / file).exists():
                name = f"{pointer.parent.parent.name} {pointer.parent.name} {file}"
                content = path.read_bytes()
                if path.suffix == ".json":
                    content = json.dumps({k: v for k, v in json.loads(content).items() if k != "inputs"}).encode()
                found[name] = hashlib.sha256(content).hexdigest()
    return found


def assert_same_tables(one: Mapping[str, pa.Table], other: Mapping[str, pa.Table]) -> None:
    """Every row of every table is equal, and there are rows."""
    assert one.keys() == other.keys()
    for name, rows in one.items():
        assert rows.num_rows > 0, name
        differ = [c for c in rows.column_names if not rows[c].equals(other[name][c])]
        assert rows.equals(other[name]), f"{name}: {rows.num_rows} and {other[name].num_rows} rows; columns {differ}"


if __name__ == "__main__":
    derive(Path(sys.argv[1]))
    train(Path(sys.argv[1]))
