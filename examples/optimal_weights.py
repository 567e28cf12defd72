"""Optimal weights as a custom family: means of similar patches whose weights minimise a bound of the risk.

    python examples/optimal_weights.py    measure it on a photograph, beside NL-means

Jin, Grama and Liu (J. Math. Imaging Vision, 2017) bound the risk of a weighted mean by a squared bias and a variance,
(Σ wₖ ρₖ)² + σ² Σ wₖ², where ρₖ is how far patch k is from the reference beyond what noise explains.  The weights that
minimise it are a triangle, wₖ ~ max(1 - ρₖ / a, 0), whose width a has a closed form.  So there is no bandwidth to
choose, unlike in NL-means (examples/nl_means.py).  As there, f_Θ(Y) = YΘ, without a second step.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import nlridge


@dataclass(frozen=True)
class OptimalWeights(nlridge.Family):
    """The family of optimal weights.

    Parameters
    ----------
    slack : float
        The distance that counts as noise, as a multiple of the mean distance of patches that differ by noise alone.
    """

    slack: float = 1.0

    @property
    def pilot(self):
        return nlridge.Estimator(partial(average, slack=self.slack))


def average(Y, X, noise, slack):
    """The formula, with ρ_kj = max(d_kj - √2 σ, 0) for the root mean squared difference d_kj of two patches."""
    n = Y.shape[-2]
    variances = noise.in_patches(Y) / n
    both_variances = variances[..., :, None] + variances[..., None, :]
    squares = np.sum(Y**2, axis=-2)
    distances = (squares[..., :, None] + squares[..., None, :] - 2 * Y.mT @ Y) / n
    rho = np.sqrt(np.maximum(distances, 0)) - slack * np.sqrt(both_variances)
    theta = triangle(np.maximum(rho, 0), variances[..., None, :])
    return Y @ theta, 1 / np.sum(theta**2 * variances[..., None], axis=-2)


def triangle(rho, variance):
    """The weights of each column of ρ, which sum to 1.

    a is where Σ ρₖ max(a - ρₖ, 0) = σ²: (σ² + Σ ρₖ²) / Σ ρₖ, over the largest number of smallest ρₖ that are all
    below it.
    """
    ordered = np.sort(rho, axis=-2)
    sums = np.maximum(np.cumsum(ordered, axis=-2), 1e-9)
    widths = (variance + np.cumsum(ordered**2, axis=-2)) / sums
    number = np.sum(widths >= ordered, axis=-2, keepdims=True)
    width = np.take_along_axis(widths, number - 1, axis=-2)
    weights = np.maximum(1 - rho / width, 0)
    return weights / weights.sum(axis=-2, keepdims=True)


def recipe(sigma):
    """Settings for a noise level on a scale of 0 to 255."""
    patch, group = (7, 64) if sigma <= 20 else (9, 80) if sigma <= 40 else (11, 96)
    return nlridge.Recipe(
        OptimalWeights(), nlridge.Step(patch, group, stride=patch // 2, window=31)
    )


def main():
    import nl_means
    from comparing import compare

    means = nlridge.Recipe(nl_means.NLMeans(), nl_means.SETTINGS)
    compare({"optimal weights": recipe(25), "NL-means": means})


if __name__ == "__main__":
    main()
