"""Logits of pairs of ids, one of the ad and one of the user or the moment: region x category, age x goal.

Products of vectors find such an effect only after both vectors point somewhere; a weight of the pair's own learns it
from the first example on (crossed features of the wide part of Wide & Deep, Cheng et al., arXiv 1606.07792, section
3.1). Which pairs are worth it is learned as well: every two features have a strength (FwFM, Pan et al., arXiv
1806.03514, section 3.2). That all pairs are crossed, hashed into one table, and that strengths are exponentials, which
find a dozen features that matter among a hundred within a day, is ours. So is that they learn from news alone.

Legend: B rows, K objectives, L ids of a batch on the side of user and moment, R ids on the side of the ad, V ids of
either, P pairs of ids, F pairs of features, C those that are crossed, S sets of an example's pairs of two features.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torchrec.modules.embedding_configs import EmbeddingConfig
from torchrec.modules.embedding_modules import EmbeddingCollection
from torchrec.sparse.jagged_tensor import JaggedTensor, KeyedJaggedTensor

from gem_pipeline.batches.batch import Batch
from gem_pipeline.batches.layout import AD_SIDE, InputLayout
from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import lengths_to_offsets, row_of_element
from gem_pipeline.models.blocks import steep
from gem_pipeline.models.embeddings import logit_width
from gem_pipeline.models.support import Supported

PAIR = "pair"  # name of the table and of its only feature
SCALE = 0.5  # strength of every two features at the start
STEEPNESS = 50.0
_SALT, _TURN = 0x1B873593, 3  # the same ids of two features, or with sides exchanged, are other pairs
_MULTIPLIERS = (-4658895280553007687, -7723592293110705685)  # those of splitmix64, as signed numbers


class PairTerms(Supported[tuple[str, str]]):
    """Logits that are linear in the pairs of an id of the ad and an id of user or moment.

    Two features are crossed if the examples of the first day are many for the pairs of their ids: what a pair that was
    seen twice did is no rule. A weight of every pair starts at 0, so an unseen pair says nothing; several ids of one
    feature are averaged, and the sum goes over all pairs of features. While `learning` is off, neither weights nor
    strengths get a gradient: an example that is read again is no news to a pair, and a second pass would take for a
    rule what the first has memorised.

    Raises:
        ConfigError: no token of the layout tells of the ad, or all do.
    """

    def __init__(self, layout: InputLayout, rows: int) -> None:
        ad_side = tuple(f.name for f in layout.tokens if f.origin == AD_SIDE)
        other_side = tuple(f.name for f in layout.tokens if f.origin != AD_SIDE)
        if not ad_side or not other_side:
            names = ", ".join(feature.name for feature in layout.tokens)
            raise ConfigError(
                f"Tokens {names} cannot be crossed: by their origin they are all on one side.",
                remedy="Set pair_rows to 0, or derive the layout from a contract.",
            )
        super().__init__(tuple((other, ad) for other in other_side for ad in ad_side))
        self.rows, self.num_objectives, self.learning = rows, len(layout.objectives), True
        self.ad_side, self.other_side = ad_side, other_side
        width = logit_width(self.num_objectives)
        self.collection = EmbeddingCollection(
            tables=[
                EmbeddingConfig(
                    name=PAIR, num_embeddings=rows, embedding_dim=width, feature_names=[PAIR], init_fn=nn.init.zeros_
                )
            ],
            device=torch.get_default_device(),  # the collection ignores the device that is in force
        )
        self.log_strength_FK = nn.Parameter(torch.zeros(len(self.names), self.num_objectives))

    def strengths(self) -> Tensor:
        """What the weights of each two features count, [F, K]."""
        return SCALE * steep(self.log_strength_FK, STEEPNESS)

    def strongest(self, count: int) -> dict[tuple[str, str], float]:
        """The crossed features whose weights count the most, on average over objectives, strongest first."""
        return self.largest(self.strengths().mean(dim=1), count)

    def occurrences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """Which two features, and the rows of all pairs of a batch, [P] each."""
        pairs = self.all_pairs(batch)
        return pairs.feature_P, pairs.row_P

    def forward(self, batch: Batch) -> Tensor:
        """A batch with ids as they were read -> logits [B, K]."""
        pairs = self.pairs(batch, torch.nonzero(self.is_heard()).flatten())
        ids = KeyedJaggedTensor(keys=[PAIR], values=pairs.row_P, lengths=pairs.length_B.to(batch.ids.lengths().dtype))
        weight_PK = self.collection(ids)[PAIR].values()[:, : self.num_objectives].to(self.log_strength_FK.dtype)
        told_PK = weight_PK * self.strengths().index_select(0, pairs.feature_P) * pairs.share_P[:, None]
        told_PK = told_PK if self.learning else told_PK.detach()
        return told_PK.new_zeros(batch.size, self.num_objectives).index_add(0, pairs.example_P, told_PK)

    @torch.no_grad()
    def pairs(self, batch: Batch, chosen_C: Tensor) -> Pairs:
        """The pairs of a batch, row by row, of some two features each, places in `names`, int64 [C]."""
        parts = batch.ids.to_dict()
        other = _side([parts[name] for name in self.other_side], salt=0)
        ad = _side([parts[name] for name in self.ad_side], salt=len(self.other_side))
        other_C, ad_C = chosen_C // len(self.ad_side), chosen_C % len(self.ad_side)
        wide_BC, high_BC = ad.length_FB[ad_C].T, other.length_FB[other_C].T
        length_BC = high_BC * wide_BC
        offsets_S1 = lengths_to_offsets(length_BC.flatten())
        segment_P = row_of_element(offsets_S1, int(offsets_S1[-1]))
        place_P = torch.arange(segment_P.shape[0], device=segment_P.device) - offsets_S1.index_select(0, segment_P)
        wide_P = wide_BC.flatten().index_select(0, segment_P)
        other_P = other.first_FB[other_C].T.flatten().index_select(0, segment_P) + place_P // wide_P
        ad_P = ad.first_FB[ad_C].T.flatten().index_select(0, segment_P) + place_P % wide_P
        mixed_P = _mixed(other.mixed_V.index_select(0, other_P) * _TURN + ad.mixed_V.index_select(0, ad_P))
        return Pairs(
            row_P=torch.remainder(mixed_P, self.rows),
            feature_P=chosen_C.index_select(0, segment_P % max(1, len(chosen_C))),
            share_P=length_BC.flatten().index_select(0, segment_P).float().reciprocal(),
            example_P=segment_P // max(1, len(chosen_C)),
            length_B=length_BC.sum(dim=1),
        )

    def all_pairs(self, batch: Batch) -> Pairs:
        """The pairs of a batch of all features, whether they are crossed or not."""
        return self.pairs(batch, torch.arange(len(self.names), device=self.support_F.device))


@dataclass(frozen=True, kw_only=True)
class Pairs:
    """The pairs of ids of B examples.

    Attributes:
        row_P: row of the table, int64 [P].
        feature_P: which two features, as `PairTerms.names`, int64 [P].
        share_P: 1 over the pairs of the same two features in the example, float32 [P].
        example_P: whose pair it is, int64 [P], rising.
        length_B: pairs of each example, int64 [B].
    """

    row_P: Tensor
    feature_P: Tensor
    share_P: Tensor
    example_P: Tensor
    length_B: Tensor


@dataclass(frozen=True, kw_only=True)
class _Side:
    """Ids of one side, feature by feature, mixed with its number [V]; how many each example has, and the first."""

    mixed_V: Tensor
    length_FB: Tensor
    first_FB: Tensor


def _side(parts: list[JaggedTensor], *, salt: int) -> _Side:
    length_FB = torch.stack([part.lengths() for part in parts]).to(torch.int64)
    return _Side(
        mixed_V=torch.cat([_mixed(part.values() + (salt + place + 1) * _SALT) for place, part in enumerate(parts)]),
        length_FB=length_FB,
        first_FB=lengths_to_offsets(length_FB.flatten())[:-1].view_as(length_FB),
    )


def _mixed(value_V: Tensor) -> Tensor:
    """Spread int64 values over all 64 bits (finaliser of splitmix64, Steele et al., 2014, section 5)."""
    value_V = (value_V ^ _right(value_V, 30)) * _MULTIPLIERS[0]
    value_V = (value_V ^ _right(value_V, 27)) * _MULTIPLIERS[1]
    return value_V ^ _right(value_V, 31)


def _right(value_V: Tensor, bits: int) -> Tensor:
    """Shift as if there were no sign."""
    return (value_V >> bits) & ((1 << (64 - bits)) - 1)
