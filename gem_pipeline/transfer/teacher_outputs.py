"""Teacher outputs and predictions as Delta tables, keyed like `examples`; one commit a write."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, WriterProperties, write_deltalake

from gem_pipeline.contracts import tables
from gem_pipeline.contracts.contract import DataContract
from gem_pipeline.errors import PartitionError
from gem_pipeline.training.loop import DayScores


def replace_partition(lake: Path, schema: tables.TableSchema, rows: pa.Table, *, date: str, column: str) -> None:
    """Replace the rows of a date for exactly the values of `column` present, by one atomic commit."""
    path = str(lake / schema.name)
    rows = rows.select(list(schema.column_names)).cast(schema.arrow())
    rows = rows.sort_by([(name, "ascending") for name in (column, *schema.sort_by)])
    if not DeltaTable.is_deltatable(path):
        DeltaTable.create(path, schema.arrow(), partition_by=list(schema.partition_by))
    values = ", ".join(f"'{value}'" for value in sorted(set(rows[column].to_pylist())))
    write_deltalake(
        path, rows, mode="overwrite", predicate=f"date = '{date}' AND {column} IN ({values})",
        writer_properties=WriterProperties(compression="ZSTD"),
    )  # fmt: skip


def write_teacher_outputs(
    contract: DataContract,
    lake: Path,
    *,
    date: str,
    teacher: str,
    model_id: str,
    trained_through: str,
    impression_ids: pa.Array,
    scores: DayScores,
) -> None:
    """Write soft labels and representations of a day; a day written twice holds the same rows."""
    num = len(impression_ids)
    columns: dict[str, object] = {
        "date": [date] * num, "teacher": [teacher] * num, "impression_id": impression_ids,
        "trained_through": [trained_through] * num, "model_id": [model_id] * num,
    }  # fmt: skip
    for k, objective in enumerate(contract.objectives):
        columns[f"prob__{objective.name}"] = scores.prob_NK[:, k]
    flat = pa.array(scores.representation_ND.ravel())
    width = scores.representation_ND.shape[1]
    columns["representation"] = pa.ListArray.from_arrays(pa.array(np.arange(num + 1, dtype=np.int32) * width), flat)
    schema = tables.teacher_outputs(contract)
    replace_partition(lake, schema, pa.table(columns), date=date, column="teacher")


def read_teacher(
    contract: DataContract, lake: Path, *, date: str, teacher: str, impression_ids: pa.Array
) -> tuple[str, npt.NDArray[np.float32]] | None:
    """Soft labels of the given impressions.

    Returns:
        The teacher's model id and probabilities, shape [N, K] in the order of `impression_ids`; None where
        the teacher did not score the day (the first day of a chain).

    Raises:
        PartitionError: some impressions have no teacher output.
    """
    schema = tables.teacher_outputs(contract)
    path = str(lake / schema.name)
    if not DeltaTable.is_deltatable(path):
        return None
    names = [f"prob__{o.name}" for o in contract.objectives]
    rows = DeltaTable(path).to_pyarrow_table(
        filters=[("date", "=", date), ("teacher", "=", teacher)], columns=["impression_id", "model_id", *names]
    )
    if not rows.num_rows:
        return None
    position = pc.index_in(impression_ids, rows["impression_id"].combine_chunks())
    if missing := position.null_count:
        raise PartitionError(
            f"Table teacher_outputs lacks {missing} of {len(impression_ids)} impressions of {date} ({teacher}).",
            remedy="The examples were derived again since: materialise teacher_outputs for this date.",
        )
    taken = rows.take(position)
    return taken["model_id"][0].as_py(), np.stack([taken[name].to_numpy() for name in names], axis=1)


def write_predictions(lake: Path, *, date: str, columns: list[pa.Table]) -> None:
    """Write the predictions of several models for a day by one commit."""
    rows = pa.concat_tables(columns)
    if rows.num_rows:
        replace_partition(lake, tables.predictions(), rows, date=date, column="model")


def prediction_rows(
    *,
    date: str,
    model: str,
    model_id: str,
    trained_through: str,
    objective: str,
    impression_ids: pa.Array,
    prob_N: npt.NDArray[np.float32],
) -> pa.Table:
    """Rows of `predictions` of one model and objective."""
    num = len(prob_N)
    return pa.table(
        {"date": [date] * num, "model": [model] * num, "impression_id": impression_ids,
         "objective": [objective] * num, "prob": prob_N, "trained_through": [trained_through] * num,
         "model_id": [model_id] * num}
    )  # fmt: skip
