"""Starts trainers: a process of their own, by Dagster Pipes."""

import json
import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
from dagster._core.errors import DagsterPipesExecutionError  # Dagster exports it nowhere else
from pydantic import Field

from gem_pipeline.runs.records import finished
from gem_pipeline.training.plan import DayPlan

Report = dict[str, Any]


class TrainerLauncher(dg.ConfigurableResource):
    """Runs the trainer on plans and gets its reports back.

    Attributes:
        command: the process to start; empty: this Python's `-m resources.trainer`. A `torchrun` command goes here.
        patience_s: seconds that a cancelled trainer gets to stop by itself. One that does not stop ends
            when the process that started it does.
        attempts: how often a trainer that crashes without a word is started.
    """

    command: list[str] = Field(default_factory=list)
    patience_s: float = 20.0
    attempts: int = 2

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

        A crash (no word from the trainer) is tried again, and goes on from what is done; a typed error is not. This
        is not left to Dagster's retry policy, which would start a trainer again when its run is cancelled.

        Returns:
            The report of each date.

        Raises:
            dagster.Failure: the trainer failed; its own plain sentence is the description where it gave one.
        """
        outcome = Path(plans[0].home) / "trainer" / f"{context.run.run_id}-{plans[0].date}.json"
        outcome.unlink(missing_ok=True)
        for attempt in range(1, self.attempts + 1):
            try:
                done = self._run(context, plans, outcome)
            except DagsterPipesExecutionError as failed:
                error = _error_told(outcome)
                if error is None and attempt < self.attempts:
                    context.log.warning("The trainer crashed (%s); starting it again.", failed)
                    continue
                raise dg.Failure(
                    f"{error['message']} {error['remedy']}" if error else f"The trainer crashed: {failed}.",
                    metadata={
                        "dates": ", ".join(plan.date for plan in plans),
                        "error": error["type"] if error else "crash",
                    },
                    allow_retries=False,
                ) from failed
            return {report["date"]: report for report in done.get_custom_messages()}
        raise dg.Failure(f"The launcher is set to {self.attempts} attempts; it needs at least one.")

    def _run(
        self, context: dg.AssetExecutionContext, plans: Sequence[DayPlan], outcome: Path
    ) -> dg.PipesClientCompletedInvocation:
        client = dg.PipesSubprocessClient(
            env={"PYTHONUNBUFFERED": "1"}, cwd=str(Path(__file__).parents[1]),
            termination_timeout_seconds=self.patience_s,
        )  # fmt: skip
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", dg.PreviewWarning)  # Dagster's own, from inside its Pipes client
            return client.run(
                context=context.op_execution_context,
                command=self.command or [sys.executable, "-m", "resources.trainer"],
                extras={"plans": [plan.to_dict() for plan in plans], "outcome": str(outcome)},
            )


def _error_told(outcome: Path) -> dict[str, str] | None:
    """The typed error that a trainer wrote before it ended."""
    if not outcome.exists():
        return None
    error: dict[str, str] | None = json.loads(outcome.read_text(encoding="utf-8"))["error"]
    return error
