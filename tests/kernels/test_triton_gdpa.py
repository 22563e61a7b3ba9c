"""The fused GDPA equals the plain one, forward and backward, for every activation."""

from __future__ import annotations

from tests.kernels.triton_parity import check_interpreted


def test_fused_gdpa_equals_the_plain_one_with_its_gradients() -> None:
    check_interpreted("gdpa")
