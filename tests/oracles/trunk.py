"""Naive twins of the model blocks: one example, plain formulas, weights read from the real modules."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn

from gem_pipeline.models.blocks import SelfGate
from gem_pipeline.models.heads import DomainGate, DomainHeads
from gem_pipeline.models.sequence import AttentionPooling, JaggedSelfAttention, PersonalizedProjection
from gem_pipeline.models.trunk import Trunk
from gem_pipeline.models.wukong import AttentiveY, FactorizationMachineBlock, WukongLayer
from tests.oracles import attention


def linear(x: Tensor, layer: nn.Linear) -> Tensor:
    """x W^T + b."""
    product = x @ layer.weight.T
    return product if layer.bias is None else product + layer.bias


def perceptron(x: Tensor, layers: nn.Sequential) -> Tensor:
    """Linear layers with ReLU between them."""
    linears = [layer for layer in layers if isinstance(layer, nn.Linear)]
    for layer in linears[:-1]:
        x = linear(x, layer).clamp(min=0)
    return linear(x, linears[-1])


def layer_norm(x: Tensor, layer: nn.LayerNorm) -> Tensor:
    """(x - mean) / sqrt(var + eps) * gain + shift over the last axis."""
    mean = x.mean(dim=-1, keepdim=True)
    variance = ((x - mean) ** 2).mean(dim=-1, keepdim=True)
    return (x - mean) / torch.sqrt(variance + layer.eps) * layer.weight + layer.bias


def mix(x_ND: Tensor, layer: nn.Module) -> Tensor:
    """Token mix W X, or X where the layer is the identity."""
    return x_ND if isinstance(layer, nn.Identity) else layer.weight_MN @ x_ND


def gate(z_ND: Tensor, layer: SelfGate) -> Tensor:
    """Z * sigmoid(MLP(Z)), token by token."""
    return torch.stack([z / (1.0 + torch.exp(-perceptron(z, layer.gate))) for z in z_ND])


def fm_block(x_ND: Tensor, block: FactorizationMachineBlock) -> Tensor:
    """MLP(LN(flatten((X X^T) Y))), the N x N product formed in full."""
    if isinstance(block.y, AttentiveY):
        y_NK = perceptron(mix(x_ND, block.y.compress).reshape(-1), block.y.mlp).reshape(x_ND.shape[0], -1)
    else:
        y_NK = block.y.y_NK
    fm_NK = (x_ND @ x_ND.T) @ y_NK
    return perceptron(layer_norm(fm_NK.reshape(-1), block.norm), block.mlp).reshape(-1, x_ND.shape[1])


def wukong_layer(x_ND: Tensor, layer: WukongLayer) -> Tensor:
    """LN(concat(FMB(X), LCB(X)) + R(X))."""
    joined = torch.cat([fm_block(x_ND, layer.fmb), mix(x_ND, layer.lcb)])
    return layer_norm(joined + mix(x_ND, layer.residual), layer.norm)


def personalized(s_TD: Tensor, x_sum_CD: Tensor, layer: PersonalizedProjection) -> Tensor:
    """S + LN(S) f(X_sum) for one row."""
    matrix_DD = perceptron(x_sum_CD.reshape(-1), layer.weights).reshape(layer.dim, layer.dim) / math.sqrt(layer.dim)
    return s_TD + layer_norm(s_TD, layer.norm) @ matrix_DD


def self_attention(s_TD: Tensor, positions: list[int], layer: JaggedSelfAttention) -> Tensor:
    """S + W_o MHA(LN(S)) for one row, rotary positions given."""
    normed = layer_norm(s_TD, layer.norm)
    q, k = linear(normed, layer.query_key).reshape(len(positions), 2, layer.heads, -1).unbind(1)
    v = linear(normed, layer.value).reshape(len(positions), layer.heads, -1)
    q = torch.stack([attention.rotate(x, p) for x, p in zip(q, positions, strict=True)])
    k = torch.stack([attention.rotate(x, p) for x, p in zip(k, positions, strict=True)])
    bounds = torch.tensor([0, len(positions)])
    return s_TD + linear(attention.jagged_attention(q, k, v, bounds, bounds).flatten(1), layer.out)


def pooled(s_TD: Tensor, layer: AttentionPooling) -> Tensor:
    """Plain multi-head attention MHA(Q, S, S): keys and values formed, softmax, concatenated heads."""
    normed = layer_norm(s_TD, layer.norm)
    out = []
    for query_HE in layer.query_PHE:
        heads = []
        for head in range(layer.heads):
            keys_TE = normed @ layer.key_HED[head].T
            values_TE = normed @ layer.value_HED[head].T
            weights_T = torch.softmax(keys_TE @ query_HE[head] / math.sqrt(query_HE.shape[1]), dim=0)
            heads.append(weights_T @ values_TE)
        out.append(linear(torch.cat(heads), layer.out))
    return torch.stack(out)


def interformer(x_ND: Tensor, s_TD: Tensor, model: Trunk) -> Tensor:
    """Algorithm 1 of InterFormer for one example, as printed (plus our last summary)."""
    config, num_recent = model.config, model.config.sequence.num_recent
    num_events, num_cls = s_TD.shape[0], config.num_summary

    def x_summary(level: int) -> Tensor:
        return gate(mix(x_ND, model.x_summaries[level].compress), model.x_summaries[level].gate)

    def s_summary(level: int) -> Tensor:
        newest_first = [s_TD[num_cls + num_events - 1 - age] for age in range(min(num_recent, num_events))]
        missing = [torch.zeros_like(s_TD[0])] * (num_recent - len(newest_first))
        module = model.s_summaries[level]
        parts = torch.cat([s_TD[:num_cls], pooled(s_TD, module.pma), torch.stack([*newest_first, *missing])])
        return gate(parts, module.gate)

    x_sum_CD = x_summary(0)
    s_TD = torch.cat([x_sum_CD, s_TD])
    positions = [0] * num_cls + list(range(num_events, 0, -1))
    for level in range(config.layers):
        interaction, sequence = model.interactions[level], model.sequences[level]
        joined = torch.cat([x_ND, s_summary(level)])
        s_TD = self_attention(personalized(s_TD, x_sum_CD, sequence.pffn), positions, sequence.attention)
        x_ND = mix(wukong_layer(joined, interaction.wukong), interaction.restore)
        x_sum_CD = x_summary(level + 1)
    return torch.cat([x_sum_CD, s_summary(config.layers)])


def domain_gate(h_R: Tensor, surface: int, layer: DomainGate) -> Tensor:
    """h * 2 sigmoid(W' relu(W [domain || h]))."""
    told = torch.cat([layer.domain.weight[surface], h_R])
    return h_R * 2.0 / (1.0 + torch.exp(-linear(linear(told, layer.inner).clamp(min=0), layer.outer)))


def domain_logits(h_R: Tensor, surface: int, layer: DomainHeads) -> Tensor:
    """One logit an objective: the shared weights times the surface's factor, and both biases."""
    weight_KR = layer.shared.weight * (1.0 + layer.factor_SR[surface])
    return weight_KR @ h_R + layer.shared.bias + layer.bias_SK[surface]
