"""What is known of support stays; only what has enough of it is heard. Counting is tested where ids are read."""

from __future__ import annotations

import torch
from torch import Tensor

from gem_pipeline.batches.batch import Batch
from gem_pipeline.models.support import EXAMPLES, Support, Supported
from tests.batches_factory import random_batch, small_layout


class Heard(Supported[str]):
    """Three features whose ids are always the same: a is seen thrice with one id, b with two, c never."""

    def occurrences(self, batch: Batch) -> tuple[Tensor, Tensor]:
        return torch.tensor([0, 0, 0, 1, 1, 1, 1]), torch.tensor([7, 7, 7, 1, 2, 2, 2])


def test_what_is_known_of_a_feature_stays_and_what_is_not_is_learnt_later():
    module = Heard(("a", "b", "c"))
    module.fit(torch.tensor([40.0, float("inf"), 2.0]))
    assert not module.is_fitted
    module.fit(torch.tensor([1.0, 3.0, 90.0]))
    assert module.support_F.tolist() == [40.0, 3.0, 2.0]
    assert module.is_fitted


def test_examples_are_counted_over_batches_for_each_id():
    module, batch = Heard(("a", "b", "c")), random_batch(small_layout(), [0])
    support = Support(module)
    for _ in range(11):
        support.add(batch)
    support.fix()
    assert module.support_F.tolist() == [33.0, 22.0, float("inf")]
    assert module.is_heard().tolist() == [True, False, True]  # c is judged once it is seen


def test_the_largest_are_named_in_order_among_what_is_heard():
    module = Heard(("a", "b", "c"))
    module.fit(torch.tensor([EXAMPLES, EXAMPLES - 0.5, 99.0]))
    assert list(module.largest(torch.tensor([1.0, 9.0, 2.0]), 3)) == ["c", "a"]
    assert module.largest(torch.tensor([1.0, 9.0, 2.0]), 1) == {"c": 2.0}
