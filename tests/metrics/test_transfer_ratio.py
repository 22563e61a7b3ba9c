"""The transfer ratio is the student's share of the teacher's gain, where there is a gain to share."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.intervals import BootstrapConfig
from gem_pipeline.metrics.ne import log_losses
from gem_pipeline.metrics.state import Estimate, MetricState
from gem_pipeline.metrics.transfer_ratio import transfer_ratio
from tests.metrics.scored_rows import sigmoid, simulated_rows

QUICK = BootstrapConfig(resamples=60, auc_resamples=20)
ROWS, LOGIT_N = simulated_rows(0, num_rows=2000)
TEACHER = sigmoid(LOGIT_N)
ALONE = np.full(len(TEACHER), ROWS.label_N.mean())
TAUGHT = sigmoid(0.5 * LOGIT_N - 0.3)


def ratio(alone, taught, teacher, order=slice(None)):
    return transfer_ratio(
        ROWS.label_N[order], alone_N=alone[order], taught_N=taught[order], teacher_N=teacher[order],
        user_N=ROWS.user_N[order], config=QUICK,
    )  # fmt: skip


def loss(prob_N):
    return log_losses(ROWS.label_N, prob_N).sum()


def test_a_student_that_equals_its_teacher_got_everything():
    found = ratio(ALONE, TEACHER, TEACHER)
    assert (found.value, found.low, found.high) == pytest.approx((1, 1, 1))


def test_a_student_that_equals_the_one_without_teacher_got_nothing():
    found = ratio(ALONE, ALONE, TEACHER)
    assert (found.value, found.low, found.high) == (0, 0, 0)


def test_a_student_in_between_got_its_share_of_the_fall_in_loss():
    found = ratio(ALONE, TAUGHT, TEACHER)
    assert found.value == pytest.approx((loss(ALONE) - loss(TAUGHT)) / (loss(ALONE) - loss(TEACHER)))
    assert 0 < found.low < found.value < found.high < 1


def test_a_student_that_the_teacher_harmed_has_a_negative_ratio():
    found = ratio(TAUGHT, ALONE, TEACHER)
    assert found.high < 0


@pytest.mark.parametrize("teacher", [ALONE, np.full(len(ALONE), 0.01)], ids=["equal", "worse"])
def test_a_teacher_that_is_not_better_has_nothing_to_give(teacher):
    assert ratio(ALONE, TAUGHT, teacher) is MetricState.NO_TEACHER_GAIN


def test_a_gain_that_could_be_chance_is_no_gain():
    few = np.arange(6)
    assert ratio(ALONE, TAUGHT, TEACHER, few) is MetricState.NO_TEACHER_GAIN


@settings(max_examples=10)
@given(st.integers(0, 10_000))
def test_the_order_of_the_rows_does_not_matter(seed):
    found = ratio(ALONE, TAUGHT, TEACHER, np.random.default_rng(seed).permutation(len(ALONE)))
    expected = ratio(ALONE, TAUGHT, TEACHER)
    assert isinstance(found, Estimate)
    assert (found.value, found.low, found.high) == pytest.approx((expected.value, expected.low, expected.high))


def test_no_rows_are_a_state_and_rows_that_do_not_fit_an_error():
    assert ratio(ALONE, TAUGHT, TEACHER, slice(0)) is MetricState.NO_ROWS
    with pytest.raises(ConfigError):
        ratio(ALONE[:-1], TAUGHT, TEACHER)
