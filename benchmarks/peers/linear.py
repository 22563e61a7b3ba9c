"""The product's own logistic regression on the same rows: `python -m benchmarks.peers.linear TASK`.

Without a penalty among the parameters it chooses one by itself, on the newest learnt day.
"""

from __future__ import annotations

import sys
import time
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
    log = Log.parse(task.log)
    reader = DayReader(derived(log), log.home / "lake", window=BASELINE_WINDOW)

    def rows(day: str, number: int) -> LogisticRows:
        batches = (batch for part in reader.day(day) for batch in day_batches(part, batch_size=BATCH))
        return rows_of_batches(batches, reader.layout, day=number)

    learnt = concatenate_rows([rows(day, number) for number, day in enumerate(task.learnt)])
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
    judged = concatenate_rows([rows(day, 0) for day in task.judged])
    task.write(
        fitted.predict(judged.inputs)[:, 0], began=began, train_seconds=seconds, examples=learnt.inputs.size,
        inverse_penalty=fitted.inverse_penalties.get(task.objective), parameters=fitted.encoder.num_columns,
    )  # fmt: skip


if __name__ == "__main__":
    main(Task.read(Path(sys.argv[1])))
