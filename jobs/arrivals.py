"""The sensor that starts a refresh when a bronze partition lands, for the first time or again."""

import hashlib
import json

import dagster as dg

from jobs.ranges import contiguous, range_tags
from jobs.refresh import refresh, refresh_features, refresh_history
from resources.arrivals import bronze_fingerprints, days_without_impressions
from resources.settings import GemSettings

HISTORY = "history-"  # before the fingerprint of a day without impressions, in the cursor


@dg.sensor(
    jobs=[refresh_history, refresh, refresh_features],
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Watches fingerprints of the bronze partitions, without Spark. New days: a refresh; days that have no "
    "impressions: their events only. A day that landed again: its features only; the model chain never trains again "
    "by itself.",
)
def new_bronze_partition(context: dg.SensorEvaluationContext, settings: GemSettings) -> dg.SensorResult | dg.SkipReason:
    """Ask for one run a range of new days, and one a range of changed days; days of history come first."""
    known: dict[str, str] = json.loads(context.cursor or "{}")
    found = bronze_fingerprints(settings)
    touched = [date for date in found if known.get(date, "").removeprefix(HISTORY) != found[date]]
    if not touched:
        return dg.SkipReason(f"{len(found)} bronze partitions, none new or changed.")
    history = days_without_impressions(settings, touched)
    learnt = {date for date, state in known.items() if not state.startswith(HISTORY)}
    wanted = {
        refresh_history.name: [date for date in touched if date in history],
        refresh.name: [date for date in touched if date not in history and date not in learnt],
        refresh_features.name: [date for date in touched if date not in history and date in learnt],
    }
    requests = [
        _request(job, start, end, found) for job, dates in wanted.items() for start, end in contiguous(dates)
    ]  # fmt: skip
    state = known | {date: (HISTORY if date in history else "") + found[date] for date in touched}
    return dg.SensorResult(run_requests=requests, cursor=json.dumps({date: state[date] for date in found}))


def _request(job: str, start: str, end: str, found: dict[str, str]) -> dg.RunRequest:
    """A run of a range. Its key carries the fingerprints: the same content asks once, changed content asks again."""
    state = [fingerprint for date, fingerprint in sorted(found.items()) if start <= date <= end]
    version = state[0] if len(state) == 1 else hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    return dg.RunRequest(run_key=f"{job}:{start}:{end}:{version}", job_name=job, tags=range_tags(start, end))
