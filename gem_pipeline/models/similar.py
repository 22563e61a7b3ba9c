"""Which events are about something that looks like the ad at hand: their vectors point the same way.

Equal ids find the same maker and category; vectors of image or text also find what is alike and carries no common id
(tiers of similarity: Sheng et al., Enhancing Taobao display advertising with multimodal representations, arXiv
2407.19467, SimTier; one tier whose bound follows from the data is ours). Nothing here has a gradient.

Legend: B rows, T events of the whole batch, V event vectors, D numbers of one.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import InputLayout

UNKNOWN = 2.0  # a bound that no cosine reaches
BLOCK_NUMBERS = 1 << 22  # numbers of vectors that are laid out at a time
SMALLEST_NORM = 1e-6  # a shorter vector points nowhere


class SimilarEvents(nn.Module):
    """For each vector that events bring, whether an event's is among those most alike the example's.

    Most alike are a share of all pairs of an example and an event on the first day with histories; the bound on the
    cosine that this comes to is kept with the weights.
    """

    bound_V: Tensor

    def __init__(self, layout: InputLayout, share: float) -> None:
        super().__init__()
        self.share, self.names = share, layout.event_vectors
        self.dims = [feature.dim for feature in layout.vectors]
        self.places = [[f.name for f in layout.vectors].index(name) for name in self.names]
        self.register_buffer("bound_V", torch.full((len(self.names),), UNKNOWN))

    def forward(self, batch: Batch, place_T: Tensor, row_T: Tensor) -> Tensor:
        """Stored events [T] beside rows [T] of a batch -> bool [T, V]; False where a vector is missing."""
        return self.cosines(batch, place_T, row_T) >= self.bound_V

    def fit(self, cosine_TV: Tensor) -> None:
        """Fix the bounds that have none yet by the cosines of some pairs, [T, V]; those of missing vectors are NaN."""
        for place, cosine_T in enumerate(cosine_TV.unbind(dim=1)):
            known_T = cosine_T[~cosine_T.isnan()]
            if self.bound_V[place] >= UNKNOWN and known_T.numel():
                kept = min(known_T.numel(), 1 + int((1.0 - self.share) * known_T.numel()))
                self.bound_V[place] = known_T.kthvalue(kept).values.to(self.bound_V)

    def cosines(self, batch: Batch, place_T: Tensor, row_T: Tensor) -> Tensor:
        """Cosine of the example's and the event's vector, float32 [T, V]; NaN where one of them is missing."""
        own, events = batch.vectors, batch.event_vectors
        if own is None or events is None:
            return torch.full((place_T.shape[0], len(self.names)), torch.nan, device=place_T.device)
        parts = own.value_BV.split(self.dims, dim=1)
        found = []
        for column, (place, value_PD) in enumerate(zip(self.places, events.values, strict=True)):
            own_BD = _direction(parts[place], own.present_BF[:, place])
            # one more row, for events that have no vector
            all_PD = torch.cat([_direction(value_PD), value_PD.new_full((1, value_PD.shape[1]), torch.nan)])
            at_T = events.place_UF[:, column].index_select(0, place_T)
            at_T = at_T.where(at_T >= 0, value_PD.shape[0])
            block = BLOCK_NUMBERS // self.dims[place]
            blocks = zip(at_T.split(block), row_T.split(block), strict=True)
            found.append(
                torch.cat([(all_PD.index_select(0, a) * own_BD.index_select(0, r)).sum(dim=1) for a, r in blocks])
            )
        return torch.stack(found, dim=1)


def _direction(value_BD: Tensor, present_B: Tensor | None = None) -> Tensor:
    """Vectors at length 1, NaN where there is none or it has no length, float32 [B, D]."""
    value_BD = value_BD.float()
    norm_B1 = value_BD.norm(dim=1, keepdim=True)
    points_B1 = norm_B1 > SMALLEST_NORM
    if present_B is not None:
        points_B1 = points_B1 & present_B[:, None]
    return torch.where(points_B1, value_BD / norm_B1.clamp(min=SMALLEST_NORM), torch.nan)
