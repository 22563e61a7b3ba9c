"""Ranges of dates as runs: how a backfill is one run, and how the chain runs inside one process."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import date, timedelta

import dagster as dg

from assets.partitions import RANGE_END, RANGE_START

PARTITION = "dagster/partition"


def contiguous(dates: Iterable[str]) -> list[tuple[str, str]]:
    """Group dates into ranges without gaps, oldest first."""
    ranges: list[tuple[str, str]] = []
    for day in sorted(set(dates)):
        if ranges and date.fromisoformat(day) - date.fromisoformat(ranges[-1][1]) == timedelta(days=1):
            ranges[-1] = (ranges[-1][0], day)
        else:
            ranges.append((day, day))
    return ranges


def range_tags(start: str, end: str, verticals: Sequence[str] = ()) -> dict[str, str]:
    """Tags of one run over all dates of a range, and over all `verticals` (registered order) where they apply."""
    if verticals:
        start, end = f"{start}|{verticals[0]}", f"{end}|{verticals[-1]}"
    return {RANGE_START: start, RANGE_END: end}


def dates_of(tags: Mapping[str, str]) -> tuple[str, str] | None:
    """First and last date of a run, whether it had a range or one partition, of dates or of dates and verticals."""
    start = tags.get(RANGE_START) or tags.get("dagster/partition/date") or tags.get(PARTITION)
    end = tags.get(RANGE_END) or start
    return None if start is None or end is None else (start.split("|")[0], end.split("|")[0])


def run_in_process(
    definitions: dg.Definitions,
    job: str,
    dates: Sequence[str],
    *,
    instance: dg.DagsterInstance,
    verticals: Sequence[str] = (),
    quiet: bool = False,
) -> list[dg.ExecuteInProcessResult]:
    """Run a job over some dates in this process: one run a range without gaps, oldest first.

    Args:
        definitions: holds the job and its resources.
        job: name of the job.
        dates: partitions, in any order.
        instance: where the runs are recorded.
        verticals: all registered verticals, for `refresh_verticals`.
        quiet: show errors only on the terminal; the instance records everything anyway.

    Returns:
        The result of each run.

    Raises:
        dagster.Failure: a trainer failed; GemError: anything else that has a plain sentence.
    """
    runnable = definitions.resolve_job_def(job)
    level = "CRITICAL" if quiet else "INFO"
    run_config = {"loggers": {"console": {"config": {"log_level": level}}}}
    return [
        runnable.execute_in_process(run_config, instance=instance, tags=range_tags(start, end, verticals))
        for start, end in contiguous(dates)
    ]
