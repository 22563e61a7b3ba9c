"""The sensor that starts a refresh when a bronze partition lands, for the first time or again."""

import hashlib
import json

import dagster as dg

from jobs.ranges import contiguous, range_tags
from jobs.refresh import refresh, refresh_features
from resources.arrivals import bronze_fingerprints
from resources.settings import GemSettings


@dg.sensor(
    jobs=[refresh, refresh_features],
    minimum_interval_seconds=60,
    default_status=dg.DefaultSensorStatus.STOPPED,
    description="Watches fingerprints of the bronze partitions, without Spark. New days: a refresh. A day that landed "
    "again: its features only; the model chain never trains again by itself.",
)
def new_bronze_partition(context: dg.SensorEvaluationContext, settings: GemSettings) -> dg.SensorResult | dg.SkipReason:
    """Ask for one run a range of new days, and one a range of changed days."""
    known: dict[str, str] = json.loads(context.cursor or "{}")
    found = bronze_fingerprints(settings)
    new = [date for date in found if date not in known]
    changed = [date for date in found if date in known and found[date] != known[date]]
    if not new and not changed:
        return dg.SkipReason(f"{len(found)} bronze partitions, none new or changed.")
    requests = [
        _request(job, start, end, found) for job, dates in ((refresh.name, new), (refresh_features.name, changed))
        for start, end in contiguous(dates)
    ]  # fmt: skip
    return dg.SensorResult(run_requests=requests, cursor=json.dumps(found))


def _request(job: str, start: str, end: str, found: dict[str, str]) -> dg.RunRequest:
    """A run of a range. Its key carries the fingerprints: the same content asks once, changed content asks again."""
    state = [fingerprint for date, fingerprint in sorted(found.items()) if start <= date <= end]
    version = state[0] if len(state) == 1 else hashlib.sha256(repr(state).encode()).hexdigest()[:16]
    return dg.RunRequest(run_key=f"{job}:{start}:{end}:{version}", job_name=job, tags=range_tags(start, end))
