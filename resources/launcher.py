"""Starts trainers: a process of their own, by Dagster Pipes."""

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg

from gem_pipeline.runs.records import finished
from gem_pipeline.training.plan import DayPlan

Report = dict[str, Any]


class TrainerLauncher(dg.ConfigurableResource):
    """Runs the trainer on plans and gets its reports back.

    Attributes:
        command: the process to start; empty: this Python's `-m resources.trainer`. A `torchrun` command goes here.
        patience_s: seconds that a cancelled trainer gets to stop by itself. One that does not stop ends
            when the process that started it does.
    """

    command: list[str] = []
    patience_s: float = 20.0

    def train(self, context: dg.AssetExecutionContext, plans: Sequence[DayPlan]) -> dict[str, Report]:
        """Work off plans in date order, from the first that is not done yet; no process starts where all are done.

        Returns:
            The report of each date.

        Raises:
            dagster.Failure: the trainer failed; see `launch`.
        """
        todo = list(plans)
        reports: dict[str, Report] = {}
        while todo and (done := finished(todo[0])):
            reports[todo.pop(0).date] = done.to_dict()
        return reports | self.launch(context, todo) if todo else reports

    def launch(self, context: dg.AssetExecutionContext, plans: Sequence[DayPlan]) -> dict[str, Report]:
        """Work off plans in one trainer process, in order; its progress is shown on the terminal.

        Returns:
            The report of each date.

        Raises:
            dagster.Failure: the trainer failed. Its own plain sentence is the description where it gave one; then
                trying again would change nothing and is not allowed.
        """
        outcome = Path(plans[0].home) / "trainer" / f"{context.run_id}-{plans[0].date}.json"
        client = dg.PipesSubprocessClient(
            env={"PYTHONUNBUFFERED": "1"}, cwd=str(Path(__file__).parents[1]),
            termination_timeout_seconds=self.patience_s,
        )  # fmt: skip
        try:
            done = client.run(
                context=context,
                command=self.command or [sys.executable, "-m", "resources.trainer"],
                extras={"plans": [plan.to_dict() for plan in plans], "outcome": str(outcome)},
            )
        except dg.DagsterError as failed:
            error = _error_told(outcome)
            raise dg.Failure(
                description=f"{error['message']} {error['remedy']}" if error else f"The trainer crashed: {failed}.",
                metadata={"dates": ", ".join(plan.date for plan in plans), "outcome": dg.MetadataValue.path(outcome)},
                allow_retries=error is None,
            ) from failed
        return {report["date"]: report for report in done.get_custom_messages()}


def _error_told(outcome: Path) -> dict[str, str] | None:
    """The typed error that a trainer wrote before it ended."""
    if not outcome.exists():
        return None
    error: dict[str, str] | None = json.loads(outcome.read_text(encoding="utf-8"))["error"]
    return error
