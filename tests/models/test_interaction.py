"""Every interaction is built by its name and says how wide its answer is."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from gem_pipeline.models.dcn import CrossNetwork
from gem_pipeline.models.din import TargetAttention
from gem_pipeline.models.dlrm import DotInteraction
from gem_pipeline.models.foundation import FoundationModel
from gem_pipeline.models.foundation_config import FoundationConfig
from gem_pipeline.models.interaction import INTERACTIONS, interaction
from gem_pipeline.models.trunk import Trunk
from tests.batches_factory import random_batch, small_layout

KINDS = {"interleaved": Trunk, "dlrm": DotInteraction, "dcnv2": CrossNetwork, "din": TargetAttention}


@pytest.mark.parametrize("name", INTERACTIONS)
def test_a_name_stands_for_one_interaction_and_a_model_scores_with_it(name):
    config = replace(FoundationConfig(dim=8), interaction=name)
    assert type(interaction(4, small_layout(), config)) is KINDS[name]
    torch.manual_seed(0)
    model = FoundationModel(small_layout(), config)
    assert model(random_batch(small_layout(), [2, 0])).logit_BK.shape == (2, 2)
    assert set(KINDS) == set(INTERACTIONS)
