"""A trainer process: the tasks of one date, each skipped where it was done with the same inputs."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gem_pipeline.contracts.tables import ALL_DAYS, vector_tables
from gem_pipeline.quality.gate import verify_gate
from gem_pipeline.runs.baseline import fitted_days, has_conversions, run_baseline
from gem_pipeline.runs.context import DayContext
from gem_pipeline.runs.foundation import score_day, train_foundation
from gem_pipeline.runs.records import DayReport, content_until, read_record, task_fingerprint, write_record
from gem_pipeline.runs.verticals import run_verticals
from gem_pipeline.training.plan import TASKS, DayPlan, Task, partition_dates
from gem_pipeline.training.progress import Progress, SilentProgress
from gem_pipeline.training.tracker import SilentTracker, Tracker


def train_day(plan: DayPlan, tracker: Tracker | None = None, progress: Progress | None = None) -> DayReport:
    """Run the tasks of a plan: score, then train the foundation model, the baseline and the verticals.

    Every task is idempotent: it replaces whole partitions and stores models under their content id, and its
    record is written last, so a killed process is simply run again.

    Raises:
        GateError: a partition that would be read has no valid quality gate.
        DivergenceError: a loss exploded; the last stored model is untouched.
    """
    torch.set_num_threads(plan.threads)
    context = DayContext(plan, tracker or SilentTracker(), progress or SilentProgress())
    _verify_gates(context)
    report = DayReport(date=plan.date)
    for task in TASKS:
        if task in plan.tasks:
            report.merge(_once(context, task))
    return report


def _verify_gates(context: DayContext) -> None:
    """Check the gate of every partition that the day reads.

    These are its examples, the vectors they point at, replayed ones, matured ones with their conversions, and all
    events up to it.
    Events are listed from the table as well as from the gates: a partition without any gate is found, too.
    """
    plan, home = context.plan, context.home
    read = {("examples", plan.date)} | {(schema.name, ALL_DAYS) for _, schema in vector_tables(context.contract)}
    delayed = {day.date for day in context.matured} if {"foundation", "verticals"} & set(plan.tasks) else set()
    if "foundation" in plan.tasks:
        read |= {("examples", date) for date in plan.replayed(partition_dates(home, "examples"))}
    if "baseline" in plan.tasks:
        days = fitted_days(context)
        read |= {("examples", date) for date in days}
        delayed |= {date for date, objectives in days.items() if has_conversions(context.contract, objectives)}
    read |= {(table, date) for date in delayed for table in ("examples", "attributed_conversions")}
    events = {date for date, _ in content_until(home, "user_events", plan.date)}
    events |= {date for date in partition_dates(home, "user_events") if date <= plan.date}
    for table, date in sorted(read | {("user_events", date) for date in events}):
        verify_gate(context.home, context.lake, table, date, context.contract)


def _once(context: DayContext, task: Task) -> DayReport:
    fingerprint = task_fingerprint(context.plan, context.contract, task)
    if done := read_record(context.plan, task, fingerprint):
        return done
    run: dict[Task, Callable[[], DayReport]] = {
        "score": lambda: score_day(context, context.full_history),
        "foundation": lambda: train_foundation(context, context.full_history, fingerprint),
        "baseline": lambda: run_baseline(context, fingerprint),
        "verticals": lambda: run_verticals(context, fingerprint),
    }
    report = run[task]()
    write_record(context.plan, task, fingerprint, report)
    return report
