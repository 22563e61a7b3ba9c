"""Self-attention that stays near, so that its cost is linear in the length of a history.

Legend: B rows, T elements of the whole batch, H heads (or pairs of a head), D width, B1 = B + 1.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from torch import Tensor, nn

from gem_pipeline.errors import ConfigError
from gem_pipeline.kernels.jagged import rotate
from gem_pipeline.kernels.windowed import jagged_block_attention, jagged_window_attention

Near = Literal["block", "window"]


@dataclass(frozen=True, kw_only=True, slots=True)
class NearConfig:
    """How far an element sees.

    Attributes:
        kind: `block`, non-overlapping blocks; `window`, neighbours on both sides.
        reach: elements of a block, or on either side.
    """

    kind: Near = "block"
    reach: int = 64

    def __post_init__(self) -> None:
        if self.kind not in {"block", "window"} or self.reach < 1:
            raise ConfigError(f"Attention cannot stay near with {self}.", remedy="Choose block or window, reach >= 1.")


class NearAttention(nn.Module):
    """S + W_o A(rot(q), rot(k), rot(v)), q, k and v from one projection of LN(S).

    Values are rotated with queries and keys, as Kunlun's fused projection does: a value carries when it happened.

    Source: block and sliding-window attention of Kunlun, arXiv 2602.10016, and its official kernels; the norm
    placement is ours.
    """

    def __init__(self, dim: int, heads: int, config: NearConfig) -> None:
        super().__init__()
        self.heads, self.config = heads, config
        self.norm = nn.LayerNorm(dim)
        self.query_key_value = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, s_TD: Tensor, offsets_B1: Tensor, phase_T1H: Tensor) -> Tensor:
        """Elements [T, D] of rows [B + 1], rotary phases [T, 1, D / heads / 2] -> elements [T, D]."""
        joint_TGD = self.query_key_value(self.norm(s_TD)).unflatten(1, (3 * self.heads, -1))
        q_THD, k_THD, v_THD = rotate(joint_TGD, phase_T1H).chunk(3, dim=1)
        if self.config.kind == "block":
            mixed_THD = jagged_block_attention(q_THD, k_THD, v_THD, offsets_B1, block=self.config.reach)
        else:
            mixed_THD = jagged_window_attention(q_THD, k_THD, v_THD, offsets_B1, window=self.config.reach)
        return s_TD + self.out(mixed_THD.flatten(1))
