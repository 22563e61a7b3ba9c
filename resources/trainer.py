"""The trainer process: works off the plans of one or more dates, in order.

Dagster starts it through Pipes; `python -m resources.trainer PLANS.json` runs it without. It ends when the
process that started it is gone, so that a cancelled or killed run leaves nothing behind.
"""

import argparse
import json
import logging
import os
import signal
import sys
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import Any

from dagster_pipes import DAGSTER_PIPES_CONTEXT_ENV_VAR, open_dagster_pipes

from gem_pipeline.atomic import write_json
from gem_pipeline.errors import GemError
from gem_pipeline.training.plan import DayPlan

ORPHAN_CHECK_S = 0.5
INTERRUPTED = 130
Report = dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the trainer.

    Returns:
        0, or the exit code of the typed error that ended it.
    """
    parser = argparse.ArgumentParser(prog="python -m resources.trainer", description=__doc__)
    parser.add_argument("plans", nargs="?", type=Path, help="JSON list of plans; left out under Dagster Pipes")
    options = parser.parse_args(arguments)
    logging.basicConfig(level=logging.WARNING, format="%(message)s", stream=sys.stderr)
    os.environ.setdefault("MLFLOW_LOGGING_LEVEL", "WARNING")
    signal.signal(signal.SIGTERM, _interrupt)
    if options.plans is None and DAGSTER_PIPES_CONTEXT_ENV_VAR not in os.environ:
        parser.error("name a file of plans, or start it through Dagster")
    if options.plans is not None:
        documents = json.loads(options.plans.read_text(encoding="utf-8"))
        return work_off(documents, options.plans.with_suffix(".outcome.json"), {}, report=lambda _: None)
    threading.Thread(target=_end_with_parent, args=(os.getppid(),), daemon=True).start()
    with open_dagster_pipes() as pipes:
        tags = {"dagster_run_id": pipes.run_id}
        outcome = Path(pipes.get_extra("outcome"))
        return work_off(pipes.get_extra("plans"), outcome, tags, report=pipes.report_custom_message)


def work_off(
    documents: Sequence[dict[str, Any]], outcome: Path, tags: dict[str, str], *, report: Callable[[Report], None]
) -> int:
    """Train the days of some plans, in order; tell of each as it is done.

    Args:
        documents: plans as `DayPlan.to_dict` writes them.
        outcome: JSON file with the reports so far and the error, replaced atomically after each day.
        tags: set on every tracked run.
        report: receives the report of each day.

    Returns:
        0, or the exit code of the typed error; days before it stay done.
    """
    from gem_pipeline.runs.day import train_day
    from gem_pipeline.training.progress import BarProgress
    from resources.tracker import MlflowTracker

    reports: list[Report] = []
    try:
        plans = [DayPlan.from_dict(document) for document in documents]
        tracker = MlflowTracker(Path(plans[0].home), uri=os.environ.get("MLFLOW_TRACKING_URI"), tags=tags)
        tracker.sweep()
        for plan in plans:
            done = train_day(plan, tracker, BarProgress()).to_dict()
            reports.append(done)
            write_json(outcome, {"reports": reports, "error": None})
            report(done)
    except GemError as error:
        told = {"type": type(error).__name__, "message": error.message, "remedy": error.remedy}
        write_json(outcome, {"reports": reports, "error": told})
        logging.getLogger(__name__).error("%s", error)
        return error.exit_code
    except KeyboardInterrupt:
        return INTERRUPTED
    return 0


def _interrupt(number: int, frame: FrameType | None) -> None:
    del number, frame
    raise KeyboardInterrupt


def _end_with_parent(parent: int) -> None:
    """End this process when its parent has died; models are stored by one rename, so nothing is left half-written."""
    waiting = threading.Event()
    while os.getppid() == parent:
        waiting.wait(ORPHAN_CHECK_S)
    os._exit(INTERRUPTED)


if __name__ == "__main__":
    sys.exit(main())
