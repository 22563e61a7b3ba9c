"""What a model costs: forward FLOPs an example and parameters, counted in one way for every model (ours)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import nn
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode
from torchrec.modules.embedding_modules import EmbeddingCollection

from gem_pipeline.batches.batch import Batch


@dataclass(frozen=True, kw_only=True, slots=True)
class ParameterCount:
    """Parameters of a model.

    Attributes:
        dense: everything outside the embedding tables.
        embedding: entries of the embedding tables.
    """

    dense: int
    embedding: int


def forward_flops(model: nn.Module, batch: Batch) -> float:
    """Count the matrix FLOPs of one forward pass, an example (a multiply-add is 2).

    Attention runs as plain matrix products for the count: fused CPU attention has no formula in the
    counter. Padding of short rows up to the longest row of the batch is counted, look-ups are not.

    Args:
        model: takes a `Batch`.
        batch: B examples, B at least 1.

    Returns:
        FLOPs divided by B.
    """
    counter = FlopCounterMode(display=False)
    learning = [parameter for parameter in model.parameters() if parameter.requires_grad]
    try:
        for parameter in learning:  # the counter hooks into gradients, which a pass without them does not have
            parameter.requires_grad_(False)
        with torch.no_grad(), sdpa_kernel(SDPBackend.MATH), counter:
            model(batch)
    finally:
        for parameter in learning:
            parameter.requires_grad_(True)
    return counter.get_total_flops() / batch.size


def without_storage(model: nn.Module) -> nn.Module:
    """Give a model that was built on the meta device weights that take no memory: one zero each, seen as a whole.

    Its costs can then be counted on a batch, whatever its size; its answers mean nothing.
    """
    for module in model.modules():
        for name, parameter in list(module.named_parameters(recurse=False)):
            blank = torch.zeros(1).expand(parameter.shape)
            module.register_parameter(name, nn.Parameter(blank, requires_grad=False))
        for name, buffer in list(module.named_buffers(recurse=False)):
            module.register_buffer(name, torch.zeros(1, dtype=buffer.dtype).expand(buffer.shape))
    return model


def count_parameters(model: nn.Module) -> ParameterCount:
    """Count parameters, embedding tables apart from the rest."""
    total = sum(parameter.numel() for parameter in model.parameters())
    tables = [module for module in model.modules() if isinstance(module, EmbeddingCollection)]
    embedding = sum(parameter.numel() for table in tables for parameter in table.parameters())
    return ParameterCount(dense=total - embedding, embedding=embedding)
