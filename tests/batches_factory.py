"""Random batches of any layout, for tests of models, training and transfer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import Tensor
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

import gem_pipeline
from gem_pipeline.batches.batch import Batch, VectorInputs
from gem_pipeline.batches.layout import IdFeature, InputLayout, TableSpec, input_layout
from gem_pipeline.contracts.contract import load_contract


def kuairand_layout() -> InputLayout:
    """The layout of the packaged contract."""
    return input_layout(load_contract(Path(gem_pipeline.__file__).parent / "datasets" / "kuairand.yaml"))


def small_layout() -> InputLayout:
    """A layout of two surfaces, two objectives, one multi-hot token and two event ids, in small tables."""
    return InputLayout(
        tables=(TableSpec(name="ad", rows=50), TableSpec(name="content", rows=20), TableSpec(name="place", rows=8)),
        tokens=(
            IdFeature(name="ad", table="ad", origin="ads"),
            IdFeature(name="surface", table="place", origin="impressions"),
            IdFeature(name="tags", table="content", origin="ads"),
        ),
        event_ids=(IdFeature(name="event_ad", table="ad"), IdFeature(name="event_surface", table="place")),
        dense=("age", "rate", "count"),
        event_dense=("log_gap_s", "did_click"),
        surfaces=("feed", "reels"),
        objectives=("click", "buy"),
    )


def random_batch(
    layout: InputLayout,
    history_lengths: Sequence[int],
    *,
    seed: int = 0,
    multi_hot: Sequence[str] = ("tags",),
    dtype: torch.dtype = torch.float32,
) -> Batch:
    """Draw a batch with the given number of events a row.

    Args:
        layout: names and table sizes.
        history_lengths: events of each row; zeros are legal. Its length is B, at least 1.
        seed: same seed, same batch.
        multi_hot: token features that carry one to three ids a row; all others carry one.
        dtype: of the dense inputs.
    """
    generator = torch.Generator().manual_seed(seed)
    num_rows, rows_of = len(history_lengths), {table.name: table.rows for table in layout.tables}
    event_length_B = torch.tensor(history_lengths, dtype=torch.int64)
    lengths: list[Tensor] = []
    values: list[Tensor] = []
    for feature in layout.tokens:
        many = feature.name in multi_hot
        lengths.append(torch.randint(1, 4 if many else 2, (num_rows,), generator=generator))
        values.append(torch.randint(0, rows_of[feature.table], (int(lengths[-1].sum()),), generator=generator))
    for feature in layout.event_ids:
        lengths.append(event_length_B)
        values.append(torch.randint(0, rows_of[feature.table], (int(event_length_B.sum()),), generator=generator))
    num_events, num_objectives = int(event_length_B.sum()), len(layout.objectives)
    mask_BK = torch.rand(num_rows, num_objectives, generator=generator) < 0.9
    label_BK = (torch.rand(num_rows, num_objectives, generator=generator) < 0.3).float() * mask_BK
    return Batch(
        ids=KeyedJaggedTensor(keys=list(layout.keys), values=torch.cat(values), lengths=torch.cat(lengths)),
        dense_BF=torch.randn(num_rows, len(layout.dense), generator=generator).to(dtype),
        event_dense_TE=torch.randn(num_events, len(layout.event_dense), generator=generator).to(dtype),
        surface_B=torch.randint(0, len(layout.surfaces), (num_rows,), generator=generator),
        label_BK=label_BK,
        mask_BK=mask_BK,
        user_B=torch.randint(0, max(1, num_rows // 2), (num_rows,), generator=generator),
        example_B=torch.arange(num_rows),
        vectors=random_vectors(layout, num_rows, generator) if layout.vectors else None,
    )


def batch_of_ids(layout: InputLayout, ids: Sequence[Mapping[str, Sequence[int]]]) -> Batch:
    """Examples with the given ids a token and no history."""
    values = [value for feature in layout.tokens for row in ids for value in row[feature.name]]
    lengths = [len(row[feature.name]) for feature in layout.tokens for row in ids]
    lengths += [0] * len(ids) * len(layout.event_ids)
    own = KeyedJaggedTensor(
        keys=list(layout.keys),
        values=torch.tensor(values, dtype=torch.int64),
        lengths=torch.tensor(lengths, dtype=torch.int64),
    )
    return replace(random_batch(layout, [0] * len(ids)), ids=own)


def random_vectors(layout: InputLayout, num_rows: int, generator: torch.Generator) -> VectorInputs:
    """Draw the vectors of a layout; about a quarter is missing."""
    present_BF = torch.rand(num_rows, len(layout.vectors), generator=generator) < 0.75
    values = [
        torch.randn(num_rows, feature.dim, generator=generator) * present_BF[:, place, None]
        for place, feature in enumerate(layout.vectors)
    ]
    return VectorInputs(value_BV=torch.cat(values, dim=1), present_BF=present_BF)


def take_rows(batch: Batch, layout: InputLayout, rows: Sequence[int]) -> Batch:
    """Build the batch that holds the given rows, in the given order, and nothing else."""
    index = torch.tensor(list(rows), dtype=torch.int64)
    parts = batch.ids.to_dict()
    values: list[Tensor] = []
    lengths: list[Tensor] = []
    for key in layout.keys:
        pieces = list(torch.split(parts[key].values(), parts[key].lengths().tolist()))
        values.append(torch.cat([pieces[row] for row in rows]))
        lengths.append(parts[key].lengths()[index])
    event_length_B = parts[layout.event_ids[0].name].lengths()
    event_pieces = list(torch.split(batch.event_dense_TE, event_length_B.tolist()))
    return Batch(
        ids=KeyedJaggedTensor(keys=list(layout.keys), values=torch.cat(values), lengths=torch.cat(lengths)),
        dense_BF=batch.dense_BF[index],
        event_dense_TE=torch.cat([event_pieces[row] for row in rows]),
        surface_B=batch.surface_B[index],
        label_BK=batch.label_BK[index],
        mask_BK=batch.mask_BK[index],
        user_B=batch.user_B[index],
        example_B=batch.example_B[index],
        vectors=VectorInputs(value_BV=batch.vectors.value_BV[index], present_BF=batch.vectors.present_BF[index])
        if batch.vectors is not None
        else None,
    )
