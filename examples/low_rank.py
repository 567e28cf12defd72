"""Low rank as a custom family: the singular values of each group are shrunk (WNNM, weighted nuclear norm).

    python examples/low_rank.py    measure it on a photograph, beside the package's methods

Similar patches are close to a matrix of low rank.  Gu, Zhang, Zuo and Feng (CVPR 2014) minimise
½|Y - X|² + Σ wᵢ sᵢ(X) over X, with weights wᵢ = 2 c √m σ² / sᵢ(X) that spare large singular values.  The minimum
has a closed form.  They repeat this in rounds that return some of the noise to the image, as `Rounds` does here.

This is no member of the package's families: Θ is chosen by a prior, and the pilot has no part in it, so that both steps
are the same function.  It has no kernel either, since a singular value decomposition is not a short one.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import nlridge


@dataclass(frozen=True)
class LowRank(nlridge.Family):
    """The family of weighted nuclear norms.

    Parameters
    ----------
    strength : float
        The constant c of the weights; 2√2 in the paper.
    """

    strength: float = 2 * 2**0.5

    @property
    def pilot(self):
        return nlridge.Estimator(partial(shrink, strength=self.strength))

    refine = pilot


def shrink(Y, X, noise, strength):
    """The formula: around the mean patch, Y = U diag(s) V' becomes U diag(ŝ) V'.

    With the weight w = 2 c √m σ² / ŝ, the larger solution of ŝ = s - w is ŝ = (s + √(s² - 8 c √m σ²)) / 2; where
    there is none, ŝ = 0.
    """
    m = Y.shape[-1]
    variance = noise.in_patches(Y).mean(axis=-1) / Y.shape[-2]
    mean = Y.mean(axis=-1, keepdims=True)
    # U and s², the eigenvectors of a small matrix, take a third of the time of a singular value decomposition.
    squares, U = np.linalg.eigh((Y - mean) @ (Y - mean).mT)
    rest = 1 - 8 * strength * np.sqrt(m) * variance[..., None] / np.maximum(squares, 1e-12)
    share = np.where(rest > 0, (1 + np.sqrt(np.maximum(rest, 0))) / 2, 0)
    denoised = mean + (U * share[..., None, :]) @ (U.mT @ (Y - mean))
    # What is left of the noise: that of the mean patch, and of the directions that are kept.
    left = variance * (1 + np.sum(share**2, axis=-1)) / m
    return denoised, np.repeat(1 / left[..., None], m, axis=-1)


def recipe(sigma):
    """Settings for a noise level on a scale of 0 to 255: patches and groups of the paper, fewer rounds, larger strides."""
    patch, group = (6, 70) if sigma <= 20 else (7, 90) if sigma <= 40 else (8, 120)
    step = nlridge.Step(patch, group, stride=patch // 2, window=41)
    return nlridge.Recipe(LowRank(), step, step, nlridge.Rounds(3, keep=0.4, blend=0.5))


def main():
    from comparing import compare

    compare({"low rank": recipe(25), "nl-ridge": "nl-ridge", "best": "best"})


if __name__ == "__main__":
    main()
