"""Rows are cut into tiles that know their row, also behind empty rows."""

from __future__ import annotations

from tests.kernels.triton_parity import check_interpreted


def test_tiles_know_their_row_and_fit_the_hardware() -> None:
    check_interpreted("tiles")
