"""Ids to vectors: one TorchRec EmbeddingCollection over shared tables.

Legend: B rows, N token features, D width, V ids of all token features, T events of the whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.sparse.jagged_tensor import KeyedJaggedTensor

from gem_pipeline.batches.batch import chosen_events
from gem_pipeline.batches.layout import InputLayout
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, newest_index, offsets_to_lengths


@dataclass(frozen=True, kw_only=True)
class EmbeddedInput:
    """Embedded ids of a batch.

    Attributes:
        token_BND: one vector a non-sequence feature, [B, N, D], order of `InputLayout.tokens`.
        event_TD: for each event id feature its vectors [T, D], order of `InputLayout.event_ids`.
        offsets_B1: offsets of the events of each row, int64 [B + 1].
    """

    token_BND: Tensor
    event_TD: tuple[Tensor, ...]
    offsets_B1: Tensor


def logit_width(num_objectives: int) -> int:
    """Width of a table whose vectors hold a logit an objective: fused embedding kernels want multiples of 4."""
    return max(4, -(-num_objectives // 4) * 4)


def mean_by_segment(value_VD: Tensor, length_S: Tensor) -> Tensor:
    """Average consecutive values: segment s takes the next length[s] of them.

    Returns:
        [S, D]; zeros for an empty segment.
    """
    num_segments = length_S.shape[0]
    segments = torch.arange(num_segments, device=length_S.device)
    segment_V = torch.repeat_interleave(segments, length_S, output_size=value_VD.shape[0])
    share_S1 = length_S.clamp(min=1).to(value_VD.dtype).reciprocal()[:, None]
    zero_SD = value_VD.new_zeros(num_segments, value_VD.shape[1])
    return zero_SD.index_add(0, segment_V, value_VD) * share_S1


class FeatureEmbeddings(nn.Module):
    """Embed every id feature of a layout; features that name the same table share it.

    `init_std` is a trade: small, and an id seen for the first time adds little noise; large, and crosses
    of ids are found in fewer steps.

    Source: unified tables with multiplexed features, Coleman et al., arXiv 2305.12102.
    """

    def __init__(self, layout: InputLayout, dim: int, *, init_std: float) -> None:
        super().__init__()
        features = (*layout.tokens, *layout.event_ids)
        used = [table for table in layout.tables if any(f.table == table.name for f in features)]
        if strangers := {f.table for f in features} - {table.name for table in used}:
            raise ConfigError(
                f"Features name embedding tables {sorted(strangers)} that the layout does not hold.",
                remedy="Declare them under embedding_tables in the contract.",
            )
        self.token_names = tuple(f.name for f in layout.tokens)
        self.event_names = tuple(f.name for f in layout.event_ids)
        self.collection = EmbeddingCollection(
            tables=[
                EmbeddingConfig(
                    name=table.name,
                    num_embeddings=table.rows,
                    embedding_dim=dim,
                    feature_names=[f.name for f in features if f.table == table.name],
                    init_fn=partial(nn.init.normal_, std=init_std),
                )
                for table in used
            ],
            device=torch.get_default_device(),  # the collection ignores the device that is in force
        )
        # EmbeddingCollection names its outputs "<feature>@<table>" when a feature occurs in two tables;
        # a layout gives each feature one table, so the plain names hold.

    def forward(self, ids: KeyedJaggedTensor) -> EmbeddedInput:
        """Look every id up.

        Args:
            ids: keys of the layout, stride B; event features share one length a row.

        Returns:
            Token vectors [B, N, D] (several ids of one row are averaged, none gives zeros), event
            vectors [T, D] a feature, and the events' offsets [B + 1].
        """
        vectors = self.collection(ids)
        tokens = [vectors[name] for name in self.token_names]
        dtype = self._dtype()
        value_VD = torch.cat([token.values() for token in tokens]).to(dtype)
        length_S = torch.cat([token.lengths() for token in tokens])
        mean_NBD = mean_by_segment(value_VD, length_S).view(len(tokens), ids.stride(), value_VD.shape[1])
        events = [vectors[name] for name in self.event_names]
        return EmbeddedInput(
            token_BND=mean_NBD.transpose(0, 1).contiguous(),
            event_TD=tuple(event.values().to(dtype) for event in events),
            offsets_B1=lengths_to_offsets(events[0].lengths()),
        )

    def _dtype(self) -> torch.dtype:
        """Type of the tables: the collection always answers float32, also where the tables are wider."""
        return next(self.collection.parameters()).dtype


def newest_events(ids: KeyedJaggedTensor, layout: InputLayout, num_kept: int) -> tuple[KeyedJaggedTensor, Tensor]:
    """Keep the newest events of each row before any lookup.

    Args:
        ids: keys of the layout, stride B.
        layout: names the event features.
        num_kept: events kept a row, at most.

    Returns:
        The shorter ids, and the positions of the kept events in the old event order, int64.
    """
    first = ids[layout.event_ids[0].name]
    offsets_B1 = lengths_to_offsets(first.lengths())
    kept, kept_offsets_B1 = newest_index(offsets_B1, num_kept, first.values().shape[0])
    return chosen_events(ids, layout, kept, offsets_to_lengths(kept_offsets_B1)), kept
