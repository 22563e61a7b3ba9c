"""Scaling laws of NE: against compute, and against size and data.

NE(C) = NE0 - eta ln(C / C0), natural logarithm, C0 the geometric mean of the computes (Kunlun, arXiv 2602.10016, gives
the form): eta is the NE gained by an e-fold of compute. NE(N, D) = E + A / N^a + B / D^b (Hoffmann et al., 2022,
arXiv 2203.15556, approach 3), least squares on NE itself.

Intervals (ours): computes, sizes and amounts are chosen, not drawn, so residuals are resampled and points are not. A
replicate's residuals are scaled by sqrt(df / chi2_df): few points know their own noise badly (Student's t).

P points, R replicates.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import least_squares

from gem_pipeline.errors import ConfigError
from gem_pipeline.metrics.intervals import BootstrapConfig, percentile_interval
from gem_pipeline.metrics.rows import FloatArray
from gem_pipeline.metrics.state import Estimate

LOG_LAW_LEVELS = 3  # distinct computes that a straight line needs for a residual
SIZE_DATA_POINTS, SIZE_DATA_LEVELS = 7, 3  # five parameters and two to spare; distinct sizes, and amounts of data
EXPONENTS = (0.02, 3.0)
SOLVER_STEPS = 100
STARTS = ((0.3, 0.3), (0.1, 0.5), (0.5, 0.1), (1.0, 1.0), (0.05, 0.05))


@dataclass(frozen=True, kw_only=True)
class LogLaw:
    """NE(C) = NE0 - eta ln(C / C0).

    Attributes:
        c0: C0, FLOPs.
        ne0: NE at C0.
        eta: NE gained by an e-fold of compute; above 0: compute helps.
        draw_R2: NE0 and eta of every replicate.
        noise_R: a residual drawn for every replicate.
        level: coverage of the intervals.
    """

    c0: float
    ne0: float
    eta: float
    draw_R2: FloatArray
    noise_R: FloatArray
    level: float

    @property
    def eta_interval(self) -> Estimate:
        """Eta with its interval."""
        return percentile_interval(self.eta, self.draw_R2[:, 1], level=self.level)

    def at(self, compute: float) -> float:
        """NE of the fit."""
        return self.ne0 - self.eta * float(np.log(compute / self.c0))

    def prediction(self, compute: float) -> Estimate:
        """NE of a training that was not seen, its own residual included in the interval."""
        drawn_R = self.draw_R2[:, 0] - self.draw_R2[:, 1] * np.log(compute / self.c0) + self.noise_R
        return percentile_interval(self.at(compute), drawn_R, level=self.level)


def fit_log_law(compute_P: ArrayLike, ne_P: ArrayLike, *, config: BootstrapConfig) -> LogLaw:
    """Fit a straight line to NE over ln C.

    Args:
        compute_P: FLOPs of each training, above 0; a seed is a point of its own, shape [P].
        ne_P: NE of each, shape [P].
        config: replicates, level and seed.

    Raises:
        ConfigError: shapes differ, a value is not finite, or there are fewer than three distinct computes.
    """
    computes_P, values_P = _checked(compute_P, ne_P)
    _at_least(computes_P, LOG_LAW_LEVELS, "computes")
    c0 = float(np.exp(np.log(computes_P).mean()))
    design_P2 = np.stack([np.ones_like(computes_P), -np.log(computes_P / c0)], axis=1)
    solve_2P = np.linalg.pinv(design_P2)
    ne0, eta = solve_2P @ values_P
    fitted_P = design_P2 @ np.array([ne0, eta])
    noise_RP, own_R = _noise(values_P - fitted_P, parameters=2, config=config)
    draw_R2 = (fitted_P + noise_RP) @ solve_2P.T
    return LogLaw(c0=c0, ne0=float(ne0), eta=float(eta), draw_R2=draw_R2, noise_R=own_R, level=config.level)


def ratio_of_etas(own: LogLaw, other: LogLaw) -> Estimate:
    """Scaling efficiency: eta over the eta of another architecture; replicates where the other has none are infinite.

    Source: Kunlun, arXiv 2602.10016, whose efficiency is eta / eta of the baseline.
    """
    other_R = other.draw_R2[:, 1]
    drawn_R = np.where(other_R > 0.0, own.draw_R2[:, 1] / np.where(other_R > 0.0, other_R, 1.0), np.inf)
    tail = (1.0 - own.level) / 2.0
    low, high = np.quantile(drawn_R, [tail, 1.0 - tail], method="nearest")
    value = own.eta / other.eta if other.eta > 0.0 else float("inf")
    return Estimate(value=value, low=min(float(low), value), high=max(float(high), value))


@dataclass(frozen=True, kw_only=True)
class SizeDataLaw:
    """NE(N, D) = E + A (N / N0)^-a + B (D / D0)^-b with N0 and D0 the geometric means.

    Attributes:
        n0: N0, parameters.
        d0: D0, examples.
        theta_5: E, A, a, B, b.
        draw_R5: the same for every replicate.
        noise_R: a residual drawn for every replicate.
        level: coverage of the intervals.
    """

    n0: float
    d0: float
    theta_5: FloatArray
    draw_R5: FloatArray
    noise_R: FloatArray
    level: float

    @property
    def floor(self) -> Estimate:
        """E, NE of endless size and data."""
        return self._interval(0)

    @property
    def size_exponent(self) -> Estimate:
        """The exponent a."""
        return self._interval(2)

    @property
    def data_exponent(self) -> Estimate:
        """The exponent b."""
        return self._interval(4)

    def at(self, parameters: ArrayLike, examples: ArrayLike) -> FloatArray:
        """NE of the fit, element by element."""
        return _size_data(self.theta_5, np.asarray(parameters) / self.n0, np.asarray(examples) / self.d0)

    def prediction(self, parameters: float, examples: float) -> Estimate:
        """NE of a training that was not seen, its own residual included in the interval."""
        drawn_R = _size_data(self.draw_R5.T, parameters / self.n0, examples / self.d0) + self.noise_R
        return percentile_interval(float(self.at(parameters, examples)), drawn_R, level=self.level)

    def optimal_split(self, compute: float, *, flops_per_pair: float) -> Split:
        """Size and data of the least NE with C = k N D.

        Args:
            compute: C, FLOPs.
            flops_per_pair: k, FLOPs a parameter and example.
        """
        n_R, d_R = _split(self.draw_R5.T, compute / (flops_per_pair * self.n0 * self.d0))
        n, d = _split(self.theta_5, compute / (flops_per_pair * self.n0 * self.d0))
        share_R = self.draw_R5[:, 4] / (self.draw_R5[:, 2] + self.draw_R5[:, 4])
        share = float(self.theta_5[4] / (self.theta_5[2] + self.theta_5[4]))
        return Split(
            parameters=percentile_interval(float(n) * self.n0, n_R * self.n0, level=self.level),
            examples=percentile_interval(float(d) * self.d0, d_R * self.d0, level=self.level),
            size_share=percentile_interval(share, share_R, level=self.level),
        )

    def _interval(self, place: int) -> Estimate:
        return percentile_interval(float(self.theta_5[place]), self.draw_R5[:, place], level=self.level)


@dataclass(frozen=True, kw_only=True, slots=True)
class Split:
    """How compute is best spent.

    Attributes:
        parameters: N.
        examples: D.
        size_share: b / (a + b), the power of compute with which the best size grows.
    """

    parameters: Estimate
    examples: Estimate
    size_share: Estimate


def fit_size_data_law(
    parameters_P: ArrayLike, examples_P: ArrayLike, ne_P: ArrayLike, *, config: BootstrapConfig
) -> SizeDataLaw:
    """Fit the law of size and data by least squares from several starts; replicates start at the fit.

    Args:
        parameters_P: N of each training, above 0, shape [P].
        examples_P: D, examples seen, above 0, shape [P].
        ne_P: NE of each, shape [P].
        config: replicates, level and seed.

    Raises:
        ConfigError: shapes differ, a value is not finite, or points, sizes or amounts of data are too few.
    """
    sizes_P, values_P = _checked(parameters_P, ne_P)
    amounts_P, _ = _checked(examples_P, ne_P)
    _at_least(sizes_P, SIZE_DATA_LEVELS, "sizes")
    _at_least(amounts_P, SIZE_DATA_LEVELS, "amounts of data")
    if values_P.size < SIZE_DATA_POINTS:
        raise ConfigError(
            f"A law of size and data was asked for from {values_P.size} points.", remedy="Measure at least 7 points."
        )
    n0, d0 = (float(np.exp(np.log(x).mean())) for x in (sizes_P, amounts_P))
    n_P, d_P = sizes_P / n0, amounts_P / d0
    spread = max(float(np.ptp(values_P)), 1e-9)
    starts = [np.array([values_P.min() - spread, spread, a, spread, b]) for a, b in STARTS]
    theta_5 = min((_solve(start, n_P, d_P, values_P) for start in starts), key=lambda found: found[1])[0]
    fitted_P = _size_data(theta_5, n_P, d_P)
    noise_RP, own_R = _noise(values_P - fitted_P, parameters=5, config=config)
    draw_R5 = np.stack([_solve(theta_5, n_P, d_P, fitted_P + noise_P)[0] for noise_P in noise_RP])
    return SizeDataLaw(n0=n0, d0=d0, theta_5=theta_5, draw_R5=draw_R5, noise_R=own_R, level=config.level)


def _size_data(theta_5: FloatArray, n: FloatArray | float, d: FloatArray | float) -> FloatArray:
    floor, size, a, data, b = theta_5
    return np.asarray(floor + size * n**-a + data * d**-b)


def _solve(start_5: FloatArray, n_P: FloatArray, d_P: FloatArray, ne_P: FloatArray) -> tuple[FloatArray, float]:
    """Parameters of the least squares and the sum of squares; coefficients and exponents by their logarithms."""
    least, most = np.log(EXPONENTS)
    low_5 = np.array([0.0, np.log(1e-8), least, np.log(1e-8), least])
    high_5 = np.array([max(float(ne_P.min()), 1e-6), np.log(10.0), most, np.log(10.0), most])

    def opened(x_5: FloatArray) -> FloatArray:
        return np.concatenate([x_5[:1], np.exp(x_5[1:])])

    first_5 = np.concatenate([start_5[:1], np.log(np.maximum(start_5[1:], 1e-12))])
    first_5 = np.clip(first_5, low_5 + 1e-9, high_5 - 1e-9)

    def slopes(x_5: FloatArray) -> FloatArray:
        _, size, a, data, b = opened(x_5)
        by_size_P, by_data_P = size * n_P**-a, data * d_P**-b
        log_n_P, log_d_P = np.log(n_P), np.log(d_P)
        return np.stack(
            [np.ones_like(n_P), by_size_P, -a * log_n_P * by_size_P, by_data_P, -b * log_d_P * by_data_P], axis=1
        )

    found = least_squares(
        lambda x_5: _size_data(opened(x_5), n_P, d_P) - ne_P, first_5, jac=slopes, bounds=(low_5, high_5),
        x_scale="jac", xtol=1e-9, ftol=1e-9, gtol=1e-12, max_nfev=SOLVER_STEPS,
    )  # fmt: skip
    return opened(found.x), float(found.cost)


def _split(theta_5: FloatArray, product: float) -> tuple[FloatArray, FloatArray]:
    """Sizes and amounts of the least A n^-a + B d^-b with n d fixed: there a A n^-a = b B d^-b."""
    _, size, a, data, b = theta_5
    n = np.asarray((a * size / (b * data)) ** (1.0 / (a + b)) * product ** (b / (a + b)))
    return n, product / n


def _noise(residual_P: FloatArray, *, parameters: int, config: BootstrapConfig) -> tuple[FloatArray, FloatArray]:
    """Resampled residuals [R, P] and one more a replicate [R], widened for the parameters and for few points."""
    generator = np.random.default_rng(config.seed)
    points, degrees = residual_P.size, max(residual_P.size - parameters, 1)
    centred_P = (residual_P - residual_P.mean()) * np.sqrt(points / degrees)
    place_RP = generator.integers(points, size=(config.resamples, points + 1))
    scale_R1 = np.sqrt(degrees / generator.chisquare(degrees, size=(config.resamples, 1)))
    drawn_RP = centred_P[place_RP] * scale_R1
    return drawn_RP[:, :-1], drawn_RP[:, -1]


def _checked(amount_P: ArrayLike, ne_P: ArrayLike) -> tuple[FloatArray, FloatArray]:
    amounts_P, values_P = np.asarray(amount_P, dtype=np.float64), np.asarray(ne_P, dtype=np.float64)
    if amounts_P.ndim != 1 or amounts_P.shape != values_P.shape:
        raise ConfigError(
            f"Points have the shapes {amounts_P.shape} and {values_P.shape}.", remedy="Give one NE a training."
        )
    if not (np.isfinite(values_P).all() and np.isfinite(amounts_P).all() and (amounts_P > 0.0).all()):
        raise ConfigError("A point has no finite NE or no positive amount.", remedy="Leave out what was not measured.")
    return amounts_P, values_P


def _at_least(amount_P: FloatArray, least: int, what: str) -> None:
    found = np.unique(amount_P).size
    if found < least:
        raise ConfigError(f"A law was asked for from {found} distinct {what}.", remedy=f"Measure at least {least}.")
