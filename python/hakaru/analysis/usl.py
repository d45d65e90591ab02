"""The Universal Scalability Law fitted to a sweep: X(N) = λN / (1 + σ(N-1) + κN(N-1)).

σ is the share of work that cannot be done in parallel (contention). κ is the cost of coordination
(coherency), such as requests that disturb each other's order. With κ > 0, a curve falls after its
peak at N = √((1-σ)/κ). N. Gunther, Guerrilla Capacity Planning, 2007. The fit only describes the
curve; utilisation determines the bottleneck.
"""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np

from hakaru.analysis.counters import Floats
from hakaru.analysis.student import quantile

POINTS_MIN = 5  # three parameters and two degrees of freedom


@dataclass(frozen=True)
class Fit:
    """Parameters as (value, low, high) of their 95 % intervals, and the share of the variation that
    the fit explains.
    """

    lambda_: tuple[float, float, float]
    sigma: tuple[float, float, float]
    kappa: tuple[float, float, float]
    r_squared: float

    @property
    def level_at_peak(self) -> float | None:
        """Level at which the fitted curve peaks; None if it never falls."""
        sigma, kappa = self.sigma[0], self.kappa[0]
        return math.sqrt((1 - sigma) / kappa) if kappa > 1e-9 and sigma < 1 else None

    def at(self, level: float) -> float:
        """The fitted rate at a level."""
        return float(usl(np.array([level]), self.lambda_[0], self.sigma[0], self.kappa[0])[0])


def usl(n: Floats, lambda_: float, sigma: float, kappa: float) -> Floats:
    """X(N) for an array of levels."""
    return np.asarray(lambda_ * n / (1 + sigma * (n - 1) + kappa * n * (n - 1)))


def fit(levels: list[float], rates: list[float]) -> Fit | None:
    """The fit; None with fewer than five points, with levels below 1 or rates that are not
    positive, or if it does not converge.
    """
    if len(levels) < POINTS_MIN or min(levels) < 1 or min(rates) <= 0:
        return None
    from scipy import optimize  # takes half a second to import

    n, x = np.array(levels), np.array(rates)
    start = (x[0] / n[0], 0.1, 0.001)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error", optimize.OptimizeWarning)
            fitted, covariance = optimize.curve_fit(usl, n, x, p0=start, bounds=([0, 0, 0], [np.inf, np.inf, np.inf]))
    except (RuntimeError, ValueError, optimize.OptimizeWarning):
        return None
    half = quantile(0.975, len(n) - 3) * np.sqrt(np.diag(covariance))
    if not np.all(np.isfinite(half)):
        return None
    residual, total = np.sum((x - usl(n, *fitted)) ** 2), np.sum((x - np.mean(x)) ** 2)
    triples = [(float(v), max(0.0, float(v - h)), float(v + h)) for v, h in zip(fitted, half, strict=True)]
    return Fit(triples[0], triples[1], triples[2], float(1 - residual / total) if total > 0 else 1.0)
