"""Naive twins of the sequence backbones and of what the trunk adds to Wukong: one example, plain formulas."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from gem_pipeline.models.cross_layer import CrossLayerAttention
from gem_pipeline.models.domains import DomainExpert, DomainNorm
from gem_pipeline.models.experts import WukongExperts
from gem_pipeline.models.kunlun import GdpaFeedForward
from gem_pipeline.models.near_attention import NearAttention
from gem_pipeline.models.peers import HstuLayer, TransformerLayer
from gem_pipeline.models.pooling import SeedPooling
from gem_pipeline.models.pyramid import PyramidLevel
from tests.oracles import kernels
from tests.oracles.trunk import layer_norm, linear, mix, perceptron, self_attention, wukong_layer


def bare_norm(x: Tensor, eps: float = 1e-5) -> Tensor:
    """(x - mean) / sqrt(var + eps) over the last axis."""
    centred = x - x.mean(dim=-1, keepdim=True)
    return centred / torch.sqrt((centred**2).mean(dim=-1, keepdim=True) + eps)


def bounds(length: int) -> Tensor:
    return torch.tensor([0, length])


def seed_pooling(s_TD: Tensor, layer: SeedPooling) -> Tensor:
    """HSP of one row: attention of the seeds, then the sum of Kronecker products."""
    seeds = layer_norm(layer.seed_PD, layer.seed_norm)
    k, v = linear(layer_norm(s_TD, layer.norm), layer.key_value).chunk(2, dim=1)
    heads = [x.unflatten(1, (layer.heads, -1)) for x in (seeds, k, v)]
    pooled = kernels.seed_attention(*heads, bounds(s_TD.shape[0])).reshape(1, seeds.shape[0], -1)
    return kernels.sum_kron(pooled, layer.mix_RPQ, layer.weight_RDD)[0]


def near_attention(s_TD: Tensor, gaps_s: list[float], layer: NearAttention, time_scale_s: float) -> Tensor:
    """S + W_o A(...) of one row; queries, keys and values turned by recency and log time."""
    length = s_TD.shape[0]
    parts = linear(layer_norm(s_TD, layer.norm), layer.query_key_value).chunk(3, dim=1)
    turned = [
        torch.stack(
            [
                kernels.log_time_rotation(x.reshape(layer.heads, -1), length - place, gap, time_scale_s)
                for place, (x, gap) in enumerate(zip(part, gaps_s, strict=True))
            ]
        )
        for part in parts
    ]
    attend = kernels.block_attention if layer.config.kind == "block" else kernels.window_attention
    return s_TD + linear(attend(*turned, bounds(length), layer.config.reach).flatten(1), layer.out)


def gdpa_feed_forward(s_TD: Tensor, x_sum_CD: Tensor, layer: GdpaFeedForward) -> Tensor:
    """S + RMS(act(q k^T) v / sqrt(C) + q) of one row."""
    num_keys, dim = x_sum_CD.shape
    q = bare_norm(s_TD).reshape(s_TD.shape[0], layer.heads, -1)
    k = (linear(x_sum_CD, layer.key) / math.sqrt(dim // layer.heads)).reshape(num_keys, layer.heads, -1)
    v = linear(x_sum_CD, layer.value).reshape(num_keys, layer.heads, -1)
    read = kernels.gdpa(
        q, k, v, bounds(q.shape[0]), bounds(num_keys), activation=layer.activation, scale=num_keys**-0.5
    )
    out = (read + q).flatten(1)
    return s_TD + out / torch.sqrt((out**2).mean(dim=1, keepdim=True) + torch.finfo(out.dtype).eps)


def hstu(s_TD: Tensor, layer: HstuLayer) -> Tensor:
    """X + W_2(LN(SiLU(Q K^T) V / N) * U) of one row."""
    u, v, q, k = kernels.activate(linear(layer_norm(s_TD, layer.norm), layer.project), "silu").chunk(4, dim=1)
    heads = [x.reshape(x.shape[0], layer.heads, -1) for x in (q, k, v)]
    own = bounds(s_TD.shape[0])
    read = kernels.gdpa(*heads, own, own, activation="silu", scale=layer.scale).flatten(1)
    return s_TD + linear(layer_norm(read, layer.inner_norm) * u, layer.out)


def transformer(s_TD: Tensor, layer: TransformerLayer) -> Tensor:
    """S + MHA(LN(S)), then S + FFN(LN(S)), of one row."""
    s_TD = self_attention(s_TD, list(range(s_TD.shape[0], 0, -1)), layer.attention)
    return s_TD + perceptron(layer_norm(s_TD, layer.norm), layer.feed_forward)


def cross_layer(x_ND: Tensor, stored_KD: Tensor, layer: CrossLayerAttention) -> Tensor:
    """X + W_o MHA(LN(X), LN(stored), LN(stored)), token by token and head by head."""
    key_KD, value_KD = linear(layer_norm(stored_KD, layer.stored_norm), layer.key_value).chunk(2, dim=1)
    query_ND = linear(layer_norm(x_ND, layer.norm), layer.query)
    width = x_ND.shape[1] // layer.heads
    heads = []
    for head in range(layer.heads):
        part = slice(head * width, (head + 1) * width)
        weights = torch.softmax(query_ND[:, part] @ key_KD[:, part].T / math.sqrt(width), dim=1)
        heads.append(weights @ value_KD[:, part])
    return x_ND + linear(torch.cat(heads, dim=1), layer.out)


def wukong_experts(x_ND: Tensor, surface: int, layer: WukongExperts) -> Tensor:
    """Gate times Wukong of each expert's tokens and the shared ones, one after the other."""
    shared, count = mix(x_ND, layer.shared), len(layer.experts)
    told = torch.cat([layer.gate.domain.weight[surface], x_ND.mean(dim=0)])
    gate = torch.softmax(linear(told, layer.gate.choose), dim=0) * count
    own = [[n for n in range(x_ND.shape[0]) if n % count == expert] for expert in range(count)]
    return torch.cat(
        [gate[e] * wukong_layer(torch.cat([x_ND[own[e]], shared]), expert) for e, expert in enumerate(layer.experts)]
    )


def domain_norm(x_ND: Tensor, surface: int, layer: DomainNorm) -> Tensor:
    """(gamma gamma_s) norm(x) + beta + beta_s."""
    gain = layer.gain_D * layer.gain_SD[surface]
    return bare_norm(x_ND) * gain + layer.shift_D + layer.shift_SD[surface]


def domain_expert(x_ND: Tensor, surface: int, layer: DomainExpert) -> Tensor:
    """X + relu(Norm_s(X) W_s) W_out, W_s the shared weights times the surface's."""
    inward = layer.inward_DR * (1.0 + layer.factor_SDR[surface])
    return x_ND + linear((domain_norm(x_ND, surface, layer.norm) @ inward).clamp(min=0), layer.outward)


def pyramid_level(x_ND: Tensor, layer: PyramidLevel) -> Tensor:
    """LN(concat_j HSP_j(X) + W X)."""
    pooled = torch.cat([seed_pooling(x_ND, pool) for pool in layer.pools])
    return layer_norm(pooled + mix(x_ND, layer.linear), layer.norm)
