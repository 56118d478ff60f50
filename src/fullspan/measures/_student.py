"""The tail of Student's t: how often chance alone goes so far."""

from __future__ import annotations

import math

__all__ = ["student_tail"]


def student_tail(t: float, degrees: float) -> float:
    """Probability that \\|T\\| exceeds \\|t\\|, for any positive degrees of freedom; infinity gives the normal law.

    Notes
    -----
    The regularized incomplete beta function by its continued fraction: small probabilities keep their digits.
    Equivalent: ``2 * scipy.stats.t.sf(abs(t), degrees)``.

    References
    ----------
    Abramowitz and Stegun 1964, 26.5.8 and 26.7.1.
    """
    if math.isinf(degrees):
        return math.erfc(abs(t) / math.sqrt(2.0))
    near = t * t / (degrees + t * t)  # 1 - x, without its cancellation
    x = degrees / (degrees + t * t)
    if x < (degrees / 2 + 1) / (degrees / 2 + 2.5):
        return _incomplete_beta(x, near, degrees / 2, 0.5)
    return 1.0 - _incomplete_beta(near, x, 0.5, degrees / 2)


def _incomplete_beta(x: float, rest: float, a: float, b: float) -> float:
    """I_x(a, b), where `rest` is 1 - x; by Lentz's method, quick for x below (a + 1) / (a + b + 2)."""
    if x == 0.0:
        return 0.0
    front = a * math.log(x) + b * math.log(rest) + math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    value = d
    for m in range(1, 1000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for step in (even, odd):
            d, c = 1.0 / (1.0 + step * d), 1.0 + step / c
            value *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return math.exp(front) * value / a
