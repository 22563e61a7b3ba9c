"""Heads start at the base rates and let each surface correct the shared head."""

from __future__ import annotations

import torch

from gem_pipeline.models.heads import DomainGate, DomainHeads
from tests.oracles import trunk as oracle

TIGHT = {"rtol": 0.0, "atol": 1e-10}


def hidden(num_rows: int = 4) -> torch.Tensor:
    return torch.randn(num_rows, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_the_gate_equals_its_equation_and_starts_close_to_one() -> None:
    gate = DomainGate(3, 5, 2).double()
    h_BR, surface_B = hidden(), torch.tensor([0, 2, 1, 2])
    gated = gate(h_BR, surface_B)
    expected = torch.stack([oracle.domain_gate(h, int(s), gate) for h, s in zip(h_BR, surface_B, strict=True)])
    torch.testing.assert_close(gated, expected, **TIGHT)
    torch.testing.assert_close(gated, h_BR, rtol=0.1, atol=0.0)


def test_the_gate_sends_no_gradient_into_the_trunk_through_its_own_input() -> None:
    gate = DomainGate(2, 5, 2).double()
    h_BR = hidden(1).requires_grad_()
    gate(h_BR, torch.tensor([1])).sum().backward()
    told = torch.cat([gate.domain.weight[1], h_BR.detach()[0]])
    factor = 2.0 * torch.sigmoid(gate.outer(torch.relu(gate.inner(told))))
    torch.testing.assert_close(h_BR.grad[0], factor, **TIGHT)


def test_logits_equal_shared_weights_times_the_factor_of_the_surface() -> None:
    heads = DomainHeads(2, 3, 5).double()
    with torch.no_grad():
        heads.factor_SR.normal_()
        heads.bias_SK.normal_()
    h_BR, surface_B = hidden(), torch.tensor([0, 1, 1, 0])
    expected = torch.stack([oracle.domain_logits(h, int(s), heads) for h, s in zip(h_BR, surface_B, strict=True)])
    torch.testing.assert_close(heads(h_BR, surface_B), expected, **TIGHT)


def test_surfaces_agree_until_they_learn_to_differ() -> None:
    heads = DomainHeads(2, 3, 5).double()
    h_BR = hidden()
    zeros, ones = torch.zeros(4, dtype=torch.int64), torch.ones(4, dtype=torch.int64)
    assert torch.equal(heads(h_BR, zeros), heads(h_BR, ones))


def test_heads_start_at_the_base_rates_of_each_surface() -> None:
    heads = DomainHeads(2, 2, 5).double()
    rates_SK = torch.tensor([[0.1, 0.5], [0.3, float("nan")]], dtype=torch.float64)
    heads.init_bias(rates_SK)
    prob_SK = torch.sigmoid(heads(torch.zeros(2, 5, dtype=torch.float64), torch.tensor([0, 1])))
    torch.testing.assert_close(prob_SK[0], rates_SK[0])
    torch.testing.assert_close(prob_SK[1, 0], rates_SK[1, 0])
    torch.testing.assert_close(prob_SK[1, 1], torch.tensor(0.5, dtype=torch.float64))  # the other surface's rate


def test_heads_start_at_shared_base_rates_and_survive_rates_of_zero_and_one() -> None:
    heads = DomainHeads(2, 3, 5)
    heads.init_bias(torch.tensor([0.2, 0.0, 1.0]))
    prob = torch.sigmoid(heads(torch.zeros(1, 5), torch.tensor([1])))[0]
    torch.testing.assert_close(prob, torch.tensor([0.2, 1e-6, 1 - 1e-6]), rtol=0, atol=1e-6)


def test_an_objective_without_any_rate_keeps_its_biases() -> None:
    heads = DomainHeads(2, 2, 5)
    heads.init_bias(torch.tensor([[0.1, 0.5], [0.3, 0.5]]))
    before = heads.bias_SK[:, 0].clone(), heads.shared.bias[0].clone()
    heads.init_bias(torch.tensor([[float("nan"), 0.2], [float("nan"), float("nan")]]))
    assert torch.equal(heads.bias_SK[:, 0], before[0])
    assert torch.equal(heads.shared.bias[0], before[1])
    torch.testing.assert_close(torch.sigmoid(heads.shared.bias[1]), torch.tensor(0.2))
