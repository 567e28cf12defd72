"""PLR as a custom family: the small singular values of each group are dropped (patch-based low-rank minimisation).

    python examples/plr.py    measure it on a photograph, beside the package's methods

Hu, Froment and Liu (2015, arXiv:1506.08353) look for the matrix X near Y, the group around its mean patch, that
minimises |Y - X|² + t² rank(X).  The minimum has a closed form: singular values below t become 0, and the others stay
as they are.  The threshold is t = τ √m σ for m patches.  As m patches of n pixels with noise alone have no singular
value much above (√m + √n) σ, τ = 1.5 suits m = 5 n.

There is one step.  examples/low_rank.py also shrinks the values that are kept, and repeats this in rounds.
"""

from dataclasses import dataclass
from functools import partial

import numpy as np

import nlridge


@dataclass(frozen=True)
class PLR(nlridge.Family):
    """The family of matrices of minimal rank.

    Parameters
    ----------
    threshold : float
        Singular values below threshold √m σ are dropped.
    """

    threshold: float = 1.5

    @property
    def pilot(self):
        return nlridge.Estimator(partial(truncate, threshold=self.threshold))


def truncate(Y, X, noise, threshold):
    """The formula: around the mean patch, Y = U diag(s) V' becomes U diag(s [s ≥ t]) V'."""
    m = Y.shape[-1]
    variance = noise.in_patches(Y).mean(axis=-1) / Y.shape[-2]
    mean = Y.mean(axis=-1, keepdims=True)
    # U and s² are the eigenvectors and eigenvalues of a small matrix.
    squares, U = np.linalg.eigh((Y - mean) @ (Y - mean).mT)
    kept = squares >= threshold**2 * m * variance[..., None]
    denoised = mean + (U * kept[..., None, :]) @ (U.mT @ (Y - mean))
    # What is left of the noise: that of the mean patch, and of the directions that are kept.
    left = variance * (1 + np.sum(kept, axis=-1)) / m
    return denoised, np.repeat(1 / left[..., None], m, axis=-1)


def recipe(sigma):
    """Settings for a noise level on a scale of 0 to 255, with about five times as many patches as pixels in each."""
    patch = 6 if sigma <= 20 else 7 if sigma <= 40 else 8
    return nlridge.Recipe(PLR(), nlridge.Step(patch, 5 * patch**2, stride=patch - 2, window=41))


def main():
    from comparing import compare

    compare({"PLR": recipe(25), "nl-ridge": "nl-ridge", "best": "best"})


if __name__ == "__main__":
    main()
