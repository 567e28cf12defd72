"""PEWA as a custom family: weakly denoised patches, averaged with weights from Stein's unbiased risk estimate.

    python examples/pewa.py    measure it on a photograph, beside NL-means

Kervrann (NIPS 2014) averages candidates u for a noisy patch y with weights w(u) ~ exp(-SURE(u) / β), where

    SURE(u) = |y - u|² - n σ² + 2 σ² div(u),    β = temperature σ².

Candidates are all patches of the group, each denoised by several thresholds in the cosine transform.  For the patch at
the same place, div(u) is the number of coefficients that are kept.  The others count as independent of y, also where
they overlap, so that their div(u) is 0.
The second step has the result of the first as one more version of each patch; its divergence is neglected.

The original draws candidates from a window at random; here the sum over the group is computed.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np
from scipy.fft import dctn, idctn

import nlridge


@dataclass(frozen=True)
class PEWA(nlridge.Family):
    """The family of exponentially weighted candidates.

    Parameters
    ----------
    temperature : float
        β as a multiple of σ².  Larger values weight candidates more evenly.
    thresholds : tuple of float
        Thresholds of the cosine transform, as multiples of σ.
    """

    temperature: float = 8.0
    thresholds: tuple[float, ...] = (2.0, 2.7)

    @property
    def pilot(self):
        return self._estimator(guided=False)

    @property
    def refine(self):
        return self._estimator(guided=True)

    def _estimator(self, guided):
        options = {"temperature": self.temperature, "thresholds": self.thresholds}
        return nlridge.Estimator(partial(aggregate, guided=guided, **options))


def aggregate(Y, X, noise, temperature, thresholds, guided):
    """The formula: each patch becomes the mean of all candidates with its weights."""
    variances = noise.in_patches(Y) / Y.shape[-2]
    versions = [weak(Y, threshold * np.sqrt(variances)) for threshold in thresholds]
    if guided:
        versions.append((X, np.zeros(variances.shape)))
    risks = [risk(Y, U, divergence, variances) for U, divergence in versions]
    theta = exponential(np.concatenate(risks, axis=-2), temperature * variances[..., None, :])
    denoised = np.concatenate([U for U, _ in versions], axis=-1) @ theta
    return denoised, np.ones(variances.shape)


def weak(Y, threshold):
    """Square patches without their coefficients below a threshold, and how many are left of each."""
    side = round(Y.shape[-2] ** 0.5)
    squares = Y.reshape(*Y.shape[:-2], side, side, Y.shape[-1])
    coefficients = dctn(squares, axes=(-3, -2), norm="ortho")
    kept = np.abs(coefficients) >= threshold[..., None, None, :]
    kept[..., 0, 0, :] = True
    return (
        idctn(coefficients * kept, axes=(-3, -2), norm="ortho").reshape(Y.shape),
        np.sum(kept, axis=(-3, -2)),
    )


def risk(Y, U, divergence, variances):
    """SURE of candidate k, a column of U, for patch j, a column of Y."""
    distances = np.sum(U**2, axis=-2)[..., :, None] + np.sum(Y**2, axis=-2)[..., None, :]
    distances = distances - 2 * U.mT @ Y
    here = np.eye(Y.shape[-1]) * (2 * variances * divergence)[..., None, :]
    return distances - Y.shape[-2] * variances[..., None, :] + here


def exponential(risks, beta):
    """Weights exp(-risk / β) of each column, which sum to 1."""
    weights = np.exp((risks.min(axis=-2, keepdims=True) - risks) / beta)
    return weights / weights.sum(axis=-2, keepdims=True)


def recipe(sigma):
    """Settings, which are the same for every noise level."""
    step = nlridge.Step(7, 32, stride=3, window=21)
    return nlridge.Recipe(PEWA(), step, step)


def main():
    import nl_means
    from comparing import compare

    means = nlridge.Recipe(nl_means.NLMeans(), nl_means.SETTINGS)
    compare({"PEWA": recipe(25), "NL-means": means})


if __name__ == "__main__":
    main()
