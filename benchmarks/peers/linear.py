"""The product's own logistic regression on the same rows: `python -m benchmarks.peers.linear TASK`.

Without a penalty among the parameters it chooses one by itself, on the newest learnt day.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from benchmarks.peers.rows import Task
from benchmarks.trials.homes import Log, derived
from gem_pipeline.batches.encoded_day import day_batches
from gem_pipeline.batches.reader import DayReader
from gem_pipeline.runs.baseline import BASELINE_WINDOW
from gem_pipeline.training.logistic import LogisticConfig, fit_logistic
from gem_pipeline.training.logistic_inputs import LogisticRows, concatenate_rows, rows_of_batches

BATCH = 512


def main(task: Task) -> None:
    """Fit, and score."""
    began = time.perf_counter()
    whole = Log.parse(task.log)
    logs = whole, replace(whole, frozen=max(task.learnt))
    reader, frozen = (DayReader(derived(log), log.home / "lake", window=BASELINE_WINDOW) for log in logs)
    learnt = _rows(reader, task.learnt)
    column = reader.layout.objectives.index(task.objective)
    one = LogisticRows(
        inputs=learnt.inputs, label_NK=learnt.label_NK[:, [column]], mask_NK=learnt.mask_NK[:, [column]],
        day_N=learnt.day_N, order_N=learnt.order_N,
    )  # fmt: skip
    given = task.parameters["inverse_penalty"]
    started = time.perf_counter()
    fitted = fit_logistic(
        one, (task.objective,), config=LogisticConfig(), inverse_penalties={task.objective: given} if given else None
    )  # fmt: skip
    seconds = time.perf_counter() - started
    prob_N, frozen_N = (fitted.predict(_rows(one, task.judged).inputs)[:, 0] for one in (reader, frozen))
    task.write(
        prob_N, frozen_N, began=began, train_seconds=seconds, examples=learnt.inputs.size,
        inverse_penalty=fitted.inverse_penalties.get(task.objective), parameters=fitted.encoder.num_columns,
    )  # fmt: skip


def _rows(reader: DayReader, days: Sequence[str]) -> LogisticRows:
    """Rows of some days, numbered in their order."""
    return concatenate_rows(
        [
            rows_of_batches(
                (batch for part in reader.day(day) for batch in day_batches(part, batch_size=BATCH)),
                reader.layout, day=number,
            )
            for number, day in enumerate(days)
        ]
    )  # fmt: skip


if __name__ == "__main__":
    main(Task.read(Path(sys.argv[1])))
